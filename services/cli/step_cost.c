/* SPDX-License-Identifier: Apache-2.0 */
/* Computes real gradients of the first records, as a worker does, with the values that training
 * begins with. Other programs may take the processor meanwhile, so the shortest time counts. */
#include "cli/step_cost.h"

#include <stdlib.h>

#include "base/mem.h"
#include "os/chrono.h"

struct trial {
    struct runner *runner;
    struct batch batch;
    float *flat; /* values, then gradients */
    float **values, **gradients;
};

static uint64_t elements_of(const struct model *model)
{
    uint64_t n = 0;
    for (size_t i = 0; i < model_variable_count(model); i++) {
        n += shape_count(&model_variable(model, i)->shape);
    }
    return n;
}

static int check(const struct job_spec *spec, const struct model *model,
                 const struct dataset *train, struct err *err)
{
    const size_t batch = (size_t)spec->training.batch_size;
    if (train == NULL) {
        return err_set(err, ERR_UNSUPPORTED, "the data are not here");
    }
    if (model_table_count(model) > 0) {
        return err_set(err, ERR_UNSUPPORTED, "models with tables are not tried out");
    }
    if (dataset_info(train)->records < batch) {
        return err_set(err, ERR_UNSUPPORTED, "there are fewer records than in a batch");
    }
    const uint64_t bytes = 2 * elements_of(model) * sizeof(float);
    if (bytes + runner_bytes(model, batch) > STEP_COST_FLOATS_MAX * sizeof(float)) {
        return err_set(err, ERR_UNSUPPORTED, "it would take more than 1 GiB to try it out");
    }
    return 0;
}

static int make_variables(struct trial *t, const struct job_spec *spec, const struct model *model,
                          struct err *err)
{
    const size_t n = model_variable_count(model), floats = (size_t)elements_of(model);
    t->flat = mem_try_aligned(2 * floats, sizeof(float), "variables", err);
    if (t->flat == NULL) {
        return ERR_EXHAUSTED;
    }
    t->values = mem_new(n, sizeof *t->values);
    t->gradients = mem_new(n, sizeof *t->gradients);
    float *at = t->flat;
    for (size_t i = 0; i < n; i++) {
        const struct variable_spec *v = model_variable(model, i);
        const uint64_t count = shape_count(&v->shape);
        t->values[i] = at;
        t->gradients[i] = at + floats;
        init_fill(&v->init, (uint64_t)spec->training.seed, v->name, 0, count, at);
        at += count;
    }
    return 0;
}

static int read_batch(struct trial *t, const struct dataset *train, size_t count, struct err *err)
{
    uint64_t *records = mem_new(count, sizeof *records);
    for (size_t i = 0; i < count; i++) {
        records[i] = i;
    }
    int rc = dataset_read(train, records, count, &t->batch, err);
    free(records);
    return rc;
}

static double shortest(struct trial *t, const struct job_spec *spec)
{
    const float *const *values = (const float *const *)(const void *)t->values;
    const uint64_t begin = chrono_now_ns();
    uint64_t best = UINT64_MAX, now = begin;
    for (uint64_t i = 0; i < STEP_COST_BATCHES_MAX; i++) {
        const struct runner_step step = {.seed = (uint64_t)spec->training.seed, .step = i};
        const uint64_t from = now;
        (void)runner_gradients(t->runner, values, &t->batch, &step, t->gradients, NULL, NULL, NULL);
        now = chrono_now_ns();
        best = now - from < best ? now - from : best;
        if ((double)(now - begin) * 1e-9 > STEP_COST_SECONDS) {
            break;
        }
    }
    return (double)best * 1e-9;
}

int step_cost_measure(const struct job_spec *spec, const struct model *model,
                      const struct dataset *train, double *seconds, struct err *err)
{
    const size_t batch = (size_t)spec->training.batch_size;
    struct trial t = {0};
    int rc = check(spec, model, train, err);
    if (rc != 0) {
        return rc;
    }
    rc = batch_init(&t.batch, train, batch, err);
    rc = rc != 0 ? rc : read_batch(&t, train, batch, err);
    rc = rc != 0 ? rc : make_variables(&t, spec, model, err);
    rc = rc != 0 ? rc : runner_new(model, batch, (int)spec->cluster.blas_threads, &t.runner, err);
    if (rc == 0) {
        *seconds = shortest(&t, spec);
    }
    runner_free(t.runner);
    batch_release(&t.batch);
    free(t.values);
    free(t.gradients);
    free(t.flat);
    return rc;
}
