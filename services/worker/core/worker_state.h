/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker's core share; nobody else includes it. */
#ifndef GRADUS_WORKER_CORE_WORKER_STATE_H
#define GRADUS_WORKER_CORE_WORKER_STATE_H

#include "worker/core/worker.h"

/* One open exchange. The request is kept until it is answered, so that it can be sent again. */
struct exchange {
    struct worker_request request;
    bool evaluation; /* it belongs to an evaluation, else to training */
    bool waiting;    /* failed; is sent again at retry_ms */
    uint64_t retry_ms;
    uint32_t attempts;
};

/* The sum of the replicas of one node of the tree; an empty one has no buffer. */
struct stacked {
    struct tree_block block;
    uint32_t buffer;
    uint64_t examples;
};

/* Sums over whole variables, of one step. */
struct sums_state {
    bool asked;
    bool over;         /* a shard is so far ahead that nobody needs the sums */
    uint32_t round;    /* that is asked for */
    uint32_t answered; /* shards, of this round */
    uint32_t past;     /* of the shards that answered, those that have applied the step */
    bool known;        /* a shard has the totals */
    uint32_t known_by;
};

/* The state of one step of sync, and of one generation; zeroed by a new generation. */
struct sync_state {
    uint32_t replica_next;
    bool step_begun; /* a gradient of this step was computed */
    struct stacked stack[TREE_BLOCKS_MAX];
    size_t stack_count;
    uint64_t prefetch_step;
    uint32_t prefetch_replica;
    bool prefetch_lost; /* batches are wanted in another order than they were named */

    /* non-blocking: the next version goes to the other set, so that this one can still be computed
     * on */
    bool next_pulled; /* asked for, in this step */
    bool step_over;   /* every shard was heard to be past this step */
    /* The shards differ by a step, and the version of those that are ahead is waited for: */
    enum worker_set level_set;
    uint64_t level_version;
    uint64_t level_ms; /* no longer than until then; 0: it is not, or has been waited for enough */
    bool steps_back;   /* the version before it is asked for */
    uint32_t lead_holds; /* replicas with records that the lead has not answered yet */
    bool decision_sent;  /* of this step */
    uint8_t decisions[2][EXCHANGE_DECISION_BYTES_MAX]; /* of an even and of an odd step */

    /* spare replicas */
    bool spare_given; /* a spare replica is to be computed, or being computed */
    uint32_t spare_replica;
    uint64_t spare_ask_ms; /* the next time to ask; 0: at once */
    bool spare_waits;      /* partial: spare_ask_ms is set, in this step */
    uint32_t spare_shard;  /* the shard to ask: those before it have all of this step */
    /* of its own replicas, those from here on are left to whichever worker asks first */
    uint32_t own_end;
    /* of these, how many this worker was given and was first with, in this step */
    uint32_t own_spares;

    struct sums_state sums;
    /* As it was before the gradient that is being computed was taken in. */
    struct {
        uint32_t replica_next;
        bool step_begun;
        struct stacked stack[TREE_BLOCKS_MAX];
        size_t stack_count;
    } before;
};

enum holding_state {
    HOLDING_OPEN,     /* it has batches to compute */
    HOLDING_COMPUTED, /* its last push is made ready or under way */
    HOLDING_FINISHED, /* to be reported */
};

/* A lease, until the master has heard that it is done. */
struct holding {
    enum holding_state state;
    uint64_t epoch;
    uint32_t split, next, batch_end; /* next: the first batch that is not computed */
    bool progress_known;             /* `next` is what the shards say */
    uint64_t sequence; /* FINISHED: of the progress report that has its last batch: goes first */
};

/* Batches [first, end) of a split: computed on the same parameters, summed, pushed as one. */
struct group {
    uint64_t epoch;
    uint32_t split, first, end;
    uint32_t next; /* the first batch that is not in yet */
    uint64_t examples;
    uint32_t buffer;
};

enum making { MAKING_NOTHING, MAKING_BATCHES, MAKING_READY };

/* What the open exchanges of async mode are for. */
enum async_phase {
    ASYNC_STILL,
    ASYNC_PULL,
    ASYNC_PULL_PROGRESS, /* and what the shards have of the split in hand */
    ASYNC_PUSH,
    ASYNC_PUSH_LEAD, /* POLICY_MAX_STALENESS: the lead decides for all shards */
    ASYNC_IDLE,
};

/* Zeroed by a new generation. */
struct async_state {
    struct holding held[WORKER_HELD_MAX]; /* in the order in which they were granted */
    size_t held_count;
    bool lease_open, lease_done;
    uint64_t lease_retry_ms; /* 0: none */
    uint32_t lease_attempts;

    bool split_report_open;
    uint64_t reporting_epoch; /* of the open report */
    uint32_t reporting_split;
    uint64_t split_retry_ms;
    uint32_t split_attempts;

    enum making making;
    struct group group; /* in the making */
    enum async_phase phase;
    struct group pushing;
    bool pushing_pulls;
    uint32_t pushes_without_pull; /* since the last pull */
    uint32_t progress_least;
    uint64_t clock;   /* bounded: what the shards compare; 0: not joined, or idle since */
    uint64_t session; /* bounded: how often this worker was idle */
    bool idle_told;
    uint64_t prefetch_epoch;
    uint32_t prefetch_split, prefetch_batch;
    bool prefetch_lost; /* as in sync_state */
};

struct evaluation {
    uint64_t tag;
    char pin_id[EXCHANGE_PIN_ID_BYTES];
    uint64_t first, count;
};

enum computing {
    COMPUTING_NOTHING,
    COMPUTING_BATCH,
    COMPUTING_PUSHED, /* computes a batch whose pushes are open already: it leaves while it is made
                       */
    COMPUTING_SPARE,
    COMPUTING_EVALUATION,
};

/* Where a shard is; address NULL: the master has not said yet. */
struct placed {
    char *address;
    uint64_t opening;
};

#define WORKER_VERSION_NONE UINT64_MAX /* never pulled, or a pull is under way */
#define WORKER_LEAD 0                  /* the shard that decides for all */

struct worker {
    struct worker_config config;
    struct worker_actions *out; /* actions of the running step */
    uint64_t now_ms;
    bool stopped;

    bool assigned;
    uint64_t assign_number; /* number of the last assignment that was taken */
    bool fenced;            /* the shards know a newer generation: wait for the master's word */
    struct worker_assignment a;
    struct ledger ledger;
    bool next_pending; /* a newer assignment, taken up when nothing is in hand */
    struct worker_assignment next;
    struct ledger next_ledger;
    uint64_t position;
    struct placed *placed; /* [shard_count] in the newest generation that was heard of: */
    uint64_t placed_generation;
    struct era *eras; /* [era_count]; none: one without rounds of sums */
    size_t era_count;

    /* parameters */
    enum worker_set current;
    uint64_t *versions[WORKER_SET_COUNT]; /* [shard_count] */
    bool landing; /* a part of the current set may still be on its way, or lost: no computation was
                     begun on it since it was pulled early */
    /* Rows of tables that came with the present parameters: of which batch, and from which shards.
     */
    struct ledger_batch rows_of;
    bool *rows_came;        /* [shard_count] */
    uint64_t rows_retry_ms; /* nothing is computed before this time, because rows did not come, */
    uint32_t rows_attempts; /* so often in a row */
    enum computing computing;
    struct ledger_batch computing_batch;
    uint32_t computing_buffer; /* COMPUTING_PUSHED: the exchanges' */
    uint64_t computing_step;
    uint32_t computing_replica;
    struct worker_request *pushes; /* [shard_count] pushes that go with a COMPUTE */
    size_t push_count;
    bool along; /* pushes that are made now go with it */

    /* gradients */
    uint32_t buffer_users[WORKER_BUFFERS_MAX]; /* exchanges that still read it, plus one while
                                              computed or stacked */
    /* Sync: the step and replica whose gradient a buffer holds, until something else is put there;
     * also when it was pushed and a new generation has forgotten it. A step and a replica have one
     * gradient. */
    struct {
        bool whole;
        uint64_t step;
        uint32_t replica;
        struct ledger_batch batch;
    } made[WORKER_BUFFERS_MAX];

    /* exchanges */
    struct exchange *exchanges;
    size_t exchange_count, exchange_capacity;
    uint64_t exchange_last;
    size_t training_open, evaluation_open;
    size_t waiting_count; /* failed ones */

    struct sync_state sync;
    bool *sums_wanted; /* [shard_count] it has no totals of the round that is asked for */
    uint64_t *heard;   /* [shard_count] the newest version in the answers to the present step */
    struct async_state async;
    uint64_t *gradient_versions; /* [shard_count] the versions that async.group is computed on */
    uint64_t batches_done;       /* async, bounded: in all generations */

    /* progress */
    bool measured;                /* something new since the last report */
    bool epoch_measured;          /* batches of this worker are among it */
    uint64_t measured_epoch;      /* epoch of the first of them */
    uint64_t dropped, speculated; /* since then */
    bool idle_due, idle_reported;
    bool report_open;
    uint64_t report_sequence, report_acked;
    bool report_now; /* do not wait for WORKER_REPORT_MS */
    uint64_t report_last_ms;
    uint64_t report_retry_ms;
    uint32_t report_attempts;
    struct worker_do_report_progress report;

    /* the end by an error */
    struct worker_do_fail_job failure; /* code 0: none */
    uint64_t failure_retry_ms;         /* 0: none */
    uint32_t failure_attempts;

    /* evaluation */
    struct evaluation evaluations[WORKER_EVALUATIONS_MAX];
    size_t evaluation_count;
    /* the pin whose parameters the evaluation set holds; empty: none */
    char evaluation_pin[EXCHANGE_PIN_ID_BYTES];
    /* the pin whose parameters are on their way; empty: none, or one of them failed */
    char evaluation_pulling[EXCHANGE_PIN_ID_BYTES];
};

/* From top to bottom, worker.c first; a file calls only those below it. */

/* worker_answer.c */
void worker_on_exchanged(struct worker *w, const struct worker_exchanged *event);

/* worker_assign.c */
void worker_on_assign(struct worker *w, const struct worker_assign *event);
void worker_begin_next(struct worker *w); /* take up the next assignment; nothing is in hand */

/* worker_async.c */
void worker_async_begin(struct worker *w);
void worker_async_pump(struct worker *w);
void worker_async_computed(struct worker *w);
void worker_async_given_up(struct worker *w, enum computing was); /* as in sync */
void worker_async_exchanged(struct worker *w, const struct worker_request *request,
                            const struct worker_exchanged *event);

/* worker_lease.c: leases, and the reports of finished ones */
void worker_lease_begin(struct worker *w);
void worker_lease_pump(struct worker *w);
void worker_lease_split_report_pump(struct worker *w);
void worker_lease_leased(struct worker *w, const struct worker_leased *e);
void worker_lease_split_reported(struct worker *w, const struct worker_reported *e);
/* The split whose batches come next; NULL: none. */
struct holding *worker_lease_in_hand(struct worker *w);
struct holding *worker_lease_find(struct worker *w, uint64_t epoch, uint32_t split);
void worker_lease_finished(struct worker *w, struct holding *h);
size_t worker_lease_finished_count(const struct worker *w);
/* On hold the master takes the leases back when this worker reports that it is idle. */
void worker_lease_give_back(struct worker *w);

/* worker_sync.c: the tree, and sync that waits for all replicas */
void worker_sync_begin(struct worker *w);
void worker_sync_pump(struct worker *w);
void worker_sync_computed(struct worker *w, enum computing was);
/* The gradient that was computed is whole. */
void worker_sync_made(struct worker *w);
/* The parameters did not all come: the computation counts as not begun. */
void worker_sync_given_up(struct worker *w, enum computing was);
void worker_sync_exchanged(struct worker *w, const struct worker_request *request,
                           const struct worker_exchanged *event);
/* True if this worker has no replicas in sync, and no step needs it. */
bool worker_sync_is_standby(const struct worker *w);

/* worker_nonblocking.c: sync that need not wait for every worker */
/* Pull what is after the present step to the other set; @request: with this push, or NULL. */
void worker_nonblocking_pull_next(struct worker *w, struct worker_request *request);
/* Find a version that all shards have, and go on there. */
void worker_nonblocking_settle(struct worker *w);
/* All of this worker's replicas are pushed: waits for the step. */
void worker_nonblocking_wait(struct worker *w);
void worker_nonblocking_answered(struct worker *w, const struct worker_request *request,
                                 const struct worker_exchanged *event);
void worker_nonblocking_spare_computed(struct worker *w);
/* Was the answer that a shard is too far ahead of the version that was asked for? */
bool worker_nonblocking_outrun(struct worker *w, const struct worker_request *request, int code);

/* worker_sync_step.c */
void worker_sync_batch(const struct worker *w, uint64_t step, uint32_t replica,
                       struct ledger_batch *out);
void worker_sync_compute(struct worker *w, enum computing what, uint32_t replica,
                         const struct ledger_batch *batch);
/* Make @ask a push of @node of the present step. */
void worker_sync_push(const struct worker *w, struct exchange_request *ask, struct tree_block node,
                      uint64_t examples);
/* Everything of a step is before it again. */
void worker_sync_step_begin(struct worker *w);

/* worker_sums.c: sums over whole variables */
uint32_t worker_sums_rounds(const struct worker *w); /* of the present step */
void worker_sums_step_begin(struct worker *w);
/* Asks for the sums of this step, if it has any and they were not asked for yet. */
void worker_sums_ask(struct worker *w);
void worker_sums_answered(struct worker *w, const struct worker_request *request,
                          const struct worker_exchanged *event);

/* worker_evaluate.c */
void worker_on_evaluate(struct worker *w, const struct worker_evaluate *event);
void worker_evaluation_pump(struct worker *w);
void worker_evaluation_exchanged(struct worker *w, const struct worker_exchanged *event,
                                 const char *pin_id);

/* worker_report.c */
void worker_report_measured(struct worker *w, uint64_t epoch);
void worker_report_pump(struct worker *w);
void worker_on_progress_reported(struct worker *w, const struct worker_reported *event);

/* worker_exchange.c */
/* An exchange of this generation; everything else is empty. */
struct worker_request worker_request(const struct worker *w, uint32_t shard,
                                     enum exchange_kind kind);
/* Does its answer bring parameters? */
bool worker_pulls(const struct worker_request *r);
/* Open an exchange from @request (exchange number and kind are filled in) and send it. */
void worker_exchange(struct worker *w, struct worker_request *request, bool evaluation);
void worker_exchange_close(struct worker *w, size_t i); /* the last one takes its place */
/* Between these two calls, pushes of the gradient of COMPUTE, which is action @at, go along with it
 * instead of being actions of their own. */
void worker_push_along(struct worker *w);
void worker_pushed_along(struct worker *w, size_t at);
/* Failed exchanges that are due are sent again. */
void worker_retry_exchanges(struct worker *w);
/* Failed exchanges that only wait to be tried again will not be: their generation is over. */
void worker_drop_waiting(struct worker *w);
/* Drops the pushes of the gradient in @buffer, which were never begun and will not be. */
void worker_drop_pushes(struct worker *w, uint32_t buffer);
/* True if no exchange of training is open, and no batch is computed. */
bool worker_quiet(const struct worker *w);
/* How the rows of an evaluation are read, for its action. */
struct worker_request worker_rows(struct worker *w, enum rows_of of);
/* Says for the action of a computation how the rows of its batch are read, unless they came
 * already. @version: of ROWS_OF_VERSION. */
void worker_rows_needed(struct worker *w, struct worker_do_compute *compute, enum rows_of of,
                        uint64_t version);
/* Lets the rows of @next come along with the values that @request pulls. */
void worker_rows_along(const struct worker *w, struct worker_request *request,
                       const struct ledger_batch *next);
/* The set of parameters for training that is not the current one. */
enum worker_set worker_other_set(const struct worker *w);
/* True if every shard's part of @set is there. */
bool worker_set_known(const struct worker *w, enum worker_set set);
/* Every shard's part of @set is of @version. */
bool worker_set_is(const struct worker *w, enum worker_set set, uint64_t version);
void worker_set_forget(struct worker *w, enum worker_set set);

/* worker_end.c */
/* Nothing is computed, sent or reported from now on. */
void worker_stop(struct worker *w);
/* Tell the master that the job cannot go on here, and stop. */
void worker_fail_job(struct worker *w, int code, const char *message);
/* Answers an event after the worker has stopped: answers to requests that were under way come too
 * late for anything. */
void worker_step_stopped(struct worker *w, const struct worker_event *event);
/* Answer the oldest evaluation with an error. */
void worker_evaluation_fail(struct worker *w, int code, const char *message);
void worker_evaluation_pop(struct worker *w); /* the oldest one is in hand, or answered */

/* worker_generation.c */
void worker_take_eras(struct worker *w, const struct era *eras, size_t count);
/* Takes the places of shards, if they are of the newest generation, also when an evaluation brings
 * them. Open exchanges with a shard that has moved are of a generation that is over, or are sent
 * again to the new place. */
void worker_take_places(struct worker *w, uint64_t generation, const struct worker_place *places);

/* worker_actions.c */
struct worker_action *worker_add(struct worker *w, enum worker_action_kind kind);
/* The pause before the next attempt. */
uint64_t worker_backoff(uint32_t attempts);
uint32_t worker_buffer_take(struct worker *w);
void worker_buffer_drop(struct worker *w, uint32_t buffer);

#endif
