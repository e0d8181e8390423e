/* SPDX-License-Identifier: Apache-2.0 */
/* Records spans of time into an array that was allocated before, under a mutex; an atomic flag
 * in front of it keeps the cost near nothing while no trace is recorded. */
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/file.h"

void trace_spans_release(struct trace_spans *s)
{
    free(s->items);
    free(s->workers);
    *s = (struct trace_spans){0};
}

void trace_init(struct trace *t)
{
    *t = (struct trace){.spans_max = 0};
    atomic_init(&t->on, false);
    pthread_mutex_init(&t->mutex, NULL);
}

void trace_release(struct trace *t)
{
    trace_spans_release(&t->spans);
    pthread_mutex_destroy(&t->mutex);
}

static int make_room(struct trace *t, const char *job, size_t spans_max, struct err *err)
{
    size_t max = spans_max == 0 || spans_max > TRACE_SPANS_MAX ? TRACE_SPANS_MAX : spans_max;
    struct trace_spans spans = {0};
    spans.items = mem_try_aligned(max, sizeof *spans.items, "a trace", err);
    if (spans.items == NULL) {
        return ERR_EXHAUSTED;
    }
    spans.workers = mem_new(TRACE_WORKERS_MAX, sizeof *spans.workers);
    trace_spans_release(&t->spans);
    t->spans = spans;
    t->spans_max = max;
    text_copy(t->job, sizeof t->job, job);
    return 0;
}

int trace_begin(struct trace *t, uint64_t id, const char *job, size_t spans_max, uint64_t now_ns,
                uint64_t deadline_ns, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&t->mutex);
    const struct recording before = t->recording;
    enum recording_asked asked = recording_ask(&t->recording, id, 0, now_ns, deadline_ns);
    bool another_job = asked == RECORDING_AGAIN && strcmp(t->job, job) != 0;
    if (asked == RECORDING_OTHER || another_job) {
        const bool same = strcmp(t->job, job) == 0; /* others' jobs are not named */
        rc = err_set(err, ERR_EXISTS, "another trace is being recorded, of %s%s",
                     same ? "job " : "another job", same ? job : "");
    } else if (asked == RECORDING_OVER) {
        rc = err_set(err, ERR_CANCELLED, "this trace was taken already");
    } else if (asked == RECORDING_BEGUN && make_room(t, job, spans_max, err) != 0) {
        rc = ERR_EXHAUSTED;
        t->recording = before;
    } else if (asked == RECORDING_BEGUN) {
        atomic_store(&t->on, true);
    }
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

/* A handful of workers, and only while it is on. */
static uint32_t number_of(struct trace_spans *s, const char *worker)
{
    size_t i = 0;
    while (i < s->worker_count && strcmp(s->workers[i], worker) != 0) {
        i++;
    }
    if (i == TRACE_WORKERS_MAX) {
        return 0;
    }
    if (i == s->worker_count) {
        text_copy(s->workers[i], sizeof s->workers[i], worker);
        s->worker_count++;
    }
    return (uint32_t)i + 1;
}

void trace_add(struct trace *t, const char *job, const struct trace_span *span, const char *worker)
{
    if (!trace_on(t)) {
        return;
    }
    pthread_mutex_lock(&t->mutex);
    struct trace_spans *s = &t->spans;
    if (!recording_is_on(&t->recording) || strcmp(t->job, job) != 0) {
        /* over since then, or of another job on this server */
    } else if (span->end_ns > t->recording.deadline_ns) {
        atomic_store(&t->on, false);
    } else if (s->count == t->spans_max) {
        s->lost++;
    } else {
        struct trace_span *to = &s->items[s->count++];
        *to = *span;
        to->worker = worker == NULL ? 0 : number_of(s, worker);
    }
    pthread_mutex_unlock(&t->mutex);
}

int trace_take(struct trace *t, uint64_t id, struct trace_spans *out, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&t->mutex);
    if (!recording_take(&t->recording, id)) {
        rc = err_set(err, ERR_NOT_FOUND, "no such trace is being recorded");
    } else {
        *out = t->spans;
        t->spans = (struct trace_spans){0};
        atomic_store(&t->on, false);
    }
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

void trace_boot(char out[TRACE_BOOT_BYTES])
{
    struct buf id = {0};
    out[0] = '\0';
    if (file_read("/proc/sys/kernel/random/boot_id", TRACE_BOOT_BYTES, &id, NULL) == 0) {
        text_copy(out, TRACE_BOOT_BYTES, buf_str(&id));
        out[strcspn(out, "\n")] = '\0';
    }
    buf_release(&id);
}
