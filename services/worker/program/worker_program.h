/* SPDX-License-Identifier: Apache-2.0 */
/* The program of the user's that computes models which Gradus does not know
 * (include/gradus/worker.h): a child of the worker's, started when the worker starts and again when
 * it has ended.
 *
 * A program may fail, hang, end or say nonsense; none of that takes the worker along. What it was
 * asked for is asked again, of a new process where the old one is gone, and given up after a few
 * times. It has one job at a time.
 *
 * Owner: one thread at a time, the job's; worker_program_interrupt() is for any.
 *
 * Worker and program share a socket and memory (decision 57): parameters are read where the worker
 * put them, gradients are written where it pushes them from. So a program needs no gRPC and no
 * particular threads. A new process finds the same numbers in the same memory as the one that died.
 * Behind "take a batch, make its gradient" are layers or a program, and the core knows neither. The
 * variables are those that the first worker's program tells; every other program must tell the
 * same, to the bit. The job declares sparse tables, so that nobody but the job file says what they
 * may cost; the program says keys, those of the next batch after each gradient. A program that
 * fetched rows itself in the middle of a batch would make a reader wait, and nobody could say which
 * version the batch has read. */
#ifndef GRADUS_WORKER_PROGRAM_WORKER_PROGRAM_H
#define GRADUS_WORKER_PROGRAM_WORKER_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "program/program_message.h"
#include "tensor/init.h"

#define WORKER_PROGRAM_ATTEMPTS 3 /* at a job's model or one batch, before the job fails */

#define WORKER_PROGRAM_PLUGINS "compute" /* gradus-worker compute DIR */

struct worker_program;

/* The command line with which this executable computes with the plug-ins of @dir; owned. */
char *worker_program_plugins_command(const char *dir);
/* Start @command, a line for the shell. @answer_ms: a program that says nothing for so long is
 * ended; 0: it may take for ever. Errors: ERR_EXHAUSTED there can be no more processes. That the
 * command is wrong is seen when it is asked for something. */
int worker_program_new(const char *command, uint64_t answer_ms, struct worker_program **out,
                       struct err *err);
/* Wait until it reports for work, or @ending(@ctx). Errors: ERR_UNAVAILABLE it ended, or did not
 * for long; ERR_CANCELLED @ending. */
int worker_program_await(struct worker_program *p, bool (*ending)(void *ctx), void *ctx,
                         struct err *err);
/* End the program, at first by closing its socket. NULL is fine. */
void worker_program_free(struct worker_program *p);
/* What the owner waits for ends soon, with ERR_CANCELLED, until worker_program_describe(). */
void worker_program_interrupt(struct worker_program *p);

/* The model, as the program described it. */
struct worker_program_model {
    struct given_variables given;
    uint64_t *offsets;    /* [given.count] of each variable in an array, in floats */
    uint64_t floats;      /* of an array */
    const float *initial; /* [floats] */
    uint64_t train_records, test_records, fingerprint; /* of the program's own records */
};

struct worker_program_job {
    const char *id, *program, *text;    /* borrowed until worker_program_end() */
    const struct program_table *tables; /* [table_count] that the job declares, likewise */
    size_t table_count;
    uint64_t seed;
    uint32_t batch_records, evaluation_records;
};

/* The program learns of the job and tells its model, which stays until worker_program_end(). A job
 * before it is over. Errors: ERR_STATE what the program said was wrong, or it ended at each
 * attempt; ERR_UNAVAILABLE it does not report for work, and may when it is asked again. */
int worker_program_describe(struct worker_program *p, const struct worker_program_job *job,
                            const struct worker_program_model **out, struct err *err);
/* Batches follow, as @start says; @fields: names of its sparse fields, borrowed until
 * worker_program_end(). Errors: as before. */
int worker_program_begin(struct worker_program *p, const struct program_start *start,
                         const char (*fields)[PROGRAM_NAME_BYTES], struct err *err);
/* Memory of @bytes or more that the program shares, under a number below PROGRAM_ARRAYS_MAX that
 * work names: zeroed the first time and when it has grown, which makes it other memory; the
 * program's until worker_program_end(). Errors: ERR_EXHAUSTED. */
void *worker_program_array(struct worker_program *p, uint32_t number, uint64_t bytes,
                           struct err *err);
/* Have a batch computed; @kind: PROGRAM_GRADIENT or PROGRAM_EVALUATION. Errors: ERR_STATE what the
 * program said again and again; ERR_CANCELLED. */
int worker_program_compute(struct worker_program *p, enum program_kind kind,
                           const struct program_work *work, struct program_result *out,
                           struct err *err);
/* The keys that a batch looks up. */
struct worker_program_keys {
    const uint64_t
        *keys; /* of each table, one after the other; in memory that the program shares */
    const uint32_t *counts; /* [table_count] */
};
/* Ask for those of the batch that @work names, @attempts times at most. @out is borrowed until the
 * next call for this program. Errors: as before. */
int worker_program_keys(struct worker_program *p, const struct program_work *work,
                        unsigned attempts, struct worker_program_keys *out, struct err *err);
/* The job is over, if there was one: its arrays and its model go. */
void worker_program_end(struct worker_program *p);

#endif
