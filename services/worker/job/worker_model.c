/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a job on a worker: loads data and model, computes and adds gradients. A
 * gradient is rounded to the type it travels in as soon as it is made. */
#include "worker/job/worker_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "tensor/half.h"
#include "warm/warm_encoding.h"
#include "worker/job/worker_compute.h"

#define FLAT_ALIGN 16                /* floats: every variable begins at a cache line */
#define EVALUATION_BATCH_OF_ROWS 512 /* records at once at least, in a model with tables */

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
    if (rc != 0) {
        return rc;
    }
    m->compute = job_spec_is_program(&m->spec) ? &worker_compute_program : &worker_compute_layers;
    return m->compute->load(m, file->id, err);
}

uint64_t worker_model_records(const struct worker_model *m)
{
    return job_spec_epoch_records(&m->spec, m->train_info.records);
}

int worker_model_check_variables(const struct worker_model *m, const struct plan *plan,
                                 struct err *err)
{
    const size_t count = m->variable_count;
    if (m->variables == NULL) {
        return 0;
    }
    size_t others = 0, first = 0;
    for (size_t i = 0; i < plan->variable_count && i < count; i++) {
        const struct variable_spec *mine = &m->variables[i], *planned = &plan->variables[i];
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
                                 first, m->variables[first].name, others, count);
}

static void lay_out(struct worker_model *m)
{
    m->offsets = mem_new(m->variable_count, sizeof *m->offsets);
    uint64_t at = 0;
    for (size_t i = 0; i < m->variable_count; i++) {
        m->offsets[i] = at;
        uint64_t n = shape_count(&m->variables[i].shape);
        at += (n + FLAT_ALIGN - 1) / FLAT_ALIGN * FLAT_ALIGN;
    }
    m->flat_count = at;
}

size_t worker_compute_batch(const struct worker_model *m, size_t least)
{
    const size_t batch = (size_t)m->spec.training.batch_size;
    least = m->spec.model.table_count > 0 ? EVALUATION_BATCH_OF_ROWS : least;
    return batch < least ? least : batch;
}

int worker_compute_loaders(struct worker_model *m, size_t least, struct err *err)
{
    int rc = 0;
    m->batch_max = worker_compute_batch(m, least);
    m->records = mem_new(m->batch_max, sizeof *m->records);
    if (m->test != NULL) {
        rc = batch_init(&m->test_batch, m->test, m->batch_max, err);
    }
    if (rc == 0 && m->train != NULL) {
        rc = loader_new(m->train, (uint64_t)m->spec.training.seed,
                        (size_t)m->spec.training.batch_size, WORKER_PREFETCH_MAX + 1, &m->loader,
                        err);
    }
    return rc;
}

int worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err)
{
    int rc = m->variables != NULL ? 0 : m->compute->make(m, err);
    rc = rc != 0 ? rc : worker_model_check_variables(m, plan, err);
    if (rc != 0) {
        return rc;
    }
    lay_out(m);
    return m->compute->build(m, plan->shard_count, err);
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
    if (m->computer != NULL) {
        m->compute->release(m);
    }
    batch_release(&m->test_batch);
    dataset_free(m->train);
    dataset_free(m->test);
    free(m->brought);
    free(m->encoding);
    free(m->offsets);
    free(m->records);
    job_spec_release(&m->spec);
    *m = (struct worker_model){.program = m->program, .arrays = m->arrays};
}

static float *array(struct worker_model *m, float **place, uint32_t number, const char *what,
                    struct err *err)
{
    if (*place == NULL) {
        *place = m->compute->array(m, number, what, err);
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
 * batch needs of tables. */
static int take(struct worker_model *m, const struct ledger_batch *batch, struct worker_rows *rows,
                const struct batch **taken, struct err *err)
{
    int rc = m->loader == NULL
                 ? 0
                 : loader_take(m->loader, batch->epoch, batch->first, batch->count, taken, err);
    if (rc != 0 || rows->count == 0) {
        return rc;
    }
    return m->compute->keys(m, batch, *taken, rows, err);
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
    m->batch = *batch;
    m->load_ns = chrono_now_ns() - begin;
    return rc;
}

int worker_model_rows(struct worker_model *m, uint32_t buffer, struct err *err)
{
    return worker_rows_come(&m->rows, &m->row_gradients[buffer], err);
}

int worker_model_gradient(struct worker_model *m, const struct worker_gradient *g, struct err *err)
{
    int rc = m->compute->gradient(m, g, err);
    if (rc == 0 && m->batch.count == 0) {
        worker_rows_gradient_clear(&m->rows, &m->row_gradients[g->buffer]);
    }
    if (m->taken != NULL) {
        loader_return(m->loader, m->taken);
        m->taken = NULL;
    }
    if (rc == 0) {
        m->summed[g->buffer] = false;
        round_buffer(m, g->buffer);
    }
    return rc;
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

/* ---- evaluation ---- */

static int fetch_rows(struct worker_model *m, size_t n, const struct worker_model_fetch *fetch,
                      struct err *err)
{
    if (m->rows.count == 0) {
        return 0;
    }
    int rc = m->compute->test_keys(m, n, err);
    rc = rc != 0 ? rc : fetch->call(fetch->ctx, err);
    return rc != 0 ? rc : worker_rows_come(&m->rows, NULL, err);
}

int worker_model_evaluate(struct worker_model *m, uint64_t first, uint64_t count,
                          const struct worker_model_fetch *fetch, struct metrics *metrics,
                          struct err *err)
{
    const uint64_t records = m->test_info.records;
    if (records == 0) {
        return err_set(err, ERR_STATE, "the job has no test data");
    }
    if (first > records || count > records - first) {
        return err_set(err, ERR_RANGE, "test records %" PRIu64 "+%" PRIu64 " of %" PRIu64, first,
                       count, records);
    }
    while (count > 0) {
        size_t n = count < m->batch_max ? (size_t)count : m->batch_max;
        for (size_t i = 0; i < n; i++) {
            m->records[i] = first + i;
        }
        int rc = m->test == NULL ? 0 : dataset_read(m->test, m->records, n, &m->test_batch, err);
        rc = rc != 0 ? rc : fetch_rows(m, n, fetch, err);
        rc = rc != 0 ? rc : m->compute->evaluate(m, n, metrics, err);
        if (rc != 0) {
            return rc;
        }
        first += n;
        count -= n;
    }
    return 0;
}
