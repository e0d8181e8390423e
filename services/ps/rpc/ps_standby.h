/* SPDX-License-Identifier: Apache-2.0 */
/* Standby shards (docs/protocol.md): what a primary says to its backup, and how a backup hears it.
 * From top to bottom: on_record.c (the backup's method), ps_follow.c (the primary's way to its
 * backup), ps_record.c (a record as messages), ps_backup.c. */
#ifndef GRADUS_PS_RPC_PS_STANDBY_H
#define GRADUS_PS_RPC_PS_STANDBY_H

#include "ps/rpc/ps_shell.h"

/* ---- a primary ---- */

/* The memory of a gradient that is on its way: one of a shard's, which is on the budget; a moment
 * longer than a record gRPC may hold it, so there may be one more. */
struct ps_copy {
    atomic_uint refs;
    struct ps_shard *shard; /* each reference keeps one to it, but the shard's own */
    struct floats floats;
    bool reserved; /* on the budget */
    bool has_norms;
    size_t norm_count;
    double *norms;
};

/* A record that the backup has not received. */
struct ps_record {
    struct ps_record *next;
    struct shard_record what;
    uint8_t *decision;          /* that it borrows */
    struct ps_request *request; /* whose event it tells; NULL: an update, a decision */
    struct ps_copy *gradient;   /* of an update with examples */
    struct buf totals[SHARD_ROUNDS_MAX];
};

/* The way to the backup that @location says, before the shard is in a list; nothing is connected
 * before the shard is woken. Errors: ERR_INVALID no such address; ERR_EXHAUSTED. */
int ps_follow_new(struct ps_shard *s, const Gradus__V1__ShardLocation *location, struct err *err);
/* On the strand, all that follow; NULL instead of a follow is fine. */

/* SHARD_EMIT: @e is the event that is stepped. */
void ps_follow_emit(struct ps_shard *s, const struct shard_action *a, const struct shard_event *e);
/* SHARD_REDUCE, SHARD_ABANDON: the update may change a gradient before its record is said. */
void ps_follow_reduce(struct ps_shard *s, const struct shard_action *a);
void ps_follow_abandon(struct ps_shard *s);
/* The shard was woken: connects, and goes on sending. Returns how many records were received, if
 * that is news; else 0. */
uint64_t ps_follow_hear(struct ps_shard *s);
uint64_t ps_follow_opening(const struct ps_shard *s);
/* Why the backup does not follow at present; "": it does. */
const char *ps_follow_problem(const struct ps_shard *s);
/* The shard has no backup (any more). Also of a shard that is in no list. */
void ps_follow_end(struct ps_shard *s);

/* ---- a record as messages ---- */

#define PS_RECORD_FLOATS_MAX (UINT64_C(1) << 17) /* in one message */

/* Sends the next message of @r on @stream, from element *at on, which moves. 1: that was the last
 * one. Errors: those of rpc_stream_send(). */
int ps_record_send(struct ps_shard *s, struct rpc_stream *stream, const struct ps_record *r,
                   uint64_t *at, struct err *err);
uint64_t ps_record_floats(const struct ps_record *r); /* values that go with it */
/* What the first message of a record says, into the event of @r, which keeps the message. Errors:
 * ERR_INVALID. */
int ps_record_read(struct ps_request *r, const Gradus__V1__RecordRequest *m, struct err *err);
struct ps_copy *ps_copy_ref(struct ps_copy *c);
void ps_copy_unref(void *copy); /* any thread */

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
    float *given;
    struct gradient_wait waiter; /* keeps a reference */
    /* of the strand */
    struct ps_record_stream *next, **link; /* in the list of the shard's; NULL: not in it */
    struct strand_task begun, gone;
};
void ps_record_stream_unref(struct ps_record_stream *s);
/* On the strand: in the list of its shard's streams, or ended, if the shard is; out of the list. */
void ps_record_stream_begin(struct ps_record_stream *s);
void ps_record_stream_unlink(struct ps_record_stream *s);
/* On the strand of @s, which is closed. */
void ps_record_streams_end(struct ps_shard *s);

/* ---- what a shard says of itself ---- */

struct ps_standby {
    enum shard_role role;
    uint64_t records, received, since_ms;
    /* The furthest part of a gradient that has left, and when: a large one takes its time. What is
     * sent again after a break is nothing new. */
    uint64_t sent_number, sent_end, sent_ms;
    char problem[256];
};
/* Any thread: element @end of record @number has left. */
void ps_standby_sent(struct ps_shard *s, uint64_t number, uint64_t end);
/* On the strand: notes it for others. */
void ps_standby_show(struct ps_shard *s, const struct shard_info *info, const char *problem);
void ps_standby_get(struct ps_shard *s, struct ps_standby *out); /* any thread */
uint64_t ps_standby_waits_ms(const struct ps_standby *said);

#endif
