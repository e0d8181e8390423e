/* SPDX-License-Identifier: Apache-2.0 */
/* IDX, the format of the MNIST files (LeCun, http://yann.lecun.com/exdb/mnist): two zero bytes, a
 * type byte, the rank, the sizes as big-endian 32-bit numbers, then the values, big-endian.
 * Features and labels are in two files. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/format.h"
#include "data/source.h"

#define IDX_RANK_MAX 4
#define IDX_CHUNK_BYTES 65536U /* a multiple of every value size */

struct idx_type {
    uint8_t code;
    uint8_t bytes; /* of one value */
    const char *name;
};

static const struct idx_type types[] = {
    {0x08, 1, "unsigned byte"},  {0x09, 1, "signed byte"}, {0x0B, 2, "16-bit integer"},
    {0x0C, 4, "32-bit integer"}, {0x0D, 4, "float"},       {0x0E, 8, "double"},
};

struct idx_file {
    struct source *source;
    const struct idx_type *type;
    uint64_t header_bytes;
    size_t rank;
    uint64_t dims[IDX_RANK_MAX];
    uint64_t record_values; /* values of one record */
    uint64_t taken;         /* records that were read before */
};

static const struct idx_type *find_type(uint8_t code)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].code == code) {
            return &types[i];
        }
    }
    return NULL;
}

static void idx_look(const uint8_t *head, size_t n, struct format_look *look)
{
    look->lines = 1;
    look->fit = n >= 4 && head[0] == 0 && head[1] == 0 && find_type(head[2]) != NULL;
    look->what = "it begins with the bytes of an IDX file";
}

static uint32_t big_endian_32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int16_t big_endian_16(const uint8_t *p)
{
    return (int16_t)((uint16_t)p[0] << 8 | p[1]);
}

static double decode_value(const struct idx_type *type, const uint8_t *p)
{
    switch (type->code) {
    case 0x08:
        return p[0];
    case 0x09:
        return (int8_t)p[0];
    case 0x0B:
        return big_endian_16(p);
    case 0x0C:
        return (int32_t)big_endian_32(p);
    case 0x0D: {
        uint32_t bits = big_endian_32(p);
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    default: {
        uint64_t bits = (uint64_t)big_endian_32(p) << 32 | big_endian_32(p + 4);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    }
}

/* Read exactly @n bytes of the header. */
static int read_header(struct idx_file *f, uint8_t *out, size_t n, struct err *err)
{
    size_t got;
    int rc = source_read(f->source, out, n, &got, err);
    if (rc == 0 && got < n) {
        rc = err_set(err, ERR_CORRUPT,
                     "%s: the file ends at byte %" PRIu64 ", inside the IDX header",
                     source_path(f->source), source_offset(f->source));
    }
    return rc;
}

static int read_dims(struct idx_file *f, struct err *err)
{
    uint8_t sizes[IDX_RANK_MAX * 4];
    int rc = read_header(f, sizes, f->rank * 4, err);
    if (rc != 0) {
        return rc;
    }
    f->header_bytes = 4 + f->rank * 4;
    f->record_values = 1;
    for (size_t i = 0; i < f->rank; i++) {
        f->dims[i] = big_endian_32(sizes + 4 * i);
        if (i > 0 && __builtin_mul_overflow(f->record_values, f->dims[i], &f->record_values)) {
            f->record_values = UINT64_MAX; /* refused below as more than the file or memory holds */
        }
        if (f->dims[i] == 0) {
            return err_set(err, ERR_INVALID, "%s: no records: size %zu of the header is 0",
                           source_path(f->source), i);
        }
    }
    return 0;
}

/* What the file @path is, whose source is there. */
static int begin_idx(const char *path, struct idx_file *f, struct err *err)
{
    uint8_t magic[4];
    int rc = read_header(f, magic, sizeof magic, err);
    if (rc != 0) {
        return rc;
    }
    f->type = find_type(magic[2]);
    f->rank = magic[3];
    if (magic[0] != 0 || magic[1] != 0 || f->type == NULL) {
        return err_set(err, ERR_INVALID,
                       "%s: not an IDX file: it begins with the bytes " CELLS_BEGIN
                       "%02x %02x %02x %02x" CELLS_END "; an IDX "
                       "file begins with 00 00, a type (08, 09, 0b to 0e) and a rank",
                       path, magic[0], magic[1], magic[2], magic[3]);
    }
    if (f->rank < 1 || f->rank > IDX_RANK_MAX) {
        return err_set(err, ERR_INVALID, "%s: the IDX rank is %zu (byte 3); allowed are 1 to %d",
                       path, f->rank, IDX_RANK_MAX);
    }
    return read_dims(f, err);
}

static int open_idx(const char *path, const struct data_roots *roots, struct idx_file *f,
                    struct err *err)
{
    *f = (struct idx_file){0};
    int rc = source_open(path, roots, &f->source, err);
    return rc != 0 ? rc : begin_idx(path, f, err);
}

static int too_short(const struct idx_file *f, uint64_t expected, uint64_t end, struct err *err)
{
    uint64_t record =
        end < f->header_bytes ? 0 : (end - f->header_bytes) / f->type->bytes / f->record_values;
    return err_set(err, ERR_CORRUPT,
                   "%s: %" PRIu64 " bytes expected, the file ends at byte %" PRIu64
                   " (record %" PRIu64 ")",
                   source_path(f->source), expected, end, record);
}

/* Compare what the header promises with the file and the machine, before reading @records of it. */
static int check_size(const struct idx_file *f, uint64_t records, size_t memory_size,
                      uint64_t *expected, struct err *err)
{
    const char *path = source_path(f->source);
    uint64_t bytes;
    if (__builtin_mul_overflow(f->record_values, f->type->bytes, &bytes) ||
        __builtin_mul_overflow(bytes, f->dims[0], &bytes) ||
        __builtin_add_overflow(bytes, f->header_bytes, &bytes)) {
        return err_set(err, ERR_CORRUPT, "%s: the sizes in the header are too large for any file",
                       path);
    }
    *expected = bytes;
    uint64_t size;
    if (source_size(f->source, &size) && size < bytes) {
        return too_short(f, bytes, size, err);
    }
    if (source_size(f->source, &size) && size > bytes) {
        return err_set(err, ERR_CORRUPT,
                       "%s: %" PRIu64 " bytes expected, the file has %" PRIu64
                       ": bytes follow the last record",
                       path, bytes, size);
    }
    return records_check_memory(records * f->record_values, memory_size, path, err);
}

/* Checks that nothing follows the last record. */
static int check_end(struct idx_file *f, uint64_t expected, struct err *err)
{
    uint8_t byte;
    size_t got;
    int rc = source_read(f->source, &byte, 1, &got, err);
    if (rc == 0 && got != 0) {
        rc = err_set(err, ERR_CORRUPT,
                     "%s: %" PRIu64 " bytes expected, more bytes follow the last record",
                     source_path(f->source), expected);
    }
    return rc;
}

/* Read the first @records of a file of bytes as they are. */
static int read_bytes(struct idx_file *f, uint64_t records, uint64_t expected, uint8_t **out,
                      struct err *err)
{
    const char *path = source_path(f->source);
    uint64_t total = records * f->record_values, done = 0, capacity = 0;
    uint8_t *bytes = NULL;
    int rc = 0;
    while (rc == 0 && done < total) {
        void *grown = records_grow(bytes, &capacity, done + 1, 1, path, err);
        if (grown == NULL) {
            rc = ERR_EXHAUSTED;
            break;
        }
        bytes = grown;
        uint64_t want = capacity < total ? capacity - done : total - done;
        size_t got;
        rc = source_read(f->source, bytes + done, (size_t)want, &got, err);
        if (rc == 0 && got < want) {
            rc = too_short(f, expected, source_offset(f->source), err);
        }
        done += want;
    }
    if (rc != 0) {
        free(bytes);
        return rc;
    }
    *out = bytes;
    return 0;
}

/* Where read_numbers() puts its values: one of the two is set. */
struct idx_numbers {
    float *floats;
    double *doubles;
};

static int store_chunk(const struct idx_file *f, const uint8_t *chunk, size_t count, uint64_t first,
                       const struct idx_numbers *out, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        double value = decode_value(f->type, chunk + i * f->type->bytes);
        if (!isfinite(value) || !isfinite((float)value)) {
            return err_set(err, ERR_INVALID, "%s: record %" PRIu64 ", value %" PRIu64 " is %g",
                           source_path(f->source), f->taken + (first + i) / f->record_values,
                           (first + i) % f->record_values, value);
        }
        if (out->floats != NULL) {
            out->floats[first + i] = (float)value;
        } else {
            out->doubles[first + i] = value;
        }
    }
    return 0;
}

/* Read the first @records of a file of any type. @wide: into doubles, else into floats. */
static int read_numbers(struct idx_file *f, uint64_t records, uint64_t expected, bool wide,
                        struct idx_numbers *numbers, struct err *err)
{
    const char *path = source_path(f->source);
    uint64_t total = records * f->record_values, done = 0, capacity = 0;
    uint8_t *chunk = mem_new(IDX_CHUNK_BYTES, 1);
    struct idx_numbers out = {0};
    int rc = 0;
    while (rc == 0 && done < total) {
        uint64_t count = IDX_CHUNK_BYTES / f->type->bytes;
        count = count < total - done ? count : total - done;
        void *old = wide ? (void *)out.doubles : (void *)out.floats;
        void *grown = records_grow(old, &capacity, done + count,
                                   wide ? sizeof(double) : sizeof(float), path, err);
        if (grown == NULL) {
            rc = ERR_EXHAUSTED;
            break;
        }
        if (wide) {
            out.doubles = grown;
        } else {
            out.floats = grown;
        }
        size_t got, want = (size_t)count * f->type->bytes;
        rc = source_read(f->source, chunk, want, &got, err);
        if (rc == 0 && got < want) {
            rc = too_short(f, expected, source_offset(f->source), err);
        }
        if (rc == 0) {
            rc = store_chunk(f, chunk, (size_t)count, done, &out, err);
        }
        done += count;
    }
    free(chunk);
    if (rc != 0) {
        free(out.floats);
        free(out.doubles);
        return rc;
    }
    *numbers = out;
    return 0;
}

static int read_features(struct idx_file *f, uint64_t records, struct records *out, struct err *err)
{
    bool bytes = f->type->code == 0x08;
    uint64_t expected = 0;
    int rc = check_size(f, records, bytes ? 1 : sizeof(float), &expected, err);
    if (rc == 0 && bytes) {
        rc = read_bytes(f, records, expected, &out->bytes, err);
    } else if (rc == 0) {
        struct idx_numbers numbers;
        rc = read_numbers(f, records, expected, false, &numbers, err);
        if (rc == 0) {
            out->values = numbers.floats;
        }
    }
    f->taken += records;
    if (rc == 0 && f->taken == f->dims[0]) {
        rc = check_end(f, expected, err);
    }
    return rc;
}

static int read_labels(struct idx_file *f, uint64_t records, struct records *out, struct err *err)
{
    uint64_t expected = 0;
    int rc = check_size(f, records, sizeof(double), &expected, err);
    struct idx_numbers numbers;
    if (rc == 0) {
        rc = read_numbers(f, records, expected, true, &numbers, err);
    }
    if (rc == 0) {
        out->labels = numbers.doubles;
    }
    f->taken += records;
    if (rc == 0 && f->taken == f->dims[0]) {
        rc = check_end(f, expected, err);
    }
    return rc;
}

/* Zeros, of a file without labels. */
static int make_labels(uint64_t records, struct records *out, struct err *err)
{
    out->labels = mem_try_aligned((size_t)records, sizeof *out->labels, "labels", err);
    return out->labels == NULL ? ERR_EXHAUSTED : 0;
}

static int check_pair(const struct format_request *q, const struct idx_file *features,
                      const struct idx_file *labels, struct err *err)
{
    if (features->rank == 1) {
        return err_set(err, ERR_INVALID,
                       "%s: a list of %" PRIu64 " single numbers (rank 1) is a label file; "
                       "data.%s.file takes features (rank 2 to 4)%s",
                       q->path, features->dims[0], q->key,
                       labels != NULL && labels->rank > 1
                           ? "; it seems that file and labels are swapped"
                           : "");
    }
    if (labels == NULL) {
        return 0;
    }
    if (labels->rank != 1) {
        return err_set(err, ERR_INVALID,
                       "%s: data of rank %zu are features; data.%s.labels takes a list of single "
                       "numbers (rank 1)",
                       q->labels_path, labels->rank, q->key);
    }
    if (features->dims[0] != labels->dims[0]) {
        return err_set(err, ERR_INVALID, "%s has %" PRIu64 " records, %s has %" PRIu64 " labels",
                       q->path, features->dims[0], q->labels_path, labels->dims[0]);
    }
    return 0;
}

/* The file of labels, if there is to be one, whose features are open. */
static int open_labels(const struct format_request *q, const struct idx_file *features,
                       struct idx_file *labels, struct err *err)
{
    const bool labelled = !q->spec->unlabelled;
    int rc = labelled ? open_idx(q->labels_path, q->spec->roots, labels, err) : 0;
    return rc != 0 ? rc : check_pair(q, features, labelled ? labels : NULL, err);
}

static int check_labelled(const struct format_request *q, struct err *err)
{
    return q->labels_path[0] != '\0' || q->spec->unlabelled
               ? 0
               : err_set(err, ERR_INVALID,
                         "data.%s.labels is not set: IDX keeps the labels in a file of their own",
                         q->key);
}

/* The next @count records. */
static int read_some(const struct format_request *q, uint64_t count, struct idx_file *features,
                     struct idx_file *labels, struct records *out, struct err *err)
{
    const bool labelled = !q->spec->unlabelled;
    struct records r = {.count = count,
                        .numbers = (size_t)features->record_values,
                        .where = mem_strdup(q->path),
                        .labels_where = labelled ? mem_strdup(q->labels_path) : NULL,
                        .shape.rank = features->rank - 1};
    memcpy(r.shape.dims, features->dims + 1, r.shape.rank * sizeof r.shape.dims[0]);
    int rc = read_features(features, count, &r, err);
    if (rc == 0) {
        rc = labelled ? read_labels(labels, count, &r, err) : make_labels(count, &r, err);
    }
    if (rc == 0) {
        *out = r;
    } else {
        records_release(&r);
    }
    return rc;
}

static int idx_read(const struct format_request *q, struct records *out, struct err *err)
{
    struct idx_file features = {0}, labels = {0};
    int rc = check_labelled(q, err);
    rc = rc != 0 ? rc : open_idx(q->path, q->spec->roots, &features, err);
    rc = rc != 0 ? rc : open_labels(q, &features, &labels, err);
    if (rc == 0) {
        const uint64_t all = features.dims[0];
        const uint64_t count = q->limit > 0 && q->limit < all ? q->limit : all;
        rc = read_some(q, count, &features, &labels, out, err);
    }
    source_close(features.source);
    source_close(labels.source);
    return rc;
}

static int idx_stream(const struct format_request *q, struct source *source,
                      const struct format_blocks *to, struct err *err)
{
    struct idx_file features = {.source = source}, labels = {0};
    int rc = check_labelled(q, err);
    rc = rc != 0 ? rc : begin_idx(q->path, &features, err);
    rc = rc != 0 ? rc : open_labels(q, &features, &labels, err);
    while (rc == 0 && features.taken < features.dims[0]) {
        const uint64_t left = features.dims[0] - features.taken;
        const uint64_t fit = to->bytes / features.type->bytes / features.record_values;
        struct records r = {0};
        rc = read_some(q, fit == 0 ? 1 : fit < left ? fit : left, &features, &labels, &r, err);
        rc = rc != 0 ? rc : to->visit(to->context, &r, err);
        records_release(&r);
    }
    source_close(labels.source);
    return rc;
}

const struct format format_idx = {
    .name = "idx", .look = idx_look, .read = idx_read, .stream = idx_stream};
