/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions of a worker about one job: what to compute, push, pull, lease and report next.
 *
 * worker_step() takes an event (with its time) and adds actions; the shell executes them in order
 * and brings their results back as events. No clock, thread, socket, file or log is in here, and
 * nothing of gRPC or protobuf: the simulator runs this very code. docs/protocol.md is the
 * specification.
 *
 * Buffers are numbers. A *set* holds one copy of all parameters (two for training, one for
 * evaluation); a *buffer* holds one gradient of all variables; the shell allocates a buffer when it
 * is first named.
 *
 * Owner: the job's thread. Limits: WORKER_BUFFERS_MAX gradients, WORKER_EVALUATIONS_MAX queued
 * evaluations. */
#ifndef GRADUS_WORKER_CORE_WORKER_H
#define GRADUS_WORKER_CORE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "job/progress/consistency.h"
#include "job/progress/era.h"
#include "job/progress/exchange.h"
#include "job/progress/fence.h"
#include "job/progress/ledger.h"
#include "job/progress/tree.h"

/* Sync with aggregate < replicas or speculation: replicas that one worker may have. Each may be a
 * gradient of its own until its push is answered; a worker with more fails the job and says so. */
#define WORKER_SINGLES_MAX 1024
/* And the sums on the way to a node of the tree, one pushed and one computed: 2·log2(replicas) at
 * most, replicas < 2^32. */
#define WORKER_BUFFERS_MAX (WORKER_SINGLES_MAX + 128)
/* Open at once with one shard: a push of each replica or node of a step (≤ 64), and a pull, a
 * decision, a spare replica's push, a request for one, the pull of an evaluation; a request for
 * sums, and totals of a round each. */
#define WORKER_EXCHANGES_MAX (WORKER_SINGLES_MAX + 64)
/* The master sends one at a time; more than that is a mistake. */
#define WORKER_EVALUATIONS_MAX 16
#define WORKER_REPORT_MS 500   /* progress is reported so often while there is any */
#define WORKER_REPORT_EPOCHS 4 /* and when so many epochs have begun since the last report */
#define WORKER_BACKOFF_MS_MIN 100
#define WORKER_BACKOFF_MS_MAX 2000
#define WORKER_PREFETCH_MAX 4 /* batches that the loader prepares ahead */
#define WORKER_BUFFER_NONE UINT32_MAX
#define WORKER_LEASES_MAX 2 /* the master grants no more at a time: one in hand, one ahead */
#define WORKER_HELD_MAX 6   /* and as many as can be finished and not reported yet */
/* rounds of sums over whole variables; no update takes more than four */
#define WORKER_ROUNDS_MAX 8
#define WORKER_MESSAGE_BYTES 896 /* the last lines of a traceback, too */

enum worker_set { WORKER_SET_A, WORKER_SET_B, WORKER_SET_EVALUATION, WORKER_SET_COUNT };

struct worker_config {
    uint64_t generation; /* of the StartJob */
    uint32_t shard_count;
    const struct era *eras; /* copied; none: one era without rounds of sums, as with one shard */
    size_t era_count;
    bool tables; /* the model has tables: computations read their rows */
    struct ledger_shape shape;
};

/* Where a shard is, and the number that it was opened with there (job/fence.h). */
struct worker_place {
    const char *address;
    uint64_t opening;
};

struct worker_lease {
    uint64_t epoch;
    uint32_t split, batch_end;
    bool fresh;
};

/* Worker.Assign, field for field. */
struct worker_assignment {
    uint64_t generation;
    uint64_t number; /* within a generation the highest counts; 0: any order */
    struct consistency consistency;
    uint32_t replica_first, replica_end;
    uint64_t step, step_limit;   /* versions of the shards */
    const struct ledger *ledger; /* borrowed for the event; NULL: an empty one */
    uint64_t ledger_step;
    bool hold;
    struct worker_lease leases[WORKER_LEASES_MAX]; /* async, bounded: all that it has from now on */
    size_t lease_count;
};

enum worker_event_kind {
    WORKER_ASSIGN,
    WORKER_EVALUATE,
    WORKER_COMPUTED,
    WORKER_EXCHANGED,
    WORKER_LEASED,
    WORKER_SPLIT_REPORTED,
    WORKER_PROGRESS_REPORTED,
    WORKER_FAILURE_REPORTED,
    WORKER_TIMER,
    WORKER_FAIL,
    WORKER_STOP,
};

/* The master assigns. With a new generation come the places of the shards in it, and all eras of
 * the job. Arrays are borrowed for the event. */
struct worker_assign {
    uint64_t tag; /* of the call, for the reply */
    struct worker_assignment assignment;
    const struct worker_place *places; /* of each shard; NULL: where they are already */
    const struct era *eras;
    size_t era_count; /* 0: as before */
};

/* The master wants the metrics of test records first..first+count-1 with a pinned version. Pointers
 * are borrowed for the event. */
struct worker_evaluate {
    uint64_t tag; /* of the call, for the reply */
    uint64_t generation;
    const char *pin_id;
    uint64_t first, count;
    const struct worker_place *places; /* of each shard; NULL: where they are already */
};

/* The COMPUTE or EVALUATE action is finished; its pushes may have been answered before. */
struct worker_computed {
    /* 0, or of a COMPUTE that was given up: its parameters, which were said to be there `early`, or
     * the rows of its batch did not all come, and none of its pushes was begun. ERR_RANGE: a shard
     * does not have that version any more */
    int code;
    bool rows_lost; /* with a code: rows did not come; the parameters are there */
};

/* An exchange is answered. */
struct worker_exchanged {
    uint64_t exchange;
    int code;            /* 0 or ERR_*; with an error only `message` counts */
    const char *message; /* may be NULL */
    uint64_t version;
    bool partial; /* of an `early` answer: the rest of the values is still coming */
    /* the rows that the answer brings have come; the shell keeps them until a COMPUTE uses them or
     * another exchange is to bring some */
    bool rows;
    struct exchange_answer answer; /* its bytes are borrowed for the event; the shell keeps the data
                                      of sums, by shard */
};

enum worker_lease_kind { WORKER_LEASE_WAIT, WORKER_LEASE_GRANTED, WORKER_LEASE_DONE };

/* The master's answer to LEASE. */
struct worker_leased {
    uint64_t generation; /* of the request */
    int code;            /* 0 or ERR_* */
    enum worker_lease_kind kind;
    struct worker_lease granted; /* WORKER_LEASE_GRANTED */
};

/* The master's answer to a report. */
struct worker_reported {
    uint64_t generation; /* of the report */
    int code;            /* 0 or ERR_* */
};

/* An action could not be carried out. */
struct worker_failed {
    int code;
    const char *message;
};

struct worker_event {
    enum worker_event_kind kind;
    uint64_t now_ms;
    union { /* TIMER, STOP: nothing */
        struct worker_assign assign;
        struct worker_evaluate evaluate;
        struct worker_computed computed;
        struct worker_exchanged exchanged;
        struct worker_leased leased;
        struct worker_reported reported; /* SPLIT_, PROGRESS_ and FAILURE_REPORTED */
        struct worker_failed failed;     /* FAIL */
    };
};

/* An exchange with a shard. The replicas of a decision are in the core's memory, as they are until
 * the generation changes or the decision is two steps back: the shell packs them when it sends. The
 * shell adds the data of totals, which it has joined. */
struct worker_request {
    uint64_t exchange;
    uint32_t shard;
    uint64_t generation;
    struct exchange_request ask;
    uint32_t buffer; /* of the gradient that it pushes; WORKER_BUFFER_NONE: an empty one, or none */
    enum worker_set set; /* into which it pulls */
    /* the pulled values are for a COMPUTE, which may begin with a part of them */
    bool early;
    /* the rows that the batch `rows_of` needs come with the pulled values, of the same version;
     * they do not come if the shell or the shard has no memory */
    bool brings_rows;
    struct ledger_batch rows_of; /* the batch that is computed next */
};

/* Computes the gradient of `batch` with `set` into `buffer`, and sends its `pushes`, each an
 * exchange. A push may begin before the gradient is complete: the made part can leave. What the
 * pushes pull may go to the same set, because it comes when all of the gradient has left. */
struct worker_do_compute {
    struct ledger_batch batch;
    uint64_t generation;
    uint64_t step; /* identity of the batch for dropout, with `replica` */
    uint32_t replica;
    bool spare; /* of another worker's replica: not measured */
    enum worker_set set;
    uint32_t buffer;
    /* of this gradient; in the core's memory until it is told that it is COMPUTED */
    const struct worker_request *pushes;
    size_t push_count;
    /* Of a job with tables: the shell asks each shard for the rows that the batch needs with this,
     * under its number, and waits for them. When they do not come the computation is given up. */
    struct worker_request request;
    bool has_rows; /* the rows came with the parameters, and there is no request */
};

/* Metrics of test records first..first+count-1 with the evaluation set; the answer of `tag`. */
struct worker_do_evaluate {
    uint64_t tag;
    uint64_t first, count;
    struct worker_request request; /* for rows, as of a computation */
};

/* buffer += buffer_from, element by element, buffer on the left. */
struct worker_do_add {
    uint32_t buffer, buffer_from;
};

/* `shard` is at `place` from now on: open exchanges with it end with ERR_UNAVAILABLE, as if the
 * stream had broken. */
struct worker_do_place {
    uint32_t shard;
    struct worker_place place; /* in the core's memory until the next one */
};

/* The totals of `round` of `step` are those that `shard` sent (known), or the last sums of all
 * shards joined; to be kept for this step. */
struct worker_do_join {
    uint64_t step;
    uint32_t round, shard;
    bool known;
};

struct worker_do_lease {
    uint64_t generation;
    struct worker_lease held[WORKER_HELD_MAX];
    size_t held_count;
};

struct worker_do_report_split {
    uint64_t generation, epoch;
    uint32_t split, batch_end;
};

/* A new `sequence` takes all measurements so far; a repeated one sends the same again. */
struct worker_do_report_progress {
    uint64_t generation, sequence, position;
    uint64_t dropped, speculated; /* since the last new sequence */
    bool idle;
    bool again; /* the same measurements as last time */
};

/* The answer to the call `tag`: of Assign, `code` 0: position; else, and of Evaluate, message. */
struct worker_do_reply {
    uint64_t tag;
    int code;
    char message[WORKER_MESSAGE_BYTES];
    uint64_t position;
};

/* Tell the master; nothing is to be computed any more. Told again in a generation that comes later.
 */
struct worker_do_fail_job {
    uint64_t generation;
    int code;
    char message[WORKER_MESSAGE_BYTES];
    bool again; /* told before */
};

enum worker_action_kind {
    WORKER_DO_COMPUTE,
    WORKER_DO_EVALUATE,
    WORKER_DO_ADD,
    WORKER_DO_PLACE,
    WORKER_DO_JOIN,
    WORKER_DO_EXCHANGE,
    WORKER_DO_LEASE,
    WORKER_DO_REPORT_SPLIT,
    WORKER_DO_REPORT_PROGRESS,
    WORKER_DO_PREFETCH, /* the batch will be computed after the ones named before */
    WORKER_DO_TIMER,    /* WORKER_TIMER then, instead of any earlier one */
    WORKER_DO_REPLY_ASSIGN,
    WORKER_DO_FAIL_EVALUATE,
    WORKER_DO_FAIL_JOB,
};

struct worker_action {
    enum worker_action_kind kind; /* says which of these it is: */
    union {
        struct worker_do_compute compute;
        struct worker_do_evaluate evaluate;
        struct worker_do_add add;
        struct worker_do_place place;
        struct worker_do_join join;
        struct worker_request exchange;
        struct worker_do_lease lease;
        struct worker_do_report_split report_split;
        struct worker_do_report_progress report_progress;
        struct ledger_batch prefetch;
        uint64_t timer_ms;
        struct worker_do_reply reply; /* REPLY_ASSIGN, FAIL_EVALUATE */
        struct worker_do_fail_job fail_job;
    };
};

struct worker_actions {
    struct worker_action *items;
    size_t count, capacity;
};
void worker_actions_release(struct worker_actions *a);

/* ---- orders of the master, and orders that come late ---- */

/* The job that a worker has, as its master gave it. */
struct worker_held {
    uint64_t start; /* number of its StartJob; 0: none came yet, only its data are looked at */
    struct fence fence;
};

/* The newest start that this process has heard of, of each of the last jobs that it had: what
 * names no newer one is a message of another time, though the job may be gone from here since.
 * Zeroed is empty. Owner: who takes the master's calls. */
#define WORKER_STARTS_SEEN 16
struct worker_starts {
    struct worker_seen {
        uint8_t secret[FENCE_SECRET_BYTES]; /* whose job */
        uint64_t start;
    } seen[WORKER_STARTS_SEEN]; /* a ring */
    size_t count;               /* ever */
};

/* A StartJob, or a StopJob, of the job with @fence names @start. */
void worker_starts_note(struct worker_starts *s, const struct fence *fence, uint64_t start);

/* What the StartJob number @start, of the job with @asked, means for what this worker has of that
 * job (@held; NULL: nothing). Calls may overtake each other, and an old one names servers that the
 * job has left. */
enum worker_start {
    WORKER_START_NEW,    /* start it */
    WORKER_START_SAME,   /* the job was started by this very request, or is being started */
    WORKER_START_AGAIN,  /* drop the job, and start it anew */
    WORKER_START_REFUSED /* with @err: ERR_ABORTED it is an old one; ERR_UNAUTHENTICATED the job
                            that is here is another master's; ERR_INVALID it has no number */
};
enum worker_start worker_start_decide(const struct worker_starts *starts,
                                      const struct worker_held *held, uint64_t start,
                                      const struct fence *asked, struct err *err);
/* Checks that an order of @start (Assign, Evaluate) is for the job in @held. Errors: ERR_NOT_FOUND
 * it is not. */
int worker_held_check(const struct worker_held *held, uint64_t start, struct err *err);
/* True if a StopJob that names @start, the newest that its master had begun, is meant for @held.
 * Otherwise it is for a start that is over. */
bool worker_stop_decide(const struct worker_held *held, uint64_t start);
/* The same of the answer of a heartbeat, which names a start, or (@opening 0) only the job. */
bool worker_drop_decide(const struct worker_held *held, uint64_t opening);

struct worker;

struct worker *worker_new(const struct worker_config *config);
void worker_free(struct worker *w);
/* Takes one event; adds actions to @out (the caller empties it). */
void worker_step(struct worker *w, const struct worker_event *event, struct worker_actions *out);

uint64_t worker_generation(const struct worker *w);

#endif
