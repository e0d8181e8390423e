/* SPDX-License-Identifier: Apache-2.0 */
/* How the small job and its checkpoints are made. */
#include "checkpoint_rig.h"

void fixture_use_rule(struct fixture *f, const char *name)
{
    free(f->update.params);
    f->update.rule = rule_find(name);
    assert_non_null(f->update.rule);
    f->update.params = mem_new(1, f->update.rule->params_bytes + 1);
    field_defaults(f->update.rule->fields, f->update.rule->field_count, f->update.params);
}

void open_good(const char *path, struct checkpoint **c)
{
    struct err err = {0};
    if (checkpoint_open(path, CHECKPOINT_FULL, c, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

int fixture_setup(void **state)
{
    struct fixture *f = mem_new(1, sizeof *f);
    f->dir = tmp_dir_make("checkpoint");
    static const struct {
        const char *name;
        struct shape shape;
    } rows[VARIABLE_COUNT] = {{"dense_1.kernel", {2, {13, 7}}},
                              {"dense_1.bias", {1, {7}}},
                              {"conv[0]#x.kernel", {4, {5, 2, 3, 2}}}, /* separators in a name */
                              {"temperature", {0, {0}}}};
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        (void)strncpy(f->variables[i].name, rows[i].name, VARIABLE_NAME_BYTES - 1);
        f->variables[i].shape = rows[i].shape;
    }
    fixture_use_rule(f, "adam");
    f->partitions = 3;
    struct ledger_shape shape = {1000, 10, 4};
    assert_int_equal(ledger_init(&f->ledger, &shape, 3, NULL), 0);
    f->ledger.done[0] = 4;
    f->ledger.done[1] = 4;
    f->ledger.done[2] = 1;
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    tmp_dir_remove(f->dir);
    ledger_release(&f->ledger);
    free(f->update.params);
    free(f);
    return 0;
}

float element(uint64_t seed, uint32_t v, size_t k, uint64_t i)
{
    return (float)rng_normal(rng_key_mix(rng_key_mix(rng_key(seed, "element"), v), k), i);
}

void make_plan(const struct fixture *f, uint32_t shards, struct plan *plan)
{
    struct job_spec spec = {.cluster = {.ps = shards, .partitions = f->partitions},
                            .model = {.table_count = f->tables != NULL}};
    assert_int_equal(plan_make_job(f->variables, VARIABLE_COUNT, &spec, plan, NULL), 0);
}

struct update *make_update(const struct fixture *f, const struct plan *plan, uint32_t shard)
{
    struct update *u;
    assert_int_equal(plan_update_shard(plan, &f->update, shard, &u, NULL), 0);
    return u;
}

/* The first element of slot @k that partition @p has. */
static uint64_t first_of(const struct update *u, size_t k, const struct partition *p)
{
    enum rule_slot_kind kind = update_slot(u, k)->kind;
    return kind == RULE_SLOT_PARAMETER ? p->first : kind == RULE_SLOT_ROW ? p->row_first : 0;
}

void make_shard(const struct fixture *f, const struct plan *plan, uint32_t shard, uint64_t seed,
                float *buffers[1 + UPDATE_SLOTS_MAX])
{
    size_t count;
    const struct partition *p = plan_shard(plan, shard, &count);
    struct update *u = make_update(f, plan, shard);
    buffers[0] = mem_new((size_t)plan->shard_elements[shard], sizeof(float));
    for (size_t i = 0; i < count; i++) {
        for (uint64_t e = 0; e < p[i].count; e++) {
            buffers[0][p[i].offset + e] = element(seed, p[i].variable, 0, p[i].first + e);
        }
    }
    for (size_t k = 0; k < update_slot_count(u); k++) {
        float *slot = buffers[1 + k] = mem_new((size_t)update_slot_floats(u, k), sizeof(float));
        for (size_t i = 0; i < count; i++) {
            for (uint64_t e = 0; e < update_slot_part_floats(u, k, i); e++) {
                slot[update_slot_offset(u, k, i) + e] =
                    element(seed, p[i].variable, 1 + k, first_of(u, k, &p[i]) + e);
            }
        }
    }
    update_free(u);
}

void free_shard(float *buffers[1 + UPDATE_SLOTS_MAX])
{
    for (size_t k = 0; k <= UPDATE_SLOTS_MAX; k++) {
        free(buffers[k]);
        buffers[k] = NULL;
    }
}

void write_buffers(const struct fixture *f, const char *path, const struct plan *plan,
                   uint32_t shard, uint64_t step, float *buffers[1 + UPDATE_SLOTS_MAX],
                   struct manifest_shard *out)
{
    struct update *u = make_update(f, plan, shard);
    struct shard_file_state state = {
        .job = "t-1",
        .plan = plan,
        .shard = shard,
        .rule = f->update.rule->name,
        .update = u,
        .version = step,
        .generation = 7,
        .step = step,
        .ledger = &f->ledger,
        .values = buffers[0],
        .slots = buffers + 1,
        .tables = f->tables == NULL ? NULL : &f->tables[shard],
        .base = f->bases == NULL ? NULL : &f->bases[shard],
    };
    char name[SHARD_FILE_NAME_BYTES];
    char *file = file_join(path, shard_file_name(shard, plan->shard_count, 0, name));
    struct safetensors_written written;
    assert_int_equal(shard_file_write(file, &state, &written, NULL), 0);
    *out = (struct manifest_shard){0, step, written.bytes, written.checksum};
    free(file);
    update_free(u);
}

void write_shard(const struct fixture *f, const char *path, const struct plan *plan, uint32_t shard,
                 uint64_t step, uint64_t seed, struct manifest_shard *out)
{
    float *buffers[1 + UPDATE_SLOTS_MAX] = {NULL};
    make_shard(f, plan, shard, seed, buffers);
    write_buffers(f, path, plan, shard, step, buffers, out);
    free_shard(buffers);
}

char *write_checkpoint(const struct fixture *f, uint32_t shards, uint64_t step, uint64_t seed)
{
    struct plan plan = {0};
    make_plan(f, shards, &plan);
    char *path = NULL;
    assert_int_equal(checkpoint_begin(f->dir, step, &path, NULL), 0);
    struct manifest m;
    manifest_init(&m, "t-1", JOB_TEXT, TRAINING_SYNC, &f->update, &plan);
    m.step = step;
    m.epoch = 3;
    m.records = 12345;
    m.generation = 7;
    m.created_ms = 1700000000123;
    ledger_copy(&m.ledger, &f->ledger);
    for (uint32_t s = 0; s < shards; s++) {
        write_shard(f, path, &plan, s, step, seed, &m.shards[s]);
    }
    for (size_t i = 0; f->tables != NULL && i < f->tables->count; i++) {
        const struct table_file_info *t = &f->tables->tables[i];
        manifest_add_table(&m, t->name, t->dim, t->admission);
    }
    if (f->bases != NULL) {
        memcpy(m.base.directory, f->bases[0].directory, sizeof m.base.directory);
    }
    assert_int_equal(manifest_take_tables(path, &m, NULL), 0);
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    plan_release(&plan);
    return path;
}

void read_whole(const char *dir, const char *name, struct buf *out)
{
    char *path = file_join(dir, name);
    assert_int_equal(file_read(path, 1U << 24, out, NULL), 0);
    free(path);
}

void write_whole(const char *dir, const char *name, const void *data, size_t n)
{
    char *path = file_join(dir, name);
    FILE *out = fopen(path, file_exists(path) ? "r+b" : "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(truncate(path, (off_t)n), 0);
    free(path);
}
