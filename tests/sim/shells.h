/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the simulator do for each other. Only sim.h includes this. */
#ifndef GRADUS_SIM_SHELLS_H
#define GRADUS_SIM_SHELLS_H

#include "sim/sim.h"

/* Run @schedule in @w, which may have run others; true: all held. */
struct world *world_new(void);
void world_free(struct world *w);
bool world_run(struct world *w, const struct sim_schedule *schedule, bool trace);

/* world.c */
void world_at(struct world *w, uint64_t us, enum event_kind kind, uint32_t node, uint32_t arg,
              uint32_t more);
uint64_t world_draw(struct world *w, const char *what, uint64_t index, uint64_t n);
/* How long something takes that takes @us at most; exactly @us when all is even. */
uint64_t world_takes(struct world *w, const char *what, uint64_t us);
uint64_t node_ms(const struct world *w, uint32_t node); /* on its clock */
uint64_t node_us_of(const struct world *w, uint32_t node, uint64_t ms);
void world_check_end(struct world *w);
void timer_set(struct world *w, uint32_t node, enum event_kind kind, uint32_t arg,
               struct sim_timer *t, uint64_t us);

/* process.c */
void node_start(struct world *w, uint32_t node);
void node_kill(struct world *w, uint32_t node);
void node_leaves(struct world *w, uint32_t node); /* SIGTERM; fault.c */
/* Counts an action of the node; true: the machine has just died, do nothing more. */
bool node_acts(struct world *w, uint32_t node);
/* Counts a push of the node; true: it has just stopped for good, do nothing more. */
bool node_freezes(struct world *w, uint32_t node);
uint16_t name_of(struct world *w, const char *id);

/* net.c */
struct unary *unary_new(struct world *w, uint32_t from, uint32_t to, enum unary_kind kind,
                        uint64_t timeout_ms, uint32_t *index);
void unary_send(struct world *w, uint32_t index);
struct unary_reply *unary_reply(struct world *w, uint32_t index, uint32_t attempt);
void unary_answer(struct world *w, uint32_t index, uint32_t attempt); /* drops the server's hold */
void unary_refuse(struct world *w, uint32_t index, uint32_t attempt, int code, const char *why);
void unary_unref(struct world *w, uint32_t index);
void net_killed(struct world *w, uint32_t node);
void on_request(struct world *w, const struct event *e);
void on_reply(struct world *w, const struct event *e);
uint32_t exchange_new(struct world *w);
void exchange_free(struct world *w, uint32_t index);
uint32_t stream_open(struct world *w, uint32_t worker, uint32_t ps, uint32_t job, uint32_t shard);
void stream_send(struct world *w, uint32_t exchange);   /* worker → server */
void stream_answer(struct world *w, uint32_t exchange); /* server → worker */
void stream_close(struct world *w, uint32_t stream);    /* the worker does not want it any more */
void stream_break(struct world *w, uint32_t stream);
void stream_leave(struct world *w, uint32_t stream); /* the shard is elsewhere */
void on_exchange(struct world *w, const struct event *e);
void on_answer(struct world *w, const struct event *e);
void on_broken(struct world *w, const struct event *e);
void on_gone(struct world *w, const struct event *e);

/* member.c */
void member_begin(struct world *w, uint32_t node);
void member_timer(struct world *w, uint32_t node);
void member_answer(struct world *w, uint32_t node, const struct unary *u,
                   const struct unary_reply *r);
void member_hurry(struct world *w, uint32_t node);
void member_leave(struct world *w, uint32_t node);

/* master_node.c */
#define CLIENT_REQUEST (UINT64_C(1) << 62) /* requests of clients, who are at the master's door */
void master_begin(struct world *w);
void master_end(struct world *w);
void master_called(struct world *w, uint32_t unary, uint32_t attempt);
void master_answered(struct world *w, const struct unary *u, const struct unary_reply *r);
void master_refused(struct world *w, uint32_t node, bool broken);
void master_tick(struct world *w);
void master_event(struct world *w, struct master_event *e);
uint32_t job_index(struct world *w, const char *id);
uint32_t node_at(struct world *w, const char *address);
/* The message of a call that the master makes (master_calls.c). */
void master_call_fill(struct world *w, struct unary_request *q, const struct master_call *c);

/* master_clients.c */
void master_client(struct world *w, const struct sim_fault *f);
void master_submit(struct world *w, uint32_t job);
bool client_parse(const char *text, const char *const *sets, size_t set_count,
                  struct job_spec *spec, struct world *w, bool must);
bool master_resume(struct world *w, uint32_t job); /* false: it cannot be asked now */

/* drain.c: nodes that are emptied */
void drain_begin(struct world *w, uint32_t fault);
void drain_ask(struct world *w, uint32_t node);
void drain_answered(struct world *w, const struct master_reply *r);
void drain_logged(struct world *w, const char *event, const char *text);
void drain_check(struct world *w); /* after a step of the master */

/* ps_node.c */
void ps_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void ps_open(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void ps_exchange(struct world *w, uint32_t node, uint32_t exchange);
void ps_sweep(struct world *w, uint32_t node); /* closed shards leave the table */
void ps_refuse(struct world *w, uint32_t exchange, int code, const char *why);
void ps_gone(struct world *w, uint32_t node, uint32_t stream);
/* A SetMembership, or the record of one: what @q says, as an event; and it is taken. */
struct ps_told {
    const char *workers[SIM_WORKERS_MAX];
    uint32_t done[SIM_SPLITS_MAX];
    struct ledger ledger;
    struct era eras[SIM_ERAS_MAX];
};
void ps_membership(struct world *w, const struct sim_layout *layout, const struct unary_request *q,
                   struct ps_told *told, struct shard_event *e);
void ps_take_membership(struct world *w, struct sim_shard *s, const struct unary_request *q,
                        struct shard_event *e);
void ps_flatten(struct flat_ledger *to, const struct ledger *from);
/* The version, which must be readable. */
const struct snapshot_slot *shard_version(struct world *w, struct sim_shard *s, uint64_t version);
struct sim_shard *ps_shard_there(struct world *w, uint32_t node, uint32_t job, uint32_t shard);
void ps_drop(struct world *w, uint32_t node, uint32_t job); /* SIM_NONE: all */
void ps_drop_opening(struct world *w, uint32_t node, uint64_t opening);
void ps_end(struct world *w, uint32_t node); /* killed: memory is gone */
void ps_reader(struct world *w, const struct event *e);

/* followers.c: readers of running jobs */
void followers_begin(struct world *w);
void follower_turn(struct world *w, uint32_t index, uint32_t turn);
void follower_asks(struct world *w, uint32_t node, uint32_t number, uint32_t serial);
void follower_answered(struct world *w, struct sim_shard *s, struct sim_request *r,
                       const struct shard_action *a);
void followers_check(struct world *w, struct sim_shard *s); /* after a step of the shard */

/* departure.c: servers that are told to end */
void departure_begin(struct world *w, uint32_t fault);
bool departure_waits(const struct sim_node *n); /* its heartbeats say that it leaves */
void departure_goes_on(struct world *w, uint32_t node, uint32_t life);
void departure_heard(struct world *w, uint32_t node, int code, bool moves); /* by the server */
void departure_asks(struct world *w, const struct unary *u);                /* to the master */
void departure_told(struct world *w, const struct unary *u, bool moves);    /* by the master */
void departure_logged(struct world *w, const char *event, const char *text);
void departure_record(struct world *w, uint32_t job, const struct job_record *r);
void departure_check(struct world *w); /* after a step of the master */

/* standby.c: backups of shards */
void standby_called(struct sim_job *j, const struct master_call *c); /* by the master */
void standby_told_ready(struct world *w, uint32_t name);             /* the server may be ended */
void standby_open(struct sim_shard *s, const struct unary_request *q, struct shard_options *o);
void standby_release(struct sim_shard *s);
/* SHARD_EMIT, in a step of @r (NULL: of none that waits for an answer). */
void standby_say(struct world *w, struct sim_shard *s, const struct shard_action *a,
                 const struct sim_request *r);
void standby_say_again(struct world *w, uint32_t node, uint32_t serial);
void standby_heard(struct world *w, struct sim_shard *s, uint32_t unary, uint32_t attempt);
void standby_answered(struct world *w, const struct unary *u, const struct unary_reply *r);
void standby_forget(struct world *w); /* all that was said of tables */
void standby_rows_say(struct world *w, const struct gradient *g, struct sim_record *out);
void standby_rows_bring(struct world *w, const struct sim_shard *s, const struct sim_record *said,
                        struct gradient *g);
/* False: the rows of @version are not there any more. */
bool standby_tables_say(struct world *w, const struct sim_shard *s, uint64_t version,
                        struct sim_record *out);
void standby_tables_load(struct world *w, struct sim_shard *s, const struct sim_record *said,
                         uint64_t version);
void standby_load(struct world *w, struct sim_shard *s, const struct shard_action *a);
void standby_made(struct world *w, const struct sim_shard *s); /* there is a new version */
void standby_stepped(struct world *w, struct sim_shard *s);
/* There is memory for the record of one more update. */
bool standby_has_room(const struct sim_shard *s);
void standby_shows(struct world *w, struct sim_shard *s, const struct sim_request *r,
                   const struct shard_action *a);
void standby_tell(const struct world *w, const struct sim_shard *s, struct unary_request *q);
bool standby_is_present(const struct world *w, const struct sim_shard *s); /* it is the primary */
bool standby_is_known(const struct world *w, const struct sim_shard *s); /* or the backup of that */
bool standby_may_vanish(const struct sim_shard *s); /* what it makes nobody has seen yet */

/* ps_budget.c: memory for gradients that is tight */
bool budget_is_tight(const struct world *w);
void budget_begin(struct world *w, uint32_t node);
void budget_end(struct world *w, uint32_t node); /* killed */
void budget_clear(struct world *w);
void budget_free(struct world *w);
void budget_open(struct world *w, struct sim_shard *s, const struct consistency *c, size_t workers);
/* Before and after a shard takes a SetMembership. */
void budget_membership(struct world *w, struct sim_shard *s, const struct shard_event *e);
void budget_membership_done(struct world *w, struct sim_shard *s, uint64_t generation_before,
                            size_t workers);
void budget_close(struct world *w, struct sim_shard *s); /* its core has released all */
void gradient_memory_back(struct world *w, struct sim_shard *s);
/* A version for slow readers. False: there is no memory for it. */
bool budget_lend(struct world *w, struct sim_shard *s);
void budget_take_back(struct world *w, struct sim_shard *s);
void ps_arrives(struct world *w, uint32_t node, uint32_t exchange);
void budget_gone(struct world *w, uint32_t node, uint32_t stream);
void budget_taken(struct world *w, const struct event *e);
void budget_tell(struct world *w, uint32_t node);
/* A push of the stranger of @fault, in a call of its own. */
void budget_push(struct world *w, struct sim_shard *s, uint32_t fault);

/* ps_shard.c */
/* An event, and what the core wants then; false: the server died in the middle. */
bool shard_do(struct world *w, struct sim_shard *s, struct shard_event *e);
void snapshots_trim(struct world *w, struct sim_shard *s);
void shard_sum_alone(struct sim_shard *s, const struct shard_action *a, const struct gradient *g);
void shard_take(struct world *w, struct sim_shard *s, struct shard_event *e);
struct gradient *gradient_new(struct world *w);
struct sim_request *request_new(struct world *w, struct sim_shard *s);
void *request_tag(const struct world *w, const struct sim_request *r);
void request_drop(struct world *w, struct sim_request *r);

/* ps_life.c */
struct sim_shard *shard_make(struct world *w, uint32_t node, const struct unary_request *q,
                             struct err *err);
void shard_drop(struct world *w, struct sim_shard *s); /* close it, whatever waits */
void shard_release(struct world *w, struct sim_shard *s);

/* worker_answers.c */
void worker_exchanged(struct world *w, uint32_t node, uint32_t exchange);
void worker_broken(struct world *w, uint32_t node, uint32_t stream);

/* worker_node.c */
void worker_post(struct world *w, uint32_t node, struct mail m);
void worker_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void worker_drop(struct world *w, uint32_t node, uint32_t job); /* SIM_NONE: any */
void worker_end(struct world *w, uint32_t node);
void worker_master(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void worker_timer(struct world *w, uint32_t node);
void worker_record_due(struct world *w, uint32_t node, uint32_t id);
void worker_computed(struct world *w, uint32_t node, uint32_t serial);
void worker_filled(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void worker_fill_due(struct world *w, uint32_t node, uint32_t serial);
/* The job of @node is ready to be assigned. */
void worker_begin_core(struct world *w, uint32_t node, uint64_t generation);

/* worker_act.c */
void job_feed(struct world *w, uint32_t node, struct worker_event *e);
void job_go_on(struct world *w, uint32_t node);
/* What was still to land in @set from @shard does not. */
void values_lost(const struct sim_layout *l, struct worker_values *set, uint32_t shard);

void exchange_send(struct world *w, uint32_t node, const struct worker_request *r);

/* worker_rows.c */
bool job_is_row(const struct sim_job *job, uint32_t element); /* of a table */
/* The computation takes so long, once its rows are there; without tables it begins at once. */
void rows_begin(struct world *w, uint32_t node, uint64_t takes_us);
void rows_came(struct world *w, uint32_t node, const struct pending_exchange *p,
               const struct exchange *x);
/* An answer to a pull, which may have brought some. */
void rows_along(struct world *w, struct sim_worker_job *j, const struct pending_exchange *p,
                const struct exchange *x);
void rows_broken(struct world *w, uint32_t node); /* some of them will not */
void rows_due(struct world *w, uint32_t node, uint32_t serial, uint32_t number);
void rows_fill(const struct world *w, const struct sim_worker_job *j, struct tensor *t);
uint32_t rows_ask(const struct sim_job *job, const struct sim_layout *l,
                  const struct ledger_batch *batch, uint32_t shard, unsigned char *out);
/* What the computation brings of tables; sums; what of it goes to a shard. */
void rows_gradient(struct world *w, const struct sim_worker_job *j, const struct tensor *params,
                   struct worker_buffer *to);
void rows_add(struct world *w, struct worker_buffer *to, const struct worker_buffer *from);
void rows_send(const struct sim_layout *l, const struct worker_buffer *from, uint32_t shard,
               struct exchange *x);
void rows_release(struct sim_worker_job *j);

/* given.c: initial values that workers bring */
extern const char *const given_models[2]; /* of a job file: of layers, of a program */
extern const struct given_variables given_program;
#define GIVEN_FROM "from:\n  checkpoint: /a\n" /* likewise */
#define GIVEN_FROM_FINGERPRINT 9
#define GIVEN_ROWS_FROM "/a"
#define GIVEN_ROWS_MANIFEST 11
/* 0 for jobs with tables: the check of rows computes them from version 0 on. */
uint64_t given_slots_version(const struct sim_job *j);
#define GIVEN_ENCODING "of the source"
void given_asked(struct world *w, const struct sim_job *j, const struct master_call *c);
void given_start(struct world *w, uint32_t node, const struct mail *m);
void given_go_on(struct world *w, uint32_t node);
void given_answered(struct world *w, uint32_t node, const struct mail *m);
void given_stop(struct world *w, struct sim_worker_job *j, bool answer);
void given_called(struct world *w, struct sim_shard *s, uint32_t unary, uint32_t attempt);
void given_open(struct sim_shard *s, bool given);
void given_put(struct world *w, struct sim_shard *s, const struct shard_action *a);
/* It has all of its values; else @what it does is wrong. */
void given_check(struct world *w, const struct sim_shard *s, const char *what);

/* disk.c */
struct disk *disk_new(void);
void disk_free(struct disk *d);
void disk_clear(struct disk *d);
void disk_prepare(struct world *w, const struct master_prepare *p);
void disk_manifest(struct world *w, const struct master_manifest *m);
void disk_find(struct world *w, const struct master_find *f);
void disk_prune(struct world *w, const struct master_prune *p);
void disk_damage(struct world *w, uint32_t job);                 /* its newest checkpoint */
int disk_readable(const struct world *w, const char *directory); /* 0, or why not */
void disk_write(struct world *w, struct sim_shard *s, const struct shard_action *a, uint32_t unary,
                uint32_t attempt);
void on_file(struct world *w, const struct event *e);
struct disk_cut { /* of a checkpoint: a shard's part, by elements of the model */
    uint64_t version, examples;
    struct ids ids;
};
/* Values and slots of a complete checkpoint. False: it is not there. */
bool disk_read(struct world *w, const char *directory, struct tensor *values, struct tensor *slot,
               struct disk_cut *cut);
/* Tables of a complete checkpoint, of each shard. */
/* Returns the number of files. */
uint32_t disk_tables(struct world *w, const char *directory,
                     struct sim_saved *files[SIM_SHARDS_MAX]);
bool disk_newest(struct world *w, uint32_t job, char directory[80], uint64_t *step);
bool disk_store(struct world *w, const struct job_record *r);           /* false: it is full */
const struct job_record *disk_row(const struct world *w, uint32_t job); /* NULL: none */
void disk_restore(struct world *w); /* every row to the master's core */

/* fault.c */
void fault_begin(struct world *w, uint32_t index);
void fault_end(struct world *w, uint32_t index);
void faults_stop(struct world *w);

/* rounds.c: clients who ask for traces, and the master, who leads them */
void rounds_begin(struct world *w, uint32_t fault);
void rounds_gone(struct world *w, uint32_t fault); /* the client */
void rounds_answered(struct world *w, const struct unary *u, const struct unary_reply *r);
void rounds_drop(struct world *w); /* the master is gone */
void rounds_check_due(struct world *w, uint64_t id);
struct sim_trace *trace_find(struct world *w, uint64_t id);    /* NULL: it is over */
uint32_t trace_node(const struct sim_trace *t, uint32_t node); /* SIM_NONE: not of it */
const struct sim_trace *trace_open(const struct world *w);     /* any */

/* recorder.c: nodes that record */
uint64_t node_ns(const struct world *w, uint32_t node); /* on its clock */
void recorder_server_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void recorder_worker_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void recorder_end(struct world *w, uint32_t node); /* a worker answers with what there is */
void recorder_due(struct world *w, uint32_t node, uint32_t id);
void recorder_step(struct world *w, uint32_t node, uint64_t step);
uint64_t recorder_sending(struct world *w, uint32_t node, uint64_t exchange); /* for which trace */
void recorder_answered(struct world *w, uint32_t node, uint64_t exchange);
/* A server is at this exchange: is that recorded, if the worker records its step? */
void recorder_check(struct world *w, uint32_t node, uint32_t stream, uint64_t exchange);

/* check_fair.c */
void check_fair(struct world *w); /* after a step of the master */
void check_yielded(struct world *w, uint32_t job, const struct job_record *r);
void check_preempted(struct world *w, const char *text); /* of the event job_preempted */
void check_unpause(struct world *w, uint32_t job);

/* check_resumed.c: jobs that a client resumes after they have ended */
struct master_call;
struct master_reply;
void check_resumed(struct world *w, uint32_t job, const struct job_record *r);
/* Is a shard of it to be opened? */
void check_resumed_open(struct world *w, uint32_t job, const struct master_call *c);
void again_ended(struct world *w, uint32_t job, const struct job_record *r);
void again_ask(struct world *w, uint32_t job); /* EVENT_AGAIN */
void again_answered(struct world *w, const struct master_reply *r);
uint32_t again_life(struct world *w, uint32_t job); /* a bit */
bool again_passed(const struct sim_job *j, uint64_t step);
/* It was cancelled where it had just been evaluated, so that did not end it. */
bool again_cut(const struct sim_job *j, uint64_t step);

/* check_stop.c */
/* What an evaluation says of a version to which so many batches were applied: so many 16ths. */
uint32_t stop_level(const struct world *w, uint32_t job, uint64_t batches);
bool schedule_stops(const struct sim_job_plan *job); /* schedule_jobs.c: it needs test records */
double stop_accuracy(const struct world *w, uint32_t job, const struct ids *ids);
void check_stop(struct world *w, uint32_t job, const struct job_record *r); /* at its end */
void check_stop_log(struct world *w, const char *event, const char *text);

/* stranger.c */
void stranger_calls(struct world *w, uint32_t fault);

/* standstill.c */
void standstill_copy(struct world *w, uint32_t node);
void standstill_probe(struct world *w, uint32_t node);
void check_silence(struct world *w, const char *text, bool beats); /* of a node_lost */
void check_patience(struct world *w, const char *text);            /* of a job_state */
void check_waited(struct world *w, uint32_t node);                 /* it is heard */
void check_steady(struct world *w, uint32_t job, const struct job_record *r);
void evaluation_begun(struct world *w, uint32_t job, const char *pin_id);
void evaluation_dropped(struct world *w, uint32_t job, const char *pin_id);
void check_evaluated(struct world *w, uint32_t job, const struct job_record *r);
void stranger_pushes(struct world *w, struct sim_shard *s, uint32_t fault);

/* numbers.c: the model, the update rule, and the sequential reference */
void numbers_initial(uint64_t key, uint32_t elements, struct tensor *out);
void numbers_gradient(const struct tensor *params, uint32_t elements, uint64_t epoch,
                      uint32_t batch, uint32_t records, float rows, struct tensor *out);
/* The part of one round of sums: of @n elements of the gradient that are those of @map in the model
 * (NULL: the same). @gradient NULL: there is none. */
uint64_t numbers_sums(const float *gradient, const uint16_t *map, uint32_t n, uint32_t round,
                      uint64_t before);
float numbers_factor(uint64_t totals); /* of the gradient, after the last round */
struct numbers_update {
    float scale, rate, lr_scale, lambda;
    const float *base; /* NULL: no compensation */
};
void numbers_apply(const float *in, float *out, float *slot, const float *gradient, uint32_t n,
                   const struct numbers_update *u);
void numbers_reference(const struct sim_job *job, uint32_t replicas, uint64_t key,
                       struct tensor *values, struct tensor *slot);
/* One step of it; @from NULL: the job has no tables. */
void numbers_step(const struct sim_job *job, uint32_t replicas, uint64_t step,
                  struct tensor *values, struct tensor *slot, const struct sim_rows *from,
                  struct sim_rows *to);
uint64_t numbers_steps(const struct sim_job *job, uint32_t replicas);
uint64_t key_of_job(const struct world *w, uint32_t job);

/* eras.c: update sections */
struct sim_era era_of_section(const struct sim_job *j, uint64_t version, const char *section);
struct sim_era era_of_text(const struct sim_job *j, const char *text);
uint32_t eras_read(struct world *w, const struct sim_job *j, const struct job_era *eras,
                   size_t count, struct sim_era *out);
uint32_t eras_for_core(const struct sim_layout *l, const struct sim_era *eras, uint32_t count,
                       struct era *out);
const struct sim_era *era_in(const struct sim_era *eras, uint32_t count, uint64_t version);
/* Rounds that shards exchange: in a step, and at most. */
uint32_t eras_rounds(const struct sim_layout *l, const struct sim_era *eras, uint32_t count,
                     uint64_t step);
uint32_t eras_rounds_max(const struct sim_layout *l, const struct sim_era *eras, uint32_t count);
void eras_stored(struct world *w, uint32_t job, const struct job_record *r); /* its row */
bool eras_are_of(const struct world *w, const struct sim_shard *s); /* does the row speak of it? */
void eras_known(struct sim_job *j, const struct job_spec *spec);    /* as it is submitted */
void eras_asked(struct world *w, struct sim_job *j, uint64_t request, const struct job_spec *spec);
void eras_answered(struct world *w, const struct master_reply *r);
void check_era(struct world *w, const struct sim_shard *s, const struct shard_action *a);
void check_eras_told(struct world *w, const struct sim_job *j, const struct sim_era *eras,
                     uint32_t count); /* by a call; 0: it says nothing of them */
void check_era_record(struct world *w, const struct job_record *r);

/* check_servers.c */
uint32_t servers_wanted(const struct job_record *r); /* by its file */
uint32_t servers_needed(const struct job_record *r); /* to start */
void check_servers(struct world *w, uint32_t job, const struct job_record *r);
void check_moves_log(struct world *w, const char *text); /* a line of its log */
void check_told_servers(struct world *w, uint32_t job);
void check_worker_given(struct world *w, uint32_t job, uint32_t node);
void check_wanted(struct world *w);

/* check.c */
__attribute__((noreturn, format(printf, 3, 4))) void
violated(struct world *w, enum sim_invariant which, const char *fmt, ...);
bool ids_overlap(const struct ids *a, const struct ids *b);
bool ids_equal(const struct ids *a, const struct ids *b);
void ids_add(struct ids *to, const struct ids *from);
uint64_t ids_examples(const struct sim_job *j, const struct ids *ids);
void check_applied(struct world *w, struct sim_shard *s, const struct shard_action *a,
                   const struct gradient *g);
void check_step(struct world *w, struct sim_shard *s, const struct shard_event *e,
                const struct shard_info *before);
void check_ledger(struct world *w, const struct sim_shard *s);
void check_record(struct world *w, const struct job_record *r);
void check_generation(struct world *w, uint32_t job, uint64_t generation); /* of a call */
void check_lease(struct world *w, uint32_t job, uint16_t name, uint64_t generation,
                 const struct lease *lease);
void check_compute(struct world *w, uint32_t node, const struct worker_do_compute *a);
void check_evaluate(struct world *w, uint32_t node);
void check_job_end(struct world *w, uint32_t job);
void check_clean(struct world *w);
void check_lost(struct world *w, const char *text); /* of the event node_lost */

/* trace.c */
__attribute__((format(printf, 3, 4))) void trace(struct world *w, uint32_t node, const char *fmt,
                                                 ...);
#define TRACE(w, ...)                                                                              \
    do {                                                                                           \
        if ((w)->tracing) {                                                                        \
            trace(w, __VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)
extern void (*trace_line)(void *ctx, const char *line);
extern void *trace_ctx;
const char *trace_unary(const struct world *w, const struct unary *u, char *out, size_t n);
const char *trace_exchange(const struct world *w, const struct exchange *x, char *out, size_t n);
void schedule_print(const struct sim_schedule *s, void (*line)(void *ctx, const char *text),
                    void *ctx);

/* shrink.c */
void shrink(struct world *w, struct sim_schedule *s); /* that has just failed in @w */

#endif
