/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables on their way into a checkpoint and back. A file is written by a thread that may
 * wait for the disk, and a table belongs to the shard's strand: so that thread asks the strand for
 * some rows of the pinned version at a time, and updates go on between two of these. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "ps/rpc/ps_rows.h"
#include "warm/warm_rows.h"

/* That the strand is kept for at once: a fraction of a millisecond. */
#define ROWS_AT_ONCE 512
#define BYTES_AT_ONCE (UINT64_C(64) << 10)
#define COUNTS_AT_ONCE 4096
#define LOOKS_AT_ONCE 4096 /* rows of one visit to the strand, most of which did not change */

struct ps_table_file {
    struct ps_shard *shard;
    uint64_t version; /* pinned */
    size_t count;
    struct table_file_info *infos; /* [count] */
    struct table_cursor *rows, *counts;
    bool delta;
    uint64_t since;     /* then: the version of its base */
    uint64_t **evicted; /* [count] keys, in the order of a walk */
    size_t listed;      /* keys of a table's log that were listed */
    struct table_file_source source;

    /* what the strand is asked for */
    struct strand_task task;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
    int (*ask)(struct ps_table_file *f, struct table *t);
    size_t table;
    void *chunk;
    int rc;
    struct err *err;
};

/* ---- on the strand ---- */

static void run(struct strand_task *task)
{
    struct ps_table_file *f =
        (struct ps_table_file *)((char *)task - offsetof(struct ps_table_file, task));
    struct table *t = f->shard->tables->tables[f->table];
    const int rc = t == NULL ? err_set(f->err, ERR_ABORTED, "the shard is closed") : f->ask(f, t);
    pthread_mutex_lock(&f->lock);
    f->rc = rc;
    f->is_done = true;
    pthread_cond_signal(&f->done);
    pthread_mutex_unlock(&f->lock);
}

static int ask_count(struct ps_table_file *f, struct table *t)
{
    return table_count(t, f->version, &f->infos[f->table].all, f->err);
}

static int ask_evicted(struct ps_table_file *f, struct table *t)
{
    struct table_counts_chunk *chunk = f->chunk;
    return table_evicted_since(t, f->since, f->version, &f->listed, chunk->keys, chunk->capacity,
                               &chunk->n, f->err);
}

static int ask_rows(struct ps_table_file *f, struct table *t)
{
    return table_walk(t, f->version, &f->rows[f->table], f->chunk, f->err);
}

static int ask_counts(struct ps_table_file *f, struct table *t)
{
    return table_walk_counts(t, f->version, &f->counts[f->table], f->chunk, f->err);
}

/* ---- on the thread that writes ---- */

/* Ask the strand and wait: it may run it here, or is at something short. */
static int ask(struct ps_table_file *f, int (*what)(struct ps_table_file *f, struct table *t),
               size_t table, void *chunk, struct err *err)
{
    f->ask = what;
    f->table = table;
    f->chunk = chunk;
    f->err = err;
    f->is_done = false;
    (void)strand_post(&f->shard->strand, &f->task, run);
    pthread_mutex_lock(&f->lock);
    while (!f->is_done) {
        pthread_cond_wait(&f->done, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return f->rc;
}

static size_t at_most(size_t capacity, uint64_t most)
{
    return most > 0 && capacity > most ? (size_t)most : capacity;
}

/* Finds the next rows that changed; of a full file all rows. */
static int next_rows(void *ctx, size_t table, struct table_chunk *chunk, struct err *err)
{
    struct ps_table_file *f = ctx;
    const uint64_t bytes = f->infos[table].dim * sizeof(float) * (1 + f->source.slots.count);
    const uint64_t most = BYTES_AT_ONCE / bytes;
    int rc;
    chunk->capacity = at_most(chunk->capacity, most < 1 ? 1 : at_most(most, ROWS_AT_ONCE));
    chunk->changed = f->delta;
    chunk->since = f->since;
    chunk->looks = f->delta ? LOOKS_AT_ONCE : 0;
    do {
        rc = ask(f, ask_rows, table, chunk, err);
    } while (rc == 0 && chunk->n == 0 && !f->rows[table].end);
    return rc;
}

static int next_counts(void *ctx, size_t table, struct table_counts_chunk *chunk, struct err *err)
{
    chunk->capacity = at_most(chunk->capacity, COUNTS_AT_ONCE);
    return ask(ctx, ask_counts, table, chunk, err);
}

/* Counts the rows that have changed. */
static int count_changed(struct ps_table_file *f, size_t table, struct err *err)
{
    struct table_chunk chunk = {.capacity = SIZE_MAX,
                                .kept = true,
                                .changed = true,
                                .since = f->since,
                                .looks = LOOKS_AT_ONCE};
    int rc = 0;
    while (rc == 0 && !f->rows[table].end) {
        rc = ask(f, ask_rows, table, &chunk, err);
        f->infos[table].rows += rc == 0 ? chunk.n : 0;
    }
    f->rows[table] = (struct table_cursor){0};
    return rc;
}

/* Counts all rows, because the header of a file says how many come. */
static int count_all(struct ps_table_file *f, size_t table, struct err *err)
{
    int rc = ask(f, ask_count, table, NULL, err);
    if (rc == 0 && f->delta) {
        rc = count_changed(f, table, err);
    } else if (rc == 0) {
        f->infos[table].rows = f->infos[table].all;
    }
    struct table_counts_chunk chunk = {.capacity = COUNTS_AT_ONCE};
    do {
        rc = rc != 0 ? rc : ask(f, ask_counts, table, &chunk, err);
        f->infos[table].counts += rc == 0 ? chunk.n : 0;
    } while (rc == 0 && chunk.n > 0);
    f->counts[table] = (struct table_cursor){0};
    return rc;
}

static int compare_order(const void *a, const void *b)
{
    const uint64_t x = table_walk_order(*(const uint64_t *)a);
    const uint64_t y = table_walk_order(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

/* Sorts keys into the order of a walk, each once. */
static size_t sort_keys(uint64_t *keys, size_t n)
{
    size_t kept = 0;
    if (n > 0) {
        qsort(keys, n, sizeof *keys, compare_order);
    }
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || keys[kept - 1] != keys[i]) {
            keys[kept++] = keys[i];
        }
    }
    return kept;
}

static int list_evicted(struct ps_table_file *f, size_t table, struct err *err)
{
    uint64_t *keys = NULL;
    size_t n = 0, capacity = 0;
    struct table_counts_chunk chunk = {0};
    int rc;
    f->listed = 0;
    do {
        keys = mem_grow(keys, &capacity, n + COUNTS_AT_ONCE, sizeof *keys);
        chunk.keys = keys + n;
        chunk.capacity = COUNTS_AT_ONCE;
        rc = ask(f, ask_evicted, table, &chunk, err);
        n += rc == 0 ? chunk.n : 0;
    } while (rc == 0 && chunk.n > 0);
    f->infos[table].evicted = sort_keys(keys, n);
    f->evicted[table] = keys;
    return rc;
}

/* Does the server know what went since the base? If not, the file has everything. */
static int begin_delta(struct ps_table_file *f, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->count; i++) {
        rc = list_evicted(f, i, err);
    }
    f->delta = rc == 0;
    for (size_t i = 0; rc == ERR_RANGE && i < f->count; i++) {
        f->infos[i].evicted = 0;
    }
    return rc == ERR_RANGE ? 0 : rc;
}

int ps_table_file_begin(struct ps_shard *s, uint64_t version, const uint64_t *since,
                        struct ps_table_file **out, struct err *err)
{
    const struct model_spec *model = &s->spec.model;
    const struct rule *rule = s->spec.update.rule;
    *out = NULL;
    if (s->tables == NULL) {
        return 0;
    }
    struct ps_table_file *f = mem_new(1, sizeof *f);
    *f = (struct ps_table_file){
        .shard = s,
        .version = version,
        .count = model->table_count,
        .infos = mem_new(model->table_count, sizeof *f->infos),
        .rows = mem_new(model->table_count, sizeof *f->rows),
        .counts = mem_new(model->table_count, sizeof *f->counts),
        .since = since == NULL ? 0 : *since,
        .evicted = mem_new(model->table_count, sizeof *f->evicted),
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .done = PTHREAD_COND_INITIALIZER,
    };
    f->source = (struct table_file_source){.count = f->count,
                                           .tables = f->infos,
                                           .slots = {.count = rule->slot_count},
                                           .rows = next_rows,
                                           .counts = next_counts,
                                           .evicted = (const uint64_t *const *)f->evicted,
                                           .ctx = f};
    for (size_t k = 0; k < rule->slot_count; k++) {
        f->source.slots.names[k] = rule->slot_names[k];
        f->source.slots.kinds[k] = rule->slot_kinds[k];
    }
    int rc = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct model_table *t = &model->tables[i];
        f->infos[i] = (struct table_file_info){
            .name = t->name, .dim = (uint64_t)t->dim, .admission = t->admission};
    }
    if (since != NULL && *since < version) {
        rc = begin_delta(f, err);
    }
    for (size_t i = 0; rc == 0 && i < f->count; i++) {
        rc = count_all(f, i, err);
    }
    if (rc != 0) {
        ps_table_file_end(f);
        return rc;
    }
    *out = f;
    return 0;
}

const struct table_file_source *ps_table_file_source(const struct ps_table_file *f)
{
    return f == NULL ? NULL : &f->source;
}

bool ps_table_file_is_delta(const struct ps_table_file *f)
{
    return f != NULL && f->delta;
}

void ps_table_file_end(struct ps_table_file *f)
{
    if (f != NULL) {
        for (size_t i = 0; i < f->count; i++) {
            free(f->evicted[i]);
        }
        free(f->evicted);
        pthread_mutex_destroy(&f->lock);
        pthread_cond_destroy(&f->done);
        free(f->infos);
        free(f->rows);
        free(f->counts);
        free(f);
    }
}

/* ---- back ---- */

int ps_tables_restore(struct ps_shard *s, const struct checkpoint *c, struct err *err)
{
    const struct model_spec *model = &s->spec.model;
    struct checkpoint_table *tables = mem_new(model->table_count + 1, sizeof *tables);
    for (size_t i = 0; i < model->table_count; i++) {
        tables[i] = (struct checkpoint_table){model->tables[i].name, model->tables[i].admission,
                                              s->tables->tables[i]};
    }
    int rc = checkpoint_restore_tables(c, tables, model->table_count, s->number,
                                       s->plan.shard_count, err);
    free(tables);
    return rc;
}

int ps_tables_begin(struct ps_shard *s, const char *path, uint64_t manifest, struct err *err)
{
    if (s->tables == NULL && !s->spec.from.slots) {
        return err_set(err, ERR_INVALID, "rows to begin with, and the job has no tables");
    }
    const struct warm_shard shard = {.spec = &s->spec,
                                     .plan = &s->plan,
                                     .number = s->number,
                                     .tables = s->tables == NULL ? NULL : s->tables->tables,
                                     .update = s->update,
                                     .slots = s->slot_data};
    s->slots_taken = s->spec.from.slots;
    return warm_rows_restore(&shard, path, manifest, &s->ps->data_roots, err);
}
