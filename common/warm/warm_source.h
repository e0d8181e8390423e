/* SPDX-License-Identifier: Apache-2.0 */
/* A source of first values: a checkpoint, a safetensors file, an ONNX file. What each of them has
 * by name, and its elements as floats.
 *
 * Owner: one thread. */
#ifndef GRADUS_WARM_WARM_SOURCE_H
#define GRADUS_WARM_WARM_SOURCE_H

#include "data/data_roots.h"
#include "warm/warm_match.h"

struct warm_source_kind; /* the functions of one kind: warm_kinds.h */

struct warm_source {
    const struct warm_source_kind *kind;
    char *path;                  /* path of the source, for messages */
    struct warm_tensor *tensors; /* [count], their names are of `state` */
    size_t count;
    uint64_t version;       /* of a checkpoint: updates that it has seen */
    uint64_t rows_manifest; /* of a checkpoint with tables: the checksum of its manifest */
    void *state;
};

/* Opens the source that @from names, below @dir (data.dir), within @roots (NULL: any; borrowed).
 * Errors: ERR_NOT_FOUND, ERR_PERMISSION, ERR_UNAVAILABLE as of data files; ERR_INVALID, ERR_CORRUPT
 * what is wrong with it. They name it. */
int warm_source_open(const struct from_spec *from, const char *dir, const struct data_roots *roots,
                     struct warm_source *out, struct err *err);
void warm_source_close(struct warm_source *s); /* zeroed is fine */
/* Reads all elements of @tensor, which is readable and no table. Errors: those of files, with the
 * name. */
int warm_source_read(const struct warm_source *s, size_t tensor, float *out, struct err *err);

#endif
