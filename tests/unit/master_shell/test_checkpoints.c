/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint directory as the master sees it, with real directories. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"
#include "master/shell/checkpoints.h"
#include "os/file.h"

#define SHARDS 2
#define SHARD_BYTES 4

static char *root;
static struct checkpoints ours = {.owner = "0123456789abcdef0123456789abcdef"};
static struct checkpoints others = {.owner = "fedcba9876543210fedcba9876543210"};

/* Jobs as their rows know them, in that order. */
#define JOB(id) (&(struct checkpoints_job){id, "", 7, NULL})

static int set_up(void **state)
{
    (void)state;
    root = tmp_dir_make("checkpoints");
    ours.root = others.root = root;
    return claim_root_make(root, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    tmp_dir_remove(root);
    return 0;
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

static void claim(const char *job)
{
    struct err err = {0};
    if (claim_make(root, job, ours.owner, 7, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static int find(const char *job, struct checkpoint_found *f, struct err *err)
{
    return checkpoints_find(&ours, JOB(job), NULL, 0, f, err);
}

static void nothing_to_find_is_no_error(void **state)
{
    (void)state;
    struct checkpoint_found f;
    struct err err = {0};
    assert_int_equal(find("demo-1", &f, &err), 0); /* no directory */
    assert_false(f.found);
    assert_non_null(strstr(buf_str(&f.skipped), "demo-1 is missing"));
    checkpoint_found_release(&f);
    claim("demo-1");
    char *dir = in_root("demo-1/step-000000005");
    assert_int_equal(file_make_dirs(dir, NULL), 0);
    assert_int_equal(find("demo-1", &f, &err), 0); /* nothing complete */
    assert_false(f.found);
    assert_null(f.path);
    assert_non_null(strstr(buf_str(&f.skipped), "step-000000005"));
    checkpoint_found_release(&f);
    assert_int_equal(err.code, 0);
    free(dir);
}

static void the_newest_complete_one_is_found(void **state)
{
    (void)state;
    static const uint64_t old[SHARDS] = {7, 7}, new[SHARDS] = {19, 19};
    claim("demo-1");
    claim("demo-10");
    make_checkpoint("demo-1", "demo-1", 5, old, true);
    make_checkpoint("demo-1", "demo-1", 10, new, true);
    make_checkpoint("demo-10", "demo-10", 30, new, true); /* another job's */
    struct checkpoint_found f;
    assert_int_equal(find("demo-1", &f, NULL), 0);
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
    const char *const avoid[] = {"demo-1/step-000000010"};
    assert_int_equal(checkpoints_find(&ours, JOB("demo-1"), avoid, 1, &f, NULL), 0);
    assert_int_equal(f.step, 5);
    assert_non_null(strstr(buf_str(&f.skipped), "step-000000010: could not be read"));
    checkpoint_found_release(&f);
    make_file(path, "shard-1-of-2.safetensors", SHARD_BYTES - 1); /* cut */
    assert_int_equal(find("demo-1", &f, NULL), 0);
    assert_true(f.found);
    assert_int_equal(f.step, 5);
    assert_int_equal(f.version, 7);
    assert_non_null(strstr(buf_str(&f.skipped), "step-000000010"));
    checkpoint_found_release(&f);
    free(path);
}

/* The older one at step 5 is found in the place of what is wrong at step 9. */
static void assert_passed_over(const char *job, const char *word)
{
    static const uint64_t equal[SHARDS] = {7, 7};
    make_checkpoint(job, job, 5, equal, true);
    struct checkpoint_found f;
    struct err err = {0};
    assert_int_equal(find(job, &f, &err), 0);
    assert_true(f.found);
    assert_int_equal(f.step, 5);
    assert_non_null(strstr(buf_str(&f.skipped), word));
    checkpoint_found_release(&f);
}

static void one_that_cannot_be_gone_on_from_is_passed_over(void **state)
{
    (void)state;
    static const uint64_t equal[SHARDS] = {7, 7}, different[SHARDS] = {7, 8};
    claim("demo-1");
    make_checkpoint("demo-1", "demo-1", 9, different, true);
    assert_passed_over("demo-1", "shard 0 is at version 7, shard 1 at 8");
    claim("demo-2");
    make_checkpoint("demo-2", "demo-3", 9, equal, true);
    assert_passed_over("demo-2", "of job demo-3");
    claim("demo-4");
    make_checkpoint("demo-4", "demo-4", 9, equal, false);
    assert_passed_over("demo-4", "where in the data");
}

/* Whether a checkpoint is complete cannot be said while its files cannot be read: an older one in
 * its place would be progress thrown away. */
static void what_cannot_be_read_now_is_not_passed_over(void **state)
{
    (void)state;
    static const uint64_t equal[SHARDS] = {7, 7};
    claim("demo-1");
    make_checkpoint("demo-1", "demo-1", 5, equal, true);
    make_checkpoint("demo-1", "demo-1", 9, equal, true);
    static const char *const names[] = {"shard-1-of-2.safetensors", MANIFEST_NAME};
    for (size_t i = 0; i < 2; i++) {
        char *dir = in_root("demo-1/step-000000009");
        char *path = file_join(dir, names[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(symlink(names[i], path), 0); /* to itself: ELOOP */
        struct checkpoint_found f;
        struct err err = {0};
        assert_true(find("demo-1", &f, &err) < 0);
        assert_false(f.found);
        assert_non_null(strstr(err.msg, "symbolic links"));
        checkpoint_found_release(&f);
        assert_true(checkpoints_prune(&ours, JOB("demo-1"), 1, &err) < 0);
        free(path);
        free(dir);
    }
    char *first = in_root("demo-1/step-000000005");
    assert_true(file_exists(first));
    free(first);
}

static void a_prepared_directory_is_empty(void **state)
{
    (void)state;
    static const uint64_t versions[SHARDS] = {7, 7};
    struct err err = {0};
    claim("demo-1");
    make_checkpoint("demo-1", "demo-1", 5, versions, true);
    assert_int_equal(checkpoints_prepare(&ours, JOB("demo-1"), "demo-1/step-000000005", &err), 0);
    char *dir = in_root("demo-1/step-000000005");
    assert_int_equal(rmdir(dir), 0); /* only an empty one can be */
    free(dir);
    /* That of a job of before owners were noted is made. */
    assert_int_equal(checkpoints_prepare(&ours, JOB("other-2"), "other-2/step-1234567890", &err),
                     0);
    dir = in_root("other-2/step-1234567890");
    assert_true(file_exists(dir));
    assert_int_equal(claim_check(root, "other-2", ours.owner, NULL, &err), 0);
    make_file(dir, "part", 8);
    assert_int_equal(checkpoints_discard(&ours, JOB("other-2"), "other-2/step-1234567890", &err),
                     0);
    assert_false(file_exists(dir));
    assert_int_equal(checkpoints_discard(&ours, JOB("other-2"), "other-2/step-1234567890", &err),
                     0);
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
                                      "demo-2/step-000000005",
                                      "demo-1/../../step-000000005"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(checkpoints_prepare(&ours, JOB("demo-1"), bad[i], &err), ERR_INVALID);
    }
    make_file(root, "blocked-1", 1); /* a file where the job's directory must be */
    err.code = 0;
    assert_true(checkpoints_prepare(&ours, JOB("blocked-1"), "blocked-1/step-000000005", &err) < 0);
    assert_non_null(strstr(err.msg, "blocked-1"));
}

static void nothing_is_done_in_the_directory_of_another(void **state)
{
    (void)state;
    static const uint64_t versions[SHARDS] = {7, 7};
    struct err err = {0};
    claim("demo-1");
    make_checkpoint("demo-1", "demo-1", 5, versions, true);
    make_checkpoint("demo-1", "demo-1", 9, versions, true);
    struct checkpoint_found f;
    assert_int_equal(checkpoints_find(&others, JOB("demo-1"), NULL, 0, &f, &err), ERR_PERMISSION);
    assert_false(f.found);
    assert_non_null(strstr(err.msg, "belongs to another master"));
    checkpoint_found_release(&f);
    assert_int_equal(checkpoints_prepare(&others, JOB("demo-1"), "demo-1/step-000000009", &err),
                     ERR_PERMISSION);
    assert_int_equal(checkpoints_discard(&others, JOB("demo-1"), "demo-1/step-000000009", &err),
                     ERR_PERMISSION);
    assert_int_equal(checkpoints_prune(&others, JOB("demo-1"), 1, &err), ERR_PERMISSION);
    assert_int_equal(checkpoints_remove(&others, JOB("demo-1"), &err), ERR_PERMISSION);
    checkpoints_release(&others, "demo-1");
    assert_int_equal(find("demo-1", &f, &err), 0);
    assert_int_equal(f.step, 9);
    checkpoint_found_release(&f);
    char *first = in_root("demo-1/step-000000005");
    assert_true(file_exists(first));
    assert_int_equal(checkpoints_prune(&ours, JOB("demo-1"), 1, &err), 0);
    assert_false(file_exists(first));
    assert_int_equal(checkpoints_remove(&ours, JOB("demo-1"), &err), 0);
    char *dir = in_root("demo-1");
    assert_false(file_exists(dir));
    assert_int_equal(checkpoints_remove(&ours, JOB("demo-1"), &err), 0); /* it is gone already */
    free(dir);
    free(first);
}

/* Of before owners were noted: it is ours when our row names a checkpoint in it. */
static void an_old_directory_becomes_ours(void **state)
{
    (void)state;
    static const uint64_t versions[SHARDS] = {7, 7};
    struct err err = {0};
    make_checkpoint("demo-1", "demo-1", 5, versions, true);
    struct checkpoint_found f;
    assert_int_equal(find("demo-1", &f, &err), ERR_STATE);
    assert_non_null(strstr(err.msg, "was not made for this job"));
    checkpoint_found_release(&f);
    struct checkpoints_job job = {"demo-1", "/elsewhere/demo-1/step-000000006", 7, NULL};
    assert_int_equal(checkpoints_find(&ours, &job, NULL, 0, &f, &err), ERR_STATE);
    checkpoint_found_release(&f);
    job.named = "/elsewhere/demo-1/step-000000005";
    assert_int_equal(checkpoints_find(&ours, &job, NULL, 0, &f, &err), 0);
    assert_true(f.found);
    checkpoint_found_release(&f);
    assert_int_equal(checkpoints_find(&others, &job, NULL, 0, &f, &err), ERR_PERMISSION);
    checkpoint_found_release(&f);
}

static void without_its_mark_the_root_is_not_mounted(void **state)
{
    (void)state;
    struct err err = {0};
    char *mark = in_root(CLAIM_ROOT_MARK);
    uint64_t number = 0;
    claim("demo-1");
    assert_int_equal(unlink(mark), 0);
    struct checkpoint_found f;
    assert_int_equal(find("demo-1", &f, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "is its disk mounted?"));
    checkpoint_found_release(&f);
    assert_int_equal(checkpoints_prepare(&ours, JOB("demo-1"), "demo-1/step-000000009", &err),
                     ERR_UNAVAILABLE);
    assert_int_equal(checkpoints_claim(&ours, "demo", 1, 7, &number, &err), ERR_UNAVAILABLE);
    assert_int_equal(claim_root_make(root, &err), 0);
    assert_int_equal(checkpoints_claim(&ours, "demo", 1, 7, &number, &err), 0);
    assert_int_equal(number, 2);
    free(mark);
}

static void numbers_go_on_behind_what_is_there(void **state)
{
    (void)state;
    static const char *const dirs[] = {
        "demo-3",  "demo-12", "demo-x",      "demo",     "demo-",    "dem-99",
        "demo-07", "demo-5a", "demo-big-40", "xdemo-50", "demo-1-2", "demo-99999999999999999999"};
    uint64_t number = 0;
    assert_int_equal(checkpoints_claim(&ours, "demo", 1, 7, &number, NULL), 0);
    assert_int_equal(number, 1);
    checkpoints_release(&ours, "demo-1"); /* nothing is in it */
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        char *dir = in_root(dirs[i]);
        assert_int_equal(file_make_dirs(dir, NULL), 0);
        free(dir);
    }
    assert_int_equal(checkpoints_claim(&ours, "demo", 1, 7, &number, NULL), 0);
    assert_int_equal(number, 13);
    assert_int_equal(checkpoints_claim(&others, "demo", 5, 7, &number, NULL), 0);
    assert_int_equal(number, 14);
    assert_int_equal(checkpoints_claim(&ours, "demo", 20, 7, &number, NULL), 0);
    assert_int_equal(number, 20);
    assert_int_equal(checkpoints_claim(&ours, "demo-big", 1, 7, &number, NULL), 0);
    assert_int_equal(number, 41);
    assert_int_equal(checkpoints_claim(&ours, "none", 1, 7, &number, NULL), 0);
    assert_int_equal(number, 1);
}

/* Each number goes to one of them. */
static void *claim_many(void *ctx)
{
    for (int i = 0; i < 50; i++) {
        uint64_t number = 0;
        if (checkpoints_claim(ctx, "race", 1, 7, &number, NULL) != 0) {
            return ctx;
        }
    }
    return NULL;
}

static void masters_that_submit_at_once_get_different_numbers(void **state)
{
    (void)state;
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, claim_many, &ours), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, claim_many, &others), 0);
    size_t mine = 0;
    for (size_t i = 0; i < 2; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    for (size_t i = 1; i <= 100; i++) {
        char job[32];
        (void)snprintf(job, sizeof job, "race-%zu", i);
        bool is_mine = claim_check(root, job, ours.owner, NULL, NULL) == 0;
        assert_true(is_mine || claim_check(root, job, others.owner, NULL, NULL) == 0);
        mine += is_mine;
    }
    assert_int_equal(mine, 50);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_to_find_is_no_error),
        TEST(the_newest_complete_one_is_found),
        TEST(one_that_cannot_be_gone_on_from_is_passed_over),
        TEST(what_cannot_be_read_now_is_not_passed_over),
        TEST(a_prepared_directory_is_empty),
        TEST(nothing_is_done_in_the_directory_of_another),
        TEST(an_old_directory_becomes_ours),
        TEST(without_its_mark_the_root_is_not_mounted),
        TEST(masters_that_submit_at_once_get_different_numbers),
        TEST(numbers_go_on_behind_what_is_there),
    };
    return cmocka_run_group_tests_name("checkpoints", tests, NULL, NULL);
}
