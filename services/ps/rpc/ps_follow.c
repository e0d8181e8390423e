/* SPDX-License-Identifier: Apache-2.0 */
/* A primary's way to its backup: records wait here until they were received, and are sent again
 * after each break of the connection. What the connection brings is left in an inbox, and the shard
 * is woken. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/text.h"
#include "execution/loop.h"
#include "host/local_socket.h"
#include "os/chrono.h"
#include "os/log.h"
#include "ps/rpc/ps_memory.h"
#include "ps/rpc/ps_standby.h"
#include "wire/wire.h"

#define AGAIN_MIN_MS 50
#define AGAIN_MAX_MS 2000
#define TELL_FAILURES 3 /* so many connections that failed in a row are worth a word */
#define SEND_BYTES_MIN (UINT64_C(64) << 20) /* queued, besides one gradient */

/* One reference for the shard, one for the stream until its end, one for the timer. */
struct ps_follow {
    atomic_uint refs;
    struct ps_shard *shard; /* keeps a reference from the first connection on */
    uint64_t opening;
    struct rpc_channel *channel;

    /* of the strand */
    bool begun;
    struct ps_record *first, **end; /* that were not received */
    struct ps_record *sending;      /* the next one to send; NULL: all were sent */
    uint64_t at;                    /* of its elements */
    struct ps_copies copies;
    uint64_t state_bytes;      /* 0: the backup was there from the beginning */
    struct ps_copy *reduced;   /* the gradient of the update that is begun; NULL: none */
    struct rpc_stream *stream; /* NULL: none */
    uint64_t number;           /* of the stream */
    bool greeted;              /* the backup has said on it what it has */
    bool waits;                /* before it connects again */
    bool stuck;                /* a record is not whole: nothing more is sent */
    bool joins;                /* the state was not received */
    unsigned failures;
    char problem[256];

    struct loop_timer timer; /* of the thread of ps->links */

    pthread_mutex_t lock; /* guards the inbox: */
    uint64_t received;
    bool heard, over, due;
    struct err why; /* it is over */
};

static void unref(struct ps_follow *f)
{
    if (atomic_fetch_sub(&f->refs, 1) == 1) {
        if (f->begun) {
            ps_shard_unref(f->shard);
        }
        pthread_mutex_destroy(&f->lock);
        free(f);
    }
}

/* ---- the list of records ---- */

/* Forgets those that were received; one that is being sent is finished first, or the stream would
 * have a part of it. */
static void trim(struct ps_follow *f, uint64_t received)
{
    while (f->first != NULL && f->first->what.number <= received &&
           (f->first != f->sending || f->at == 0)) {
        struct ps_record *r = f->first;
        f->first = r->next;
        f->sending = f->sending == r ? r->next : f->sending;
        ps_record_free(f->shard, r);
    }
    f->end = f->first == NULL ? &f->first : f->end;
}

/* What it has to say is not whole, and never will be. */
static void stick(struct ps_follow *f, const struct err *why)
{
    f->stuck = true;
    text_copy(f->problem, sizeof f->problem, why->msg);
}

/* Sends as much as the stream takes. */
static void send_all(struct ps_follow *f)
{
    struct err err;
    while (f->stream != NULL && f->greeted && f->sending != NULL && !f->stuck) {
        const int rc = ps_record_send(f->shard, f->stream, f->number, f->sending, &f->at, &err);
        if (rc == 1) {
            f->sending = f->sending->next;
            f->at = 0;
        } else if (rc == ERR_RANGE) { /* rows of the state are not kept any more */
            stick(f, &err);
        } else if (rc != 0) {
            if (rc != ERR_EXHAUSTED) { /* with that it goes on with the next receipt */
                rpc_stream_cancel(f->stream);
            }
            return;
        }
    }
}

/* A copy of @from, with a reference. NULL: there is no memory, and nothing more is sent. */
static struct ps_copy *copy_of(struct ps_follow *f, const struct buffer *from)
{
    struct err err;
    struct ps_copy *c = ps_copies_take(&f->copies, f->shard, from, &err);
    if (c == NULL) {
        stick(f, &err);
    }
    return c;
}

/* Likewise what @from has of tables. */
static struct ps_said_rows *rows_of(struct ps_follow *f, const struct buffer *from)
{
    struct err err;
    struct ps_said_rows *rows = ps_said_rows_new(f->shard, from, &err);
    if (rows == NULL && err.code != 0) {
        stick(f, &err);
    }
    return rows;
}

/* From now on it is the way to the backup that joins. */
static struct ps_follow *begin_joining(struct ps_shard *s)
{
    ps_follow_end(s);
    s->follow = s->joining;
    s->joining = NULL;
    ps_shard_wake(s);
    return s->follow;
}

void ps_follow_emit(struct ps_shard *s, const struct shard_action *a, const struct shard_event *e)
{
    const bool joins = a->record.kind == SHARD_RECORD_STATE;
    struct ps_follow *f = joins ? begin_joining(s) : s->follow;
    struct ps_record *r = mem_new(1, sizeof *r);
    *r = (struct ps_record){.what = a->record};
    const struct exchange_decision *d = &a->record.decision;
    if (d->bytes > 0) {
        r->decision = mem_new(d->bytes, 1);
        r->what.decision.replicas = memcpy(r->decision, d->replicas, d->bytes);
    }
    if (a->record.sent_count > 0) {
        const size_t bytes = a->record.sent_count * sizeof *r->sent;
        r->sent = mem_new(1, bytes);
        r->what.sent = memcpy(r->sent, a->record.sent, bytes);
    }
    if (a->record.kind == SHARD_RECORD_UPDATE) {
        r->gradient = a->buffer == NULL      ? NULL
                      : a->record.rounds > 0 ? f->reduced
                                             : copy_of(f, a->buffer);
        r->rows = rows_of(f, a->buffer);
        f->reduced = a->record.rounds > 0 && a->buffer != NULL ? NULL : f->reduced;
        for (uint32_t i = 0; i < a->record.rounds; i++) {
            buf_add(&r->totals[i], s->sums.totals[i].data, s->sums.totals[i].len);
        }
    } else if (a->record.kind != SHARD_RECORD_DECISION) {
        r->request = e->tag;
        atomic_fetch_add(&r->request->refs, 1);
    }
    if (joins) {
        r->state = ps_state_new(s, a, r->request);
        f->state_bytes = ps_state_bytes(r->state);
    }
    *f->end = r;
    f->end = &r->next;
    f->sending = f->sending == NULL ? r : f->sending;
    meter_add(s->ps->meters.records, 1);
    ps_record_show(s, r, 1);
    send_all(f);
}

void ps_follow_reduce(struct ps_shard *s, const struct shard_action *a)
{
    if (s->follow != NULL && a->round.round == 0 && a->buffer != NULL) {
        ps_follow_abandon(s);
        s->follow->reduced = copy_of(s->follow, a->buffer);
    }
}

void ps_follow_abandon(struct ps_shard *s)
{
    if (s->follow != NULL && s->follow->reduced != NULL) {
        ps_copy_unref(s->follow->reduced);
        s->follow->reduced = NULL;
    }
}

/* ---- the stream ---- */

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct ps_follow *f = ctx;
    const Gradus__V1__RecordResponse *m = (const Gradus__V1__RecordResponse *)msg->body;
    pthread_mutex_lock(&f->lock);
    f->received = m->received > f->received ? m->received : f->received;
    f->heard = true;
    pthread_mutex_unlock(&f->lock);
    ps_shard_wake(f->shard);
}

static void on_over(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct ps_follow *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->over = true;
    f->why = status->err;
    pthread_mutex_unlock(&f->lock);
    ps_shard_wake(f->shard);
    unref(f);
}

static const struct rpc_stream_events stream_events = {.message = on_message, .done = on_over};

/* The first message asks what the backup has. */
static int greet(struct ps_follow *f, struct err *err)
{
    struct ps_shard *s = f->shard;
    struct shard_info info;
    struct fence fence = {.opening = f->opening};
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    shard_info(s->core, &info);
    memcpy(fence.secret, s->secret, sizeof fence.secret);
    ref.job = s->job;
    ref.shard = s->number;
    ref.generation = info.generation;
    ref.opening = f->opening;
    ref.secret = wire_secret_to_proto(&fence);
    m.shard = &ref;
    return rpc_stream_send(f->stream, &m.base, NULL, err);
}

static void run_due(void *ctx)
{
    struct ps_follow *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->due = true;
    pthread_mutex_unlock(&f->lock);
    ps_shard_wake(f->shard);
    unref(f);
}

static void run_wait(void *ctx)
{
    struct ps_follow *f = ctx;
    if (loop_discarding(f->shard->ps->links)) {
        unref(f);
        return;
    }
    const uint64_t ms = backoff_ms(f->failures, AGAIN_MIN_MS, AGAIN_MAX_MS);
    loop_timer_set(f->shard->ps->links, &f->timer, chrono_now_ms() + ms, run_due, f);
}

static void wait_again(struct ps_follow *f, const struct err *why)
{
    char quoted[512];
    if (f->failures == TELL_FAILURES) { /* at first it may not be open yet */
        log_warn("backup_unreachable", "job=%s shard=%" PRIu32 " error=%s", f->shard->job,
                 f->shard->number, log_quote(why->msg, quoted, sizeof quoted));
    }
    if (!f->stuck) {
        text_copy(f->problem, sizeof f->problem, why->msg);
    }
    f->failures++;
    f->waits = true;
    atomic_fetch_add(&f->refs, 1);
    if (loop_post(f->shard->ps->links, run_wait, f, NULL) != 0) {
        unref(f); /* the server ends */
    }
}

static void connect_stream(struct ps_follow *f)
{
    struct err err = {0};
    const struct rpc_request request = {
        .service = &gradus__v1__parameter_server__descriptor,
        .method = "Record",
        .request_bulk = PS_VALUES_FIELD,
        .terse = true,
    };
    f->greeted = false;
    f->sending = f->first;
    f->at = 0;
    atomic_fetch_add(&f->refs, 1);
    f->stream = rpc_stream_open(f->channel, &request, &stream_events, f, &err);
    if (f->stream == NULL) {
        unref(f);
        wait_again(f, &err);
    } else if (greet(f, &err) != 0) {
        rpc_stream_cancel(f->stream);
    }
}

/* ---- for the shard ---- */

static void let_go(struct ps_follow *f);

/* Where the server at @address is reached: on this host by its local socket, which takes half the
 * CPU of a byte. Returns owned. */
static char *target_of(const struct ps *ps, const char *address)
{
    char path[LOCAL_SOCKET_BYTES];
    const bool local = ps->local_sockets != NULL &&
                       local_socket_path(ps->local_sockets, address, path, NULL) == 0 &&
                       local_socket_answers(path);
    return local ? mem_printf("unix:%s", path) : mem_strdup(address);
}

int ps_follow_new(struct ps_shard *s, const Gradus__V1__ShardLocation *location, bool joins,
                  struct ps_follow **out, struct err *err)
{
    if (s->ps->links == NULL) {
        return err_set(err, ERR_UNSUPPORTED, "shards of this server have no backups");
    }
    struct ps_follow *f = mem_new(1, sizeof *f);
    *f = (struct ps_follow){.shard = s, .opening = location->opening, .joins = joins};
    atomic_store(&f->refs, 1);
    pthread_mutex_init(&f->lock, NULL);
    f->end = &f->first;
    const size_t gradients = joins ? SHARD_JOINING_UPDATES_MAX : 1;
    const uint64_t floats = gradients * s->elements + /* and the state */
                            (joins ? s->elements + s->slot_copies.floats : 0);
    char *target = target_of(s->ps, location->address);
    const struct rpc_channel_options options = {
        .target = target,
        .send_bytes_max = floats * sizeof(float) + SEND_BYTES_MIN,
        .own_connection = true,
        .credentials = s->ps->credentials,
    };
    int rc = ps_copies_reserve(&f->copies, s, gradients, err);
    if (rc == 0) {
        f->channel = rpc_channel_new(&options, err);
        rc = f->channel != NULL ? 0 : err->code != 0 ? err->code : ERR_INVALID;
    }
    free(target);
    if (rc != 0) {
        let_go(f);
        return err_wrap(err, "the backup on %s", location->node);
    }
    *out = f;
    return 0;
}

int ps_follow_join(struct ps_shard *s, struct ps_request *r, struct err *err)
{
    const Gradus__V1__SetMembershipRequest *m =
        (const Gradus__V1__SetMembershipRequest *)r->msg->body;
    int rc = ps_follow_new(s, m->backup, true, &s->joining, err);
    if (rc != 0 || s->slot_copies.floats == 0) {
        return rc;
    }
    s->copies_more = true;
    rc = ps_memory_reserve_copies(s, 1, err);
    r->event.slots_buffer = rc == 0 ? buffer_get(&s->slot_copies, err) : NULL;
    if (r->event.slots_buffer == NULL) {
        ps_follow_joined(s);
        return err_wrap(err, "a copy of the slots for a backup that joins");
    }
    return 0;
}

void ps_follow_joined(struct ps_shard *s)
{
    if (s->joining != NULL) { /* the core has refused the backup */
        let_go(s->joining);
        s->joining = NULL;
    }
    ps_follow_trim(s);
}

uint64_t ps_follow_hear(struct ps_shard *s)
{
    struct ps_follow *f = s->follow;
    if (f == NULL) {
        return 0;
    }
    if (!f->begun) {
        f->begun = true;
        (void)ps_shard_ref(s);
        connect_stream(f);
        return 0;
    }
    pthread_mutex_lock(&f->lock);
    const bool heard = f->heard, over = f->over, due = f->due;
    const uint64_t received = f->received;
    const struct err why = f->why;
    f->heard = f->over = f->due = false;
    pthread_mutex_unlock(&f->lock);
    if (heard && f->failures > TELL_FAILURES) {
        log_info("backup_back", "job=%s shard=%" PRIu32, s->job, s->number);
    }
    if (heard) {
        f->number = f->greeted ? f->number : ps_standby_begin(s);
        f->greeted = true;
        f->failures = 0;
        f->problem[0] = f->stuck ? f->problem[0] : '\0';
        trim(f, received);
        f->joins = f->joins && received == 0;
    }
    if (over && f->stream != NULL) {
        rpc_stream_free(f->stream);
        f->stream = NULL;
        wait_again(f, &why);
    }
    if (due && f->waits) {
        f->waits = false;
        connect_stream(f);
    }
    send_all(f);
    trim(f, received);
    return heard ? received : 0;
}

uint64_t ps_follow_opening(const struct ps_shard *s)
{
    return s->follow == NULL ? 0 : s->follow->opening;
}

const char *ps_follow_problem(const struct ps_shard *s)
{
    return s->follow == NULL ? "" : s->follow->problem;
}

uint64_t ps_follow_state_bytes(const struct ps_shard *s)
{
    return s->follow == NULL ? 0 : s->follow->state_bytes;
}

void ps_follow_trim(struct ps_shard *s)
{
    struct ps_follow *f = s->follow;
    if (f != NULL && f->joins) {
        return;
    }
    if (f != NULL) {
        (void)ps_copies_reserve(&f->copies, s, 1, NULL);
    }
    ps_memory_no_join(s);
}

/* Waits for callbacks, which may be at work on the strand. */
static void run_end(void *ctx)
{
    struct ps_follow *f = ctx;
    if (f->timer.slot != 0) {
        loop_timer_clear(f->shard->ps->links, &f->timer);
        unref(f);
    }
    if (f->stream != NULL) {
        rpc_stream_free(f->stream);
    }
    rpc_channel_free(f->channel);
    unref(f);
}

/* It is nobody's any more. */
static void let_go(struct ps_follow *f)
{
    struct ps *ps = f->shard->ps;
    f->sending = NULL;
    f->at = 0;
    trim(f, UINT64_MAX);
    (void)ps_copies_reserve(&f->copies, f->shard, 0, NULL);
    if (!f->begun) {
        rpc_channel_free(f->channel); /* nothing was called on it */
        unref(f);
    } else if (loop_post(ps->links, run_end, f, NULL) != 0) {
        rpc_channel_cancel(f->channel); /* the server ends, and the process with it */
    }
}

void ps_follow_end(struct ps_shard *s)
{
    struct ps_follow *f = s->follow;
    if (f != NULL) {
        ps_follow_abandon(s);
        s->follow = NULL;
        let_go(f);
    }
}
