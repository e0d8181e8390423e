/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded trace as the answer to the client that asked for it, with this process's clock and
 * boot id: by these the client lays the spans of several processes on one time axis. */
#include <stdlib.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "wire/wire.h"

_Static_assert((int)TRACE_STEP == (int)GRADUS__V1__SPAN_KIND__SPAN_STEP &&
                   (int)TRACE_WAIT == (int)GRADUS__V1__SPAN_KIND__SPAN_WAIT &&
                   (int)TRACE_RECEIVE == (int)GRADUS__V1__SPAN_KIND__SPAN_RECEIVE &&
                   (int)TRACE_CHUNK == (int)GRADUS__V1__SPAN_KIND__SPAN_CHUNK &&
                   (int)TRACE_ANSWER == (int)GRADUS__V1__SPAN_KIND__SPAN_ANSWER,
               "trace.h and trace.proto number the kinds of spans alike");

static void fill_span(const struct trace_span *from, Gradus__V1__Span *to)
{
    gradus__v1__span__init(to);
    to->kind = (Gradus__V1__SpanKind)from->kind;
    to->begin_ns = from->begin_ns;
    to->ns = from->end_ns > from->begin_ns ? from->end_ns - from->begin_ns : 0;
    to->shard = from->shard;
    to->exchange = from->exchange;
    to->worker = from->worker;
    to->step = from->step;
    to->bytes = from->bytes;
    to->waited_ns = from->waited_ns;
    to->applied_ns = from->applied_ns;
    to->push = from->push;
    to->base_version = from->base;
    to->made_version = from->made;
    to->spare = from->spare;
}

void wire_trace_to_proto(struct trace_spans *spans, struct wire_trace *out)
{
    *out = (struct wire_trace){.items = NULL};
    Gradus__V1__TraceResponse *r = &out->response;
    gradus__v1__trace_response__init(r);
    trace_boot(out->boot);
    r->boot = out->boot;
    if (spans != NULL && spans->count + spans->worker_count > 0) {
        out->items = mem_new(spans->count + 1, sizeof *out->items);
        out->list = mem_new(spans->count + 1, sizeof(Gradus__V1__Span *));
        for (size_t i = 0; i < spans->count; i++) {
            fill_span(&spans->items[i], &out->items[i]);
            out->list[i] = &out->items[i];
        }
        for (size_t i = 0; i < spans->worker_count; i++) {
            out->workers[i] = spans->workers[i];
        }
        r->spans = out->list;
        r->n_spans = spans->count;
        r->workers = out->workers;
        r->n_workers = spans->worker_count;
    }
    r->lost = spans == NULL ? 0 : spans->lost;
    r->clock_ns = chrono_now_ns();
}

void wire_trace_release(struct wire_trace *w)
{
    free(w->items);
    free(w->list);
    *w = (struct wire_trace){.items = NULL};
}
