/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes that are begun with the computation of their gradient, and leave as it is made. */
#include "base/chrono.h"
#include "worker/job/worker_job_state.h"

/* Is action @i a push of the gradient in @slot, and nothing else needed for it? */
static bool goes_along(const struct worker_job *j, size_t i, uint32_t slot)
{
    if (i >= j->actions.count || j->actions.items[i].kind != WORKER_DO_EXCHANGE) {
        return false;
    }
    const struct worker_action *a = &j->actions.items[i];
    return a->push && a->slot == slot && !worker_job_sums_needs_norms(&j->sums, a);
}

static bool begin_one(struct worker_job *j, const struct worker_action *a)
{
    struct err err;
    struct ps_payload payload = {.gradient = j->model.slots[a->slot]};
    if (a->pull != WORKER_PULL_NONE) {
        payload.values = worker_model_set(&j->model, a->set, &err);
        if (payload.values == NULL) {
            return false; /* said when its turn comes */
        }
    }
    if (!ps_client_begin(j->client, a, &payload)) {
        return false;
    }
    worker_job_trace_sending(j, a->exchange);
    return true;
}

/* With the first part of the gradient: until then the computation may fail. */
static void begin(struct worker_job *j)
{
    struct job_push *p = &j->push;
    p->begun = true;
    while (goes_along(j, p->next, p->slot)) {
        struct worker_action a = j->actions.items[p->next];
        if (!begin_one(j, &a)) {
            return;
        }
        p->next++;
    }
}

static void made(void *ctx, size_t variable, uint64_t first, uint64_t count)
{
    struct worker_job *j = ctx;
    if (!j->push.begun) {
        begin(j);
    }
    ps_client_made(j->client, variable, first, count);
}

const struct runner_ready *worker_job_push_begin(struct worker_job *j, uint32_t slot)
{
    struct job_push *p = &j->push;
    *p = (struct job_push){.slot = slot, .next = j->at + 1, .ready = {made, j}};
    /* An experiment with a slow computation means its gradient, too. */
    bool none = j->client == NULL || j->slow_down.factor > 1;
    return !none && goes_along(j, p->next, slot) ? &p->ready : NULL;
}

void worker_job_push_end(struct worker_job *j)
{
    if (!j->push.begun) {
        return;
    }
    uint64_t begin = chrono_now_ns();
    ps_client_made_all(j->client);
    uint64_t end = chrono_now_ns();
    step_clock_busy(&j->clock, STEP_WIRE, begin, end);
    for (size_t i = j->at + 1; i < j->push.next; i++) {
        worker_job_trace_sent(j, &j->actions.items[i], begin, end);
    }
    j->at = j->push.next - 1;
}
