/* SPDX-License-Identifier: Apache-2.0 */
/* What a primary says of tables: the rows of an update, and all of them, to a backup that joins. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ps/rpc/ps_standby.h"

#define LEAVING_MAX 16 /* parts that gRPC has */

/* ---- an update ---- */

struct ps_said_rows *ps_said_rows_new(struct ps_shard *s, const struct buffer *gradient,
                                      struct err *err)
{
    err->code = 0;
    if (gradient == NULL || gradient->tables == NULL) {
        return NULL;
    }
    const uint64_t bytes = tables_gradient_bytes(gradient->tables);
    unsigned char *data = mem_try_aligned(bytes, 1, "rows for the backup", err);
    if (data == NULL) {
        return NULL;
    }
    struct ps_said_rows *r = mem_new(1, sizeof *r);
    *r = (struct ps_said_rows){.shard = ps_shard_ref(s), .bytes = bytes, .data = data};
    r->counted = budget_take(&s->ps->budget, bytes, "rows for the backup", NULL) == 0;
    atomic_store(&r->refs, 1);
    tables_gradient_encode(gradient->tables, data);
    return r;
}

struct ps_said_rows *ps_said_rows_ref(struct ps_said_rows *r)
{
    atomic_fetch_add(&r->refs, 1);
    (void)ps_shard_ref(r->shard);
    return r;
}

void ps_said_rows_unref(void *rows)
{
    struct ps_said_rows *r = rows;
    if (r == NULL) {
        return;
    }
    struct ps_shard *s = r->shard;
    if (atomic_fetch_sub(&r->refs, 1) == 1) {
        if (r->counted) {
            budget_give(&s->ps->budget, r->bytes);
        }
        free(r->data);
        free(r);
    }
    ps_shard_unref(s);
}

/* ---- a state ---- */

/* One reference for the state, and one for each part that leaves. */
struct ps_said_tables {
    atomic_uint refs;
    struct ps_shard *shard; /* each part keeps a reference to it */
    uint64_t version;
    uint64_t bytes;
    struct tables_state state;
    atomic_uint leaving;
};

struct leaving_part {
    struct ps_said_tables *of;
    void *data;
};

static uint64_t bytes_of(const struct shard_tables *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->count; i++) {
        struct table_stats stats;
        table_stats(t->tables[i], &stats);
        bytes += stats.bytes;
    }
    return bytes;
}

struct ps_said_tables *ps_said_tables_new(struct ps_shard *s, uint64_t version)
{
    struct ps_said_tables *t = mem_new(1, sizeof *t);
    *t = (struct ps_said_tables){.shard = s, .version = version, .bytes = bytes_of(s->tables)};
    atomic_store(&t->refs, 1);
    return t;
}

static void unref(struct ps_said_tables *t)
{
    if (atomic_fetch_sub(&t->refs, 1) == 1) {
        free(t);
    }
}

void ps_said_tables_free(struct ps_said_tables *t)
{
    if (t != NULL) {
        unref(t);
    }
}

uint64_t ps_said_tables_bytes(const struct ps_said_tables *t)
{
    return t->bytes;
}

/* Any thread. */
static void part_left(void *ctx)
{
    struct leaving_part *p = ctx;
    struct ps_shard *s = p->of->shard;
    free(p->data); /* first: whoever is woken may want the memory */
    atomic_fetch_sub(&p->of->leaving, 1);
    ps_shard_freed(s); /* the next one may be read */
    unref(p->of);
    ps_shard_unref(s);
    free(p);
}

int ps_said_tables_next(struct ps_said_tables *t, bool first, struct ps_part *part, struct err *err)
{
    void *data;
    size_t bytes;
    *part = (struct ps_part){.data = NULL};
    const int leaving = (int)atomic_load(&t->leaving); /* before: whoever leaves since then wakes */
    if (leaving >= LEAVING_MAX) {
        return err_set(err, ERR_EXHAUSTED, "%d parts of tables leave", LEAVING_MAX);
    }
    if (first) {
        tables_state_begin(&t->state, t->shard->tables, t->version);
    }
    int rc = tables_state_next(&t->state, &data, &bytes, err);
    if (rc == ERR_EXHAUSTED && leaving == 0) {
        return err_set(err, ERR_UNAVAILABLE, "the tables cannot be read now, and nothing leaves");
    }
    if (rc != 0 || data == NULL) {
        return rc;
    }
    struct leaving_part *p = mem_new(1, sizeof *p);
    *p = (struct leaving_part){t, data};
    atomic_fetch_add(&t->refs, 1);
    atomic_fetch_add(&t->leaving, 1);
    (void)ps_shard_ref(t->shard);
    *part = (struct ps_part){
        .data = data, .count = bytes / sizeof(float), .release = part_left, .ctx = p};
    return 0;
}
