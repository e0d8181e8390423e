/* SPDX-License-Identifier: Apache-2.0 */
/* Models of layers, those of ONNX files among them: a runner computes them on this thread. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/model_import.h"
#include "graph/model_weights.h"
#include "worker/job/worker_compute.h"

#define EVALUATION_BATCH 64 /* records computed at once at least */
#define STAGGER_FLOATS                                                                             \
    1040 /* arrays must not lie a power of two apart: they would share cache ways */

struct model_layers {
    struct model *model; /* NULL: it is not made yet */
    struct runner *runner;
    struct variable_spec *variables;
    const float **values; /* [variables] scratch, and the next */
    float **gradients;
    struct worker_rows_keys found[WORKER_PREFETCH_MAX + 1]; /* what each slot of the loader found */
};

static struct model_layers *layers(const struct worker_model *m)
{
    return m->computer;
}

static int make(struct worker_model *m, struct err *err)
{
    struct model_layers *l = layers(m);
    const struct dataset_info *info = &m->train_info;
    int rc = model_new(&m->spec.model, &info->features, &info->fields,
                       info->label_is_class ? info->classes : 0, &l->model, err);
    if (rc == 0 && model_is_balanced(l->model)) {
        uint64_t *counts = mem_new(info->classes, sizeof *counts);
        dataset_class_counts(m->train, counts);
        model_balance(l->model, counts);
        free(counts);
    }
    if (rc == 0 && data_spec_samples(&m->spec.data)) {
        model_sampled(l->model, m->spec.data.negative_sampling);
    }
    if (rc == 0) {
        m->variable_count = model_variable_count(l->model);
        m->variables = l->variables = model_variables(l->model);
    }
    return rc != 0 ? rc : model_check_batch(l->model, (size_t)m->spec.training.batch_size, err);
}

/* A model that workers bring is made now: the job can still be refused. */
static int load(struct worker_model *m, const char *job, struct err *err)
{
    (void)job;
    struct model_layers *l = m->computer = mem_new(1, sizeof *l);
    const bool imported = model_is_imported(&m->spec.model);
    int rc = imported || job_spec_has_from(&m->spec) ? make(m, err) : 0;
    if (rc == 0 && imported) {
        m->given = model_import_given(&m->spec.model);
    } else if (rc == 0 && l->variables != NULL) {
        for (size_t i = 0; i < m->variable_count; i++) {
            l->variables[i].init.kind = INIT_GIVEN;
        }
        /* layers say all: nothing can differ */
        m->given = (struct given_variables){l->variables, m->variable_count, 1};
    }
    return rc;
}

static void begin(const struct worker_model *m, size_t i, float *out)
{
    const struct variable_spec *v = model_variable(layers(m)->model, i);
    const uint64_t n = shape_count(&v->shape);
    if (model_is_imported(&m->spec.model)) {
        memcpy(out, model_import_initial(&m->spec.model, i), (size_t)n * sizeof *out);
    } else {
        init_fill(&v->init, (uint64_t)m->spec.training.seed, v->name, 0, n, out);
    }
}

/* Finds the rows of a batch; on the loader's threads. */
static int look_ahead(void *ctx, size_t slot, const struct batch *b, struct err *err)
{
    struct model_layers *l = ctx;
    return worker_rows_look(l->model, &b->lists, &l->found[slot], err);
}

static int build(struct worker_model *m, uint32_t shard_count, struct err *err)
{
    struct model_layers *l = layers(m);
    int rc = job_spec_check_lists(l->model, m->train, m->test, err);
    rc = rc != 0 ? rc : job_spec_check_input(&m->spec, m->train, m->test, err);
    rc = rc != 0 ? rc : job_spec_check_groups(l->model, m->test, "test", err);
    if (rc != 0) {
        return rc;
    }
    l->values = mem_new(m->variable_count, sizeof *l->values);
    l->gradients = mem_new(m->variable_count, sizeof *l->gradients);
    worker_rows_init(&m->rows, l->model, shard_count);
    worker_rows_init(&m->ahead, l->model, shard_count);
    rc = worker_compute_loaders(m, EVALUATION_BATCH, err);
    if (rc == 0 && m->rows.count > 0) {
        const struct loader_prepare prepare = {look_ahead, l};
        loader_set_prepare(m->loader, &prepare);
    }
    return rc != 0 ? rc
                   : runner_new(l->model, m->batch_max, (int)m->spec.cluster.blas_threads,
                                &l->runner, err);
}

/* What was found when the batch was decoded. */
static int keys(struct worker_model *m, const struct ledger_batch *batch, const struct batch *b,
                struct worker_rows *rows, struct err *err)
{
    (void)batch;
    return worker_rows_take(rows, &layers(m)->found[loader_slot(m->loader, b)], err);
}

static int test_keys(struct worker_model *m, size_t n, struct err *err)
{
    (void)n;
    return worker_rows_find(&m->rows, &m->test_batch.lists, err);
}

/* ---- computations ---- */

/* Between two variables are zeros: an array may be of an earlier start of the job. */
static void clear_gaps(const struct worker_model *m, float *array)
{
    for (size_t i = 0; i < m->variable_count; i++) {
        const uint64_t end = m->offsets[i] + shape_count(&m->variables[i].shape);
        const uint64_t next = i + 1 < m->variable_count ? m->offsets[i + 1] : m->flat_count;
        memset(array + end, 0, (next - end) * sizeof *array);
    }
}

static float *array(struct worker_model *m, uint32_t number, const char *what, struct err *err)
{
    (void)number;
    float *made = worker_arrays_take(m->arrays, m->flat_count + STAGGER_FLOATS, what, err);
    if (made != NULL) {
        clear_gaps(m, made);
    }
    return made;
}

/* The runner reads @set, which exists, and m->rows. */
static struct runner *point(const struct worker_model *m, enum worker_set set)
{
    const struct model_layers *l = layers(m);
    for (size_t i = 0; i < m->variable_count; i++) {
        l->values[i] = m->sets[set] + m->offsets[i];
    }
    runner_set_rows(l->runner, m->rows.run);
    return l->runner;
}

static int gradient(struct worker_model *m, const struct worker_gradient *g, struct err *err)
{
    (void)err; /* @g->need has said why */
    const struct model_layers *l = layers(m);
    for (size_t i = 0; i < m->variable_count; i++) {
        l->gradients[i] = m->buffers[g->buffer] + m->offsets[i];
    }
    return runner_gradients(point(m, g->set), l->values, m->taken, &g->step, l->gradients,
                            g->metrics, g->need, g->ready);
}

static int evaluate(struct worker_model *m, size_t n, struct metrics *metrics, struct err *err)
{
    (void)n;
    (void)err;
    runner_evaluate(point(m, WORKER_SET_EVALUATION), layers(m)->values, &m->test_batch, metrics);
    return 0;
}

static void release(struct worker_model *m)
{
    struct model_layers *l = layers(m);
    for (size_t i = 0; i < WORKER_SET_COUNT; i++) {
        worker_arrays_give(m->arrays, m->sets[i], m->flat_count + STAGGER_FLOATS);
    }
    for (size_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        worker_arrays_give(m->arrays, m->buffers[i], m->flat_count + STAGGER_FLOATS);
    }
    for (size_t i = 0; i < sizeof l->found / sizeof l->found[0]; i++) {
        worker_rows_keys_release(&l->found[i]);
    }
    runner_free(l->runner);
    model_free(l->model);
    free(l->variables);
    free(l->values);
    free(l->gradients);
    free(l);
}

const struct worker_compute worker_compute_layers = {
    .load = load,
    .make = make,
    .begin = begin,
    .build = build,
    .array = array,
    .keys = keys,
    .test_keys = test_keys,
    .gradient = gradient,
    .evaluate = evaluate,
    .release = release,
};
