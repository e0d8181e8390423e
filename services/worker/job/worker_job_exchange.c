/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges with shards, and pushes that are begun with the computation of their gradient and leave
 * as it is made. */
#include "os/chrono.h"
#include "worker/job/worker_job_state.h"

/* Decodes the next batch ahead. An error in it is told when it is computed. */
static void look_ahead(struct worker_job *j, const struct worker_request *r)
{
    struct err unused = {0};
    const uint64_t begin = chrono_now_ns();
    (void)worker_model_take_ahead(&j->model, &r->rows_of, &unused);
    worker_job_busy(j, STEP_LOAD, TRACE_LOAD, begin, chrono_now_ns());
}

/* @r as the client takes it, without what worker_job_sums_attach() adds. Errors: ERR_EXHAUSTED. */
static int client_request(struct worker_job *j, const struct worker_request *r,
                          struct ps_client_request *out, struct err *err)
{
    *out = (struct ps_client_request){
        .exchange = r->exchange,
        .shard = r->shard,
        .generation = r->generation,
        .ask = r->ask,
        .early = r->early,
        .gradient = r->buffer == WORKER_BUFFER_NONE ? NULL : j->model.buffers[r->buffer],
        .gradient_id = r->buffer,
    };
    if (r->ask.has_pull || r->ask.kind == EXCHANGE_PINNED) {
        out->values = worker_model_set(&j->model, r->set, err);
        if (out->values == NULL) {
            return ERR_EXHAUSTED;
        }
    }
    if (r->brings_rows && worker_model_is_ahead(&j->model, &r->rows_of)) {
        out->rows = j->model.ahead.shards[r->shard];
    }
    if (out->gradient != NULL && r->ask.has_push && j->model.rows.count > 0) {
        return worker_rows_encode(&j->model.rows, &j->model.row_gradients[r->buffer], r->shard,
                                  ps_client_push_type(j->client, &r->ask.push), &out->tables,
                                  &out->tables_bytes, err);
    }
    return 0;
}

void worker_job_exchange(struct worker_job *j, const struct worker_request *r)
{
    struct err err = {0};
    struct ps_client_request request;
    if (r->brings_rows) {
        look_ahead(j, r);
    }
    uint64_t begin = chrono_now_ns();
    const bool batches = r->ask.has_push && r->ask.push.replica_first == r->ask.push.replica_end;
    if (batches && r->buffer != WORKER_BUFFER_NONE) {
        worker_model_round_sum(&j->model, r->buffer);
    }
    if (client_request(j, r, &request, &err) != 0) {
        worker_job_fail(j, &err);
        return;
    }
    if (worker_job_sums_attach(&j->sums, &j->model, &request, &err) != 0) {
        worker_job_fail(j, &err);
        return;
    }
    worker_job_trace_sending(j, r->exchange);
    ps_client_exchange(j->client, &request);
    uint64_t end = chrono_now_ns();
    if (r->ask.kind != EXCHANGE_PINNED) {
        step_clock_busy(&j->clock, STEP_WIRE, begin, end);
    }
    worker_job_trace_sent(j, r, begin, end);
}

/* ---- pushes that leave as their gradient is made ---- */

static bool begin_one(struct worker_job *j, const struct worker_request *r)
{
    struct err err;
    struct ps_client_request request;
    if (client_request(j, r, &request, &err) != 0) {
        return false; /* said when it is sent at the end */
    }
    if (worker_job_sums_needs_norms(&j->sums, &request) || !ps_client_begin(j->client, &request)) {
        return false;
    }
    worker_job_trace_sending(j, r->exchange);
    return true;
}

/* With the first part of the gradient: until then the computation may fail. */
static void begin(struct worker_job *j)
{
    struct job_push *p = &j->push;
    p->making = true;
    while (p->begun < p->count && begin_one(j, &p->requests[p->begun])) {
        p->begun++;
    }
}

static void made(void *ctx, size_t variable, uint64_t first, uint64_t count)
{
    struct worker_job *j = ctx;
    if (!j->push.making) {
        begin(j);
    }
    ps_client_made(j->client, variable, first, count);
}

const struct runner_ready *worker_job_push_begin(struct worker_job *j,
                                                 const struct worker_do_compute *a)
{
    struct job_push *p = &j->push;
    *p = (struct job_push){.requests = a->pushes, .count = a->push_count, .ready = {made, j}};
    /* An experiment with a slow computation means its gradient, too. */
    bool whole = j->client == NULL || j->slow_down.factor > 1;
    return p->count == 0 || whole ? NULL : &p->ready;
}

void worker_job_push_end(struct worker_job *j)
{
    struct job_push *p = &j->push;
    if (p->making) {
        uint64_t begin = chrono_now_ns();
        ps_client_made_all(j->client);
        uint64_t end = chrono_now_ns();
        step_clock_busy(&j->clock, STEP_WIRE, begin, end);
        for (size_t i = 0; i < p->begun; i++) {
            worker_job_trace_sent(j, &p->requests[i], begin, end);
        }
    }
    for (size_t i = p->begun; i < p->count && !j->halted; i++) {
        worker_job_exchange(j, &p->requests[i]);
    }
}
