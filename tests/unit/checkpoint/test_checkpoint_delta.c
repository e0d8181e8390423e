/* SPDX-License-Identifier: Apache-2.0 */
/* Deltas: restored with their base they are what a full checkpoint of the same version is, on any
 * number of shards; and bases that are missing, damaged, or others. */
#include "tables_rig.h"

#include "checkpoint/checkpoint_dir.h"

static void restore_as(struct fleet *f, const char *rule, uint32_t shards, uint64_t version,
                       const char *path)
{
    struct err err;
    fleet_open(f, rule, shards, version);
    if (fleet_restore(f, path, CHECKPOINT_PIECES, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

/* A full one and two deltas of it on 3 shards, then on 2, on 5, on 1, each restored from the second
 * delta; beside one that never was. Updates go on while they are written. */
static void play(struct fixture *x, const char *rule, uint64_t part_bytes)
{
    static const uint32_t counts[] = {3, 2, 5, 1};
    struct fleet whole, parts, next;
    fleet_open(&whole, rule, 1, 0);
    fleet_open(&parts, rule, counts[0], 0);
    fleet_update(&whole, 12);
    fleet_update(&parts, 12);
    for (size_t i = 1; i < sizeof counts / sizeof counts[0]; i++) {
        char *base = fleet_save(&parts, x, part_bytes, i != 2);
        fleet_update(&parts, 4);
        free(fleet_save_delta(&parts, x, part_bytes, i != 2, base));
        fleet_update(&parts, 3);
        const uint64_t version = parts.version;
        char *delta = fleet_save_delta(&parts, x, part_bytes, i == 2, base);
        fleet_update(&whole, (unsigned)(version - whole.version));
        restore_as(&next, rule, counts[i], version, delta);
        fleet_assert_same(&whole, &next);
        fleet_close(&parts);
        parts = next;
        free(base);
        free(delta);
        fleet_update(&whole, 9);
        fleet_update(&parts, 9);
        fleet_assert_same(&whole, &parts);
    }
    fleet_close(&whole);
    fleet_close(&parts);
}

static void test_any_number_of_shards(void **state)
{
    play(*state, "adam", 3000);
    play(*state, "rowwise_adagrad", 500);
    play(*state, "momentum", 64);
    play(*state, "sgd", 0);
}

static uint64_t bytes_of(const char *path)
{
    struct manifest m;
    uint64_t bytes = 0;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    for (uint32_t i = 0; i < m.shard_count; i++) {
        bytes += m.shards[i].bytes;
    }
    manifest_release(&m);
    return bytes;
}

static void export_of(struct fixture *x, struct fleet *f, const char *path, struct buf *out)
{
    struct checkpoint *c = NULL;
    struct err err;
    char *file = file_join(x->dir, "out.safetensors");
    open_good(path, &c);
    const struct checkpoint_past past = {"late", f->rule, f->past};
    checkpoint_catch_up(c, &past, 1);
    if (checkpoint_export(c, NULL, file, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    read_whole(x->dir, "out.safetensors", out);
    checkpoint_close(c);
    free(file);
}

/* Nobody sees in an export that there was a delta; and it is smaller than all. */
static void test_export(void **state)
{
    struct fixture *x = *state;
    struct fleet f;
    struct buf a = {0}, b = {0};
    fleet_open(&f, "adam", 3, 0);
    fleet_update(&f, 12);
    char *base = fleet_save(&f, x, 900, false);
    fleet_update(&f, 1);
    char *delta = fleet_save_delta(&f, x, 700, false, base);
    export_of(x, &f, delta, &a);
    const uint64_t changed = bytes_of(delta);
    free(delta);
    char *full = fleet_save(&f, x, 1100, false);
    export_of(x, &f, full, &b);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    assert_true(changed < bytes_of(full));
    free(full);
    free(base);
    buf_release(&a);
    buf_release(&b);
    fleet_close(&f);
}

/* Tables without a row: of the base, of the delta, and of a shard of either. */
static void test_empty_tables(void **state)
{
    struct fixture *x = *state;
    struct fleet f, other;
    struct err err = {0};
    fleet_open(&f, "adam", 3, 0);
    char *base = fleet_save(&f, x, 0, false);
    fleet_open(&other, "adam", 2, 0);
    assert_int_equal(fleet_restore(&other, base, CHECKPOINT_FULL, &err), 0);
    fleet_close(&other);
    fleet_update(&f, 1);
    char *delta = fleet_save_delta(&f, x, 0, false, base);
    restore_as(&other, "adam", 2, 1, delta);
    fleet_assert_same(&f, &other);
    fleet_close(&other);
    free(base);
    free(delta);
    fleet_close(&f);
}

/* ---- bases that are not what they have to be ---- */

struct pair {
    struct fleet fleet;
    char *base, *delta;
    struct buf file; /* of the base */
};

#define FILE_NAME "shard-1-of-2.safetensors"

static void make(struct fixture *x, struct pair *p)
{
    *p = (struct pair){0};
    fleet_open(&p->fleet, "adam", 2, 0);
    fleet_update(&p->fleet, 8);
    p->base = fleet_save(&p->fleet, x, 4000, false);
    fleet_update(&p->fleet, 3);
    p->delta = fleet_save_delta(&p->fleet, x, 4000, false, p->base);
    read_whole(p->base, FILE_NAME, &p->file);
}

static void drop(struct pair *p)
{
    fleet_close(&p->fleet);
    buf_release(&p->file);
    free(p->base);
    free(p->delta);
}

static int restore(const struct pair *p, struct err *err)
{
    struct fleet f;
    fleet_open(&f, "adam", 3, p->fleet.version);
    int rc = fleet_restore(&f, p->delta, CHECKPOINT_PIECES, err);
    fleet_close(&f);
    return rc;
}

static void expect(const struct pair *p, int code, const char *says)
{
    struct err err = {0};
    char *path = NULL;
    struct buf skipped = {0};
    assert_int_equal(restore(p, &err), code);
    assert_message(err, "step-000000011: its base step-000000008");
    assert_message(err, says);
    if (code == ERR_CORRUPT && strstr(says, "damaged") != NULL) {
        return; /* nobody sees that who looks at sizes */
    }
    (void)snprintf(err.msg, sizeof err.msg, "%s", p->base);
    *strrchr(err.msg, '/') = '\0';
    (void)checkpoint_latest(err.msg, &path, &skipped, NULL);
    assert_true(path == NULL || strstr(path, "step-000000011") == NULL);
    assert_non_null(strstr(buf_str(&skipped), "step-000000011: its base step-000000008"));
    buf_release(&skipped);
    free(path);
}

static void test_a_base_that_is_gone(void **state)
{
    struct pair p;
    make(*state, &p);
    char *file = file_join(p.base, FILE_NAME), *manifest = file_join(p.base, MANIFEST_NAME);
    assert_int_equal(truncate(file, 100), 0);
    expect(&p, ERR_CORRUPT, FILE_NAME ": size differs");
    assert_int_equal(unlink(file), 0);
    expect(&p, ERR_NOT_FOUND, FILE_NAME ": missing");
    assert_int_equal(unlink(manifest), 0);
    expect(&p, ERR_NOT_FOUND, "");
    free(file);
    free(manifest);
    drop(&p);
}

/* A job that went back makes another checkpoint of the same step. */
static void test_another_base(void **state)
{
    struct fixture *x = *state;
    struct fleet other;
    struct pair p;
    make(x, &p);
    fleet_open(&other, "adam", 2, 0);
    fleet_update(&other, 8);
    free(fleet_save(&other, x, 3000, false)); /* the same rows, cut otherwise */
    expect(&p, ERR_CORRUPT, "not the one that it was written for");
    fleet_close(&other);
    drop(&p);
}

static void test_a_damaged_base(void **state)
{
    struct pair p;
    struct err err = {0};
    size_t refused = 0;
    make(*state, &p);
    for (uint64_t round = 0; round < 60; round++) {
        struct fleet f;
        const size_t at = (size_t)rng_below(rng_key(1, "damage"), round, p.file.len);
        p.file.data[at] ^= 4;
        write_whole(p.base, FILE_NAME, p.file.data, p.file.len);
        p.file.data[at] ^= 4;
        fleet_open(&f, "adam", 2, p.fleet.version);
        const int rc = fleet_restore(&f, p.delta, CHECKPOINT_PIECES, &err);
        if (rc == 0) { /* it was of a partition, or of what the delta has anew */
            fleet_assert_same(&p.fleet, &f);
        } else {
            assert_true(rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED);
            assert_message(err, "step-000000008");
            assert_message(err, FILE_NAME);
            refused++;
        }
        fleet_close(&f);
    }
    assert_true(refused > 30);
    drop(&p);
}

/* A manifest that is sound in itself, and names what cannot be. */
static void test_another_manifest(void **state)
{
    struct fixture *x = *state;
    struct pair p;
    struct manifest m;
    struct err err = {0};
    make(x, &p);
    assert_int_equal(manifest_read(p.delta, &m, NULL), 0);
    assert_string_equal(m.base.directory, "step-000000008");
    const struct manifest_base good = m.base;
    m.base.checksum++;
    assert_int_equal(manifest_write(p.delta, &m, NULL), 0);
    expect(&p, ERR_CORRUPT, "not the one that it was written for");
    (void)snprintf(m.base.directory, sizeof m.base.directory, "step-000000012");
    char *full = fleet_save(&p.fleet, x, 0, false); /* over the delta */
    fleet_update(&p.fleet, 1);
    free(p.delta);
    p.delta = fleet_save_delta(&p.fleet, x, 0, false, full);
    assert_int_equal(restore(&p, &err), 0);
    struct manifest base;
    assert_int_equal(manifest_read(full, &base, NULL), 0);
    base.base = good; /* a delta of a delta */
    assert_int_equal(manifest_write(full, &base, NULL), 0);
    assert_int_equal(restore(&p, &err), ERR_CORRUPT);
    assert_message(err, "its base step-000000011: ");
    manifest_release(&base);
    manifest_release(&m);
    free(full);
    drop(&p);
}

static void test_a_name_that_is_no_checkpoint(void **state)
{
    static const char *const names[] = {"../step-000000008", "step-", "step-8/..", "manifest", ""};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_false(shard_file_base_named(names[i]));
    }
    assert_true(shard_file_base_named("step-000000008"));
}

/* Whatever byte of a delta it is, nobody restores other rows than were written. */
static void test_a_damaged_delta(void **state)
{
    struct pair p;
    struct err err = {0};
    struct buf file = {0};
    size_t refused = 0;
    make(*state, &p);
    read_whole(p.delta, FILE_NAME, &file);
    for (uint64_t round = 0; round < 150; round++) {
        struct fleet f;
        const size_t at = (size_t)rng_below(rng_key(3, "damage"), round, file.len);
        file.data[at] ^= 16;
        write_whole(p.delta, FILE_NAME, file.data, file.len);
        file.data[at] ^= 16;
        fleet_open(&f, "adam", 2, p.fleet.version);
        const int rc = fleet_restore(&f, p.delta, CHECKPOINT_PIECES, &err);
        if (rc == 0) {
            fleet_assert_same(&p.fleet, &f);
        } else {
            assert_true(rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED);
            assert_message(err, FILE_NAME);
            refused++;
        }
        fleet_close(&f);
    }
    assert_true(refused > 75);
    buf_release(&file);
    drop(&p);
}

/* ---- the directory ---- */

static bool is_there(const struct fixture *x, uint64_t step)
{
    char *path = checkpoint_step_path(x->dir, step);
    const bool there = file_exists(path);
    free(path);
    return there;
}

/* What a delta that is kept needs is kept, and goes with the last of them. */
static void test_pruning(void **state)
{
    struct fixture *x = *state;
    struct fleet f;
    fleet_open(&f, "adam", 2, 0);
    fleet_update(&f, 5);
    char *base = fleet_save(&f, x, 0, false); /* 5 */
    for (size_t i = 0; i < 4; i++) {          /* 6, 7, 8, 9 */
        fleet_update(&f, 1);
        free(fleet_save_delta(&f, x, 0, false, base));
    }
    assert_int_equal(checkpoint_prune(x->dir, 2, (const char *const[]){"step-000000006"}, 1, NULL),
                     0);
    assert_true(is_there(x, 5) && is_there(x, 6) && !is_there(x, 7) && is_there(x, 8));
    assert_int_equal(checkpoint_prune(x->dir, 2, NULL, 0, NULL), 0);
    assert_true(is_there(x, 5) && !is_there(x, 6) && is_there(x, 8) && is_there(x, 9));
    fleet_update(&f, 1);
    free(fleet_save(&f, x, 0, false)); /* 10 */
    assert_int_equal(checkpoint_prune(x->dir, 2, NULL, 0, NULL), 0);
    assert_true(is_there(x, 5) && !is_there(x, 8) && is_there(x, 9));
    assert_int_equal(checkpoint_prune(x->dir, 1, (const char *const[]){"step-000000009"}, 1, NULL),
                     0);
    assert_true(is_there(x, 5) && is_there(x, 9));
    assert_int_equal(checkpoint_prune(x->dir, 1, NULL, 0, NULL), 0);
    assert_true(!is_there(x, 5) && !is_there(x, 9) && is_there(x, 10));
    free(base);
    fleet_close(&f);
}

/* However its directory is written. */
static void test_paths(void **state)
{
    struct fixture *x = *state;
    struct pair p;
    struct checkpoint *c = NULL;
    static const char *const ends[] = {"/", "//", "/.", "/../step-000000011"};
    make(x, &p);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char *path = mem_printf("%s%s", p.delta, ends[i]);
        open_good(path, &c);
        checkpoint_close(c);
        free(path);
    }
    assert_int_equal(chdir(p.delta), 0);
    open_good(".", &c);
    checkpoint_close(c);
    assert_int_equal(chdir("/"), 0);
    drop(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_any_number_of_shards),
        TEST(test_export),
        TEST(test_empty_tables),
        TEST(test_a_base_that_is_gone),
        TEST(test_another_base),
        TEST(test_a_damaged_base),
        TEST(test_another_manifest),
        TEST(test_a_name_that_is_no_checkpoint),
        TEST(test_a_damaged_delta),
        TEST(test_pruning),
        TEST(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
