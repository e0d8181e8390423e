/* SPDX-License-Identifier: Apache-2.0 */
/* Serves and updates rows of tables. Keys are taken in as they come; the rows are gathered on the
 * shard's strand, of one version, and leave from memory of their own. */
#include "ps/rpc/ps_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_stream.h"

#define ENCODED_AT_ONCE 256 /* floats */

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
                  enum value_type type, struct err *err)
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
    rows->type = type;
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

uint64_t ps_rows_along(const Gradus__V1__ExchangeRequest *m)
{
    const bool trains = m->what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    const Gradus__V1__RowsRequest *rows = trains ? m->training->rows : NULL;
    uint64_t keys = 0;
    for (size_t i = 0; rows != NULL && i < rows->n_counts; i++) {
        keys += rows->counts[i];
    }
    return keys;
}

int ps_rows_name_block(struct ps_stream *s, struct ps_request *r, uint32_t number, struct err *err)
{
    if (number == 0 || r->rows == NULL) {
        return 0; /* without memory for rows nothing lies in a block */
    }
    if (r->rows->type != VALUE_FP32) {
        return err_set(err, ERR_INVALID, "exchange %" PRIu64 ": %s in a block for rows",
                       r->exchange, value_type_names[r->rows->type]);
    }
    if (ps_shared_memory_rows(s->tables_memory, number, r->rows->floats) == NULL) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": block %" PRIu32
                       " for rows is not open, or has no %" PRIu64 " floats",
                       r->exchange, number, r->rows->floats);
    }
    r->rows_block = number;
    return 0;
}

/* ---- answers ---- */

/* Rows on their way out; each message holds one reference. */
struct leaving {
    atomic_uint refs;
    struct ps_request *request; /* the request whose share of the budget holds it */
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

/* Encodes in place: writing never passes reading. */
static void encode(enum value_type type, float *values, uint64_t n)
{
    float block[ENCODED_AT_ONCE];
    for (uint64_t at = 0; at < n && type != VALUE_FP32; at += ENCODED_AT_ONCE) {
        const uint64_t k = n - at < ENCODED_AT_ONCE ? n - at : ENCODED_AT_ONCE;
        memcpy(block, values + at, k * sizeof *block);
        values_encode(type, block, k, (unsigned char *)values + at * value_type_bytes(type));
    }
}

static int send_all(struct ps_request *r, Gradus__V1__ExchangeResponse *m, struct leaving *l)
{
    const uint64_t floats = r->rows->floats;
    const size_t each = value_type_bytes(r->rows->type);
    const uint64_t chunk = r->shard->ps->chunk_bytes / each;
    int rc = 0;
    m->total = floats;
    m->of_rows = r->event.ask.kind == EXCHANGE_TRAIN;
    m->in_block = 0;
    m->type = (Gradus__V1__WireType)r->rows->type;
    meter_add(r->shard->ps->meters.values_sent, floats * each);
    for (uint64_t at = 0; at < floats && rc == 0; at += chunk) {
        const uint64_t n = floats - at < chunk ? floats - at : chunk;
        const struct rpc_piece piece = {(const char *)l->values + at * each, n * each};
        const struct rpc_blob blob = {
            .pieces = &piece, .piece_count = 1, .release = release, .ctx = l};
        m->offset = at;
        atomic_fetch_add(&l->refs, 1);
        rc = rpc_send(r->call, &m->base, &blob); /* sent or not, it is released */
    }
    return rc;
}

static int gather(struct ps_request *r, uint64_t version, float *values, struct err *err)
{
    const struct ps_shard *s = r->shard;
    return shard_tables_gather(s->tables, version, r->rows->counts, r->rows->keys, s->number,
                               s->plan.shard_count, values, err);
}

static void refuse(struct ps_request *r, const struct shard_action *a, struct err *err)
{
    (void)ps_shard_wrap(r->shard, err);
    ps_answer_refuse(r->call, r->exchange, a->generation, a->version, err);
}

static void give_up(struct ps_request *r)
{
    struct err err;
    (void)err_set(&err, ERR_EXHAUSTED, "the answers of this stream are not read");
    (void)rpc_fail(r->call, &err);
}

/* Into the client's memory: what it may write there meanwhile it does to itself. */
static void answer_in_block(struct ps_request *r, const struct shard_action *a,
                            Gradus__V1__ExchangeResponse *m)
{
    struct ps_shared_memory *w = r->stream->tables_memory;
    const uint64_t floats = r->rows->floats;
    struct err err = {0};
    int rc = gather(r, a->version, ps_shared_memory_rows(w, r->rows_block, floats), &err);
    ps_shared_memory_filled(w, r->rows_block, floats);
    if (rc != 0) {
        refuse(r, a, &err);
        return;
    }
    m->total = floats;
    m->offset = 0;
    m->in_block = floats;
    m->of_rows = r->event.ask.kind == EXCHANGE_TRAIN;
    m->type = GRADUS__V1__WIRE_TYPE__FP32;
    if (rpc_send(r->call, &m->base, NULL) == ERR_EXHAUSTED) {
        give_up(r);
    }
}

void ps_rows_answer(struct ps_request *r, const struct shard_action *a,
                    Gradus__V1__ExchangeResponse *m)
{
    struct err err = {0};
    if (r->rows_block != 0) {
        answer_in_block(r, a, m);
        return;
    }
    float *values = mem_try_aligned(r->rows->floats, sizeof *values, "rows", &err);
    int rc = values == NULL ? ERR_EXHAUSTED : gather(r, a->version, values, &err);
    if (rc != 0) {
        free(values);
        refuse(r, a, &err);
        return;
    }
    encode(r->rows->type, values, r->rows->floats);
    struct leaving *l = mem_new(1, sizeof *l);
    atomic_store(&l->refs, 1);
    l->values = values;
    l->request = r;
    atomic_fetch_add(&r->refs, 1);
    if (send_all(r, m, l) == ERR_EXHAUSTED) {
        give_up(r);
    }
    release(l);
}

/* ---- what pushes bring ---- */

int ps_tables_take(struct tables_gradient *g, struct ps_rows *rows, uint64_t *arrived,
                   uint64_t total, uint64_t offset, struct rpc_spans *spans, struct err *err)
{
    const size_t bytes = rpc_spans_bytes(spans);
    const uint64_t end = g == NULL ? 0 : g->encoded_bytes;
    if (bytes == 0 || offset != *arrived || bytes > total - *arrived) {
        return err_set(err, ERR_INVALID,
                       "%zu bytes of tables from byte %" PRIu64 " on; %" PRIu64 " of %" PRIu64
                       " have come",
                       bytes, offset, *arrived, total);
    }
    const uint64_t left = *arrived < end ? end - *arrived : 0;
    const size_t pushed = bytes < left ? bytes : left;
    if (pushed > 0 && g->encoded == NULL && tables_gradient_expect(g, err) != 0) {
        return ERR_EXHAUSTED;
    }
    if (pushed > 0) {
        (void)rpc_spans_read(spans, g->encoded + *arrived, pushed);
    }
    *arrived += bytes;
    if (rows != NULL && bytes > pushed) {
        char *to = (char *)rows->keys + (*arrived - (bytes - pushed) - end);
        (void)rpc_spans_read(spans, to, bytes - pushed);
        rows->arrived = (*arrived - end) / sizeof *rows->keys;
    }
    return 0;
}

int ps_tables_take_block(struct ps_stream *s, struct tables_gradient *g, struct ps_rows *rows,
                         uint32_t number, uint64_t bytes, struct err *err)
{
    const unsigned char *from;
    int rc = ps_shared_memory_hold(s->tables_memory, number, bytes, &from, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t pushed = g == NULL ? 0 : g->encoded_bytes;
    rc = g == NULL ? 0 : tables_gradient_decode(g, from, err);
    if (rc == 0 && rows != NULL) {
        memcpy(rows->keys, from + pushed, bytes - pushed);
        rows->arrived = rows->count;
    }
    if (rc != 0) {
        ps_shared_memory_leave(s->tables_memory, number);
        return rc;
    }
    ps_shared_memory_give(s->tables_memory, number);
    return 0;
}

/* ---- updates ---- */

/* Fails the shard: a table that is full will not be less full later, so whoever hears of it does
 * not try again. */
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
    if (tables_gradient_join(&to->tables, &from->tables, &err) != 0) {
        fail(s, &err, s->tables->version);
    }
}

/* The clips of single rows, before norms are computed. */
static struct table_clip clip_of(const struct ps_shard *s, size_t table)
{
    return (struct table_clip){.value = (float)s->era->spec.clip_value,
                               .norm = s->spec.model.tables[table].clip_norm};
}

const struct exact_sum *ps_tables_squares(struct ps_shard *s, const struct shard_action *a)
{
    const struct buffer *gradient = a->buffer;
    const size_t count = s->tables->count;
    if (s->squares == NULL) {
        s->squares = mem_new(count, sizeof *s->squares);
    }
    memset(s->squares, 0, count * sizeof *s->squares);
    for (size_t i = 0; i < count && gradient != NULL && gradient->tables != NULL; i++) {
        const struct table_clip clip = clip_of(s, i);
        const struct table_gradient_view rows = table_gradient_view(&gradient->tables->of[i]);
        const float scale = a->examples == 0 ? 1.0F : 1.0F / (float)a->examples;
        float *scratch = mem_new(rows.dim, sizeof *scratch);
        table_squares_add(&s->squares[i], &rows, scale, &clip, scratch);
        free(scratch);
    }
    return s->squares;
}

/* The steps of an epoch that have @examples each. */
static float epoch_steps(const struct ps_shard *s, uint64_t examples)
{
    const uint64_t records = s->era->spec.records;
    return examples == 0 || examples > records ? 1.0F : (float)records / (float)examples;
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
        const double factor = update_table_factor(s->update, i);
        shaping[i] = (struct table_shaping){.clip = clip_of(s, i),
                                            .scaled = factor != 1.0,
                                            .factor = (float)factor,
                                            .l1 = p.l1,
                                            .l2 = p.l2,
                                            .ridge = p.ridge,
                                            .ridge_steps = epoch_steps(s, a->examples),
                                            .decay = p.decay};
    }
    const bool applied = result->outcome == UPDATE_APPLIED && gradient != NULL;
    if (shard_tables_update(s->tables, applied ? gradient->tables : NULL, a->examples, scalars,
                            shaping, &err) != 0) {
        fail(s, &err, a->version - 1);
    }
}
