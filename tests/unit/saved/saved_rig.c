/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what a cluster would have written. */
#include "saved_rig.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "checkpoint/shard_file.h"
#include "job/plan/plan_tables.h"
#include "job/plan/plan_update.h"
#include "table/table.h"

#define TABLES_MAX SAVED_RIG_TABLES_MAX
#define DIM_MAX SAVED_RIG_DIM_MAX

int saved_rig_setup(void **state)
{
    struct saved_rig *r = mem_new(1, sizeof *r);
    r->dir = tmp_dir_make("saved");
    r->checkpoints = file_join(r->dir, "checkpoints");
    assert_int_equal(file_make_dirs(r->checkpoints, NULL), 0);
    *state = r;
    return 0;
}

int saved_rig_teardown(void **state)
{
    struct saved_rig *r = *state;
    tmp_dir_remove(r->dir);
    free(r->checkpoints);
    free(r);
    return 0;
}

void saved_rig_file(const struct saved_rig *r, const char *name, const char *text)
{
    char *path = file_join(r->dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    free(path);
}

float saved_rig_value(size_t v, uint64_t i)
{
    return (float)((int)((v * 5 + i * 7) % 11) - 4) / 8;
}

char *saved_rig_job(const struct saved_rig *r, const char *format, const char *data,
                    const char *model, const char *update)
{
    return mem_printf("name: t\n"
                      "data: {dir: %s, format: %s, train: {file: train}%s}\n"
                      "model: {%s}\n"
                      "update: {learning_rate: 0.5%s}\n"
                      "training: {batch_size: 2, mode: async}\n"
                      "cluster: {ps: %d}\n",
                      r->dir, format, data, model, update, SAVED_RIG_SHARDS);
}

/* One checkpoint that is being written. */
struct writing {
    struct job_spec spec;
    struct plan plan;
    struct update *updates[SAVED_RIG_SHARDS];
    struct rule_past pasts[SAVED_RIG_SHARDS][TABLES_MAX];
    struct table *tables[SAVED_RIG_SHARDS][TABLES_MAX];
    struct table_file_info infos[SAVED_RIG_SHARDS][TABLES_MAX];
    struct table_file_source sources[SAVED_RIG_SHARDS];
    struct shard_rows {
        struct writing *writing;
        uint32_t shard;
        struct table_cursor rows[TABLES_MAX], counts[TABLES_MAX];
    } rows[SAVED_RIG_SHARDS];
};

static void ok(int rc, const struct err *err)
{
    if (rc != 0) {
        fail_msg("%s", err->msg);
    }
}

static void parse(struct writing *w, const char *text)
{
    struct diags diags = {0};
    if (job_spec_parse(text, strlen(text), "job", NULL, 0, &w->spec, &diags) != 0) {
        struct buf messages = {0};
        diags_format(&diags, &messages);
        fail_msg("%s", buf_str(&messages));
    }
    diags_release(&diags);
}

static void plan(struct writing *w)
{
    struct encoder *e = NULL;
    struct model *model = NULL;
    struct err err;
    ok(encoder_open(&w->spec.data, job_spec_label_kind(&w->spec), &e, &err), &err);
    const struct dataset_info *info = encoder_info(e);
    ok(model_new(&w->spec.model, &info->features, &info->fields,
                 info->label_is_class ? info->classes : 0, &model, &err),
       &err);
    struct variable_spec variables[16];
    const size_t n = model_variable_count(model);
    assert_true(n <= 16);
    for (size_t i = 0; i < n; i++) {
        variables[i] = *model_variable(model, i);
    }
    ok(plan_make_job(variables, n, &w->spec, &w->plan, &err), &err);
    for (uint32_t s = 0; s < SAVED_RIG_SHARDS; s++) {
        ok(plan_update_shard(&w->plan, &w->spec.update, s, &w->updates[s], &err), &err);
    }
    model_free(model);
    encoder_free(e);
}

static char *measure(const struct writing *w)
{
    struct dataset *train = NULL, *test = NULL;
    struct err err;
    ok(dataset_open(&w->spec.data, job_spec_label_kind(&w->spec), &train, &test, &err), &err);
    char *measured = mem_strdup(dataset_measured(train));
    dataset_free(train);
    dataset_free(test);
    return measured;
}

/* ---- tables ---- */

static int next_rows(void *ctx, size_t table, struct table_chunk *chunk, struct err *err)
{
    struct shard_rows *r = ctx;
    struct table *t = r->writing->tables[r->shard][table];
    return table_walk(t, table_version(t), &r->rows[table], chunk, err);
}

static int next_counts(void *ctx, size_t table, struct table_counts_chunk *chunk, struct err *err)
{
    struct shard_rows *r = ctx;
    struct table *t = r->writing->tables[r->shard][table];
    return table_walk_counts(t, table_version(t), &r->counts[table], chunk, err);
}

/* All keys of the shard are updated as often as @version says. */
static void fill_table(struct writing *w, size_t i, uint32_t s, uint64_t version)
{
    struct table *t = w->tables[s][i];
    const size_t dim = table_dim(t);
    uint64_t keys[SAVED_RIG_KEYS];
    uint32_t sightings[SAVED_RIG_KEYS];
    float values[SAVED_RIG_KEYS * DIM_MAX];
    struct err err;
    for (uint64_t v = 1; v <= version; v++) {
        size_t n = 0;
        for (uint64_t key = 0; key < SAVED_RIG_KEYS; key++) {
            /* What is left out of the last updates has something to catch up with. */
            if (table_shard_of(key, SAVED_RIG_SHARDS) != s || (v > 1 && key % 2 == 1)) {
                continue;
            }
            keys[n] = key;
            sightings[n] = 1;
            for (size_t d = 0; d < dim; d++) {
                values[n * dim + d] = saved_rig_value(key + v, d);
            }
            n++;
        }
        struct rule_scalars scalars = {0};
        w->spec.update.rule->prepare(w->spec.update.params, v - 1, 1.0, &scalars);
        const struct table_step step = {.version = v,
                                        .gradient = {dim, n, keys, sightings, values},
                                        .gradient_scale = 1,
                                        .scalars = &scalars};
        ok(table_update(t, &step, &err), &err);
    }
}

static void read_rows(const struct writing *w, size_t i, uint32_t s,
                      float out[SAVED_RIG_KEYS][DIM_MAX])
{
    struct table *t = w->tables[s][i];
    for (uint64_t key = 0; key < SAVED_RIG_KEYS; key++) {
        if (table_shard_of(key, SAVED_RIG_SHARDS) == s) {
            assert_int_equal(table_gather(t, table_version(t), &key, 1, out[key], NULL), 0);
        }
    }
}

static void make_tables(struct writing *w, uint32_t s, uint64_t version)
{
    const size_t n = w->spec.model.table_count;
    const struct rule *rule = w->spec.update.rule;
    struct err err;
    assert_true(n <= TABLES_MAX);
    w->rows[s].writing = w;
    w->rows[s].shard = s;
    w->sources[s] = (struct table_file_source){.count = n,
                                               .tables = w->infos[s],
                                               .slots = {.count = rule->slot_count},
                                               .rows = next_rows,
                                               .counts = next_counts,
                                               .ctx = &w->rows[s]};
    for (size_t k = 0; k < rule->slot_count; k++) {
        w->sources[s].slots.names[k] = rule->slot_names[k];
        w->sources[s].slots.kinds[k] = rule->slot_kinds[k];
    }
    for (size_t i = 0; i < n; i++) {
        struct table_config config;
        struct table_file_info *info = &w->infos[s][i];
        update_past(w->updates[s], w->spec.model.tables[i].name, &w->pasts[s][i]);
        plan_table_config(&w->spec, i, &w->pasts[s][i], s, SAVED_RIG_SHARDS, &config);
        ok(table_new(&config, 0, &w->tables[s][i], &err), &err);
        fill_table(w, i, s, version);
        *info = (struct table_file_info){.name = mem_strdup(config.name),
                                         .dim = config.dim,
                                         .admission = (int)config.admission.kind};
        uint64_t pinned;
        ok(table_pin(w->tables[s][i], &pinned, &err), &err);
        ok(table_count(w->tables[s][i], version, &info->rows, &err), &err);
        info->all = info->rows;
        ok(table_count_counts(w->tables[s][i], version, &info->counts, &err), &err);
    }
}

/* ---- shards ---- */

static void fill_variables(const struct writing *w, uint32_t s,
                           float *buffers[1 + UPDATE_SLOTS_MAX])
{
    size_t count;
    const struct update *u = w->updates[s];
    const struct partition *p = plan_shard(&w->plan, s, &count);
    buffers[0] = mem_new((size_t)w->plan.shard_elements[s] + 1, sizeof(float));
    for (size_t k = 0; k < update_slot_count(u); k++) {
        buffers[1 + k] = mem_new((size_t)update_slot_floats(u, k) + 1, sizeof(float));
    }
    for (size_t i = 0; i < count; i++) {
        for (uint64_t e = 0; e < p[i].count; e++) {
            const float value = saved_rig_value(p[i].variable, p[i].first + e);
            buffers[0][p[i].offset + e] = value;
            for (size_t k = 0; k < update_slot_count(u); k++) {
                buffers[1 + k][update_slot_offset(u, k, i) + e] = value + 1;
            }
        }
    }
}

static void write_shard(struct writing *w, uint32_t s, const char *path, uint64_t step,
                        uint64_t version, struct manifest *m)
{
    float *buffers[1 + UPDATE_SLOTS_MAX] = {NULL};
    fill_variables(w, s, buffers);
    make_tables(w, s, version);
    const struct shard_file_state state = {
        .job = "t-1",
        .plan = &w->plan,
        .shard = s,
        .rule = w->spec.update.rule->name,
        .update = w->updates[s],
        .version = version,
        .generation = 1,
        .step = step,
        .ledger = &m->ledger,
        .values = buffers[0],
        .slots = buffers + 1,
        .tables = w->spec.model.table_count > 0 ? &w->sources[s] : NULL,
    };
    char name[SHARD_FILE_NAME_BYTES];
    char *file = file_join(path, shard_file_name(s, SAVED_RIG_SHARDS, 0, name));
    struct safetensors_written written;
    struct err err;
    ok(shard_file_write(file, &state, &written, &err), &err);
    m->shards[s] = (struct manifest_shard){0, version, written.bytes, written.checksum};
    free(file);
    for (size_t k = 0; k <= UPDATE_SLOTS_MAX; k++) {
        free(buffers[k]);
    }
}

char *saved_rig_checkpoint(struct saved_rig *r, const char *text, uint64_t step, uint64_t behind)
{
    struct writing *w = mem_new(1, sizeof *w);
    const struct ledger_shape shape = {1000, 10, 4};
    struct manifest m;
    struct err err;
    char *path = NULL;
    parse(w, text);
    plan(w);
    ok(checkpoint_begin(r->checkpoints, step, &path, &err), &err);
    manifest_init(&m, "t-1", text, TRAINING_ASYNC, &w->spec.update, &w->plan);
    m.encoding = r->keeps ? measure(w) : NULL;
    m.step = step;
    m.epoch = 1;
    m.generation = 1;
    m.created_ms = 1700000000123;
    ok(ledger_init(&m.ledger, &shape, 1, &err), &err);
    for (uint32_t s = 0; s < SAVED_RIG_SHARDS; s++) {
        write_shard(w, s, path, step, s + 1 == SAVED_RIG_SHARDS ? step - behind : step, &m);
    }
    for (size_t i = 0; i < w->spec.model.table_count; i++) {
        manifest_add_table(&m, w->infos[0][i].name, w->infos[0][i].dim, w->infos[0][i].admission);
    }
    ok(manifest_take_tables(path, &m, &err), &err);
    ok(manifest_write(path, &m, &err), &err);
    manifest_release(&m);
    for (uint32_t s = 0; s < SAVED_RIG_SHARDS; s++) {
        for (size_t i = 0; i < w->spec.model.table_count; i++) {
            read_rows(w, i, s, r->rows[i]);
            table_free(w->tables[s][i]);
            free(w->infos[s][i].name);
        }
        update_free(w->updates[s]);
    }
    plan_release(&w->plan);
    job_spec_release(&w->spec);
    free(w);
    return path;
}

struct saved_model *saved_rig_open(const char *path)
{
    const struct saved_model_request q = {.path = path};
    struct saved_model *m = NULL;
    struct err err;
    ok(saved_model_open(&q, &m, &err), &err);
    return m;
}

static int take(void *context, const float *answers, const char *ids, size_t count, struct err *err)
{
    struct saved_rig_answers *a = context;
    (void)err;
    assert_null(ids);
    assert_true((a->count + count) * a->width <= SAVED_RIG_ANSWERS_MAX);
    memcpy(a->values + a->count * a->width, answers, count * a->width * sizeof *answers);
    a->count += count;
    a->last = count;
    a->calls++;
    return 0;
}

void saved_rig_predict(const struct saved_rig *r, struct saved_model *m, const char *text,
                       struct saved_rig_answers *out)
{
    const struct encoder_files files = {.file = "test"};
    struct encoder_left left = {0};
    struct err err;
    saved_rig_file(r, files.file, text);
    *out = (struct saved_rig_answers){.width = saved_model_width(m)};
    ok(saved_predict(m, &files, 1, take, out, &left, &err), &err);
    encoder_left_release(&left);
}

void saved_rig_near(float a, double b)
{
    if (!(fabs((double)a - b) < 1e-5 * (1 + fabs(b)))) {
        fail_msg("%.9g, expected %.9g", (double)a, b);
    }
}
