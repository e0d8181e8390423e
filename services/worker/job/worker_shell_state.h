/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker's shell share; nobody else includes it. */
#ifndef GRADUS_WORKER_JOB_WORKER_SHELL_STATE_H
#define GRADUS_WORKER_JOB_WORKER_SHELL_STATE_H

#include <pthread.h>

#include "data/dataset_cache.h"
#include "execution/loop.h"
#include "wire/wire.h"
#include "worker/core/worker.h"
#include "worker/job/worker_arrays.h"
#include "worker/job/worker_job.h"
#include "worker/job/worker_shell.h"

/* Owner: the node's loop, on a thread of its own; calls and membership events are posted to it. */
struct worker_shell {
    struct service_context *sc;
    struct membership *membership; /* NULL until the server serves */
    struct pulse *membership_pulse;
    struct worker_meters meters;
    struct loop *loop;
    struct worker_job *job;         /* NULL: none */
    struct data_roots roots;        /* where data files may lie */
    struct dataset_cache *data;     /* of the present job, or of the job before */
    struct worker_program *program; /* NULL: there is none */
    struct worker_arrays *arrays;   /* of the present job, or of the job before */
    struct loop_timer forget;       /* then those are freed that nobody has taken */
    struct worker_held held;        /* of the present job */
    struct worker_starts starts;
    bool draining;
    struct worker_tells tells; /* of the present job, or of the job that is being dropped */
    pthread_mutex_t mutex;     /* guards what follows */
    char job_id[WIRE_ID_BYTES_MAX + 1];  /* for the heartbeat */
    uint64_t job_start;                  /* the start of that job, for the heartbeat */
    char work_id[WIRE_ID_BYTES_MAX + 1]; /* the job whose work the heartbeat names: its thread may
                                            be busy for a while after job_id was cleared */
    bool drained;
    pthread_cond_t drained_cond;
};

/* Sets the job; on the node's loop. NULL: none. */
void worker_shell_set_job(struct worker_shell *w, struct worker_job *job); /* NULL: none */
void worker_shell_set_start(struct worker_shell *w, uint64_t start);       /* of the job */
/* Stop and free the job, if there is one. */
void worker_shell_drop_job(struct worker_shell *w, const char *why);

/* worker_shell_calls.c: the service of worker.proto; its context is the shell. */
extern const struct rpc_method worker_shell_methods[];
extern const size_t worker_shell_method_count;

#endif
