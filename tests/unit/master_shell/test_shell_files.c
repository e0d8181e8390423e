/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that the master\'s shell keeps: what is on the disk is compared with what the core
 * hears of it. */
#include "shell_files_rig.h"

static bool is_there(const char *name)
{
    char *path = file_join(files_root, name);
    bool there = file_exists(path);
    free(path);
    return there;
}

static void put_shard(const char *directory, unsigned shard, uint64_t generation, size_t bytes)
{
    char *path = mem_printf("%s/%s/shard-%u-of-%u-g%u.safetensors", files_root, directory, shard,
                            SHARDS, (unsigned)generation);
    assert_int_equal(file_write_atomic(path, "12345678", bytes, NULL), 0);
    free(path);
}

static void directories_are_prepared_and_discarded(void **state)
{
    (void)state;
    files_prepare(11, "demo-1/step-000000005", false);
    assert_int_equal(heard.code, 0);
    assert_true(is_there("demo-1/step-000000005"));
    put_shard("demo-1/step-000000005", 0, 3, 8);
    files_prepare(12, "demo-1/step-000000005", false); /* what was there goes */
    assert_int_equal(heard.code, 0);
    assert_false(is_there("demo-1/step-000000005/shard-0-of-2-g3.safetensors"));
    files_prepare(13, "demo-1/step-000000005", true);
    assert_int_equal(heard.code, 0);
    assert_false(is_there("demo-1/step-000000005"));
    files_prepare(14, "demo-1/elsewhere", false);
    assert_int_equal(heard.code, ERR_INVALID);
    (void)memset(files_shell.checkpoints.owner, 'f', 32); /* another master */
    files_prepare(15, "demo-1/step-000000006", false);
    assert_int_equal(heard.code, ERR_PERMISSION);
    assert_false(is_there("demo-1/step-000000006"));
}

static struct master_shard_file shard_files[SHARDS];

static void write_manifest(uint64_t number, uint64_t step, const char *directory)
{
    static const double sums[] = {1.5, 2.5};
    const struct master_manifest in = {.number = number,
                                       .job = &files_record,
                                       .spec = &files_spec,
                                       .plan = &files_plan,
                                       .ledger = &files_ledger,
                                       .train_epoch = 21,
                                       .train_sums = sums,
                                       .train_sum_count = 2,
                                       .step = step,
                                       .examples = 22,
                                       .generation = 23,
                                       .directory = directory,
                                       .shards = shard_files};
    size_t before = heard.count;
    shell_manifest(&files_shell, &in);
    files_wait_events(before + 1);
    assert_int_equal(heard.kind, MASTER_MANIFEST_DONE);
    assert_int_equal(heard.number, number);
}

static void make_checkpoint(uint64_t step, const char *directory)
{
    files_prepare(1, directory, false);
    for (unsigned i = 0; i < SHARDS; i++) {
        put_shard(directory, i, 3, 8);
    }
    write_manifest(2, step, directory);
    assert_int_equal(heard.code, 0);
}

static void name_shards(void)
{
    static const char *const NAMES[SHARDS] = {"shard-0-of-2-g3.safetensors",
                                              "shard-1-of-2-g3.safetensors"};
    for (unsigned i = 0; i < SHARDS; i++) {
        shard_files[i] = (struct master_shard_file){
            .file = NAMES[i], .bytes = 8, .checksum = 31 + i, .version = 40};
    }
}

static void manifests_say_all(void **state)
{
    (void)state;
    name_shards();
    make_checkpoint(50, "demo-1/step-000000050");
    char *dir = file_join(files_root, "demo-1/step-000000050");
    assert_string_equal(heard.text, dir);
    struct manifest m;
    assert_int_equal(manifest_read(dir, &m, NULL), 0);
    assert_string_equal(m.job, "demo-1");
    assert_string_equal(m.owner, OWNER);
    assert_string_equal(m.text, files_spec.text);
    assert_string_equal(m.rule, "sgd");
    assert_int_equal(m.mode, TRAINING_SYNC);
    assert_int_equal(m.generation, 23);
    assert_int_equal(m.step, 50);
    assert_int_equal(m.epoch, 2);
    assert_int_equal(m.records, 22);
    assert_true(m.created_ms > INT64_C(1700000000000));
    assert_true(ledger_equal(&m.ledger, &files_ledger));
    assert_int_equal(m.train_epoch, 21);
    assert_int_equal(m.train_sum_count, 2);
    assert_true(m.train_sums[0] == 1.5 && m.train_sums[1] == 2.5);
    assert_int_equal(m.shard_count, SHARDS);
    for (unsigned i = 0; i < SHARDS; i++) {
        assert_int_equal(m.shards[i].generation, 3);
        assert_int_equal(m.shards[i].version, 40);
        assert_int_equal(m.shards[i].bytes, 8);
        assert_int_equal(m.shards[i].checksum, 31 + i);
    }
    manifest_release(&m);
    free(dir);
}

/* Nothing that is not whole gets a manifest. */
static void manifests_are_of_files_that_are_there(void **state)
{
    (void)state;
    static const char NAME[] = "demo-1/step-000000050/manifest.json";
    name_shards();
    write_manifest(61, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_NOT_FOUND);
    assert_non_null(strstr(heard.message, "must share the checkpoint directory"));
    files_prepare(62, "demo-1/step-000000050", false);
    put_shard("demo-1/step-000000050", 0, 3, 8);
    put_shard("demo-1/step-000000050", 1, 3, 7); /* cut */
    write_manifest(63, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_CORRUPT);
    assert_false(is_there(NAME));
    put_shard("demo-1/step-000000050", 1, 3, 8);
    shard_files[1].file = "shard-0-of-2-g3.safetensors"; /* of another shard */
    write_manifest(64, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_CORRUPT);
    assert_non_null(strstr(heard.message, "shard 1 says that its file is shard-0"));
    assert_false(is_there(NAME));
    name_shards();
    (void)memset(files_shell.checkpoints.owner, 'f', 32);
    write_manifest(65, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_PERMISSION);
    assert_false(is_there(NAME));
}

static void look_for(uint64_t number, const char *const *avoid, size_t count)
{
    const struct master_find in = {number, &files_record, avoid, count};
    size_t before = heard.count;
    shell_find(&files_shell, &in);
    files_wait_events(before + 1);
    assert_int_equal(heard.kind, MASTER_FOUND);
    assert_int_equal(heard.number, number);
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* Until the pool has done what it was given, and the loop has heard of it. */
static void settle(void)
{
    const struct master_prepare last = {99, &files_record, "demo-1/step-000000099", true};
    size_t before = heard.count;
    shell_prepare(&files_shell, &last); /* one thread: it comes behind the rest */
    files_wait_events(before + 1);
    assert_int_equal(loop_call(files_shell.loop, nothing, NULL, NULL), 0);
}

static void checkpoints_are_found_and_pruned(void **state)
{
    (void)state;
    look_for(71, NULL, 0);
    assert_true(heard.code == 0 && !heard.found.found);
    assert_null(heard.found.ledger);
    name_shards();
    make_checkpoint(50, "demo-1/step-000000050");
    make_checkpoint(60, "demo-1/step-000000060");
    make_checkpoint(70, "demo-1/step-000000070");
    look_for(72, NULL, 0);
    assert_true(heard.code == 0 && heard.found.found);
    assert_string_equal(heard.text, "demo-1/step-000000070");
    assert_string_equal(heard.skipped, "");
    assert_int_equal(heard.found.step, 70);
    assert_int_equal(heard.found.version, 40);
    assert_int_equal(heard.found.train_epoch, 21);
    assert_int_equal(heard.found.train_sum_count, 2);
    assert_true(heard.sum == 1.5);
    assert_true(ledger_equal(&heard.ledger, &files_ledger));
    const char *const avoid[] = {"demo-1/step-000000070", "demo-1/step-000000060"};
    look_for(73, avoid, 2);
    assert_string_equal(heard.text, "demo-1/step-000000050");
    assert_non_null(strstr(heard.skipped, "step-000000070: could not be read"));
    assert_null(strchr(heard.skipped, '\n')); /* one of them */
    job_record_set(&files_record.checkpoint, "demo-1/step-000000070");
    const struct master_prune keep = {.job = &files_record, .keep = 2};
    shell_prune(&files_shell, &keep);
    settle();
    assert_false(is_there("demo-1/step-000000050"));
    assert_true(is_there("demo-1/step-000000060/manifest.json"));
    assert_true(is_there("demo-1/step-000000070/manifest.json"));
    (void)memset(files_shell.checkpoints.owner, 'f', 32);
    look_for(74, NULL, 0);
    assert_int_equal(heard.code, ERR_PERMISSION);
}

static void directories_are_given_up(void **state)
{
    (void)state;
    const struct master_prune release = {.job = &files_record, .release = true};
    shell_prune(&files_shell, &release);
    settle();
    assert_false(is_there("demo-1"));
    struct err err;
    assert_int_equal(claim_make(files_root, "demo-2", OWNER, 7, &err), 0);
    assert_int_equal(claim_make(files_root, "demo-3", OWNER, 7, &err), 0);
    shell_release(&files_shell, "demo-2");
    settle();
    assert_false(is_there("demo-2"));
    assert_true(is_there("demo-3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directories_are_prepared_and_discarded),
        TEST(manifests_say_all),
        TEST(manifests_are_of_files_that_are_there),
        TEST(checkpoints_are_found_and_pruned),
        TEST(directories_are_given_up),
    };
    return cmocka_run_group_tests_name("shell_files", tests, NULL, NULL);
}
