/* SPDX-License-Identifier: Apache-2.0 */
/* A job in the memory of the master. Plain data; core.h declares the functions.
 *
 * What a job is at is its `phase`; what of its sync point is being done beside is its `work`:
 *
 *   NONE ─▶ PIN ─▶ EVALUATE? ─▶ (PREPARE ─▶ CHECKPOINT ─▶ MANIFEST)? ─▶ UNPIN ─▶ NONE
 *
 * A checkpoint that fails goes by way of DISCARD, and the one at the end from there back to
 * PREPARE, with pauses, until there is room or somebody cancels. advance.c has the phases and how
 * they follow each other.
 *
 * In async and bounded modes a hold is followed by a regrouping (`quiesced`): its answers say what
 * every shard has. When they differ, because a worker died between two shards, what only some have
 * is leased first, and the hold begins again. So whatever happens in QUIESCED happens to one cut.
 *
 * A change of the job's file (`change`) waits until the job is QUIESCED and goes to the shards with
 * the next regrouping (`changing`). A job that lost a parameter server (`resume`)
 * gives up all nodes, waits in RECOVERING as if it were PENDING, and starts from its newest
 * checkpoint. One that only lost its master is adopted (`adopts`) instead.
 *
 * A job that is paused, or makes way for one of a higher priority, yields: where all stand it is
 * pinned (`sync_point.yield`), nobody goes on until the checkpoint is complete, and then it gives
 * up all nodes. When that checkpoint fails training goes on, and it is tried again later.
 *
 * Once a sync point is pinned training goes on beside its work; the next one waits in QUIESCED for
 * the end of that work. In async and bounded modes an evaluation within an epoch is pinned without
 * standing.
 *
 * A job that has ended and that nothing waits for *rests* outside the list that every event walks
 * over, until something touches it (decision 59). Everything that changes a job goes through
 * job_touch() or job_changed(), which bring it back, so no handler has to know. Nodes are listed in
 * the order in which they were heard: the first says when the next is late. Decisions are made in
 * the order of submission. */
#ifndef GRADUS_MASTER_CORE_JOB_H
#define GRADUS_MASTER_CORE_JOB_H

#include "job/progress/step_map.h"
#include "master/core/master.h"
#include "master/core/node.h"

#define START_BACKOFF_MS_MIN                                                                       \
    500 /* after the second start in a row that failed; then twice as long */
#define START_BACKOFF_MS_MAX 30000
#define START_GRACE_MS                                                                             \
    1000 /* between the workers that it takes and those that load the data for longer */
#define EVALUATE_FAILURES_MAX 3 /* of one chunk */
/* of a cancelled job, before it ends without a new checkpoint */
#define CHECKPOINT_ATTEMPTS_MAX 3
#define CHECKPOINT_BACKOFF_MS_MIN                                                                  \
    1000 /* before the last checkpoint is tried again; then twice as long */
#define CHECKPOINT_BACKOFF_MS_MAX 60000
#define AVOID_MAX 64          /* checkpoints that could not be read, before all are tried again */
#define JOB_REFUSED_MAX 16    /* nodes that a job does without */
#define RESUME_FEWER_MS 10000 /* wait before a job that recovers goes on with fewer workers */
#define JOB_REFUSED_MS 10000  /* wait before a node that had no memory is asked again */
#define REFILL_MS_MIN 2000    /* after a backup that did not come to follow; then twice as long */
#define REFILL_MS_MAX 120000
/* pause after a row that could not be stored; then twice as long */
#define STORE_BACKOFF_MS_MIN 200
#define STORE_BACKOFF_MS_MAX                                                                       \
    5000                /* an attempt costs little, and what waits for it stands still             \
                         */
#define RATE_SAMPLES 12 /* one a second: the window of the recent rate */
#define EPOCHS_OPEN 8   /* epochs whose metrics may still arrive; a report has up to so many */
#define NO_STEP UINT64_MAX
/* heartbeats in a row that do not name a job which the node should have */
#define HEARTBEATS_WITHOUT_MAX 2
#define HEARTBEATS_WAITING_MAX 2
#define LEASES_PER_WORKER 2 /* the split in hand, and the next one, asked for in advance */

enum phase {
    PHASE_NONE,     /* nothing of it runs */
    PHASE_RECALL,   /* its newest checkpoint says how records are encoded */
    PHASE_INSPECT,  /* STARTING, or RECOVERING from a checkpoint: a worker says what the data are */
    PHASE_FIND,     /* looks for its newest checkpoint */
    PHASE_OPEN,     /* the servers make its shards */
    PHASE_START,    /* the workers load the data */
    PHASE_REGROUP,  /* RUNNING: the shards are told the new generation */
    PHASE_ASSIGN,   /* tells the workers what to do in the generation, and up to which step */
    PHASE_TRAIN,    /* they compute */
    PHASE_HOLD,     /* asks the workers to stop as soon as possible */
    PHASE_QUIESCED, /* the workers stand at a sync point, which waits for the one before, or is
                       pinned */
    PHASE_FINISH,   /* nothing is left to compute; the last sync point's work goes on */
    PHASE_WAIT,     /* RECOVERING: waits for a worker; the shards are there */
    PHASE_COUNT
};
enum work {
    WORK_NONE,
    WORK_PIN,
    WORK_EVALUATE,
    WORK_PREPARE,
    WORK_CHECKPOINT,
    WORK_MANIFEST,
    WORK_DISCARD,
    WORK_UNPIN,
    WORK_COUNT
};

enum verdict { VERDICT_NONE, VERDICT_YIELD, VERDICT_RESTART, VERDICT_RECOVER, VERDICT_END };

struct job_worker {
    struct node *node;
    uint64_t start;    /* number of its StartJob; 0: not drawn yet */
    bool started;      /* that was answered */
    bool member;       /* it takes part, and every shard has heard of it */
    unsigned without;  /* heartbeats since then that did not name the job */
    uint64_t taken;    /* the newest generation whose Assign it answered; 0: none */
    bool assigned;     /* it has a share of this generation */
    bool idle, held;   /* since the last Assign: stands still; answered a hold */
    uint64_t position; /* sync: the step that it holds; otherwise batches since it started */
    uint64_t sequence;
    uint64_t from;                          /* sync: the step that its Assign begins with */
    struct lease leases[LEASES_PER_WORKER]; /* oldest first */
    size_t lease_count;
    bool parked; /* a LeaseSplit waits */
    uint64_t parked_request, parked_until_ms;
    bool evaluating;
    uint32_t chunk; /* while it evaluates: the chunk that it does */
};

enum chunk_state { CHUNK_TODO, CHUNK_OUT, CHUNK_DONE };
struct chunk { /* of an evaluation */
    enum chunk_state state;
    unsigned failures;
    uint64_t failed_node; /* number of the last one */
    double *sums;         /* until it is merged */
    size_t sum_count;
};

enum backup_stage {
    BACKUP_OPENS,  /* OpenShard was sent */
    BACKUP_OPEN,   /* and answered. Of one that joins its primary does not know yet; */
    BACKUP_NAMED,  /* it is told in this generation, */
    BACKUP_JOINS,  /* knows, and says its state */
    BACKUP_FOLLOWS /* it can take over */
};

struct shard_backup {  /* of a shard, on another server */
    struct node *node; /* NULL: there is none */
    uint64_t opening;
    bool joins; /* the shard had begun before */
    enum backup_stage stage;
    unsigned without; /* as in struct shard_state */
    unsigned waits;   /* heartbeats in a row that say that its shard waits for it for too long */
};

struct shard_state { /* of one parameter server, in the order of shards */
    struct node *node;
    uint64_t opening; /* the number of this one's; several shards may have the same */
    bool promote;     /* it was a backup, and has not heard yet that it is the primary */
    struct shard_backup backup;
    bool opened;                   /* OpenShard was sent */
    bool answered;                 /* and answered */
    unsigned without;              /* heartbeats since then that did not name the job */
    uint64_t alone_ms, alone_sent; /* node_ready.c: for how long it has had no backup */
    uint64_t version;              /* as it said last */
    char *file;                    /* of the checkpoint that is being written */
    uint64_t bytes, checksum;
    uint64_t file_version;
    bool delta;      /* that file is */
    char *base_file; /* in base.directory; owned; NULL: none yet */
    uint64_t base_checksum, base_version;
    struct ledger ledger; /* async, bounded: as it said last; a complete epoch is the next one's
                             beginning */
    bool has_ledger;
    struct pin_said { /* as it said when the job was adopted */
        char id[64];
        uint64_t version;
        bool slots;
    } pins[MASTER_PINS_MAX];
    size_t pin_count;
};

/* What is found of the life under an earlier master: adopt.c. */
struct adoption {
    bool looked;                      /* the shards have answered, and this was chosen: */
    char pin[64];                     /* the sync point that was at work, and goes on; "": none */
    uint64_t step;                    /* its step */
    bool evaluate, checkpoint, slots; /* what is to be done with it; its slots are pinned, too */
    bool known;                       /* by the row (struct job_handover_pin) */
};

struct checkpoint_base {
    char directory[ID_ROOM + 32]; /* the last checkpoint since the start that has everything; "" */
    uint64_t deltas;              /* deltas that were written of it */
};

struct sync_point {
    uint64_t step, examples;
    bool evaluate, checkpoint, last, cancel;
    bool yield;    /* with this checkpoint the job gives up its nodes; all stand until then */
    bool quiesced; /* nothing may move until it is pinned, */
    bool decides;  /* or until it is evaluated: that may end the training */
    bool slots;    /* slots are pinned, too, for a checkpoint */
    bool adopted;  /* an earlier master pinned it, and what it was for is found out (adopt.c) */
    bool known;    /* adopted, and the row says what it is */
    bool attempt_failed; /* the present one; its other answers are still waited for */
    bool answered;       /* PREPARE, MANIFEST, DISCARD: the shell has */
    bool failed;         /* the checkpoint */
    bool delta;          /* the checkpoint is to be one, of the job's base */
    unsigned attempts;   /* of it that failed */
    char *why;           /* the last one did; owned */
    char pin_id[64];
    char directory[ID_ROOM + 32];
    double epoch;
    uint64_t data_epoch; /* the epoch of its last batches */
    uint64_t version;    /* sync: of every shard */
    struct job_metrics train;
    double *train_sums; /* of data_epoch, at the cut; owned; NULL: they are not all known */
    size_t train_sum_count;
    struct ledger ledger; /* the data position */
};

struct waiter { /* a client that waits for a checkpoint */
    uint64_t request;
    bool served; /* the present sync point has served it */
};

struct row_answer { /* a client that waits until its request is stored */
    uint64_t request, row;
    bool taken; /* the request is, also when it cannot be stored yet: the job as shown is an answer
                 */
    char *undone; /* owned; why the request was taken back, and its client is refused; else NULL */
};

struct epoch_metrics {
    bool used;
    bool part; /* without the part before a recovery */
    uint64_t epoch, batches;
    struct metrics sums;
};

struct rate_sample {
    uint64_t ms, examples, step;
};

struct refusal {       /* a worker that the job does without */
    uint64_t node;     /* number of the node; 0: none */
    uint64_t until_ms; /* UINT64_MAX: as long as the job runs */
};

struct job {
    struct master *master;
    uint64_t place; /* place in the order of submission */
    bool live;      /* it is in master->live; otherwise nothing waits for it, and it for nothing */
    bool swept;     /* it has ended and was cleaned up */
    bool removed;   /* a client wanted it: the next sweep forgets it */
    bool removing;  /* a request to remove it waits until no node has anything of it: */
    uint64_t remover;
    struct job_record record;
    struct job_spec spec;
    bool has_spec;    /* until the job is over and cleaned up */
    bool changed;     /* in this step */
    bool restartable; /* cleaning up after a start that failed; then it may start again */
    enum phase phase; /* written by advance.c alone */
    enum work work;

    /* Facts that handlers record and advance.c acts upon; see also regroup_needed, over, change,
     * hold_checkpoint and hold_cancel. */
    bool touched;                 /* something was recorded in this step */
    bool chosen;                  /* its nodes were chosen: it may start */
    bool inspected;               /* its data are known */
    bool found;                   /* its newest checkpoint was found, or there is none */
    bool released;                /* nothing is due where it stands, or that is pinned */
    enum verdict verdict;         /* why it cannot go on like this */
    enum job_state verdict_state; /* END: how */
    char *verdict_reason;         /* owned; NULL: none yet */
    /* the worker that was lost last, and why, in words; owned; NULL: none was */
    char *lost_last;
    bool told; /* clients know that it has ended */

    uint64_t start_last;     /* number of its last StartJob, in this life of the master; 0: none */
    unsigned start_failures; /* since it last ran */
    uint64_t opening;        /* of its shards, drawn for each start, */
    uint64_t backup_opening; /* and of their backups */
    uint64_t start_after_ms; /* it is not started again before this time */
    /* it begins with the workers that have started by then; 0: not known */
    uint64_t go_ms;

    /* Its row (row.c): the newest row that is wanted, was sent, is stored. Rows are numbered from
     * 1. */
    uint64_t row, row_sent, row_stored; /* the newest that is wanted, was sent, is stored */
    uint64_t row_generation;            /* the first with the present generation */
    uint64_t row_final;                 /* the first that says how it ended */
    uint64_t row_let_go;     /* the first that says all that was done with a version let go */
    unsigned store_failures; /* in a row */
    uint64_t store_again_ms; /* 0: nothing waits to be stored again */
    char *store_problem, *shown_reason; /* owned; NULL: none yet */
    struct job_record shown;            /* borrows from record */
    enum job_state state_before;        /* it ended */
    struct row_answer *answers;
    size_t answer_count, answer_capacity;

    struct dataset_info train, test; /* their names of fields are field_names */
    uint64_t epoch_records;          /* of train, without what training.drop_last leaves out */
    char **field_names;              /* owned */
    struct given_variables given;    /* of model.program, model.onnx, from */
    uint64_t from_fingerprint;       /* of the values of `from`; 0: no worker has looked yet */
    char *rows_from;                 /* the checkpoint with the first rows of tables; NULL: none */
    uint64_t rows_manifest;
    uint64_t slots_version; /* its shards begin with, when they take the slots of a source */
    struct variable_spec *given_own; /* owned: the variables of `given` */
    char *encoding;                  /* what was measured on the train records; NULL: unknown */
    struct plan plan;
    bool has_plan;
    struct step_map step_map; /* begins with the training, the checkpoint or the last change */
    uint64_t version_shift;   /* sync: version of a shard = step + this (modulo 2^64) */
    struct leases leases;     /* async, bounded */
    uint64_t next_evaluate, next_checkpoint;    /* steps at which they are due; NO_STEP: never */
    uint64_t evaluated_step, checkpointed_step; /* NO_STEP: none */

    struct job_worker *workers;
    size_t worker_count, worker_capacity;
    size_t parked_count; /* of its workers */
    struct shard_state *shards;
    size_t shard_count;
    bool regroup_needed; /* the shards know other workers than there are */
    bool standby_moved;  /* a shard has another place or backup, or none any more, and does not know
                          */
    bool refill;         /* look for servers for the backups that shards lack */
    uint64_t adopted_ms; /* when that was done; 0: never */
    uint64_t refill_after_ms; /* not before this time; 0: now */
    unsigned refill_failures; /* backups in a row that did not come to follow */
    bool quiesced; /* async, bounded: all hold; the regrouping says whether the shards are level */
    struct refusal refused[JOB_REFUSED_MAX]; /* a ring */
    size_t refused_count;
    size_t workers_fit; /* more do not fit in the memory of its servers; 0: not known */

    uint64_t step_limit;               /* sync */
    bool hold_limit;                   /* sync: it is where a hold ends */
    bool hold_checkpoint, hold_cancel; /* asked for and not begun */
    uint64_t saved_ms,
        saved_epoch; /* its last checkpoint, or its start; training.checkpoint_within */
    bool resizing;   /* it is to move to as many servers as its file says (resize_due.c), */
    bool moves;      /* and has stopped for that: its workers are kept for it until it runs again */
    bool cannot_save;        /* a server could not write a checkpoint when it opened its shard */
    char *move_refused;      /* why it did not move; to be shown when it runs; owned; NULL: none */
    char *preempted_by;      /* the id of the job that it is to make way for; owned; NULL: none */
    bool victim;             /* preempt.c: it would make way */
    bool awaited;            /* other jobs make way for it: it gets the next nodes */
    uint64_t yield_again_ms; /* the checkpoint to yield with failed; 0: it may be tried */
    unsigned yield_failures; /* so often, in a row */
    bool over;               /* training has ended; only FINISH is left */
    struct job_spec *change; /* the file that the job gets when it is QUIESCED next; owned */
    bool changing;           /* the job has the new file; not every shard knows of it */
    struct job_spec *undo;   /* meanwhile the file of before; NULL: it cannot be undone; owned */
    struct job_revision change_note; /* who asked for `change`, and what for */
    struct job_history undo_history; /* meanwhile that of the record before */
    bool set_waits;                  /* a client waits for the change: */
    uint64_t set_request;
    bool resume; /* starts from its newest checkpoint */
    bool adopts; /* an earlier master led it: where its shards are is not known yet (adopt.c) */
    struct adoption adoption; /* meanwhile */
    /* from this time on it goes on with fewer workers than its file says */
    uint64_t resume_fewer_ms;
    char *resume_reason; /* owned; NULL: none */
    /* directory of the checkpoint from which it goes on; NULL: none; owned */
    char *restore;
    char *avoid[AVOID_MAX]; /* checkpoints that servers could not read since it last ran; owned */
    size_t avoid_count;
    char *avoid_why; /* what is wrong with the first of them, the newest; owned */
    char *warning;   /* to be shown when the job runs; owned; NULL: none */
    uint64_t find_number;
    bool history_starts; /* what waited for this start holds now, and is not stored yet */
    struct sync_point sync_point;
    struct checkpoint_base base;
    uint64_t retry_ms;  /* the sync point is pinned, or its checkpoint written, again then; 0: no */
    uint64_t prune_row; /* with this row stored older checkpoints may go; 0: none have to */
    size_t prune_keep;
    unsigned pin_count;
    struct chunk *chunks;
    size_t chunk_count, chunk_next, chunk_merged;
    struct metrics test_sums;
    struct waiter waiters[MASTER_CHECKPOINT_WAITERS];
    size_t waiter_count;
    uint64_t manifest_number; /* of the PREPARE, MANIFEST or DISCARD that is under way */

    struct epoch_metrics epochs[EPOCHS_OPEN];
    uint64_t training_ms;      /* time in RUNNING before running_since_ms */
    uint64_t running_since_ms; /* since when it is in RUNNING; otherwise 0 */
    bool running;
    struct rate_sample samples[RATE_SAMPLES];
    size_t sample_count; /* ever */
};

#endif
