/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a job's shell share; nobody else includes it. All of it is the job's thread's.
 */
#ifndef GRADUS_WORKER_JOB_WORKER_JOB_STATE_H
#define GRADUS_WORKER_JOB_WORKER_JOB_STATE_H

#include <pthread.h>

#include "execution/loop.h"
#include "gradus/v1/worker.pb-c.h"
#include "job/progress/fence.h"
#include "ps_client/ps_client.h"
#include "worker/core/worker_fill.h"
#include "worker/job/slow_down.h"
#include "worker/job/step_clock.h"
#include "worker/job/worker_job.h"
#include "worker/job/worker_job_sums.h"
#include "worker/job/worker_job_trace.h"
#include "worker/job/worker_model.h"

#define EPOCHS_MAX 8         /* epochs in one report, which is due after WORKER_REPORT_EPOCHS */
#define STALENESS_BUCKETS 24 /* 0, 1, 2, 3–4, 5–8, …: enough for every 64-bit lag we can meet */

_Static_assert(EPOCHS_MAX > WORKER_REPORT_EPOCHS, "a report that is due at once loses nothing");

struct epoch_sums {
    bool used;
    uint64_t epoch, batches;
    struct metrics sums;
};

/* Measurements: one that is added to, one that is being reported. */
struct measurements {
    struct epoch_sums epochs[EPOCHS_MAX];
    uint64_t staleness[STALENESS_BUCKETS];
    struct step_times times;
};

/* Through this, answers of the master find the job, which may be gone when they come. */
struct job_mail {
    pthread_mutex_t mutex; /* guards what follows, and the job's pointer to its client */
    struct loop *loop;     /* NULL: the job is gone */
    unsigned refs;
};

/* The pushes of a gradient that is being computed: they leave while it is made. */
struct job_push {
    const struct worker_request *requests;
    size_t count;
    size_t begun; /* pushes that were begun when the first part was made */
    bool making;  /* it was */
    struct runner_ready ready;
};

/* A computation; its parameters may still be on their way. */
struct job_compute {
    uint64_t since_ns; /* time before this is accounted for */
    bool loaded;       /* the time for its batch is accounted for */
    const float *values;
    struct runner_need need;
    struct err lost;      /* why the parameters do not come; code 0: they come */
    bool rows_lost;       /* it is rows of tables that do not come */
    bool rows_open;       /* rows were asked for, and not waited for yet */
    uint32_t buffer;      /* of its gradient */
    struct err exhausted; /* code: there was no memory for what came */
};

#define STARTS_KEPT 4 /* repetitions of one call: the master has given up those before the last */

/* StartJob while the shards get their initial values. */
struct job_fill {
    bool active;
    struct worker_fill core;
    uint64_t generation; /* generation of the last of the calls */
    /* of the last call: the fingerprint of the values that the first worker found; 0: not known */
    uint64_t from_fingerprint;
    struct loop_timer timer;
    struct rpc_call *calls[STARTS_KEPT];
    size_t call_count;
};

struct worker_job {
    char *id, *text;
    struct membership *membership;
    const struct worker_meters *meters;
    struct worker_tells *tells;
    struct dataset_cache *data; /* the shell's */
    size_t message_bytes_max;
    const struct rpc_credentials *credentials;
    uint8_t secret[FENCE_SECRET_BYTES];
    const char *local_sockets;
    bool shared_memory;
    struct rpc_polling *polling;
    struct loop *loop;
    struct loop_timer timer;
    bool loaded, built, started, failed;
    bool halted; /* the job failed here: what was still to be computed or sent is not */
    struct err load_err;
    struct worker_model model;
    struct plan plan;
    struct job_fill fill;
    struct worker_job_sums sums;
    struct ps_client *client; /* set once, under the mail's mutex: worker_job_free() looks */
    struct worker *core;
    struct worker_actions actions; /* actions of the running step */
    size_t at;                     /* the action that is carried out, by: */
    void (*execute)(struct worker_job *j, const struct worker_action *action);
    bool stepping;
    struct job_compute compute;
    int computed_code; /* code of the last computation, until the core hears of it */
    bool computed_rows_lost;
    struct job_push push;
    struct measurements measured, reporting;
    bool report_again; /* the report under way was sent before */
    struct step_clock clock;
    struct worker_job_trace trace;
    struct slow_down slow_down;
    /* Draining (worker_job_drain.c). */
    bool assigned;    /* the master gave this worker work */
    bool report_idle; /* the report under way says so, and nothing was begun since */
    bool idle;        /* the master knows */
    bool draining;
    void (*drained)(void *ctx); /* not called yet */
    void *drained_ctx;
    struct job_mail *mail;
    /* calls that wait for the core or for a computation */
    struct {
        uint64_t tag;
        struct rpc_call *call;
    } calls[WORKER_EVALUATIONS_MAX + 8];
    size_t calls_kept;
    uint64_t tag_last;
};

/* worker_job.c and worker_job_calls.c, then: */

/* worker_job_fill.c: around StartJob of a job whose initial values this worker brings. */
/* @call of @r is answered when all shards have theirs, or will not. */
void worker_job_fill_start(struct worker_job *j, struct rpc_call *call,
                           const Gradus__V1__StartJobRequest *r);
/* `filled` of the client; its context is the job. */
void worker_job_filled(void *ctx, const struct ps_client_filled *answer);
/* Answer what waits with @code (0: well), and bring no more. */
void worker_job_fill_end(struct worker_job *j, int code, const char *message);

/* worker_job_master.c: the actions that are calls to the master. */
void worker_job_lease(struct worker_job *j, const struct worker_do_lease *a);
void worker_job_report_split(struct worker_job *j, const struct worker_do_report_split *a);
void worker_job_report_progress(struct worker_job *j, const struct worker_do_report_progress *a);
void worker_job_report_failure(struct worker_job *j, const struct worker_do_fail_job *a);
void worker_job_measurements_clear(struct measurements *m);
void worker_job_mail_drop(struct job_mail *mail);

/* worker_job_compute.c */
void worker_job_compute(struct worker_job *j, const struct worker_do_compute *a);
/* The computation or evaluation is over; a code: it was given up, because of rows or not. */
void worker_job_tell_computed(struct worker_job *j, int code, bool rows_lost);
/* Asks for the rows that the model's batch needs, as @r says, and waits until all are there.
 * Errors: those of ps_client_rows_wait(). */
void worker_job_rows_begin(struct worker_job *j, const struct worker_request *r);
int worker_job_rows_wait(struct worker_job *j, struct err *err);
/* What the clock has measured, to the meters and the next report. */
void worker_job_count_times(struct worker_job *j);

/* worker_job_exchange.c */
/* Sends @r; the job fails when that cannot be. */
void worker_job_exchange(struct worker_job *j, const struct worker_request *r);
/* Called around the computation of @a. Returns whom to tell how much of its gradient is made; NULL:
 * nobody. */
const struct runner_ready *worker_job_push_begin(struct worker_job *j,
                                                 const struct worker_do_compute *a);
/* The gradient is complete: pushes what was not pushed along. */
void worker_job_push_end(struct worker_job *j);

/* worker_job_drain.c */
/* The master does not know yet that this worker leaves. True: @call is answered. */
bool worker_job_assign_while_draining(struct worker_job *j, struct rpc_call *call,
                                      uint64_t generation, bool hold);
/* Nothing is left that is worth waiting for; nothing happens when the job does not drain. */
void worker_job_drain_over(struct worker_job *j);

/* worker_job_core.c */
/* The job is ready to be assigned, in @generation. */
void worker_job_begin(struct worker_job *j, uint64_t generation);
/* Feed one event to the core and carry out what it says. An action may bring the next event at once
 * (a computation is over when it returns): its actions are appended behind those still to do. */
void worker_job_step(struct worker_job *j, struct worker_event *event);
/* The job fails here: the core says the rest. */
void worker_job_fail(struct worker_job *j, const struct err *err);
/* Keeps a call until the core says its answer; its tag goes into @tag. False: it was answered,
 * with an error. */
bool worker_job_keep_call(struct worker_job *j, struct rpc_call *call, uint64_t *tag);
/* Takes the call of @tag, with its reference; NULL when it is gone. */
struct rpc_call *worker_job_take_call(struct worker_job *j, uint64_t tag);
void worker_job_fail_call(struct rpc_call *call, int code, const char *message);

#endif
