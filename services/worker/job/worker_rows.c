/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a batch to requests, rows to the runner, gradients of rows to pushes. */
#include "worker/job/worker_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rule/rules/elements.h"
#include "table/table_bucket.h"

_Static_assert(TABLE_BUCKETS <= UINT16_MAX, "a shard's number fits an owner");

struct worker_rows_table {
    size_t dim;
    struct table_keys keys; /* of the batch */
    uint16_t *owners;       /* [keys.count] the shard of each; with more than one */
    float *rows;            /* [keys.count × dim] in the order of the keys; likewise */
    size_t owners_capacity, rows_capacity;
};

/* Room for @need items of @size bytes, whose contents are not kept. */
static int room(void *array, size_t *capacity, size_t need, size_t size, const char *what,
                struct err *err)
{
    void *old;
    if (need <= *capacity) {
        return 0;
    }
    memcpy(&old, array, sizeof old);
    free(old);
    const size_t wanted = need + need / 4;
    void *made = mem_try_aligned(wanted, size, what, err);
    *capacity = made == NULL ? 0 : wanted;
    memcpy(array, &made, sizeof made);
    return made == NULL ? ERR_EXHAUSTED : 0;
}

static void init(struct worker_rows *w, size_t count, uint32_t shard_count)
{
    *w = (struct worker_rows){.count = count, .shard_count = shard_count};
    if (count > 0) {
        w->tables = mem_new(count, sizeof *w->tables);
        w->run = mem_new(count, sizeof *w->run);
        w->shards = mem_new(shard_count, sizeof *w->shards);
        w->counts = mem_new(shard_count * count, sizeof *w->counts);
    }
}

void worker_rows_init(struct worker_rows *w, const struct model *model, uint32_t shard_count)
{
    init(w, model_table_count(model), shard_count);
    w->model = model;
    for (size_t t = 0; t < w->count; t++) {
        w->tables[t].dim = model_table_dim(model, t);
    }
}

void worker_rows_init_said(struct worker_rows *w, const struct model_spec *spec,
                           uint32_t shard_count)
{
    init(w, spec->table_count, shard_count);
    for (size_t t = 0; t < w->count; t++) {
        w->tables[t].dim = (size_t)spec->tables[t].dim;
    }
}

void worker_rows_release(struct worker_rows *w)
{
    for (size_t t = 0; t < w->count; t++) {
        table_keys_release(&w->tables[t].keys);
        free(w->tables[t].owners);
        free(w->tables[t].rows);
    }
    free(w->tables);
    free(w->run);
    free(w->shards);
    free(w->counts);
    worker_rows_keys_release(&w->own);
    free(w->keys);
    free(w->landing);
    free(w->encoded);
    free(w->chosen);
    *w = (struct worker_rows){0};
}

/* ---- keys ---- */

/* counts, and with several shards owners. */
static int find_owners(struct worker_rows *w, struct err *err)
{
    memset(w->counts, 0, w->shard_count * w->count * sizeof *w->counts);
    for (size_t t = 0; t < w->count; t++) {
        struct worker_rows_table *table = &w->tables[t];
        if (w->shard_count == 1) {
            w->counts[t] = (uint32_t)table->keys.count;
            continue;
        }
        if (room(&table->owners, &table->owners_capacity, table->keys.count, sizeof *table->owners,
                 "keys", err) != 0) {
            return ERR_EXHAUSTED;
        }
        for (size_t i = 0; i < table->keys.count; i++) {
            const uint32_t s = table_shard_of(table->keys.unique[i], w->shard_count);
            table->owners[i] = (uint16_t)s;
            w->counts[s * w->count + t]++;
        }
    }
    return 0;
}

/* Lays out what each shard is asked for, and where it lands. */
static int lay_out(struct worker_rows *w, struct err *err)
{
    size_t keys = 0, floats = 0;
    for (uint32_t s = 0; s < w->shard_count; s++) {
        struct ps_client_rows *shard = &w->shards[s];
        *shard = (struct ps_client_rows){.counts = w->counts + s * w->count};
        for (size_t t = 0; t < w->count; t++) {
            shard->count += shard->counts[t];
            shard->floats += (uint64_t)shard->counts[t] * w->tables[t].dim;
        }
        keys += shard->count;
        floats += shard->floats;
    }
    int rc = room(&w->keys, &w->keys_capacity, keys, sizeof *w->keys, "keys", err);
    rc = rc != 0 ? rc
                 : room(&w->landing, &w->landing_capacity, floats, sizeof *w->landing, "rows", err);
    const uint64_t *key = w->keys;
    float *row = w->landing;
    for (uint32_t s = 0; s < w->shard_count && rc == 0; s++) {
        w->shards[s].keys = key;
        w->shards[s].values = row;
        key += w->shards[s].count;
        row += w->shards[s].floats;
    }
    return rc;
}

static void fill_keys(struct worker_rows *w)
{
    uint64_t *to = w->keys;
    for (uint32_t s = 0; s < w->shard_count; s++) {
        for (size_t t = 0; t < w->count; t++) {
            const struct worker_rows_table *table = &w->tables[t];
            if (w->shard_count == 1 && table->keys.count > 0) {
                memcpy(to, table->keys.unique, table->keys.count * sizeof *to);
                to += table->keys.count;
            }
            for (size_t i = 0; i < table->keys.count && w->shard_count > 1; i++) {
                if (table->owners[i] == s) {
                    *to++ = table->keys.unique[i];
                }
            }
        }
    }
}

/* Arranges the unique keys by shards. */
static int arrange(struct worker_rows *w, struct err *err)
{
    int rc = find_owners(w, err);
    rc = rc != 0 ? rc : lay_out(w, err);
    if (rc == 0) {
        fill_keys(w);
    }
    return rc;
}

int worker_rows_find(struct worker_rows *w, const struct sparse_batch *b, struct err *err)
{
    if (w->count == 0) {
        return 0;
    }
    struct worker_rows_keys *k = &w->own;
    int rc = worker_rows_look(w->model, b, k, err);
    return rc != 0 ? rc : worker_rows_take(w, k, err);
}

static void make_keys(struct worker_rows_keys *k, size_t tables)
{
    if (k->of == NULL) {
        k->of = mem_new(tables, sizeof *k->of);
        k->tables = tables;
    }
}

int worker_rows_look(const struct model *model, const struct sparse_batch *b,
                     struct worker_rows_keys *k, struct err *err)
{
    const size_t tables = model_table_count(model);
    int rc = 0;
    make_keys(k, tables);
    for (size_t t = 0; t < tables && rc == 0; t++) {
        const size_t n = model_table_lookups(model, t, b);
        rc = room(&k->lookups, &k->lookups_capacity, n, sizeof *k->lookups, "keys", err);
        if (rc == 0) {
            model_table_keys(model, t, b, k->lookups);
            rc = table_keys_unique(&k->of[t], k->lookups, n, err);
        }
    }
    return rc;
}

int worker_rows_said(struct worker_rows *w, const uint64_t *keys, const uint32_t *counts,
                     struct err *err)
{
    struct worker_rows_keys *k = &w->own;
    int rc = 0;
    make_keys(k, w->count);
    for (size_t t = 0; t < w->count && rc == 0; t++) {
        rc = room(&k->lookups, &k->lookups_capacity, counts[t], sizeof *k->lookups, "keys", err);
        if (rc == 0 && counts[t] > 0) {
            memcpy(k->lookups, keys, counts[t] * sizeof *keys);
            keys += counts[t];
        }
        rc = rc != 0 ? rc : table_keys_unique(&k->of[t], k->lookups, counts[t], err);
    }
    return rc != 0 ? rc : worker_rows_take(w, k, err);
}

const struct table_keys *worker_rows_keys_of(const struct worker_rows *w, size_t t)
{
    return &w->tables[t].keys;
}

int worker_rows_take(struct worker_rows *w, struct worker_rows_keys *k, struct err *err)
{
    for (size_t t = 0; t < w->count; t++) {
        const struct table_keys keys = w->tables[t].keys;
        w->tables[t].keys = k->of[t];
        k->of[t] = keys;
    }
    return w->count == 0 ? 0 : arrange(w, err);
}

void worker_rows_keys_release(struct worker_rows_keys *k)
{
    for (size_t t = 0; t < k->tables; t++) {
        table_keys_release(&k->of[t]);
    }
    free(k->of);
    free(k->lookups);
    *k = (struct worker_rows_keys){0};
}

/* ---- rows ---- */

/* Where the rows of table @t from shard @s have landed. */
static const float *landed(const struct worker_rows *w, uint32_t s, size_t t)
{
    const float *at = w->shards[s].values;
    for (size_t i = 0; i < t; i++) {
        at += (size_t)w->shards[s].counts[i] * w->tables[i].dim;
    }
    return at;
}

/* Rows of several shards into the order of the keys. */
static int sort_rows(struct worker_rows *w, size_t t, struct err *err)
{
    struct worker_rows_table *table = &w->tables[t];
    const size_t dim = table->dim;
    if (room(&table->rows, &table->rows_capacity, table->keys.count * dim, sizeof *table->rows,
             "rows", err) != 0) {
        return ERR_EXHAUSTED;
    }
    for (uint32_t s = 0; s < w->shard_count; s++) {
        const float *from = landed(w, s, t);
        for (size_t i = 0; i < table->keys.count; i++) {
            if (table->owners[i] == s) {
                memcpy(table->rows + i * dim, from, dim * sizeof *from);
                from += dim;
            }
        }
    }
    return 0;
}

static void make_tables(const struct worker_rows *w, struct worker_rows_gradient *g)
{
    if (g->tables == NULL && w->count > 0) {
        g->tables = mem_new(w->count, sizeof *g->tables);
        for (size_t t = 0; t < w->count; t++) {
            table_gradient_init(&g->tables[t], w->tables[t].dim);
        }
    }
}

int worker_rows_come(struct worker_rows *w, struct worker_rows_gradient *gradient, struct err *err)
{
    int rc = 0;
    if (gradient != NULL) {
        make_tables(w, gradient);
    }
    for (size_t t = 0; t < w->count && rc == 0; t++) {
        struct worker_rows_table *table = &w->tables[t];
        rc = w->shard_count == 1 ? 0 : sort_rows(w, t, err);
        rc = rc != 0 || gradient == NULL
                 ? rc
                 : table_gradient_begin(&gradient->tables[t], &table->keys, err);
        w->run[t] = (struct runner_rows){
            .index = table->keys.index,
            .values = w->shard_count == 1 ? landed(w, 0, t) : table->rows,
            .gradient = gradient == NULL ? NULL : gradient->tables[t].values,
        };
    }
    return rc;
}

/* ---- gradients ---- */

void worker_rows_gradient_release(const struct worker_rows *w, struct worker_rows_gradient *g)
{
    for (size_t t = 0; t < w->count && g->tables != NULL; t++) {
        table_gradient_release(&g->tables[t]);
    }
    free(g->tables);
    g->tables = NULL;
}

void worker_rows_gradient_clear(const struct worker_rows *w, struct worker_rows_gradient *g)
{
    make_tables(w, g);
    for (size_t t = 0; t < w->count; t++) {
        g->tables[t].n = 0;
    }
}

int worker_rows_gradient_add(const struct worker_rows *w, struct worker_rows_gradient *to,
                             const struct worker_rows_gradient *from, struct err *err)
{
    int rc = 0;
    for (size_t t = 0; t < w->count && rc == 0; t++) {
        const struct table_gradient_view view = table_gradient_view(&from->tables[t]);
        rc = table_gradient_add(&to->tables[t], &view, err);
    }
    return rc;
}

bool worker_rows_gradient_is_finite(const struct worker_rows *w,
                                    const struct worker_rows_gradient *g)
{
    bool finite = true;
    for (size_t t = 0; t < w->count && finite; t++) {
        const struct table_gradient *table = &g->tables[t];
        finite = elements_all_finite(table->values, table->n * table->dim);
    }
    return finite;
}

void worker_rows_gradient_round(const struct worker_rows *w, struct worker_rows_gradient *g,
                                enum value_type type)
{
    for (size_t t = 0; t < w->count; t++) {
        table_gradient_round(&g->tables[t], type);
    }
}

/* The rows of @g that lie on @shard. The view has memory of @w until the next call. */
static int choose(struct worker_rows *w, const struct table_gradient *g, uint32_t shard,
                  struct table_gradient_view *view, struct err *err)
{
    *view = table_gradient_view(g);
    const size_t each = sizeof(uint64_t) + sizeof(uint32_t) + g->dim * sizeof(float);
    if (w->shard_count == 1) {
        return 0;
    }
    int rc = room(&w->chosen, &w->chosen_capacity, g->n * each, 1, "a gradient of rows", err);
    if (rc != 0) {
        return rc;
    }
    uint64_t *keys = (uint64_t *)(void *)w->chosen;
    float *values = (float *)(void *)(keys + g->n);
    uint32_t *sightings = (uint32_t *)(void *)(values + g->n * g->dim);
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (table_shard_of(g->keys[i], w->shard_count) == shard) {
            keys[n] = g->keys[i];
            sightings[n] = g->sightings[i];
            memcpy(values + n * g->dim, g->values + i * g->dim, g->dim * sizeof *values);
            n++;
        }
    }
    *view = (struct table_gradient_view){
        .dim = g->dim, .n = n, .keys = keys, .sightings = sightings, .values = values};
    return 0;
}

int worker_rows_encode(struct worker_rows *w, const struct worker_rows_gradient *g, uint32_t shard,
                       enum value_type type, const void **out, uint64_t *bytes, struct err *err)
{
    uint64_t most = 0, at = 0;
    for (size_t t = 0; t < w->count; t++) {
        most += table_gradient_bytes(type, g->tables[t].n, g->tables[t].dim);
    }
    int rc = room(&w->encoded, &w->encoded_capacity, most, 1, "a gradient of rows", err);
    for (size_t t = 0; t < w->count && rc == 0; t++) {
        struct table_gradient_view view;
        rc = choose(w, &g->tables[t], shard, &view, err);
        if (rc == 0) {
            table_gradient_encode(type, &view, w->encoded + at);
            at += table_gradient_bytes(type, view.n, view.dim);
        }
    }
    *out = w->encoded;
    *bytes = at;
    return rc;
}
