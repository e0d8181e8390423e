/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a worker's program share; nobody else includes it. */
#ifndef GRADUS_WORKER_PROGRAM_WORKER_PROGRAM_STATE_H
#define GRADUS_WORKER_PROGRAM_WORKER_PROGRAM_STATE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "program/channel.h"
#include "worker/program/program_output.h"
#include "worker/program/worker_program.h"

struct program_shared {
    struct program_memory memory;
    bool told; /* this process of the program was told of it */
};

/* What a process of the program described. */
struct program_described {
    struct program_memory memory;
    struct variable_spec *variables;
    struct worker_program_model model;
};

struct worker_program {
    char *command;
    uint64_t answer_ms;
    pid_t pid;  /* 0: there is none */
    int socket; /* -1: likewise */
    struct program_spin spin;
    struct program_output output;
    bool greeted; /* it said HELLO */
    char name[PROGRAM_NAME_BYTES];
    uint64_t number; /* of the last question */
    uint64_t started_ms;
    unsigned starts; /* starts in a row without an answer between them */
    atomic_bool interrupted;
    bool (*ending)(void *ctx); /* asked while it waits for HELLO; NULL: it waits on */
    void *ending_ctx;

    /* The job, and how far this process of the program knows it. */
    bool has_job, described, begun, start_known;
    bool busy; /* it works on a question whose answer nobody wants any more */
    struct worker_program_job job;
    struct program_start start;
    const char (*fields)[PROGRAM_NAME_BYTES];
    bool has_model;
    struct program_described told; /* by the first process; others must tell the same */
    struct program_shared arrays[PROGRAM_ARRAYS_MAX];
    struct program_memory keys; /* of this process, that its answers lie in; bytes NULL: none yet */
    struct program_keys said;   /* the last of them */
};

/* worker_program.c, then: */

/* worker_program_model.c */
/* Makes this process know the job, and begin it when it was begun before; its description must be
 * that of before. Errors: as worker_program_ask(); ERR_UNAVAILABLE. */
int worker_program_prepare(struct worker_program *p, struct err *err);
void worker_program_forget(struct worker_program *p); /* the model */

/* program_output.c, below it: program_output.h */

/* worker_program_process.c */
/* Errors: ERR_EXHAUSTED there can be no more processes. */
int worker_program_start(struct worker_program *p, struct err *err);
/* Ends the process: closes its socket, then with signals. */
void worker_program_stop(struct worker_program *p);
/* A process that has said HELLO. Errors: ERR_UNAVAILABLE; ERR_CANCELLED. */
int worker_program_ready(struct worker_program *p, struct err *err);
/* Wait a moment for an answer that nobody wants; a program that does not give it is ended. */
void worker_program_settle(struct worker_program *p);
/* Ends the process, which is of no use any more. */
void worker_program_kill(struct worker_program *p, const char *why);
/* Asks, and waits for an answer of one of these kinds. Errors: ERR_ABORTED the program is gone, has
 * been ended or speaks nonsense; ERR_STATE it failed, and says why; ERR_CANCELLED. */
int worker_program_ask(struct worker_program *p, struct program_message *question, int memory,
                       enum program_kind answer, struct program_message *out, int *fd,
                       struct err *err);

#endif
