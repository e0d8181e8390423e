/* SPDX-License-Identifier: Apache-2.0 */
/* Read: a reader of the running job pins a version, reads it in parts, and gives it back. Each part
 * is copied on the strand, a fraction of a millisecond at a time, into memory of its own: a reader
 * that is slow, or dead, holds a few of these and nothing that an update needs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_average.h"
#include "ps/rpc/ps_shell.h"

#define PARTS_MAX 8 /* of a shard, on their way to readers */
#define PART_FLOATS (UINT64_C(256) << 10)
#define PART_ROWS 1024
#define PART_ROWS_BYTES (UINT64_C(128) << 10)

/* ---- parts on their way out ---- */

struct part {
    struct ps_shard *shard;
    uint64_t bytes; /* on the budget */
};

static void release(void *ctx)
{
    struct part *p = ctx;
    budget_give(&p->shard->ps->budget, p->bytes);
    atomic_fetch_sub(&p->shard->parts, 1);
    ps_shard_unref(p->shard);
    free(p);
}

/* Room for @bytes, behind the part itself. Errors: ERR_EXHAUSTED. */
static int part_new(struct ps_shard *s, uint64_t bytes, struct part **out, struct err *err)
{
    if (atomic_fetch_add(&s->parts, 1) >= PARTS_MAX) {
        atomic_fetch_sub(&s->parts, 1);
        return err_set(err, ERR_EXHAUSTED,
                       "%d parts are on their way to readers already; try again", PARTS_MAX);
    }
    int rc = budget_take(&s->ps->budget, bytes, "what a reader reads", err);
    if (rc != 0) {
        atomic_fetch_sub(&s->parts, 1);
        return rc;
    }
    struct part *p = mem_try_aligned(sizeof *p + bytes, 1, "what a reader reads", err);
    if (p == NULL) {
        budget_give(&s->ps->budget, bytes);
        atomic_fetch_sub(&s->parts, 1);
        return ERR_EXHAUSTED;
    }
    *p = (struct part){ps_shard_ref(s), bytes};
    *out = p;
    return 0;
}

/* @p is taken. */
static void send(struct ps_request *r, Gradus__V1__ReadResponse *m, struct part *p,
                 struct rpc_piece *pieces, size_t count)
{
    struct rpc_blob blob = {.pieces = pieces, .piece_count = count, .release = release, .ctx = p};
    if (pieces->bytes == 0) {
        release(p);
        (void)rpc_reply(r->call, &m->base, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        meter_add(r->shard->ps->meters.values_sent, pieces[i].bytes);
    }
    (void)rpc_reply(r->call, &m->base, &blob);
}

/* ---- answers, on the strand ---- */

static int answer_pin(struct ps_request *r, const Gradus__V1__ReadPin *q,
                      Gradus__V1__ReadResponse *m, struct err *err)
{
    struct ps_shard *s = r->shard;
    const size_t tables = s->tables == NULL ? 0 : s->tables->count;
    uint64_t rows[SHARD_TABLES_MAX];
    if (s->failed.code != 0) { /* its tables may be of two versions */
        *err = s->failed;
        return err->code;
    }
    int rc = q->average ? ps_average_keep(s, m->version, err) : 0;
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < tables; i++) {
        rc = table_count(s->tables->tables[i], m->version, &rows[i], err);
        if (rc != 0) {
            return rc;
        }
    }
    m->rows = rows;
    m->n_rows = tables;
    (void)rpc_reply(r->call, &m->base, NULL);
    return 0;
}

static int answer_values(struct ps_request *r, const Gradus__V1__ReadValues *q,
                         Gradus__V1__ReadResponse *m, struct err *err)
{
    struct ps_shard *s = r->shard;
    struct part *p = NULL;
    if (q->first > s->elements) {
        return err_set(err, ERR_INVALID, "values from element %" PRIu64 " on, of %" PRIu64,
                       q->first, s->elements);
    }
    const float *values = q->average ? ps_average_of(s, m->version)
                                     : snapshots_find(&s->snapshots, m->version)->values.data;
    if (values == NULL) {
        return err_set(err, ERR_STATE, "version %" PRIu64 " was pinned without its moving average",
                       m->version);
    }
    uint64_t n = s->elements - q->first;
    n = n < PART_FLOATS ? n : PART_FLOATS;
    n = q->count > 0 && q->count < n ? q->count : n;
    int rc = part_new(s, n * sizeof(float), &p, err);
    if (rc != 0) {
        return rc;
    }
    memcpy(p + 1, values + q->first, n * sizeof(float));
    struct rpc_piece piece = {p + 1, n * sizeof(float)};
    send(r, m, p, &piece, 1);
    return 0;
}

static int answer_rows(struct ps_request *r, const Gradus__V1__ReadRows *q,
                       Gradus__V1__ReadResponse *m, struct err *err)
{
    struct ps_shard *s = r->shard;
    const size_t tables = s->tables == NULL ? 0 : s->tables->count;
    struct table_cursor cursor = {.from = q->from};
    struct part *p = NULL;
    if (q->table >= tables) {
        return err_set(err, ERR_INVALID, "rows of table %" PRIu32 "; the job has %zu", q->table,
                       tables);
    }
    const uint64_t row = s->tables->dims[q->table] * sizeof(float);
    uint64_t most = PART_ROWS_BYTES / row;
    most = most < 1 ? 1 : most > PART_ROWS ? PART_ROWS : most;
    int rc = part_new(s, most * (sizeof(uint64_t) + row), &p, err);
    if (rc != 0) {
        return rc;
    }
    uint64_t *keys = (uint64_t *)(p + 1);
    struct table_chunk chunk = {.capacity = most, .keys = keys, .values = (float *)(keys + most)};
    rc = table_walk(s->tables->tables[q->table], m->version, &cursor, &chunk, err);
    if (rc != 0) {
        release(p);
        return err_wrap(err,
                        "table %s: rows that changed did not fit (copies_bytes), so the reader's "
                        "pin was given up",
                        s->spec.model.tables[q->table].name);
    }
    m->count = (uint32_t)chunk.n;
    m->next = cursor.from;
    m->last = cursor.end || chunk.n < most;
    struct rpc_piece pieces[] = {{keys, chunk.n * sizeof *keys}, {chunk.values, chunk.n * row}};
    send(r, m, p, pieces, 2);
    return 0;
}

static void answer(struct ps_request *r, const struct shard_action *a, const struct err *why)
{
    const Gradus__V1__ReadRequest *q = (const Gradus__V1__ReadRequest *)r->msg->body;
    Gradus__V1__ReadResponse m = GRADUS__V1__READ_RESPONSE__INIT;
    struct err err = {0};
    int rc = 0;
    m.version = a->version;
    if (a->code != 0) {
        (void)rpc_fail(r->call, why);
        return;
    }
    switch (q->what_case) {
    case GRADUS__V1__READ_REQUEST__WHAT_PIN:
        rc = answer_pin(r, q->pin, &m, &err);
        break;
    case GRADUS__V1__READ_REQUEST__WHAT_VALUES:
        rc = answer_values(r, q->values, &m, &err);
        break;
    case GRADUS__V1__READ_REQUEST__WHAT_ROWS:
        rc = answer_rows(r, q->rows, &m, &err);
        break;
    default:
        (void)rpc_reply(r->call, &m.base, NULL);
        break;
    }
    if (rc != 0) {
        (void)ps_shard_wrap(r->shard, &err);
        (void)rpc_fail(r->call, &err);
    }
}

/* ---- requests ---- */

static int read_ask(struct ps_request *r, const Gradus__V1__ReadRequest *q, struct err *err)
{
    struct shard_read *read = &r->event.read;
    read->ms = q->pin_ms;
    switch (q->what_case) {
    case GRADUS__V1__READ_REQUEST__WHAT_PIN:
        read->kind = SHARD_READ_PIN;
        read->exact = q->pin->exact != 0;
        read->version = q->pin->version;
        return 0;
    case GRADUS__V1__READ_REQUEST__WHAT_VALUES:
    case GRADUS__V1__READ_REQUEST__WHAT_ROWS:
        read->kind = SHARD_READ_PART;
        return 0;
    case GRADUS__V1__READ_REQUEST__WHAT_END:
        read->kind = SHARD_READ_END;
        return 0;
    default:
        return err_set(err, ERR_INVALID, "a Read of nothing");
    }
}

void ps_on_read(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__ReadRequest *q = (const Gradus__V1__ReadRequest *)msg->body;
    struct ps_request *r = ps_unary_exchange(service, q->shard, SHARD_READER, true, call, answer);
    struct err err = {0};
    if (r == NULL) {
        return;
    }
    r->event.kind = SHARD_READ;
    r->event.pin_id = q->pin_id;
    r->msg = rpc_msg_ref(msg);
    if (read_ask(r, q, &err) == 0) {
        ps_request_post_unary(r);
        return;
    }
    (void)ps_shard_wrap(r->shard, &err);
    (void)rpc_fail(call, &err);
    ps_request_unref(r);
}
