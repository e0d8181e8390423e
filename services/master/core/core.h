/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the master's core: its state, and what its files offer each other. Only the files of the
 * core include this. No two of them call each other (ARCHITECTURE.md). */
#ifndef GRADUS_MASTER_CORE_CORE_H
#define GRADUS_MASTER_CORE_CORE_H

#include "base/log_text.h"
#include "base/name_index.h"
#include "master/core/call.h"
#include "master/core/job.h"
#include "master/core/job_shard.h"
#include "master/core/node.h"
#include "master/core/resize.h"
#include "master/core/sync_point.h"

struct master {
    struct master_config config;
    uint64_t now_ms, before_ms; /* the latter: of the step before */
    uint64_t timer_ms;          /* when the next event should come at the latest; 0: not known */
    uint64_t late_ms;           /* a node that was not heard for so long is late */
    int64_t wall_ms;
    struct master_actions *actions; /* actions of the running step */
    struct node **nodes;
    size_t node_count, node_capacity;
    struct name_index node_index;          /* by id */
    struct node *heard_first, *heard_last; /* nodes that are alive, the longest silent first */
    size_t alive[3], dead_count;           /* by role */
    uint64_t dead_ms;                      /* no dead one was heard before; 0 dead: no meaning */
    struct job **jobs;                     /* in the order of submission */
    size_t job_count, job_capacity;
    struct name_index job_index; /* by id */
    struct job **live;           /* jobs that do not rest, in the same order */
    size_t live_count, live_capacity;
    uint64_t job_places;   /* given so far */
    size_t swept_count;    /* jobs that have ended and have nothing left to free */
    bool touched, changed; /* one of the live jobs may be touched, or changed */
    struct supply {
        size_t alive, free, draining; /* alive: without those that drain */
    } supply[3];                      /* free nodes by role, while jobs are given nodes */
    struct call_table calls;
    uint64_t next_number;  /* next number of nodes, calls and manifests */
    uint64_t next_name[3]; /* of nodes by role */
    uint64_t secrets_drawn, openings_drawn;
    bool reschedule;        /* nodes or jobs changed: see what can start */
    struct job *answer_job; /* is shown to this request when the event is dealt with; NULL: none */
    uint64_t answer_request;
    bool sweep;         /* a job has memory to free at the beginning of the next step */
    bool preempt_waits; /* a job of a higher priority than a running one waits for nodes */
    struct master_counts counts;
    const char *job_names[MASTER_JOBS_PER_PS_MAX]; /* for master_node_at() */
};

/* actions.c */
void actions_clear(struct master_actions *a);
struct master_action *action_add(struct master *m, enum master_action_kind kind);
/* memory that lives as long as the actions */
void *action_memory(struct master *m, size_t count, size_t size);
void action_own(struct master *m, void *memory); /* freed with the actions */
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
const char *node_role_name(enum master_role role); /* "ps" */
struct node_identity {                             /* What a node says of itself when it joins. */
    enum master_role role;
    uint64_t incarnation, pid;
    const char *address, *http_address, *version, *host;
};
/* A node that is alive, with the name @wanted, or ("") one that no other has. There is room. */
struct node *node_add(struct master *m, const struct node_identity *is, const char *wanted);
/* Notes that the node has said something; that it is dead. */
void node_heard(struct master *m, struct node *n);
void node_dies(struct master *m, struct node *n);

/* node_patience.c */
/* Silence after which a node is late, and time to the next look at the clock at most. */
uint64_t master_late_ms(const struct master_config *config);
uint64_t nodes_watch_ms(const struct master *m);
uint64_t nodes_timer(const struct master *m); /* when a node is to be looked at next */
void nodes_late(struct master *m, uint64_t late_ms);
/* It should have sent two heartbeats by now; it is so for all of the time-out, and may be waited
 * for. */
bool node_is_late(const struct master *m, const struct node *n, uint64_t now_ms);
bool node_is_silent(const struct master *m, const struct node *n, uint64_t now_ms);
/* How long the node may be silent before it is given up. */
uint64_t node_patience_ms(const struct master *m, const struct node *n);
/* True if the node was seen to be silent for @limit_ms, and all messages that had come by then have
 * been read since. */
bool node_is_seen_silent(const struct node *n, uint64_t limit_ms);
bool node_is_given_up(const struct master *m, const struct node *n, uint64_t limit_ms);

/* node_ready.c: the shard without a backup for which @n should not be ended, as text */
const char *node_waits_for_backups(struct master *m, const struct node *n); /* NULL: none, or it
                                                                has lasted too long */
void node_unready(const struct master *m, const struct node *n, char *out,
                  size_t bytes); /* or "" */

/* node_events.c */
void node_lost(struct master *m, struct node *n, const char *why);
void nodes_tick(struct master *m);
void on_join(struct master *m, const struct master_event *e);
void on_heartbeat(struct master *m, const struct master_event *e);
void on_leave(struct master *m, const struct master_event *e);
void on_drop(struct master *m, const struct master_event *e);
void on_unreachable(struct master *m, const struct master_event *e);

/* drained.c, drain.c: what a node that is to be emptied has goes elsewhere */
bool drain_concerns(const struct job *j);  /* it has something on such a node */
size_t drain_workers(const struct job *j); /* so many of its workers are */
/* the workers that its quota lets it have: others in the place of those count once */
size_t drain_quota(const struct master *m, const struct job *j);
void drain_job(struct master *m, struct job *j); /* moves what can be moved now */
/* @n does not drain any more: its job has no more workers than it may have. */
void drain_taken_back(struct master *m, const struct node *n);
/* What @j has on @n cannot leave it now: why, in words; NULL: it can, and will. */
const char *drain_problem(struct master *m, struct job *j, const struct node *n);
/* Its shards on @n can leave it, now or when what passes by itself is over. */
bool drain_may_move(const struct master *m, const struct job *j, const struct node *n);

/* drain_request.c */
void on_drain(struct master *m, const struct master_event *e);
/* The node is to end: it is emptied, if anything would be lost. False: it need not wait. */
bool drain_leaves(struct master *m, struct node *n);

/* call_send.c */
void call_start(struct master *m, struct job *j, struct node *n, enum master_call_kind kind,
                uint32_t index);
/* OpenShard of a backup; CloseShard of what @opening says of the shard. */
void call_start_backup(struct master *m, struct job *j, uint32_t shard);
void call_start_close(struct master *m, struct job *j, struct node *n, uint32_t shard,
                      uint64_t opening);
void call_start_hold(struct master *m, struct job *j, struct node *n);
void call_send(struct master *m, struct call *c); /* or lets it wait for what it needs */
/* sends it again as soon as that is allowed */
void call_again(struct master *m, struct call *c);
/* something that calls wait for may be there */
void calls_unblock(struct master *m, const struct job *j);

/* call_done.c */
void calls_tick(struct master *m);
void on_call_done(struct master *m, const struct master_call_done *done);

/* call_build.c: the fields of @c's kind. */
void call_build(struct master *m, const struct call *c, struct master_call *out);

/* job_list.c */
struct job *job_find(struct master *m, const char *id);
size_t jobs_open(const struct master *m); /* jobs that have not ended */
struct job *job_new(struct master *m);
void job_named(struct master *m, struct job *j);    /* its id is known, and stays */
void job_take_out(struct master *m, struct job *j); /* of all lists */
/* takes it out of the live jobs, until something touches it */
void job_rest(struct master *m, struct job *j);
void job_changed(struct job *j); /* what it shows */
void job_touch(struct job *j);   /* a fact is recorded */

/* job.c */
bool job_is_sync(const struct job *j);
bool job_is_starting(const struct job *j); /* for the first time, or from a checkpoint */
bool job_is_pinning(const struct job *j);  /* a sync point at which all stand */
/* When @n may be asked again: UINT64_MAX: never; 0: it has refused nothing. */
uint64_t job_refused_until(const struct job *j, const struct node *n);
/* Servers with which to start, when @free could be had: as many as its file says, or, when there
 * are only so many, as it ran with. */
size_t job_servers_to_start(const struct job *j, size_t free);
void job_enter(struct master *m, struct job *j, enum job_state state, const char *reason);
void job_say(struct job *j, const char *reason); /* a new reason, same state */
struct job_worker *job_worker_of(struct job *j, const struct node *n); /* NULL: none */
bool job_has_worker(const struct job *j, const struct node *n);
struct job_worker *job_worker_add(struct job *j, struct node *n);
size_t job_workers_started(const struct job *j);
uint32_t job_workers_active(const struct job *j); /* that have a share */
void job_names_refresh(struct job *j);
const char *job_checkpoint_words(struct master *m, const struct job *j);
/* It is to end at the next step boundary, or with its last checkpoint. */
bool job_is_cancelled(const struct job *j);
/* Facts: it ends, starts again from its newest checkpoint, or its start has
 * failed (back to PENDING; one that was recovering recovers again). */
void job_must_end(struct job *j, enum job_state state, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void job_must_recover(struct job *j, const char *why);
void job_must_restart(struct job *j, const char *why);
void job_must_yield(struct job *j, const char *why);
bool job_is_ending(const struct job *j); /* one of these three was recorded */

/* job_worker.c */
void job_worker_remove(struct master *m, struct job *j, struct job_worker *w);
void job_worker_lost(struct master *m, struct job *j, struct node *n, const char *why);
/* A worker cannot take part, or not now: it is told to drop the job, and the others go on. */
void job_drop_worker(struct master *m, struct job *j, struct node *n, const char *why);
/* @n cannot take part in @j: the others go on without it, for good or for a while. */
/* @n had no room for it, and is not asked for a while, or (@for_good) as long as it lives. */
void job_refuse(struct master *m, struct job *j, const struct node *n, bool for_good);
void job_leave_out(struct master *m, struct job *j, struct node *n, bool for_good, const char *why);

/* job_end.c */
void job_settle(struct master *m, struct job *j); /* carries out what job_must_...() recorded */
/* its row is stored: what waited for that goes on */
void job_stored(struct master *m, struct job *j);
void job_cleaned(struct master *m, struct job *j); /* another node may have dropped the job */
void jobs_sweep(struct master *m);
/* Answer requests to remove a job of which no call is open; the next sweep forgets it. */
void jobs_remove(struct master *m);
void job_forget(struct master *m, struct job *j); /* take it out, and free it */
/* It has ended and is to go on: nothing is left of how it ended, and all nodes drop it first. */
void job_revive(struct master *m, struct job *j);
void job_free(struct job *j);

/* advance.c */
void job_advance(struct master *m, struct job *j);
void jobs_advance(struct master *m); /* all jobs that were touched */

/* job_requests.c */
void on_restore(struct master *m, const struct master_event *e);
void on_submit(struct master *m, const struct master_event *e);
void on_cancel(struct master *m, const struct master_event *e);
void on_remove(struct master *m, const struct master_event *e);
void on_checkpoint(struct master *m, const struct master_event *e);

/* pause.c: jobs that give up their nodes and start again from a checkpoint of that moment */
bool job_yields(const struct job *j);     /* it is to yield, and has not yielded yet */
bool job_leaves(const struct job *j);     /* and then others may have its nodes */
bool job_yields_now(const struct job *j); /* and its checkpoint may be tried */
/* It gets nothing new: it yields now, or when a checkpoint can be written, and others have it. */
bool job_gives_up(const struct job *j);
void yield_take_back(struct job *j); /* there is no need to yield any more */
/* its checkpoint failed; training goes on meanwhile */
void yield_failed(struct master *m, struct job *j);
void on_pause(struct master *m, const struct master_event *e);

/* resume.c: lets paused and ended jobs go on */
void on_resume(struct master *m, const struct master_event *e);

/* quota.c */
/* True if the owner of @j, which is to begin with at least @workers, has reached a quota. Then
 * @words say so. */
bool quota_is_reached(const struct master *m, const struct job *j, size_t workers,
                      struct buf *words);
/* The same, of memory alone: what a job needs is known when its data are. */
bool quota_memory_is_reached(const struct master *m, const struct job *j);
/* the number of workers that the quota lets it have */
size_t quota_workers(const struct master *m, const struct job *j);
void quota_measure(struct job *j); /* the memory of its shards, by its plan */
bool job_holds_nodes(const struct job *j);
bool job_waits_to_start(const struct job *j);

/* preempt.c */
/* @j waits for @workers and its servers. True: jobs make way for it, or its nodes are about to be
 * free. */
bool preempt_for(struct master *m, struct job *j, size_t workers);
/* jobs make way no longer for a job that does not wait any more */
void preempt_review(struct master *m);
/* The time at which @j has run for long enough to make way, if a job waits for that; else 0. */
uint64_t preempt_time(const struct master *m, const struct job *j);

/* row.c */
void job_store(struct master *m, struct job *j);
/* Answer @request with the job when the row that it has now is stored. Where it cannot be stored
 * the request is refused, or (@taken) answered with the job as it is shown. */
void row_reply(struct master *m, struct job *j, uint64_t request, bool taken);
/* Store the job, whose change of @request was undone, and refuse the request with ERR_EXHAUSTED and
 * @why when that row is stored: a master that was started again before would have the change. */
void row_refuse(struct master *m, struct job *j, uint64_t request, const char *why);
void row_answers_release(struct job *j);
bool row_has_generation(const struct job *j); /* the present generation is stored */
bool row_has_end(const struct job *j);
bool row_has_let_go(const struct job *j); /* what was done with the pinned version */
void row_restored(struct job *j);         /* the row comes from the store */
/* The record that clients may see; lives as long as the content of an action. */
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
void change_settle(struct job *j);                    /* the change cannot be undone any more */
void change_at_once(struct master *m, struct job *j); /* nothing of the job runs */
void change_forget(struct master *m, struct job *j, int code, const char *why);
/* Keeps @words for the record; @note is overwritten. */
void change_words(struct job_revision *note, const struct job_set_words *words);
void change_words_release(struct job_revision *note);
/* The file becomes @text, as @note says: records that, before the record has that text. */
void change_record(struct master *m, struct job *j, const char *text, struct job_revision *note);
/* Is there room for one more change of the update section? Errors: ERR_STATE there is none. */
int change_check_eras(const struct job *j, const char *text, struct err *err);
/* A shard has no memory for the change, says @why: the file becomes again what it was, and every
 * shard hears of that. False: it is being undone already, or nothing changes. */
bool change_undo(struct master *m, struct job *j, const char *why);

/* job_secret.c */
void fence_draw_secret(struct master *m, struct job *j);   /* once, unless its row has one */
void fence_draw_openings(struct master *m, struct job *j); /* for a start, whose nodes are chosen */
uint64_t fence_draw_opening(struct master *m);             /* of one shard more */
/* @opening: of the shard that is meant; 0: none is. */
struct fence fence_of(const struct job *j, uint64_t opening);

/* data_seen.c: what a job was trained on before */
void data_note(struct job *j); /* notes the known data as those that it is trained on */
/* Checks that the data are those of the checkpoint. Errors: ERR_INVALID they are not. */
int data_check_same(const struct job *j, struct err *err);
/* Fingerprint of the ONNX file that the noted data are of; 0: the model is another one, or it is
 * not known. */
uint64_t data_model_file(const struct job *j);

/* handover.c */
void handover_note(struct job *j); /* its row is about to be written */

/* adopt.c */
/* The job from the store goes on with the nodes that its row names. False: it cannot. */
bool adopt_begin(struct master *m, struct job *j);
/* A worker has said what the data are. False: the job has to go back to its checkpoint. */
bool adopt_data_known(struct master *m, struct job *j);
void adopt_shard_said(struct job *j, uint32_t shard, const struct master_call_done *done);
/* The shards have answered. True: they are to be told what comes of that, in one more generation.
 */
bool adopt_again(struct job *j);
void adopt_position(struct master *m, struct job *j); /* they have: what is due next */
void adopt_end(struct master *m, struct job *j);      /* where it stands is known */

/* placement.c */
void schedule(struct master *m);
/* True if there are enough servers, busy ones included, that are not too small for it. */
bool placement_has_room(const struct master *m, const struct job *j);
/* May the node be given one job more, @j? NULL: any. */
bool placement_is_free(const struct master *m, const struct node *n, const struct job *j);

/* start.c */
void start_begin(struct master *m, struct job *j); /* its nodes are chosen */
/* Makes the plan for the case that @spec is the file of the job, whose data are known, and it has
 * so many servers. @out is zeroed. Errors: those of model_new(), plan_make_job() and
 * plan_update_check(). */
bool start_fits(const struct job *j, size_t servers, struct err *err); /* there is a plan for it */
int start_plan(const struct job *j, const struct job_spec *spec, size_t servers, struct plan *out,
               struct err *err);
void start_forget_fields(struct job *j); /* the names and variables that an inspection told */
/* Has a checkpoint to say first how its records were encoded, which no worker can find out? */
bool start_recalls(const struct job *j);
void start_inspect(struct master *m, struct job *j);
void start_inspect_done(struct master *m, struct job *j, const struct master_call_done *done);
int start_data_known(struct master *m, struct job *j); /* not 0: it ends */
void start_find(struct master *m, struct job *j);
void start_open(struct master *m, struct job *j);
void start_workers(struct master *m, struct job *j);
void start_end(struct master *m, struct job *j); /* all workers have started, or enough of them */
/* Takes the warning of @n that it could not write a checkpoint. */
void start_warn(struct master *m, struct job *j, const struct node *n, const char *problem);
/* A server could not open its shard: it has no memory for it now, or (ERR_RANGE) ever; it cannot
 * read the checkpoint, or the checkpoint is damaged (ERR_CORRUPT). */
void start_open_refused(struct master *m, struct job *j, struct node *n, const struct err *err,
                        const char *why);
void start_avoid_clear(struct job *j);
void start_worker_done(struct master *m, struct job *j, struct node *n);
int start_check_data(struct job *j, struct err *err);
/* Errors: ERR_INVALID: a sync step would need more than the @records that there are. */
int start_check_replicas(const struct consistency *c, uint64_t records, struct err *err);
/* Makes the step map from @ledger on, which is the position at @step, out of job file and data.
 * Errors: ERR_INVALID. */
int start_step_map(struct job *j, uint64_t step, const struct ledger *ledger, struct err *err);
void on_found(struct master *m, const struct master_found *found);

/* train.c */
uint64_t train_step(const struct job *j); /* the step of the sync point that would be pinned now */
/* The data position there; @out is overwritten. */
void train_ledger(const struct job *j, uint64_t step, struct ledger *out);
void train_assign_from(struct job *j, uint64_t step); /* sync: every worker begins there */
void train_assign(struct master *m, struct job *j);
void train_assign_done(struct job *j, struct node *n, bool hold, uint64_t position);
void train_assign_idle(struct master *m, struct job *j, struct job_worker *w);
bool train_is_at_end(const struct job *j);  /* nothing may be computed before the next pin */
bool train_wants_hold(const struct job *j); /* all must stop soon */
void train_hold(struct master *m, struct job *j);
/* all hold; false: not yet, or the job ends */
bool train_hold_end(struct master *m, struct job *j);
/* a regrouping breaks the hold, if there is one */
void train_hold_broken(struct master *m, struct job *j);
void train_over(struct master *m, struct job *j); /* the last step is pinned: no more leases */

/* train_regroup.c */
void train_regroup(struct master *m, struct job *j);
/* all shards have answered; not 0: the job ends */
int train_regroup_end(struct master *m, struct job *j);
void train_shard_said(struct job *j, uint32_t shard, const struct master_call_done *done);
/* A shard has no memory for a membership or a change, and is as it was. Others may have taken it;
 * the next generation makes all of them agree. */
void train_no_room(struct master *m, struct job *j, uint32_t shard, const char *why);

/* train_lease.c */
bool train_leases(const struct job *j);            /* true if the job leases splits */
void train_grant(struct master *m, struct job *j); /* answers requests with free splits */
void train_grant_one(struct master *m, struct job *j, struct job_worker *w,
                     const struct lease *lease);
void train_park_clear(struct master *m, struct job *j, struct job_worker *w, int code,
                      const char *why);
void train_no_more_leases(struct master *m, struct job *j);
void train_drop_finished(struct job *j); /* removes leases of splits that are done */
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
/* What @j waits for since more than a moment, in words; "": nothing. Overwritten. */
const char *activity_words(const struct master *m, const struct job *j, uint64_t now_ms,
                           struct buf *words);
void progress_train_metrics(struct job *j, uint64_t epoch, struct job_metrics *out);
/* metrics_pack() of the epoch's metrics so far; owned; NULL: some are not known. */
double *progress_train_sums(const struct job *j, uint64_t epoch, size_t *count);
void progress_restore(struct job *j, const struct master_found *found);
/* The job is taken over where it stands, at @at. */
void progress_adopted(struct job *j, const struct ledger *at);
/* Errors: those of metrics_unpack(). */
int progress_add_epoch(struct job *j, const struct master_epoch_progress *p, struct err *err);
void progress_show_train(struct job *j);

/* checkpoint_due.c */
uint64_t checkpoint_due_next(const struct job *j, uint64_t step); /* the next step to stand at */
/* finds when the next sync points after @step are due */
void checkpoint_due_plan(struct job *j, uint64_t step);

/* training.checkpoint_within: when one is to be asked for, UINT64_MAX: not now; does the end of an
 * epoch, at which the job stands, get one; it has one of @step, or will in a moment. */
uint64_t checkpoint_due_ms(const struct job *j);
bool checkpoint_due_at_epoch(const struct master *m, const struct job *j, uint64_t step);
void checkpoint_due_saved(const struct master *m, struct job *j, uint64_t step);
/* The job was taken over at @step: what was due before and was not done since @evaluated and
 * @checkpointed (NO_STEP: never) is due there. */
void checkpoint_due_adopted(struct job *j, uint64_t evaluated, uint64_t checkpointed,
                            uint64_t step);
/* Were they due at @step, an earlier step? */
bool checkpoint_due_evaluation_at(const struct job *j, uint64_t step);
bool checkpoint_due_at(const struct job *j, uint64_t step);
/* A resumed job goes on where its step map begins: if an evaluation is due there that was not made,
 * all workers stand for it before they train. */
bool checkpoint_due_where_it_begins(const struct job *j);
void checkpoint_due_make_up(struct job *j);

/* stop.c */
bool stop_may_end(const struct job *j); /* the next evaluation may end the training */
/* all are to stand for the evaluation, or because its version may be kept */
bool stop_wants_stand(const struct job *j);
int stop_check_data(const struct job *j, struct err *err); /* Errors: ERR_INVALID */
/* The evaluation says @test: it may be the best one, training may end, or goes on. */
void stop_evaluated(struct master *m, struct job *j, const struct job_metrics *test);
void stop_decided(struct job *j); /* all go on, if they stand for the decision alone */
/* What a checkpoint of this sync point notes of the best version; that checkpoint is written; the
 * job goes back to a checkpoint, or to none. */
void stop_noted(const struct job *j, struct best *out);
void stop_written(struct job *j);
void stop_go_back(struct job *j, const struct master_found *found);
/* The job has succeeded: its result becomes what its file says; why, in words, or "". */
const char *stop_result(struct master *m, struct job *j);

/* evaluate.c */
void evaluate_begin(struct job *j);
void evaluate_pump(struct master *m, struct job *j);
bool evaluate_is_done(const struct job *j);
void evaluate_done(struct master *m, struct job *j, struct node *n, uint32_t chunk,
                   const struct master_call_done *done);
void evaluate_returned(struct job *j, const struct job_worker *w); /* @w is gone */
void evaluate_release(struct job *j);

#endif
