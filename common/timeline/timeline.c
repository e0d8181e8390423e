/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "timeline/trace_spans.h"
#include "job/progress/exchange.h"
#include "trace/trace.h"

#define ARROWS_MAX 600

/* An exchange as its shard saw it. */
struct queued {
    const char *worker;
    uint32_t shard;
    uint64_t exchange;
    int64_t begin, end, applied_ns; /* end: where the update begins */
    const Gradus__V1__Span *span;
};

struct making {
    struct timeline *t;
    const Gradus__V1__TraceJobResponse *trace;
    struct trace_window window;
    struct queued *queued;
    size_t queued_count, queued_capacity;
};

static int64_t since(const struct making *m, int64_t ns)
{
    return trace_plus(ns, (int64_t)(0 - (uint64_t)m->window.begin));
}

/* ---- lanes ---- */

static size_t add_lane(struct timeline *t, size_t *capacity, const Gradus__V1__NodeTrace *n,
                       uint32_t shard)
{
    t->lanes = mem_grow(t->lanes, capacity, t->lane_count + 1, sizeof *t->lanes);
    t->lanes[t->lane_count] = (struct timeline_lane){
        .node = n->node, .problem = n->problem, .is_worker = trace_is_worker(n), .shard = shard};
    return t->lane_count++;
}

/* The lane of a worker, or of a shard of a server; lane_count: none. */
static size_t find_lane(const struct timeline *t, bool is_worker, const char *node, uint32_t shard)
{
    for (size_t i = 0; i < t->lane_count; i++) {
        const struct timeline_lane *l = &t->lanes[i];
        if (l->is_worker == is_worker &&
            (is_worker ? strcmp(l->node, node) == 0 : l->shard == shard && l->problem[0] == '\0')) {
            return i;
        }
    }
    return t->lane_count;
}

/* worker-2 before worker-10. */
static int by_name(const void *a, const void *b)
{
    const struct timeline_lane *x = a, *y = b;
    const size_t m = strlen(x->node), n = strlen(y->node);
    return m != n ? (m < n ? -1 : 1) : strcmp(x->node, y->node);
}

static int by_shard(const void *a, const void *b)
{
    const struct timeline_lane *x = a, *y = b;
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

/* A server has a lane for each of its shards that did something; one that is missing has one. */
static void add_shards(struct making *m, const Gradus__V1__NodeTrace *n, size_t *capacity)
{
    if (n->trace == NULL) {
        (void)add_lane(m->t, capacity, n, UINT32_MAX);
        return;
    }
    for (size_t k = 0; k < n->trace->n_spans; k++) {
        const Gradus__V1__Span *s = n->trace->spans[k];
        if (trace_is_shown(n, s, &m->window) &&
            find_lane(m->t, false, n->node, s->shard) == m->t->lane_count) {
            (void)add_lane(m->t, capacity, n, s->shard);
        }
    }
}

static void add_lanes(struct making *m)
{
    size_t capacity = 0;
    for (size_t i = 0; i < m->trace->n_nodes; i++) {
        if (trace_is_worker(m->trace->nodes[i])) {
            (void)add_lane(m->t, &capacity, m->trace->nodes[i], 0);
        }
    }
    m->t->worker_count = m->t->lane_count;
    if (m->t->lane_count > 0) {
        qsort(m->t->lanes, m->t->lane_count, sizeof *m->t->lanes, by_name);
    }
    for (size_t i = 0; i < m->trace->n_nodes; i++) {
        if (!trace_is_worker(m->trace->nodes[i])) {
            add_shards(m, m->trace->nodes[i], &capacity);
        }
    }
    if (m->t->lane_count > m->t->worker_count) {
        qsort(&m->t->lanes[m->t->worker_count], m->t->lane_count - m->t->worker_count,
              sizeof *m->t->lanes, by_shard);
    }
}

/* ---- boxes ---- */

/* What lies outside of the window is cut off. */
static void add_box(struct making *m, const struct timeline_box *box)
{
    struct timeline *t = m->t;
    struct timeline_box b = *box;
    b.begin = b.begin < 0 ? 0 : b.begin;
    b.end = b.end > t->length ? t->length : b.end;
    if (b.end <= b.begin) {
        return;
    }
    t->boxes = mem_grow(t->boxes, &t->box_capacity, t->box_count + 1, sizeof *t->boxes);
    t->boxes[t->box_count++] = b;
    t->lanes[b.lane].ns[b.part] += b.end - b.begin;
}

static int by_exchange(const void *a, const void *b)
{
    const struct queued *x = a, *y = b;
    int order = strcmp(x->worker, y->worker);
    if (order == 0 && x->shard != y->shard) {
        order = x->shard < y->shard ? -1 : 1;
    }
    if (order == 0 && x->exchange != y->exchange) {
        order = x->exchange < y->exchange ? -1 : 1;
    }
    return order;
}

static const struct queued *find_queued(const struct making *m, const char *worker, uint32_t shard,
                                        uint64_t exchange)
{
    const struct queued key = {.worker = worker, .shard = shard, .exchange = exchange};
    return m->queued_count == 0
               ? NULL
               : bsearch(&key, m->queued, m->queued_count, sizeof key, by_exchange);
}

/* The piece of @box between @begin and @end has @part; it begins where the last piece has ended. */
static void cut(struct making *m, struct timeline_box *box, enum timeline_part part, int64_t end)
{
    struct timeline_box piece = *box;
    piece.part = part;
    piece.end = end < box->end ? end : box->end;
    if (piece.end > piece.begin) {
        add_box(m, &piece);
        box->begin = piece.end;
    }
}

/* A wait for an answer: on the way, at the shard, while the shard applies, on the way back. */
static void add_wait(struct making *m, const struct timeline_box *box, const char *worker,
                     const Gradus__V1__Span *s)
{
    struct timeline_box rest = *box;
    const struct queued *q =
        s->exchange == 0 ? NULL : find_queued(m, worker, s->shard, s->exchange);
    if (q != NULL) {
        cut(m, &rest, TIMELINE_WIRE, q->begin);
        cut(m, &rest, TIMELINE_WAIT, q->end);
        cut(m, &rest, TIMELINE_APPLY, trace_plus(q->end, q->applied_ns));
    }
    cut(m, &rest, s->exchange == 0 ? TIMELINE_WAIT : TIMELINE_WIRE, rest.end);
}

static bool part_of(Gradus__V1__SpanKind kind, enum timeline_part *part)
{
    switch ((int)kind) {
    case TRACE_LOAD:
        *part = TIMELINE_LOAD;
        return true;
    case TRACE_COMPUTE:
    case TRACE_ADD:
        *part = TIMELINE_COMPUTE;
        return true;
    case TRACE_EVALUATE:
        *part = TIMELINE_EVALUATE;
        return true;
    case TRACE_SEND:
        *part = TIMELINE_WIRE;
        return true;
    case TRACE_WAIT:
        *part = TIMELINE_WAIT;
        return true;
    case TRACE_SUM:
        *part = TIMELINE_SUM;
        return true;
    case TRACE_APPLY:
        *part = TIMELINE_APPLY;
        return true;
    case TRACE_ANSWER:
        *part = TIMELINE_ANSWER;
        return true;
    default:
        return false;
    }
}

static void add_span(struct making *m, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    struct timeline_box box = {.lane = find_lane(m->t, trace_is_worker(n), n->node, s->shard),
                               .begin = since(m, trace_begin_ns(n, s)),
                               .end = since(m, trace_end_ns(n, s)),
                               .number = s->step};
    if (box.lane == m->t->lane_count || !part_of(s->kind, &box.part)) {
        return;
    }
    if (trace_is_worker(n) && box.part == TIMELINE_WAIT) {
        add_wait(m, &box, n->node, s);
    } else {
        add_box(m, &box);
    }
}

static int by_lane(const void *a, const void *b)
{
    const struct timeline_box *x = a, *y = b;
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return x->end > y->end ? -1 : x->end < y->end; /* the outer one first */
}

static void sort_boxes(struct timeline *t)
{
    if (t->box_count > 0) {
        qsort(t->boxes, t->box_count, sizeof *t->boxes, by_lane);
    }
}

/* A worker that does nothing waits, whether it told of it or not. */
static void fill_gaps(struct making *m)
{
    struct timeline *t = m->t;
    const size_t count = t->box_count;
    struct timeline_box gap = {.part = TIMELINE_WAIT, .lane = SIZE_MAX};
    for (size_t i = 0; i < count; i++) {
        const struct timeline_box next = t->boxes[i];
        if (next.lane != gap.lane) {
            gap.lane = next.lane;
            gap.begin = next.end;
            continue;
        }
        gap.end = next.begin;
        if (next.lane < t->worker_count) {
            add_box(m, &gap);
        }
        gap.begin = next.end > gap.begin ? next.end : gap.begin;
    }
    sort_boxes(t);
}

/* ---- pushes ---- */

static void add_queued(struct making *m, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    m->queued = mem_grow(m->queued, &m->queued_capacity, m->queued_count + 1, sizeof *m->queued);
    m->queued[m->queued_count++] = (struct queued){.worker = trace_sender(n, s),
                                                   .shard = s->shard,
                                                   .exchange = s->exchange,
                                                   .begin = since(m, trace_begin_ns(n, s)),
                                                   .end = since(m, trace_end_ns(n, s)),
                                                   .applied_ns = (int64_t)s->applied_ns,
                                                   .span = s};
}

static void add_push(struct making *m, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *sent)
{
    struct timeline *t = m->t;
    const struct queued *q = find_queued(m, n->node, sent->shard, sent->exchange);
    if (q == NULL || q->span->push == PUSH_NONE) {
        return;
    }
    const Gradus__V1__Span *s = q->span;
    bool applied = s->push == PUSH_ACCEPTED || s->push == PUSH_APPLIED;
    struct timeline_push p = {.worker = find_lane(t, true, n->node, 0),
                              .shard = find_lane(t, false, "", sent->shard),
                              .sent = since(m, trace_begin_ns(n, sent)),
                              .arrived = q->begin,
                              .begun = applied ? q->end : q->begin,
                              .base = s->base_version,
                              .made = s->made_version,
                              .fate = applied                     ? TIMELINE_APPLIED
                                      : s->push == PUSH_DUPLICATE ? TIMELINE_REPEATED
                                                                  : TIMELINE_DROPPED,
                              .spare = s->spare};
    const bool inside = p.begun >= 0 && p.sent <= t->length;
    if (inside && p.worker < t->lane_count && p.shard < t->lane_count) {
        t->pushes = mem_grow(t->pushes, &t->push_capacity, t->push_count + 1, sizeof *t->pushes);
        t->pushes[t->push_count++] = p;
    }
}

static int by_sent(const void *a, const void *b)
{
    const struct timeline_push *x = a, *y = b;
    if (x->sent != y->sent) {
        return x->sent < y->sent ? -1 : 1;
    }
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

static int by_version(const void *a, const void *b)
{
    const struct timeline_box *x = a, *y = b;
    if (x->lane != y->lane) {
        return x->lane < y->lane ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

/* A gradient that is applied at once may belong to a request that waits on for what it reads. */
static void find_updates(struct timeline *t)
{
    struct timeline_box *updates = mem_new(t->box_count + 1, sizeof *updates);
    size_t count = 0;
    for (size_t i = 0; i < t->box_count; i++) {
        if (t->boxes[i].lane >= t->worker_count && t->boxes[i].part == TIMELINE_APPLY) {
            updates[count++] = t->boxes[i];
        }
    }
    qsort(updates, count, sizeof *updates, by_version);
    for (size_t i = 0; i < t->push_count; i++) {
        struct timeline_push *p = &t->pushes[i];
        const struct timeline_box key = {.lane = p->shard, .number = p->made};
        const struct timeline_box *update =
            p->made == 0 ? NULL : bsearch(&key, updates, count, sizeof key, by_version);
        p->begun = update != NULL ? update->begin : p->begun;
    }
    free(updates);
}

uint64_t timeline_staleness(const struct timeline_push *p)
{
    return p->made > p->base ? p->made - p->base - 1 : 0;
}

const char *timeline_part_name(enum timeline_part part)
{
    static const char *const names[TIMELINE_PARTS] = {
        [TIMELINE_LOAD] = "load", [TIMELINE_COMPUTE] = "compute", [TIMELINE_EVALUATE] = "evaluate",
        [TIMELINE_WIRE] = "wire", [TIMELINE_WAIT] = "wait",       [TIMELINE_APPLY] = "apply",
        [TIMELINE_SUM] = "sum",   [TIMELINE_ANSWER] = "answer",
    };
    return names[part];
}

size_t timeline_join(const struct timeline *t, size_t i, int64_t narrow_ns,
                     struct timeline_box *out)
{
    *out = t->boxes[i++];
    while (i < t->box_count && t->boxes[i].lane == out->lane && t->boxes[i].part == out->part &&
           t->boxes[i].end - out->begin < narrow_ns) {
        out->end = t->boxes[i].end > out->end ? t->boxes[i].end : out->end;
        i++;
    }
    return i;
}

bool timeline_is_drawn(const struct timeline *t, const struct timeline_push *p)
{
    return t->push_count <= ARROWS_MAX || p->shard == t->worker_count;
}

/* ---- all of it ---- */

typedef void visit_fn(struct making *m, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s);

static void queue_visit(struct making *m, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    if (!trace_is_worker(n) && s->kind == GRADUS__V1__SPAN_KIND__SPAN_QUEUE) {
        add_queued(m, n, s);
    }
}

static void span_visit(struct making *m, const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    add_span(m, n, s);
    if (trace_is_worker(n) && s->kind == GRADUS__V1__SPAN_KIND__SPAN_SEND) {
        add_push(m, n, s);
    }
}

static void visit_all(struct making *m, visit_fn *visit)
{
    for (size_t i = 0; i < m->trace->n_nodes; i++) {
        const Gradus__V1__NodeTrace *n = m->trace->nodes[i];
        for (size_t k = 0; n->trace != NULL && k < n->trace->n_spans; k++) {
            if (trace_is_shown(n, n->trace->spans[k], &m->window)) {
                visit(m, n, n->trace->spans[k]);
            }
        }
    }
}

void timeline_init(struct timeline *t, const Gradus__V1__TraceJobResponse *trace,
                   int64_t length_max)
{
    *t = (struct timeline){.lanes = NULL};
    struct making m = {.t = t, .trace = trace};
    (void)trace_window(trace, &m.window);
    if (m.window.end > m.window.begin) {
        t->length = since(&m, m.window.end);
    }
    if (length_max > 0 && t->length > length_max) {
        t->length = length_max;
        m.window.end = trace_plus(m.window.begin, length_max);
    }
    add_lanes(&m);
    visit_all(&m, queue_visit);
    if (m.queued_count > 0) {
        qsort(m.queued, m.queued_count, sizeof *m.queued, by_exchange);
    }
    visit_all(&m, span_visit);
    sort_boxes(t);
    fill_gaps(&m);
    find_updates(t);
    if (t->push_count > 0) {
        qsort(t->pushes, t->push_count, sizeof *t->pushes, by_sent);
    }
    free(m.queued);
}

void timeline_release(struct timeline *t)
{
    free(t->lanes);
    free(t->boxes);
    free(t->pushes);
    *t = (struct timeline){.lanes = NULL};
}
