/* SPDX-License-Identifier: Apache-2.0 */
/* One update of a table. First all is done that can fail, in ways that can be taken back: memory
 * for copies, sightings, rows; then what cannot. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "table/table_impl.h"
#include "table/table_line.h"

#define COPIED_AT_ONCE 1024 /* keys: their records stay in the cache for the rule */
#define COPIED_AHEAD 16     /* keys whose rows are fetched ahead */
#define LEAST_SHARE 16      /* when the table is full, this share of it is evicted */

/* An update under way. */
struct updating {
    struct table *t;
    const struct table_step *step;
    struct table_copy_set *set; /* copies of what changes; NULL: none */
    size_t absent, admitted;    /* keys */
};

static int reserve_scratch(struct table_scratch *s, size_t n, struct err *err)
{
    static const char what[] = "update of a table";
    if (n <= s->capacity) {
        return 0;
    }
    void *olds[] = {s->found, s->absent, s->sightings, s->before, s->admitted, s->seen};
    for (size_t i = 0; i < sizeof olds / sizeof olds[0]; i++) {
        free(olds[i]);
    }
    *s = (struct table_scratch){
        .found = mem_try_aligned(n, sizeof *s->found, what, err),
        .absent = mem_try_aligned(n, sizeof *s->absent, what, err),
        .sightings = mem_try_aligned(n, sizeof *s->sightings, what, err),
        .before = mem_try_aligned(n, sizeof *s->before, what, err),
        .admitted = mem_try_aligned(n, sizeof *s->admitted, what, err),
        .seen = mem_try_aligned(n, sizeof *s->seen, what, err),
    };
    if (s->found == NULL || s->absent == NULL || s->sightings == NULL || s->before == NULL ||
        s->admitted == NULL || s->seen == NULL) {
        return ERR_EXHAUSTED;
    }
    s->capacity = n;
    return 0;
}

static int check(const struct table *t, const struct table_step *step, struct err *err)
{
    const struct table_gradient_view *g = &step->gradient;
    if (step->version != t->version + 1) {
        return err_set(err, ERR_RANGE, "version %" PRIu64 " is to be made of %" PRIu64,
                       step->version, t->version);
    }
    if (g->dim != t->rows.dim) {
        return err_set(err, ERR_INVALID, "a gradient with rows of %zu floats; the table has %zu",
                       g->dim, t->rows.dim);
    }
    for (size_t i = 0; t->shards > 1 && i < g->n; i++) {
        if (table_shard_of(g->keys[i], t->shards) != t->shard) {
            return err_set(err, ERR_INVALID, "key %" PRIu64 " belongs to shard %u of %u, not %u",
                           g->keys[i], table_shard_of(g->keys[i], t->shards), t->shards, t->shard);
        }
    }
    return 0;
}

static void look_up(struct updating *u)
{
    const struct table_gradient_view *g = &u->step->gradient;
    struct table_scratch *s = &u->t->scratch;
    table_index_find_batch(&u->t->rows.index, g->keys, g->n, s->found);
    for (size_t i = 0; i < g->n; i++) {
        s->absent[u->absent] = g->keys[i];
        s->sightings[u->absent] = g->sightings[i];
        u->absent += s->found[i] == TABLE_ROW_NONE;
    }
}

/* ---- copies ---- */

/* Prepares the set that takes copies. When the update is done, the set of the version that is
 * previous now falls to the set before it; memory for that is taken first. */
static int prepare_copies(struct updating *u, struct err *err)
{
    struct table *t = u->t;
    table_settle(t);
    u->set = table_copies_newest(&t->copies);
    if (!t->keeps_previous || (u->set != NULL && u->set->version == t->version)) {
        return 0;
    }
    const size_t last = t->copies.count;
    int rc =
        last < 2 || u->set->pins > 0 ? 0 : table_copies_reserve_drop(&t->copies, last - 1, err);
    return rc == 0 ? table_copies_add(&t->copies, t->version, t->rows.index.count, &u->set, err)
                   : rc;
}

/* Copies the counts of the absent keys, when a version is pinned. */
static int copy_counts(struct updating *u, struct err *err)
{
    const struct table_admission *a = &u->t->admission;
    const size_t first = table_first_block(u->t), all = a->counter_count / TABLE_BLOOM_BLOCK;
    struct table_copy_room room = {0};
    if (table_copies_pinned(&u->t->copies) == 0 || MUTANT(counts_change_under_pin)) {
        return 0;
    }
    if (a->kind == TABLE_ADMIT_COUNTED) {
        room.counts = u->absent;
    } else if (a->kind == TABLE_ADMIT_BLOOM) {
        const size_t left = all - u->set->blocks_made;
        room.blocks = u->absent < left / 4 ? u->absent * 4 : left;
    }
    int rc = table_copy_set_reserve(&u->t->copies, u->set, &room, err);
    for (size_t i = 0; rc == 0 && i < u->absent; i++) {
        const uint64_t key = u->t->scratch.absent[i];
        size_t blocks[4];
        if (a->kind == TABLE_ADMIT_COUNTED) {
            const uint32_t n = table_index_find(&a->counts, key);
            table_copy_count(u->set, key, n == TABLE_ROW_NONE ? TABLE_COPY_ABSENT : n);
        } else if (a->kind == TABLE_ADMIT_BLOOM) {
            table_admission_blocks(a, key, blocks);
            for (size_t k = 0; k < 4; k++) {
                table_copy_block(u->set, first + blocks[k],
                                 a->counters + blocks[k] * TABLE_BLOOM_BLOCK);
            }
        }
    }
    return rc;
}

/* Reserves memory for copies of all rows that this update may change, and of @going rows that make
 * room. When that is too much, rows that were copied before are not counted again. */
static int reserve_rows(struct updating *u, uint64_t going, struct err *err)
{
    struct table *t = u->t;
    const struct table_gradient_view *g = &u->step->gradient;
    if (u->set == NULL) {
        return 0;
    }
    going += table_evict_bound(t, u->step->version, t->scratch.admitted, u->admitted);
    struct table_copy_room room = {.rows = g->n - u->absent + (size_t)going, .absent = u->admitted};
    if (table_copy_set_reserve(&t->copies, u->set, &room, NULL) == 0) {
        return 0;
    }
    for (size_t i = 0; i < g->n; i++) {
        room.rows -= t->scratch.found[i] != TABLE_ROW_NONE &&
                     table_copy_map_find(&u->set->map, table_mix(g->keys[i])) != TABLE_ROW_NONE;
    }
    return table_copy_set_reserve(&t->copies, u->set, &room, err);
}

/* ---- rows ---- */

/* Finds how many rows must go so that @lacking more fit. */
static int find_room(const struct updating *u, uint64_t lacking, uint64_t *going, struct err *err)
{
    const struct table *t = u->t;
    const uint64_t rows = t->rows.index.count;
    const uint64_t untouched = rows - (u->step->gradient.n - u->absent);
    if (lacking > 0 && (t->on_full == TABLE_FULL_REFUSE || untouched < lacking)) {
        return err_set(err, ERR_EXHAUSTED,
                       "it is full: %" PRIu64 " rows and %zu new ones; %" PRIu64 " fit in %" PRIu64
                       " bytes",
                       rows, u->admitted, t->rows_fit, t->rows.budget.bytes_max);
    }
    const uint64_t wanted = lacking > rows / LEAST_SHARE ? lacking : rows / LEAST_SHARE;
    *going = lacking == 0 ? 0 : wanted < untouched ? wanted : untouched;
    return 0;
}

/* Rows of the admitted keys. First as many as fit: behind that the table is as large as it gets,
 * and the others have the memory of rows that go. */
static int add_rows(struct updating *u, struct err *err)
{
    struct table *t = u->t;
    const uint64_t *keys = t->scratch.admitted;
    const uint64_t seen = t->past == NULL ? t->version : 0, rows = t->rows.index.count;
    const uint64_t left = t->rows_fit > rows ? t->rows_fit - rows : 0;
    const size_t fit = u->admitted < left ? u->admitted : (size_t)left;
    uint64_t going = 0;
    int rc = find_room(u, u->admitted - fit, &going, err);
    rc = rc == 0 ? reserve_rows(u, going, err) : rc;
    rc = rc == 0 ? table_rows_add(&t->rows, keys, fit, seen, err) : rc;
    if (rc == 0 && going > 0) {
        table_evict_room(t, u->set, going, u->step->gradient.keys, u->step->gradient.n,
                         t->scratch.seen);
        rc = table_rows_add(&t->rows, keys + fit, u->admitted - fit, seen, err);
    }
    for (size_t i = 0; rc != 0 && i < u->admitted; i++) {
        (void)table_rows_remove(&t->rows, keys[i]);
    }
    return rc;
}

static int admit(struct updating *u, struct err *err)
{
    struct table *t = u->t;
    struct table_scratch *s = &t->scratch;
    int rc =
        table_admission_note_all(&t->admission, s->absent, s->sightings, u->absent, s->before, err);
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < u->absent; i++) {
        s->admitted[u->admitted] = s->absent[i];
        u->admitted += table_admission_admits(&t->admission, s->absent[i]);
    }
    rc = add_rows(u, err);
    if (rc != 0 && !MUTANT(counted_again)) {
        table_admission_undo(&t->admission, s->absent, u->absent, s->before);
    }
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < u->admitted; i++) {
        table_admission_forget(&t->admission, s->admitted[i]);
        t->bucket_rows[table_bucket(t, s->admitted[i])] += !MUTANT(limit_before_admission);
        if (u->set != NULL && !MUTANT(new_row_under_pin)) {
            table_copy_no_row(u->set, s->admitted[i]);
        }
    }
    t->stats.admitted += u->admitted;
    return 0;
}

/* Fetches what a copy of the row of key @i will touch. */
static void fetch_copied(const struct updating *u, size_t i)
{
    const struct table_rows *rows = &u->t->rows;
    const uint32_t row = u->t->scratch.found[i];
    if (row != TABLE_ROW_NONE) {
        table_rows_fetch(rows, row, rows->stride * sizeof(float));
        table_copy_fetch(u->set, u->step->gradient.keys[i]);
    }
}

/* Copies the rows of keys [at, at + n), before they change. */
static void copy_rows(struct updating *u, size_t at, size_t n)
{
    struct table *t = u->t;
    const uint32_t *found = t->scratch.found;
    for (size_t i = at; i < at + n && i < at + COPIED_AHEAD; i++) {
        fetch_copied(u, i);
    }
    for (size_t i = at; i < at + n; i++) {
        if (i + COPIED_AHEAD < at + n) {
            fetch_copied(u, i + COPIED_AHEAD);
        }
        if (found[i] != TABLE_ROW_NONE && !MUTANT(changed_under_pin)) {
            table_copy_row(&t->copies, u->set, u->step->gradient.keys[i],
                           table_rows_note(&t->rows, found[i]),
                           table_rows_record(&t->rows, found[i]));
        }
    }
}

/* Copies and updates rows, some at a time. */
static void apply(struct updating *u)
{
    struct table *t = u->t;
    const struct table_step *step = u->step;
    const size_t dim = t->rows.dim;
    for (size_t at = 0, n; at < step->gradient.n; at += n) {
        n = step->gradient.n - at < COPIED_AT_ONCE ? step->gradient.n - at : COPIED_AT_ONCE;
        if (u->set != NULL) {
            copy_rows(u, at, n);
        }
        if (u->admitted > 0) { /* some of the keys have rows now */
            table_index_find_batch(&t->rows.index, step->gradient.keys + at, n,
                                   t->scratch.found + at);
        }
        const struct table_update update = {
            .up = {.past = t->past, .version = t->version},
            .scalars = step->scalars,
            .shaping = step->shaping,
            .keys = step->gradient.keys + at,
            .rows = t->scratch.found + at,
            .n = n,
            .gradient = step->gradient.values + at * dim,
            .gradient_scale = step->gradient_scale,
            .base = step->base == NULL ? NULL : step->base + at * dim,
            .sightings = step->gradient.sightings + at,
        };
        const size_t updated = table_rows_update(&t->rows, &update);
        t->stats.updated += updated;
        t->stats.dropped += n - updated;
    }
}

int table_update(struct table *t, const struct table_step *step, struct err *err)
{
    struct updating u = {.t = t, .step = step};
    int rc = check(t, step, err);
    rc = rc == 0 ? reserve_scratch(&t->scratch, step->gradient.n, err) : rc;
    if (rc == 0) {
        t->making = step->version;
        look_up(&u);
        rc = prepare_copies(&u, err);
    }
    rc = rc == 0 ? copy_counts(&u, err) : rc;
    rc = rc == 0 ? admit(&u, err) : rc;
    if (rc != 0) {
        table_settle(t);
        t->stats.refused += rc == ERR_EXHAUSTED;
        return err_wrap(err, "table %s", t->name);
    }
    apply(&u);
    t->opened = true;
    t->version = step->version;
    table_evict_pass(t, u.set, step->version);
    for (size_t i = 0; i < u.admitted && MUTANT(limit_before_admission); i++) {
        t->bucket_rows[table_bucket(t, t->scratch.admitted[i])]++;
    }
    table_settle(t);
    return 0;
}
