/* SPDX-License-Identifier: Apache-2.0 */
/* The master's decisions: which nodes serve which job, what they do next, what is due.
 *
 * A pure core: events go in with their time, actions come out; no clock, thread, socket, file or
 * log inside, so that a simulator can run it. Every outcome is a function of the events.
 *
 * Owner: one thread (the loop of the shell, or a test). What an action points to lives until the
 * next master_step(); whoever needs it longer copies it.
 *
 * The core trusts that a completed call of its own says what the node answered, not that the answer
 * makes sense; an answer that cannot be true fails the job with a message. */
#ifndef GRADUS_MASTER_CORE_MASTER_H
#define GRADUS_MASTER_CORE_MASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/dataset.h"
#include "job/progress/consistency.h"
#include "job/progress/fence.h"
#include "job/progress/ledger.h"
#include "job/plan/plan.h"
#include "job/progress/step_times.h"
#include "master/core/checkpoint_files.h"
#include "master/core/drain.h"
#include "master/core/job_record.h"
#include "master/core/lease.h"
#include "master/core/standby.h"

struct master;

#define MASTER_NODES_MAX 1024        /* a cluster beyond that needs more than one master */
#define MASTER_JOBS_PER_PS_MAX 16    /* the protocol's */
#define MASTER_CHECKPOINT_WAITERS 16 /* clients that wait for one job's checkpoint */
/* test records; fixed, because results are merged by chunk */
#define MASTER_EVALUATION_CHUNK 1024

struct master_config {
    uint64_t heartbeat_timeout_ms;  /* a node that is silent for so long is given up; */
    uint64_t ps_timeout_ms;         /* a server that holds a shard after this, where it is more */
    uint64_t heartbeat_interval_ms; /* 0: master_beat_ms() has one */
    size_t jobs_max;                /* PENDING or running at once */
    size_t finished_max;            /* remembered in memory; the store keeps more */
    /* Quotas of each owner; 0: any number. */
    size_t owner_running_max, owner_workers_max;
    uint64_t owner_ps_memory_max; /* bytes */
    bool preemption;              /* jobs make way for jobs of a higher priority, */
    uint64_t preempt_after_ms;    /* when they have run for so long */
    /* Random numbers of this process, from which it draws the jobs' secrets (0, 1) and the numbers
     * of their openings (2); never told to anybody. */
    uint64_t seeds[3];
};

struct master *master_new(const struct master_config *config);
/* Nodes are told to send a heartbeat so often. One that misses two is late. */
uint64_t master_beat_ms(const struct master_config *config);
void master_free(struct master *m);

/* ---- events ---- */

enum master_role { MASTER_PS = 1, MASTER_WORKER = 2 }; /* the numbers of NodeRole */

enum master_event_kind {
    /* A job from the store, in the order of submission, before anything else. */
    MASTER_RESTORE,
    /* Requests of clients; each is answered by one reply. */
    MASTER_SUBMIT,
    MASTER_CANCEL,
    MASTER_CHECKPOINT, /* answered when the checkpoint is complete */
    MASTER_SET,        /* answered when the change is in force */
    MASTER_PAUSE,      /* answered when it is stored that the job is to be paused */
    MASTER_RESUME,     /* a job that is paused or has ended waits for its turn; answered likewise */
    MASTER_REMOVE,     /* answered when the job has ended and no node has anything of it */
    MASTER_DROP,       /* a node is gone for good */
    MASTER_DRAIN,      /* what a node has goes elsewhere; answered with what it has still */
    /* Requests of nodes; each is answered by one reply. */
    MASTER_JOIN,
    MASTER_HEARTBEAT,
    MASTER_LEAVE,
    /* No process listens at the address of a node whose heartbeat is late, or to which a connection
     * broke. No reply. */
    MASTER_UNREACHABLE,
    MASTER_LEASE_SPLIT, /* may wait until its wait_ms */
    MASTER_REPORT_SPLIT,
    MASTER_REPORT_PROGRESS,
    MASTER_REPORT_FAILURE,
    /* A call that the master asked for has ended. */
    MASTER_CALL_DONE,
    /* The directory of a checkpoint is there and empty (or gone, when that was wanted), or not. */
    MASTER_PREPARE_DONE,
    /* The manifest of a checkpoint is written, or not. */
    MASTER_MANIFEST_DONE,
    /* The newest checkpoint of a job was looked for. */
    MASTER_FOUND,
    /* A row is stored, or could not be. */
    MASTER_STORED,
    MASTER_TICK, /* the time of the timer has come */
};

struct master_restore_event {
    struct job_record *record; /* moved from: the core takes its content */
    struct job_spec *spec;     /* the file of a job that has not ended (moved from), else NULL */
    const char *spec_error; /* why such a job has no spec: it waits for a master that can read it */
    bool hold;              /* the job is paused if it has not ended */
};
struct master_submit_event {
    struct job_spec *spec;  /* moved from when the job is made; otherwise the caller keeps it */
    const char *request_id; /* "" none */
    uint64_t number;        /* number of the id; 0: the least that no job in memory is above */
    const char *owner;      /* the submitter; NULL or "": not known */
};
struct master_set_event {
    const char *job;
    struct job_spec *spec; /* moved from when it is taken; otherwise the caller keeps it */
    /* the text that @spec is a change of; ERR_ABORTED when the job has another by now */
    const char *base;
    struct job_set_words words;
};
struct master_resume_event {
    const char *job;
    /* Of a job that has ended: its file from now on, and the text that it is a change of; the spec
     * is moved from when the job goes on. NULL for a paused job. ERR_ABORTED: the job is not in
     * that state, or its text has changed. */
    struct job_spec *spec;
    const char *base;
    struct job_set_words words; /* of that spec */
};
struct master_cancel_event {
    const char *job;
    bool now;
};
struct master_join_event {
    int role;
    uint32_t protocol; /* RELEASE_PROTOCOL of its program */
    uint64_t incarnation, pid;
    const char *name, *address, *http_address, *version, *host;
};
#define MASTER_WORKS_MAX 8 /* works of a node; more are not looked at */
struct master_work {       /* what keeps a node busy: Work of cluster.proto */
    const char *job, *what, *unit;
    uint64_t done, total, age_ms;
};
struct master_node_event { /* the node that sends a heartbeat, or leaves */
    const char *node;
    uint64_t incarnation;
    const char *const *jobs;     /* heartbeat: the jobs that it holds */
    const uint64_t *generations; /* and the newest assignment that it has taken of each; or NULL */
    /* A server: which opening its shard is of; a worker: which start; 0: not said; or NULL. */
    const uint64_t *openings;
    const struct master_standby_said *standbys; /* a server: of these shards; or NULL */
    bool leaves;                                /* it is to end, and would be emptied first */
    size_t job_count;
    const struct master_work *works;
    size_t work_count;
    uint64_t
        broken_ms; /* UNREACHABLE: its connection was broken when it was looked for, then; or 0 */
};
struct master_epoch_progress {
    uint64_t epoch, batches, examples;
    const double *sums; /* metrics_pack() */
    size_t sum_count;
};
/* LEASE_SPLIT, REPORT_*: which worker, about which job, and the fields of that request. */
struct master_worker_event {
    const char *node;
    uint64_t incarnation;
    const char *job;
    uint64_t generation;
    uint64_t wait_ms; /* LEASE_SPLIT */
    const struct lease *held;
    size_t held_count;
    uint64_t epoch; /* REPORT_SPLIT */
    uint32_t split, batch_end;
    uint64_t sequence, position; /* REPORT_PROGRESS */
    uint64_t dropped, speculated;
    bool idle;
    const struct master_epoch_progress *epochs;
    size_t epoch_count;
    const uint64_t *staleness;
    size_t staleness_count;
    struct step_times times;
    int code; /* REPORT_FAILURE: ERR_* */
    const char *message;
};
#define MASTER_PINS_MAX 4 /* on a shard */
/* The answer of a node; it has the fields of its kind of call. */
struct master_call_done {
    uint64_t number;
    const struct err *err; /* NULL: well */
    /* INSPECT; test.records 0: no test source */
    struct dataset_info train, test;
    struct given_variables given; /* of a job whose variables only workers know */
    const char *from;          /* of a job with `from` that begins: what is taken; NULL: nothing */
    uint64_t from_fingerprint; /* of these values */
    const char *rows_from;  /* the checkpoint that has rows of tables; NULL or "": none is taken */
    uint64_t rows_manifest; /* of that checkpoint */
    uint64_t slots_version; /* with from.slots: updates that its slots have seen; else 0 */
    const char *encoding;   /* what was measured on the train records; NULL or "": unknown */
    /* OPEN, MEMBERSHIP, PIN, UNPIN, CHECKPOINT */
    uint64_t version;
    const struct ledger *ledger;                    /* of that version; may be NULL */
    uint64_t examples, pushes, duplicates, dropped; /* all but CHECKPOINT */
    struct {                                        /* MEMBERSHIP: what is pinned there */
        const char *id;
        uint64_t version;
        bool slots;
    } pins[MASTER_PINS_MAX];
    size_t pin_count;
    /* ASSIGN */
    uint64_t position;
    /* EVALUATE: metrics_pack() */
    const double *sums;
    size_t sum_count;
    /* CHECKPOINT */
    const char *file;
    uint64_t bytes, checksum;
    bool delta;          /* of the base that the call named */
    const char *problem; /* OPEN: why this server could not write a checkpoint; "" or NULL: none */
};
struct master_files_done { /* PREPARE, MANIFEST */
    uint64_t number;       /* of the action */
    const struct err *err; /* NULL: well */
    const char *path;      /* MANIFEST: absolute */
};
struct master_stored {
    const char *job;
    uint64_t row;          /* of the action */
    const struct err *err; /* NULL: durable */
};
struct master_found {
    uint64_t number;
    const struct err *err;  /* NULL: well, found or not */
    bool found;             /* otherwise the job has no complete checkpoint */
    const char *skipped;    /* why a newer one, or any, was passed over; "" or NULL: none was */
    const char *directory;  /* as in master_manifest: "<job>/step-000000500" */
    const char *path;       /* absolute */
    uint64_t step, version; /* version: of every shard */
    const struct ledger *ledger; /* the data position */
    uint64_t train_epoch;        /* as in master_manifest */
    const double *train_sums;
    size_t train_sum_count;  /* 0: of before there were any */
    const struct best *best; /* as in master_manifest; NULL: none was noted */
    const char *encoding;    /* what was measured on the train records; NULL: it is not kept */
    const char *best_path;   /* absolute, of the version that it keeps; NULL: it is not there */
};

struct master_event {
    enum master_event_kind kind;
    uint64_t now_ms;  /* monotonic, never falling */
    int64_t wall_ms;  /* Unix time */
    uint64_t request; /* chosen by the shell; names the request in its reply */
    union {
        struct master_restore_event restore;
        struct master_submit_event submit;
        struct master_cancel_event cancel;
        struct master_set_event set;
        struct master_resume_event resume;
        const char *job; /* CHECKPOINT, PAUSE, REMOVE */
        const char *id;  /* DROP: the node's */
        struct master_drain_event drain;
        struct master_join_event join;
        struct master_node_event node;
        struct master_worker_event worker;
        struct master_call_done call;
        struct master_files_done prepare;
        struct master_files_done manifest;
        struct master_found found;
        struct master_stored stored;
    };
};

/* ---- actions ---- */

enum master_action_kind {
    MASTER_REPLY,    /* answer a request */
    MASTER_CALL,     /* call a node; CALL_DONE follows, or never */
    MASTER_PREPARE,  /* make an empty directory for a checkpoint; PREPARE_DONE follows */
    MASTER_MANIFEST, /* write a checkpoint's manifest; MANIFEST_DONE follows */
    MASTER_PRUNE,    /* remove old checkpoints; nothing follows */
    MASTER_FIND,     /* look for the newest complete checkpoint of a job; FOUND follows */
    MASTER_STORE,    /* write the job's row, in the order of the actions; STORED follows */
    MASTER_CHANGED,  /* tell the job's watchers */
    MASTER_LOG,      /* one line for the log */
};

enum master_lease_kind { MASTER_LEASE_WAIT, MASTER_LEASE_GRANTED, MASTER_LEASE_DONE };

struct master_reply {
    uint64_t request;
    struct err err;               /* code 0: success, and the fields of that kind of request */
    const struct job_record *job; /* SUBMIT, CANCEL, SET, PAUSE, RESUME */
    const char *path;             /* CHECKPOINT */
    uint64_t step;
    const char *node;              /* JOIN, DROP, DRAIN: the id */
    bool was_alive;                /* DROP, DRAIN */
    struct master_drained drained; /* DRAIN */
    const char *const *stop_jobs;  /* HEARTBEAT */
    const uint64_t *stop_openings; /* their openings, where the node has said which it has */
    size_t stop_job_count, stop_opening_count;
    const char *unready; /* JOIN, HEARTBEAT: why a server should not be ended now; NULL: it may */
    bool moves;          /* HEARTBEAT of one that leaves: it has what is about to be elsewhere */
    enum master_lease_kind lease_kind; /* LEASE_SPLIT */
    struct lease lease;
};

/* The rows say which call is which; the calls of the protocol page with their retry rules. */
#define MASTER_CALLS(X)                                                                            \
    X(INSPECT, "InspectData")                                                                      \
    X(OPEN, "OpenShard")                                                                           \
    X(START, "StartJob")                                                                           \
    X(MEMBERSHIP, "SetMembership")                                                                 \
    X(ASSIGN, "Assign")                                                                            \
    X(PIN, "Pin")                                                                                  \
    X(EVALUATE, "Evaluate")                                                                        \
    X(CHECKPOINT, "Checkpoint")                                                                    \
    X(UNPIN, "Unpin")                                                                              \
    X(STOP, "StopJob")                                                                             \
    X(CLOSE, "CloseShard")

enum master_call_kind {
#define X(NAME, rpc) MASTER_CALL_##NAME,
    MASTER_CALLS(X)
#undef X
        MASTER_CALL_KIND_COUNT
};
const char *master_call_name(enum master_call_kind kind); /* "Assign" */

struct master_call {
    uint64_t number;
    enum master_call_kind kind;
    const char *node, *address;
    uint64_t incarnation; /* of the process that is meant */
    const char *job;
    struct fence fence;
    uint64_t generation; /* all but INSPECT */
    /* START, ASSIGN, EVALUATE: the start that is meant; STOP: the newest */
    uint64_t start;
    uint32_t shard; /* calls to a parameter server */
    struct master_standby_call standby;
    const char *text;           /* INSPECT, OPEN, START: the canonical job file */
    const struct plan *plan;    /* OPEN, START */
    const struct job_era *eras; /* OPEN, START, ASSIGN; MEMBERSHIP with a ledger: all, ≥ 1 */
    size_t era_count;
    const struct ledger *ledger; /* OPEN, ASSIGN; MEMBERSHIP: NULL when nothing but it changes */
    uint64_t version;            /* OPEN, MEMBERSHIP: the version of these */
    bool forget_pins;            /* MEMBERSHIP: those that an earlier master made, */
    const char *keep_pin;        /* but for this one; "" or NULL: none */
    const char *restore;         /* OPEN: directory of a checkpoint; "": initial values */
    const char *rows_from;  /* OPEN: then the checkpoint with the first rows of tables; or "" */
    uint64_t rows_manifest; /* OPEN: the rows of that checkpoint */
    const struct consistency *consistency; /* OPEN, MEMBERSHIP, ASSIGN */
    const char *const *workers;            /* OPEN, MEMBERSHIP */
    size_t worker_count;
    /* ASSIGN, EVALUATE, START when workers bring initial values: where they are in it */
    const struct master_shard_location *shards;
    size_t shard_count;
    const struct dataset_info *train, *test; /* START; test->records 0: none */
    uint64_t given_fingerprint;              /* of the model of a program; 0: none */
    uint64_t from_fingerprint;               /* of the values of `from`; 0: not known */
    bool begins;                             /* INSPECT: it has no checkpoint yet */
    const char *encoding; /* INSPECT, START: of a job that took it from its source; or "" */
    uint32_t replica_first, replica_end; /* ASSIGN */
    uint64_t step, step_limit, ledger_step;
    bool hold;
    const struct lease *leases; /* ASSIGN */
    size_t lease_count;
    const char *pin_id;      /* PIN, UNPIN, CHECKPOINT, EVALUATE */
    bool slots;              /* PIN */
    const char *directory;   /* CHECKPOINT: "<job>/step-000000500" */
    struct master_base base; /* CHECKPOINT */
    uint64_t first, count;   /* EVALUATE */
    const char *reason;      /* STOP */
};

struct master_store {
    uint64_t row; /* number of the row of this job; later rows have higher numbers */
    const struct job_record *job;
};

struct master_manifest {
    uint64_t number;
    const struct job_record *job;
    const struct job_spec *spec;
    const struct plan *plan;
    const struct ledger *ledger; /* the data position of the checkpoint */
    /* the epoch of the last batch before it, and its metrics so far: */
    uint64_t train_epoch;
    const double *train_sums; /* metrics_pack() */
    size_t train_sum_count;   /* 0: they are not all known */
    uint64_t step, examples, generation;
    const char *directory; /* as in the CHECKPOINT calls */
    /* base of the checkpoint if it may be a delta, which it is when a file is; else NULL */
    const char *base;
    const char *encoding; /* as an inspection had it; NULL: unknown */
    uint64_t model_file;  /* as in the manifest; 0: there is none, or it is not known */
    struct best best;     /* as of its step */
    bool result_is_best;  /* the job ends with it, and the result is the version that best says */
    const struct master_shard_file *shards; /* [plan->shard_count] */
};

struct master_log {
    int level; /* enum log_level */
    const char *event, *text;
};

struct master_action {
    enum master_action_kind kind;
    union {
        struct master_reply reply;
        struct master_call call;
        struct master_prepare prepare;
        struct master_manifest manifest;
        struct master_prune prune;
        struct master_find find;
        struct master_store store;
        const struct job_record *job; /* CHANGED: what clients see */
        struct master_log log;
    };
};

/* Zeroed is valid. */
struct master_actions {
    struct master_action *items;
    size_t count, capacity;
    uint64_t timer_ms; /* when MASTER_TICK is due; UINT64_MAX: never */
    void **owned;      /* memory of what the items point to */
    size_t owned_count, owned_capacity;
};
void master_actions_release(struct master_actions *a);

/* Take @event and say in @actions (cleared first) what is to be done, in this order. */
void master_step(struct master *m, const struct master_event *event,
                 struct master_actions *actions);

/* ---- reading ---- */

/* NULL: unknown. Rates, seconds and ETA are brought up to @now_ms. Borrows until the next step. */
const struct job_record *master_job(struct master *m, const char *id, uint64_t now_ms);
/* The @i-th newest job; NULL past the end. */
const struct job_record *master_job_at(struct master *m, size_t i, uint64_t now_ms);
/* The @i of job @id in master_job_at(); SIZE_MAX: unknown. */
size_t master_job_place(const struct master *m, const char *id);
/* The job's phase and work inside its state, for logs and tests: "TRAIN", "EVALUATE"; "-": none. */
const char *master_job_phase(const struct master *m, const char *id);
const char *master_job_work(const struct master *m, const char *id);

struct master_node_info {
    const char *id, *address, *http_address, *version, *host;
    enum master_role role;
    bool alive, gone;        /* gone: it left, or it was lost and another node has its place */
    const char *const *jobs; /* borrows until the next call */
    size_t job_count;
    int64_t joined_ms; /* Unix time */
    uint64_t heartbeat_age_ms, incarnation, pid;
    bool late;         /* its heartbeat */
    bool draining;     /* it gets nothing new, and what it has goes elsewhere */
    char unready[256]; /* why it should not be ended now; "": it may */
};
/* The @i-th node in the order of joining; false past the end. */
bool master_node_at(struct master *m, size_t i, uint64_t now_ms, struct master_node_info *out);

struct master_counts {
    size_t jobs[JOB_STATE_END]; /* jobs in memory, by state */
    size_t nodes_alive[3];      /* by role */
    uint64_t steps, examples;   /* of all jobs since the start */
    uint64_t leases_granted, leases_returned, calls, call_failures, nodes_lost;
    uint64_t recoveries, preemptions, changes, dropped, speculated, takeovers, adoptions;
    size_t leases_out, calls_open, servers_awaited, shards_alone; /* those as of the last event */
};
void master_counts(const struct master *m, struct master_counts *out);

#endif
