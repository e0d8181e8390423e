/* SPDX-License-Identifier: Apache-2.0 */
/* A primary's way to its backup: records wait here until they were received, and are said again
 * after each break of the connection (ps_link.c). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/log.h"
#include "ps/rpc/ps_follow.h"
#include "ps/rpc/ps_memory.h"

#define SEND_BYTES_MIN (UINT64_C(64) << 20) /* queued, besides one gradient */

#define RECORD_BYTES 4096 /* that a record counts as, besides its values */

/* ---- the list of records ---- */

static void count_update(struct ps_follow *f, const struct ps_record *r, bool more)
{
    if (r->what.kind == SHARD_RECORD_UPDATE) {
        const uint64_t bytes = RECORD_BYTES + ps_record_floats(r) * sizeof(float);
        f->updates = more ? f->updates + 1 : f->updates - 1;
        f->update_bytes = more ? f->update_bytes + bytes : f->update_bytes - bytes;
    }
}

/* Forgets those that were received; one that is being sent is finished first, or the stream would
 * have a part of it. */
static void trim(struct ps_follow *f)
{
    while (f->first != NULL && f->first->what.number <= f->known &&
           (f->first != f->sending || f->at == 0)) {
        struct ps_record *r = f->first;
        f->first = r->next;
        f->sending = f->sending == r ? r->next : f->sending;
        count_update(f, r, false);
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

/* Says the next record, or a part of it. 1: it is said. 2: it waits until others are received.
 * Errors: those of rpc_stream_send(). */
static int say_next(struct ps_follow *f, struct err *err)
{
    const struct ps_record *r = f->sending;
    struct ps_near *near = f->copies.near;
    struct ps_note note;
    const bool may = near != NULL && near->listens && f->at == 0 && f->known >= f->in_messages;
    if (may && ps_record_note(r, f->number, &note) && ps_near_note(near, &note)) {
        ps_record_named(f->shard, r);
        f->in_notes = r->what.number;
        return 1;
    }
    if (f->known < f->in_notes) {
        return 2;
    }
    const int rc = ps_record_send(f->shard, f->stream, f->number, r, &f->at, err);
    f->in_messages = rc == 0 || rc == 1 ? r->what.number : f->in_messages;
    return rc;
}

/* Sends as much as the stream takes. */
static void send_all(struct ps_follow *f)
{
    struct err err;
    while (f->stream != NULL && f->greeted && f->sending != NULL && !f->stuck) {
        const int rc = say_next(f, &err);
        if (rc == 1) {
            f->sending = f->sending->next;
            f->at = 0;
        } else if (rc == ERR_RANGE) { /* rows of the state are not kept any more */
            stick(f, &err);
        } else if (rc != 0) {
            if (rc != 2 && rc != ERR_EXHAUSTED) { /* with that it goes on with the next receipt */
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
    f->uncounted = f->uncounted || (r->rows != NULL && !r->rows->counted);
    count_update(f, r, true);
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

/* ---- for the shard ---- */

static void let_go(struct ps_follow *f);

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
    const size_t gradients = joins ? PS_JOINING_UPDATES : 1;
    const uint64_t floats = gradients * s->elements + /* and the state */
                            (joins ? s->elements + s->slot_copies.floats : 0);
    char *target = ps_near_target(s->ps, location->address, &f->is_near);
    const struct rpc_channel_options options = {
        .target = target,
        /* rows of an update have no limit; what is queued lies in the records, and is no copy */
        .send_bytes_max =
            s->tables != NULL ? SIZE_MAX / 2 : floats * sizeof(float) + SEND_BYTES_MIN,
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
    struct shard_info info;
    shard_info(s->core, &info);
    ps_follow_trim(s, info.joining);
}

/* True if the backup has received records of notes, as it was not known to. */
static bool hear_word(struct ps_follow *f)
{
    const uint64_t word = f->copies.near == NULL ? 0 : ps_near_word(f->copies.near);
    const uint64_t heard = word < f->in_notes ? word : f->in_notes;
    if (heard <= f->known) {
        return false;
    }
    f->known = heard;
    return true;
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
        ps_link_connect(f);
        return 0;
    }
    pthread_mutex_lock(&f->lock);
    const bool heard = f->heard, over = f->over, due = f->due, opened = f->opened;
    const uint64_t received = f->received;
    const struct err why = f->why;
    f->heard = f->over = f->due = false;
    pthread_mutex_unlock(&f->lock);
    const bool noted = hear_word(f);
    if (heard && f->failures > PS_LINK_TELL_FAILURES) {
        log_info("backup_back", "job=%s shard=%" PRIu32, s->job, s->number);
    }
    if (heard) {
        if (!f->greeted) {
            ps_link_greeted(f, opened);
        }
        f->failures = 0;
        f->problem[0] = f->stuck ? f->problem[0] : '\0';
        f->known = received > f->known ? received : f->known;
        trim(f);
        f->joins = f->joins && received == 0;
    }
    if (over && f->stream != NULL) {
        rpc_stream_free(f->stream);
        f->stream = NULL;
        ps_link_over(f, &why);
    }
    if (due && f->waits) {
        f->waits = false;
        ps_link_connect(f);
    }
    send_all(f);
    trim(f);
    return heard || noted ? f->known : 0;
}

uint64_t ps_follow_listen(struct ps_shard *s)
{
    struct ps_follow *f = s->follow;
    if (f == NULL || f->known >= f->in_notes) {
        return 0;
    }
    bool heard = hear_word(f);
    if (!heard) {
        ps_near_await(f->copies.near);
        heard = hear_word(f);
    }
    if (!heard) {
        return 0;
    }
    trim(f);
    send_all(f);
    trim(f);
    return f->known;
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

bool ps_follow_has_room(struct ps_shard *s)
{
    struct ps_follow *f = s->follow;
    if (f == NULL || !f->joins) {
        return true;
    }
    if (s->tables != NULL && shard_tables_short(s->tables)) {
        return false; /* an update might take the room of the rows that are kept for the state */
    }
    const uint64_t bytes = f->update_bytes + RECORD_BYTES + s->elements * sizeof(float);
    return f->updates < PS_JOINING_UPDATES ||
           (bytes <= s->ps->joining_bytes && !f->uncounted && ps_copies_have(&f->copies, s));
}

void ps_follow_trim(struct ps_shard *s, bool joining)
{
    struct ps_follow *f = s->follow;
    if (f != NULL && f->joins) {
        return;
    }
    if (f != NULL && !joining) {
        (void)ps_copies_reserve(&f->copies, s, 1, NULL);
    }
    ps_memory_no_join(s);
}

/* It is nobody's any more. */
static void let_go(struct ps_follow *f)
{
    f->sending = NULL;
    f->at = 0;
    f->known = UINT64_MAX;
    trim(f);
    (void)ps_copies_reserve(&f->copies, f->shard, 0, NULL);
    ps_link_end(f);
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
