/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's part of `gradus trace`: the next steps of a job, recorded between two beginnings of a
 * step, and answered when the exchanges that were begun in between are answered.
 *
 * Owner: the job's thread, but for the recorder, to which connections add what they receive. */
#ifndef GRADUS_WORKER_JOB_WORKER_JOB_TRACE_H
#define GRADUS_WORKER_JOB_WORKER_JOB_TRACE_H

#include "gradus/v1/trace.pb-c.h"
#include "ps_client/ps_client.h"
#include "rpc/rpc.h"
#include "execution/loop.h"
#include "trace/recording.h"
#include "trace/trace.h"
#include "worker/core/worker.h"
#include "worker/job/step_clock.h"

struct worker_job;

struct worker_job_trace {
    struct recording recording; /* decides what is recorded in: */
    struct trace recorder;
    struct rpc_call *call; /* NULL: nobody asks */
    size_t spans_max;
    uint64_t begin_ns;            /* of the first step */
    uint64_t step, step_begin_ns; /* the running one */
    struct loop_timer timer;
};

/* TraceRequest.RECORD: keeps @call, or answers it with an error. */
void worker_job_trace_begin(struct worker_job *j, struct rpc_call *call,
                            const Gradus__V1__TraceRequest *request);
/* TraceRequest.TAKE: answers both calls, in whatever order they come. */
void worker_job_trace_stop(struct worker_job *j, struct rpc_call *call,
                           const Gradus__V1__TraceRequest *request);
/* A computation of @step begins. */
void worker_job_trace_step(struct worker_job *j, uint64_t step, uint64_t now_ns);
/* An exchange is begun to be sent, and is. */
void worker_job_trace_sending(struct worker_job *j, uint64_t exchange);
void worker_job_trace_sent(struct worker_job *j, const struct worker_request *r, uint64_t begin_ns,
                           uint64_t end_ns);
/* The thread has an answer, for which it waited from @begin_ns on. */
void worker_job_trace_answered(struct worker_job *j, const struct ps_answer *a,
                               const struct step_exchange *x, uint64_t begin_ns);
/* step_clock_busy() of the job's clock, and the same as spans. */
void worker_job_busy(struct worker_job *j, enum step_part part, enum trace_kind kind,
                     uint64_t begin_ns, uint64_t end_ns);
/* Ends the recording; a caller that waits gets what there is. */
void worker_job_trace_end(struct worker_job *j);

#endif
