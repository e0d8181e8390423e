/* SPDX-License-Identifier: Apache-2.0 */
/* A request from its arrival to its answer. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/recycle.h"
#include "os/chrono.h"
#include "ps/rpc/ps_rows.h"
#include "ps/rpc/ps_standby.h"
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

void ps_rows_free(struct ps_rows *rows)
{
    if (rows == NULL) {
        return;
    }
    budget_give(rows->budget, rows->bytes);
    free(rows->counts);
    free(rows->keys);
    free(rows);
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
    if (r->records != NULL) {
        protobuf_c_message_free_unpacked(r->note, NULL);
        ps_record_stream_unref(r->records);
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

void ps_request_unlink(struct ps_request *r)
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
    ps_request_unlink(r);
    bool traced = r->stream != NULL && trace_on(&r->shard->ps->trace);
    uint64_t began_ns = traced ? trace_queue(r, a) : 0;
    r->answer(r, a, err);
    if (traced) {
        ps_trace_request(r, TRACE_ANSWER, began_ns, chrono_now_ns(), 0);
    }
    ps_request_unref(r);
}

/* ---- answers with a ShardState ---- */

/* The message has no pointers to const; nobody writes through these. */
static char *borrow(const char *s)
{
    union {
        const char *in;
        char *out;
    } u = {.in = s};
    return u.out;
}

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
    Gradus__V1__PinnedVersion pins[SHARD_PINS_MAX], *pin_list[SHARD_PINS_MAX];
    for (size_t i = 0; i < info.pins; i++) {
        gradus__v1__pinned_version__init(&pins[i]);
        pins[i].pin_id = borrow(info.pinned[i].id);
        pins[i].version = info.pinned[i].version;
        pins[i].slots = info.pinned[i].slots;
        pin_list[i] = &pins[i];
    }
    m.n_pins = info.pins;
    m.pins = pin_list;
    struct ps_standby said;
    Gradus__V1__Standby standby = GRADUS__V1__STANDBY__INIT;
    ps_standby_get(r->shard, &said);
    if (info.role != SHARD_ALONE) {
        standby.role = (Gradus__V1__Standby__Role)info.role;
        standby.records = info.records;
        standby.received = info.received;
        standby.waits_ms = ps_standby_waits_ms(&said);
        standby.backup = info.role == SHARD_PRIMARY ? info.backup : 0;
        standby.follows = info.follows;
        standby.state_sent = ps_standby_state_sent(&said);
        standby.state_bytes = said.state_bytes;
        standby.problem = said.problem;
        m.standby = &standby;
    }
    if (a->ledger != NULL) {
        wire_ledger_to_proto(a->ledger, &ledger);
        m.ledger = &ledger;
    }
    (void)rpc_reply(r->call, &m.base, NULL);
}
