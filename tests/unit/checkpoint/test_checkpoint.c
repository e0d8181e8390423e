/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints as whole variables: any number of shards in, any number out, the same values. */
#include "checkpoint_rig.h"

/* Every range of every variable and slot holds what was written, whatever the number of shards. */
static void any_range_can_be_read(void **state)
{
    const struct fixture *f = *state;
    for (uint32_t shards = 1; shards <= 5; shards++) {
        char *path = write_checkpoint(f, shards, shards, 42);
        struct checkpoint *c = NULL;
        open_good(path, &c);
        for (uint32_t v = 0; v < VARIABLE_COUNT; v++) {
            uint64_t n = shape_count(&f->variables[v].shape);
            for (uint64_t round = 0; round < 30; round++) {
                size_t k = (size_t)round % 3;
                const char *slot = k == 0 ? NULL : f->update.rule->slot_names[k - 1];
                uint64_t first = rng_below(rng_key(v, "first"), round, n + 1);
                uint64_t count = rng_below(rng_key(v, "count"), round, n - first + 1);
                float out[256];
                assert_int_equal(
                    checkpoint_read(c, f->variables[v].name, slot, first, count, out, NULL), 0);
                for (uint64_t i = 0; i < count; i++) {
                    assert_true(out[i] == element(42, v, k, first + i));
                }
            }
        }
        checkpoint_close(c);
        free(path);
    }
}

static void it_restores_onto_any_number_of_shards(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 3, 10, 5);
    struct checkpoint *c = NULL;
    open_good(path, &c);
    for (uint32_t shards = 1; shards <= 6; shards++) {
        struct plan plan = {0};
        make_plan(f, shards, &plan);
        for (uint32_t s = 0; s < shards; s++) {
            float *want[1 + UPDATE_SLOTS_MAX] = {NULL};
            float *got[1 + UPDATE_SLOTS_MAX] = {NULL};
            struct update *u = make_update(f, &plan, s);
            make_shard(f, &plan, s, 5, want);
            make_shard(f, &plan, s, 6, got); /* other values, to be overwritten */
            assert_int_equal(
                checkpoint_read_shard(c, &plan, s, f->update.rule->name, u, got[0], got + 1, NULL),
                0);
            assert_memory_equal(got[0], want[0], plan.shard_elements[s] * sizeof(float));
            for (size_t k = 0; k < update_slot_count(u); k++) {
                assert_memory_equal(got[1 + k], want[1 + k],
                                    update_slot_floats(u, k) * sizeof(float));
            }
            update_free(u);
            free_shard(want);
            free_shard(got);
        }
        plan_release(&plan);
    }
    assert_int_equal(checkpoint_manifest(c)->step, 10);
    checkpoint_close(c);
    free(path);
}

static void export_path(const struct fixture *f, const char *path, struct buf *out)
{
    struct checkpoint *c = NULL;
    open_good(path, &c);
    char *file = file_join(f->dir, "out.safetensors");
    assert_int_equal(checkpoint_export(c, NULL, file, NULL), 0);
    read_whole(f->dir, "out.safetensors", out);
    free(file);
    checkpoint_close(c);
}

static void equal_values_export_to_equal_bytes(void **state)
{
    const struct fixture *f = *state;
    struct buf first = {0};
    for (uint32_t shards = 1; shards <= 5; shards++) {
        char *path = write_checkpoint(f, shards, 100 + shards, 9);
        struct buf again = {0};
        export_path(f, path, shards == 1 ? &first : &again);
        if (shards > 1) {
            assert_int_equal(first.len, again.len);
            assert_memory_equal(first.data, again.data, first.len);
        }
        buf_release(&again);
        free(path);
    }
    char *file = file_join(f->dir, "out.safetensors");
    struct safetensors s;
    assert_int_equal(safetensors_open(&s, file, NULL), 0);
    assert_int_equal(s.count, VARIABLE_COUNT);
    assert_int_equal(s.meta_count, 0);
    for (uint32_t v = 0; v < VARIABLE_COUNT; v++) {
        const struct safetensors_tensor *t = safetensors_find(&s, f->variables[v].name);
        assert_non_null(t);
        assert_int_equal(t->rank, f->variables[v].shape.rank);
        float out[256];
        assert_int_equal(safetensors_read(&s, t, 0, out, (size_t)t->bytes, NULL), 0);
        for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) {
            assert_true(out[i] == element(9, v, 0, i));
        }
    }
    safetensors_close(&s);
    free(file);
    buf_release(&first);
}

static void wrong_requests_are_refused(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 2, 10, 5);
    struct checkpoint *c = NULL;
    struct err err = {0};
    float x[8];
    open_good(path, &c);
    assert_int_equal(checkpoint_read(c, "nothing", NULL, 0, 1, x, &err), ERR_NOT_FOUND);
    assert_message(err, "no variable nothing");
    assert_int_equal(checkpoint_read(c, "dense_1.bias", "z", 0, 1, x, &err), ERR_NOT_FOUND);
    assert_message(err, "no slot z");
    assert_int_equal(checkpoint_read(c, "dense_1.bias", NULL, 0, 8, x, &err), ERR_RANGE);
    assert_int_equal(checkpoint_read(c, "dense_1.bias", NULL, 8, 0, x, &err), ERR_RANGE);
    assert_int_equal(checkpoint_read(c, "dense_1.bias", NULL, UINT64_MAX, UINT64_MAX, x, &err),
                     ERR_RANGE);
    struct variable_spec other = f->variables[1];
    other.shape.dims[0] = 8;
    struct cluster_spec cluster = {.ps = 1, .partitions = 1};
    struct plan plan = {0};
    assert_int_equal(plan_make(&other, 1, &cluster, &plan, NULL), 0);
    assert_int_equal(checkpoint_read_shard(c, &plan, 0, NULL, NULL, x, NULL, &err), ERR_INVALID);
    assert_message(err, "variable dense_1.bias is [7], [8] is wanted");
    assert_int_equal(checkpoint_read_shard(c, &plan, 0, "sgd", NULL, x, NULL, &err), ERR_INVALID);
    assert_message(err, "of rule adam, sgd is wanted");
    plan_release(&plan);
    assert_int_equal(checkpoint_export(c, NULL, "/nonexistent/out", &err), ERR_NOT_FOUND);
    checkpoint_close(c);
    checkpoint_close(NULL);
    free(path);
}

/* Put a sound file of another origin in the place of a shard, with a manifest that agrees with it.
 */
static void check_foreign(const struct fixture *f, const char *path, const struct manifest *good,
                          const char *message)
{
    (void)f;
    struct manifest m = *good;
    struct manifest_shard shards[2] = {good->shards[0], good->shards[1]};
    struct buf file = {0};
    read_whole(path, "shard-1-of-2.safetensors", &file);
    shards[1].bytes = file.len;
    shards[1].checksum = checksum_of(file.data, file.len);
    m.shards = shards;
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    buf_release(&file);
    struct checkpoint *c = NULL;
    struct err err = {0};
    assert_int_equal(checkpoint_open(path, CHECKPOINT_FULL, &c, &err), ERR_CORRUPT);
    assert_message(err, message);
    assert_message(err, path);
    assert_null(c);
}

static void copy_into(const char *from, const char *name, const char *path)
{
    struct buf file = {0};
    read_whole(from, name, &file);
    write_whole(path, "shard-1-of-2.safetensors", file.data, file.len);
    buf_release(&file);
}

static void files_of_another_origin_are_refused(void **state)
{
    struct fixture *f = *state;
    char *path = write_checkpoint(f, 2, 10, 5);
    char *older = write_checkpoint(f, 2, 9, 5);
    char *three = write_checkpoint(f, 3, 8, 5);
    struct manifest good;
    assert_int_equal(manifest_read(path, &good, NULL), 0);
    copy_into(older, "shard-1-of-2.safetensors", path);
    check_foreign(f, path, &good,
                  "shard-1-of-2.safetensors: holds version 9, the manifest names 10");
    copy_into(path, "shard-0-of-2.safetensors", path);
    check_foreign(f, path, &good, "shard-1-of-2.safetensors: holds shard 0 of 2");
    copy_into(three, "shard-1-of-3.safetensors", path);
    check_foreign(f, path, &good, "shard-1-of-2.safetensors: holds shard 1 of 3");
    manifest_release(&good);
    free(path);
    free(older);
    free(three);
}

/* A shard file whose tensors are not those of its plan: missing, doubled, of another shape. */
static void write_tensors(const char *path, const struct safetensors_tensor *tensors, size_t count)
{
    static const struct safetensors_meta meta[] = {
        {"format", "gradus-shard"},
        {"format_version", "1"},
        {"generation", "7"},
        {"job", "t-1"},
        {"ledger",
         "{\"epoch\":0,\"records\":1,\"batch_records\":1,\"split_batches\":1,\"done\":[[0,1]]}"},
        {"rule", "adam"},
        {"shard", "1"},
        {"shards", "2"},
        {"step", "10"},
        {"version", "10"}};
    static const char zeros[4096];
    char *file = file_join(path, "shard-1-of-2.safetensors");
    struct safetensors_writer w;
    assert_int_equal(safetensors_writer_open(&w, file, tensors, count, meta, 10, NULL), 0);
    for (size_t i; safetensors_writer_next(&w, &i);) {
        assert_int_equal(safetensors_writer_add(&w, zeros, (size_t)w.left, NULL), 0);
    }
    assert_int_equal(safetensors_writer_commit(&w, NULL, NULL), 0);
    free(file);
}

static void tensors_that_do_not_fit_are_refused(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 2, 10, 5);
    struct manifest good;
    assert_int_equal(manifest_read(path, &good, NULL), 0);
    static const struct {
        struct safetensors_tensor t;
        const char *message;
    } wrong[] = {
        {{.name = "x"}, "tensor x: not the name of a partition"},
        {{.name = "y[0:1]"}, "tensor y[0:1]: the manifest has no such variable"},
        {{.name = "temperature[0:1]#z"}, "the manifest has no such slot"},
        {{.name = "temperature[0:2]"}, "does not fit the shape"},
        {{.name = "temperature[1:2]"}, "does not fit the shape"},
        {{.name = "temperature[0:1]", .dtype = SAFETENSORS_I32}, "does not fit the shape"},
        {{.name = "dense_1.bias[0:7]", .rank = 1, .dims = {6}}, "does not fit the shape"},
        {{.name = "dense_1.kernel[0:2]", .rank = 2, .dims = {2, 6}}, "does not fit the shape"},
        {{.name = "dense_1.bias[9223372036854775800:9223372036854775807]", .rank = 1, .dims = {7}},
         "does not fit the shape"},
        {{.name = "dense_1.bias[6:7]", .rank = 1, .dims = {1}}, " file"}, /* others are missing */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_tensors(path, &wrong[i].t, 1);
        check_foreign(f, path, &good, wrong[i].message);
    }
    write_tensors(path, NULL, 0);
    check_foreign(f, path, &good, "is in no file");
    manifest_release(&good);
    free(path);
}

static void doubled_tensors_are_refused(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 2, 10, 5);
    struct manifest good;
    assert_int_equal(manifest_read(path, &good, NULL), 0);
    /* All of shard 1, and once more the first tensor of shard 0. */
    struct safetensors zero;
    struct safetensors one;
    char *file_0 = file_join(path, "shard-0-of-2.safetensors");
    char *file_1 = file_join(path, "shard-1-of-2.safetensors");
    assert_int_equal(safetensors_open(&zero, file_0, NULL), 0);
    assert_int_equal(safetensors_open(&one, file_1, NULL), 0);
    struct safetensors_tensor *tensors = mem_new(one.count + 1, sizeof *tensors);
    memcpy(tensors, one.tensors, one.count * sizeof *tensors);
    tensors[one.count] = zero.tensors[0];
    write_tensors(path, tensors, one.count + 1);
    check_foreign(f, path, &good, "is in more than one file");
    free(tensors);
    safetensors_close(&zero);
    safetensors_close(&one);
    free(file_0);
    free(file_1);
    manifest_release(&good);
    free(path);
}

/* Any damage to a shard's file is found by the full check; what the quick check lets pass is found
 * by who reads it. */
static void damaged_files_are_refused(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 10, 5);
    const char *name = "shard-0-of-1.safetensors";
    struct buf file = {0};
    read_whole(path, name, &file);
    for (uint64_t round = 0; round < 1500; round++) {
        size_t at = (size_t)rng_below(rng_key(1, "damage"), round, file.len);
        char flip = (char)(1 << rng_below(rng_key(2, "damage"), round, 8));
        file.data[at] ^= flip;
        write_whole(path, name, file.data, file.len);
        file.data[at] ^= flip;
        struct checkpoint *c = NULL;
        struct err err = {0};
        assert_int_equal(checkpoint_open(path, CHECKPOINT_FULL, &c, &err), ERR_CORRUPT);
        assert_message(err, "shard-0-of-1.safetensors: checksum differs");
        int rc = checkpoint_open(path, CHECKPOINT_QUICK, &c, &err);
        assert_true(rc == 0 || rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED);
        if (rc == 0) {
            float x[91];
            rc = checkpoint_read(c, "dense_1.kernel", "v", 0, 91, x, &err);
            assert_true(rc == 0 || rc == ERR_CORRUPT);
            checkpoint_close(c);
        }
    }
    buf_release(&file);
    free(path);
}

static void tensor_names_are_parsed_from_the_right(void **state)
{
    (void)state;
    struct shard_file_tensor t;
    assert_true(shard_file_tensor_parse("dense_1.kernel[0:392]", &t));
    assert_string_equal(t.variable, "dense_1.kernel");
    assert_int_equal(t.row_first, 0);
    assert_int_equal(t.row_count, 392);
    assert_string_equal(t.slot, "");
    assert_true(shard_file_tensor_parse("a#b[1:2]#c[3:4]#m", &t));
    assert_string_equal(t.variable, "a#b[1:2]#c");
    assert_int_equal(t.row_first, 3);
    assert_int_equal(t.row_count, 1);
    assert_string_equal(t.slot, "m");
    static const char *const bad[] = {
        "",        "a",       "[0:1]",    "a[0:1",    "a0:1]",
        "a[:1]",   "a[0:]",   "a[1:1]",   "a[2:1]",   "a[-1:1]",
        "a[+0:1]", "a[0:1]#", "a[0:1]m",  "a#m",      "#m",
        "a[00:1]", "a[0:1 ]", "a[0:1:2]", "a[x:y]#m", "a[0:99999999999999999999]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (shard_file_tensor_parse(bad[i], &t)) {
            fail_msg("%s was taken", bad[i]);
        }
    }
    char longest[VARIABLE_NAME_BYTES + 8];
    memset(longest, 'v', VARIABLE_NAME_BYTES);
    memcpy(longest + VARIABLE_NAME_BYTES, "[0:1]", 6);
    assert_false(shard_file_tensor_parse(longest, &t));
    assert_true(shard_file_tensor_parse(longest + 1, &t));
    char slot[6 + SHARD_FILE_SLOT_BYTES + 1] = "a[0:1]#"; /* the longest name and one more */
    memset(slot + 7, 's', SHARD_FILE_SLOT_BYTES - 1);
    assert_true(shard_file_tensor_parse(slot, &t));
    assert_string_equal(t.slot, slot + 7);
    char larger[sizeof slot + 1];
    (void)snprintf(larger, sizeof larger, "%ss", slot);
    assert_false(shard_file_tensor_parse(larger, &t));
}

static void files_of_shards_are_checked(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct safetensors_meta meta[10];
        int code;
        const char *message;
    } bad[] = {
        {{{NULL, NULL}}, ERR_CORRUPT, "not the file of a shard"},
        {{{"format", "other"}}, ERR_CORRUPT, "not the file of a shard"},
        {{{"format", "gradus-shard"}, {"format_version", "4"}},
         ERR_UNSUPPORTED,
         "format version 4"},
        {{{"format", "gradus-shard"},
          {"format_version", "2"},
          {"job", "t"},
          {"rule", "sgd"},
          {"ledger",
           "{\"epoch\":0,\"records\":1,\"batch_records\":1,\"split_batches\":1,\"done\":[[0,"
           "1]]}"},
          {"shards", "2"},
          {"shard", "1"},
          {"generation", "1"},
          {"step", "1"},
          {"version", "1"}},
         ERR_CORRUPT,
         "metadata: tables: missing"},
        {{{"format", "gradus-shard"}, {"format_version", "1"}},
         ERR_CORRUPT,
         "metadata: job: missing"},
        {{{"format", "gradus-shard"},
          {"format_version", "1"},
          {"job", "t"},
          {"rule", "sgd"},
          {"ledger", "{}"},
          {"shards", "0"},
          {"shard", "0"}},
         ERR_CORRUPT,
         "metadata: generation: missing"},
        {{{"format", "gradus-shard"},
          {"format_version", "1"},
          {"job", "t"},
          {"rule", "sgd"},
          {"ledger", "{}"},
          {"shards", "2"},
          {"shard", "2"}},
         ERR_CORRUPT,
         "metadata: shard: \"2\" is not a number in range"},
        {{{"format", "gradus-shard"},
          {"format_version", "1"},
          {"job", "t"},
          {"rule", "sgd"},
          {"ledger", "{}"},
          {"shards", "2"},
          {"shard", "1"},
          {"generation", "1"},
          {"step", "1"},
          {"version", "1"}},
         ERR_CORRUPT,
         "metadata: ledger: epoch: missing"},
    };
    char *path = file_join(f->dir, "x.safetensors");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t count = 0;
        while (count < 10 && bad[i].meta[count].key != NULL) {
            count++;
        }
        struct safetensors_writer w;
        struct err err = {0};
        struct shard_file file;
        assert_int_equal(safetensors_writer_open(&w, path, NULL, 0, bad[i].meta, count, NULL), 0);
        assert_int_equal(safetensors_writer_commit(&w, NULL, NULL), 0);
        assert_int_equal(shard_file_open(&file, path, &err), bad[i].code);
        assert_message(err, bad[i].message);
    }
    free(path);
    struct plan plan = {0};
    make_plan(f, 1, &plan);
    struct shard_file_state none = {.job = "t", .plan = &plan, .shard = 1, .rule = "adam"};
    assert_int_equal(shard_file_write("/nonexistent", &none, NULL, NULL), ERR_INVALID);
    plan_release(&plan);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(any_range_can_be_read),
        TEST(it_restores_onto_any_number_of_shards),
        TEST(equal_values_export_to_equal_bytes),
        TEST(wrong_requests_are_refused),
        TEST(files_of_another_origin_are_refused),
        TEST(tensors_that_do_not_fit_are_refused),
        TEST(doubled_tensors_are_refused),
        TEST(damaged_files_are_refused),
        TEST(files_of_shards_are_checked),
        cmocka_unit_test(tensor_names_are_parsed_from_the_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
