/* SPDX-License-Identifier: Apache-2.0 */
/* Reads safetensors files, ours and those of other programs. Opening checks the whole header
 * (types, shapes, offsets), so a tensor that was found is known to lie inside the file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json_doc.h"
#include "checkpoint/safetensors.h"

/* A copy that lives as long as @f. */
static const char *keep_text(struct safetensors *f, const char *text)
{
    f->texts = mem_grow(f->texts, &f->text_capacity, f->text_count + 1, sizeof *f->texts);
    f->texts[f->text_count] = mem_strdup(text);
    return f->texts[f->text_count++];
}

static int read_meta(struct safetensors *f, const struct json_t *map, struct err *err)
{
    if (!json_doc_is_object(map)) {
        return err_set(err, ERR_CORRUPT, "__metadata__: an object is expected");
    }
    f->meta = mem_new(json_doc_count(map), sizeof *f->meta);
    void *iterator = NULL;
    const struct json_t *value;
    for (const char *key; (key = json_doc_next(map, &iterator, &value)) != NULL;) {
        const char *text = json_doc_text(value);
        if (text == NULL) {
            return err_set(err, ERR_CORRUPT, "__metadata__: %s: text is expected", key);
        }
        f->meta[f->meta_count++] = (struct safetensors_meta){keep_text(f, key), keep_text(f, text)};
    }
    return 0;
}

static int read_dtype(const char *name, enum safetensors_dtype *out, struct err *err)
{
    for (int d = 0; d < SAFETENSORS_DTYPE_COUNT; d++) {
        if (strcmp(safetensors_dtype_name((enum safetensors_dtype)d), name) == 0) {
            *out = (enum safetensors_dtype)d;
            return 0;
        }
    }
    return err_set(err, ERR_CORRUPT, "dtype %.32s is not known", name);
}

static int read_shape(const struct json_t *object, struct safetensors_tensor *t, struct err *err)
{
    const struct json_t *dims;
    int rc = json_doc_array(object, "shape", SAFETENSORS_RANK_MAX, &dims, &t->rank, err);
    for (size_t i = 0; rc == 0 && i < t->rank; i++) {
        if (!json_doc_item_u64(dims, i, &t->dims[i])) {
            rc = err_set(err, ERR_CORRUPT, "shape[%zu]: a whole number from 0 is expected", i);
        }
    }
    return rc;
}

static int read_tensor(const struct json_t *object, struct safetensors_tensor *t, struct err *err)
{
    if (!json_doc_is_object(object)) {
        return err_set(err, ERR_CORRUPT, "an object is expected");
    }
    const char *dtype = NULL;
    const struct json_t *offsets = NULL;
    size_t offset_count = 0;
    int rc = json_doc_string(object, "dtype", &dtype, err);
    if (rc == 0) {
        rc = read_dtype(dtype, &t->dtype, err);
    }
    if (rc == 0) {
        rc = read_shape(object, t, err);
    }
    if (rc == 0) {
        rc = json_doc_array(object, "data_offsets", 2, &offsets, &offset_count, err);
    }
    if (rc != 0) {
        return rc;
    }
    uint64_t end;
    if (offset_count != 2 || !json_doc_item_u64(offsets, 0, &t->first) ||
        !json_doc_item_u64(offsets, 1, &end) || end < t->first) {
        return err_set(err, ERR_CORRUPT, "data_offsets: [begin, end] with begin ≤ end is expected");
    }
    if (!safetensors_tensor_bytes(t, &t->bytes)) {
        return err_set(err, ERR_CORRUPT, "shape: too large");
    }
    if (t->bytes != end - t->first) {
        return err_set(err, ERR_CORRUPT,
                       "dtype and shape give %" PRIu64 " bytes, data_offsets %" PRIu64, t->bytes,
                       end - t->first);
    }
    return 0;
}

static int compare_first(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a;
    const struct safetensors_tensor *y = b;
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty tensors before the one there */
}

static int compare_name(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a;
    const struct safetensors_tensor *y = b;
    return strcmp(x->name, y->name);
}

static int compare_key(const void *a, const void *b)
{
    const struct safetensors_meta *x = a;
    const struct safetensors_meta *y = b;
    return strcmp(x->key, y->key);
}

/* The data must be one run of tensors without gap or overlap up to the end of the file. */
static int check_layout(struct safetensors *f, uint64_t data_bytes, struct err *err)
{
    qsort(f->tensors, f->count, sizeof *f->tensors, compare_first);
    uint64_t at = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct safetensors_tensor *t = &f->tensors[i];
        if (t->first != at) {
            return err_set(
                err, ERR_CORRUPT,
                "tensor %s begins at byte %" PRIu64 " of the data, %s byte %" PRIu64, t->name,
                t->first,
                t->first < at ? "inside the one before, which ends at" : "after a gap from", at);
        }
        if (t->bytes > data_bytes - at) {
            return err_set(err, ERR_CORRUPT,
                           "tensor %s ends at byte %" PRIu64 " of the data, which have %" PRIu64
                           ": the file was cut",
                           t->name, at + t->bytes, data_bytes);
        }
        at += t->bytes;
    }
    if (at != data_bytes) {
        return err_set(err, ERR_CORRUPT, "%" PRIu64 " bytes after the last tensor",
                       data_bytes - at);
    }
    return 0;
}

static int read_members(struct safetensors *f, const struct json_t *root, struct err *err)
{
    f->tensors = mem_new(json_doc_count(root), sizeof *f->tensors);
    void *iterator = NULL;
    const struct json_t *value;
    for (const char *key; (key = json_doc_next(root, &iterator, &value)) != NULL;) {
        if (strcmp(key, "__metadata__") == 0) {
            int rc = read_meta(f, value, err);
            if (rc != 0) {
                return rc;
            }
            continue;
        }
        if (strlen(key) > SAFETENSORS_NAME_BYTES_MAX) {
            return err_set(err, ERR_CORRUPT, "a tensor's name has more than %d bytes",
                           SAFETENSORS_NAME_BYTES_MAX);
        }
        struct safetensors_tensor t = {0};
        int rc = read_tensor(value, &t, err);
        if (rc != 0) {
            (void)err_wrap(err, "tensor %s", key);
            return rc;
        }
        t.name = keep_text(f, key);
        f->tensors[f->count++] = t;
    }
    return 0;
}

static int read_header(struct safetensors *f, uint64_t file_bytes, struct err *err)
{
    uint64_t n = 0;
    if (file_bytes < sizeof n) {
        return err_set(err, ERR_CORRUPT, "%" PRIu64 " bytes are no safetensors file", file_bytes);
    }
    int rc = storage_read_at(&f->file, 0, &n, sizeof n, err);
    if (rc != 0) {
        return rc;
    }
    if (n < 2 || n > SAFETENSORS_HEADER_BYTES_MAX || n > file_bytes - sizeof n) {
        return err_set(err, ERR_CORRUPT,
                       "a header of %" PRIu64 " bytes in a file of %" PRIu64 "; from 2 to %u", n,
                       file_bytes, SAFETENSORS_HEADER_BYTES_MAX);
    }
    char *text = mem_try_aligned((size_t)n, 1, "safetensors header", err);
    if (text == NULL) {
        return ERR_EXHAUSTED;
    }
    struct json_t *root = NULL;
    rc = storage_read_at(&f->file, sizeof n, text, (size_t)n, err);
    if (rc == 0 && text[0] != '{') {
        rc = err_set(err, ERR_CORRUPT, "the header does not begin with {");
    }
    if (rc == 0) {
        rc = json_doc_parse(text, (size_t)n, &root, err);
    }
    if (rc == 0) {
        f->data_first = sizeof n + n;
        rc = read_members(f, root, err);
    }
    if (rc == 0) {
        rc = check_layout(f, file_bytes - f->data_first, err);
    }
    json_doc_free(root);
    free(text);
    return rc;
}

int safetensors_open(struct safetensors *f, const char *path, struct err *err)
{
    struct safetensors made = {0};
    int rc = storage_open(&made.file, path, err);
    if (rc != 0) {
        return rc;
    }
    made.path = mem_strdup(path);
    rc = read_header(&made, made.file.bytes, err);
    if (rc != 0) {
        safetensors_close(&made);
        (void)err_wrap(err, "read %s", path);
        return rc;
    }
    qsort(made.tensors, made.count, sizeof *made.tensors, compare_name);
    if (made.meta_count > 0) {
        qsort(made.meta, made.meta_count, sizeof *made.meta, compare_key);
    }
    *f = made;
    return 0;
}

void safetensors_close(struct safetensors *f)
{
    if (f->path == NULL) {
        return;
    }
    for (size_t i = 0; i < f->text_count; i++) {
        free(f->texts[i]);
    }
    free(f->texts);
    free(f->tensors);
    free(f->meta);
    free(f->path);
    storage_close(&f->file);
    *f = (struct safetensors){0};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *f, const char *name)
{
    struct safetensors_tensor key = {.name = name};
    return f->count == 0 ? NULL
                         : bsearch(&key, f->tensors, f->count, sizeof *f->tensors, compare_name);
}

const char *safetensors_meta_find(const struct safetensors *f, const char *key)
{
    struct safetensors_meta wanted = {.key = key};
    const struct safetensors_meta *found =
        f->meta_count == 0 ? NULL
                           : bsearch(&wanted, f->meta, f->meta_count, sizeof *f->meta, compare_key);
    return found == NULL ? NULL : found->value;
}

int safetensors_check_seal(const struct safetensors *f, struct err *err)
{
    const char *noted = safetensors_meta_find(f, SAFETENSORS_SEAL);
    if (noted == NULL) {
        return 0;
    }
    size_t n = (size_t)f->data_first;
    char *header = mem_new(n, 1);
    char *text = mem_printf("\"" SAFETENSORS_SEAL "\":\"%s\"", noted);
    int rc = storage_read_at(&f->file, 0, header, n, err);
    char *at = rc == 0 ? memmem(header, n, text, strlen(text)) : NULL;
    if (at != NULL && strlen(noted) == 16) {
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): in the middle of a text */
        memcpy(at + strlen(text) - 17, SAFETENSORS_SEAL_EMPTY, 16);
        char sum[17];
        (void)snprintf(sum, sizeof sum, "%016" PRIx64, checksum_of(header, n));
        at = strcmp(sum, noted) == 0 ? at : NULL;
    } else {
        at = NULL;
    }
    if (rc == 0 && at == NULL) {
        rc = err_set(err, ERR_CORRUPT, "the checksum of its header differs: damaged");
    }
    if (rc != 0) {
        (void)err_wrap(err, "read %s", f->path);
    }
    free(text);
    free(header);
    return rc;
}

int safetensors_read(const struct safetensors *f, const struct safetensors_tensor *t,
                     uint64_t first_byte, void *out, size_t bytes, struct err *err)
{
    if (first_byte > t->bytes || bytes > t->bytes - first_byte) {
        return err_set(err, ERR_RANGE,
                       "read %s: %zu bytes from byte %" PRIu64 " of %s, which has %" PRIu64,
                       f->path, bytes, first_byte, t->name, t->bytes);
    }
    int rc = storage_read_at(&f->file, f->data_first + t->first + first_byte, out, bytes, err);
    if (rc != 0) {
        (void)err_wrap(err, "read %s: tensor %s", f->path, t->name);
    }
    return rc;
}
