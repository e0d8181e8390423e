/* SPDX-License-Identifier: Apache-2.0 */
/* OpenShard, SetMembership, CloseShard: the life of a shard. */
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/log.h"
#include "ps/rpc/ps_standby.h"
#include "wire/wire.h"

/* ---- OpenShard ---- */

/* An OpenShard on its way. Initial values take a while, so shards are made by a thread of their
 * own, one at a time. What a request means for a shard that is there already is decided on that
 * shard's strand. */
struct ps_opening {
    struct strand_task task;
    struct ps *ps;
    struct rpc_call *call;
    struct rpc_msg *msg;
    struct ps_shard *present; /* the shard that is there, while it decides; keeps a reference */
    uint64_t since_ms;
    /* list of all that are not answered; under the server's lock */
    struct ps_opening *next, **link;
};

/* The last readers of a shard that was closed return its memory a moment later; so long is it
 * waited for. */
#define RETURN_MS_MAX 2000
#define RETURN_POLL_NS 5000000

static const Gradus__V1__OpenShardRequest *request_of(const struct ps_opening *o)
{
    return (const Gradus__V1__OpenShardRequest *)o->msg->body;
}

static void list_opening(struct ps_opening *o)
{
    pthread_mutex_lock(&o->ps->lock);
    o->next = o->ps->openings;
    o->link = &o->ps->openings;
    if (o->next != NULL) {
        o->next->link = &o->next;
    }
    o->ps->openings = o;
    pthread_mutex_unlock(&o->ps->lock);
}

static void end_opening(struct ps_opening *o)
{
    struct ps *ps = o->ps;
    pthread_mutex_lock(&ps->lock);
    *o->link = o->next;
    if (o->next != NULL) {
        o->next->link = o->link;
    }
    pthread_mutex_unlock(&ps->lock);
    rpc_msg_unref(o->msg);
    rpc_call_unref(o->call);
    free(o);
}

/* Tells of all openings; those that wait for another one, too, because one thread makes them all.
 */
void ps_openings_tell(struct ps *ps, struct membership_works *out)
{
    uint64_t now_ms = chrono_now_ms();
    pthread_mutex_lock(&ps->lock);
    for (const struct ps_opening *o = ps->openings; o != NULL; o = o->next) {
        const Gradus__V1__ShardRef *ref = request_of(o)->shard;
        membership_works_add(out, &(struct membership_work){.job = ref == NULL ? "" : ref->job,
                                                            .what = "OpenShard",
                                                            .unit = "",
                                                            .age_ms = now_ms - o->since_ms});
    }
    pthread_mutex_unlock(&ps->lock);
}

static void fail_opening(struct ps_opening *o, const struct err *err)
{
    (void)rpc_fail(o->call, err);
    end_opening(o);
}

static void answer_opening(struct ps_opening *o, struct ps_shard *s)
{
    struct ps_request *state = ps_request_new(s, SHARD_STATE, o->call, o->msg, ps_answer_state);
    state->event.generation = request_of(o)->shard->generation;
    state->event.fence = ps_fence(request_of(o)->shard);
    ps_request_post(state);
    end_opening(o);
}

static struct ps_shard *make_shard(const struct ps_opening *o, struct err *err)
{
    uint64_t deadline_ms = chrono_now_ms() + RETURN_MS_MAX;
    for (;;) {
        struct ps_shard *s = ps_shard_new(o->ps, request_of(o), err);
        if (s != NULL || !ps_lingers(o->ps) || err->code != ERR_EXHAUSTED ||
            chrono_now_ms() >= deadline_ms) {
            return s;
        }
        const struct timespec pause = {.tv_nsec = RETURN_POLL_NS};
        (void)nanosleep(&pause, NULL);
    }
}

/* @err NULL: it is open. */
static void told(const struct ps_opening *o, const struct err *err)
{
    char job[WIRE_ID_BYTES_MAX + 8], quoted[512];
    const Gradus__V1__ShardRef *ref = request_of(o)->shard;
    log_quote(ref == NULL ? "" : ref->job, job, sizeof job);
    if (err == NULL) {
        log_info("shard_opened", "job=%s generation=%llu%s", job,
                 (unsigned long long)ref->generation,
                 request_of(o)->is_backup ? " role=backup" : "");
    } else {
        log_warn("shard_refused", "job=%s error=%s", job,
                 log_quote(err->msg, quoted, sizeof quoted));
    }
}

static void make(struct ps_opening *o)
{
    struct err err;
    struct ps_shard *s = NULL;
    if (ps_check_opening(o->ps, request_of(o), &err) == 0) {
        s = make_shard(o, &err);
    }
    if (s == NULL) {
        told(o, &err);
        fail_opening(o, &err);
        return;
    }
    if (ps_insert(o->ps, s, &err) == 0) {
        ps_shard_wake(s); /* connects to its backup */
        told(o, NULL);
        answer_opening(o, s);
    } else {
        ps_follow_end(s);
        (void)ps_shard_wrap(s, &err);
        fail_opening(o, &err);
    }
    ps_shard_unref(s);
}

static void post_opening(struct ps_opening *o);

static void run_decide(struct strand_task *task)
{
    struct ps_opening *o = (struct ps_opening *)((char *)task - offsetof(struct ps_opening, task));
    struct ps_shard *s = o->present; /* the poster keeps a reference, too */
    struct err err;
    const struct fence fence = ps_fence(request_of(o)->shard);
    enum shard_open what = shard_open_decide(s->core, s->opened_generation,
                                             request_of(o)->shard->generation, &fence, &err);
    switch (what) {
    case SHARD_OPEN_SAME:
        answer_opening(o, s);
        break;
    case SHARD_OPEN_REFUSED:
        (void)ps_shard_wrap(s, &err);
        fail_opening(o, &err);
        break;
    case SHARD_OPEN_NEW:
    case SHARD_OPEN_REPLACE:
        o->present = NULL;
        ps_remove(o->ps, s);
        ps_shard_end(s);
        post_opening(o);
        break;
    }
    ps_shard_unref(s);
}

static void run_open(void *ctx)
{
    struct ps_opening *o = ctx;
    struct err err;
    struct ps_shard *s = ps_find(o->ps, request_of(o)->shard, &err);
    if (s != NULL) {
        o->present = ps_shard_ref(s);
        (void)strand_post(&s->strand, &o->task, run_decide);
        ps_shard_unref(s);
    } else if (err.code == ERR_NOT_FOUND) {
        make(o);
    } else {
        fail_opening(o, &err); /* it names no shard */
    }
}

static void post_opening(struct ps_opening *o)
{
    struct err err;
    if (pool_post(o->ps->opens, run_open, o, &err) != 0) {
        (void)err_wrap(&err, "open a shard");
        fail_opening(o, &err);
    }
}

/* A shard is opened for the master that this process has joined, which alone knows its incarnation.
 */
static bool is_meant(const struct ps *ps, uint64_t incarnation)
{
    uint64_t own = atomic_load(&ps->incarnation);
    return own == 0 || own == incarnation;
}

void ps_on_open_shard(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__OpenShardRequest *m = (const Gradus__V1__OpenShardRequest *)msg->body;
    if (!is_meant(service, m->incarnation)) {
        struct err err;
        (void)err_set(&err, ERR_ABORTED,
                      "this was meant for another process, or comes from a master that this server "
                      "has not joined");
        (void)rpc_fail(call, &err);
        return;
    }
    struct ps_opening *o = mem_new(1, sizeof *o);
    o->ps = service;
    o->call = rpc_call_ref(call);
    o->msg = rpc_msg_ref(msg);
    o->since_ms = chrono_now_ms();
    list_opening(o);
    post_opening(o);
}

/* ---- SetMembership ---- */

void ps_on_set_membership(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__SetMembershipRequest *m = (const Gradus__V1__SetMembershipRequest *)msg->body;
    struct ps_request *r =
        ps_unary(service, m->shard, SHARD_MEMBERSHIP, call, msg, ps_answer_state);
    if (r == NULL) {
        return;
    }
    struct err err;
    if (ps_read_change(r, m, &err) != 0) {
        (void)ps_shard_wrap(r->shard, &err);
        (void)rpc_fail(call, &err);
        ps_request_unref(r);
        return;
    }
    ps_request_post_unary(r);
}

/* ---- CloseShard ---- */

static void answer_close(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__CloseShardResponse m = GRADUS__V1__CLOSE_SHARD_RESPONSE__INIT;
    char job[WIRE_ID_BYTES_MAX + 8];
    log_info("shard_closed", "job=%s", log_quote(r->shard->job, job, sizeof job));
    ps_remove(r->shard->ps, r->shard);
    (void)rpc_reply(r->call, &m.base, NULL);
}

void ps_on_close_shard(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__CloseShardRequest *m = (const Gradus__V1__CloseShardRequest *)msg->body;
    struct err err;
    struct ps_shard *s = ps_find(service, m->shard, &err);
    bool early = s == NULL ? err.code == ERR_NOT_FOUND : s->opening != m->shard->opening;
    if (early) {
        ps_close_early(service, m->shard);
    }
    if (s == NULL && early) {
        Gradus__V1__CloseShardResponse done = GRADUS__V1__CLOSE_SHARD_RESPONSE__INIT;
        (void)rpc_reply(call, &done.base, NULL);
        return;
    }
    if (s == NULL) {
        (void)rpc_fail(call, &err);
        return;
    }
    struct ps_request *r = ps_request_new(s, SHARD_CLOSE, call, msg, answer_close);
    r->event.generation = m->shard->generation;
    r->event.fence = ps_fence(m->shard);
    ps_request_post_unary(r);
    ps_shard_unref(s);
}
