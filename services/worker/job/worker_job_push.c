/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes that are begun with the computation of their gradient, and leave as it is made. */
#include "base/chrono.h"
#include "worker/job/worker_job_state.h"

static bool begin_one(struct worker_job *j, const struct worker_request *r)
{
    struct err err;
    struct ps_client_request request;
    if (worker_job_client_request(j, r, &request, &err) != 0) {
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
