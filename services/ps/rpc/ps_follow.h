/* SPDX-License-Identifier: Apache-2.0 */
/* A primary's way to its backup, as ps_follow.c (its records) and ps_link.c (the stream) know it.
 */
#ifndef GRADUS_PS_RPC_PS_FOLLOW_H
#define GRADUS_PS_RPC_PS_FOLLOW_H

#include "execution/loop.h"
#include "ps/rpc/ps_standby.h"

#define PS_LINK_TELL_FAILURES 3 /* so many connections that failed in a row are worth a word */

/* One reference for the shard, one for the stream until its end, one for the timer. */
struct ps_follow {
    atomic_uint refs;
    struct ps_shard *shard; /* keeps a reference from the first connection on */
    uint64_t opening;
    struct rpc_channel *channel;

    /* of the strand */
    bool begun;
    struct ps_record *first, **end; /* that were not received */
    struct ps_record *sending;      /* the next one to send; NULL: all were sent */
    uint64_t at;                    /* of its elements */
    struct ps_copies copies;
    uint64_t state_bytes;      /* 0: the backup was there from the beginning */
    struct ps_copy *reduced;   /* the gradient of the update that is begun; NULL: none */
    struct rpc_stream *stream; /* NULL: none */
    struct ps_near *near;      /* offered on it; NULL: none */
    uint64_t number;           /* of the stream */
    bool is_near;              /* the backup is on this host */
    bool greeted;              /* the backup has said on it what it has */
    bool waits;                /* before it connects again */
    bool stuck;                /* a record is not whole: nothing more is sent */
    bool joins;                /* the state was not received */
    /* updates among the records, and what they count as; there was no memory for rows of one */
    uint64_t updates, update_bytes;
    bool uncounted;
    /* Records by their last numbers: received; and said on this stream in messages, and in notes. A
     * note overtakes messages, and they it: so each way waits until what went the other is
     * received. */
    uint64_t known, in_messages, in_notes;
    unsigned failures;
    char problem[256];

    struct loop_timer timer; /* of the thread of ps->links */

    pthread_mutex_t lock; /* guards the inbox: */
    uint64_t received;
    bool heard, over, due;
    bool opened;    /* the memory that was offered */
    struct err why; /* it is over */
};

void ps_link_unref(struct ps_follow *f);
/* On the strand, all that follow. */
void ps_link_connect(struct ps_follow *f);
/* The stream is over, for @why: another one is connected after a while. */
void ps_link_over(struct ps_follow *f, const struct err *why);
/* The first receipt of the stream has come, which says whether memory was @opened. */
void ps_link_greeted(struct ps_follow *f, bool opened);
/* It is nobody's any more, and has no records. */
void ps_link_end(struct ps_follow *f);

#endif
