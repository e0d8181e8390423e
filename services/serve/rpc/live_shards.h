/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a job that runs, as a reader asks them: all at once for a pin, and for one part
 * after the other of what is pinned. Owner: one thread, but for live_shards_stop(). */
#ifndef GRADUS_SERVE_LIVE_SHARDS_H
#define GRADUS_SERVE_LIVE_SHARDS_H

#include <pthread.h>

#include "auth/shard_key.h"
#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "job/plan/plan.h"
#include "rpc/rpc.h"
#include "table/table.h"

struct live_shards;

struct live_shard {
    struct live_shards *all;
    char *address; /* of @channel */
    struct rpc_channel *channel;
    char key[SHARD_KEY_BYTES];
    uint64_t opening;
    uint64_t version; /* of its last answer */
    struct err err;   /* of the request in hand */
    struct rpc_msg *answer;

    /* what it has of the table that is read */
    uint64_t next;
    bool last;
    uint32_t count; /* rows that are here and were not handed out */
    uint64_t *keys;
    float *values;
};

struct live_shards {
    const struct rpc_credentials *credentials; /* borrowed; may be NULL */
    char *job;                                 /* the last three of the last answer */
    uint64_t generation;
    bool average; /* read in the place of the values */
    struct live_shard *items;
    size_t count;
    char pin_id[48];
    uint64_t drawn, pins; /* what it is made of: a random number, and how many there were */
    uint64_t *rows;       /* [table_count] that are pinned, of each table */
    size_t table_count;
    size_t table;         /* that is read; SIZE_MAX: none */
    pthread_mutex_t lock; /* guards what follows, the shards' channels and answers */
    bool stopping;
    pthread_cond_t answered;
    size_t missing;
};

void live_shards_init(struct live_shards *l, const struct rpc_credentials *credentials);
void live_shards_release(struct live_shards *l);
void live_shards_stop(struct live_shards *l); /* any thread: ends what is waited for */

/* The shards are where @f says. Errors: ERR_CORRUPT. */
int live_shards_place(struct live_shards *l, const Gradus__V1__FollowResponse *f, uint32_t count,
                      struct err *err);
/* Pins the present version of each, or @version of all when they make it. What a shard has pinned
 * stays so when another one refuses. Errors: those of Read. */
int live_shards_pin(struct live_shards *l, const uint64_t *version, struct err *err);
/* Have all pinned the same version? The newest one to @newest. */
bool live_shards_level(const struct live_shards *l, uint64_t *newest);
void live_shards_unpin(struct live_shards *l);
/* So many rows of table @table are pinned, on all shards. */
uint64_t live_shards_rows(const struct live_shards *l, size_t table);
/* The pinned values of all variables of @plan. */
int live_shards_values(struct live_shards *l, const struct plan *plan, float *const *out,
                       struct err *err);
/* The next pinned rows of table @table, of @dim floats; tables come in their order. Arrays of @out
 * stay until the next call; none: there are no more. */
int live_shards_next_rows(struct live_shards *l, size_t table, size_t dim, struct table_chunk *out,
                          struct err *err);

#endif
