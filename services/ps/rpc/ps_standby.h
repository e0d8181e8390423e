/* SPDX-License-Identifier: Apache-2.0 */
/* Standby shards (docs/protocol.md): what a primary says to its backup, and how a backup hears it.
 * From top to bottom: on_record.c (the backup's method), ps_hear.c (the notes that it reads),
 * ps_follow.c and ps_link.c (the primary's way to its backup), ps_record.c (a record as messages),
 * ps_state.c, ps_said_tables.c, ps_copy.c, ps_heard_tables.c, ps_near.c, ps_backup.c. */
#ifndef GRADUS_PS_RPC_PS_STANDBY_H
#define GRADUS_PS_RPC_PS_STANDBY_H

#include "host/shared_notes.h"
#include "ps/data/tables_state.h"
#include "ps/rpc/ps_stream.h"

struct ps_record;

/* Of updates while a backup joins, which has not received the state: as many records wait as there
 * are bytes for, and some in any case. */
#define PS_JOINING_BYTES (UINT64_C(64) << 20)
#define PS_JOINING_UPDATES 4

/* ---- a backup on the same host ---- */

/* Memory that a primary shares with its backup, of one stream. What is there of a record lies there
 * until the record is forgotten, also when the stream is over: a backup changes it only after it
 * has received the record. */
struct ps_near {
    atomic_uint refs;
    struct ps *ps;
    struct shared_memory *memory;
    uint64_t elements;
    uint32_t paid; /* blocks that were taken once: they are on the budget */
    /* once the backup has opened it: */
    uint64_t stream;           /* of ps_standby_begin() */
    struct shared_notes notes; /* short records, and how far they were received */
    bool listens;              /* a thread waits for that; without one there are no notes */
    atomic_bool over;
    struct ps_shard *shard; /* of the thread, which keeps a reference */
};

/* A short record: the message that says it. */
struct ps_note {
    uint32_t bytes;
    uint8_t message[SHARED_NOTE_BYTES - sizeof(uint32_t)];
};
_Static_assert(sizeof(struct ps_note) == SHARED_NOTE_BYTES, "a note has all of it");

/* Where the server at @address is reached: on this host (@near) by its local socket, which takes
 * half the CPU of a byte. Returns owned. */
char *ps_near_target(const struct ps *ps, const char *address, bool *near);
/* NULL: there is none to be had, or the server shares none. */
struct ps_near *ps_near_new(const struct ps_shard *s);
struct ps_near *ps_near_ref(struct ps_near *n);
void ps_near_unref(struct ps_near *n);                                      /* NULL is fine */
void ps_near_offer(const struct ps_near *n, Gradus__V1__SharedMemory *out); /* borrows */
/* A block, which is the backup's once its record was sent, or ps_near_return(). NULL: the backup
 * has all of them, or there is no memory for one more. */
float *ps_near_take(struct ps_near *n, uint32_t *block);
void ps_near_return(struct ps_near *n, uint32_t block);
/* The backup has opened the memory, on stream @stream of @s. */
void ps_near_begin(struct ps_near *n, struct ps_shard *s, uint64_t stream);
/* The stream is over; gives back a reference. NULL is fine. */
void ps_near_end(struct ps_near *n);
/* Puts @note. False: there is no room. */
bool ps_near_note(struct ps_near *n, const struct ps_note *note);
/* All records up to this one were received; 0: none that was in a note. */
uint64_t ps_near_word(const struct ps_near *n);
/* Wake the shard with the next word; what came before must be looked for after this. */
void ps_near_await(const struct ps_near *n);

/* Threads that ps_wait_threads() waits for, with their last touch of @ps. */
void ps_thread_begins(struct ps *ps);
void ps_thread_ends(struct ps *ps);
void ps_wait_threads(struct ps *ps);

struct ps_said_tables;

/* ---- a primary ---- */

/* The memory of a gradient that is on its way: one of a shard's, which is on the budget; a moment
 * longer than a record gRPC may hold it, so there may be one more. Or a block that the backup sees.
 */
struct ps_copy {
    atomic_uint refs;
    struct ps_shard *shard; /* each reference keeps one to it, but the shard's own */
    struct floats floats;
    struct ps_near *near; /* whose block it is; NULL: of none */
    uint32_t block;
    bool named;    /* a record was sent that names the block */
    bool reserved; /* on the budget */
    bool has_norms;
    size_t norm_count;
    double *norms;
};

struct ps_copy *ps_copy_ref(struct ps_copy *c);
void ps_copy_unref(void *copy); /* any thread */

struct ps_copies {
    struct ps_copy **items; /* the reserved ones; each with a reference */
    size_t count, capacity;
    size_t next;          /* which one is likely to be free */
    struct ps_near *near; /* that the backup has opened, and comes first; NULL: none. Borrowed */
};
/* There are @count from now on; those above it go when nobody has them any more. Errors:
 * ERR_EXHAUSTED, and there are fewer. */
int ps_copies_reserve(struct ps_copies *all, struct ps_shard *s, size_t count, struct err *err);
/* True if one is free, if need be one more than there were. */
bool ps_copies_have(struct ps_copies *all, struct ps_shard *s);
/* A copy of @from, with a reference. NULL with ERR_EXHAUSTED: there is no memory. */
struct ps_copy *ps_copies_take(struct ps_copies *all, struct ps_shard *s, const struct buffer *from,
                               struct err *err);

/* By the team of the server, where @floats are many. */
void ps_copy_floats(const struct ps_shard *s, float *to, const float *from, uint64_t floats);

/* A part of a record's values, with a reference. */
struct ps_part {
    const float *data;
    uint64_t count;
    void (*release)(void *ctx); /* any thread */
    void *ctx;
};

/* The rows of tables that a record brings; on the budget, if there is room: they are needed. */
struct ps_said_rows {
    atomic_uint refs;
    struct ps_shard *shard; /* each reference keeps one to it */
    uint64_t bytes;
    bool counted; /* on the budget */
    unsigned char *data;
};
/* Those of @gradient, which may be NULL; NULL: it has none, or (with an error) there is no memory.
 */
struct ps_said_rows *ps_said_rows_new(struct ps_shard *s, const struct buffer *gradient,
                                      struct err *err);
struct ps_said_rows *ps_said_rows_ref(struct ps_said_rows *r);
void ps_said_rows_unref(void *rows); /* any thread; NULL is fine */

/* All of a shard, for a backup that joins. */
struct ps_state {
    Gradus__V1__StateRecord message;          /* but for the decision; it points to what follows, */
    Gradus__V1__SetMembershipRequest present; /* and to the workers of the event's message */
    Gradus__V1__Consistency consistency;
    Gradus__V1__Ledger position;
    Gradus__V1__Era *eras, **era_list;
    struct ledger ledger;
    struct snapshot *values;       /* ps_values_acquire() */
    struct buffer *slots;          /* NULL: the rule has none */
    struct ps_said_tables *tables; /* NULL: the job has none */
};
/* @a: SHARD_EMIT, of the event of @r, which outlives it. Returns owned. */
struct ps_state *ps_state_new(struct ps_shard *s, const struct shard_action *a,
                              const struct ps_request *r);
void ps_state_free(struct ps_state *st);             /* NULL is fine */
uint64_t ps_state_floats(const struct ps_state *st); /* but for tables */
uint64_t ps_state_bytes(const struct ps_state *st);  /* with them, about */
/* What lies there from float @at on, which is below ps_state_floats(). */
struct ps_part ps_state_part(struct ps_shard *s, const struct ps_state *st, uint64_t at);
/* Into the event of a record that was read so far. Errors: ERR_INVALID. */
int ps_state_read(struct ps_request *r, const Gradus__V1__StateRecord *m, struct err *err);

/* The tables of a shard at the version that is kept for the state: they are read and sent a part at
 * a time, some parts ahead of what has left. */
struct ps_said_tables *ps_said_tables_new(struct ps_shard *s, uint64_t version);
void ps_said_tables_free(struct ps_said_tables *t); /* NULL is fine; parts that leave stay */
uint64_t ps_said_tables_bytes(const struct ps_said_tables *t); /* about */
/* The next part of @t, @first: from the beginning. With a @part of no data: there are no more.
 * Errors: ERR_EXHAUSTED others leave first, and then the shard is woken; ERR_UNAVAILABLE there is
 * no memory, and nobody would wake it; ERR_RANGE the rows are not kept any more; ERR_STATE. */
int ps_said_tables_next(struct ps_said_tables *t, bool first, struct ps_part *part,
                        struct err *err);

/* A record that the backup has not received. */
struct ps_record {
    struct ps_record *next;
    struct shard_record what;
    uint8_t *decision; /* that it borrows, and */
    uint32_t *sent;
    struct ps_request *request; /* whose event it tells; NULL: an update, a decision */
    struct ps_copy *gradient;   /* of an update with examples, */
    struct ps_said_rows *rows;  /* and of tables */
    struct ps_state *state;
    struct buf totals[SHARD_ROUNDS_MAX];
};

/* The way to the backup that @location says; nothing is connected before the shard is woken. It has
 * begun before the backup: @joins. Errors: ERR_INVALID no such address; ERR_EXHAUSTED. */
int ps_follow_new(struct ps_shard *s, const Gradus__V1__ShardLocation *location, bool joins,
                  struct ps_follow **out, struct err *err);
/* On the strand, all that follow; NULL instead of a follow is fine. */

/* The event of @r brings a backup that joins, if the core takes it: finds memory for it. Errors:
 * those of ps_follow_new(). */
int ps_follow_join(struct ps_shard *s, struct ps_request *r, struct err *err);
/* It was stepped. */
void ps_follow_joined(struct ps_shard *s);
/* SHARD_EMIT: @e is the event that is stepped. */
void ps_follow_emit(struct ps_shard *s, const struct shard_action *a, const struct shard_event *e);
/* SHARD_REDUCE, SHARD_ABANDON: the update may change a gradient before its record is said. */
void ps_follow_reduce(struct ps_shard *s, const struct shard_action *a);
void ps_follow_abandon(struct ps_shard *s);
/* The shard was woken: connects, and goes on sending. Returns how many records were received, if
 * that is news; else 0. */
uint64_t ps_follow_hear(struct ps_shard *s);
/* The same of notes alone: at the end of a step, again and again until it is 0. Then the shard is
 * woken for the next one. */
uint64_t ps_follow_listen(struct ps_shard *s);
uint64_t ps_follow_opening(const struct ps_shard *s);
/* Why the backup does not follow at present; "": it does. */
const char *ps_follow_problem(const struct ps_shard *s);
/* Bytes of the state that the backup gets, or has got; 0: it was there from the beginning. */
uint64_t ps_follow_state_bytes(const struct ps_shard *s);
/* Gives memory back that only a backup that joins needs, which is still @joining: it catches up. */
void ps_follow_trim(struct ps_shard *s, bool joining);
/* False: the record of one more update has to wait until the state was received, for memory. */
bool ps_follow_has_room(struct ps_shard *s);
/* The shard has no backup (any more). Also of a shard that is in no list. */
void ps_follow_end(struct ps_shard *s);

/* ---- a record as messages ---- */

#define PS_RECORD_FLOATS_MAX (UINT64_C(1) << 17) /* in one message */

/* Sends the next message of @r on @stream, which is number @number of ps_standby_begin(), from
 * element *at on, which moves; of a gradient that the backup sees, where it lies. 1: that was the
 * last one. Errors: those of rpc_stream_send(). */
int ps_record_send(struct ps_shard *s, struct rpc_stream *stream, uint64_t number,
                   const struct ps_record *r, uint64_t *at, struct err *err);
/* True if @r is short: it has no values, or the backup sees them on stream @number. */
bool ps_record_note(const struct ps_record *r, uint64_t number, struct ps_note *out);
/* It was said where its values lie: they are the backup's. */
void ps_record_named(const struct ps_shard *s, const struct ps_record *r);
uint64_t ps_record_floats(const struct ps_record *r); /* values that go with it */
/* Among what was not received (@sign 1), or no more (-1). */
void ps_record_show(const struct ps_shard *s, const struct ps_record *r, double sign);
void ps_record_free(const struct ps_shard *s, struct ps_record *r); /* was shown */
/* What the first message of a record says, into the event of @r, which keeps the message. Errors:
 * ERR_INVALID. */
int ps_record_read(struct ps_request *r, const Gradus__V1__RecordRequest *m, struct err *err);

/* ---- tables at a backup (ps_heard_tables.c) ---- */

/* Room for the rows that record @m brings; NULL: it has none. Errors: ERR_INVALID; ERR_EXHAUSTED.
 */
int ps_heard_rows(struct ps_shard *s, const Gradus__V1__UpdateRecord *m,
                  struct tables_gradient **out, struct err *err);
/* Takes a part of the state's tables to the strand, where the shard puts it in, if it has none yet;
 * the call goes on then. @first: the tables begin anew, at @version. Errors: ERR_EXHAUSTED. */
int ps_heard_part(struct ps_record_stream *s, struct rpc_spans *spans, bool first, uint64_t version,
                  struct err *err);
/* On the strand: all parts that came on @stream are in. Errors: ERR_UNAVAILABLE they are not. */
int ps_heard_whole(const struct ps_shard *s, const struct rpc_call *stream, struct err *err);

/* ---- what SetMembership says (ps_change.c) ---- */

int ps_read_change(struct ps_request *r, const Gradus__V1__SetMembershipRequest *m,
                   struct err *err);

/* ---- a backup ---- */

/* A stream of records. One reference for the call, until it is over, and one for each task. */
struct ps_record_stream {
    atomic_uint refs;
    struct ps *ps;
    struct rpc_call *call;
    /* of the call's callbacks */
    struct ps_shard *shard; /* NULL until the first message */
    struct fence fence;
    bool failed;
    struct ps_request *request; /* the record that comes in; NULL: none */
    uint64_t number, arrived, total;
    struct buffer *buffer;
    struct tables_gradient *rows; /* of tables, which lie behind the gradient */
    bool parts;                   /* of the state's tables have come */
    float *given;
    struct ps_shared_memory *memory; /* NULL: the primary offered none that can be opened */
    struct {                         /* notes that come there; of a thread of their own, but: */
        struct shared_notes notes;
        struct gradient_wait waiter;
        atomic_bool ready;       /* there is memory, for which the thread waits */
        atomic_bool begun, over; /* of the call's callbacks */
    } hears;
    struct gradient_wait waiter; /* keeps a reference */
    /* of the strand */
    struct ps_record_stream *next, **link; /* in the list of the shard's; NULL: not in it */
    struct strand_task begun, gone;
};
void ps_record_stream_unref(struct ps_record_stream *s);
/* Reads notes of s->memory from now on. Errors: ERR_EXHAUSTED no thread. */
int ps_hear_begin(struct ps_record_stream *s, struct err *err);
void ps_hear_end(struct ps_record_stream *s); /* not begun is fine */
/* On the strand: in the list of its shard's streams, or ended, if the shard is; out of the list. */
void ps_record_stream_begin(struct ps_record_stream *s);
void ps_record_stream_unlink(struct ps_record_stream *s);
/* On the strand of @s, which is closed. */
void ps_record_streams_end(struct ps_shard *s);

/* ---- what a shard says of itself ---- */

struct ps_standby {
    enum shard_role role;
    uint64_t records, received, since_ms;
    uint64_t backup; /* of a primary: the opening of that which this is about, */
    bool follows;    /* whether it can take over, */
    bool joins;      /* or will be able to, and is among the meter's */
    uint64_t state_bytes;
    bool copies; /* its slots: it does not wait for the backup */
    /* The furthest part of a gradient, or of the state, that has left on the present stream, and
     * when: a large one takes its time. A break drops what is queued, which counts as left until
     * the next stream begins. */
    uint64_t sent_number, sent_end, sent_ms;
    uint64_t stream, streams; /* the number of the present one, 0: none; of the newest */
    unsigned begun;           /* streams since the last receipt */
    char problem[256];
};
/* On the strand: the backup has answered on a new stream, on which everything is sent from the
 * beginning. That is progress again, but for a few times only: a link that breaks again and again
 * is none. Returns the number of the stream. */
uint64_t ps_standby_begin(struct ps_shard *s);
/* Any thread: element @end of record @number has left on stream @stream. */
void ps_standby_sent(struct ps_shard *s, uint64_t stream, uint64_t number, uint64_t end);
void ps_standby_copied(struct ps_shard *s); /* any thread: its slots */
/* On the strand: notes it for others. */
void ps_standby_show(struct ps_shard *s, const struct shard_info *info, const char *problem,
                     uint64_t state_bytes);
void ps_standby_get(struct ps_shard *s, struct ps_standby *out); /* any thread */
uint64_t ps_standby_waits_ms(const struct ps_standby *said);
uint64_t ps_standby_state_sent(const struct ps_standby *said); /* bytes */

#endif
