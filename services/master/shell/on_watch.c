/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Watch: the job now, after every change, and at least once a second while it runs.
 *
 * Changes come thousands a second; a watcher gets at most one message in WATCH_MS, but a new state
 * at once. Who does not read fast enough misses the ones between, never the last. */
#include <stdlib.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "os/chrono.h"

#define WATCH_MS 200
#define REPEAT_MS 1000
#define QUEUED_BYTES_MAX (1u << 20) /* unsent, of one watcher */

struct watcher {
    struct shell *shell;
    struct rpc_call *call;
    char *job;
    bool listed;
    bool changed;              /* since the last message */
    enum job_state sent_state; /* 0: nothing was sent */
    uint64_t sent_ms;
    struct watcher *prev, *next;
    struct watcher *same_prev, *same_next; /* watchers of the same job */
};

/* Jobs change thousands of times a second: who watches one is found without a look at all. */
static void link_same(struct watcher *w)
{
    w->same_next = name_index_find(&w->shell->watched, w->job);
    if (w->same_next != NULL) {
        w->same_next->same_prev = w;
    }
    name_index_put(&w->shell->watched, w->job, w);
}

static void unlink_same(struct watcher *w)
{
    if (w->same_next != NULL) {
        w->same_next->same_prev = w->same_prev;
    }
    if (w->same_prev != NULL) {
        w->same_prev->same_next = w->same_next;
        return;
    }
    name_index_remove(&w->shell->watched, w->job);
    if (w->same_next != NULL) {
        name_index_put(&w->shell->watched, w->same_next->job, w->same_next);
    }
}

static void watcher_unlink(struct watcher *w)
{
    struct shell *s = w->shell;
    if (!w->listed) {
        return;
    }
    if (w->prev != NULL) {
        w->prev->next = w->next;
    } else {
        s->watchers = w->next;
    }
    if (w->next != NULL) {
        w->next->prev = w->prev;
    }
    unlink_same(w);
    w->listed = false;
    s->watcher_count--;
}

/* The job to @w; after a final state the stream ends, and the watcher waits unlisted for `done`. */
static void tell(struct watcher *w, const struct job_record *record)
{
    if (rpc_queued_bytes(w->call) > QUEUED_BYTES_MAX && !job_state_is_final(record->state)) {
        return; /* it is told of the change when it has read */
    }
    struct job_wire wire;
    job_wire_init(&wire, record, JOB_WIRE_EVALUATIONS);
    if (job_state_is_final(record->state)) {
        wire.job.bad_records = bad_records_read(w->shell, record->id);
    }
    (void)rpc_send(w->call, &wire.job.base, NULL);
    job_wire_release(&wire);
    w->changed = false;
    w->sent_state = record->state;
    w->sent_ms = chrono_now_ms();
    if (job_state_is_final(record->state)) {
        (void)rpc_finish(w->call);
        watcher_unlink(w);
    }
}

static void on_timer(void *ctx);

static void arm(struct shell *s)
{
    if (s->watchers != NULL) {
        loop_timer_set(s->loop, &s->watch_timer, chrono_now_ms() + WATCH_MS, on_timer, s);
    }
}

static void on_timer(void *ctx)
{
    struct shell *s = ctx;
    uint64_t now_ms = chrono_now_ms();
    for (struct watcher *w = s->watchers, *next; w != NULL; w = next) {
        next = w->next;
        if (!w->changed && now_ms - w->sent_ms < REPEAT_MS) {
            continue;
        }
        const struct job_record *record = master_job(s->master, w->job, now_ms);
        if (record != NULL && (w->changed || record->state == JOB_RUNNING)) {
            tell(w, record);
        }
    }
    arm(s);
}

void watchers_changed(struct shell *s, const struct job_record *record)
{
    for (struct watcher *w = name_index_find(&s->watched, record->id), *next; w != NULL; w = next) {
        next = w->same_next;
        w->changed = true;
        if (w->sent_state != record->state) {
            tell(w, record);
        }
    }
}

static void fail(struct watcher *w, int code, const char *what, const char *job)
{
    struct err err = {0};
    err_set(&err, code, "%s%.128s", what, job);
    (void)rpc_fail(w->call, &err);
}

/* A job that only the store knows has ended: one message, and the stream ends. */
static void tell_stored(struct watcher *w)
{
    struct buf packed = {0};
    struct job_record record;
    struct store *store = w->shell->store;
    struct err err = {0};
    int rc = store->ops->get(store, w->job, &packed, &err);
    rc = rc < 0 ? rc : job_wire_unpack(packed.data, packed.len, &record, &err);
    if (rc == ERR_NOT_FOUND) {
        fail(w, ERR_NOT_FOUND, "no job ", w->job);
    } else if (rc < 0) {
        (void)rpc_fail(w->call, &err);
    } else {
        tell(w, &record);
        job_record_release(&record);
    }
    buf_release(&packed);
}

static void add(void *ctx)
{
    struct watcher *w = ctx;
    struct shell *s = w->shell;
    if (loop_discarding(s->loop) || atomic_load(&s->ending)) {
        fail(w, ERR_UNAVAILABLE, "the master is stopping", "");
        return;
    }
    uint64_t now_ms = chrono_now_ms();
    const struct job_record *record = master_job(s->master, w->job, now_ms);
    if (record == NULL) {
        tell_stored(w);
        return;
    }
    if (s->watcher_count >= SHELL_WATCHERS_MAX) {
        fail(w, ERR_EXHAUSTED, "too many clients watch already", "");
        return;
    }
    w->next = s->watchers;
    if (s->watchers != NULL) {
        s->watchers->prev = w;
    }
    s->watchers = w;
    link_same(w);
    s->watcher_count++;
    w->listed = true;
    tell(w, record);
    arm(s);
}

static void removed(void *ctx)
{
    struct watcher *w = ctx;
    watcher_unlink(w);
    rpc_call_unref(w->call);
    free(w->job);
    free(w);
}

void on_watch(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__GetJobRequest *q = (const Gradus__V1__GetJobRequest *)msg->body;
    struct watcher *w = mem_new(1, sizeof *w);
    *w = (struct watcher){.shell = service, .call = rpc_call_ref(call), .job = mem_strdup(q->job)};
    rpc_set_data(call, w);
    struct err err = {0};
    if (loop_post(w->shell->loop, add, w, &err) < 0) {
        (void)rpc_fail(call, &err);
    }
}

/* The last callback of the call, so `removed` runs after `add`. */
void on_watch_done(struct rpc_call *call, bool cancelled, void *service)
{
    (void)cancelled;
    (void)service;
    struct watcher *w = rpc_data(call);
    if (w == NULL) {
        return;
    }
    struct err err = {0};
    while (loop_post(w->shell->loop, removed, w, &err) < 0) {
        if (err.code == ERR_STATE) { /* the loop has ended; no other thread has it */
            removed(w);
            return;
        }
    }
}

void watchers_end(struct shell *s)
{
    for (struct watcher *w = s->watchers, *next; w != NULL; w = next) {
        next = w->next;
        watcher_unlink(w);
        fail(w, ERR_UNAVAILABLE, "the master is stopping", "");
    }
    loop_timer_clear(s->loop, &s->watch_timer);
}
