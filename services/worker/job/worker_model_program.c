/* SPDX-License-Identifier: Apache-2.0 */
/* Puts batches where the program finds them, and takes its results. */
#include "worker/job/worker_model_program_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

#define EVALUATION_BATCH 256 /* records at once at least, as each time is a round to it */

_Static_assert(WORKER_SET_COUNT + WORKER_BUFFERS_MAX <= MODEL_PROGRAM_ROW_GRADIENTS,
               "each array has a number");

static void begin(const struct worker_model *m, size_t i, float *out)
{
    memcpy(out, model_program(m)->model->initial + m->offsets[i],
           (size_t)shape_count(&m->variables[i].shape) * sizeof *out);
}

/* Sets up records that only the program knows. */
static int own_records(struct worker_model *m, const struct worker_program_model *model,
                       struct err *err)
{
    if (model->train_records == 0) {
        return err_set(err, ERR_STATE,
                       "the program has no train records, and the job has no data.train");
    }
    m->train_info = (struct dataset_info){
        .records = model->train_records, .label_scale = 1, .fingerprint = model->fingerprint};
    m->test_info = m->train_info;
    m->test_info.records = model->test_records;
    return 0;
}

static int load(struct worker_model *m, const char *job, struct err *err)
{
    if (m->program == NULL) {
        return err_set(err, ERR_UNAVAILABLE,
                       "the job's model is program '%s', and this worker has none (--program)",
                       m->spec.model.program);
    }
    struct model_program *p = m->computer = mem_new(1, sizeof *p);
    model_program_tables(m);
    int rc = model_program_fields(m, err);
    if (rc != 0) {
        return rc;
    }
    const struct worker_program_job asked = {
        .id = job,
        .program = m->spec.model.program,
        .text = m->spec.text,
        .seed = (uint64_t)m->spec.training.seed,
        .batch_records = (uint32_t)m->spec.training.batch_size,
        .evaluation_records = (uint32_t)worker_compute_batch(m, EVALUATION_BATCH),
        .tables = p->tables,
        .table_count = m->spec.model.table_count,
    };
    const struct worker_program_model *model = NULL;
    rc = worker_program_describe(m->program, &asked, &model, err);
    if (rc == 0 && m->train == NULL) {
        rc = own_records(m, model, err);
    } else if (rc == 0 && model->train_records != 0) {
        rc = err_set(err, ERR_STATE, "the program brings records of its own, and the job has data");
    }
    if (rc == 0) {
        p->model = model;
        m->given = model->given;
        m->variables = m->given.variables;
        m->variable_count = m->given.count;
    }
    return rc;
}

/* The arrays are the program's. */
static void release(struct worker_model *m)
{
    struct model_program *p = model_program(m);
    worker_program_end(m->program);
    free(p->tables);
    free(p->fields);
    free(p);
}

void worker_model_interrupt(const struct worker_model *m)
{
    if (m->program != NULL) { /* set before there were threads */
        worker_program_interrupt(m->program);
    }
}

static int build(struct worker_model *m, uint32_t shard_count, struct err *err)
{
    struct model_program *p = model_program(m);
    const struct dataset_info *info = &m->train_info;
    const bool data = m->train != NULL;
    struct program_start start = {.has_data = data,
                                  .has_classes = data && info->label_is_class,
                                  .field_count = (uint32_t)p->field_count,
                                  .has_weights = data && dataset_fields(m->train)->weighted};
    p->feature_count = m->train == NULL ? 0 : (size_t)shape_count(&info->features);
    start.feature_rank = m->train == NULL ? 0 : (uint32_t)info->features.rank;
    for (uint32_t d = 0; d < start.feature_rank; d++) {
        start.feature_dims[d] = info->features.dims[d];
    }
    worker_rows_init_said(&m->rows, &m->spec.model, shard_count);
    worker_rows_init_said(&m->ahead, &m->spec.model, shard_count);
    int rc = worker_compute_loaders(m, EVALUATION_BATCH, err);
    const uint64_t records = m->batch_max;
    p->features_at = model_program_line(records * sizeof(uint64_t));
    p->targets_at = model_program_line(p->features_at + records * p->feature_count * sizeof(float));
    p->classes_at = model_program_line(p->targets_at + records * sizeof(float));
    p->offsets_at = model_program_line(p->classes_at + records * sizeof(int32_t));
    p->keys_at = p->offsets_at + p->field_count * (records + 1) * sizeof(uint64_t);
    m->initial = job_spec_has_from(&m->spec) ? NULL : p->model->initial;
    return rc != 0 ? rc
                   : worker_program_begin(m->program, &start,
                                          (const char(*)[PROGRAM_NAME_BYTES])p->fields, err);
}

/* ---- batches ---- */

static float *array(struct worker_model *m, uint32_t number, const char *what, struct err *err)
{
    (void)what;
    return worker_program_array(m->program, number, m->flat_count * sizeof(float), err);
}

static void add(struct metrics *metrics, const struct program_result *r)
{
    if (metrics == NULL) {
        return;
    }
    metrics->examples += r->examples;
    metrics->weight += (double)r->examples;
    metrics->loss_sum += r->loss_sum;
    metrics->correct += r->correct;
    metrics->squared_error_sum += r->squared_error_sum;
    metrics->absolute_error_sum += r->absolute_error_sum;
}

/* Parameters, and then rows, which may be asked for with what these say. */
static int need_all(const struct worker_model *m, const struct runner_need *need)
{
    int rc = 0;
    for (size_t i = 0; i < m->variable_count && need != NULL && rc == 0; i++) {
        rc = need->call(need->ctx, i);
    }
    const bool rows = need != NULL && need->rows != NULL && m->batch.count > 0;
    return rc != 0 || !rows ? rc : need->rows(need->ctx);
}

static void tell_all(const struct worker_model *m, const struct runner_ready *ready)
{
    for (size_t i = m->variable_count; i > 0 && ready != NULL; i--) {
        ready->call(ready->ctx, i - 1, 0, shape_count(&m->variables[i - 1].shape));
    }
}

static int compute(struct worker_model *m, const struct worker_gradient *g,
                   struct program_result *result, struct err *err)
{
    struct program_work work = {.parameters = (uint32_t)g->set,
                                .gradients = WORKER_SET_COUNT + g->buffer,
                                .step = g->step.step,
                                .replica = (uint32_t)g->step.replica};
    model_program_number(m, &m->batch, &work);
    int rc = model_program_put(m, m->batch.count, m->taken, &work, err);
    rc = rc != 0 ? rc : model_program_put_rows(m, true, &work, err);
    rc = rc != 0 ? rc : worker_program_compute(m->program, PROGRAM_GRADIENT, &work, result, err);
    if (rc == 0) {
        model_program_take_rows(m);
    }
    return rc;
}

static int gradient(struct worker_model *m, const struct worker_gradient *g, struct err *err)
{
    struct program_result result = {.examples = 0};
    int rc = need_all(m, g->need);
    if (rc == 0 && m->batch.count == 0) {
        memset(m->buffers[g->buffer], 0, m->flat_count * sizeof(float));
    } else if (rc == 0) {
        rc = compute(m, g, &result, err);
    }
    if (rc == 0) {
        add(g->metrics, &result);
        tell_all(m, g->ready);
    }
    return rc;
}

static int evaluate(struct worker_model *m, size_t n, struct metrics *metrics, struct err *err)
{
    struct program_result result = {.examples = 0};
    struct program_work work = {.parameters = WORKER_SET_EVALUATION};
    int rc = model_program_put(m, n, m->test == NULL ? NULL : &m->test_batch, &work, err);
    rc = rc != 0 ? rc : model_program_put_rows(m, false, &work, err);
    rc = rc != 0 ? rc : worker_program_compute(m->program, PROGRAM_EVALUATION, &work, &result, err);
    if (rc == 0) {
        add(metrics, &result);
    }
    return rc;
}

const struct worker_compute worker_compute_program = {
    .interrupted = true,
    .load = load,
    .begin = begin,
    .build = build,
    .array = array,
    .keys = model_program_keys,
    .test_keys = model_program_keys_of_test,
    .gradient = gradient,
    .evaluate = evaluate,
    .release = release,
};
