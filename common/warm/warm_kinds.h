/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the room: what each kind of source does. */
#ifndef GRADUS_WARM_WARM_KINDS_H
#define GRADUS_WARM_WARM_KINDS_H

#include "warm/warm_source.h"

struct warm_source_kind {
    const char *name; /* "checkpoint", as the key of the job file */
    /* @s has its path. Fills in tensors, count and state; what is there after an error is closed.
     */
    int (*open)(struct warm_source *s, const struct from_spec *from, const struct data_roots *roots,
                struct err *err);
    void (*close)(struct warm_source *s); /* `state` */
    int (*read)(const struct warm_source *s, size_t tensor, float *out, struct err *err);
};

extern const struct warm_source_kind warm_checkpoint, warm_safetensors, warm_onnx;

/* Variables and tables of a checkpoint; returns owned, their names are the manifest's. */
struct manifest;
struct warm_tensor *warm_checkpoint_tensors(const struct manifest *m, size_t *count);

/* What a source of kind warm_checkpoint reads from; NULL: it is of another kind. */
const struct checkpoint *warm_checkpoint_of(const struct warm_source *s);

/* A local path as the kernel knows it, when it lies within @roots; anything else as it is. Returns
 * owned. Errors: as data_roots_check(); NULL then. */
char *warm_source_locate(const char *path, const struct data_roots *roots, struct err *err);

#endif
