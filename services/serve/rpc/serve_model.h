/* SPDX-License-Identifier: Apache-2.0 */
/* One version of a served model: reference counted, so that a request ends with the version that it
 * began with, whatever is served by then. */
#ifndef GRADUS_SERVE_SERVE_MODEL_H
#define GRADUS_SERVE_SERVE_MODEL_H

#include <stdatomic.h>

#include "saved/saved_model.h"
#include "serve/rpc/infer_inputs.h"

struct serve_model {
    atomic_uint refs;
    struct saved_model *saved;
    char *texts[3]; /* owned; what the model's about borrows */
    struct infer_inputs inputs;
    char version[24]; /* the step of the checkpoint */
    uint64_t number;  /* number of the version in this process, from 1 */
    size_t batch_max, slots;
    struct saved_run **runs; /* [slots] a thread computes in one that it has taken */
    float **answers;         /* [slots] of [batch_max × width] */
    struct batch *batches;   /* [slots] kept between requests where records are numbers alone */
};

struct serve_model_request {
    const char *path; /* a checkpoint, or a file of `gradus export`; with @given: a name */
    const struct saved_given *given; /* values that were read; NULL: what is at the path */
    char *texts[3]; /* owned by the caller until it is open, then by the model: what @given's about
                       points to */
    const char *data_dir; /* "": that of the job file */
    const char *cache_dir;
    size_t batch_max, slots;
    uint64_t number;
    const struct serve_model *before; /* or NULL */
};

/* Errors: those of saved_model_open() and infer_inputs_make(). */
int serve_model_open(const struct serve_model_request *q, struct serve_model **out,
                     struct err *err);
struct serve_model *serve_model_ref(struct serve_model *m);
void serve_model_unref(struct serve_model *m); /* NULL is fine */

#endif
