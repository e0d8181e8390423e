/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a job on a worker: loads data and model, computes and adds gradients,
 * evaluates. A gradient is rounded to the type it travels in as soon as it is made. */
#include "worker/job/worker_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "tensor/half.h"

#define FLAT_ALIGN 16                /* floats: every variable begins at a cache line */
#define EVALUATION_BATCH 64          /* records computed at once at least */
#define EVALUATION_BATCH_OF_ROWS 512 /* likewise of a model with tables: each asks for rows */
#define STAGGER_FLOATS                                                                             \
    1040 /* arrays must not lie a power of two apart: they would share cache ways */

int worker_model_load(struct worker_model *m, const char *text, struct dataset_cache *cache,
                      struct err *err)
{
    struct diags diags = {0};
    int rc = job_spec_parse(text, strlen(text), "job", NULL, 0, &m->spec, &diags);
    if (rc != 0) {
        struct buf messages = {0};
        diags_format(&diags, &messages);
        rc = err_set(err, rc, "%s", buf_str(&messages));
        buf_release(&messages);
        diags_release(&diags);
        return rc;
    }
    diags_release(&diags);
    enum data_label_kind kind = job_spec_label_kind(&m->spec);
    return cache == NULL ? dataset_open(&m->spec.data, kind, &m->train, &m->test, err)
                         : dataset_cache_open(cache, &m->spec.data, kind, &m->train, &m->test,
                                              &m->data_known, err);
}

static int check_variables(const struct worker_model *m, const struct plan *plan, struct err *err)
{
    if (model_variable_count(m->model) != plan->variable_count) {
        return err_set(err, ERR_STATE, "the plan has %zu variables, this worker's model has %zu",
                       plan->variable_count, model_variable_count(m->model));
    }
    for (size_t i = 0; i < plan->variable_count; i++) {
        const struct variable_spec *mine = model_variable(m->model, i);
        const struct variable_spec *planned = &plan->variables[i];
        if (strcmp(mine->name, planned->name) != 0 || !shape_equal(&mine->shape, &planned->shape)) {
            char a[64], b[64];
            return err_set(err, ERR_STATE,
                           "variable %zu is %s %s in the plan, %s %s in this worker's model", i,
                           planned->name, shape_format(&planned->shape, a, sizeof a), mine->name,
                           shape_format(&mine->shape, b, sizeof b));
        }
    }
    return 0;
}

static void lay_out(struct worker_model *m)
{
    m->variable_count = model_variable_count(m->model);
    m->offsets = mem_new(m->variable_count, sizeof *m->offsets);
    m->values = mem_new(m->variable_count, sizeof *m->values);
    m->gradients = mem_new(m->variable_count, sizeof *m->gradients);
    uint64_t at = 0;
    for (size_t i = 0; i < m->variable_count; i++) {
        m->offsets[i] = at;
        uint64_t n = shape_count(&model_variable(m->model, i)->shape);
        at += (n + FLAT_ALIGN - 1) / FLAT_ALIGN * FLAT_ALIGN;
    }
    m->flat_count = at;
}

int worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err)
{
    const struct dataset_info *info = dataset_info(m->train);
    int rc = model_new(&m->spec.model, &info->features, &info->fields,
                       info->label_is_class ? info->classes : 0, &m->model, err);
    if (rc == 0) {
        rc = check_variables(m, plan, err);
    }
    if (rc == 0) {
        rc = job_spec_check_lists(m->model, m->train, m->test, err);
    }
    rc = rc != 0 ? rc : job_spec_check_groups(m->model, m->test, "test", err);
    if (rc != 0) {
        return rc;
    }
    lay_out(m);
    worker_rows_init(&m->rows, m->model, plan->shard_count);
    size_t batch = (size_t)m->spec.training.batch_size;
    size_t least = m->rows.count > 0 ? EVALUATION_BATCH_OF_ROWS : EVALUATION_BATCH;
    m->runner_batch = batch < least ? least : batch;
    m->records = mem_new(m->runner_batch, sizeof *m->records);
    rc = runner_new(m->model, m->runner_batch, (int)m->spec.cluster.blas_threads, &m->runner, err);
    if (rc == 0) {
        runner_set_rows(m->runner, m->rows.run);
    }
    if (rc == 0 && m->test != NULL) {
        rc = batch_init(&m->test_batch, m->test, m->runner_batch, err);
    }
    if (rc == 0) {
        rc = loader_new(m->train, (uint64_t)m->spec.training.seed, batch, WORKER_PREFETCH_MAX + 1,
                        &m->loader, err);
    }
    return rc;
}

void worker_model_release(struct worker_model *m)
{
    if (m->taken != NULL) {
        loader_return(m->loader, m->taken);
    }
    loader_free(m->loader);
    for (size_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        worker_rows_gradient_release(&m->rows, &m->row_gradients[i]);
    }
    worker_rows_release(&m->rows);
    runner_free(m->runner);
    model_free(m->model);
    batch_release(&m->test_batch);
    dataset_free(m->train);
    dataset_free(m->test);
    for (size_t i = 0; i < WORKER_SET_COUNT; i++) {
        free(m->sets[i]);
    }
    for (size_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        free(m->buffers[i]);
    }
    free(m->offsets);
    free(m->values);
    free(m->gradients);
    free(m->records);
    job_spec_release(&m->spec);
    *m = (struct worker_model){0};
}

static float *array(const struct worker_model *m, float **place, const char *what, struct err *err)
{
    if (*place == NULL) {
        *place = mem_try_aligned(m->flat_count + STAGGER_FLOATS, sizeof(float), what, err);
    }
    return *place;
}

float *worker_model_set(struct worker_model *m, enum worker_set set, struct err *err)
{
    return array(m, &m->sets[set], "parameters", err);
}

float *worker_model_buffer(struct worker_model *m, uint32_t buffer, struct err *err)
{
    return array(m, &m->buffers[buffer], "gradients", err);
}

void worker_model_prefetch(struct worker_model *m, const struct ledger_batch *batch)
{
    /* One that is not taken up is decoded when its turn comes. */
    (void)loader_request(m->loader, batch->epoch, batch->first, batch->count, NULL);
}

static void point(struct worker_model *m, enum worker_set set)
{
    for (size_t i = 0; i < m->variable_count; i++) {
        m->values[i] = m->sets[set] + m->offsets[i];
    }
}

static void round_buffer(struct worker_model *m, uint32_t buffer)
{
    values_round((enum value_type)m->spec.training.wire_gradients, m->buffers[buffer],
                 m->flat_count);
}

void worker_model_round_sum(struct worker_model *m, uint32_t buffer)
{
    if (m->summed[buffer]) {
        m->summed[buffer] = false;
        round_buffer(m, buffer);
    }
}

int worker_model_take(struct worker_model *m, const struct ledger_batch *batch, struct err *err)
{
    uint64_t begin = chrono_now_ns();
    int rc = loader_take(m->loader, batch->epoch, batch->first, batch->count, &m->taken, err);
    rc = rc != 0 ? rc : worker_rows_find(&m->rows, &m->taken->lists, err);
    m->load_ns = chrono_now_ns() - begin;
    return rc;
}

int worker_model_rows(struct worker_model *m, uint32_t buffer, struct err *err)
{
    return worker_rows_come(&m->rows, &m->row_gradients[buffer], err);
}

/* What the servers decide about a gradient they decide by its dense part. */
static void mark_rows(struct worker_model *m, uint32_t buffer)
{
    const bool matters = m->rows.count > 0 && m->spec.update.non_finite != UPDATE_NON_FINITE_APPLY;
    if (matters && !worker_rows_gradient_is_finite(&m->rows, &m->row_gradients[buffer])) {
        m->gradients[0][0] = NAN;
    }
}

int worker_model_gradient(struct worker_model *m, const struct runner_step *step,
                          enum worker_set set, uint32_t buffer, struct metrics *metrics,
                          const struct runner_need *need, const struct runner_ready *ready)
{
    const struct batch *b = m->taken;
    point(m, set);
    for (size_t i = 0; i < m->variable_count; i++) {
        m->gradients[i] = m->buffers[buffer] + m->offsets[i];
    }
    int rc = runner_gradients(m->runner, m->values, b, step, m->gradients, metrics, need, ready);
    if (rc == 0 && b->count == 0) {
        worker_rows_gradient_clear(&m->rows, &m->row_gradients[buffer]);
    }
    m->taken = NULL;
    loader_return(m->loader, b);
    if (rc != 0) {
        return rc;
    }
    mark_rows(m, buffer);
    m->summed[buffer] = false;
    round_buffer(m, buffer);
    return 0;
}

int worker_model_add(struct worker_model *m, uint32_t buffer, uint32_t from, struct err *err)
{
    float *restrict to = m->buffers[buffer];
    const float *restrict add = m->buffers[from];
    for (uint64_t i = 0; i < m->flat_count; i++) {
        to[i] += add[i];
    }
    m->summed[buffer] = true;
    return worker_rows_gradient_add(&m->rows, &m->row_gradients[buffer], &m->row_gradients[from],
                                    err);
}

static int fetch_rows(struct worker_model *m, const struct worker_model_fetch *fetch,
                      struct err *err)
{
    int rc = m->rows.count == 0 ? 0 : worker_rows_find(&m->rows, &m->test_batch.lists, err);
    rc = rc != 0 || m->rows.count == 0 ? rc : fetch->call(fetch->ctx, err);
    return rc != 0 ? rc : worker_rows_come(&m->rows, NULL, err);
}

int worker_model_evaluate(struct worker_model *m, uint64_t first, uint64_t count,
                          const struct worker_model_fetch *fetch, struct metrics *metrics,
                          struct err *err)
{
    if (m->test == NULL) {
        return err_set(err, ERR_STATE, "the job has no test data");
    }
    uint64_t records = dataset_info(m->test)->records;
    if (first > records || count > records - first) {
        return err_set(err, ERR_RANGE, "test records %" PRIu64 "+%" PRIu64 " of %" PRIu64, first,
                       count, records);
    }
    point(m, WORKER_SET_EVALUATION);
    while (count > 0) {
        size_t n = count < m->runner_batch ? (size_t)count : m->runner_batch;
        for (size_t i = 0; i < n; i++) {
            m->records[i] = first + i;
        }
        int rc = dataset_read(m->test, m->records, n, &m->test_batch, err);
        rc = rc != 0 ? rc : fetch_rows(m, fetch, err);
        if (rc != 0) {
            return rc;
        }
        runner_evaluate(m->runner, m->values, &m->test_batch, metrics);
        first += n;
        count -= n;
    }
    return 0;
}
