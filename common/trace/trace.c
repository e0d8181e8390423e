/* SPDX-License-Identifier: Apache-2.0 */
/* Records spans of time into an array that was allocated before, under a mutex; an atomic flag
 * in front of it keeps the cost near nothing while no trace is recorded. */
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

void trace_spans_release(struct trace_spans *s)
{
    free(s->items);
    free(s->workers);
    *s = (struct trace_spans){0};
}

void trace_init(struct trace *t)
{
    *t = (struct trace){.begun = false};
    atomic_init(&t->on, false);
    pthread_mutex_init(&t->mutex, NULL);
}

void trace_release(struct trace *t)
{
    trace_spans_release(&t->spans);
    pthread_mutex_destroy(&t->mutex);
}

static int begin(struct trace *t, uint64_t id, const char *job, size_t spans_max,
                 uint64_t deadline_ns, struct err *err)
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
    t->begun = true;
    t->id = id;
    t->deadline_ns = deadline_ns;
    text_copy(t->job, sizeof t->job, job);
    atomic_store(&t->on, true);
    return 0;
}

int trace_begin(struct trace *t, uint64_t id, const char *job, size_t spans_max, uint64_t now_ns,
                uint64_t deadline_ns, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&t->mutex);
    bool same = t->begun && t->id == id && strcmp(t->job, job) == 0;
    if (t->begun && !same && now_ns < t->deadline_ns) {
        rc = err_set(err, ERR_EXISTS, "another trace is being recorded, of job %s", t->job);
    } else if (!same) {
        rc = begin(t, id, job, spans_max, deadline_ns, err);
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
    if (!t->begun || strcmp(t->job, job) != 0) {
        /* over since then, or of another job on this server */
    } else if (span->end_ns > t->deadline_ns) {
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
    if (!t->begun || t->id != id) {
        rc = err_set(err, ERR_NOT_FOUND, "no such trace is being recorded");
    } else {
        *out = t->spans;
        t->spans = (struct trace_spans){0};
        t->begun = false;
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
