/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint directory as the master sees it, with real directories. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"
#include "master/checkpoints.h"

#define SHARDS 2
#define SHARD_BYTES 4

static char root[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/gradus-checkpoints-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return file_remove_tree(root, NULL);
}

static char *in_root(const char *name)
{
    return file_join(root, name);
}

static void make_file(const char *dir, const char *name, size_t bytes)
{
    char *path = file_join(dir, name);
    assert_int_equal(file_write_atomic(path, "12345678", bytes, NULL), 0);
    free(path);
}

/* A checkpoint of @job in the directory of @dir_job, shard i at version versions[i]. */
static void make_checkpoint(const char *dir_job, const char *job, uint64_t step,
                            const uint64_t versions[SHARDS], bool with_ledger)
{
    char *job_dir = in_root(dir_job), *dir = NULL;
    assert_int_equal(checkpoint_begin(job_dir, step, &dir, NULL), 0);
    struct variable_spec variable = {.name = "w", .shape = {1, {8}}};
    struct cluster_spec cluster = {.ps = SHARDS, .partitions = SHARDS};
    struct plan plan = {0};
    assert_int_equal(plan_make(&variable, 1, &cluster, &plan, NULL), 0);
    struct manifest m;
    manifest_init(&m, job, "name: demo\n", TRAINING_ASYNC,
                  &(struct update_spec){.rule = rule_find("sgd")}, &plan);
    m.step = step;
    if (with_ledger) {
        const struct ledger_shape shape = {.records = 100, .batch_records = 10, .split_batches = 4};
        assert_int_equal(ledger_init(&m.ledger, &shape, 2, NULL), 0);
        m.ledger.done[1] = 3;
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "shard-%u-of-%u.safetensors", i, SHARDS);
        make_file(dir, name, SHARD_BYTES);
        m.shards[i] = (struct manifest_shard){.version = versions[i], .bytes = SHARD_BYTES};
    }
    struct err err = {0};
    if (manifest_write(dir, &m, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    manifest_release(&m);
    plan_release(&plan);
    free(dir);
    free(job_dir);
}

static void nothing_to_find_is_no_error(void **state)
{
    (void)state;
    struct checkpoint_found f;
    struct err err = {0};
    assert_int_equal(checkpoints_find(root, "demo-1", &f, &err), 0); /* no directory */
    assert_false(f.found);
    checkpoint_found_release(&f);
    char *dir = in_root("demo-1/step-000000005");
    assert_int_equal(file_make_dirs(dir, NULL), 0);
    assert_int_equal(checkpoints_find(root, "demo-1", &f, &err), 0); /* nothing complete */
    assert_false(f.found);
    assert_null(f.path);
    checkpoint_found_release(&f);
    assert_int_equal(err.code, 0);
    free(dir);
}

static void the_newest_complete_one_is_found(void **state)
{
    (void)state;
    static const uint64_t old[SHARDS] = {7, 7}, new[SHARDS] = {19, 19};
    make_checkpoint("demo-1", "demo-1", 5, old, true);
    make_checkpoint("demo-1", "demo-1", 10, new, true);
    make_checkpoint("demo-10", "demo-10", 30, new, true); /* another job's */
    struct checkpoint_found f;
    assert_int_equal(checkpoints_find(root, "demo-1", &f, NULL), 0);
    assert_true(f.found);
    assert_string_equal(f.directory, "demo-1/step-000000010");
    char *path = in_root("demo-1/step-000000010");
    assert_string_equal(f.path, path);
    assert_int_equal(f.step, 10);
    assert_int_equal(f.version, 19);
    assert_int_equal(f.ledger.epoch, 2);
    assert_int_equal(f.ledger.split_count, 3);
    assert_int_equal(f.ledger.done[1], 3);
    assert_int_equal(f.skipped.len, 0);
    checkpoint_found_release(&f);
    make_file(path, "shard-1-of-2.safetensors", SHARD_BYTES - 1); /* cut */
    assert_int_equal(checkpoints_find(root, "demo-1", &f, NULL), 0);
    assert_true(f.found);
    assert_int_equal(f.step, 5);
    assert_int_equal(f.version, 7);
    assert_non_null(strstr(buf_str(&f.skipped), "step-000000010"));
    checkpoint_found_release(&f);
    free(path);
}

static void assert_corrupt(const char *job, const char *word)
{
    struct checkpoint_found f;
    struct err err = {0};
    assert_int_equal(checkpoints_find(root, job, &f, &err), ERR_CORRUPT);
    assert_int_equal(err.code, ERR_CORRUPT);
    assert_non_null(strstr(err.msg, word));
    assert_non_null(strstr(err.msg, job));
    assert_false(f.found);
    checkpoint_found_release(&f);
}

static void one_that_cannot_be_gone_on_from_is_refused(void **state)
{
    (void)state;
    static const uint64_t equal[SHARDS] = {7, 7}, different[SHARDS] = {7, 8};
    make_checkpoint("demo-1", "demo-1", 5, different, true);
    assert_corrupt("demo-1", "shard 0 is at version 7, shard 1 at 8");
    make_checkpoint("demo-2", "demo-3", 5, equal, true);
    assert_corrupt("demo-2", "of job demo-3");
    make_checkpoint("demo-4", "demo-4", 5, equal, false);
    assert_corrupt("demo-4", "where in the data");
}

static void a_prepared_directory_is_empty(void **state)
{
    (void)state;
    static const uint64_t versions[SHARDS] = {7, 7};
    struct err err = {0};
    make_checkpoint("demo-1", "demo-1", 5, versions, true);
    assert_int_equal(checkpoints_prepare(root, "demo-1/step-000000005", &err), 0);
    char *dir = in_root("demo-1/step-000000005");
    assert_int_equal(rmdir(dir), 0); /* only an empty one can be */
    free(dir);
    assert_int_equal(checkpoints_prepare(root, "other-2/step-1234567890", &err), 0); /* long */
    dir = in_root("other-2/step-1234567890");
    assert_true(file_exists(dir));
    free(dir);
    static const char *const bad[] = {"",
                                      "demo-1",
                                      "/step-000000005",
                                      "demo-1/step-5",
                                      "demo-1/step-",
                                      "demo-1/x-1",
                                      "demo-1/step--01",
                                      "../step-00000005",
                                      "../step-000000005",
                                      "demo-1/../../step-000000005"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(checkpoints_prepare(root, bad[i], &err), ERR_INVALID);
    }
    make_file(root, "blocked-1", 1); /* a file where the job's directory must be */
    err.code = 0;
    assert_true(checkpoints_prepare(root, "blocked-1/step-000000005", &err) < 0);
    assert_non_null(strstr(err.msg, "blocked-1"));
}

static void numbers_go_on_behind_what_is_there(void **state)
{
    (void)state;
    static const char *const dirs[] = {
        "demo-3",  "demo-12", "demo-x",      "demo",     "demo-",    "dem-99",
        "demo-07", "demo-5a", "demo-big-40", "xdemo-50", "demo-1-2", "demo-99999999999999999999"};
    uint64_t number = 0;
    assert_int_equal(checkpoints_next_number(root, "demo", &number, NULL), 0);
    assert_int_equal(number, 1);
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        char *dir = in_root(dirs[i]);
        assert_int_equal(file_make_dirs(dir, NULL), 0);
        free(dir);
    }
    assert_int_equal(checkpoints_next_number(root, "demo", &number, NULL), 0);
    assert_int_equal(number, 13);
    assert_int_equal(checkpoints_next_number(root, "demo-big", &number, NULL), 0);
    assert_int_equal(number, 41);
    assert_int_equal(checkpoints_next_number(root, "none", &number, NULL), 0);
    assert_int_equal(number, 1);
    struct err err = {0};
    char *missing = in_root("missing");
    assert_int_equal(checkpoints_next_number(missing, "demo", &number, &err), ERR_NOT_FOUND);
    assert_int_equal(number, 1);
    assert_non_null(strstr(err.msg, missing));
    free(missing);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_to_find_is_no_error),
        TEST(the_newest_complete_one_is_found),
        TEST(one_that_cannot_be_gone_on_from_is_refused),
        TEST(a_prepared_directory_is_empty),
        TEST(numbers_go_on_behind_what_is_there),
    };
    return cmocka_run_group_tests_name("checkpoints", tests, NULL, NULL);
}
