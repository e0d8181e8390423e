/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a job's newest checkpoint, variable by variable. */
#include <stdlib.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "client_handle.h"

static int show(struct gradus_client *c, const struct checkpoint *checkpoint,
                const struct variable_spec *v, gradus_values_fn *each, void *ctx)
{
    uint64_t count = shape_count(&v->shape);
    float *values = malloc((size_t)count * sizeof *values + 1);
    if (values == NULL) {
        return handle_fail(c, ERR_EXHAUSTED, "no memory for the values of %s", v->name);
    }
    int rc = checkpoint_read(checkpoint, v->name, NULL, 0, count, values, &c->err);
    if (rc != 0) {
        free(values);
        return GRADUS_CLIENT_FAILED;
    }
    struct gradus_values shown = {
        .size = sizeof shown,
        .name = v->name,
        .dims = v->shape.dims,
        .rank = v->shape.rank,
        .values = values,
        .count = count,
        .step = checkpoint_manifest(checkpoint)->step,
    };
    rc = each(ctx, &shown) == 0 ? GRADUS_CLIENT_OK : GRADUS_CLIENT_STOPPED;
    free(values);
    return rc;
}

int gradus_client_values(struct gradus_client *c, const char *job, gradus_values_fn *each,
                         void *ctx)
{
    struct gradus_job_status status;
    struct checkpoint *checkpoint = NULL;
    int rc = gradus_client_job(c, job, &status);
    if (rc != GRADUS_CLIENT_OK) {
        return rc;
    }
    if (status.checkpoint[0] == '\0') {
        return handle_fail(c, ERR_NOT_FOUND, "job %s has no checkpoint yet", status.id);
    }
    if (checkpoint_open(status.checkpoint, CHECKPOINT_FULL, &checkpoint, &c->err) != 0) {
        return c->err.code == ERR_NOT_FOUND ? GRADUS_CLIENT_NOT_FOUND : GRADUS_CLIENT_FAILED;
    }
    const struct manifest *m = checkpoint_manifest(checkpoint);
    for (size_t i = 0; i < m->variable_count && rc == GRADUS_CLIENT_OK; i++) {
        rc = show(c, checkpoint, &m->variables[i], each, ctx);
    }
    checkpoint_close(checkpoint);
    return rc;
}
