/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded trace for tests of what is shown of it. */
#ifndef GRADUS_TESTS_TRACE_RIG_H
#define GRADUS_TESTS_TRACE_RIG_H

#include "gradus/v1/jobs.pb-c.h"

#define SAMPLE_SPANS 12

/* A worker and a server whose clock is 1 s behind, and one exchange. */
struct trace_sample {
    Gradus__V1__TraceJobResponse response;
    Gradus__V1__NodeTrace nodes[3], *node_list[3];
    Gradus__V1__TraceResponse traces[2];
    Gradus__V1__Span spans[2][SAMPLE_SPANS], *lists[2][SAMPLE_SPANS];
    char job[16], ids[3][16], problem[32], *workers[1];
};

void trace_sample_init(struct trace_sample *s);
/* Appends a span to that of @node (0: the worker, 1: the server), by that node's clock; the sample
 * keeps it. */
Gradus__V1__Span *trace_sample_add(struct trace_sample *s, size_t node, Gradus__V1__SpanKind kind,
                                   uint64_t begin, uint64_t ns, uint64_t exchange);

#endif
