/* OpenShard, SetMembership, CloseShard: the life of a shard. */
#include <stdlib.h>
#include <time.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "ps/ps_shell.h"
#include "wire/wire.h"

/* ---- OpenShard ---- */

/* Initial values take a while, so shards are made by a thread of their own, one at a time; a
 * repeated request finds what the first one made. */
struct opening {
    struct ps *ps;
    struct rpc_call *call;
    struct rpc_msg *msg;
};

/* The last readers of a shard that was replaced return its memory a moment later; so long is it
 * waited for. */
#define RETURN_MS_MAX 2000
#define RETURN_POLL_NS 5000000

static struct ps_shard *make_shard(struct ps *ps, const Gradus__V1__OpenShardRequest *r,
                                   bool replaces, struct err *err)
{
    uint64_t deadline_ms = chrono_now_ms() + RETURN_MS_MAX;
    for (;;) {
        struct ps_shard *s = ps_shard_new(ps, r, err);
        if (s != NULL || !replaces || err->code != ERR_EXHAUSTED ||
            chrono_now_ms() >= deadline_ms) {
            return s;
        }
        const struct timespec pause = {.tv_nsec = RETURN_POLL_NS};
        (void)nanosleep(&pause, NULL);
    }
}

static void open_shard(struct opening *o, struct err *err)
{
    const Gradus__V1__OpenShardRequest *r = (const Gradus__V1__OpenShardRequest *)o->msg->body;
    struct ps_shard *s = ps_find(o->ps, r->shard, err);
    bool replaces = s != NULL && s->opened_generation < r->shard->generation;
    if (replaces) {
        /* A start of the job that failed left it: it was made after the order to close it. */
        ps_remove(o->ps, s);
        ps_shard_drop(s);
        ps_shard_unref(s);
        s = NULL;
        err->code = ERR_NOT_FOUND;
    }
    if (s != NULL) {
        struct ps_request *state = ps_request_new(s, SHARD_STATE, o->call, o->msg, ps_answer_state);
        state->event.generation = r->shard->generation;
        ps_request_post(state);
        ps_shard_unref(s);
        err->code = 0;
        return;
    }
    if (err->code != ERR_NOT_FOUND) {
        return; /* it names no shard */
    }
    s = make_shard(o->ps, r, replaces, err);
    if (s == NULL) {
        return;
    }
    struct shard_info info;
    shard_info(s->core, &info);
    int rc = ps_insert(o->ps, s, err);
    if (rc == 0) {
        struct shard_action a = {
            .version = info.version, .generation = info.generation, .ledger = info.ledger};
        err->code = 0;
        ps_reply_state(s, o->call, &a);
    } else {
        (void)ps_shard_wrap(s, err);
    }
    ps_shard_unref(s);
}

static void run_open(void *ctx)
{
    struct opening *o = ctx;
    struct err err = {0};
    open_shard(o, &err);
    if (err.code != 0) {
        (void)rpc_fail(o->call, &err);
    }
    rpc_msg_unref(o->msg);
    rpc_call_unref(o->call);
    free(o);
}

void ps_on_open_shard(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct ps *ps = service;
    struct opening *o = mem_new(1, sizeof *o);
    *o = (struct opening){ps, rpc_call_ref(call), rpc_msg_ref(msg)};
    struct err err;
    if (pool_post(ps->opens, run_open, o, &err) != 0) {
        (void)err_wrap(&err, "open a shard");
        (void)rpc_fail(call, &err);
        rpc_msg_unref(o->msg);
        rpc_call_unref(o->call);
        free(o);
    }
}

/* ---- SetMembership ---- */

void ps_on_set_membership(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__SetMembershipRequest *m = (const Gradus__V1__SetMembershipRequest *)msg->body;
    struct err err;
    enum training_mode mode;
    if (wire_mode_from_proto(m->mode, &mode, &err) != 0) {
        (void)rpc_fail(call, &err);
        return;
    }
    struct ps_request *r =
        ps_unary(service, m->shard, SHARD_MEMBERSHIP, call, msg, ps_answer_state);
    if (r != NULL) {
        r->event.workers = (const char *const *)m->workers;
        r->event.worker_count = m->n_workers;
        r->event.replicas = m->replicas;
        r->event.mode = mode;
        ps_request_post_unary(r);
    }
}

/* ---- CloseShard ---- */

static void answer_close(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__CloseShardResponse m = GRADUS__V1__CLOSE_SHARD_RESPONSE__INIT;
    ps_remove(r->shard->ps, r->shard);
    (void)rpc_reply(r->call, &m.base, NULL);
}

void ps_on_close_shard(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__CloseShardRequest *m = (const Gradus__V1__CloseShardRequest *)msg->body;
    struct err err;
    struct ps_shard *s = ps_find(service, m->shard, &err);
    if (s == NULL && err.code == ERR_NOT_FOUND) {
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
    ps_request_post_unary(r);
    ps_shard_unref(s);
}
