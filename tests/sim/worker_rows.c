/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables: a computation asks every shard for them and waits, as worker_job_rows.c of
 * services/worker does. The rows of a model are its odd elements: pulls do not bring them. */
#include "sim/sim.h"

#include <stdio.h>

#define PATIENCE_US (2 * SIM_S) /* of a job's thread that waits for rows */
#define NOWHERE (-1e9F)         /* what nobody may compute with */

bool job_is_row(const struct sim_job *job, uint32_t element)
{
    return job->tables && element % 2 == 1;
}

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

void rows_begin(struct world *w, uint32_t node, uint64_t takes_us)
{
    struct sim_worker_job *j = w->nodes[node].job;
    j->takes_us = takes_us;
    j->rows_lost = false;
    j->rows_wait = false;
    if (j->computing.request.ask.kind != EXCHANGE_ROWS) {
        world_at(w, w->now_us + takes_us, EVENT_COMPUTED, node, j->serial, 0);
        return;
    }
    for (uint32_t i = 0; i < SIM_ELEMENTS_MAX; i++) {
        j->rows.v[i] = NOWHERE;
    }
    for (uint32_t s = 0; s < j->shard_count; s++) {
        struct worker_request r = j->computing.request;
        r.shard = s;
        exchange_send(w, node, &r);
    }
    j->rows_wait = true;
    world_at(w, w->now_us + PATIENCE_US, EVENT_ROWS_DUE, node, j->serial,
             (uint32_t)j->computing.request.exchange);
}

/* They are of the very cut that the parameters are of. */
static void check_cut(struct world *w, const struct sim_worker_job *j,
                      const struct pending_exchange *p, const struct exchange *x)
{
    const struct worker_action *a = &j->computing;
    const struct worker_values *set = &j->sets[a->set];
    if (a->kind == WORKER_DO_COMPUTE && j->consistency.mode != TRAINING_SYNC) {
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
        for (uint32_t k = 0; k < job->shard_elements[p->shard]; k++) {
            j->rows.v[job->map[p->shard][k]] = x->values.v[k];
        }
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
        (uint32_t)j->computing.request.exchange != number) {
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
