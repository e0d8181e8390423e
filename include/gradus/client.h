/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a Gradus cluster for programs: the C interface of libgradus-client.so.1, version 1.
 *
 *     struct gradus_client *client;
 *     char job[GRADUS_JOB_ID_BYTES];
 *     gradus_client_open(NULL, &client);
 *     gradus_client_submit(client, &(struct gradus_submission){.size = sizeof(struct
 * gradus_submission), .text = text}, job); gradus_client_watch(client, job, show, NULL);
 *     gradus_client_close(client);
 *
 * Functions return GRADUS_CLIENT_OK or one of the other codes, all of them negative, and then
 * gradus_client_error() has a sentence. They wait for the master's answer. One client is for one
 * thread at a time; a process may have several. Strings are UTF-8. Structs that the caller fills
 * begin with their size, and those that the library fills with theirs, so that fields can be added
 * at their ends; what is said here stays as it is as long as GRADUS_CLIENT_ABI is 1.
 *
 * A process that has no memory left for small things ends with a message. fork() while a client is
 * open is for exec() alone. */
#ifndef GRADUS_CLIENT_H
#define GRADUS_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRADUS_CLIENT_ABI 1
#define GRADUS_JOB_ID_BYTES 192 /* with the 0 at the end */

enum gradus_client_status {
    GRADUS_CLIENT_OK = 0,
    GRADUS_CLIENT_INVALID = -1,     /* arguments, addresses, certificates, or the job file */
    GRADUS_CLIENT_UNREACHABLE = -2, /* no master answers there */
    GRADUS_CLIENT_NOT_FOUND = -3,   /* no such job, or it has no checkpoint yet */
    GRADUS_CLIENT_DENIED = -4,      /* this client may not do it, or nobody knows who it is */
    GRADUS_CLIENT_STATE = -5,       /* not with a job in this state */
    GRADUS_CLIENT_FAILED = -6,  /* the master, or who keeps the checkpoint, says that it cannot */
    GRADUS_CLIENT_STOPPED = -7, /* a callback returned something else than 0 */
};

enum gradus_job_state { /* as in the protocol */
                        GRADUS_JOB_UNKNOWN = 0,
                        GRADUS_JOB_PENDING = 1,
                        GRADUS_JOB_STARTING = 2,
                        GRADUS_JOB_RUNNING = 3,
                        GRADUS_JOB_RECOVERING = 4,
                        GRADUS_JOB_SUCCEEDED = 5,
                        GRADUS_JOB_FAILED = 6,
                        GRADUS_JOB_CANCELLED = 7,
                        GRADUS_JOB_PAUSED = 8,
};

struct gradus_client;

/* What is NULL or 0 is taken from the environment, as the command `gradus` does: GRADUS_MASTER,
 * GRADUS_TLS_CERT, GRADUS_TLS_KEY, GRADUS_TLS_CA, GRADUS_TLS_NAME, GRADUS_TOKEN_FILE,
 * GRADUS_TOKEN. */
struct gradus_client_options {
    size_t size;          /* sizeof(struct gradus_client_options) */
    const char *master;   /* "host:port"; nowhere named: 127.0.0.1:7000 */
    const char *tls_cert; /* files in PEM form; with the CA: TLS */
    const char *tls_key;
    const char *tls_ca;
    const char *tls_name;   /* that the master's certificate has; NULL: the host of its address */
    const char *token_file; /* a bearer token that goes with each call */
    const char *token;
    uint32_t timeout_ms; /* of one call, with the time to connect; 0: 5000 */
};

/* @options NULL: all from the environment. Connects with the first call. Errors: INVALID; @out is
 * NULL then, and gradus_client_error(NULL) says why. */
int gradus_client_open(const struct gradus_client_options *options, struct gradus_client **out);
void gradus_client_close(struct gradus_client *c); /* NULL is fine */
/* What the last function of @c that failed had to say; NULL: the last gradus_client_open() of this
 * thread. Good until the next call. */
const char *gradus_client_error(const struct gradus_client *c);
uint32_t gradus_client_abi(void);

/* ---- jobs ---- */

struct gradus_submission {
    size_t size;             /* sizeof(struct gradus_submission) */
    const char *text;        /* the job file, YAML; paths in it are those of the workers */
    const char *name;        /* of the file, for messages; NULL: "job.yaml" */
    const char *const *sets; /* [set_count] "training.epochs=3", applied in order */
    size_t set_count;
    const char *request_id; /* the master makes one job of all submissions with the same; NULL: none
                               that is known, so a submission that is repeated is another job */
};

/* @job gets the id. Errors: INVALID has every error of the file, one per line, as
 * file:line:column. */
int gradus_client_submit(struct gradus_client *c, const struct gradus_submission *submission,
                         char job[GRADUS_JOB_ID_BYTES]);

struct gradus_metric {
    const char *name; /* "loss", "accuracy", ... */
    double value;
};

/* Good until the next call with the client it came from, or the end of the callback. */
struct gradus_job_status {
    size_t size; /* of what the library knows */
    const char *id, *name, *owner;
    int state;                   /* enum gradus_job_state */
    const char *state_name;      /* "RUNNING" */
    const char *reason;          /* why it waits, failed or was cancelled; "" */
    const char *activity;        /* what it has waited for for seconds; "" */
    const char *checkpoint;      /* where the newest complete one is; "": there is none */
    uint64_t steps, steps_total; /* global steps (sync), else batches */
    double epochs, epochs_total; /* of the data, applied */
    uint64_t examples;           /* applied */
    uint64_t recoveries;         /* how often it went back to a checkpoint */
    double examples_per_second, seconds, eta_seconds; /* eta 0: not known */
    int64_t submitted_ms, started_ms, finished_ms;    /* Unix time; 0: not yet */
    const struct gradus_metric *train; /* [train_count] of the epoch in progress, or the last one */
    size_t train_count;
    const struct gradus_metric *test; /* [test_count] of the last evaluation */
    size_t test_count;
};

/* Errors: NOT_FOUND. */
int gradus_client_job(struct gradus_client *c, const char *job, struct gradus_job_status *out);

typedef int gradus_job_fn(void *ctx, const struct gradus_job_status *job); /* not 0: no more */

/* @each of the newest @limit jobs (0: 100), the newest first; @owner NULL: of everybody. Errors:
 * STOPPED. */
int gradus_client_list(struct gradus_client *c, const char *owner, uint32_t limit,
                       gradus_job_fn *each, void *ctx);
/* @each (may be NULL) with the job as it is now and whenever something has changed, the last time
 * with its end; returns then, or with STOPPED. A master that cannot be reached is asked again, for
 * as long as the client's time-out. */
int gradus_client_watch(struct gradus_client *c, const char *job, gradus_job_fn *each, void *ctx);

/* At its next step, with a checkpoint; @now not 0: at once, without. A job that has ended stays as
 * it is. */
int gradus_client_cancel(struct gradus_client *c, const char *job, int now);
/* Errors: STATE it has ended. */
int gradus_client_pause(struct gradus_client *c, const char *job);
/* A job that is paused, or has ended, goes on from its newest checkpoint, or begins again when it
 * never had one; returns when that is stored. One that runs stays as it is. Errors: STATE it has
 * SUCCEEDED and its file has no more for it, its checkpoints are gone, or the master has put it
 * away. */
int gradus_client_resume(struct gradus_client *c, const char *job);
/* The same, and @sets change its file at that moment, as with gradus_client_set():
 * "training.epochs=20" lets a job that has SUCCEEDED train on. Errors: those of both; STATE it runs
 * or waits. */
int gradus_client_resume_set(struct gradus_client *c, const char *job, const char *const *sets,
                             size_t set_count);
/* "training.mode=async", "cluster.workers=2..8", "priority=5". Returns when the change is in force.
 * Errors: INVALID names every key that cannot be changed. */
int gradus_client_set(struct gradus_client *c, const char *job, const char *const *sets,
                      size_t set_count);

/* ---- values ---- */

struct gradus_values {
    size_t size;      /* of what the library knows */
    const char *name; /* "dense_1.kernel" */
    const uint64_t *dims;
    size_t rank;
    const float *values; /* [product of dims], row-major */
    uint64_t count;
    uint64_t step; /* of the checkpoint */
};

typedef int gradus_values_fn(void *ctx, const struct gradus_values *variable); /* not 0: no more */

/* @each of the variables of the job's newest checkpoint, one at a time in memory. The checkpoint
 * has to be seen from here: a directory that the cluster shares with this host, or an object store
 * whose credentials are in the environment. Rows of tables are not among them (`gradus export` has
 * them). Errors: NOT_FOUND there is none yet, or not here; FAILED; STOPPED. */
int gradus_client_values(struct gradus_client *c, const char *job, gradus_values_fn *each,
                         void *ctx);

#ifdef __cplusplus
}
#endif

#endif
