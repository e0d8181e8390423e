/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a recording of `gradus trace` as JSON for trace viewers. The nodes' clocks are brought to
 * one time first; what servers recorded before and after the workers' steps is left out. */
#include "cli/trace_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "timeline/trace_spans.h"
#include "json/json_write.h"
#include "trace/trace.h"
#include "wire/wire.h"

/* Threads of a worker: its job, and a connection for each shard. Of a server: for each shard its
 * strand, and behind it the connections of the workers. */
#define JOB_THREAD 1
#define FIRST_CONNECTION 2
#define SHARD_THREADS (TRACE_WORKERS_MAX + 1)

struct event {
    int64_t ns; /* by the master's clock */
    uint64_t length_ns;
    char phase; /* X, b, e; s, t, f */
    uint32_t process, thread;
    const char *name;
    const Gradus__V1__Span *span;
    uint64_t id; /* of b, e, s, t, f */
    uint64_t order;
};

/* One end of an arrow, in the exchange of the arrow. */
struct point {
    bool sent; /* the worker's end of a push or pull */
    const char *worker;
    uint32_t shard;
    uint64_t exchange;
    int64_t ns;
    uint32_t process, thread;
};

struct writer {
    const Gradus__V1__TraceJobResponse *trace;
    struct buf *out;
    struct event *events;
    size_t count, capacity;
    struct point *points;
    size_t point_count, point_capacity;
    uint64_t last_id;
    bool comma;
};

static const char *const names[] = {
    [TRACE_STEP] = "step",   [TRACE_LOAD] = "load",         [TRACE_COMPUTE] = "compute",
    [TRACE_ADD] = "add",     [TRACE_EVALUATE] = "evaluate", [TRACE_SEND] = "send",
    [TRACE_WAIT] = "wait",   [TRACE_EXCHANGE] = "exchange", [TRACE_RECEIVE] = "receive",
    [TRACE_CHUNK] = "chunk", [TRACE_QUEUE] = "queue",       [TRACE_SUM] = "sum",
    [TRACE_APPLY] = "apply", [TRACE_ANSWER] = "answer",
};

static bool is_known(const Gradus__V1__Span *s)
{
    int kind = (int)s->kind;
    return kind >= TRACE_STEP && kind < (int)(sizeof names / sizeof names[0]);
}

/* ---- from spans to events ---- */

static struct event *add(struct writer *w, char phase, int64_t ns, uint32_t process,
                         uint32_t thread)
{
    w->events = mem_grow(w->events, &w->capacity, w->count + 1, sizeof *w->events);
    struct event *e = &w->events[w->count];
    *e = (struct event){
        .ns = ns, .phase = phase, .process = process, .thread = thread, .order = w->count};
    w->count++;
    return e;
}

static void add_point(struct writer *w, const struct point *p)
{
    w->points = mem_grow(w->points, &w->point_capacity, w->point_count + 1, sizeof *w->points);
    w->points[w->point_count++] = *p;
}

static uint32_t thread_of(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    uint32_t shard = s->shard < UINT16_MAX ? s->shard : UINT16_MAX;
    if (trace_is_worker(n)) {
        bool connection = s->kind == GRADUS__V1__SPAN_KIND__SPAN_RECEIVE ||
                          s->kind == GRADUS__V1__SPAN_KIND__SPAN_EXCHANGE;
        return connection ? FIRST_CONNECTION + shard : JOB_THREAD;
    }
    bool connection = s->kind == GRADUS__V1__SPAN_KIND__SPAN_CHUNK ||
                      s->kind == GRADUS__V1__SPAN_KIND__SPAN_QUEUE;
    uint32_t worker = s->worker <= TRACE_WORKERS_MAX ? s->worker : 0;
    return 1 + shard * SHARD_THREADS + (connection ? worker : 0);
}

/* Push and pull of one exchange, wherever they were seen: sent, arrived, applied, answered,
 * received. */
static void add_points(struct writer *w, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s,
                       int64_t begin, uint32_t process)
{
    bool worker = trace_is_worker(n);
    struct point p = {.sent = s->kind == GRADUS__V1__SPAN_KIND__SPAN_SEND,
                      .worker = worker ? n->node : trace_sender(n, s),
                      .shard = s->shard,
                      .exchange = s->exchange,
                      .ns = begin,
                      .process = process,
                      .thread = thread_of(n, s)};
    switch (s->kind) {
    case GRADUS__V1__SPAN_KIND__SPAN_SEND:
    case GRADUS__V1__SPAN_KIND__SPAN_RECEIVE:
    case GRADUS__V1__SPAN_KIND__SPAN_CHUNK:
    case GRADUS__V1__SPAN_KIND__SPAN_ANSWER:
        add_point(w, &p);
        break;
    case GRADUS__V1__SPAN_KIND__SPAN_QUEUE: /* the wait ends where the update begins */
        if (s->applied_ns > 0) {
            p.ns = trace_plus(p.ns, (int64_t)s->ns);
            p.thread = 1 + (p.thread - 1) / SHARD_THREADS * SHARD_THREADS;
            add_point(w, &p);
        }
        break;
    default:
        break;
    }
}

static void add_span(struct writer *w, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s,
                     uint32_t process)
{
    int64_t begin = trace_begin_ns(n, s);
    uint32_t thread = thread_of(n, s);
    bool overlaps = s->kind == GRADUS__V1__SPAN_KIND__SPAN_EXCHANGE ||
                    s->kind == GRADUS__V1__SPAN_KIND__SPAN_QUEUE;
    struct event *e = add(w, overlaps ? 'b' : 'X', begin, process, thread);
    e->length_ns = s->ns;
    e->name = names[s->kind];
    e->span = s;
    if (overlaps) {
        uint64_t id = e->id = ++w->last_id;
        struct event *end = add(w, 'e', trace_plus(begin, (int64_t)s->ns), process, thread);
        end->name = names[s->kind];
        end->id = id;
    }
    if (s->exchange != 0) {
        add_points(w, n, s, begin, process);
    }
}

static void add_spans(struct writer *w)
{
    struct trace_window shared;
    const struct trace_window window = trace_window(w->trace, &shared);
    for (size_t i = 0; i < w->trace->n_nodes; i++) {
        const Gradus__V1__NodeTrace *n = w->trace->nodes[i];
        for (size_t k = 0; n->trace != NULL && k < n->trace->n_spans; k++) {
            if (trace_is_shown(n, n->trace->spans[k], &window)) {
                add_span(w, n, n->trace->spans[k], (uint32_t)i + 1);
            }
        }
    }
}

/* ---- arrows ---- */

static int by_exchange(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    int order = strcmp(x->worker, y->worker);
    if (order == 0 && x->shard != y->shard) {
        order = x->shard < y->shard ? -1 : 1;
    }
    if (order == 0 && x->exchange != y->exchange) {
        order = x->exchange < y->exchange ? -1 : 1;
    }
    if (order == 0 && x->ns != y->ns) {
        order = x->ns < y->ns ? -1 : 1;
    }
    return order;
}

static bool same_exchange(const struct point *a, const struct point *b)
{
    return a->exchange == b->exchange && a->shard == b->shard && strcmp(a->worker, b->worker) == 0;
}

static void add_arrows(struct writer *w)
{
    if (w->point_count > 0) {
        qsort(w->points, w->point_count, sizeof *w->points, by_exchange);
    }
    for (size_t i = 0, end; i < w->point_count; i = end) {
        bool sent = w->points[i].sent;
        for (end = i + 1; end < w->point_count; end++) {
            if (!same_exchange(&w->points[i], &w->points[end])) {
                break;
            }
            sent |= w->points[end].sent;
        }
        if (!sent || end - i < 2) {
            continue;
        }
        uint64_t id = ++w->last_id;
        for (size_t k = i; k < end; k++) {
            const struct point *p = &w->points[k];
            char phase = k == i ? 's' : k + 1 == end ? 'f' : 't';
            struct event *e = add(w, phase, p->ns, p->process, p->thread);
            e->name = "exchange";
            e->id = id;
        }
    }
}

/* ---- text ---- */

static void add_string(struct buf *out, const char *s)
{
    const size_t n = 4 * strlen(s) + 1; /* each byte as \xNN */
    char *shown = mem_new(n, 1);
    text_utf8(s, shown, n);
    json_add_string(out, shown);
    free(shown);
}

static void next(struct writer *w)
{
    buf_add_str(w->out, w->comma ? ",\n" : "\n");
    w->comma = true;
}

static void add_name(struct writer *w, const char *what, uint32_t process, uint32_t thread,
                     const char *name)
{
    next(w);
    buf_printf(w->out,
               "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32
               ",\"args\":{\"name\":",
               what, process, thread);
    add_string(w->out, name);
    buf_add_str(w->out, "}}");
}

static void name_threads(struct writer *w, const Gradus__V1__NodeTrace *n, uint32_t process)
{
    bool worker = trace_is_worker(n);
    uint32_t *seen = NULL;
    size_t seen_count = 0, capacity = 0;
    for (size_t i = 0; i < n->trace->n_spans; i++) {
        const Gradus__V1__Span *s = n->trace->spans[i];
        uint32_t thread = thread_of(n, s);
        size_t k = 0;
        while (k < seen_count && seen[k] != thread) {
            k++;
        }
        if (k < seen_count || !is_known(s)) {
            continue;
        }
        seen = mem_grow(seen, &capacity, seen_count + 1, sizeof *seen);
        seen[seen_count++] = thread;
        bool connection = worker ? thread != JOB_THREAD : (thread - 1) % SHARD_THREADS != 0;
        char *name = worker && !connection ? mem_strdup("job")
                     : worker              ? mem_printf("answers of shard %" PRIu32, s->shard)
                     : connection
                         ? mem_printf("shard %" PRIu32 " from %s", s->shard, trace_sender(n, s))
                         : mem_printf("shard %" PRIu32, s->shard);
        add_name(w, "thread_name", process, thread, name);
        free(name);
    }
    free(seen);
}

static void name_nodes(struct writer *w)
{
    for (size_t i = 0; i < w->trace->n_nodes; i++) {
        const Gradus__V1__NodeTrace *n = w->trace->nodes[i];
        if (n->trace == NULL) {
            continue;
        }
        add_name(w, "process_name", (uint32_t)i + 1, 0, n->node);
        name_threads(w, n, (uint32_t)i + 1);
    }
}

static void add_number(struct buf *out, const char *key, uint64_t value, bool *comma)
{
    buf_printf(out, "%s\"%s\":%" PRIu64, *comma ? "," : "", key, value);
    *comma = true;
}

static void add_args(struct buf *out, const Gradus__V1__Span *s)
{
    bool comma = false;
    buf_add_str(out, ",\"args\":{");
    if (s->step != 0 || s->kind == GRADUS__V1__SPAN_KIND__SPAN_STEP) {
        bool version = s->kind == GRADUS__V1__SPAN_KIND__SPAN_APPLY ||
                       s->kind == GRADUS__V1__SPAN_KIND__SPAN_EXCHANGE ||
                       s->kind == GRADUS__V1__SPAN_KIND__SPAN_WAIT;
        add_number(out, version ? "version" : "step", s->step, &comma);
    }
    if (s->exchange != 0) {
        add_number(out, "shard", s->shard, &comma);
        add_number(out, "exchange", s->exchange, &comma);
    }
    if (s->bytes != 0) {
        add_number(out, "bytes", s->bytes, &comma);
    }
    if (s->waited_ns != 0 || s->applied_ns != 0) {
        add_number(out, "waited_us", s->waited_ns / 1000, &comma);
        add_number(out, "applied_us", s->applied_ns / 1000, &comma);
    }
    buf_add_char(out, '}');
}

static void add_us(struct buf *out, const char *key, uint64_t ns)
{
    buf_printf(out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void add_event(struct writer *w, const struct event *e, int64_t first_ns)
{
    struct buf *out = w->out;
    next(w);
    buf_printf(out, "{\"ph\":\"%c\",\"name\":\"%s", e->phase, e->name);
    if (e->span != NULL && e->span->kind == GRADUS__V1__SPAN_KIND__SPAN_STEP) {
        buf_printf(out, " %" PRIu64, e->span->step);
    }
    buf_printf(out, "\",\"cat\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32,
               strchr("stf", e->phase) != NULL ? "arrow" : "gradus", e->process, e->thread);
    add_us(out, "ts", (uint64_t)e->ns - (uint64_t)first_ns);
    if (e->phase == 'X') {
        add_us(out, "dur", e->length_ns);
    } else {
        buf_printf(out, ",\"id\":%" PRIu64, e->id);
    }
    if (e->phase == 'f') {
        buf_add_str(out, ",\"bp\":\"e\"");
    }
    if (e->span != NULL) {
        add_args(out, e->span);
    }
    buf_add_char(out, '}');
}

/* By time; of spans that begin together the longer one is the outer one. */
static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->ns != y->ns) {
        return x->ns < y->ns ? -1 : 1;
    }
    if (x->length_ns != y->length_ns) {
        return x->length_ns > y->length_ns ? -1 : 1;
    }
    return x->order < y->order ? -1 : 1;
}

static void add_about(struct writer *w)
{
    const Gradus__V1__TraceJobResponse *t = w->trace;
    buf_add_str(w->out, "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"job\":");
    add_string(w->out, t->job);
    buf_printf(w->out, ",\"time_ms\":%" PRId64 ",\"nodes\":[", t->wall_ms);
    for (size_t i = 0; i < t->n_nodes; i++) {
        const Gradus__V1__NodeTrace *n = t->nodes[i];
        buf_add_str(w->out, i == 0 ? "\n{\"node\":" : ",\n{\"node\":");
        add_string(w->out, n->node);
        buf_printf(w->out, ",\"role\":\"%s\",\"host\":", wire_role_name(n->role));
        add_string(w->out, n->host);
        buf_printf(w->out,
                   ",\"process\":%" PRIu64 ",\"clock_error_us\":%" PRIu64 ",\"steps\":%" PRIu32
                   ",\"lost\":%" PRIu64 ",\"problem\":",
                   n->pid, n->offset_error_ns / 1000, n->trace == NULL ? 0 : n->trace->steps,
                   n->trace == NULL ? 0 : n->trace->lost);
        add_string(w->out, n->problem);
        buf_add_char(w->out, '}');
    }
    buf_add_str(w->out, "]}}\n");
}

void trace_json(const Gradus__V1__TraceJobResponse *trace, struct buf *out)
{
    struct writer w = {.trace = trace, .out = out};
    add_spans(&w);
    add_arrows(&w);
    if (w.count > 0) {
        qsort(w.events, w.count, sizeof *w.events, by_time);
    }
    buf_add_str(out, "{\"traceEvents\":[");
    name_nodes(&w);
    for (size_t i = 0; i < w.count; i++) {
        add_event(&w, &w.events[i], w.events[0].ns);
    }
    add_about(&w);
    free(w.events);
    free(w.points);
}
