/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the master's core. Only the files of the core include this.
 *
 * What a job is at is its `phase`; what of its milestone is being done beside is its `work`:
 *
 *   NONE ─▶ PIN ─▶ EVALUATE? ─▶ (PREPARE ─▶ CHECKPOINT ─▶ MANIFEST)? ─▶ UNPIN ─▶ NONE
 *
 * A checkpoint that fails goes by way of DISCARD, and the one at the end from there back to
 * PREPARE, with pauses, until there is room or somebody cancels. advance.c has the phases and how
 * they follow each other.
 *
 * In async and bounded modes a hold is followed by a regrouping (`standing`): its answers say what
 * every shard has. When they differ, because a worker died between two shards, what only some have
 * is leased first, and the hold begins again. So whatever happens in STAND happens to one cut.
 *
 * A change of the job's file (`change`) waits for a STAND and goes to the shards with the next
 * regrouping (`changing`). A job that lost a parameter server or its master (`resume`) gives up all
 * nodes, waits in RECOVERING as if it were PENDING, and starts from its newest checkpoint.
 *
 * Once a milestone is pinned training goes on beside its work; the next one waits in STAND for the
 * end of that work. In async and bounded modes an evaluation within an epoch is pinned without
 * standing. */
#ifndef GRADUS_MASTER_CORE_CORE_H
#define GRADUS_MASTER_CORE_CORE_H

#include "base/log.h"
#include "job/progress/course.h"
#include "master/core/call.h"
#include "master/core/master.h"

#define ID_ROOM (JOB_ID_BYTES_MAX + 1)
#define START_BACKOFF_MS_MIN                                                                       \
    500 /* after the second start in a row that failed; then twice as long */
#define START_BACKOFF_MS_MAX 30000
#define START_GRACE_MS                                                                             \
    1000 /* between the workers that it takes and those that load the data for longer */
#define EVALUATE_FAILURES_MAX 3   /* of one chunk */
#define CHECKPOINT_ATTEMPTS_MAX 3 /* of a cancelled job, before it ends without a new one */
#define CHECKPOINT_BACKOFF_MS_MIN                                                                  \
    1000 /* before the last checkpoint is tried again; then twice as long */
#define CHECKPOINT_BACKOFF_MS_MAX 60000
#define AVOID_MAX 64          /* checkpoints that could not be read, before all are tried again */
#define JOB_REFUSED_MAX 16    /* workers that a running job does without */
#define RESUME_FEWER_MS 10000 /* before a job that recovers goes on with fewer workers */
#define JOB_REFUSED_MS 10000  /* before one that had no memory is asked again */
#define STORE_BACKOFF_MS_MIN 200 /* after a row that could not be stored; then twice as long */
#define STORE_BACKOFF_MS_MAX                                                                       \
    5000                /* an attempt costs little, and what waits for it stands still             \
                         */
#define RATE_SAMPLES 12 /* one a second: the window of the recent rate */
#define EPOCHS_OPEN 4   /* epochs whose metrics may still arrive */
#define NO_STEP UINT64_MAX
#define HEARTBEATS_WITHOUT_MAX 2 /* in a row, that do not name a job which the node should have */
#define NODE_READ_MS 50          /* messages that have come are read by then */
#define LEASES_PER_WORKER 2      /* the one in hand, and the next one, asked for in advance */

struct job;

struct node_work { /* as master_work, with times of the master */
    char job[ID_ROOM], what[24], unit[16];
    uint64_t done, total;
    uint64_t since_ms;
    uint64_t moved_ms; /* when `done` was another one; where nobody can say: the last heartbeat */
};

struct node {
    uint64_t number; /* never used again */
    enum master_role role;
    uint64_t incarnation, pid;
    char *id, *address, *http_address, *version, *host;
    bool alive;
    bool left;    /* it said so itself */
    bool doubted; /* since its last heartbeat another process wanted its address: it is given
                     nothing */
    int64_t joined_wall_ms;
    uint64_t heartbeat_ms;  /* when the last one came */
    uint64_t overdue_ms;    /* when it was seen that it is late; before heartbeat_ms: it is not */
    unsigned overdue_again; /* times that this was put off, because the master itself was late */
    struct node_work works[MASTER_WORKS_MAX]; /* what keeps it busy, as it said last */
    size_t work_count;
    struct job *jobs[MASTER_JOBS_PER_PS_MAX]; /* that it serves or is being told to drop */
    size_t job_count;                         /* a worker: at most 1 */
};

enum phase {
    PHASE_NONE,    /* nothing of it runs */
    PHASE_INSPECT, /* STARTING, or RECOVERING from a checkpoint: a worker says what the data are */
    PHASE_FIND,    /* its newest checkpoint is looked for */
    PHASE_OPEN,    /* the servers make its shards */
    PHASE_START,   /* the workers load the data */
    PHASE_REGROUP, /* RUNNING: the shards are told the new generation */
    PHASE_ASSIGN,  /* the workers are told what to do in it, up to which step */
    PHASE_TRAIN,   /* they compute */
    PHASE_HOLD,    /* they are asked to stop as soon as possible */
    PHASE_STAND,   /* they stand at a milestone, which waits for the one before, or is pinned */
    PHASE_FINISH,  /* nothing is left to compute; the last milestone's work goes on */
    PHASE_WAIT,    /* RECOVERING: for a worker; the shards are there */
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

enum verdict { VERDICT_NONE, VERDICT_RESTART, VERDICT_RECOVER, VERDICT_END };

struct job_worker {
    struct node *node;
    bool started;      /* its StartJob was answered */
    bool member;       /* and every shard has heard of it */
    unsigned without;  /* heartbeats since then that did not name the job */
    uint64_t taken;    /* the newest generation whose Assign it answered; 0: none */
    bool assigned;     /* has a share of this generation */
    bool idle, held;   /* since the last Assign: stands still; answered a hold */
    uint64_t position; /* sync: the step that it holds; else batches since it started */
    uint64_t sequence;
    uint64_t from;                          /* sync: the step that its Assign begins with */
    struct lease leases[LEASES_PER_WORKER]; /* oldest first */
    size_t lease_count;
    bool parked; /* a LeaseSplit waits */
    uint64_t parked_request, parked_until_ms;
    bool evaluating;
    uint32_t chunk; /* then: the one that it does */
};

enum chunk_state { CHUNK_TODO, CHUNK_OUT, CHUNK_DONE };
struct chunk { /* of an evaluation */
    enum chunk_state state;
    unsigned failures;
    uint64_t failed_node; /* number of the last one */
    double *sums;         /* until it is merged */
    size_t sum_count;
};

struct shard_state { /* of one parameter server, in the order of shards */
    struct node *node;
    bool opened;      /* OpenShard was sent */
    bool answered;    /* and answered */
    unsigned without; /* heartbeats since then that did not name the job */
    uint64_t version; /* as it said last */
    char *file;       /* of the checkpoint in the making */
    uint64_t bytes, checksum;
    uint64_t file_version;
    struct ledger ledger; /* async, bounded: as it said last; a complete epoch is the next one's
                             beginning */
    bool has_ledger;
};

struct milestone {
    uint64_t step, examples;
    bool evaluate, checkpoint, last, cancel;
    bool stand;          /* nothing may move until it is pinned */
    bool attempt_failed; /* the present one; its other answers are still waited for */
    bool failed;         /* the checkpoint */
    unsigned attempts;   /* of it that failed */
    char *why;           /* the last one did; owned */
    char pin_id[64];
    char directory[ID_ROOM + 32];
    double epoch;
    uint64_t data_epoch; /* that its last batches are of */
    uint64_t version;    /* sync: of every shard */
    struct job_metrics train;
    double *train_sums; /* of data_epoch, at the cut; owned; NULL: they are not all known */
    size_t train_sum_count;
    struct ledger ledger; /* the data position */
};

struct waiter { /* a client that waits for a checkpoint */
    uint64_t request;
    bool served; /* by the milestone that is being worked on */
};

struct row_answer { /* a client that waits until its request is stored */
    uint64_t request, row;
};

struct epoch_metrics {
    bool used;
    bool part; /* what came before a recovery is not in it */
    uint64_t epoch, batches;
    struct metrics sums;
};

struct rate_sample {
    uint64_t ms, examples, step;
};

struct refusal {       /* a worker that the job does without */
    uint64_t node;     /* its number; 0: none */
    uint64_t until_ms; /* UINT64_MAX: as long as the job runs */
};

struct job {
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
    bool chosen;                  /* its nodes were: it may start */
    bool inspected;               /* its data are known */
    bool found;                   /* its newest checkpoint is, or that there is none */
    bool released;                /* nothing is due where it stands, or that is pinned */
    enum verdict verdict;         /* it cannot go on like this */
    enum job_state verdict_state; /* END: how */
    char *verdict_reason;         /* owned; NULL: none yet */
    char *lost_last;              /* which worker, and why, in words; owned; NULL: none was */
    bool told;                    /* clients know that it has ended */

    unsigned start_failures; /* since it last ran */
    uint64_t opening;        /* of its shards, drawn for each start */
    uint64_t start_after_ms; /* it is not started again before */
    uint64_t go_ms;          /* it begins with those who have started by then; 0: not known */

    /* Its row (row.c). Rows are numbered from 1. */
    uint64_t row, row_sent, row_stored; /* the newest that is wanted, was sent, is stored */
    uint64_t row_generation;            /* the first with the present generation */
    uint64_t row_final;                 /* the first that says how it ended */
    unsigned store_failures;            /* in a row */
    uint64_t store_again_ms;            /* 0: nothing waits to be stored again */
    char *store_problem, *shown_reason; /* owned; NULL: none yet */
    struct job_record shown;            /* borrows from record */
    enum job_state state_before;        /* it ended */
    struct row_answer *answers;
    size_t answer_count, answer_capacity;

    struct dataset_info train, test;
    struct plan plan;
    bool has_plan;
    struct course course;   /* from the beginning, the checkpoint or the last change on */
    uint64_t version_shift; /* sync: version of a shard = step + this (modulo 2^64) */
    struct leases leases;   /* async, bounded */
    uint64_t next_evaluate, next_checkpoint;    /* steps at which they are due; NO_STEP: never */
    uint64_t evaluated_step, checkpointed_step; /* NO_STEP: none */

    struct job_worker *workers;
    size_t worker_count, worker_capacity;
    struct shard_state *shards;
    size_t shard_count;
    bool regroup_needed; /* the shards know other workers than there are */
    bool standing; /* async, bounded: all hold; the regrouping says whether the shards are level */
    struct refusal refused[JOB_REFUSED_MAX]; /* a ring */
    size_t refused_count;
    size_t workers_fit; /* more do not fit in the memory of its servers; 0: not known */

    uint64_t step_limit;               /* sync */
    bool hold_limit;                   /* sync: it is where a hold ends */
    bool hold_checkpoint, hold_cancel; /* asked for and not begun */
    bool over;                         /* training has ended; only FINISH is left */
    struct job_spec *change;           /* what its file becomes at the next STAND; owned */
    bool changing;                     /* it is the job's; not every shard knows */
    struct job_spec *undo;             /* what it was before, meanwhile; NULL: no way back; owned */
    bool set_waits;                    /* a client waits for it: */
    uint64_t set_request;
    bool resume;              /* starts from its newest checkpoint */
    uint64_t resume_fewer_ms; /* from then on with fewer workers than its file says */
    char *resume_reason;      /* owned; NULL: none */
    char *restore;            /* directory of that checkpoint; NULL: none; owned */
    char *avoid[AVOID_MAX];   /* checkpoints that servers could not read since it last ran; owned */
    size_t avoid_count;
    char *warning; /* to be shown when it runs; owned; NULL: none */
    uint64_t find_number;
    struct milestone milestone;
    uint64_t retry_ms;  /* the milestone is pinned, or its checkpoint written, again then; 0: no */
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
    uint64_t training_ms;      /* before running_since_ms */
    uint64_t running_since_ms; /* in RUNNING; else 0 and not running */
    bool running;
    struct rate_sample samples[RATE_SAMPLES];
    size_t sample_count; /* ever */
};

struct master {
    struct master_config config;
    uint64_t now_ms, before_ms; /* the latter: of the step before */
    uint64_t timer_ms; /* when the next event should have come at the latest; 0: not known */
    int64_t wall_ms;
    struct master_actions *actions; /* of the step that is running */
    struct node **nodes;
    size_t node_count, node_capacity;
    struct job **jobs; /* in the order of submission */
    size_t job_count, job_capacity;
    struct call_table calls;
    uint64_t next_number;  /* of nodes, calls and manifests */
    uint64_t next_name[3]; /* of nodes by role */
    uint64_t secrets_drawn, openings_drawn;
    bool reschedule;        /* nodes or jobs changed: see what can start */
    struct job *answer_job; /* is shown to this request when the event is dealt with; NULL: none */
    uint64_t answer_request;
    bool sweep; /* a job has memory to free at the beginning of the next step */
    struct master_counts counts;
    const char *job_names[MASTER_JOBS_PER_PS_MAX]; /* for master_node_at() */
};

/* actions.c */
void actions_clear(struct master_actions *a);
struct master_action *action_add(struct master *m, enum master_action_kind kind);
void *action_memory(struct master *m, size_t count, size_t size); /* as long as the actions live */
void action_own(struct master *m, void *memory);                  /* freed with the actions */
char *action_printf(struct master *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void action_log(struct master *m, enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
struct master_reply *reply_add(struct master *m, uint64_t request);
void reply_error(struct master *m, uint64_t request, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* node.c */
struct node *node_named(struct master *m, const char *id);
struct node *node_find(struct master *m, const char *id, uint64_t incarnation); /* alive */
bool node_serves(const struct node *n, const struct job *j);
void node_take(struct node *n, struct job *j);
void node_drop(struct master *m, struct node *n, struct job *j);
void node_works(struct node *n, const struct master_event *heartbeat); /* what it is at */
void node_free(struct node *n);
uint64_t node_timer(const struct master *m, const struct node *n); /* when it is looked at next */
void nodes_late(struct master *m, uint64_t late_ms);
/* It should have sent a heartbeat by now. */
bool node_is_late(const struct master *m, const struct node *n, uint64_t now_ms);

/* node_events.c */
void node_lost(struct master *m, struct node *n, const char *why);
void nodes_tick(struct master *m);
void on_join(struct master *m, const struct master_event *e);
void on_heartbeat(struct master *m, const struct master_event *e);
void on_leave(struct master *m, const struct master_event *e);
void on_unreachable(struct master *m, const struct master_event *e);

/* call_send.c */
void call_start(struct master *m, struct job *j, struct node *n, enum master_call_kind kind,
                uint32_t index);
void call_start_hold(struct master *m, struct job *j, struct node *n);
void call_send(struct master *m, struct call *c);          /* or let it wait for what it needs */
void call_again(struct master *m, struct call *c);         /* as soon as it may be sent */
void calls_unblock(struct master *m, const struct job *j); /* what they wait for may be there */

/* call_done.c */
void calls_tick(struct master *m);
void on_call_done(struct master *m, const struct master_call_done *done);

/* call_build.c: the fields of @c's kind. */
void call_build(struct master *m, const struct call *c, struct master_call *out);

/* job.c */
struct job *job_find(struct master *m, const char *id);
struct job *job_new(struct master *m);
bool job_is_sync(const struct job *j);
bool job_is_starting(const struct job *j); /* for the first time, or from a checkpoint */
bool job_is_pinning(const struct job *j);  /* a milestone at which all stand */
void job_changed(struct job *j);
void job_enter(struct master *m, struct job *j, enum job_state state, const char *reason);
void job_say(struct job *j, const char *reason); /* a new reason, same state */
struct job_worker *job_worker_of(struct job *j, const struct node *n); /* NULL: none */
struct job_worker *job_worker_add(struct job *j, struct node *n);
size_t job_workers_started(const struct job *j);
uint32_t job_workers_active(const struct job *j); /* that have a share */
void job_names_refresh(struct job *j);
const char *job_checkpoint_words(struct master *m, const struct job *j);
/* Facts: something is recorded; it ends, starts again from its newest checkpoint, or its start has
 * failed (back to PENDING; one that was recovering recovers again). */
void job_touch(struct job *j);
void job_must_end(struct job *j, enum job_state state, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void job_must_recover(struct job *j, const char *why);
void job_must_restart(struct job *j, const char *why);
bool job_is_ending(const struct job *j); /* one of these three was recorded */

/* job_worker.c */
void job_worker_remove(struct master *m, struct job *j, struct job_worker *w);
void job_worker_lost(struct master *m, struct job *j, struct node *n, const char *why);
void job_ps_lost(struct master *m, struct job *j, struct node *n, const char *why);
/* A worker that cannot take part, or not now: it is told to drop the job; the others go on. */
void job_drop_worker(struct master *m, struct job *j, struct node *n, const char *why);
/* @n cannot take part in @j: the others go on without it, for good or for a while. */
void job_leave_out(struct master *m, struct job *j, struct node *n, bool for_good, const char *why);

/* job_end.c */
void job_settle(struct master *m, struct job *j);  /* what was recorded by job_must_...() */
void job_stored(struct master *m, struct job *j);  /* what waited for its row */
void job_cleaned(struct master *m, struct job *j); /* one more node may have dropped the job */
void jobs_sweep(struct master *m);
void job_free(struct job *j);

/* advance.c */
void job_advance(struct master *m, struct job *j);
void jobs_advance(struct master *m); /* those that were touched */

/* client.c */
void on_restore(struct master *m, const struct master_event *e);
void on_submit(struct master *m, const struct master_event *e);
void on_cancel(struct master *m, const struct master_event *e);
void on_checkpoint(struct master *m, const struct master_event *e);

/* row.c */
void job_store(struct master *m, struct job *j);
/* Answer @request with the job when the row that it has now is stored. */
void row_reply(struct master *m, struct job *j, uint64_t request);
bool row_has_generation(const struct job *j); /* is the present one stored? */
bool row_has_end(const struct job *j);
void row_restored(struct job *j); /* it comes from the store */
/* What clients may know; lives as an action's content does. */
const struct job_record *job_shown(struct job *j);
void row_send(struct master *m, struct job *j);

/* row_stored.c */
void on_stored(struct master *m, const struct master_stored *done);
void rows_tick(struct master *m);

/* change.c */
void on_set(struct master *m, const struct master_event *e);
/* The job stands, and every shard is at its position: the pending change becomes its file. False:
 * it does not fit and is forgotten, or the job ends. */
bool change_begin(struct master *m, struct job *j);
void change_done(struct master *m, struct job *j);    /* every shard knows */
void change_settle(struct job *j);                    /* there is no way back any more */
void change_at_once(struct master *m, struct job *j); /* nothing of the job runs */
void change_forget(struct master *m, struct job *j, int code, const char *why);
/* A shard has not the memory for it, says @why: the file is what it was, and every shard hears of
 * that. False: it was being undone already, or nothing changes. */
bool change_undo(struct master *m, struct job *j, const char *why);

/* job_secret.c */
void fence_draw_secret(struct master *m, struct job *j); /* once, unless its row has one */
void fence_draw_opening(struct master *m, struct job *j);
struct fence fence_of(const struct job *j);

/* placement.c */
void schedule(struct master *m);
bool schedule_waits(const struct job *j); /* to be started */

/* start.c */
void start_begin(struct master *m, struct job *j); /* its nodes are chosen */
/* What would lie where if @spec were the file of the job, whose data are known. @out is zeroed.
 * Errors: those of model_new(), plan_make() and plan_update_check(). */
int start_plan(const struct job *j, const struct job_spec *spec, struct plan *out, struct err *err);
void start_inspect(struct master *m, struct job *j);
void start_inspect_done(struct master *m, struct job *j, const struct master_call_done *done);
int start_data_known(struct master *m, struct job *j); /* not 0: it ends */
void start_find(struct master *m, struct job *j);
void start_open(struct master *m, struct job *j);
void start_workers(struct master *m, struct job *j);
void start_end(struct master *m, struct job *j); /* all have started, or enough */
/* What @n answered shows that it could not write a checkpoint. */
void start_warn(struct master *m, struct job *j, const struct node *n, const char *problem);
/* A server could not open its shard: it has no memory for it now, or (ERR_RANGE) whatever else it
 * holds; it cannot read the checkpoint, or that is damaged (ERR_CORRUPT). */
void start_open_refused(struct master *m, struct job *j, const struct err *err, const char *why);
void start_avoid_clear(struct job *j);
void start_worker_done(struct master *m, struct job *j, struct node *n);
int start_check_data(struct job *j, struct err *err);
/* Errors: ERR_INVALID: a sync step would need more than the @records that there are. */
int start_check_replicas(const struct consistency *c, uint64_t records, struct err *err);
/* From @ledger on, which is the position at @step: everything that follows from job file and data.
 * Errors: ERR_INVALID. */
int start_course(struct job *j, uint64_t step, const struct ledger *ledger, struct err *err);
void on_found(struct master *m, const struct master_found *found);
uint32_t start_split_batches(uint64_t batches, uint64_t workers);

/* train.c */
uint64_t train_step(const struct job *j);   /* of the milestone that would be pinned now */
/* The data position there; @out is overwritten. */
void train_ledger(const struct job *j, uint64_t step, struct ledger *out);
void train_assign_from(struct job *j, uint64_t step); /* sync: every worker begins there */
void train_assign(struct master *m, struct job *j);
void train_assign_done(struct job *j, struct node *n, bool hold, uint64_t position);
void train_stands(struct master *m, struct job *j, struct job_worker *w);
bool train_is_at_end(const struct job *j);  /* nothing may be computed before the next pin */
bool train_wants_hold(const struct job *j); /* all must stop soon */
void train_hold(struct master *m, struct job *j);
bool train_hold_end(struct master *m, struct job *j);    /* all hold; false: not yet, or it ends */
void train_hold_broken(struct master *m, struct job *j); /* by a regrouping, if there is one */
void train_over(struct master *m, struct job *j); /* the last step is pinned: no more leases */

/* train_regroup.c */
void train_regroup(struct master *m, struct job *j);
int train_regroup_end(struct master *m, struct job *j); /* all shards have said; not 0: it ends */
void train_shard_said(struct job *j, uint32_t shard, const struct master_call_done *done);
/* A shard has no memory for a membership or a change, and is as it was. Others may have taken it;
 * the next generation makes all of them agree. */
void train_no_room(struct master *m, struct job *j, uint32_t shard, const char *why);

/* train_lease.c */
bool train_leases(const struct job *j);            /* does it lease splits? */
void train_grant(struct master *m, struct job *j); /* answer requests with what is free */
void train_grant_one(struct master *m, struct job_worker *w, const struct lease *lease);
void train_park_clear(struct master *m, struct job *j, struct job_worker *w, int code,
                      const char *why);
void train_no_more_leases(struct master *m, struct job *j);
void train_drop_finished(struct job *j); /* leases of what is done are over */
void train_give_back(struct master *m, struct job *j, struct job_worker *w);
void leases_tick(struct master *m);

/* worker_requests.c */
void on_lease_split(struct master *m, const struct master_event *e);
void on_report_split(struct master *m, const struct master_event *e);
void on_report_progress(struct master *m, const struct master_event *e);
void on_report_failure(struct master *m, const struct master_event *e);

/* progress.c */
void progress_init(struct job *j);
void progress_step(struct master *m, struct job *j, uint64_t step);
void progress_go_back(struct job *j, uint64_t step);
void progress_refresh(struct job *j, uint64_t now_ms);
void progress_train_metrics(struct job *j, uint64_t epoch, struct job_metrics *out);
/* metrics_pack() of the epoch's metrics so far; owned; NULL: they are not all known. */
double *progress_train_sums(const struct job *j, uint64_t epoch, size_t *count);
void progress_restore(struct job *j, const struct master_found *found);
/* Errors: those of metrics_unpack(). */
int progress_add_epoch(struct job *j, const struct master_epoch_progress *p, struct err *err);
void progress_show_train(struct job *j);

/* milestone_due.c */
uint64_t milestone_next(const struct job *j, uint64_t step); /* the next step to stand at */
void milestone_plan(struct job *j, uint64_t step); /* when the next ones after it are due */

/* milestone.c */
void milestone_advance(struct master *m, struct job *j);
void milestone_stop(struct job *j); /* whatever it is at; the job gives up its shards */
void milestone_begin(struct master *m, struct job *j, bool stand);
void on_prepare_done(struct master *m, const struct master_prepare_done *done);
void milestone_shard_done(struct master *m, struct job *j, uint32_t shard,
                          const struct master_call_done *done, enum master_call_kind kind);
void milestone_checkpoint_failed(struct master *m, struct job *j, const char *why);
void milestone_pin_failed(struct master *m, struct job *j, const char *why);
void milestone_prune(struct master *m, struct job *j);
void milestones_tick(struct master *m);
void milestone_waiters(struct master *m, struct job *j, bool all, int code, const char *message);
void milestone_release(struct job *j);
void on_manifest_done(struct master *m, const struct master_manifest_done *done);

/* evaluate.c */
void evaluate_begin(struct job *j);
void evaluate_pump(struct master *m, struct job *j);
bool evaluate_is_done(const struct job *j);
void evaluate_done(struct master *m, struct job *j, struct node *n, uint32_t chunk,
                   const struct master_call_done *done);
void evaluate_returned(struct job *j, const struct job_worker *w); /* @w is gone */
void evaluate_release(struct job *j);

#endif
