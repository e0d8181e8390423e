/* SPDX-License-Identifier: Apache-2.0 */
/* Serves and updates rows of tables. Keys are taken in as they come; the rows are gathered on the
 * shard's strand, of one version, and leave from memory of their own. */
#include "ps/rpc/ps_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_stream.h"

/* ---- requests ---- */

static int check(const struct ps_shard *s, const Gradus__V1__RowsRequest *m, uint64_t total,
                 struct err *err)
{
    const size_t tables = s->tables == NULL ? 0 : s->tables->count;
    uint64_t sum = 0;
    if (tables == 0) {
        return err_set(err, ERR_INVALID, "rows of tables, but the job has none");
    }
    if (m->n_counts != tables) {
        return err_set(err, ERR_INVALID, "rows of %zu tables; the job has %zu", m->n_counts,
                       tables);
    }
    for (size_t i = 0; i < tables; i++) {
        sum += m->counts[i]; /* 256 numbers of 32 bits */
    }
    if (sum != total || total == 0) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " keys, but %" PRIu64 " of all tables", total,
                       sum);
    }
    return 0;
}

int ps_rows_begin(struct ps_request *r, const Gradus__V1__RowsRequest *m, uint64_t total,
                  struct err *err)
{
    struct ps_shard *s = r->shard;
    uint64_t floats = 0;
    int rc = check(s, m, total, err);
    if (rc != 0) {
        return rc;
    }
    if (!shard_tables_floats(s->tables, m->counts, &floats) ||
        floats > SIZE_MAX / (4 * sizeof(float))) {
        return err_set(err, ERR_INVALID, "rows of more bytes than can be counted");
    }
    const uint64_t bytes = total * sizeof(uint64_t) + floats * sizeof(float);
    rc = budget_take(&s->ps->budget, bytes, "rows that are read", err);
    if (rc != 0) {
        return rc;
    }
    struct ps_rows *rows = r->rows = mem_new(1, sizeof *rows);
    rows->budget = &s->ps->budget;
    rows->bytes = bytes;
    rows->count = total;
    rows->floats = floats;
    rows->counts = mem_new(m->n_counts, sizeof *rows->counts);
    memcpy(rows->counts, m->counts, m->n_counts * sizeof *rows->counts);
    rows->keys = mem_try_aligned(total, sizeof *rows->keys, "keys of rows", err);
    return rows->keys == NULL ? ERR_EXHAUSTED : 0;
}

int ps_rows_take(struct ps_rows *rows, uint64_t offset, struct rpc_spans *spans, struct err *err)
{
    const size_t bytes = rpc_spans_bytes(spans);
    const uint64_t n = bytes / sizeof *rows->keys;
    if (bytes % sizeof *rows->keys != 0 || n == 0 || offset != rows->arrived ||
        n > rows->count - rows->arrived) {
        return err_set(err, ERR_INVALID,
                       "%zu bytes of keys from key %" PRIu64 " on; %" PRIu64 " of %" PRIu64
                       " have come",
                       bytes, offset, rows->arrived, rows->count);
    }
    (void)rpc_spans_read(spans, rows->keys + rows->arrived, bytes);
    rows->arrived += n;
    return 0;
}

void ps_rows_free(struct ps_rows *rows)
{
    if (rows == NULL) {
        return;
    }
    budget_give(rows->budget, rows->bytes);
    free(rows->counts);
    free(rows->keys);
    free(rows);
}

/* ---- answers ---- */

/* Rows on their way out; each message holds one reference. */
struct leaving {
    atomic_uint refs;
    struct ps_request *request; /* whose share of the budget it is */
    float *values;
};

static void release(void *ctx)
{
    struct leaving *l = ctx;
    if (atomic_fetch_sub(&l->refs, 1) == 1) {
        free(l->values);
        ps_request_unref(l->request);
        free(l);
    }
}

static int send_all(struct ps_request *r, Gradus__V1__ExchangeResponse *m, struct leaving *l)
{
    const uint64_t floats = r->rows->floats;
    const uint64_t chunk = r->shard->ps->chunk_bytes / sizeof(float);
    int rc = 0;
    m->total = floats;
    for (uint64_t at = 0; at < floats && rc == 0; at += chunk) {
        const uint64_t n = floats - at < chunk ? floats - at : chunk;
        const struct rpc_piece piece = {l->values + at, n * sizeof(float)};
        const struct rpc_blob blob = {
            .pieces = &piece, .piece_count = 1, .release = release, .ctx = l};
        m->offset = at;
        atomic_fetch_add(&l->refs, 1);
        rc = rpc_send(r->call, &m->base, &blob); /* sent or not, it is released */
    }
    return rc;
}

void ps_rows_answer(struct ps_request *r, const struct shard_action *a,
                    Gradus__V1__ExchangeResponse *m)
{
    struct ps_shard *s = r->shard;
    struct err err = {0};
    float *values = mem_try_aligned(r->rows->floats, sizeof *values, "rows", &err);
    int rc = values == NULL
                 ? ERR_EXHAUSTED
                 : shard_tables_gather(s->tables, a->version, r->rows->counts, r->rows->keys,
                                       s->number, s->plan.shard_count, values, &err);
    if (rc != 0) {
        free(values);
        (void)ps_shard_wrap(s, &err);
        ps_answer_refuse(r->call, r->exchange, a->generation, a->version, &err);
        return;
    }
    struct leaving *l = mem_new(1, sizeof *l);
    atomic_store(&l->refs, 1);
    l->values = values;
    l->request = r;
    atomic_fetch_add(&r->refs, 1);
    if (send_all(r, m, l) == ERR_EXHAUSTED) {
        (void)err_set(&err, ERR_EXHAUSTED, "the answers of this stream are not read");
        (void)rpc_fail(r->call, &err);
    }
    release(l);
}

/* ---- what pushes bring ---- */

int ps_tables_take(struct tables_gradient *g, uint64_t *arrived, uint64_t offset,
                   struct rpc_spans *spans, struct err *err)
{
    const size_t bytes = rpc_spans_bytes(spans);
    if (bytes == 0 || offset != *arrived || bytes > g->encoded_bytes - *arrived) {
        return err_set(err, ERR_INVALID,
                       "%zu bytes of tables from byte %" PRIu64 " on; %" PRIu64 " of %" PRIu64
                       " have come",
                       bytes, offset, *arrived, g->encoded_bytes);
    }
    (void)rpc_spans_read(spans, g->encoded + *arrived, bytes);
    *arrived += bytes;
    return 0;
}

/* ---- updates ---- */

/* A table that is full will not be less full later: whoever hears of it does not ask again. */
static void fail(struct ps_shard *s, const struct err *err, uint64_t step)
{
    if (s->failed.code == 0) {
        s->failed = *err;
        s->failed.code = err->code == ERR_EXHAUSTED ? ERR_INVALID : err->code;
        (void)err_wrap(&s->failed, "step %" PRIu64, step);
        (void)ps_shard_wrap(s, &s->failed);
    }
}

void ps_tables_add(struct ps_shard *s, struct buffer *to, struct buffer *from)
{
    struct err err = {0};
    if (to->tables == NULL) {
        to->tables = from->tables; /* who is added is not needed any more */
        from->tables = NULL;
    } else if (from->tables != NULL && tables_gradient_add(to->tables, from->tables, &err) != 0) {
        fail(s, &err, s->tables->version);
    }
}

void ps_tables_apply(struct ps_shard *s, const struct shard_action *a,
                     const struct update_result *result)
{
    struct rule_scalars scalars[SHARD_TABLES_MAX];
    struct table_shaping shaping[SHARD_TABLES_MAX];
    struct buffer *gradient = a->buffer;
    struct err err = {0};
    for (size_t i = 0; i < s->tables->count; i++) {
        const struct model_table *t = &s->spec.model.tables[i];
        struct update_penalties p;
        update_scalars(s->update, t->name, &scalars[i]);
        update_penalties(s->update, t->name, &p);
        shaping[i] = (struct table_shaping){.clip_norm = t->clip_norm,
                                            .clip_value = p.clip_value,
                                            .l1 = p.l1,
                                            .l2 = p.l2,
                                            .decay = p.decay};
    }
    const bool applied = result->outcome == UPDATE_APPLIED && gradient != NULL;
    if (shard_tables_update(s->tables, applied ? gradient->tables : NULL, a->examples, scalars,
                            shaping, &err) != 0) {
        fail(s, &err, a->version - 1);
    }
}
