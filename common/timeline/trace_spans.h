/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of a recorded trace on the master's clock, for those who show them. */
#ifndef GRADUS_TIMELINE_TRACE_SPANS_H
#define GRADUS_TIMELINE_TRACE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "gradus/v1/jobs.pb-c.h"

struct trace_window {
    int64_t begin, end; /* ns; begin > end: no worker has a span */
};
/* From the beginning of the first step to the end of the last one, of all workers. Servers record
 * somewhat longer: what they do outside of all steps is not shown. @shared: the part of it in which
 * every worker recorded; all of it when there is none. */
struct trace_window trace_window(const Gradus__V1__TraceJobResponse *trace,
                                 struct trace_window *shared);

/* Sums of times as nodes tell them, which are not trusted to be small. */
int64_t trace_plus(int64_t ns, int64_t more);
int64_t trace_begin_ns(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s);
int64_t trace_end_ns(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s);

/* True for a span of a known kind that may lie inside of @window, as far as clocks are known. */
bool trace_is_shown(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s,
                    const struct trace_window *window);
/* The worker of a shard's span of an exchange: "worker-1"; "" when it is not known. Borrows. */
const char *trace_sender(const Gradus__V1__NodeTrace *n, const Gradus__V1__Span *s);
bool trace_is_worker(const Gradus__V1__NodeTrace *n);

#endif
