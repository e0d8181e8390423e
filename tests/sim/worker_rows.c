/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables: they come with the parameters, where it is known what is computed next; otherwise
 * a computation asks every shard for them and waits, as worker_job_compute.c of services/worker
 * does. The rows of a model are its odd elements: the values of pulls do not have them. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#define PATIENCE_US (2 * SIM_S) /* of a job's thread that waits for rows */
#define NOWHERE (-1e9F)         /* what nobody may compute with */

bool job_is_row(const struct sim_job *job, uint32_t element)
{
    return job->tables && element % 2 == 1;
}

/* ---- which rows, and what a batch brings of them ---- */

/* Of @batch; NULL: an evaluation, which reads all of them. */
static void rows_of(const struct sim_job *job, const struct ledger_batch *batch, uint32_t table,
                    bool wanted[SIM_KEYS])
{
    memset(wanted, batch == NULL, SIM_KEYS * sizeof *wanted);
    if (batch == NULL) {
        return;
    }
    const struct sim_batch_rows *b =
        tables_batch(batch->epoch, batch->split * job->split_batches + batch->batch, table);
    for (uint32_t i = 0; i < b->n; i++) {
        wanted[b->key[i]] = true;
    }
}

/* Those that are of the shard, for each table how many and their numbers. */
uint32_t rows_ask(const struct sim_job *job, const struct sim_layout *l,
                  const struct ledger_batch *batch, uint32_t shard, unsigned char *out)
{
    unsigned char *at = out;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        bool wanted[SIM_KEYS];
        unsigned char *count = at++;
        *count = 0;
        rows_of(job, batch, t, wanted);
        for (uint32_t k = 0; k < SIM_KEYS; k++) {
            if (wanted[k] && table_shard_of(sim_keys[k], l->shard_count) == shard) {
                *at++ = (unsigned char)k;
                ++*count;
            }
        }
    }
    return (uint32_t)(at - out);
}

static void take(struct world *w, const struct sim_job *job, const struct sim_layout *l,
                 const struct ledger_batch *batch, uint32_t shard, const struct exchange *x,
                 struct sim_values *to)
{
    const unsigned char *at = x->rows;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const size_t bytes = job->table_plans[t].config.dim * sizeof(float);
        bool wanted[SIM_KEYS];
        rows_of(job, batch, t, wanted);
        for (uint32_t k = 0; k < SIM_KEYS; k++) {
            if (wanted[k] && table_shard_of(sim_keys[k], l->shard_count) == shard) {
                memcpy(to->of[t][k], at, bytes);
                at += bytes;
            }
        }
    }
    if (at != x->rows + x->rows_bytes) {
        violated(w, INVARIANT_READ, "shard %u answers with %u bytes of rows, not %zu", shard,
                 x->rows_bytes, (size_t)(at - x->rows));
    }
}

void rows_gradient(struct world *w, const struct sim_worker_job *j, const struct tensor *params,
                   struct worker_buffer *to)
{
    const struct sim_job *job = &w->jobs[j->job];
    const struct worker_do_compute *a = &j->computing.compute;
    struct sim_rows_gradient g;
    tables_gradient_of(job, &j->table_rows, params->v, a->batch.epoch,
                       a->batch.split * job->split_batches + a->batch.batch, a->batch.count, &g);
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        struct sim_gradient_arrays arrays;
        const struct table_gradient_view view = tables_view(job, t, &g, &arrays);
        table_gradient_release(&to->tables[t]);
        table_gradient_init(&to->tables[t], view.dim);
        if (table_gradient_add(&to->tables[t], &view, NULL) != 0) {
            violated(w, INVARIANT_ROWS, "a gradient of rows cannot be made");
        }
    }
}

void rows_add(struct world *w, struct worker_buffer *to, const struct worker_buffer *from)
{
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const struct table_gradient_view view = table_gradient_view(&from->tables[t]);
        if (table_gradient_add(&to->tables[t], &view, NULL) != 0) {
            violated(w, INVARIANT_ROWS, "gradients of rows cannot be summed");
        }
    }
}

/* Those of the shard, as bytes. Who has none may say so, or nothing. */
void rows_send(const struct sim_layout *l, const struct worker_buffer *from, uint32_t shard,
               struct exchange *x)
{
    size_t rows = 0;
    x->rows_bytes = 0;
    for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
        const struct table_gradient *g = &from->tables[t];
        struct sim_gradient_arrays arrays;
        size_t n = 0;
        for (size_t i = 0; i < g->n; i++) {
            if (table_shard_of(g->keys[i], l->shard_count) == shard) {
                arrays.keys[n] = g->keys[i];
                arrays.sightings[n] = g->sightings[i];
                memcpy(arrays.values + n * g->dim, g->values + i * g->dim, g->dim * sizeof(float));
                n++;
            }
        }
        const struct table_gradient_view view = {.dim = g->dim,
                                                 .n = n,
                                                 .keys = arrays.keys,
                                                 .sightings = arrays.sightings,
                                                 .values = arrays.values};
        table_gradient_encode(VALUE_FP32, &view, x->rows + x->rows_bytes);
        x->rows_bytes += (uint32_t)table_gradient_bytes(VALUE_FP32, n, g->dim);
        rows += n;
    }
    x->rows_bytes = rows == 0 && x->number % 2 == 0 ? 0 : x->rows_bytes;
}

void rows_release(struct sim_worker_job *j)
{
    for (size_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        for (uint32_t t = 0; t < SIM_TABLE_COUNT; t++) {
            table_gradient_release(&j->buffers[i].tables[t]);
        }
    }
}

/* ---- a computation that waits for rows ---- */

static void lose(struct sim_worker_job *j, int code)
{
    j->rows_code = j->rows_lost && j->rows_code == ERR_RANGE ? ERR_RANGE : code;
    j->rows_lost = true;
}

static bool is_open(const struct sim_worker_job *j)
{
    for (uint32_t i = 0; i < j->pending_count; i++) {
        if (j->pending[i].open && j->pending[i].rows) {
            return true;
        }
    }
    return false;
}

static void go_on(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    uint64_t us = j->rows_lost ? 1 : j->takes_us;
    j->rows_wait = false;
    world_at(w, w->now_us + us, EVENT_COMPUTED, node, j->serial, 0);
}

void rows_along(struct world *w, struct sim_worker_job *j, const struct pending_exchange *p,
                const struct exchange *x)
{
    const struct sim_job *job = &w->jobs[j->job];
    if (x->with_rows && !p->brings_rows) {
        violated(w, INVARIANT_READ, "shard %u sends rows that nobody asked for", p->shard);
    }
    for (uint32_t k = 0; k < j->layout->shard_elements[p->shard] && p->brings_rows; k++) {
        j->ahead.t.v[j->layout->map[p->shard][k]] = x->with_rows ? x->values.v[k] : NOWHERE;
    }
    if (p->brings_rows) {
        j->ahead.shard[p->shard].opened = x->opened;
        j->ahead.shard[p->shard].ids = x->ids;
        j->ahead.shard[p->shard].of = p->rows_of;
        if (x->with_rows) {
            take(w, job, j->layout, &p->rows_of, p->shard, x, &j->ahead.table_rows);
        }
    }
}

/* What came with the parameters of every shard is of their version, and for this batch. */
static void use_ahead(struct world *w, struct sim_worker_job *j)
{
    const struct worker_do_compute *a = &j->computing.compute;
    const struct worker_values *set = &j->sets[a->set];
    for (uint32_t s = 0; s < j->shard_count; s++) {
        if (!ledger_batch_equal(&j->ahead.shard[s].of, &a->batch)) {
            violated(w, INVARIANT_READ, "rows of shard %u are for another batch", s);
        }
        if (j->ahead.shard[s].opened != set->shard[s].opened ||
            !ids_equal(&j->ahead.shard[s].ids, &set->shard[s].ids)) {
            violated(w, INVARIANT_READ, "rows that came with shard %u are of another version", s);
        }
    }
    j->rows = j->ahead.t;
    j->table_rows = j->ahead.table_rows;
    w->counts.rows_ahead++;
}

/* For the rows of what it computes or evaluates. */
static const struct worker_request *request_of(const struct sim_worker_job *j)
{
    return j->computing.kind == WORKER_DO_COMPUTE ? &j->computing.compute.request
                                                  : &j->computing.evaluate.request;
}

void rows_begin(struct world *w, uint32_t node, uint64_t takes_us)
{
    struct sim_worker_job *j = w->nodes[node].job;
    j->takes_us = takes_us;
    j->rows_lost = false;
    j->rows_wait = false;
    if (j->computing.kind == WORKER_DO_COMPUTE && j->computing.compute.has_rows) {
        use_ahead(w, j);
    }
    if (request_of(j)->ask.kind != EXCHANGE_ROWS) {
        world_at(w, w->now_us + takes_us, EVENT_COMPUTED, node, j->serial, 0);
        return;
    }
    for (uint32_t i = 0; i < SIM_ELEMENTS_MAX; i++) {
        j->rows.v[i] = NOWHERE;
    }
    for (uint32_t s = 0; s < j->shard_count; s++) {
        struct worker_request r = *request_of(j);
        r.shard = s;
        exchange_send(w, node, &r);
    }
    j->rows_wait = true;
    world_at(w, w->now_us + PATIENCE_US, EVENT_ROWS_DUE, node, j->serial,
             (uint32_t)request_of(j)->exchange);
}

/* They are of the very cut that the parameters are of. */
static void check_cut(struct world *w, const struct sim_worker_job *j,
                      const struct pending_exchange *p, const struct exchange *x)
{
    const bool computes = j->computing.kind == WORKER_DO_COMPUTE;
    const struct worker_values *set =
        &j->sets[computes ? j->computing.compute.set : WORKER_SET_EVALUATION];
    if (computes && j->consistency.mode != TRAINING_SYNC) {
        return; /* the newest there are */
    }
    if (x->opened != set->shard[p->shard].opened ||
        !ids_equal(&x->ids, &set->shard[p->shard].ids)) {
        violated(w, INVARIANT_READ,
                 "rows of shard %u are of version %llu, the parameters of version %llu", p->shard,
                 (unsigned long long)x->version, (unsigned long long)set->shard[p->shard].version);
    }
}

void rows_came(struct world *w, uint32_t node, const struct pending_exchange *p,
               const struct exchange *x)
{
    struct sim_worker_job *j = w->nodes[node].job;
    const struct sim_job *job = &w->jobs[j->job];
    if (x->code != 0) {
        TRACE(w, node, "gets no rows of shard %u: %s", p->shard, x->message);
        lose(j, x->code);
    } else if (!x->has_values) {
        violated(w, INVARIANT_READ, "rows of shard %u are answered without any", p->shard);
    } else {
        check_cut(w, j, p, x);
        for (uint32_t k = 0; k < j->layout->shard_elements[p->shard]; k++) {
            j->rows.v[j->layout->map[p->shard][k]] = x->values.v[k];
        }
        take(w, job, j->layout,
             j->computing.kind == WORKER_DO_COMPUTE ? &j->computing.compute.batch : NULL, p->shard,
             x, &j->table_rows);
    }
    if (j->rows_wait && !is_open(j)) {
        go_on(w, node);
    }
}

void rows_broken(struct world *w, uint32_t node)
{
    struct sim_worker_job *j = w->nodes[node].job;
    lose(j, ERR_UNAVAILABLE);
    if (j->rows_wait && !is_open(j)) {
        go_on(w, node);
    }
}

void rows_due(struct world *w, uint32_t node, uint32_t serial, uint32_t number)
{
    struct sim_worker_job *j = w->nodes[node].job;
    if (!j->there || j->serial != serial || !j->rows_wait ||
        (uint32_t)request_of(j)->exchange != number) {
        return;
    }
    TRACE(w, node, "waits for rows no longer");
    for (uint32_t i = 0; i < j->pending_count; i++) {
        j->pending[i].open = j->pending[i].open && !j->pending[i].rows;
    }
    lose(j, ERR_UNAVAILABLE);
    go_on(w, node);
}

void rows_fill(const struct world *w, const struct sim_worker_job *j, struct tensor *t)
{
    const struct sim_job *job = &w->jobs[j->job];
    for (uint32_t i = 0; i < job->elements; i++) {
        t->v[i] = job_is_row(job, i) ? j->rows.v[i] : t->v[i];
    }
}
