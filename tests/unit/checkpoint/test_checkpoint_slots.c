/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of all rules and of the update around them: cut in any way, there and back. */
#include "checkpoint_rig.h"

static void clear(const struct fixture *f)
{
    assert_int_equal(file_remove_tree(f->dir, NULL), 0);
    assert_int_equal(file_make_dirs(f->dir, NULL), 0);
}

/* ---- random cuts ---- */

struct cut {
    uint32_t shards;
    int64_t partitions;
};

static struct cut random_cut(const char *rule, uint64_t i)
{
    const uint64_t key = rng_key(1, rule);
    int64_t partitions = (int64_t)(1 + rng_below(key, 2 * i + 1, 6));
    uint64_t shards_max = partitions == 1 ? VARIABLE_COUNT : 5; /* none may be empty */
    return (struct cut){(uint32_t)(1 + rng_below(key, 2 * i, shards_max)), partitions};
}

/* Read all shards of @to from the open checkpoint, compare with what was drawn from @seed, and
 * write what was read as the checkpoint of @step. */
static char *carry(struct fixture *f, const struct checkpoint *c, struct cut to, uint64_t step,
                   uint64_t seed)
{
    struct plan plan = {0};
    struct manifest m;
    char *path = NULL;
    f->partitions = to.partitions;
    make_plan(f, to.shards, &plan);
    assert_int_equal(checkpoint_begin(f->dir, step, &path, NULL), 0);
    manifest_init(&m, "t-1", JOB_TEXT, TRAINING_SYNC, &f->update, &plan);
    for (uint32_t s = 0; s < to.shards; s++) {
        float *want[1 + UPDATE_SLOTS_MAX] = {NULL}, *got[1 + UPDATE_SLOTS_MAX] = {NULL};
        struct update *u = make_update(f, &plan, s);
        struct err err = {0};
        make_shard(f, &plan, s, seed, want);
        make_shard(f, &plan, s, seed + 1, got); /* other values, to be overwritten */
        if (checkpoint_read_shard(c, &plan, s, f->update.rule->name, u, got[0], got + 1, &err)) {
            fail_msg("%s: %s", f->update.rule->name, err.msg);
        }
        assert_memory_equal(got[0], want[0], plan.shard_elements[s] * sizeof(float));
        for (size_t k = 0; k < update_slot_count(u); k++) {
            assert_memory_equal(got[1 + k], want[1 + k], update_slot_floats(u, k) * sizeof(float));
        }
        write_buffers(f, path, &plan, s, step, got, &m.shards[s]);
        free_shard(want);
        free_shard(got);
        update_free(u);
    }
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    plan_release(&plan);
    return path;
}

static void every_rule_there_and_back(void **state)
{
    struct fixture *f = *state;
    for (size_t r = 0; rule_at(r) != NULL; r++) {
        const char *rule = rule_at(r)->name;
        fixture_use_rule(f, rule);
        f->update.accumulate = r % 2 == 0 ? 1 : 4;
        f->update.average = r % 3 == 0 ? 0 : 0.9;
        struct cut first = random_cut(rule, 0);
        f->partitions = first.partitions;
        char *path = write_checkpoint(f, first.shards, 1, r);
        for (uint64_t i = 1; i <= 3; i++) {
            struct checkpoint *c = NULL;
            open_good(path, &c);
            free(path);
            path = carry(f, c, i == 3 ? first : random_cut(rule, i), 1 + i, r);
            checkpoint_close(c);
        }
        /* Back in the first cut it is the same files. */
        char *begun = checkpoint_step_path(f->dir, 1);
        for (uint32_t s = 0; s < first.shards; s++) {
            char name[SHARD_FILE_NAME_BYTES];
            struct safetensors a, b;
            (void)shard_file_name(s, first.shards, 0, name);
            char *file_a = file_join(begun, name), *file_b = file_join(path, name);
            assert_int_equal(safetensors_open(&a, file_a, NULL), 0);
            assert_int_equal(safetensors_open(&b, file_b, NULL), 0);
            assert_int_equal(a.count, b.count);
            for (size_t i = 0; i < a.count; i++) {
                float x[512], y[512];
                assert_string_equal(a.tensors[i].name, b.tensors[i].name);
                assert_int_equal(a.tensors[i].bytes, b.tensors[i].bytes);
                assert_true(a.tensors[i].bytes <= sizeof x);
                size_t bytes = (size_t)a.tensors[i].bytes;
                assert_int_equal(safetensors_read(&a, &a.tensors[i], 0, x, bytes, NULL), 0);
                assert_int_equal(safetensors_read(&b, &b.tensors[i], 0, y, bytes, NULL), 0);
                assert_memory_equal(x, y, bytes);
            }
            safetensors_close(&a);
            safetensors_close(&b);
            free(file_a);
            free(file_b);
        }
        free(begun);
        free(path);
        clear(f);
    }
}

/* ---- shapes ---- */

static void slots_have_their_own_shapes(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "adafactor");
    f->update.accumulate = 2;
    f->update.average = 0.5;
    f->partitions = 1;
    char *path = write_checkpoint(f, 1, 1, 3);
    static const struct {
        const char *name;
        size_t rank;
        uint64_t dims[2];
    } rows[] = {
        {"dense_1.kernel[0:13]", 2, {13, 7}},
        {"dense_1.kernel[0:13]#row", 1, {13}},
        {"dense_1.kernel[0:13]#column", 1, {7}},
        {"dense_1.kernel[0:13]#accumulated", 2, {13, 7}},
        {"dense_1.kernel[0:13]#accumulated_examples", 1, {1}},
        {"dense_1.kernel[0:13]#average", 2, {13, 7}},
        {"conv[0]#x.kernel[0:5]#row", 1, {5}},
        {"conv[0]#x.kernel[0:5]#column", 1, {12}},
        {"dense_1.bias[0:7]#row", 1, {7}},
        {"dense_1.bias[0:7]#column", 1, {1}},
        {"temperature[0:1]#row", 1, {1}},
        {"temperature[0:1]#average", 0, {0}},
    };
    struct safetensors s;
    char *file = file_join(path, "shard-0-of-1.safetensors");
    assert_int_equal(safetensors_open(&s, file, NULL), 0);
    assert_int_equal(s.count, VARIABLE_COUNT * 6);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct safetensors_tensor *t = safetensors_find(&s, rows[i].name);
        if (t == NULL) {
            fail_msg("no %s", rows[i].name);
        }
        assert_int_equal(t->rank, rows[i].rank);
        for (size_t d = 0; d < t->rank; d++) {
            assert_int_equal(t->dims[d], rows[i].dims[d]);
        }
    }
    safetensors_close(&s);
    free(file);
    free(path);
}

/* ---- copies ---- */

/* Two shards whose copies of what they share differ, as those of async jobs may. */
static char *write_unequal(const struct fixture *f)
{
    struct plan plan = {0};
    struct manifest m;
    char *path = NULL;
    make_plan(f, 2, &plan);
    assert_int_equal(checkpoint_begin(f->dir, 1, &path, NULL), 0);
    manifest_init(&m, "t-1", JOB_TEXT, TRAINING_ASYNC, &f->update, &plan);
    for (uint32_t s = 0; s < 2; s++) {
        write_shard(f, path, &plan, s, 1, 5 + s, &m.shards[s]);
    }
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    plan_release(&plan);
    return path;
}

static int read_as(const struct fixture *f, const struct checkpoint *c, uint32_t shards,
                   uint32_t shard, uint64_t seed, struct err *err)
{
    struct plan plan = {0};
    make_plan(f, shards, &plan);
    float *got[1 + UPDATE_SLOTS_MAX] = {NULL}, *want[1 + UPDATE_SLOTS_MAX] = {NULL};
    struct update *u = make_update(f, &plan, shard);
    make_shard(f, &plan, shard, 99, got);
    make_shard(f, &plan, shard, seed, want);
    int rc = checkpoint_read_shard(c, &plan, shard, f->update.rule->name, u, got[0], got + 1, err);
    for (size_t k = 0; rc == 0 && k < update_slot_count(u); k++) {
        assert_memory_equal(got[1 + k], want[1 + k], update_slot_floats(u, k) * sizeof(float));
    }
    free_shard(got);
    free_shard(want);
    update_free(u);
    plan_release(&plan);
    return rc;
}

static void copies_that_differ_stay_apart(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "adafactor");
    f->partitions = 4; /* several of a variable on each shard */
    char *path = write_unequal(f);
    struct checkpoint *c = NULL;
    struct err err = {0};
    float x[7];
    open_good(path, &c);
    assert_int_equal(read_as(f, c, 2, 0, 5, NULL), 0);
    assert_int_equal(read_as(f, c, 2, 1, 6, NULL), 0);
    assert_int_equal(read_as(f, c, 1, 0, 5, &err), ERR_CORRUPT);
    assert_message(err, "differs from the copy of other rows");
    assert_message(err, "#column");
    assert_message(err, path);
    assert_int_equal(checkpoint_read(c, "dense_1.kernel", "column", 0, 7, x, &err), ERR_CORRUPT);
    assert_int_equal(checkpoint_read(c, "dense_1.kernel", "row", 0, 7, x, NULL), 0);
    checkpoint_close(c);
    free(path);
}

static void parts_of_copies_can_be_read(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "adafactor");
    char *path = write_checkpoint(f, 3, 1, 4);
    struct checkpoint *c = NULL;
    float x[12];
    struct err err = {0};
    open_good(path, &c);
    assert_int_equal(checkpoint_read(c, "conv[0]#x.kernel", "column", 5, 4, x, NULL), 0);
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(x[i] == element(4, 2, 2, 5 + i)); /* slot 1 is column 2 */
    }
    assert_int_equal(checkpoint_read(c, "conv[0]#x.kernel", "column", 5, 8, x, &err), ERR_RANGE);
    assert_message(err, "which has 12");
    assert_int_equal(checkpoint_read(c, "conv[0]#x.kernel", "row", 3, 3, x, &err), ERR_RANGE);
    checkpoint_close(c);
    free(path);
}

/* More columns than fit into one chunk of a comparison. */
#define WIDE (SHARD_FILE_CHUNK_BYTES / sizeof(float) + 1024)

/* A wide variable of two rows, one on each shard; with @differs, the second one's copy of what the
 * columns share is another from that element on. */
static char *write_wide(struct fixture *f, uint64_t differs)
{
    struct plan plan = {0};
    struct manifest m;
    char *path = NULL;
    f->variables[0].shape = (struct shape){2, {2, WIDE}};
    f->partitions = 2;
    make_plan(f, 2, &plan);
    assert_int_equal(checkpoint_begin(f->dir, 1, &path, NULL), 0);
    manifest_init(&m, "t-1", JOB_TEXT, TRAINING_ASYNC, &f->update, &plan);
    for (uint32_t s = 0; s < 2; s++) {
        float *buffers[1 + UPDATE_SLOTS_MAX] = {NULL};
        struct update *u = make_update(f, &plan, s);
        size_t count;
        const struct partition *parts = plan_shard(&plan, s, &count);
        make_shard(f, &plan, s, 5, buffers);
        for (size_t i = 0; i < count; i++) {
            bool wide = parts[i].variable == 0 && parts[i].row_first == 1;
            for (size_t k = 0; wide && k < update_slot_count(u); k++) {
                if (update_slot(u, k)->kind == RULE_SLOT_COLUMN) {
                    assert_int_equal(update_slot_part_floats(u, k, i), WIDE);
                    buffers[1 + k][update_slot_offset(u, k, i) + differs] += differs == 0 ? 0 : 1;
                }
            }
        }
        write_buffers(f, path, &plan, s, 1, buffers, &m.shards[s]);
        free_shard(buffers);
        update_free(u);
    }
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    plan_release(&plan);
    return path;
}

/* Each chunk has its place in the slot, and the last one is compared, too. */
static void wide_slots_are_restored_chunk_by_chunk(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "adafactor");
    const uint64_t differs[] = {0, 1, WIDE - 1};
    for (size_t i = 0; i < 3; i++) {
        char *path = write_wide(f, differs[i]);
        struct checkpoint *c = NULL;
        struct err err = {0};
        open_good(path, &c);
        assert_int_equal(read_as(f, c, 2, 0, 5, NULL), 0);
        assert_int_equal(read_as(f, c, 1, 0, 5, &err), i == 0 ? 0 : ERR_CORRUPT);
        if (i > 0) {
            assert_message(err, "differs from the copy of other rows");
        }
        checkpoint_close(c);
        free(path);
        clear(f);
    }
}

/* ---- what is wrong ---- */

/* Another file in the place of the only shard's, and a manifest that agrees with it. */
static void replace_shard(const char *path, const char *rule,
                          const struct safetensors_tensor *tensors, size_t count)
{
    const struct safetensors_meta meta[] = {
        {"format", "gradus-shard"},
        {"format_version", "1"},
        {"generation", "7"},
        {"job", "t-1"},
        {"ledger",
         "{\"epoch\":0,\"records\":1,\"batch_records\":1,\"split_batches\":1,\"done\":[[0,1]]}"},
        {"rule", rule},
        {"shard", "0"},
        {"shards", "1"},
        {"step", "1"},
        {"version", "1"}};
    static const char zeros[4096];
    char *file = file_join(path, "shard-0-of-1.safetensors");
    struct safetensors_writer w;
    struct safetensors_written written;
    assert_int_equal(safetensors_writer_open(&w, file, tensors, count, meta, 10, NULL), 0);
    for (size_t i; safetensors_writer_next(&w, &i);) {
        assert_int_equal(safetensors_writer_add(&w, zeros, (size_t)w.left, NULL), 0);
    }
    assert_int_equal(safetensors_writer_commit(&w, &written, NULL), 0);
    free(file);
    struct manifest m;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    m.shards[0] = (struct manifest_shard){0, 1, written.bytes, written.checksum};
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
}

static void vectors_that_do_not_fit_are_refused(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "adafactor");
    static const struct {
        struct safetensors_tensor t;
        const char *message;
    } wrong[] = {
        {{.name = "dense_1.kernel[0:2]#row", .rank = 1, .dims = {3}}, "does not fit the shape"},
        {{.name = "dense_1.kernel[0:2]#row", .rank = 2, .dims = {2, 7}}, "does not fit the shape"},
        {{.name = "dense_1.kernel[12:14]#row", .rank = 1, .dims = {2}}, "does not fit the shape"},
        {{.name = "dense_1.kernel[0:2]#column", .rank = 1, .dims = {6}}, "does not fit the shape"},
        {{.name = "dense_1.kernel[0:2]#column", .rank = 2, .dims = {2, 7}},
         "does not fit the shape"},
        {{.name = "dense_1.kernel[0:99]#column", .rank = 1, .dims = {7}}, "does not fit the shape"},
        {{.name = "dense_1.kernel[0:2]#column", .rank = 1, .dims = {7}, .dtype = SAFETENSORS_F64},
         "does not fit the shape"},
        {{.name = "dense_1.kernel[0:13]#column", .rank = 1, .dims = {7}}, " file"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *path = write_checkpoint(f, 1, 1, 4);
        replace_shard(path, "adafactor", &wrong[i].t, 1);
        struct checkpoint *c = NULL;
        struct err err = {0};
        assert_int_equal(checkpoint_open(path, CHECKPOINT_FULL, &c, &err), ERR_CORRUPT);
        assert_message(err, wrong[i].message);
        free(path);
        clear(f);
    }
}

/* All tensors but the copy of one partition; then that one twice. */
static void every_row_has_one_copy(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "adafactor");
    f->partitions = 2;
    for (int twice = 0; twice < 2; twice++) {
        char *path = write_checkpoint(f, 1, 1, 4);
        char *file = file_join(path, "shard-0-of-1.safetensors");
        struct safetensors s;
        assert_int_equal(safetensors_open(&s, file, NULL), 0);
        struct safetensors_tensor *tensors = mem_new(s.count + 1, sizeof *tensors);
        size_t n = 0;
        for (size_t i = 0; i < s.count; i++) {
            struct shard_file_tensor name;
            assert_true(shard_file_tensor_parse(s.tensors[i].name, &name));
            bool it = strcmp(name.variable, "dense_1.kernel") == 0 && name.row_first > 0 &&
                      strcmp(name.slot, "column") == 0;
            if (!it || twice) {
                tensors[n++] = s.tensors[i];
            }
            if (it && twice) {
                tensors[n] = s.tensors[i];
                tensors[n++].name = "dense_1.kernel[1:13]#column";
            }
        }
        replace_shard(path, "adafactor", tensors, n);
        struct checkpoint *c = NULL;
        struct err err = {0};
        assert_int_equal(checkpoint_open(path, CHECKPOINT_FULL, &c, &err), ERR_CORRUPT);
        assert_message(err, twice ? "of dense_1.kernel#column is in more than one file"
                                  : "of dense_1.kernel#column is in no file");
        assert_message(err, "row ");
        free(tensors);
        safetensors_close(&s);
        free(file);
        free(path);
        clear(f);
    }
}

static int read_any(const struct fixture *f, const struct checkpoint *c)
{
    struct plan plan = {0};
    make_plan(f, 2, &plan);
    float *got[1 + UPDATE_SLOTS_MAX] = {NULL};
    struct update *u = make_update(f, &plan, 1);
    make_shard(f, &plan, 1, 99, got);
    int rc = checkpoint_read_shard(c, &plan, 1, f->update.rule->name, u, got[0], got + 1, NULL);
    free_shard(got);
    update_free(u);
    plan_release(&plan);
    return rc;
}

static void damaged_slots_are_refused(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "adafactor");
    char *path = write_checkpoint(f, 1, 1, 4);
    const char *name = "shard-0-of-1.safetensors";
    struct buf file = {0};
    read_whole(path, name, &file);
    for (uint64_t round = 0; round < 400; round++) {
        size_t at = (size_t)rng_below(rng_key(3, "damage"), round, file.len);
        char flip = (char)(1 << rng_below(rng_key(4, "damage"), round, 8));
        file.data[at] ^= flip;
        write_whole(path, name, file.data, file.len);
        file.data[at] ^= flip;
        struct checkpoint *c = NULL;
        assert_int_equal(checkpoint_open(path, CHECKPOINT_FULL, &c, NULL), ERR_CORRUPT);
        if (checkpoint_open(path, CHECKPOINT_QUICK, &c, NULL) == 0) {
            (void)read_any(f, c); /* whatever it says, it says it */
            checkpoint_close(c);
        }
    }
    buf_release(&file);
    free(path);
}

/* ---- export ---- */

static void the_average_is_exported(void **state)
{
    struct fixture *f = *state;
    fixture_use_rule(f, "novograd");
    f->update.average = 0.9;
    char *path = write_checkpoint(f, 2, 1, 8);
    char *out = file_join(f->dir, "average.safetensors");
    struct checkpoint *c = NULL;
    struct err err = {0};
    open_good(path, &c);
    assert_int_equal(checkpoint_export(c, "average", out, NULL), 0);
    struct safetensors s;
    assert_int_equal(safetensors_open(&s, out, NULL), 0);
    assert_int_equal(s.count, VARIABLE_COUNT);
    const size_t column = 1 + (size_t)update_spec_average(&f->update);
    for (uint32_t v = 0; v < VARIABLE_COUNT; v++) {
        const struct safetensors_tensor *t = safetensors_find(&s, f->variables[v].name);
        float x[256];
        assert_non_null(t);
        assert_int_equal(t->rank, f->variables[v].shape.rank);
        assert_int_equal(safetensors_read(&s, t, 0, x, (size_t)t->bytes, NULL), 0);
        for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) {
            assert_true(x[i] == element(8, v, column, i));
        }
    }
    safetensors_close(&s);
    const struct manifest *m = checkpoint_manifest(c);
    for (size_t k = 0; k < m->slot_count; k++) {
        if (m->slot_kinds[k] != RULE_SLOT_PARAMETER) {
            assert_int_equal(checkpoint_export(c, m->slots[k], out, &err), ERR_INVALID);
            assert_message(err, "is not per parameter");
        }
    }
    checkpoint_close(c);
    free(path);
    f->update.average = 0;
    path = write_checkpoint(f, 2, 2, 8);
    open_good(path, &c);
    assert_int_equal(checkpoint_export(c, "average", out, &err), ERR_NOT_FOUND);
    assert_message(err, "export: the checkpoint of job t-1 has no slot average");
    checkpoint_close(c);
    free(out);
    free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_rule_there_and_back),
        TEST(slots_have_their_own_shapes),
        TEST(copies_that_differ_stay_apart),
        TEST(parts_of_copies_can_be_read),
        TEST(wide_slots_are_restored_chunk_by_chunk),
        TEST(vectors_that_do_not_fit_are_refused),
        TEST(every_row_has_one_copy),
        TEST(damaged_slots_are_refused),
        TEST(the_average_is_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
