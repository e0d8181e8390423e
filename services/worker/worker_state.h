/* What the files of the worker's core share; nobody else includes it. */
#ifndef GRADUS_WORKER_WORKER_STATE_H
#define GRADUS_WORKER_WORKER_STATE_H

#include "worker/worker.h"

/* One open exchange. The request is kept until it is answered, so that it can be sent again. */
struct exchange {
    struct worker_action request;
    bool evaluation; /* belongs to an evaluation, else to training */
    bool waiting;    /* failed; is sent again at retry_ms */
    uint64_t retry_ms;
    uint32_t attempts;
};

/* The sum of the replicas of one node of the tree; an empty one has no slot. */
struct stacked {
    struct tree_block block;
    uint32_t slot;
    uint64_t examples;
};

struct lease {
    bool valid;
    bool progress_known;
    uint64_t epoch;
    uint32_t split, next, batch_end;
};

#define WORKER_LEASES_MAX 2 /* the master grants no more at a time: one in hand, one ahead */

struct evaluation {
    uint64_t tag;
    char pin_id[64];
    uint64_t first, count;
};

enum computing { COMPUTING_NOTHING, COMPUTING_BATCH, COMPUTING_EVALUATION };

struct worker {
    struct worker_config config;
    struct worker_actions *out; /* of the running step */
    uint64_t now_ms;
    bool stopped;

    bool assigned;
    bool fenced; /* the shards know a newer generation: wait for the master's word */
    struct worker_assignment a;
    struct ledger ledger;
    bool next_pending; /* a newer assignment, taken up when nothing is in hand */
    struct worker_assignment next;
    struct ledger next_ledger;
    uint64_t position;

    /* parameters */
    enum worker_set current;
    bool params_valid;                    /* of the current set */
    uint64_t *versions[WORKER_SET_COUNT]; /* [shard_count] */
    enum computing computing;

    /* gradients */
    uint32_t slot_users[WORKER_SLOTS_MAX]; /* exchanges that still read it, plus one while computed
                                              or stacked */

    /* exchanges */
    struct exchange *exchanges;
    size_t exchange_count, exchange_capacity;
    uint64_t exchange_last;
    size_t training_open, evaluation_open;

    /* sync */
    uint32_t replica_next;
    bool step_begun; /* a gradient of this step was computed */
    struct stacked stack[TREE_BLOCKS_MAX];
    size_t stack_count;
    uint64_t prefetch_step;
    uint32_t prefetch_replica;
    struct ledger_batch computing_batch;

    /* async, bounded */
    struct lease lease, lease_ahead;
    /* Granted and not finished: the master counts on these, whatever the generation. */
    struct lease held[WORKER_LEASES_MAX];
    size_t held_count;
    bool lease_open, lease_done;
    uint64_t lease_retry_ms; /* 0: none */
    uint32_t lease_attempts;
    bool gradient_ready; /* computed, waits for the exchange before it */
    uint32_t gradient_slot;
    struct ledger_batch gradient_batch;
    uint64_t *gradient_versions; /* [shard_count] the versions it was computed on */
    bool gradient_last;          /* the last batch of its split */
    struct ledger_batch pushing; /* the batch of the open exchanges */
    bool pushing_valid, pushing_last;
    bool pulling_progress;
    uint32_t progress_least;
    uint32_t prefetch_batch;
    bool idle_told;
    struct {
        uint64_t epoch;
        uint32_t split;
        uint64_t sequence; /* of the progress report that has its last batch: goes first */
    } finished[4]; /* splits to report; no batch is begun while 2 wait, 2 more may be in hand */
    size_t finished_count;
    bool split_report_open;
    uint64_t split_retry_ms;
    uint32_t split_attempts;
    uint64_t batches_done;

    /* progress */
    bool measured; /* something new since the last report */
    bool idle_due, idle_reported;
    bool report_open;
    uint64_t report_sequence, report_acked;
    bool report_now; /* do not wait for WORKER_REPORT_MS */
    uint64_t report_last_ms;
    uint64_t report_retry_ms;
    uint32_t report_attempts;
    struct worker_action report;

    /* the end by an error */
    struct worker_action failure;
    uint64_t failure_retry_ms; /* 0: none */
    uint32_t failure_attempts;

    /* evaluation */
    struct evaluation evaluations[WORKER_EVALUATIONS_MAX];
    size_t evaluation_count;
    char evaluation_pin[64];     /* whose parameters the evaluation set holds; empty: none */
    char evaluation_pulling[64]; /* whose are on their way; empty: none, or one of them failed */
};

struct worker_action *worker_add(struct worker *w, enum worker_action_kind kind);
uint64_t worker_backoff(uint32_t attempts);
uint32_t worker_slot_take(struct worker *w);
void worker_slot_drop(struct worker *w, uint32_t slot);
/* Open an exchange from @request (exchange number and kind are filled in) and send it. */
void worker_exchange(struct worker *w, struct worker_action *request, bool evaluation);
/* Tell the master that the job cannot go on here, and stop. */
void worker_fail_job(struct worker *w, int code, const char *message);
/* An exchange request of this generation with everything else empty. */
struct worker_action worker_request(const struct worker *w, uint32_t shard);

/* worker_exchange.c */
void worker_on_exchanged(struct worker *w, const struct worker_event *event);
void worker_retry_exchanges(struct worker *w);
/* Failed exchanges that only wait to be tried again will not be: their generation is over. */
void worker_drop_waiting(struct worker *w);
/* worker_evaluate.c */
void worker_on_evaluate(struct worker *w, const struct worker_event *event);
void worker_evaluation_pump(struct worker *w);
void worker_evaluation_exchanged(struct worker *w, const struct worker_event *event,
                                 const char *pin_id);
/* Answer the oldest evaluation with an error. */
void worker_evaluation_fail(struct worker *w, int code, const char *message);
/* worker_assign.c */
void worker_on_assign(struct worker *w, const struct worker_event *event);
bool worker_quiet(const struct worker *w);
void worker_begin_next(struct worker *w); /* take up the next assignment; nothing is in hand */
/* worker_report.c */
void worker_report_pump(struct worker *w);
void worker_on_progress_reported(struct worker *w, const struct worker_event *event);
/* worker_sync.c */
void worker_sync_begin(struct worker *w);
void worker_sync_pump(struct worker *w);
void worker_sync_computed(struct worker *w);
void worker_sync_exchanged(struct worker *w);
/* worker_async.c */
void worker_async_begin(struct worker *w);
void worker_async_pump(struct worker *w);
void worker_async_computed(struct worker *w);
void worker_async_exchanged(struct worker *w, uint32_t progress);
void worker_async_leased(struct worker *w, const struct worker_event *e);
void worker_async_split_reported(struct worker *w, const struct worker_event *e);
bool worker_async_quiet(const struct worker *w);

#endif
