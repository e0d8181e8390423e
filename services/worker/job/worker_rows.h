/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a job's tables on a worker: which keys a batch needs of which shard, where the rows land,
 * and what gradients bring of tables.
 *
 * The unique keys of a batch lie table by table, in rising order: so do the rows that a gradient is
 * made for. A shard sends the rows of its keys in one piece, table by table: with one shard they
 * are read where they land; with more they are put into the order of the keys first.
 *
 * Owner: the job's thread; while rows are on their way the threads of the streams write to where
 * they land. Memory is kept and used again: it is that of the largest batch. */
#ifndef GRADUS_WORKER_JOB_WORKER_ROWS_H
#define GRADUS_WORKER_JOB_WORKER_ROWS_H

#include "graph/model.h"
#include "ps_client/ps_client.h"
#include "table/table_gradient.h"

struct worker_rows_table;

/* The unique keys of a batch, found ahead on another thread. */
struct worker_rows_keys {
    struct table_keys *of; /* [tables]; NULL: none yet */
    size_t tables;
    uint64_t *lookups;
    size_t lookups_capacity;
};

struct worker_rows {
    const struct model *model; /* borrowed; NULL: a program's, which says its keys */
    size_t count;              /* tables of the model; 0: all else is unused */
    uint32_t shard_count;
    struct worker_rows_table *tables; /* [count] */
    struct ps_client_rows *shards;    /* [shard_count] what each shard is asked for */
    uint32_t *counts;                 /* [shard_count × count] */
    struct worker_rows_keys own;      /* for worker_rows_find() */
    uint64_t *keys;                   /* of all shards, one behind the other */
    float *landing;                   /* likewise, the rows */
    unsigned char *encoded, *chosen;  /* parts of a gradient, for one shard */
    size_t keys_capacity, landing_capacity, encoded_capacity, chosen_capacity;
    struct runner_rows *run; /* [count] */
};

/* The gradient of one buffer: [count] tables. */
struct worker_rows_gradient {
    struct table_gradient *tables; /* NULL: none was made yet */
};

void worker_rows_init(struct worker_rows *w, const struct model *model, uint32_t shard_count);
/* The same for a model that is not of layers: worker_rows_said() in place of _find() and _look().
 */
void worker_rows_init_said(struct worker_rows *w, const struct model_spec *spec,
                           uint32_t shard_count);
void worker_rows_release(struct worker_rows *w); /* zeroed is fine */

/* Find the keys of a batch: w->shards says then what to ask of which shard (count 0: nothing).
 * Errors: ERR_EXHAUSTED; ERR_INVALID more keys than can be. */
int worker_rows_find(struct worker_rows *w, const struct sparse_batch *b, struct err *err);
/* worker_rows_look() does most of that, on any thread; worker_rows_take() does the rest with the
 * result, whose memory is exchanged for that of @w. Errors: as worker_rows_find(). */
int worker_rows_look(const struct model *model, const struct sparse_batch *b,
                     struct worker_rows_keys *k, struct err *err);
int worker_rows_take(struct worker_rows *w, struct worker_rows_keys *k, struct err *err);
void worker_rows_keys_release(struct worker_rows_keys *k); /* zeroed is fine */
/* As worker_rows_find(), with keys that a program says: @counts[t] keys of each table, one table
 * after the other. They are copied before they are checked. */
int worker_rows_said(struct worker_rows *w, const uint64_t *keys, const uint32_t *counts,
                     struct err *err);
/* The keys of the batch in table @t, which were found, taken or said. */
const struct table_keys *worker_rows_keys_of(const struct worker_rows *w, size_t t);
/* Call when all rows have come: w->run has them for a runner, and @gradient (NULL: none is
 * computed) becomes that of their keys, with zeros. Errors: ERR_EXHAUSTED. */
int worker_rows_come(struct worker_rows *w, struct worker_rows_gradient *gradient, struct err *err);

void worker_rows_gradient_release(const struct worker_rows *w, struct worker_rows_gradient *g);
/* Makes it the gradient of an empty batch, without keys. */
void worker_rows_gradient_clear(const struct worker_rows *w, struct worker_rows_gradient *g);
/* @to becomes @to + @from. Errors: ERR_EXHAUSTED. */
int worker_rows_gradient_add(const struct worker_rows *w, struct worker_rows_gradient *to,
                             const struct worker_rows_gradient *from, struct err *err);
bool worker_rows_gradient_is_finite(const struct worker_rows *w,
                                    const struct worker_rows_gradient *g);
/* What the other side will have of @g when it travels as @type, in place. */
void worker_rows_gradient_round(const struct worker_rows *w, struct worker_rows_gradient *g,
                                enum value_type type);
/* What a push of @g to @shard brings of all tables, with values of @type; @out is borrowed until
 * the next call. Errors: ERR_EXHAUSTED. */
int worker_rows_encode(struct worker_rows *w, const struct worker_rows_gradient *g, uint32_t shard,
                       enum value_type type, const void **out, uint64_t *bytes, struct err *err);

#endif
