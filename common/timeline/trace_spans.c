/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline/trace_spans.h"

#include "trace/trace.h"

int64_t trace_plus(int64_t ns, int64_t more)
{
    return (int64_t)((uint64_t)ns + (uint64_t)more);
}

int64_t trace_begin_ns(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    return trace_plus((int64_t)s->begin_ns, n->offset_ns);
}

int64_t trace_end_ns(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    return trace_plus(trace_begin_ns(n, s), (int64_t)s->ns);
}

bool trace_is_worker(const Gradus__V1__NodeTrace *n)
{
    return n->role == GRADUS__V1__NODE_ROLE__WORKER;
}

static struct trace_window of_node(const Gradus__V1__NodeTrace *n)
{
    struct trace_window w = {INT64_MAX, INT64_MIN};
    for (size_t k = 0; k < n->trace->n_spans; k++) {
        int64_t begin = trace_begin_ns(n, n->trace->spans[k]);
        int64_t end = trace_end_ns(n, n->trace->spans[k]);
        w.begin = begin < w.begin ? begin : w.begin;
        w.end = end > w.end ? end : w.end;
    }
    return w;
}

struct trace_window trace_window(const Gradus__V1__TraceJobResponse *trace,
                                 struct trace_window *shared)
{
    struct trace_window all = {INT64_MAX, INT64_MIN};
    *shared = (struct trace_window){INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < trace->n_nodes; i++) {
        const Gradus__V1__NodeTrace *n = trace->nodes[i];
        if (n->trace == NULL || !trace_is_worker(n)) {
            continue;
        }
        struct trace_window w = of_node(n);
        if (w.begin <= w.end) {
            all.begin = w.begin < all.begin ? w.begin : all.begin;
            all.end = w.end > all.end ? w.end : all.end;
            shared->begin = w.begin > shared->begin ? w.begin : shared->begin;
            shared->end = w.end < shared->end ? w.end : shared->end;
        }
    }
    if (shared->begin >= shared->end || all.begin > all.end) {
        *shared = all;
    }
    return all;
}

bool trace_is_shown(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s,
                    const struct trace_window *window)
{
    const uint64_t error = n->offset_error_ns;
    return (int)s->kind >= TRACE_STEP && (int)s->kind <= TRACE_ANSWER &&
           trace_plus(trace_begin_ns(n, s), (int64_t)(0 - error)) <= window->end &&
           trace_plus(trace_end_ns(n, s), (int64_t)error) >= window->begin;
}

const char *trace_sender(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s)
{
    const Gradus__V1__TraceResponse *t = n->trace;
    return s->worker > 0 && s->worker <= t->n_workers ? t->workers[s->worker - 1] : "";
}
