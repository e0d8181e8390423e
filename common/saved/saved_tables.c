/* SPDX-License-Identifier: Apache-2.0 */
/* Opens tables out of a checkpoint as a cluster of one server would. */
#include "saved/saved_tables.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "job/plan/plan_tables.h"
#include "job/plan/plan_update.h"
#include "job/spec/job_era.h"
#include "saved/saved_model.h"

/* Beyond what the job gives a table: on one server none of its rows may be too many. */
#define SLACK_BYTES (UINT64_C(64) << 20)

/* The eras before the newest one, which is that of the job's file. */
static int find_eras(struct saved_tables *t, const struct job_spec *spec,
                     const struct manifest_era *eras, size_t count, struct err *err)
{
    int rc = 0;
    struct update *before = NULL;
    t->eras = mem_new(count + 1, sizeof *t->eras);
    for (size_t i = 0; i + 1 < count && rc == 0; i++) {
        struct saved_era *e = &t->eras[t->era_count++];
        rc = job_update_parse(eras[i].update, spec, &e->spec, err);
        if (rc == 0 && e->spec.rule != spec->update.rule) {
            rc = err_set(err, ERR_CORRUPT, "the rule was %s, and is %s", e->spec.rule->name,
                         spec->update.rule->name);
        }
        rc = rc != 0 ? rc : plan_update_shard(&t->plan, &e->spec, 0, &e->update, err);
        if (rc == 0 && before != NULL) {
            update_follows(e->update, before, eras[i].version);
        }
        before = e->update;
    }
    if (rc == 0 && before != NULL) {
        update_follows(t->update, before, eras[count - 1].version);
    }
    return rc == 0 ? 0 : err_wrap(err, "eras");
}

/* What tables are owed at @version by updates that did not have their rows. @m: of the checkpoint
 * that the tables are in; NULL: nothing is owed. */
static int find_pasts(struct saved_tables *t, const struct job_spec *spec, uint64_t version,
                      const struct manifest *m, const struct variable_spec *variables, size_t count,
                      struct err *err)
{
    const struct cluster_spec one = {.ps = 1, .partitions = 1};
    *t = (struct saved_tables){.count = spec->model.table_count, .spec = spec, .version = version};
    if (t->count == 0) {
        return 0;
    }
    int rc = plan_make(variables, count, &one, &t->plan, err);
    rc = rc != 0 ? rc : plan_update_shard(&t->plan, &spec->update, 0, &t->update, err);
    if (rc == 0 && m != NULL) {
        rc = find_eras(t, spec, m->eras, m->era_count, err);
    }
    if (rc != 0) {
        saved_tables_release(t);
        return rc;
    }
    t->pasts = mem_new(t->count, sizeof *t->pasts);
    for (size_t i = 0; i < t->count; i++) {
        update_past(t->update, spec->model.tables[i].name, &t->pasts[i]);
    }
    return 0;
}

int saved_tables_open(struct saved_tables *t, struct checkpoint *c, const struct job_spec *spec,
                      struct err *err)
{
    const struct manifest *m = checkpoint_manifest(c);
    struct saved_about about;
    size_t catching = 0;
    saved_about_checkpoint(c, &about);
    int rc = find_pasts(t, spec, about.version, m, m->variables, m->variable_count, err);
    if (rc != 0 || t->count == 0) {
        return rc;
    }
    t->catching = mem_new(t->count, sizeof *t->catching);
    for (size_t i = 0; i < t->count; i++) {
        const struct model_table *table = &spec->model.tables[i];
        if (table->catch_up && spec->update.rule->catch_up != NULL) {
            t->catching[catching++] =
                (struct checkpoint_past){table->name, spec->update.rule, &t->pasts[i]};
        }
    }
    checkpoint_catch_up(c, t->catching, catching);
    return 0;
}

/* Makes all tables, without rows. @plain: they get rows as they read, and nothing else. */
static int make_tables(struct saved_tables *t, bool plain, struct checkpoint_table *named,
                       struct err *err)
{
    int rc = 0;
    t->tables = mem_new(t->count + 1, sizeof *t->tables);
    pthread_mutex_init(&t->lock, NULL);
    t->has_lock = true;
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        struct table_config config;
        plan_table_config(t->spec, i, &t->pasts[i], 0, 1, &config);
        config.bytes_max += config.bytes_max / 4 + SLACK_BYTES;
        config.admission.bytes +=
            config.admission.kind == TABLE_ADMIT_COUNTED ? SLACK_BYTES / 2 : 0;
        config.keeps_previous = false;
        if (plain) { /* without slots, counts and what rows are owed */
            config.rule = rule_find("sgd");
            config.past = NULL;
            config.admission = (struct table_admission_spec){.kind = TABLE_ADMIT_ALL};
        }
        rc = table_new(&config, t->version, &t->tables[i], err);
        named[i] = (struct checkpoint_table){config.name, (int)config.admission.kind, t->tables[i]};
    }
    return rc;
}

int saved_tables_load(struct saved_tables *t, const struct checkpoint *c, struct err *err)
{
    struct checkpoint_table *named = mem_new(t->count + 1, sizeof *named);
    int rc = make_tables(t, false, named, err);
    rc = rc != 0 ? rc : checkpoint_restore_tables(c, named, t->count, 0, 1, err);
    free(named);
    return rc;
}

int saved_tables_load_file(struct saved_tables *t, const struct saved_file *f,
                           const struct model *model, const struct job_spec *spec, struct err *err)
{
    struct variable_spec *variables = model_variables(model);
    const uint64_t version = saved_file_about(f)->version;
    int rc = find_pasts(t, spec, version, NULL, variables, model_variable_count(model), err);
    struct checkpoint_table *named = mem_new(t->count + 1, sizeof *named);
    rc = rc != 0 ? rc : make_tables(t, false, named, err);
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        rc = saved_file_restore(f, named[i].name, named[i].table, err);
    }
    free(named);
    free(variables);
    return rc;
}

/* With what an index of them takes. */
#define ROW_BYTES 40

static int check_given(const struct saved_tables *t, const struct saved_given *g, struct err *err)
{
    uint64_t rows = 0, bytes = 0;
    for (size_t i = 0; i < t->count; i++) {
        const uint64_t n = g->row_count(g->ctx, i);
        rows += n;
        bytes += n * (ROW_BYTES + (uint64_t)t->spec->model.tables[i].dim * sizeof(float));
    }
    if (bytes <= g->rows_bytes_max) {
        return 0;
    }
    return err_set(err, ERR_EXHAUSTED,
                   "its tables have %" PRIu64 " rows, which take %" PRIu64 " bytes; %" PRIu64
                   " are allowed (tables_bytes_max)",
                   rows, bytes, g->rows_bytes_max);
}

static int take_given(struct table *table, const struct saved_given *g, size_t i, size_t dim,
                      struct err *err)
{
    struct table_chunk chunk = {0};
    int rc = table_restore_reserve(table, g->row_count(g->ctx, i), 0, err);
    do {
        rc = rc != 0 ? rc : g->rows(g->ctx, i, dim, &chunk, err);
        rc = rc != 0 ? rc : table_restore_rows(table, &chunk, err);
    } while (rc == 0 && chunk.n > 0);
    return rc;
}

int saved_tables_load_given(struct saved_tables *t, const struct saved_given *g,
                            const struct model *model, const struct job_spec *spec, struct err *err)
{
    struct variable_spec *variables = model_variables(model);
    int rc =
        find_pasts(t, spec, g->about.version, NULL, variables, model_variable_count(model), err);
    struct checkpoint_table *named = mem_new(t->count + 1, sizeof *named);
    rc = rc != 0 || t->count == 0 ? rc : check_given(t, g, err);
    rc = rc != 0 ? rc : make_tables(t, true, named, err);
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        const size_t dim = (size_t)spec->model.tables[i].dim;
        rc = take_given(t->tables[i], g, i, dim, err);
    }
    free(named);
    free(variables);
    return rc;
}

/* Room for @need items of @size bytes, whose contents are not kept. */
static void *room(void *old, size_t *capacity, size_t need, size_t size, struct err *err)
{
    if (need <= *capacity) {
        return old;
    }
    free(old);
    void *made = mem_try_aligned(need, size, "rows of a batch", err);
    *capacity = made == NULL ? 0 : need;
    return made;
}

static int gather(struct saved_tables *t, size_t i, struct saved_rows *s, struct err *err)
{
    if (s->keys.count == 0) {
        return 0;
    }
    pthread_mutex_lock(&t->lock); /* a table has scratch of its own */
    int rc = table_gather(t->tables[i], t->version, s->keys.unique, s->keys.count, s->rows, err);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static int read_one(struct saved_tables *t, size_t i, const struct model *model,
                    const struct sparse_batch *b, struct saved_reader *r, struct err *err)
{
    struct saved_rows *s = &r->tables[i];
    const size_t n = model_table_lookups(model, i, b), dim = model_table_dim(model, i);
    s->lookups = room(s->lookups, &s->lookups_capacity, n, sizeof *s->lookups, err);
    if (n > 0 && s->lookups == NULL) {
        return ERR_EXHAUSTED;
    }
    if (n > 0) {
        model_table_keys(model, i, b, s->lookups);
    }
    int rc = table_keys_unique(&s->keys, s->lookups, n, err);
    if (rc != 0) {
        return rc;
    }
    s->rows = room(s->rows, &s->rows_capacity, s->keys.count * dim, sizeof *s->rows, err);
    if (s->keys.count > 0 && s->rows == NULL) {
        return ERR_EXHAUSTED;
    }
    r->run[i] = (struct runner_rows){.index = s->keys.index, .values = s->rows};
    return gather(t, i, s, err);
}

int saved_tables_read(struct saved_tables *t, const struct model *model,
                      const struct sparse_batch *b, struct saved_reader *r, struct err *err)
{
    int rc = 0;
    if (r->tables == NULL) {
        r->count = t->count;
        r->tables = mem_new(t->count + 1, sizeof *r->tables);
        r->run = mem_new(t->count + 1, sizeof *r->run);
    }
    for (size_t i = 0; i < t->count && rc == 0; i++) {
        rc = read_one(t, i, model, b, r, err);
    }
    return rc;
}

void saved_reader_release(struct saved_reader *r)
{
    for (size_t i = 0; i < r->count; i++) {
        table_keys_release(&r->tables[i].keys);
        free(r->tables[i].lookups);
        free(r->tables[i].rows);
    }
    free(r->tables);
    free(r->run);
    *r = (struct saved_reader){0};
}

void saved_tables_release(struct saved_tables *t)
{
    for (size_t i = 0; t->tables != NULL && i < t->count; i++) {
        table_free(t->tables[i]);
    }
    if (t->has_lock) {
        pthread_mutex_destroy(&t->lock);
    }
    free(t->tables);
    free(t->pasts);
    free(t->catching);
    update_free(t->update);
    for (size_t i = t->era_count; i-- > 0;) { /* each borrows from the one before it */
        update_free(t->eras[i].update);
        update_spec_release(&t->eras[i].spec);
    }
    free(t->eras);
    plan_release(&t->plan);
    *t = (struct saved_tables){0};
}
