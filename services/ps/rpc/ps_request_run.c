/* SPDX-License-Identifier: Apache-2.0 */
/* Requests between the threads of gRPC and the strand of a shard: posted, stepped, and dropped. */
#include <stddef.h>

#include "os/chrono.h"
#include "ps/rpc/ps_memory.h"
#include "ps/rpc/ps_standby.h"

/* ---- on the strand ---- */

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

/* What reads may need memory for a version. */
static void step_read(struct ps_shard *s, struct ps_request *r)
{
    struct err err = {0};
    const bool pins = r->event.read.kind == SHARD_READ_PIN && !s->let_go;
    if (pins && ps_memory_reserve_readers(s, s->readers + 1, &err) != 0) {
        struct shard_action refused = {.kind = SHARD_REPLY, .code = err.code};
        (void)ps_shard_wrap(s, &err);
        ps_request_answer(r, &refused, &err);
        return;
    }
    ps_shard_step(s, &r->event); /* what it did not take goes back */
}

/* It is sent again. */
static void refuse_record(struct ps_shard *s, struct ps_request *r, struct err *err)
{
    struct shard_action refused = {.kind = SHARD_REPLY, .code = err->code};
    buffer_put(r->event.gradient);
    buffer_put(r->event.slots_buffer);
    (void)ps_shard_wrap(s, err);
    ps_request_answer(r, &refused, err);
}

/* A record of an update that there is no memory for cannot be followed: on a backup nothing frees
 * some. Memory for copies of slots the records before it may have to give back first. */
static void step_record(struct ps_shard *s, struct ps_request *r)
{
    struct err err;
    const struct shard_record *record = &r->event.record;
    if (record->kind == SHARD_RECORD_PIN && r->event.slots && update_slot_count(s->update) > 0) {
        r->event.slots_buffer = buffer_get(&s->slot_copies, NULL); /* the core asks for it */
    }
    if (record->kind == SHARD_RECORD_STATE && ps_heard_whole(s, r->call, &err) != 0) {
        refuse_record(s, r, &err);
        return;
    }
    if (record->kind == SHARD_RECORD_MEMBERSHIP || record->kind == SHARD_RECORD_STATE) {
        ps_shard_step_membership(s, r);
        return;
    }
    if (record->kind == SHARD_RECORD_UPDATE && record->number > 0 && !ps_shard_can_update(s)) {
        (void)err_set(&err, ERR_EXHAUSTED, "there is no memory for one more version");
        r->event.cannot = &err;
    }
    ps_shard_step(s, &r->event);
}

static void run_request(struct strand_task *task)
{
    struct ps_request *r = (struct ps_request *)((char *)task - offsetof(struct ps_request, task));
    struct ps_shard *s = ps_shard_ref(r->shard);
    atomic_fetch_add(&r->refs, 1);
    if (r->event.kind == SHARD_MEMBERSHIP) {
        ps_shard_step_membership(s, r);
    } else if (r->event.kind == SHARD_RECORD) {
        step_record(s, r);
    } else if (r->event.kind == SHARD_READ) {
        step_read(s, r);
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

void ps_request_drop(struct ps_request *r)
{
    if (r->answered) {
        return;
    }
    struct shard_event e = {.kind = SHARD_GONE, .tag = r};
    ps_shard_step(r->shard, &e);
    r->answered = true;
    ps_request_unlink(r);
    ps_request_unref(r);
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

/* ---- the end of a shard ---- */

static void dropped(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    (void)a;
    (void)err;
    ps_remove(r->shard->ps, r->shard);
}

void ps_shard_drop(struct ps_shard *s)
{
    struct ps_request *r = ps_request_new(s, SHARD_CLOSE, NULL, NULL, dropped);
    r->event.generation = UINT64_MAX;
    r->event.own = true;
    ps_request_post(r);
}
