/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a safetensors file: the header for all tensors first, then their data in the order of
 * names. The seal in the header is the header's checksum, computed while the seal itself is
 * zeros. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json_doc.h"
#include "json/json_write.h"
#include "checkpoint/safetensors.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are written as they lie in memory");

static const struct {
    const char *name;
    size_t bytes;
} dtypes[SAFETENSORS_DTYPE_COUNT] = {
    [SAFETENSORS_F32] = {"F32", 4},   [SAFETENSORS_F64] = {"F64", 8},
    [SAFETENSORS_F16] = {"F16", 2},   [SAFETENSORS_BF16] = {"BF16", 2},
    [SAFETENSORS_I64] = {"I64", 8},   [SAFETENSORS_I32] = {"I32", 4},
    [SAFETENSORS_I16] = {"I16", 2},   [SAFETENSORS_I8] = {"I8", 1},
    [SAFETENSORS_U64] = {"U64", 8},   [SAFETENSORS_U32] = {"U32", 4},
    [SAFETENSORS_U16] = {"U16", 2},   [SAFETENSORS_U8] = {"U8", 1},
    [SAFETENSORS_BOOL] = {"BOOL", 1},
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t safetensors_dtype_bytes(enum safetensors_dtype dtype)
{
    return dtypes[dtype].bytes;
}

bool safetensors_tensor_bytes(const struct safetensors_tensor *t, uint64_t *bytes)
{
    uint64_t n = safetensors_dtype_bytes(t->dtype);
    if (t->rank > SAFETENSORS_RANK_MAX) {
        return false;
    }
    for (size_t i = 0; i < t->rank; i++) {
        if (__builtin_mul_overflow(n, t->dims[i], &n)) {
            return false;
        }
    }
    *bytes = n;
    return n <= INT64_MAX;
}

static int check_name(const struct safetensors_tensor *t, size_t index, struct err *err)
{
    size_t n = strlen(t->name);
    if (n == 0 || n > SAFETENSORS_NAME_BYTES_MAX || !text_is_utf8(t->name, n) ||
        strcmp(t->name, "__metadata__") == 0) {
        return err_set(err, ERR_INVALID, "tensor %zu: its name must be 1 to %d bytes of UTF-8",
                       index, SAFETENSORS_NAME_BYTES_MAX);
    }
    return 0;
}

struct sorting { /* one tensor in the making of the order */
    const char *name;
    size_t index;
};

static int compare_sorting(const void *a, const void *b)
{
    const struct sorting *x = a;
    const struct sorting *y = b;
    return strcmp(x->name, y->name);
}

static int make_order(struct safetensors_writer *w, struct err *err)
{
    struct sorting *sorted = mem_new(w->count, sizeof *sorted);
    int rc = 0;
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        sorted[i] = (struct sorting){w->tensors[i].name, i};
        rc = check_name(&w->tensors[i], i, err);
    }
    if (rc == 0) {
        qsort(sorted, w->count, sizeof *sorted, compare_sorting);
        w->order = mem_new(w->count, sizeof *w->order);
    }
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        w->order[i] = sorted[i].index;
        if (i > 0 && strcmp(sorted[i - 1].name, sorted[i].name) == 0) {
            rc = err_set(err, ERR_INVALID, "tensor %s: the name is used twice", sorted[i].name);
        }
    }
    free(sorted);
    return rc;
}

static int add_meta(const struct safetensors_meta *meta, size_t count, struct buf *out,
                    struct err *err)
{
    if (count == 0) {
        return 0;
    }
    buf_add_str(out, "\"__metadata__\":{");
    for (size_t i = 0; i < count; i++) {
        if (!text_is_utf8(meta[i].key, strlen(meta[i].key)) ||
            !text_is_utf8(meta[i].value, strlen(meta[i].value))) {
            return err_set(err, ERR_INVALID, "metadata %zu: not UTF-8", i);
        }
        buf_add_str(out, i == 0 ? "" : ",");
        json_add_string(out, meta[i].key);
        buf_add_char(out, ':');
        json_add_string(out, meta[i].value);
    }
    buf_add_char(out, '}');
    return 0;
}

static int add_tensors(const struct safetensors_writer *w, bool after_meta, struct buf *out,
                       struct err *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < w->count; i++) {
        const struct safetensors_tensor *t = &w->tensors[w->order[i]];
        uint64_t bytes;
        uint64_t end;
        if (!safetensors_tensor_bytes(t, &bytes) || __builtin_add_overflow(at, bytes, &end)) {
            return err_set(err, ERR_INVALID, "tensor %s: its shape is not possible", t->name);
        }
        buf_add_str(out, i == 0 && !after_meta ? "" : ",");
        json_add_string(out, t->name);
        buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", safetensors_dtype_name(t->dtype));
        for (size_t d = 0; d < t->rank; d++) {
            buf_printf(out, "%s%" PRIu64, d == 0 ? "" : ",", t->dims[d]);
        }
        buf_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
    return 0;
}

static const char SEAL[] = "\"" SAFETENSORS_SEAL "\":\"" SAFETENSORS_SEAL_EMPTY "\"";

static void seal(struct buf *header)
{
    char *at = memmem(header->data, header->len, SEAL, sizeof SEAL - 1);
    if (at != NULL) {
        char digits[17];
        (void)snprintf(digits, sizeof digits, "%016" PRIx64,
                       checksum_of(header->data, header->len));
        memcpy(at + sizeof SEAL - 18, digits, 16);
    }
}

/* The length, the JSON and its padding. */
static int make_header(const struct safetensors_writer *w, const struct safetensors_meta *meta,
                       size_t meta_count, struct buf *out, struct err *err)
{
    uint64_t n = 0;
    buf_add(out, &n, sizeof n);
    buf_add_char(out, '{');
    int rc = add_meta(meta, meta_count, out, err);
    if (rc == 0) {
        rc = add_tensors(w, meta_count > 0, out, err);
    }
    if (rc != 0) {
        return rc;
    }
    buf_add_char(out, '}');
    while (out->len % 8 != 0) {
        buf_add_char(out, ' ');
    }
    n = out->len - sizeof n;
    if (n > SAFETENSORS_HEADER_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "a header of %" PRIu64 " bytes; at most %u", n,
                       SAFETENSORS_HEADER_BYTES_MAX);
    }
    memcpy(out->data, &n, sizeof n);
    seal(out);
    return 0;
}

/* Set the bytes that the current tensor needs, and step over tensors that need none. */
static void enter_tensor(struct safetensors_writer *w)
{
    for (w->left = 0; w->at < w->count; w->at++) {
        (void)safetensors_tensor_bytes(&w->tensors[w->order[w->at]], &w->left);
        if (w->left > 0) {
            return;
        }
    }
}

int safetensors_writer_open(struct safetensors_writer *w, const char *path,
                            const struct safetensors_tensor *tensors, size_t count,
                            const struct safetensors_meta *meta, size_t meta_count, struct err *err)
{
    *w = (struct safetensors_writer){.tensors = tensors, .count = count};
    struct buf header = {0};
    int rc = make_order(w, err);
    if (rc == 0) {
        rc = make_header(w, meta, meta_count, &header, err);
    }
    if (rc == 0) {
        rc = storage_create(&w->file, path, err);
    }
    if (rc == 0) {
        w->sum = checksum_new();
        checksum_add(w->sum, header.data, header.len);
        rc = storage_add(&w->file, header.data, header.len, err);
    }
    buf_release(&header);
    if (rc != 0) {
        safetensors_writer_abort(w);
        return strstr(err->msg, path) != NULL ? rc : err_wrap(err, "write %s", path);
    }
    enter_tensor(w);
    return 0;
}

bool safetensors_writer_next(struct safetensors_writer *w, size_t *index)
{
    if (w->at >= w->count) {
        return false;
    }
    *index = w->order[w->at];
    return true;
}

int safetensors_writer_add(struct safetensors_writer *w, const void *data, size_t bytes,
                           struct err *err)
{
    if (bytes > w->left) {
        return err_set(err, ERR_STATE, "write %s: %zu bytes of data, %" PRIu64 " are expected",
                       w->file.location, bytes, w->left);
    }
    int rc = storage_add(&w->file, data, bytes, err);
    if (rc != 0) {
        return rc;
    }
    checksum_add(w->sum, data, bytes);
    w->left -= bytes;
    if (w->left == 0 && w->at < w->count) {
        w->at++;
        enter_tensor(w);
    }
    return 0;
}

int safetensors_writer_commit(struct safetensors_writer *w, struct safetensors_written *out,
                              struct err *err)
{
    int rc = 0;
    if (w->at < w->count) {
        rc = err_set(err, ERR_STATE, "write %s: the data of %s are missing", w->file.location,
                     w->tensors[w->order[w->at]].name);
    }
    struct safetensors_written written = {0};
    if (rc == 0) {
        written = (struct safetensors_written){w->file.bytes, checksum_value(w->sum)};
        rc = storage_commit(&w->file, err);
    }
    safetensors_writer_abort(w);
    if (rc == 0 && out != NULL) {
        *out = written;
    }
    return rc;
}

void safetensors_writer_abort(struct safetensors_writer *w)
{
    storage_abort(&w->file);
    checksum_free(w->sum);
    free(w->order);
    *w = (struct safetensors_writer){0};
}
