/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables: the keys of a request as they come, its answer, what pushes bring, and updates.
 *
 * Rows are read of a version, on the strand, between two updates (decision 51). A version of a
 * table cannot be a second array: it is what the update changed, copied before; where nobody reads
 * the version before (async and bounded modes, but for pins), nothing is copied. A gather of some
 * thousand rows takes a fraction of a millisecond, which is all that a reader can delay a writer.
 * No request for rows waits but for a backup, so nothing new can dead-lock, and the core decides
 * about rows with the numbers that it has. The keys of the next batch go with the push before it.
 * They are a courtesy of the shard, which may have no memory for them, so the worker's core hears
 * whether rows came, and asks again where they did not. What a push brings of tables is part of its
 * gradient's buffer: a sum, an update and a generation are of both or of none. */
#ifndef GRADUS_PS_RPC_PS_ROWS_H
#define GRADUS_PS_RPC_PS_ROWS_H

#include "checkpoint/table_file.h"
#include "ps/rpc/ps_shell.h"

/* ---- a request for rows ---- */

struct ps_rows {
    struct budget *budget;
    uint64_t bytes; /* on it */
    uint32_t *counts;
    uint64_t *keys; /* [count] */
    uint64_t count, arrived;
    uint64_t floats;      /* of the answer, */
    enum value_type type; /* which travel so */
};

/* The first message of a request with @total keys, into r->rows; the rows travel as @type. Errors:
 * ERR_INVALID numbers that do not fit the tables or each other; ERR_EXHAUSTED. */
int ps_rows_begin(struct ps_request *r, const Gradus__V1__RowsRequest *m, uint64_t total,
                  enum value_type type, struct err *err);
/* Keys of a message, from key @offset on. Errors: ERR_INVALID they are not the next ones. */
int ps_rows_take(struct ps_rows *rows, uint64_t offset, struct rpc_spans *spans, struct err *err);
/* The rows of @r are to come in block @number of the client's; 0: in none. Errors: ERR_INVALID. */
int ps_rows_name_block(struct ps_stream *s, struct ps_request *r, uint32_t number, struct err *err);
void ps_rows_free(struct ps_rows *rows); /* ps_request.c; NULL is fine */
/* The number of keys that go with the training of @m. */
uint64_t ps_rows_along(const Gradus__V1__ExchangeRequest *m);
/* On the strand: the rows of @a's version in messages like @m, or a refusal. */
void ps_rows_answer(struct ps_request *r, const struct shard_action *a,
                    Gradus__V1__ExchangeResponse *m);

/* ---- what pushes bring ---- */

/* Takes bytes of a message, from byte @offset on: first those for @g (NULL: none), behind them
 * those of the keys of @rows (NULL: no keys). @arrived of @total says how many are there. Errors:
 * ERR_INVALID they are not the next ones. */
int ps_tables_take(struct tables_gradient *g, struct ps_rows *rows, uint64_t *arrived,
                   uint64_t total, uint64_t offset, struct rpc_spans *spans, struct err *err);

/* Takes all @bytes at once, which lie in block @number of the client's. They are read once, and
 * then belong to the client again, unless this fails. Errors: ERR_INVALID the block, or what is in
 * it; ERR_EXHAUSTED. */
int ps_tables_take_block(struct ps_stream *s, struct tables_gradient *g, struct ps_rows *rows,
                         uint32_t number, uint64_t bytes, struct err *err);

/* ---- on the strand ---- */

/* What @from has of tables is added to what @to has; @from may have none then. */
void ps_tables_add(struct ps_shard *s, struct buffer *to, struct buffer *from);
/* Of the mean of what @a's gradient has of each table, for clips by norms; borrowed until it is
 * asked again. */
const struct exact_sum *ps_tables_squares(struct ps_shard *s, const struct shard_action *a);
/* Called after the update of @a: updates the tables to its version, too. */
void ps_tables_apply(struct ps_shard *s, const struct shard_action *a,
                     const struct update_result *result);

/* The tables of the job of @s, empty or from a checkpoint later. Errors: ERR_INVALID, ERR_RANGE,
 * ERR_EXHAUSTED. */
int ps_tables_open(struct ps_shard *s, uint64_t version, struct err *err);
/* They begin anew at @version, empty. Errors: ERR_EXHAUSTED; there are none then. */
int ps_tables_renew(struct ps_shard *s, uint64_t version, struct err *err);
/* The version before is read in sync alone: by workers that are a step behind others. */
void ps_tables_follow(struct ps_shard *s);
/* Their part of the meters, as of now. */
void ps_tables_show(struct ps_shard *s);

/* ---- files (ps_table_file.c) ---- */

struct checkpoint;
struct ps_table_file;

/* On the thread that writes files: rows of @version, which is pinned, for shard_file_write(); NULL:
 * the job has no tables. With @since: rows that changed after that version, and keys of evicted
 * rows, unless nobody knows these any more, or it is the same version. Errors: ERR_RANGE the
 * version is not pinned any more; ERR_ABORTED the shard is closed; the rows say so, too. */
int ps_table_file_begin(struct ps_shard *s, uint64_t version, const uint64_t *since,
                        struct ps_table_file **out, struct err *err);
bool ps_table_file_is_delta(const struct ps_table_file *f); /* NULL: no */
const struct table_file_source *ps_table_file_source(const struct ps_table_file *f);
void ps_table_file_end(struct ps_table_file *f); /* NULL is fine */
/* Rows and counts of the job's tables, which are empty. Errors: checkpoint_restore_tables(). */
int ps_tables_restore(struct ps_shard *s, const struct checkpoint *c, struct err *err);
/* The first rows of the job's tables, which are empty, out of the checkpoint at @path with that
 * checksum of its manifest. Errors: those of warm_rows_restore(). */
int ps_tables_begin(struct ps_shard *s, const char *path, uint64_t manifest, struct err *err);

#endif
