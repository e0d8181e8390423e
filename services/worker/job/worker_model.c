/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a job on a worker: loads data and model, computes and adds gradients. A
 * gradient is rounded to the type it travels in as soon as it is made. */
#include "worker/job/worker_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "graph/model_import.h"
#include "graph/model_weights.h"
#include "tensor/half.h"
#include "warm/warm_encoding.h"
#include "worker/job/worker_model_program.h"

#define FLAT_ALIGN 16       /* floats: every variable begins at a cache line */
#define EVALUATION_BATCH 64 /* records computed at once at least */
/* in a model with tables, each batch of which asks for rows */
#define EVALUATION_BATCH_OF_ROWS 512
#define STAGGER_FLOATS                                                                             \
    1040 /* arrays must not lie a power of two apart: they would share cache ways */

/* m->encoding. */
static int find_encoding(struct worker_model *m, const struct worker_job_file *file,
                         const struct dataset_cache *cache, struct err *err)
{
    const struct data_roots *roots = cache == NULL ? NULL : dataset_cache_roots(cache);
    int rc = 0;
    if (!job_spec_takes_encoding(&m->spec)) {
        return 0;
    }
    if (file->encoding[0] != '\0') {
        m->encoding = mem_strdup(file->encoding);
    } else if (file->begins) {
        rc = warm_encoding_read(&m->spec, roots, &m->encoding, err);
    }
    m->spec.data.measured = m->encoding;
    return rc;
}

static int load_data(struct worker_model *m, const struct worker_job_file *file,
                     struct dataset_cache *cache, struct err *err)
{
    enum data_label_kind kind = job_spec_label_kind(&m->spec);
    int rc = find_encoding(m, file, cache, err);
    if (rc != 0) {
        return rc;
    }
    rc = cache == NULL ? dataset_open(&m->spec.data, kind, &m->train, &m->test, err)
                       : dataset_cache_open(cache, &m->spec.data, kind, &m->train, &m->test,
                                            &m->data_known, err);
    if (rc != 0) {
        return rc;
    }
    m->train_info = m->test_info = *dataset_info(m->train);
    m->test_info.records = 0;
    if (m->test != NULL) {
        m->test_info = *dataset_info(m->test);
    }
    return 0;
}

static int make_model(struct worker_model *m, struct err *err)
{
    const struct dataset_info *info = dataset_info(m->train);
    int rc = model_new(&m->spec.model, &info->features, &info->fields,
                       info->label_is_class ? info->classes : 0, &m->model, err);
    if (rc == 0 && model_is_balanced(m->model)) {
        uint64_t *counts = mem_new(info->classes, sizeof *counts);
        dataset_class_counts(m->train, counts);
        model_balance(m->model, counts);
        free(counts);
    }
    if (rc == 0 && data_spec_samples(&m->spec.data)) {
        model_sampled(m->model, m->spec.data.negative_sampling);
    }
    return rc != 0 ? rc : model_check_batch(m->model, (size_t)m->spec.training.batch_size, err);
}

int worker_model_load(struct worker_model *m, const struct worker_job_file *file,
                      struct dataset_cache *cache, struct err *err)
{
    struct diags diags = {0};
    int rc = job_spec_parse(file->text, strlen(file->text), "job", NULL, 0, &m->spec, &diags);
    if (rc != 0) {
        struct buf messages = {0};
        diags_format(&diags, &messages);
        rc = err_set(err, rc, "%s", buf_str(&messages));
        buf_release(&messages);
        diags_release(&diags);
        return rc;
    }
    diags_release(&diags);
    rc = job_spec_has_data(&m->spec) ? load_data(m, file, cache, err) : 0;
    rc = rc != 0
             ? rc
             : job_spec_import(&m->spec, cache == NULL ? NULL : dataset_cache_roots(cache), err);
    const bool layers = !job_spec_is_program(&m->spec);
    if (rc == 0 && layers && (model_is_imported(&m->spec.model) || job_spec_has_from(&m->spec))) {
        rc = make_model(m, err); /* now the job can still be refused */
        if (rc == 0 && !model_is_imported(&m->spec.model)) {
            worker_model_give(m);
        }
        return rc;
    }
    return rc == 0 && job_spec_is_program(&m->spec) ? model_program_load(m, file->id, err) : rc;
}

uint64_t worker_model_records(const struct worker_model *m)
{
    return job_spec_epoch_records(&m->spec, m->train_info.records);
}

static size_t count_variables(const struct worker_model *m)
{
    return m->by_program != NULL ? model_program_given(m)->count : model_variable_count(m->model);
}

static const struct variable_spec *variable_at(const struct worker_model *m, size_t i)
{
    return m->by_program != NULL ? &model_program_given(m)->variables[i]
                                 : model_variable(m->model, i);
}

int worker_model_check_variables(const struct worker_model *m, const struct plan *plan,
                                 struct err *err)
{
    if (m->by_program == NULL && m->model == NULL) {
        return 0; /* layers that are not built yet */
    }
    const size_t count = count_variables(m);
    size_t others = 0, first = 0;
    for (size_t i = 0; i < plan->variable_count && i < count; i++) {
        const struct variable_spec *mine = variable_at(m, i), *planned = &plan->variables[i];
        if (!variable_equal(mine, planned)) {
            char a[VARIABLE_TEXT_BYTES], b[VARIABLE_TEXT_BYTES];
            return err_set(err, ERR_STATE, "variable %zu: the job has %s, this node has %s", i,
                           variable_format(planned, a, sizeof a),
                           variable_format(mine, b, sizeof b));
        }
        if (mine->digest != planned->digest && mine->digest != 0 && planned->digest != 0) {
            first = others++ == 0 ? i : first;
        }
    }
    if (count != plan->variable_count) {
        return err_set(err, ERR_STATE, "variables: the job has %zu, this node has %zu",
                       plan->variable_count, count);
    }
    return others == 0 ? 0
                       : err_set(err, ERR_STATE,
                                 "variable %zu, %s: its initial values are not those that the "
                                 "first worker of the job told (%zu of %zu variables differ); they "
                                 "must be a function of the job and its seed alone",
                                 first, variable_at(m, first)->name, others, count);
}

static void lay_out(struct worker_model *m)
{
    m->variable_count = count_variables(m);
    m->offsets = mem_new(m->variable_count, sizeof *m->offsets);
    m->values = mem_new(m->variable_count, sizeof *m->values);
    m->gradients = mem_new(m->variable_count, sizeof *m->gradients);
    uint64_t at = 0;
    for (size_t i = 0; i < m->variable_count; i++) {
        m->offsets[i] = at;
        uint64_t n = shape_count(&variable_at(m, i)->shape);
        at += (n + FLAT_ALIGN - 1) / FLAT_ALIGN * FLAT_ALIGN;
    }
    m->flat_count = at;
}

/* Finds the rows of a batch; on the loader's threads. */
static int look_ahead(void *ctx, size_t slot, const struct batch *b, struct err *err)
{
    struct worker_model *m = ctx;
    return worker_rows_look(m->model, &b->lists, &m->found[slot], err);
}

/* Makes the loaders that decode the batches of the job's data. */
static int make_loaders(struct worker_model *m, struct err *err)
{
    int rc = 0;
    m->records = mem_new(m->runner_batch, sizeof *m->records);
    if (m->test != NULL) {
        rc = batch_init(&m->test_batch, m->test, m->runner_batch, err);
    }
    if (rc == 0 && m->train != NULL) {
        rc = loader_new(m->train, (uint64_t)m->spec.training.seed,
                        (size_t)m->spec.training.batch_size, WORKER_PREFETCH_MAX + 1, &m->loader,
                        err);
    }
    if (rc == 0 && m->rows.count > 0 && m->by_program == NULL) {
        const struct loader_prepare prepare = {look_ahead, m};
        loader_set_prepare(m->loader, &prepare);
    }
    return rc;
}

static int build_program(struct worker_model *m, const struct plan *plan, struct err *err)
{
    int rc = worker_model_check_variables(m, plan, err);
    if (rc != 0) {
        return rc;
    }
    lay_out(m);
    worker_rows_init_said(&m->rows, &m->spec.model, plan->shard_count);
    worker_rows_init_said(&m->ahead, &m->spec.model, plan->shard_count);
    m->runner_batch = model_program_batch(m);
    rc = make_loaders(m, err);
    return rc != 0 ? rc : model_program_begin(m, err);
}

int worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err)
{
    if (m->by_program != NULL) {
        return build_program(m, plan, err);
    }
    int rc = m->model != NULL ? 0 : make_model(m, err);
    if (rc == 0) {
        rc = worker_model_check_variables(m, plan, err);
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
    worker_rows_init(&m->ahead, m->model, plan->shard_count);
    size_t batch = (size_t)m->spec.training.batch_size;
    size_t least = m->rows.count > 0 ? EVALUATION_BATCH_OF_ROWS : EVALUATION_BATCH;
    m->runner_batch = batch < least ? least : batch;
    rc = runner_new(m->model, m->runner_batch, (int)m->spec.cluster.blas_threads, &m->runner, err);
    if (rc == 0) {
        runner_set_rows(m->runner, m->rows.run);
    }
    return rc != 0 ? rc : make_loaders(m, err);
}

static void forget_ahead(struct worker_model *m)
{
    if (m->ahead_taken != NULL) {
        loader_return(m->loader, m->ahead_taken);
        m->ahead_taken = NULL;
    }
    m->has_ahead = false;
}

void worker_model_release(struct worker_model *m)
{
    if (m->taken != NULL) {
        loader_return(m->loader, m->taken);
    }
    forget_ahead(m);
    loader_free(m->loader);
    for (size_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        worker_rows_gradient_release(&m->rows, &m->row_gradients[i]);
    }
    worker_rows_release(&m->rows);
    worker_rows_release(&m->ahead);
    for (size_t i = 0; i < sizeof m->found / sizeof m->found[0]; i++) {
        worker_rows_keys_release(&m->found[i]);
    }
    runner_free(m->runner);
    model_free(m->model);
    if (m->by_program != NULL) { /* its arrays are the program's */
        memset(m->sets, 0, sizeof m->sets);
        memset(m->buffers, 0, sizeof m->buffers);
        model_program_release(m);
    }
    batch_release(&m->test_batch);
    dataset_free(m->train);
    dataset_free(m->test);
    for (size_t i = 0; i < WORKER_SET_COUNT; i++) {
        free(m->sets[i]);
    }
    for (size_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        free(m->buffers[i]);
    }
    free(m->brought);
    free(m->encoding);
    free(m->given);
    free(m->offsets);
    free(m->values);
    free(m->gradients);
    free(m->records);
    job_spec_release(&m->spec);
    *m = (struct worker_model){.program = m->program};
}

static float *array(const struct worker_model *m, float **place, uint32_t number, const char *what,
                    struct err *err)
{
    if (*place == NULL && m->by_program != NULL) {
        *place = worker_program_array(m->program, number, m->flat_count * sizeof(float), err);
    } else if (*place == NULL) {
        *place = mem_try_aligned(m->flat_count + STAGGER_FLOATS, sizeof(float), what, err);
    }
    return *place;
}

float *worker_model_set(struct worker_model *m, enum worker_set set, struct err *err)
{
    return array(m, &m->sets[set], (uint32_t)set, "parameters", err);
}

float *worker_model_buffer(struct worker_model *m, uint32_t buffer, struct err *err)
{
    return array(m, &m->buffers[buffer], WORKER_SET_COUNT + buffer, "gradients", err);
}

void worker_model_prefetch(struct worker_model *m, const struct ledger_batch *batch)
{
    /* Without a loader the batch is decoded when its turn comes. */
    if (m->loader == NULL) {
        return;
    }
    (void)loader_request(m->loader, batch->epoch, batch->first, batch->count, NULL);
}

void worker_model_point(struct worker_model *m, enum worker_set set)
{
    for (size_t i = 0; i < m->variable_count; i++) {
        m->values[i] = m->sets[set] + m->offsets[i];
    }
}

/* What the servers decide about a gradient they decide by its dense part. */
static void mark_rows(struct worker_model *m, uint32_t buffer)
{
    const bool matters = m->rows.count > 0 && m->spec.update.non_finite != UPDATE_NON_FINITE_APPLY;
    if (matters && !worker_rows_gradient_is_finite(&m->rows, &m->row_gradients[buffer])) {
        m->buffers[buffer][m->offsets[0]] = NAN;
    }
}

/* Rounds to the type in which the servers get the gradient; values that are too large for it become
 * infinite. */
static void round_buffer(struct worker_model *m, uint32_t buffer)
{
    const enum value_type type = (enum value_type)m->spec.training.wire_gradients;
    values_round(type, m->buffers[buffer], m->flat_count);
    worker_rows_gradient_round(&m->rows, &m->row_gradients[buffer], type);
    mark_rows(m, buffer);
}

void worker_model_round_sum(struct worker_model *m, uint32_t buffer)
{
    if (m->summed[buffer]) {
        m->summed[buffer] = false;
        round_buffer(m, buffer);
    }
}

/* Takes @batch, which @taken holds, unless its records are the program's; and into @rows what the
 * batch needs of tables: what was found when it was decoded, or what the program says. */
static int take(struct worker_model *m, const struct ledger_batch *batch, struct worker_rows *rows,
                const struct batch **taken, struct err *err)
{
    int rc = m->loader == NULL
                 ? 0
                 : loader_take(m->loader, batch->epoch, batch->first, batch->count, taken, err);
    if (rc != 0 || rows->count == 0) {
        return rc;
    }
    return m->by_program != NULL
               ? model_program_keys(m, batch, *taken, rows, err)
               : worker_rows_take(rows, &m->found[loader_slot(m->loader, *taken)], err);
}

bool worker_model_is_ahead(const struct worker_model *m, const struct ledger_batch *batch)
{
    return m->has_ahead && ledger_batch_equal(&m->ahead_of, batch);
}

int worker_model_take_ahead(struct worker_model *m, const struct ledger_batch *batch,
                            struct err *err)
{
    if (worker_model_is_ahead(m, batch)) {
        return 0;
    }
    forget_ahead(m);
    int rc = take(m, batch, &m->ahead, &m->ahead_taken, err);
    m->ahead_of = *batch;
    m->has_ahead = rc == 0;
    if (rc != 0) {
        forget_ahead(m);
    }
    return rc;
}

/* Takes what was found ahead, which is of this batch. */
static void use_ahead(struct worker_model *m)
{
    const struct worker_rows rows = m->rows;
    m->rows = m->ahead;
    m->ahead = rows;
    m->taken = m->ahead_taken;
    m->ahead_taken = NULL;
    m->has_ahead = false;
    if (m->runner != NULL) {
        runner_set_rows(m->runner, m->rows.run);
    }
}

int worker_model_take(struct worker_model *m, const struct ledger_batch *batch, struct err *err)
{
    uint64_t begin = chrono_now_ns();
    int rc = 0;
    m->was_ahead = worker_model_is_ahead(m, batch);
    if (m->was_ahead) {
        use_ahead(m);
    } else {
        forget_ahead(m);
        rc = take(m, batch, &m->rows, &m->taken, err);
    }
    if (rc == 0 && m->by_program != NULL) {
        model_program_take(m, batch);
    }
    m->load_ns = chrono_now_ns() - begin;
    return rc;
}

int worker_model_rows(struct worker_model *m, uint32_t buffer, struct err *err)
{
    return worker_rows_come(&m->rows, &m->row_gradients[buffer], err);
}

static int gradient_by_program(struct worker_model *m, const struct runner_step *step,
                               enum worker_set set, uint32_t buffer, struct metrics *metrics,
                               const struct runner_need *need, const struct runner_ready *ready,
                               struct err *err)
{
    int rc = model_program_gradient(m, step, set, buffer, metrics, need, ready, err);
    if (m->taken != NULL) {
        loader_return(m->loader, m->taken);
        m->taken = NULL;
    }
    if (rc == 0) {
        m->summed[buffer] = false;
        round_buffer(m, buffer);
    }
    return rc;
}

int worker_model_gradient(struct worker_model *m, const struct runner_step *step,
                          enum worker_set set, uint32_t buffer, struct metrics *metrics,
                          const struct runner_need *need, const struct runner_ready *ready,
                          struct err *err)
{
    if (m->by_program != NULL) {
        return gradient_by_program(m, step, set, buffer, metrics, need, ready, err);
    }
    const struct batch *b = m->taken;
    worker_model_point(m, set);
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
