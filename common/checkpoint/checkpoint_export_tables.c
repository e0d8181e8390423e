/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of an export: the rows of all files, each of which has them in one order, merged into that
 * order, so that nobody sees how many servers wrote them. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_impl.h"

#define CHUNK_BYTES (1U << 20)

struct source { /* a shard */
    struct table_union *rows;
    size_t at, n; /* of its part */
    struct table_chunk part;
    uint64_t order; /* of the row at @at */
};

struct merge {
    const struct checkpoint *c;
    size_t table;
    struct table_file_slots slots;
    struct source *sources;
    struct source **heap; /* [count] the least order first */
    size_t count;
};

/* ---- rows of a shard ---- */

/* @s->n is 0: it has no more rows. */
static int next_part(const struct merge *m, struct source *s, struct err *err)
{
    s->at = 0;
    int rc = table_union_next(s->rows, &s->part, err);
    s->n = rc == 0 ? s->part.n : 0;
    if (rc != 0 || s->n == 0) {
        return rc;
    }
    s->order = table_walk_order(s->part.keys[0]);
    checkpoint_catch_rows(m->c, m->table, &s->part);
    return 0;
}

static int advance(const struct merge *m, struct source *s, struct err *err)
{
    if (++s->at == s->n) {
        return next_part(m, s, err);
    }
    s->order = table_walk_order(s->part.keys[s->at]);
    return 0;
}

/* ---- all files ---- */

/* Puts the source at @i of the heap where it belongs (Knuth, The Art of Computer Programming 3,
 * 5.2.3). */
static void sift(struct merge *m, size_t i)
{
    struct source *s = m->heap[i];
    for (size_t child; (child = 2 * i + 1) < m->count; i = child) {
        child += child + 1 < m->count && m->heap[child + 1]->order < m->heap[child]->order;
        if (s->order <= m->heap[child]->order) {
            break;
        }
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = s;
}

static int merge_begin(struct merge *m, const struct checkpoint *c, size_t table, struct err *err)
{
    const struct manifest *of = &c->manifest;
    int rc = 0;
    *m = (struct merge){.c = c,
                        .table = table,
                        .sources = mem_new(of->shard_count, sizeof *m->sources),
                        .heap = mem_new(of->shard_count, sizeof(struct source *))};
    manifest_table_slots(of, &m->slots);
    for (uint32_t i = 0; rc == 0 && i < of->shard_count; i++) {
        struct source *s = &m->sources[i];
        s->rows = checkpoint_rows(c, i, table, &m->slots);
        rc = next_part(m, s, err);
        if (rc == 0 && s->n > 0) {
            m->heap[m->count++] = s;
        }
    }
    for (size_t i = m->count / 2; i-- > 0;) {
        sift(m, i);
    }
    return rc;
}

static void merge_end(struct merge *m)
{
    for (uint32_t i = 0; i < m->c->manifest.shard_count; i++) {
        table_union_free(m->sources[i].rows);
    }
    free(m->sources);
    free(m->heap);
}

/* The row of the first source is done. */
static int merge_step(struct merge *m, struct err *err)
{
    struct source *s = m->heap[0];
    int rc = advance(m, s, err);
    if (rc == 0 && s->n == 0) {
        m->heap[0] = m->heap[--m->count];
    }
    if (rc == 0 && m->count > 0) {
        sift(m, 0);
    }
    return rc;
}

/* The number of slot @slot; -1: there is none. */
static int slot_number(const struct manifest *m, const char *slot)
{
    for (size_t k = 0; slot != NULL && k < m->slot_count; k++) {
        if (strcmp(m->slots[k], slot) == 0) {
            return (int)k;
        }
    }
    return -1;
}

int checkpoint_export_table(const struct checkpoint *c, size_t table, bool values, const char *slot,
                            struct safetensors_writer *w, struct err *err)
{
    struct merge m;
    const int k = slot_number(&c->manifest, slot);
    const size_t each =
        values ? (size_t)c->manifest.tables[table].info.dim * sizeof(float) : sizeof(uint64_t);
    const size_t room = each > CHUNK_BYTES ? 1 : CHUNK_BYTES / each;
    char *chunk = mem_new(room, each);
    size_t n = 0;
    int rc = merge_begin(&m, c, table, err);
    while (rc == 0 && m.count > 0) {
        const struct table_chunk *part = &m.heap[0]->part;
        const void *from = !values ? (const void *)part->keys
                           : k < 0 ? (const void *)part->values
                                   : (const void *)part->slots[k];
        memcpy(chunk + n++ * each, (const char *)from + m.heap[0]->at * each, each);
        rc = merge_step(&m, err);
        if (rc == 0 && (n == room || m.count == 0)) {
            rc = safetensors_writer_add(w, chunk, n * each, err);
            n = 0;
        }
    }
    merge_end(&m);
    free(chunk);
    return rc == 0 ? 0 : err_wrap(err, "checkpoint %s", c->path);
}
