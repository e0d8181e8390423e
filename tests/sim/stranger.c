/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody who is not of this cluster: a master that has a job of the same name, a worker of
 * another cluster that pushes to an address which was its server's, a report that comes too late.
 * Whatever they say, nothing changes. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

static const uint64_t GENERATIONS[] = {999, UINT64_MAX, 1, UINT64_MAX - 1};

/* Its numbers are as good as any, but not ours. */
static struct fence fence_of(const struct world *w, const struct sim_fault *f)
{
    struct fence fence = {.opening = rng_u64(rng_key_mix(w->key, 9001), f->number) | 1};
    memset(fence.secret, (int)(0xA0 + f->number), sizeof fence.secret);
    return fence;
}

static void push(struct world *w, struct sim_shard *s, struct shard_event *e)
{
    struct shard_info info;
    shard_info(s->core, &info);
    struct gradient *g = gradient_new(w);
    for (uint32_t i = 0; i < s->elements; i++) {
        g->t.v[i] = 1000.0F;
    }
    g->generation = info.generation;
    g->counted = budget_is_tight(w);
    s->gradients++;
    e->kind = SHARD_EXCHANGE;
    e->generation = info.generation;
    e->worker = "worker-1";
    e->gradient = g;
    e->elements = s->elements;
    e->ask = (struct exchange_request){.kind = EXCHANGE_TRAIN,
                                       .has_push = true,
                                       .push = {
                                           .step = info.version,
                                           .replica_end = 1,
                                           .epoch = info.ledger == NULL ? 0 : info.ledger->epoch,
                                           .batch_end = 1,
                                           .examples = 1,
                                           .base_version = info.version,
                                           .clock = 1,
                                       }};
}

void stranger_pushes(struct world *w, struct sim_shard *s, uint32_t fault)
{
    struct shard_event e = {.fence = fence_of(w, &w->schedule->faults[fault])};
    push(w, s, &e);
    shard_take(w, s, &e);
}

static void call_shard(struct world *w, uint32_t fault, struct sim_shard *s)
{
    const struct sim_fault *f = &w->schedule->faults[fault];
    static const char *const WORKERS[] = {"worker-1"};
    struct shard_event e = {.fence = fence_of(w, f),
                            .generation = GENERATIONS[f->number / 4 % 4],
                            .workers = WORKERS,
                            .worker_count = 1,
                            .pin_id = "stranger"};
    switch (f->number % 4) {
    case 0:
        e.kind = SHARD_MEMBERSHIP;
        break;
    case 1:
        e.kind = SHARD_CLOSE;
        break;
    case 2:
        budget_push(w, s, fault);
        return;
    default:
        e.kind = SHARD_PIN;
        e.generation = s->opened;
        break;
    }
    shard_take(w, s, &e);
}

/* What a master of another cluster says to the worker of a job that has the name of one of its own.
 */
static void call_worker(struct world *w, const struct sim_fault *f, enum master_call_kind call)
{
    struct sim_node *n = &w->nodes[f->node];
    uint32_t index;
    struct unary *u = unary_new(w, f->node, f->node, UNARY_STRANGER, 5000, &index);
    u->req.call = call;
    u->req.job = n->job->job;
    u->req.fence = fence_of(w, f);
    u->req.generation = GENERATIONS[f->number / 4 % 4];
    u->req.incarnation = n->incarnation;
    u->served_life[0] = n->life; /* it arrives at once, while the job is here */
    worker_called(w, f->node, index, 0);
    if (n->up && !n->job->there) {
        violated(w, INVARIANT_FENCE, "a worker drops its job for a stranger's %s",
                 master_call_name(call));
    }
}

/* Of the same worker, and of a generation that is over. */
static void report_late(struct world *w, const struct sim_fault *f)
{
    struct sim_node *n = &w->nodes[f->node];
    uint64_t generation = n->job->core == NULL ? 0 : worker_generation(n->job->core);
    if (generation < 2) {
        return;
    }
    uint32_t index;
    struct unary *u = unary_new(w, f->node, 0, UNARY_REPORT_FAILURE, 3000, &index);
    u->req.name = n->name;
    u->req.incarnation = n->incarnation;
    u->req.job = n->job->job;
    u->req.generation = generation - 1;
    u->req.code = ERR_INTERNAL;
    snprintf(u->req.message, sizeof u->req.message, "what failed in an earlier start");
    unary_send(w, index);
}

void stranger_calls(struct world *w, uint32_t fault)
{
    const struct sim_fault *f = &w->schedule->faults[fault];
    static const enum master_call_kind CALLS[] = {MASTER_CALL_ASSIGN, MASTER_CALL_STOP,
                                                  MASTER_CALL_START};
    struct sim_node *n = &w->nodes[f->node];
    if (!n->up || n->paused || n->leaving) {
        return;
    }
    if (n->role == ROLE_PS) {
        for (uint32_t i = 0; i < SIM_SHARDS_OF_PS && n->up; i++) {
            if (n->shards[i] != NULL && n->shards[i]->open) {
                call_shard(w, fault, n->shards[i]);
            }
        }
    } else if (n->role == ROLE_WORKER && n->job->there && n->job->started) {
        if (f->number % 4 == 3) {
            report_late(w, f);
        } else {
            call_worker(w, f, CALLS[f->number % 4]);
        }
    }
}
