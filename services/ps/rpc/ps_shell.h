/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the shell share. */
#ifndef GRADUS_PS_RPC_PS_SHELL_H
#define GRADUS_PS_RPC_PS_SHELL_H

#include "auth/shard_key.h"
#include "base/buf.h"
#include "data/data_roots.h"
#include "gradus/v1/ps.pb-c.h"
#include "job/plan/plan_update.h"
#include "ps/data/shard_tables.h"
#include "ps/rpc/ps.h"
#include "ps/rpc/ps_eras.h"
#include "ps/rpc/ps_last_gradient.h"
#include "ps/core/shard.h"
#include "ps/data/snapshot.h"
#include "execution/thread_team.h"
#include "execution/pool.h"
#include "execution/strand.h"
#include "host/shared_memory.h"
#include "service/work.h"
#include "trace/trace.h"
#include "wire/wire_exchange.h"
#include "wire/wire_values.h"

#define PS_VALUES_FIELD 15 /* number of the bulk field in every message with values */
#define PS_JOB_TEXT_BYTES_MAX (1U << 20)
/* Shards below it are updated by one thread: waking another takes as long. */
#define PS_SHARED_FLOATS_MIN (UINT64_C(1) << 20)

struct loop;
struct ps_copy;
struct ps_follow;
struct ps_opening;
struct ps_record_stream;
struct ps_request;
struct ps_rows;
struct ps_stream;

struct ps_meters {
    struct meter *pushes[PUSH_DROPPED + 1]; /* by result; [PUSH_NONE]: refused pushes */
    struct meter *updates, *updates_skipped;
    struct meter *staleness;
    struct meter *spares;
    struct meter *decisions_made, *decisions_taken;
    struct meter *apply_seconds, *wait_seconds;
    struct meter *parked;
    struct meter *queued;
    struct meter *snapshots;
    struct meter *shards;
    struct meter *bytes;
    struct meter *values_received, *values_sent;
    struct meter *records, *record_bytes;
    struct meter *unreceived, *unreceived_bytes; /* records */
    struct meter *joining;                       /* backups */
    struct meter *checkpoint_seconds;
    struct meter *checkpoint_bytes;
    struct meter *table_rows, *table_bytes;
    struct meter *rows_admitted, *rows_evicted, *rows_dropped, *rows_updated, *rows_read;
};

/* Reference counted: its user holds one, and so does every shard, as gRPC may return the last
 * memory of an answer after the server was stopped. */
struct ps {
    atomic_uint refs;
    char *checkpoint_dir;
    struct data_roots data_roots; /* where sources of warm starts may lie */
    size_t chunk_bytes;
    struct rpc_polling *polling;  /* NULL: none */
    bool shared_memory;           /* open blocks that workers offer (shared_memory.h) */
    _Atomic uint64_t incarnation; /* the incarnation that an OpenShard must name; 0: any */
    size_t shards_max;
    uint64_t joining_bytes; /* PS_JOINING_BYTES */
    void (*refused)(void *ctx, struct rpc_call *call, const char *job, const struct err *why);
    void *refused_ctx;
    struct budget budget;
    struct gradient_memory gradient_memory;
    struct thread_team *team; /* helps with large updates */
    /* wakes shards and requests that wait for memory; never busy for long */
    struct pool *work;
    struct pool *opens;  /* makes shards, one after the other */
    struct pool *files;  /* writes checkpoints; one thread, so no file is written twice at once */
    struct pool *copies; /* copies slots for pins */
    /* ends connections to backups, and waits before the next one; NULL: shards have none */
    struct loop *links;
    char *local_sockets; /* where servers of this host listen, too; NULL: nowhere */
    const struct rpc_credentials *credentials; /* of those; NULL: plain */
    struct ps_meters meters;
    struct trace trace;

    pthread_mutex_t lock; /* guards the table, and: */
    struct ps_opening *openings;
    struct ps_shard *shards[PS_SHARDS_MAX];
    size_t shard_count, leaving,
        threads;         /* those that were removed, and whose strands are busy yet */
    pthread_cond_t left; /* fewer */
    struct shard_closed closed;
    bool drained;
};

/* Sums over whole variables, packed (rule/update.h): this shard's part of the present round, the
 * totals of the rounds before, and those of the step that was applied last. */
struct ps_sums {
    struct buf mine;
    struct buf totals[SHARD_ROUNDS_MAX], last[SHARD_ROUNDS_MAX];
};

/* The last update among the actions that are being done. */
struct ps_update_time {
    uint64_t began_ns; /* 0: there was none */
    uint64_t ended_ns; /* 0: it is being computed */
};

/* What slot 0 was when a version was made that is kept for a worker. */
struct ps_base {
    uint64_t version;
    unsigned kept;
    struct buffer *slot;
};

/* ---- shards ---- */

/* Reference counted: the table, every request, every answer on its way out and every file being
 * written hold one. */
struct ps_shard {
    atomic_uint refs;
    struct ps *ps;
    char *job;
    uint32_t number;
    uint64_t opened_generation, opening;
    uint64_t file_generation; /* in names of files: two holders of a shard never have the same */
    uint8_t secret[SHARD_KEY_SECRET_BYTES]; /* of the job, with which the keys of its workers are
                                               made; zeros: none are asked for */
    struct job_spec spec;
    struct plan plan;
    uint64_t elements;
    uint64_t records; /* train records of the job */
    /* of the first era, kept to the end; any thread may ask it which slots there are */
    const struct update *slots_of;
    char checkpoint_problem[512]; /* the problem of the checkpoint that was restored; "" none */

    struct work work;             /* what keeps the strand busy */
    struct work file_work;        /* and the thread that writes its file, or will */
    atomic_uint writing;          /* files */
    struct shard_written written; /* on the thread that writes files: */
    struct buf written_stamp;     /* storage_stamp() of that file */

    struct strand strand; /* owns what follows, up to the pools */
    struct shard *core;
    struct shard_actions actions;
    struct consistency consistency; /* the core's, as of its last step */
    struct ledger ledger;           /* where it began */
    bool let_go; /* the shard is closed, and its memory is given back as far as nobody reads it */
    struct ps_stream *streams;
    struct snapshots snapshots;
    size_t bases; /* versions that may be kept for workers: memory for them is reserved */
    /* pins of readers, and for how many versions more memory is reserved, so updates lack none */
    size_t readers, reader_versions;
    atomic_uint parts;           /* that readers read and are on their way */
    struct ps_average *averages; /* of versions that readers have pinned; NULL: none */
    struct ps_base *base_slots;  /* RULE_BASE_SLOT: slot 0 of versions kept for workers */
    size_t base_count, base_capacity;
    struct buffer_pool base_pool;
    struct shard_tables
        *tables;             /* NULL: the job has none; how many there are, and their dims, stay */
    struct rule_past *pasts; /* of each table, for catch-up */
    /* sums of squares of each table's gradient, for clips by norms; NULL: none */
    struct exact_sum *squares;
    struct ps_eras eras, first_eras; /* those it was opened with, once there are others */
    const struct ps_era *era;        /* the one of the update that is made, or was made last, */
    struct update *update;           /* and its update; all eras have the same slots */
    struct floats slots[UPDATE_SLOTS_MAX];
    float *slot_data[UPDATE_SLOTS_MAX];
    bool slots_taken;        /* from a source, before the values that workers bring */
    struct floats nothing;   /* the gradient of a step without records, where one is needed */
    struct buffer *slots_to; /* all slots are copied there first; keeps a reference */
    bool update_begun;       /* `step` has begun: SHARD_REDUCE came, SHARD_APPLY not yet */
    struct update_step step;
    struct ps_sums sums;
    struct ps_last_gradient last_gradient;
    struct ps_update_time update_time;
    uint64_t updates_skipped;
    struct err failed; /* code 0: not. No update will be right any more: whoever asks hears why */
    size_t parked_shown, queued_shown, snapshots_shown; /* the shard's part of the gauges */
    struct table_stats tables_shown;                    /* and of the meters of tables */

    struct gradient_pool gradients;
    struct buffer_pool slot_copies; /* copies of all slots, one behind the other */
    struct ps_follow *follow;       /* a primary: the way to its backup; NULL: it has none */
    struct ps_follow *joining;      /* the way to one that the event that is stepped brings */
    bool copies_more, version_more; /* one of slots, and a kept one: for a backup that joins */
    bool pin_reserved;              /* a backup: memory for a version that is pinned is reserved */
    struct ps_record_stream *record_streams;
    const struct rpc_call *tables_from; /* a backup that joins: the stream that brings tables */
    const struct shard_event *stepped;  /* the event whose actions are done */
    pthread_mutex_t standby_lock;       /* guards: */
    struct ps_standby *standby;         /* what it says of itself; NULL: nothing yet */

    struct strand_task left; /* behind what removes it from the list of shards */
    struct strand_task wake;
    void (*run_wake)(struct strand_task *task); /* steps the shard; who made it has set it */
    atomic_bool waking;
};

/* ---- requests ---- */

/* What a SetMembership changes; each part only if the message has it. */
struct ps_change {
    struct consistency consistency;
    struct ledger ledger;
    struct ps_eras eras; /* count 0: as before */
    uint64_t skipped;    /* of a state: updates that were left out */
};

/* A request to a shard, from its arrival to its answer: the tag of the core. */
struct ps_request {
    struct strand_task task, gone;
    atomic_uint refs; /* held by the answer, and by the call, which may go away */
    struct ps_shard *shard;
    struct rpc_call *call; /* NULL: nobody asks */
    struct rpc_msg *msg;   /* NULL, or where the event's strings are */
    struct ps_change *change;
    /* Of exchanges, which may wait for long: a message that waits with them would count against the
     * bytes in flight that the others need. */
    char worker[SHARD_WORKER_BYTES + 1]; /* one byte more than any id has, and the NUL */
    void *kept;                          /* the bytes of its decision, totals, or given values */
    struct ps_rows *rows;                /* the rows that it reads of tables; NULL: none */
    struct shard_event event;
    bool answered; /* of the strand */
    uint64_t arrived_ns;
    /* Answer with @a, or with @err when a->code is not 0. */
    void (*answer)(struct ps_request *r, const struct shard_action *a, const struct err *err);

    struct ps_stream *stream;         /* of an exchange; keeps a reference */
    struct ps_record_stream *records; /* of a note; keeps a reference, and the note */
    ProtobufCMessage *note;
    uint64_t exchange;
    uint64_t sent;         /* elements of the answer, */
    uint64_t filled;       /* and of the values in its block */
    uint32_t values_block; /* one of the client's blocks, from 1; 0: the values are sent */
    uint32_t rows_block;   /* one of the client's blocks for rows */
    bool offers_shared_memory, offers_tables_memory; /* the answer says what came of the offer */
    /* the types in which values of push and answer travel */
    enum value_type pushed, pulled;
    /* in the list of the stream's requests that wait; of the strand */
    struct ps_request *next;
    struct ps_request **link;
};

/* The files from top to bottom: each calls only those below it. At the top ps_service.c, ps.c, the
 * methods (on_*.c). Of files with headers of their own, ps_memory.c is below ps_apply.c, ps_rows.c
 * below ps_answer.c, ps_shared_memory.c and ps_eras.c at the bottom. */

/* ---- methods ---- */

#define PS_HANDLERS(X)                                                                             \
    X(open_shard)                                                                                  \
    X(fill)                                                                                        \
    X(set_membership)                                                                              \
    X(close_shard)                                                                                 \
    X(pull)                                                                                        \
    X(read)                                                                                        \
    X(record)                                                                                      \
    X(exchange)                                                                                    \
    X(pin)                                                                                         \
    X(unpin)                                                                                       \
    X(checkpoint)                                                                                  \
    X(stats)                                                                                       \
    X(trace)

#define X(handler) void ps_on_##handler(struct rpc_call *call, struct rpc_msg *msg, void *service);
PS_HANDLERS(X)
#undef X
void ps_stream_open(struct rpc_call *call, void *service);
void ps_stream_half_close(struct rpc_call *call, void *service);
void ps_stream_done(struct rpc_call *call, bool cancelled, void *service);
void ps_record_open(struct rpc_call *call, void *service);
void ps_record_half_close(struct rpc_call *call, void *service);
void ps_record_done(struct rpc_call *call, bool cancelled, void *service);
/* Tells of shards that are being opened, and of those that wait for that. */
void ps_openings_tell(struct ps *ps, struct membership_works *out);

/* ---- ps_request_run.c: requests on their way to the strand, and on it ---- */

/* Step it on the shard's strand. */
void ps_request_post(struct ps_request *r);
/* ps_request_post() of a unary call: when its client goes away, it waits no longer. */
void ps_request_post_unary(struct ps_request *r);
/* On the strand: drops a request that nobody waits for any more. */
void ps_request_drop(struct ps_request *r);
/* ps_shard_end() after the requests that came before; the shard leaves the list of shards. */
void ps_shard_drop(struct ps_shard *s);
/* `done` of all unary methods. */
void ps_unary_done(struct rpc_call *call, bool cancelled, void *service);
/* Find the shard of a unary request and make the request, or fail the call (NULL). */
struct ps_request *ps_unary(struct ps *ps, const Gradus__V1__ShardRef *ref,
                            enum shard_event_kind kind, struct rpc_call *call, struct rpc_msg *msg,
                            void (*answer)(struct ps_request *, const struct shard_action *,
                                           const struct err *));
/* ps_unary() of a call that reads or trains, as @worker; @reads: ps_check_key(). */
struct ps_request *ps_unary_exchange(struct ps *ps, const Gradus__V1__ShardRef *ref,
                                     const char *worker, bool reads, struct rpc_call *call,
                                     void (*answer)(struct ps_request *,
                                                    const struct shard_action *,
                                                    const struct err *));

/* ---- ps_shard.c: steps ---- */

/* Make the shard that @r asks for; it is in no table yet. Returns owned. Errors: ERR_INVALID,
 * ERR_EXHAUSTED; those of checkpoints. */
struct ps_shard *ps_shard_new(struct ps *ps, const Gradus__V1__OpenShardRequest *r,
                              struct err *err);
/* On the strand: steps the core and carries out its actions. */
void ps_shard_step(struct ps_shard *s, struct shard_event *e);
/* On the strand: there is a place for the next version, and nothing that must come before it. */
bool ps_shard_can_update(struct ps_shard *s);
/* On the strand: a SHARD_MEMBERSHIP, or a record of one, of request @r, which may need other
 * memory. */
void ps_shard_step_membership(struct ps_shard *s, struct ps_request *r);
/* On the strand: ends the shard, whatever its generation. */
void ps_shard_end(struct ps_shard *s);
uint64_t ps_shard_bytes(struct ps_shard *s);

/* ---- ps_checkpoint.c: files ---- */

/* Checks that @path names a checkpoint of @job. Errors: ERR_INVALID. */
int ps_check_directory(const char *job, const char *path, struct err *err);
/* Values and slots of @s out of @directory, below the server's checkpoint directory; of any number
 * of shards. Errors: ERR_INVALID no such place, another rule or other variables; those of
 * checkpoint_open(). */
int ps_restore(struct ps_shard *s, const char *directory, const char *owner, struct err *err);
/* Why no checkpoint of @s could be written into its job's directory, which is @owner's; "" none. */
void ps_look_for_directory(struct ps_shard *s, const char *owner);
/* On the strand: begins to write what @a names for @r, which is answered from another thread. */
void ps_write(struct ps_request *r, const struct shard_action *a);

/* ---- ps_apply.c: actions on floats, on the strand ---- */
/* Values and slots of the state that is stepped; values that workers bring. */
void ps_load(struct ps_shard *s, const struct shard_action *a);
void ps_put(struct ps_shard *s, const struct shard_action *a);
/* @from has no use afterwards but to be released. */
void ps_add(struct ps_shard *s, struct buffer *to, struct buffer *from);
/* Round 0 begins the update. */
void ps_reduce(struct ps_shard *s, const struct shard_action *a);
/* Updates; @replies[0..count) come after it: those that wait for its version get each part of it as
 * soon as it is computed. */
void ps_apply(struct ps_shard *s, const struct shard_action *apply,
              const struct shard_action *replies, size_t count);
/* Copy what s->slots_to asks for; a large copy by another thread, while the strand waits. */
void ps_keep_slots(struct ps_shard *s);
/* Also slot 0, for rules that want it as the worker read it. */
void ps_base_keep(struct ps_shard *s, uint64_t version);
void ps_base_forget(struct ps_shard *s, uint64_t version);

/* ---- ps_answer.c: answers of a stream, on the strand ---- */
/* On the strand: sends what is new among the first @done elements of @next, which is not committed
 * yet; ps_request_answer() sends the rest. Sends nothing when the answer @a is more than values. */
void ps_exchange_begin_answer(struct ps_request *r, const struct shard_action *a,
                              struct snapshot *next, uint64_t done);

/* ---- ps_sums.c: sums over whole variables, on the strand ---- */
void ps_settle(struct ps_shard *s, const struct shard_action *a);
void ps_sums_applied(struct ps_shard *s);
/* Before the core is stepped with @e: the update takes the totals, if the core will. Errors:
 * ERR_INVALID they are no such thing. */
int ps_sums_check(struct ps_shard *s, const struct shard_event *e, struct err *err);
/* The data of @sums of a reply; borrowed. */
const struct buf *ps_sums_of(const struct ps_shard *s, const struct exchange_sums *sums);

/* ---- ps_values.c: values on their way out, on the strand ---- */

/* References for @count blobs of @version; each blob has ctx = the snapshot and this release. */
struct snapshot *ps_values_acquire(struct ps_shard *s, uint64_t version, unsigned count);
void ps_values_release(void *snapshot);
void ps_values_release_slots(void *buffer); /* likewise a copy of slots, and the shard of it */
/* The same of a snapshot that somebody else holds. */
void ps_values_ref(struct ps_shard *s, struct snapshot *snapshot, unsigned count);
/* The values that a reply sends. */
struct ps_source {
    const float *data;
    void (*release)(void *ctx); /* one reference */
    void *ctx;
};
/* @count references to what @a answers with: the values of its version, or the moving average of
 * them where a pin is pulled of a job that evaluates it. */
struct ps_source ps_values_answer(struct ps_shard *s, const struct shard_action *a, unsigned count);
/* Elements [at, at + n) of @source as @r wants them (in 16 bits: of a snapshot); they are computed
 * already. */
struct rpc_piece ps_values_piece(const struct ps_request *r, const struct ps_source *source,
                                 uint64_t at, uint64_t n);

/* ---- ps_values.c: from and to messages ---- */

/* How the values of push and pull (NULL: none) travel, into the request, which has a shard. Errors:
 * ERR_INVALID types that are not the job's. */
int ps_read_types(const Gradus__V1__Push *push, const Gradus__V1__Pull *pull, struct ps_request *r,
                  struct err *err);
/* Reads the type of rows that are asked for alone. */
int ps_read_rows_type(const Gradus__V1__RowsRequest *m, struct ps_request *r, struct err *err);
/* On the strand: is the type of the push of @r right for its kind? Errors: ERR_INVALID. */
int ps_check_type(const struct ps_request *r, struct err *err);
/* So many norms a push may have, of variables and tables; 0: the shard has all of each itself. */
size_t ps_norms_max(const struct ps_shard *s);
/* The norms of @in, for its gradient. Errors: ERR_INVALID not one for each variable. */
int ps_read_norms(const struct ps_shard *s, const Gradus__V1__Push *in, struct buffer *gradient,
                  struct err *err);

/* ---- ps_request.c: a request from its arrival to its answer ---- */

/* A request with one reference, which the answer releases. Keeps references to @shard, @call and
 * @msg (may be NULL). */
struct ps_request *ps_request_new(struct ps_shard *shard, enum shard_event_kind kind,
                                  struct rpc_call *call, struct rpc_msg *msg,
                                  void (*answer)(struct ps_request *, const struct shard_action *,
                                                 const struct err *));
/* Copies the name of the worker that an exchange is from. */
void ps_request_name(struct ps_request *r, const char *worker);
/* Copy the decision or the totals that it borrows from a message. */
void ps_request_keep(struct ps_request *r);
void ps_request_unref(struct ps_request *r);
/* On the strand: it waits in no stream any more. */
void ps_request_unlink(struct ps_request *r);
/* On the strand: answer it and return the reference of who answers. */
void ps_request_answer(struct ps_request *r, const struct shard_action *a, const struct err *err);
/* Answer with a ShardState. */
void ps_answer_state(struct ps_request *r, const struct shard_action *a, const struct err *err);

/* ---- ps_stream.c: streams ---- */

void ps_stream_ref(struct ps_stream *s);
void ps_stream_unref(struct ps_stream *s);
/* On the strand of @s, which is closed: ends its streams, whether or not their clients read. */
void ps_streams_end(struct ps_shard *s);
/* On the strand: @r waits, until it is answered or the stream ends. */
void ps_stream_wait(struct ps_stream *s, struct ps_request *r);

/* ---- ps_key.c: who calls ---- */
/* The fence of the caller, out of @ref. */
struct fence ps_fence(const Gradus__V1__ShardRef *ref);
/* A shard is opened by @ref: its readers and workers show a key, if that has a secret. */
void ps_keep_secret(struct ps_shard *s, const Gradus__V1__ShardRef *ref);
bool ps_has_secret(const struct ps_shard *s);
/* Checks that @call, whose metadata has the key, may read or train as @worker the shard that @ref
 * names. @reads: it asks for a version and nothing else, as readers may. Errors: ERR_ABORTED it
 * means another opening; ERR_UNAUTHENTICATED; ERR_PERMISSION a reader asks for something else. */
int ps_check_key(const struct ps_shard *s, const Gradus__V1__ShardRef *ref, const char *worker,
                 bool reads, struct rpc_call *call, struct err *err);
/* It may not, and that is written down: @err, wrapped. Returns its code. */
int ps_refuse(const struct ps_shard *s, struct rpc_call *call, struct err *err);

/* ---- ps_list.c: the shards of a server ---- */
/* A reference to the shard, or NULL. Errors: ERR_INVALID no @ref; ERR_NOT_FOUND. */
struct ps_shard *ps_find(struct ps *ps, const Gradus__V1__ShardRef *ref, struct err *err);
/* Checks whether @r may open a shard that is not there. Errors: ERR_ABORTED the request is late:
 * what it opens was closed. */
int ps_check_opening(struct ps *ps, const Gradus__V1__OpenShardRequest *r, struct err *err);
/* Keeps a reference. Errors: ERR_EXHAUSTED; ERR_EXISTS; ERR_UNAVAILABLE draining;
 * those of ps_check_opening(). */
int ps_insert(struct ps *ps, struct ps_shard *s, struct err *err);
/* The CloseShard of a shard that is not there has come: a later OpenShard of it is refused. */
void ps_close_early(struct ps *ps, const Gradus__V1__ShardRef *ref);
void ps_remove(struct ps *ps, struct ps_shard *s); /* on its strand; not in it: fine */
void ps_wait_removed(struct ps *ps); /* until all are, and nothing of theirs runs any more */
bool ps_drained(struct ps *ps);      /* it is, or will be */
bool ps_lingers(struct ps *ps);      /* a shard that is in the table no more, but in memory */
/* References to all shards (of @job, when that is not NULL, not ""); returns their number. */
size_t ps_list(struct ps *ps, const char *job, struct ps_shard *out[PS_SHARDS_MAX]);

/* ---- ps_spans.c: times, and spans for those who have seen trace_on() ---- */

/* On the strand, while it is answered: how long the request waited for the update that made the
 * answer (or for the answer, without one), and the time of that update so far. */
struct ps_request_time {
    uint64_t waited_ns, applied_ns;
};
struct ps_request_time ps_request_time(const struct ps_request *r);
/* Any thread: of an exchange. */
void ps_trace_request(struct ps_request *r, enum trace_kind kind, uint64_t begin_ns,
                      uint64_t end_ns, uint64_t bytes);
/* On the strand: the wait of a request that is answered now, and what came of its push. */
void ps_trace_queue(struct ps_request *r, const struct exchange_trained *trained);
/* On the strand: adds a span that ends now. */
void ps_trace_shard(struct ps_shard *s, enum trace_kind kind, uint64_t begin_ns, uint64_t version);

/* ---- ps_refs.c: references ---- */
struct ps *ps_ref(struct ps *ps);
void ps_unref(struct ps *ps);
struct ps_shard *ps_shard_ref(struct ps_shard *s);
void ps_shard_unref(struct ps_shard *s);
/* "job a-1 shard 0: " in front of the message. */
int ps_shard_wrap(const struct ps_shard *s, struct err *err);
/* See whether updates wait for nothing any more. */
void ps_shard_wake(struct ps_shard *s);
/* A snapshot of the shard @ctx is free, on any thread. */
void ps_shard_freed(void *ctx);

/* ---- ps_meters.c ---- */
void ps_meters_init(struct ps *ps, struct meter_registry *r);

#endif
