/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_rig.h"

Gradus__V1__Span *trace_sample_add(struct trace_sample *s, size_t node, Gradus__V1__SpanKind kind,
                                   uint64_t begin, uint64_t ns, uint64_t exchange)
{
    Gradus__V1__TraceResponse *t = &s->traces[node];
    Gradus__V1__Span *span = &s->spans[node][t->n_spans];
    gradus__v1__span__init(span);
    span->kind = kind;
    span->begin_ns = begin;
    span->ns = ns;
    span->exchange = exchange;
    span->worker = node == 1 && exchange != 0 ? 1 : 0;
    span->applied_ns = kind == GRADUS__V1__SPAN_KIND__SPAN_QUEUE ? 300 : 0;
    s->lists[node][t->n_spans++] = span;
    return span;
}

void trace_sample_init(struct trace_sample *s)
{
    *s = (struct trace_sample){
        .job = "a-1", .ids = {"w-1", "p-1", "p\"2"}, .problem = "gone\nfor good"};
    gradus__v1__trace_job_response__init(&s->response);
    s->response.job = s->job;
    s->response.nodes = s->node_list;
    s->response.n_nodes = 3;
    s->workers[0] = s->ids[0];
    for (size_t i = 0; i < 3; i++) {
        s->node_list[i] = &s->nodes[i];
        gradus__v1__node_trace__init(&s->nodes[i]);
        s->nodes[i].node = s->ids[i];
        s->nodes[i].role = i == 0 ? GRADUS__V1__NODE_ROLE__WORKER : GRADUS__V1__NODE_ROLE__PS;
    }
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__trace_response__init(&s->traces[i]);
        s->traces[i].spans = s->lists[i];
        s->nodes[i].trace = &s->traces[i];
    }
    s->traces[1].workers = s->workers;
    s->traces[1].n_workers = 1;
    s->nodes[1].offset_ns = 1000000000;
    s->nodes[2].problem = s->problem;
    const uint64_t t = 5000000000;
    (void)trace_sample_add(s, 0, GRADUS__V1__SPAN_KIND__SPAN_COMPUTE, t, 1500, 0);
    (void)trace_sample_add(s, 0, GRADUS__V1__SPAN_KIND__SPAN_STEP, t, 9000,
                           0); /* added when it is over */
    (void)trace_sample_add(s, 0, GRADUS__V1__SPAN_KIND__SPAN_SEND, t + 2000, 100, 7);
    (void)trace_sample_add(s, 0, GRADUS__V1__SPAN_KIND__SPAN_RECEIVE, t + 6000, 100, 7);
    (void)trace_sample_add(s, 0, GRADUS__V1__SPAN_KIND__SPAN_EXCHANGE, t + 2000, 4500, 7);
    (void)trace_sample_add(s, 0, (Gradus__V1__SpanKind)99, t, 100, 7); /* of a newer program */
    const uint64_t p = 4000000000;
    (void)trace_sample_add(s, 1, GRADUS__V1__SPAN_KIND__SPAN_CHUNK, p + 3000, 100, 7);
    (void)trace_sample_add(s, 1, GRADUS__V1__SPAN_KIND__SPAN_QUEUE, p + 3100, 400, 7);
    (void)trace_sample_add(s, 1, GRADUS__V1__SPAN_KIND__SPAN_APPLY, p + 3500, 300, 0);
    (void)trace_sample_add(s, 1, GRADUS__V1__SPAN_KIND__SPAN_ANSWER, p + 3900, 50, 7);
    (void)trace_sample_add(s, 1, GRADUS__V1__SPAN_KIND__SPAN_APPLY, p - 500, 300,
                           0); /* before the step */
    (void)trace_sample_add(s, 1, GRADUS__V1__SPAN_KIND__SPAN_APPLY, p + 9001, 300,
                           0); /* behind it */
}
