/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of one shard, all at the same version, and what pushes bring of them.
 *
 * Rows that a push brings come as bytes (table/table_gradient.h, one for each table), are decoded
 * before the shard hears of the push, are summed in the order that the shard's core says, and go
 * into all tables in one update. They count in the server's budget from the first byte on.
 *
 * Owner of the tables: the shard's strand. Of what a push brings: who has it. */
#ifndef GRADUS_PS_DATA_SHARD_TABLES_H
#define GRADUS_PS_DATA_SHARD_TABLES_H

#include "ps/data/buffer.h"
#include "table/table.h"

#define SHARD_TABLES_MAX 256       /* of a job */
#define SHARD_TABLES_READERS_MAX 4 /* pins of readers */

/* ---- what a push brings ---- */

struct tables_gradient {
    size_t count;
    struct table_gradient *of; /* [count] */
    struct budget *budget;
    uint64_t bytes;       /* on the budget */
    enum value_type type; /* type of the values in `encoded` */
    uint64_t encoded_bytes;
    unsigned char *encoded; /* [encoded_bytes]; NULL: not there yet, or somewhere else */
    bool decoded;
};

/* Room for @bytes of @count tables with @dims, whose values come as @type. Returns owned. Errors:
 * ERR_EXHAUSTED. */
struct tables_gradient *tables_gradient_new(const size_t *dims, size_t count, enum value_type type,
                                            uint64_t bytes, struct budget *budget, struct err *err);
void tables_gradient_free(struct tables_gradient *g); /* NULL is fine */
/* Memory for the bytes: g->encoded. Errors: ERR_EXHAUSTED. */
int tables_gradient_expect(struct tables_gradient *g, struct err *err);
/* Decodes a gradient when all @bytes are there; NULL: they are in g->encoded, which is freed. They
 * are copied before they are checked. Errors: ERR_INVALID which table, and what is wrong with it;
 * ERR_EXHAUSTED. */
int tables_gradient_decode(struct tables_gradient *g, const void *bytes, struct err *err);

/* Adds up what two pushes bring of tables, either of which may be NULL: *@to becomes the sum.
 * *@from may be taken for it, and is NULL then. Errors: ERR_EXHAUSTED: *@to is of no use any more.
 */
int tables_gradient_join(struct tables_gradient **to, struct tables_gradient **from,
                         struct err *err);

/* Bytes of the same as one that is expected, with floats; what has no rows of a table says so. */
uint64_t tables_gradient_bytes(const struct tables_gradient *g);
void tables_gradient_encode(const struct tables_gradient *g, void *out);

/* ---- the tables ---- */

struct shard_tables {
    size_t count;
    struct table *tables[SHARD_TABLES_MAX];
    size_t dims[SHARD_TABLES_MAX];
    uint64_t version;
    bool keeps_previous;                        /* the version before can be read */
    uint64_t readers[SHARD_TABLES_READERS_MAX]; /* versions that readers have pinned */
    size_t reader_count;
    struct budget *budget;
    uint64_t bytes; /* reserved on it */
};

/* @configs for @count tables, of which each takes its bytes_max and copies_bytes_max from @budget.
 * Returns owned. Errors: those of table_new(), with the table's name; ERR_EXHAUSTED. */
int shard_tables_new(const struct table_config *configs, size_t count, uint64_t version,
                     struct budget *budget, struct shard_tables **out, struct err *err);
/* They begin anew, empty, at @version, with the same @configs. Errors: those of shard_tables_new();
 * there are none then. */
int shard_tables_renew(struct shard_tables *t, const struct table_config *configs, uint64_t version,
                       struct err *err);
/* The rows and their memory go; what does not change may still be read, by any thread. */
void shard_tables_close(struct shard_tables *t);
void shard_tables_free(struct shard_tables *t); /* NULL is fine */

/* Says whether the version before the present one can be read, from now on; shard_tables_new()
 * begins as its @configs say, which are alike in that. Where it cannot be read, an update copies
 * nothing for it. */
void shard_tables_keep_previous(struct shard_tables *t, bool keeps);
/* True if memory for copies is short in one of the tables, also without the pins of readers, which
 * are given up then. */
bool shard_tables_short(struct shard_tables *t);
/* Updates the tables to the next version, with @gradient (NULL: no push brought any) of @examples,
 * and for each table the scalars of the rule. Errors: ERR_EXHAUSTED a table is full, with its name;
 * the tables are of no use then, for some may have changed. Where copies do not fit, the table's
 * pins are given up first, those of readers before the others, and also when copies are short: who
 * reads a pinned version can do without, and the training cannot. */
int shard_tables_update(struct shard_tables *t, const struct tables_gradient *gradient,
                        uint64_t examples, const struct rule_scalars *scalars,
                        const struct table_shaping *shaping, struct err *err);

/* Floats of the rows of @counts[i] keys of table i each. False: too many to count. */
bool shard_tables_floats(const struct shard_tables *t, const uint32_t *counts, uint64_t *floats);
/* Rows as of @version, of keys table after table, rising in each. Errors: ERR_INVALID a key that is
 * not of this shard, or out of order; those of table_gather(). */
int shard_tables_gather(struct shard_tables *t, uint64_t version, const uint32_t *counts,
                        const uint64_t *keys, uint32_t shard, uint32_t shards, float *out,
                        struct err *err);
/* The present version stays readable until shard_tables_unpin(), once for each, or until its pins
 * are given up. */
void shard_tables_pin(struct shard_tables *t);
void shard_tables_unpin(struct shard_tables *t, uint64_t version);
/* Likewise for a reader, whose pins are given up first. At most SHARD_TABLES_READERS_MAX. */
void shard_tables_pin_reader(struct shard_tables *t);
void shard_tables_unpin_reader(struct shard_tables *t, uint64_t version);

#endif
