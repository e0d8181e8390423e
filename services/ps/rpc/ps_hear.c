/* SPDX-License-Identifier: Apache-2.0 */
/* A backup reads the notes of a primary on its host (shared_notes.h), on a thread that waits for
 * them: short records, as those of most updates are. It is the thread that makes these updates,
 * too, if nobody else is at work for the shard. */
#include <inttypes.h>
#include <stddef.h>

#include "os/thread.h"
#include "ps/rpc/ps_standby.h"

/* The receipt, or why there is none. */
static void answer(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    shared_notes_say(&r->records->hears.notes, a->received);
}

/* ---- memory for the gradient of a block ---- */

static void on_ready(struct gradient_wait *w)
{
    struct ps_record_stream *s =
        (struct ps_record_stream *)((char *)w - offsetof(struct ps_record_stream, hears.waiter));
    const struct shared_notes notes = s->hears.notes;
    atomic_store(&s->hears.ready, true);
    shared_notes_ring(&notes, SHARED_NOTES_PUT);
    ps_record_stream_unref(s);
}

/* Nothing is waited for any more. What was granted and not fetched goes back. */
static void leave_room(struct ps_record_stream *s)
{
    if (gradient_wait_cancel(&s->hears.waiter)) {
        ps_record_stream_unref(s);
    }
}

/* Waits for room; false: the stream is over. */
static bool wait_for_room(struct ps_record_stream *s)
{
    atomic_store(&s->hears.ready, false);
    atomic_fetch_add(&s->refs, 1); /* of the waiter */
    gradient_pool_wait(&s->shard->gradients, &s->hears.waiter);
    for (;;) {
        const uint32_t rung = shared_notes_rung(&s->hears.notes, SHARED_NOTES_PUT);
        if (atomic_load(&s->hears.over)) {
            return false;
        }
        if (atomic_load(&s->hears.ready)) {
            return true;
        }
        shared_notes_wait(&s->hears.notes, SHARED_NOTES_PUT, rung);
    }
}

/* Errors: those of ps_shared_memory_gradient(); ERR_CANCELLED the stream is over. */
static int find_block(struct ps_record_stream *s, uint32_t block, struct buffer **out,
                      struct err *err)
{
    int rc;
    while ((rc = ps_shared_memory_gradient(s->memory, block, &s->hears.waiter, out, err)) == 1) {
        if (!wait_for_room(s)) {
            return err_set(err, ERR_CANCELLED, "the stream is over");
        }
    }
    return rc;
}

/* ---- notes ---- */

/* What @m says, into the event of @r, which keeps it. */
static int read_note(struct ps_record_stream *s, const Gradus__V1__RecordRequest *m,
                     struct ps_request *r, struct err *err)
{
    struct shard_event *e = &r->event;
    struct buffer *gradient = NULL;
    e->fence = s->fence;
    int rc = ps_record_read(r, m, err);
    const bool blocked = m->gradient_block != 0;
    const bool whole = blocked ? e->record.kind == SHARD_RECORD_UPDATE && e->record.examples > 0 &&
                                     m->total == s->shard->elements
                               : m->total == 0;
    if (rc == 0 && (m->number == 0 || !whole)) {
        rc = err_set(err, ERR_INVALID, "record %" PRIu64 " has %" PRIu64 " elements, in a note",
                     m->number, m->total);
    }
    if (rc != 0 || !blocked) {
        return rc;
    }
    rc = find_block(s, m->gradient_block, &gradient, err);
    rc = rc != 0 || m->update->push == NULL
             ? rc
             : ps_read_norms(s->shard, m->update->push, gradient, err);
    if (rc != 0) {
        buffer_put(gradient);
        return rc;
    }
    e->gradient = gradient;
    e->elements = s->shard->elements;
    return 0;
}

static int hear(struct ps_record_stream *s, const struct ps_note *n, struct err *err)
{
    Gradus__V1__RecordRequest *m =
        n->bytes > sizeof n->message
            ? NULL
            : gradus__v1__record_request__unpack(NULL, n->bytes, n->message);
    if (m == NULL) {
        return err_set(err, ERR_INVALID, "a note of %" PRIu32 " bytes that is no record", n->bytes);
    }
    struct ps_request *r = ps_request_new(s->shard, SHARD_RECORD, s->call, NULL, answer);
    atomic_fetch_add(&s->refs, 1);
    r->records = s;
    r->note = &m->base;
    const int rc = read_note(s, m, r, err);
    if (rc != 0) {
        ps_request_unref(r);
        return rc;
    }
    ps_request_post(r);
    return 0;
}

/* The next note; false: the stream is over. */
static bool next(struct ps_record_stream *s, struct ps_note *out)
{
    struct shared_notes *notes = &s->hears.notes;
    for (;;) {
        const uint32_t rung = shared_notes_rung(notes, SHARED_NOTES_PUT);
        if (atomic_load(&s->hears.over)) {
            return false;
        }
        if (shared_notes_read(notes, out)) {
            return true;
        }
        shared_notes_await(notes, SHARED_NOTES_PUT);
        if (shared_notes_read(notes, out)) {
            return true;
        }
        shared_notes_wait(notes, SHARED_NOTES_PUT, rung);
    }
}

static void *run(void *ctx)
{
    struct ps_record_stream *s = ctx;
    struct ps *ps = s->ps;
    struct ps_note note;
    struct err err;
    int rc = 0;
    while (rc == 0 && next(s, &note)) {
        rc = hear(s, &note, &err);
    }
    if (rc != 0 && rc != ERR_CANCELLED) {
        (void)ps_shard_wrap(s->shard, &err);
        (void)rpc_fail(s->call, &err);
    }
    leave_room(s);
    ps_record_stream_unref(s);
    ps_thread_ends(ps);
    return NULL;
}

int ps_hear_begin(struct ps_record_stream *s, struct err *err)
{
    pthread_t thread;
    s->hears.notes = (struct shared_notes){.memory = ps_shared_memory_notes(s->memory)};
    s->hears.waiter.ready = on_ready;
    atomic_fetch_add(&s->refs, 1);
    ps_thread_begins(s->ps);
    if (thread_start(&thread, "ps-records", run, s) == 0) {
        (void)pthread_detach(thread);
        atomic_store(&s->hears.begun, true);
        return 0;
    }
    ps_record_stream_unref(s);
    ps_thread_ends(s->ps);
    return err_set(err, ERR_EXHAUSTED, "no thread for notes");
}

void ps_hear_end(struct ps_record_stream *s)
{
    if (atomic_load(&s->hears.begun)) {
        atomic_store(&s->hears.over, true);
        shared_notes_ring(&s->hears.notes, SHARED_NOTES_PUT);
    }
}
