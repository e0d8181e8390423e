/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors format (github.com/huggingface/safetensors): what numpy, PyTorch and others read.
 *
 *     8 bytes    length n of the header, little-endian
 *     n bytes    JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets":
 * [begin, end]}}, padded with spaces so that the data begin at a multiple of 8 data       row-major
 * little-endian, without gaps; offsets count from here
 *
 * Files that we write have their tensors sorted by name, in the header and in the data, so equal
 * content gives equal bytes. */
#ifndef GRADUS_CHECKPOINT_SAFETENSORS_H
#define GRADUS_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/checksum.h"
#include "base/err.h"
#include "storage/storage.h"

#define SAFETENSORS_HEADER_BYTES_MAX 100000000U /* the reference implementation's limit */
#define SAFETENSORS_RANK_MAX 8
#define SAFETENSORS_NAME_BYTES_MAX 512

enum safetensors_dtype {
    SAFETENSORS_F32,
    SAFETENSORS_F64,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I64,
    SAFETENSORS_I32,
    SAFETENSORS_I16,
    SAFETENSORS_I8,
    SAFETENSORS_U64,
    SAFETENSORS_U32,
    SAFETENSORS_U16,
    SAFETENSORS_U8,
    SAFETENSORS_BOOL,
    SAFETENSORS_DTYPE_COUNT
};
const char *safetensors_dtype_name(enum safetensors_dtype dtype); /* "F32" */
size_t safetensors_dtype_bytes(enum safetensors_dtype dtype);

struct safetensors_tensor {
    const char *name;
    enum safetensors_dtype dtype;
    size_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX];
    uint64_t first, bytes; /* place in the data; found by the reader, ignored by the writer */
};
/* Bytes of the data; false when the shape is not possible. */
bool safetensors_tensor_bytes(const struct safetensors_tensor *t, uint64_t *bytes);

struct safetensors_meta {
    const char *key, *value;
};

/* Metadata with this key is the checksum (XXH3, 64 bits, 16 hex digits) of the header itself, from
 * its length on, with zeros in the place of these digits. The writer fills it in. */
#define SAFETENSORS_SEAL "seal"
#define SAFETENSORS_SEAL_EMPTY "0000000000000000"

/* ---- writing ----
 *
 * Declare all tensors, then stream their data in the order that safetensors_writer_next() asks for.
 * Nothing has the file's name until commit. Between open and commit the writer borrows the array of
 * tensors. */
struct safetensors_writer {
    struct storage_writer file;
    struct checksum *sum;
    const struct safetensors_tensor *tensors;
    size_t *order; /* order of the tensors' data: indices into tensors */
    size_t count, at;
    uint64_t left; /* bytes of tensor order[at] that were not written yet */
};
struct safetensors_written {
    uint64_t bytes, checksum; /* of the file: XXH3, 64 bits */
};
/* Errors: ERR_INVALID a name twice, not UTF-8 or too long, an impossible shape; those of files. */
int safetensors_writer_open(struct safetensors_writer *w, const char *path,
                            const struct safetensors_tensor *tensors, size_t count,
                            const struct safetensors_meta *meta, size_t meta_count,
                            struct err *err);
/* The index of the tensor whose data are to be written next; false when all were written. */
bool safetensors_writer_next(struct safetensors_writer *w, size_t *index);
/* Errors: ERR_STATE more than the tensor has; those of files. */
int safetensors_writer_add(struct safetensors_writer *w, const void *data, size_t bytes,
                           struct err *err);
/* Closes in any case. @out may be NULL. Errors: ERR_STATE data are missing; those of files. */
int safetensors_writer_commit(struct safetensors_writer *w, struct safetensors_written *out,
                              struct err *err);
void safetensors_writer_abort(struct safetensors_writer *w); /* safe after commit */

/* ---- reading ----
 *
 * The whole header is checked when the file is opened. Threads may read from one open file. */
struct safetensors {
    struct storage_reader file;
    char *path;
    struct safetensors_tensor *tensors; /* sorted by name */
    size_t count;
    struct safetensors_meta *meta; /* sorted by key */
    size_t meta_count;
    char **texts; /* all names, keys and values above */
    size_t text_count, text_capacity;
    uint64_t data_first; /* of the file */
};
/* @f is overwritten on success. Errors: ERR_CORRUPT says which rule of the format is broken. */
int safetensors_open(struct safetensors *f, const char *path, struct err *err);
void safetensors_close(struct safetensors *f); /* safe on a zeroed struct */
const struct safetensors_tensor *safetensors_find(const struct safetensors *f, const char *name);
const char *safetensors_meta_find(const struct safetensors *f, const char *key); /* or NULL */
/* Is the header what its seal says? One without a seal is fine. Errors: ERR_CORRUPT; of files. */
int safetensors_check_seal(const struct safetensors *f, struct err *err);
/* Errors: ERR_RANGE beyond the tensor; ERR_CORRUPT the file became shorter. */
int safetensors_read(const struct safetensors *f, const struct safetensors_tensor *t,
                     uint64_t first_byte, void *out, size_t bytes, struct err *err);

#endif
