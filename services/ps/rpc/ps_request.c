/* SPDX-License-Identifier: Apache-2.0 */
/* Requests between the threads of gRPC and the strand of a shard. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "base/recycle.h"
#include "ps/rpc/ps_rows.h"
#include "ps/rpc/ps_shell.h"
#include "wire/wire.h"

static struct recycler requests = RECYCLER(sizeof(struct ps_request), 1024);

struct ps_request *ps_request_new(struct ps_shard *shard, enum shard_event_kind kind,
                                  struct rpc_call *call, struct rpc_msg *msg,
                                  void (*answer)(struct ps_request *, const struct shard_action *,
                                                 const struct err *))
{
    struct ps_request *r = recycler_take(&requests);
    memset(r, 0, sizeof *r);
    atomic_store(&r->refs, 1);
    r->shard = ps_shard_ref(shard);
    r->call = call == NULL ? NULL : rpc_call_ref(call);
    r->msg = msg == NULL ? NULL : rpc_msg_ref(msg);
    r->event.kind = kind;
    r->event.tag = r;
    r->answer = answer;
    return r;
}

void ps_request_unref(struct ps_request *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1) {
        return;
    }
    rpc_msg_unref(r->msg);
    if (r->change != NULL) {
        ledger_release(&r->change->ledger);
        ps_eras_release(&r->change->eras);
        free(r->change);
    }
    free(r->kept);
    ps_rows_free(r->rows);
    if (r->stream != NULL) {
        ps_stream_unref(r->stream);
    }
    if (r->call != NULL) {
        rpc_call_unref(r->call);
    }
    ps_shard_unref(r->shard);
    recycler_give(&requests, r);
}

void ps_request_name(struct ps_request *r, const char *worker)
{
    memcpy(r->worker, worker, strnlen(worker, sizeof r->worker - 1));
    r->event.worker = r->worker;
}

static const void *keep(struct ps_request *r, const void *bytes, size_t count)
{
    if (count == 0) {
        return NULL;
    }
    r->kept = mem_new(count, 1);
    return memcpy(r->kept, bytes, count);
}

void ps_request_keep(struct ps_request *r)
{
    struct exchange_request *ask = &r->event.ask;
    struct exchange_decision *d = &ask->decision;
    struct exchange_totals *t = &ask->totals;
    if (ask->has_decision) {
        d->replicas = keep(r, d->replicas, d->bytes);
    } else if (ask->kind == EXCHANGE_TOTALS) {
        t->data = keep(r, t->data, t->bytes);
    }
}

/* ---- on the strand ---- */

static void unlink_request(struct ps_request *r)
{
    if (r->link == NULL) {
        return;
    }
    *r->link = r->next;
    if (r->next != NULL) {
        r->next->link = r->link;
    }
    r->link = NULL;
}

/* Checks what the core cannot know: whether the bytes make sense, and whether the job can go on at
 * all. */
static int check_exchange(const struct ps_request *r, struct err *err)
{
    struct ps_shard *s = r->shard;
    const struct shard_event *e = &r->event;
    bool sync = s->consistency.mode == TRAINING_SYNC;
    const struct buffer *gradient = e->gradient;
    if (s->failed.code != 0 && e->ask.kind != EXCHANGE_PINNED) {
        *err = s->failed;
        return s->failed.code;
    }
    struct shard_info info;
    shard_info(s->core, &info);
    const bool present = e->generation == info.generation; /* else the core refuses it */
    if (gradient != NULL && !sync && present && s->eras.needs_norms && !gradient->has_norms) {
        return err_set(err, ERR_INVALID,
                       "a push without norms; this job needs those of %zu variables",
                       s->plan.variable_count);
    }
    int rc = e->ask.has_push ? ps_check_type(r, err) : 0;
    return rc != 0 ? rc : ps_sums_check(s, e, err);
}

static void step_exchange(struct ps_shard *s, struct ps_request *r)
{
    struct err err;
    if (check_exchange(r, &err) == 0) {
        ps_shard_step(s, &r->event);
        return;
    }
    struct shard_action refused = {.kind = SHARD_REPLY, .code = err.code};
    buffer_put(r->event.gradient);
    if (s->failed.code == 0) {
        (void)ps_shard_wrap(s, &err);
    }
    ps_request_answer(r, &refused, &err);
}

static void run_request(struct strand_task *task)
{
    struct ps_request *r = (struct ps_request *)((char *)task - offsetof(struct ps_request, task));
    struct ps_shard *s = ps_shard_ref(r->shard);
    atomic_fetch_add(&r->refs, 1);
    if (r->event.kind == SHARD_MEMBERSHIP) {
        ps_shard_step_membership(s, r);
    } else if (r->event.kind == SHARD_READ) {
        ps_step_read(s, r);
    } else if (r->event.kind == SHARD_EXCHANGE) {
        step_exchange(s, r);
    } else {
        ps_shard_step(s, &r->event);
    }
    if (!r->answered && r->stream != NULL) {
        ps_stream_wait(r->stream, r);
    }
    ps_request_unref(r);
    ps_shard_unref(s);
}

static void count(const struct ps_request *r, const struct shard_action *a)
{
    const struct ps_meters *meters = &r->shard->ps->meters;
    const struct exchange_request *ask = &r->event.ask;
    if (ask->has_push) {
        meter_add(meters->pushes[a->answer.train.push], 1);
    }
    if (ask->has_push && a->code == 0) {
        meter_observe(meters->wait_seconds, (double)ps_request_time(r).waited_ns * 1e-9);
    }
    if (ask->has_decision && a->code == 0) {
        meter_add(meters->decisions_taken, 1);
    }
    if (a->answer.decision.bytes > 0) {
        meter_add(meters->decisions_made, 1);
    }
    if (a->answer.spare.given) {
        meter_add(meters->spares, 1);
    }
}

struct ps_request_time ps_request_time(const struct ps_request *r)
{
    const struct ps_update_time *update = &r->shard->update_time;
    struct ps_request_time t = {0};
    uint64_t waited_until_ns = update->began_ns;
    if (update->ended_ns == 0) {
        uint64_t now_ns = chrono_now_ns();
        t.applied_ns = update->began_ns == 0 ? 0 : now_ns - update->began_ns;
        waited_until_ns = update->began_ns == 0 ? now_ns : update->began_ns;
    } else {
        t.applied_ns = update->ended_ns - update->began_ns;
    }
    t.waited_ns = waited_until_ns > r->arrived_ns ? waited_until_ns - r->arrived_ns : 0;
    return t;
}

/* Returns the time now. */
static uint64_t trace_queue(struct ps_request *r, const struct shard_action *a)
{
    ps_trace_queue(r, &a->answer.train);
    return chrono_now_ns();
}

void ps_request_answer(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    count(r, a);
    r->answered = true;
    unlink_request(r);
    bool traced = r->stream != NULL && trace_on(&r->shard->ps->trace);
    uint64_t began_ns = traced ? trace_queue(r, a) : 0;
    r->answer(r, a, err);
    if (traced) {
        ps_trace_request(r, TRACE_ANSWER, began_ns, chrono_now_ns(), 0);
    }
    ps_request_unref(r);
}

void ps_request_drop(struct ps_request *r)
{
    if (r->answered) {
        return;
    }
    struct shard_event e = {.kind = SHARD_GONE, .tag = r};
    ps_shard_step(r->shard, &e);
    r->answered = true;
    unlink_request(r);
    ps_request_unref(r);
}

struct fence ps_fence(const Gradus__V1__ShardRef *ref)
{
    return wire_fence_from_proto(ref->opening, &ref->secret);
}

/* ---- any thread ---- */

void ps_request_post(struct ps_request *r)
{
    r->arrived_ns = chrono_now_ns();
    struct ps_shard *s = ps_shard_ref(r->shard); /* the request may be gone when the strand is idle
                                                    again, the strand must not be */
    (void)strand_post(&s->strand, &r->task, run_request);
    ps_shard_unref(s);
}

void ps_request_post_unary(struct ps_request *r)
{
    atomic_fetch_add(&r->refs, 1); /* the call's reference: ps_unary_done() */
    rpc_set_data(r->call, r);
    ps_request_post(r);
}

static void run_gone(struct strand_task *task)
{
    struct ps_request *r = (struct ps_request *)((char *)task - offsetof(struct ps_request, gone));
    struct ps_shard *s = ps_shard_ref(r->shard);
    ps_request_drop(r);
    ps_request_unref(r);
    ps_shard_unref(s);
}

void ps_unary_done(struct rpc_call *call, bool cancelled, void *service)
{
    (void)service;
    struct ps_request *r = rpc_data(call);
    if (r == NULL) {
        return;
    }
    if (!cancelled) {
        ps_request_unref(r);
        return;
    }
    struct ps_shard *s = ps_shard_ref(r->shard);
    (void)strand_post(&s->strand, &r->gone, run_gone);
    ps_shard_unref(s);
}

/* Takes the caller's reference to @s. */
static struct ps_request *
unary(struct ps_shard *s, const Gradus__V1__ShardRef *ref, enum shard_event_kind kind,
      struct rpc_call *call, struct rpc_msg *msg,
      void (*answer)(struct ps_request *, const struct shard_action *, const struct err *))
{
    struct ps_request *r = ps_request_new(s, kind, call, msg, answer);
    r->event.generation = ref->generation;
    r->event.fence = ps_fence(ref);
    ps_shard_unref(s);
    return r;
}

struct ps_request *ps_unary(struct ps *ps, const Gradus__V1__ShardRef *ref,
                            enum shard_event_kind kind, struct rpc_call *call, struct rpc_msg *msg,
                            void (*answer)(struct ps_request *, const struct shard_action *,
                                           const struct err *))
{
    struct err err;
    struct ps_shard *s = ps_find(ps, ref, &err);
    if (s == NULL) {
        (void)rpc_fail(call, &err);
        return NULL;
    }
    return unary(s, ref, kind, call, msg, answer);
}

struct ps_request *ps_unary_exchange(struct ps *ps, const Gradus__V1__ShardRef *ref,
                                     const char *worker, bool reads, struct rpc_call *call,
                                     void (*answer)(struct ps_request *,
                                                    const struct shard_action *,
                                                    const struct err *))
{
    struct err err;
    struct ps_shard *s = ps_find(ps, ref, &err);
    if (s == NULL || ps_check_key(s, ref, worker, reads, call, &err) != 0) {
        (void)rpc_fail(call, &err);
        if (s != NULL) {
            ps_shard_unref(s);
        }
        return NULL;
    }
    return unary(s, ref, SHARD_EXCHANGE, call, NULL, answer);
}

/* ---- answers with a ShardState ---- */

void ps_answer_state(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__ShardState m = GRADUS__V1__SHARD_STATE__INIT;
    Gradus__V1__Ledger ledger;
    struct shard_info info;
    shard_info(r->shard->core, &info);
    m.generation = a->generation;
    m.version = a->version;
    m.elements = r->shard->elements;
    m.examples = a->examples_applied;
    m.pushes = info.pushes_applied;
    m.duplicates = info.pushes_duplicate;
    m.dropped = info.pushes_dropped;
    m.skipped = r->shard->updates_skipped;
    m.checkpoint_problem = r->shard->checkpoint_problem;
    if (a->ledger != NULL) {
        wire_ledger_to_proto(a->ledger, &ledger);
        m.ledger = &ledger;
    }
    (void)rpc_reply(r->call, &m.base, NULL);
}
