/* SPDX-License-Identifier: Apache-2.0 */
/* One job on a worker: its thread, its data and model, and the shell around the core (worker.h).
 *
 * The thread loads, computes and takes all decisions; RPC threads only post to its loop. Functions
 * here may be called by one thread (the node's) unless said otherwise. */
#ifndef GRADUS_WORKER_JOB_WORKER_JOB_H
#define GRADUS_WORKER_JOB_WORKER_JOB_H

#include "job/progress/step_times.h"
#include "metrics/meter.h"
#include "rpc/rpc.h"
#include "service/membership.h"
#include "service/work.h"

struct worker_arrays;
struct worker_job;
struct worker_program;

/* Meters that all jobs of this process share. */
struct worker_meters {
    struct meter *batches, *examples, *evaluations, *exchanges_failed, *given_up;
    struct meter *bad_records; /* of data that were read, not of data that were still in memory */
    struct meter *steps, *step_seconds[STEP_PART_COUNT];
};
/* worker_meters.c */
void worker_meters_init(struct worker_meters *m, struct meter_registry *r);

/* What heartbeats tell of the job; any thread reads. */
struct worker_tells {
    struct work work;        /* of the job's thread */
    struct work fills;       /* StartJob, while servers take what the job brings */
    struct work evaluations; /* evaluations that were asked for, and may wait for a server */
    atomic_uint_fast64_t generation; /* of the newest assignment that was taken; 0: none */
};

struct worker_job_options {
    const char *id;
    const char *text;                   /* the canonical job file */
    struct membership *membership;      /* borrows */
    const struct worker_meters *meters; /* borrows */
    struct worker_tells *tells;         /* borrows */
    struct dataset_cache *data;         /* borrows */
    size_t message_bytes_max;
    const struct rpc_credentials *credentials; /* as in ps_client_options */
    const uint8_t *secret;          /* of the job, from the master; FENCE_SECRET_BYTES; copied */
    const char *local_sockets;      /* the same */
    bool shared_memory;             /* likewise */
    struct rpc_polling *polling;    /* likewise */
    struct worker_program *program; /* borrows; NULL: this worker has none */
    struct worker_arrays *arrays;   /* borrows */
    double slow_down;               /* every computation takes so many times as long; 1: off */
};

/* Start the job's thread. Errors: ERR_EXHAUSTED. */
int worker_job_new(const struct worker_job_options *options, struct worker_job **out,
                   struct err *err);
const char *worker_job_id(const struct worker_job *j);
/* Calls are answered by the job's thread. @msg is of the method's request type; both are
 * referenced. */
void worker_job_inspect(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg);
void worker_job_start(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg);
void worker_job_assign(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg);
void worker_job_evaluate(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg);
/* TraceRequest.RECORD. */
void worker_job_trace(struct worker_job *j, struct rpc_call *call, struct rpc_msg *msg);
/* Finish what is in hand, have its pushes answered, give leases back, take nothing new; then call
 * @drained(@ctx), on the job's thread and once, unless the job is freed before. It may take as long
 * as the slowest of the job's other workers, so the caller limits it. Errors: ERR_STATE: over. */
int worker_job_drain(struct worker_job *j, void (*drained)(void *ctx), void *ctx, struct err *err);
/* Finish the computation in hand, answer what is open with ERR_CANCELLED, end the thread, free. */
void worker_job_free(struct worker_job *j);

#endif
