/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of checkpoints: the newest complete one, interrupted ones, and those that go. */
#include "checkpoint_rig.h"

#include "checkpoint/claim.h"

#include <signal.h>
#include <sys/resource.h>

static bool has(const struct fixture *f, const char *name)
{
    char *path = file_join(f->dir, name);
    bool there = file_exists(path);
    free(path);
    return there;
}

static void expect_latest(const struct fixture *f, const char *name)
{
    char *path = NULL;
    assert_int_equal(checkpoint_latest(f->dir, &path, NULL, NULL), 0);
    assert_string_equal(strrchr(path, '/') + 1, name);
    free(path);
}

static void the_newest_complete_one_is_found(void **state)
{
    const struct fixture *f = *state;
    char *path = NULL;
    struct err err = {0};
    assert_int_equal(checkpoint_latest(f->dir, &path, NULL, &err), ERR_NOT_FOUND);
    assert_message(err, "no checkpoint in");
    assert_int_equal(checkpoint_latest("/nonexistent", &path, NULL, NULL), ERR_NOT_FOUND);
    free(write_checkpoint(f, 2, 500, 1));
    free(write_checkpoint(f, 1, 1000, 1));
    free(write_checkpoint(f, 1, 999, 1));
    expect_latest(f, "step-000001000");
    free(write_checkpoint(f, 1, 12345678901, 1)); /* wider than the padding */
    expect_latest(f, "step-12345678901");
}

static void incomplete_ones_are_passed_over(void **state)
{
    const struct fixture *f = *state;
    free(write_checkpoint(f, 2, 1, 1));
    /* 2: no manifest yet, only a shard; 3: a shard is missing; 4: cut; 5: garbage for a manifest.
     */
    struct plan plan = {0};
    struct manifest_shard written;
    make_plan(f, 2, &plan);
    char *path = NULL;
    assert_int_equal(checkpoint_begin(f->dir, 2, &path, NULL), 0);
    write_shard(f, path, &plan, 0, 2, 1, &written);
    plan_release(&plan);
    free(path);
    for (uint64_t step = 3; step <= 5; step++) {
        path = write_checkpoint(f, 2, step, 1);
        char *shard = file_join(path, "shard-1-of-2.safetensors");
        if (step == 3) {
            assert_int_equal(unlink(shard), 0);
        } else if (step == 4) {
            assert_int_equal(truncate(shard, 100), 0);
        } else {
            write_whole(path, MANIFEST_NAME, "{}\n", 3);
        }
        free(shard);
        free(path);
    }
    write_whole(f->dir, "step-x", "", 0);
    write_whole(f->dir, "step-", "", 0);
    write_whole(f->dir, "step-000000009", "", 0); /* a file, not a directory */
    struct buf skipped = {0};
    assert_int_equal(checkpoint_latest(f->dir, &path, &skipped, NULL), 0);
    assert_string_equal(strrchr(path, '/') + 1, "step-000000001");
    static const char *const why[] = {"step-000000002", "shard-1-of-2.safetensors: missing",
                                      "shard-1-of-2.safetensors: size differs", "no manifest"};
    for (size_t i = 0; i < 4; i++) {
        assert_non_null(strstr(buf_str(&skipped), why[i]));
    }
    buf_release(&skipped);
    free(path);
    /* When none is left, the message says what is wrong with the newest. */
    char *only = checkpoint_step_path(f->dir, 1);
    char *manifest = file_join(only, MANIFEST_NAME);
    char *file = checkpoint_step_path(f->dir, 9);
    struct err err = {0};
    assert_int_equal(unlink(manifest), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(checkpoint_latest(f->dir, &path, NULL, &err), ERR_NOT_FOUND);
    assert_message(err, "no complete checkpoint in");
    assert_message(err, "step-000000005: manifest.json: ");
    free(only);
    free(manifest);
    free(file);
}

/* A writer that stops at any point leaves nothing that is taken for a checkpoint. */
static void an_interrupted_write_leaves_no_manifest(void **state)
{
    const struct fixture *f = *state;
    char *path = NULL;
    assert_int_equal(checkpoint_begin(f->dir, 7, &path, NULL), 0);
    char *file = file_join(path, "shard-0-of-1.safetensors");
    const struct safetensors_tensor t = {.name = "a", .rank = 1, .dims = {1000}};
    struct safetensors_writer w;
    const float part[10] = {0};
    assert_int_equal(safetensors_writer_open(&w, file, &t, 1, NULL, 0, NULL), 0);
    assert_int_equal(safetensors_writer_add(&w, part, sizeof part, NULL), 0);
    assert_false(file_exists(file));
    safetensors_writer_abort(&w);
    assert_false(file_exists(file));
    assert_int_equal(rmdir(path), 0); /* nothing is left in it, no temporary file either */
    free(file);
    free(path);
}

/* A disk that is full after 2000 bytes, as far as this process can tell. */
static void a_full_disk_leaves_nothing(void **state)
{
    const struct fixture *f = *state;
    struct rlimit before;
    struct rlimit limit;
    char *path = NULL;
    assert_int_equal(checkpoint_begin(f->dir, 7, &path, NULL), 0);
    char *file = file_join(path, "shard-0-of-1.safetensors");
    struct plan plan = {0};
    make_plan(f, 1, &plan);
    float *buffers[1 + UPDATE_SLOTS_MAX] = {NULL};
    struct update *u = make_update(f, &plan, 0);
    make_shard(f, &plan, 0, 1, buffers);
    struct shard_file_state shard = {.job = "t-1",
                                     .plan = &plan,
                                     .rule = f->update.rule->name,
                                     .update = u,
                                     .ledger = &f->ledger,
                                     .values = buffers[0],
                                     .slots = buffers + 1};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 2000;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct err err = {0};
    struct safetensors_written written = {77, 77};
    int rc = shard_file_write(file, &shard, &written, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(rc < 0);
    assert_message(err, file);
    assert_int_equal(written.bytes, 77);
    assert_int_equal(rmdir(path), 0);
    free_shard(buffers);
    update_free(u);
    plan_release(&plan);
    free(file);
    free(path);
}

/* Beginning a step anew takes the old manifest away first. */
static void a_step_can_be_written_again(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 4, 5, 1);
    assert_int_equal(checkpoint_begin(f->dir, 5, NULL, NULL), 0);
    assert_int_equal(rmdir(path), 0);
    free(path);
    path = write_checkpoint(f, 2, 5, 2);
    struct checkpoint *c = NULL;
    float x;
    assert_int_equal(checkpoint_open(path, CHECKPOINT_FULL, &c, NULL), 0);
    assert_int_equal(checkpoint_read(c, "temperature", NULL, 0, 1, &x, NULL), 0);
    assert_true(x == element(2, 3, 0, 0));
    checkpoint_close(c);
    free(path);
}

static void a_path_resolves_to_a_checkpoint(void **state)
{
    const struct fixture *f = *state;
    char *first = write_checkpoint(f, 1, 1, 1);
    char *second = write_checkpoint(f, 1, 2, 1);
    char *path = NULL;
    assert_int_equal(checkpoint_resolve(first, &path, NULL, NULL), 0);
    assert_string_equal(path, first);
    free(path);
    assert_int_equal(checkpoint_resolve(f->dir, &path, NULL, NULL), 0);
    assert_string_equal(path, second);
    free(path);
    assert_int_equal(checkpoint_resolve("/nonexistent", &path, NULL, NULL), ERR_NOT_FOUND);
    free(first);
    free(second);
}

static void old_ones_go(void **state)
{
    const struct fixture *f = *state;
    for (uint64_t step = 1; step <= 6; step++) {
        free(write_checkpoint(f, 1, step, 1));
    }
    assert_int_equal(checkpoint_begin(f->dir, 7, NULL, NULL), 0); /* in the making */
    char *broken = checkpoint_step_path(f->dir, 5);
    write_whole(broken, MANIFEST_NAME, "x", 1);
    free(broken);
    write_whole(f->dir, "notes", "n", 1);
    assert_int_equal(checkpoint_prune(f->dir, 0, NULL, 0, NULL), 0);
    assert_true(has(f, "step-000000001"));
    assert_int_equal(checkpoint_prune(f->dir, 2, NULL, 0, NULL), 0);
    static const bool want[8] = {false, false, false, false, true, false, true, true};
    for (size_t step = 1; step <= 7; step++) {
        char name[32];
        (void)snprintf(name, sizeof name, "step-%09zu", step);
        assert_int_equal(has(f, name), want[step]);
    }
    assert_true(has(f, "notes"));
    expect_latest(f, "step-000000006");
    assert_int_equal(checkpoint_prune("/nonexistent", 1, NULL, 0, NULL), 0);
}

static void rewrite(const struct fixture *f, uint64_t step, uint64_t generation, const char *owner)
{
    char *path = checkpoint_step_path(f->dir, step);
    struct manifest m;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    m.generation = generation;
    free(m.owner);
    m.owner = mem_strdup(owner);
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    free(path);
}

/* A job that went back from 30 to 10 and has come to 20 again. */
static void expect_history(const struct fixture *f, const char *const *names, size_t wanted)
{
    char **paths = NULL;
    size_t count = 0;
    assert_int_equal(checkpoint_history(f->dir, &paths, &count, NULL), 0);
    assert_int_equal(count, wanted);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(strrchr(paths[i], '/') + 1, names[i]);
        free(paths[i]);
    }
    free(paths);
}

static void the_order_is_that_of_their_making(void **state)
{
    const struct fixture *f = *state;
    for (uint64_t step = 10; step <= 40; step += 10) {
        free(write_checkpoint(f, 1, step, 1));
        rewrite(f, step, step == 20 ? 9 : 3, "");
    }
    expect_latest(f, "step-000000020");
    expect_history(f, (const char *const[]){"step-000000010", "step-000000020"}, 2);
    assert_int_equal(
        checkpoint_prune(f->dir, 2, (const char *const[]){"somewhere/step-000000010"}, 1, NULL), 0);
    static const bool want[5] = {false, true, true, false, true};
    for (size_t i = 1; i < 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "step-%09zu", i * 10);
        assert_int_equal(has(f, name), want[i]);
    }
}

static void what_is_of_another_owner_is_left_alone(void **state)
{
    const struct fixture *f = *state;
    static const char ours[] = "00000000000000000000000000000001",
                      other[] = "00000000000000000000000000000002";
    for (uint64_t step = 1; step <= 3; step++) {
        free(write_checkpoint(f, 1, step, 1));
        rewrite(f, step, 1, step == 3 ? other : ours);
    }
    expect_latest(f, "step-000000003"); /* nobody knows whose the directory is */
    char *text = mem_printf("gradus-owner 1\n%s\n", ours);
    write_whole(f->dir, CLAIM_NAME, text, strlen(text));
    free(text);
    expect_latest(f, "step-000000002");
    assert_int_equal(checkpoint_prune(f->dir, 1, NULL, 0, NULL), 0);
    assert_false(has(f, "step-000000001"));
    assert_true(has(f, "step-000000002") && has(f, "step-000000003"));
}

/* Changes a byte of the values of a file, and nothing else. */
static void flip(const struct fixture *f, const char *step)
{
    char *path = file_join(f->dir, step);
    struct buf file = {0};
    read_whole(path, "shard-1-of-2.safetensors", &file);
    file.data[file.len - 1] ^= 1;
    write_whole(path, "shard-1-of-2.safetensors", file.data, file.len);
    buf_release(&file);
    free(path);
}

static void the_newest_whole_one_is_found(void **state)
{
    const struct fixture *f = *state;
    char *path = NULL;
    struct err err = {0};
    assert_int_equal(checkpoint_find_whole(f->dir, &path, &err), ERR_NOT_FOUND);
    free(write_checkpoint(f, 2, 10, 1));
    free(write_checkpoint(f, 2, 20, 1));
    free(write_checkpoint(f, 2, 30, 1));
    assert_int_equal(checkpoint_find_whole(f->dir, &path, &err), 0);
    assert_string_equal(strrchr(path, '/') + 1, "step-000000030");
    free(path);
    flip(f, "step-000000030");
    flip(f, "step-000000010");
    assert_int_equal(checkpoint_find_whole(f->dir, &path, &err), 0);
    assert_string_equal(strrchr(path, '/') + 1, "step-000000020");
    free(path);
    flip(f, "step-000000020");
    assert_int_equal(checkpoint_find_whole(f->dir, &path, &err), ERR_CORRUPT);
    assert_message(err, "step-000000030"); /* the newest */
    assert_message(err, "shard-1-of-2.safetensors");
    flip(f, "step-000000030"); /* it is put back */
    assert_int_equal(checkpoint_find_whole(f->dir, &path, &err), 0);
    assert_string_equal(strrchr(path, '/') + 1, "step-000000030");
    free(path);
}

static void nothing_complete_means_nothing_goes(void **state)
{
    const struct fixture *f = *state;
    assert_int_equal(checkpoint_begin(f->dir, 1, NULL, NULL), 0);
    assert_int_equal(checkpoint_begin(f->dir, 2, NULL, NULL), 0);
    assert_int_equal(checkpoint_prune(f->dir, 1, NULL, 0, NULL), 0);
    assert_true(has(f, "step-000000001") && has(f, "step-000000002"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_newest_complete_one_is_found),
        TEST(incomplete_ones_are_passed_over),
        TEST(an_interrupted_write_leaves_no_manifest),
        TEST(a_full_disk_leaves_nothing),
        TEST(a_step_can_be_written_again),
        TEST(a_path_resolves_to_a_checkpoint),
        TEST(old_ones_go),
        TEST(the_order_is_that_of_their_making),
        TEST(what_is_of_another_owner_is_left_alone),
        TEST(the_newest_whole_one_is_found),
        TEST(nothing_complete_means_nothing_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
