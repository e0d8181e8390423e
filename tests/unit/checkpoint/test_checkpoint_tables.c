/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in checkpoints: the same bits on any number of shards, whatever went on while they were
 * written; and files that are damaged, or of something else. */
#include "tables_rig.h"

#include <math.h>

static void grow(struct fleet *a, struct fleet *b, unsigned updates)
{
    fleet_update(a, updates);
    fleet_update(b, updates);
    fleet_assert_same(a, b);
}

/* Saved by 3 shards, by 2 and by 5, each time while updates go on, beside one that never was. */
static void play(struct fixture *x, const char *rule, uint64_t part_bytes)
{
    static const uint32_t counts[] = {3, 2, 5, 1};
    struct fleet whole, parts, next;
    struct err err;
    fleet_open(&whole, rule, 1, 0);
    fleet_open(&parts, rule, counts[0], 0);
    grow(&whole, &parts, 12);
    for (size_t i = 1; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t version = parts.version;
        char *path = fleet_save(&parts, x, part_bytes, i != 2);
        fleet_open(&next, rule, counts[i], version);
        if (fleet_restore(&next, path, CHECKPOINT_PIECES, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        fleet_assert_same(&whole, &next);
        fleet_close(&parts);
        parts = next;
        free(path);
        grow(&whole, &parts, 9);
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

/* With five shards one has no part of the four variables. */
static void test_shards_without_variables(void **state)
{
    struct fixture *x = *state;
    x->partitions = 1;
    play(x, "adam", 3000);
    struct plan plan = {0};
    const struct table_file_source none = {.count = 0};
    x->tables = &none;
    make_plan(x, 5, &plan);
    x->tables = NULL;
    assert_int_equal(plan_check_shards(&plan, 0, NULL), ERR_INVALID);
    uint32_t empty = 0;
    while (plan.shard_elements[empty] > 0) {
        empty++;
    }
    struct update *u = make_update(x, &plan, empty);
    const struct shard_file_state shard = {.job = "t-1",
                                           .plan = &plan,
                                           .shard = empty,
                                           .rule = "adam",
                                           .update = u,
                                           .ledger = &x->ledger};
    struct err err;
    char *path = file_join(x->dir, "x.safetensors");
    assert_int_equal(shard_file_write(path, &shard, NULL, &err), ERR_INVALID);
    assert_message(err, "of 5 is empty");
    update_free(u);
    plan_release(&plan);
    free(path);
}

/* Bytes follow from what there is alone: not from what was restored, evicted or admitted when. */
static void test_equal_tables_have_equal_files(void **state)
{
    struct fixture *x = *state;
    struct fleet one, other;
    struct err err;
    fleet_open(&one, "adam", 2, 0);
    fleet_update(&one, 8);
    char *path = fleet_save(&one, x, 2000, false);
    fleet_open(&other, "adam", 2, 8);
    assert_int_equal(fleet_restore(&other, path, CHECKPOINT_FULL, &err), 0);
    free(path);
    fleet_update(&one, 7);
    fleet_update(&other, 7);
    struct buf files[2][2] = {0};
    static const char *const names[] = {"shard-0-of-2.safetensors", "shard-1-of-2.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        path = fleet_save(i == 0 ? &one : &other, x, 2000, false);
        read_whole(path, names[0], &files[i][0]);
        read_whole(path, names[1], &files[i][1]);
        free(path);
    }
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(files[0][k].len, files[1][k].len);
        assert_memory_equal(files[0][k].data, files[1][k].data, files[0][k].len);
        buf_release(&files[0][k]);
        buf_release(&files[1][k]);
    }
    fleet_close(&one);
    fleet_close(&other);
}

/* ---- exports ---- */

static void export_to(struct fleet *f, struct fixture *x, const char *slot, struct buf *out)
{
    char *path = fleet_save(f, x, 1500, false), *file = file_join(x->dir, "out.safetensors");
    struct checkpoint *c = NULL;
    struct err err;
    open_good(path, &c);
    const struct checkpoint_past past = {"late", f->rule, f->past};
    if (f->rule->catch_up != NULL) {
        checkpoint_catch_up(c, &past, 1);
    }
    if (checkpoint_export(c, slot, file, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    read_whole(x->dir, "out.safetensors", out);
    checkpoint_close(c);
    free(path);
    free(file);
}

/* All rows in their order, as they read; slot 0 in their place with @slot. */
static void check_exported(struct fleet *whole, struct fixture *x, bool slot)
{
    struct safetensors s;
    char *file = file_join(x->dir, "out.safetensors");
    assert_int_equal(safetensors_open(&s, file, NULL), 0);
    for (size_t i = 0; i < TABLES; i++) {
        const size_t dim = fleet_dims[i];
        uint64_t n = 0;
        assert_int_equal(table_count(whole->tables[i][0], whole->version, &n, NULL), 0);
        char *names[] = {mem_printf("%s.keys", fleet_names[i]),
                         mem_printf("%s.values", fleet_names[i])};
        const struct safetensors_tensor *keys = safetensors_find(&s, names[0]);
        const struct safetensors_tensor *values = safetensors_find(&s, names[1]);
        assert_true(keys->dtype == SAFETENSORS_U64 && keys->rank == 1 && keys->dims[0] == n);
        assert_true(values->dtype == SAFETENSORS_F32 && values->rank == 2);
        assert_true(values->dims[0] == n && values->dims[1] == dim);
        struct table_cursor cursor = {0};
        for (uint64_t row = 0; row < n; row++) {
            uint64_t key[2];
            float want[5], got[5];
            struct table_chunk c = {.capacity = 1, .keys = key};
            c.values = slot ? NULL : want;
            c.slots[0] = slot ? want : NULL;
            assert_int_equal(table_walk(whole->tables[i][0], whole->version, &cursor, &c, NULL), 0);
            assert_int_equal(safetensors_read(&s, keys, row * 8, key + 1, 8, NULL), 0);
            assert_int_equal(key[0], key[1]);
            assert_int_equal(
                safetensors_read(&s, values, row * dim * 4, got, dim * sizeof *got, NULL), 0);
            assert_memory_equal(got, want, dim * sizeof *got);
        }
        free(names[0]);
        free(names[1]);
    }
    safetensors_close(&s);
    free(file);
}

/* Nobody sees how many shards there were; rows that catch up are exported as they read. */
static void test_export(void **state)
{
    struct fixture *x = *state;
    static const char *const rules[] = {"adam", "momentum", "sgd"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct fleet one, three;
        struct buf a = {0}, b = {0}, slots = {0};
        fleet_open(&one, rules[i], 1, 0);
        fleet_open(&three, rules[i], 3, 0);
        fleet_update(&one, 9);
        fleet_update(&three, 9);
        export_to(&one, x, NULL, &a);
        export_to(&three, x, NULL, &b);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        check_exported(&one, x, false);
        if (one.rule->slot_count > 0) {
            export_to(&three, x, one.rule->slot_names[0], &slots);
            check_exported(&one, x, true);
        }
        fleet_close(&one);
        fleet_close(&three);
        buf_release(&a);
        buf_release(&b);
        buf_release(&slots);
    }
}

/* ---- rows alone, for another job ---- */

static void take_all(struct fleet *f, struct fleet *of, const char *path)
{
    struct checkpoint *c = NULL;
    struct err err;
    open_good(path, &c);
    const struct checkpoint_past past = {"late", of->rule, of->past};
    checkpoint_catch_up(c, &past, of->rule->catch_up == NULL ? 0 : 1);
    for (size_t i = 0; i < TABLES; i++) {
        for (uint32_t s = 0; s < f->shards; s++) {
            struct table *t = f->tables[i][s];
            assert_int_equal(checkpoint_take_rows(c, fleet_names[i], false, t, s, f->shards, &err),
                             0);
        }
    }
    checkpoint_close(c);
}

/* Each row of @whole (one shard) is in @f, as it reads, as often seen, and new in everything else.
 */
static void assert_taken(struct fleet *f, struct fleet *whole, size_t table)
{
    uint64_t rows = 0, count = 0;
    struct table_cursor cursor = {0};
    for (;;) {
        uint64_t key = 0;
        float want[5], got[5];
        struct table_chunk c = {.capacity = 1, .keys = &key, .values = want};
        assert_int_equal(table_walk(whole->tables[table][0], whole->version, &cursor, &c, NULL), 0);
        if (c.n == 0) {
            break;
        }
        struct table *t = f->tables[table][table_shard_of(key, f->shards)];
        assert_int_equal(table_gather(t, f->version, &key, 1, got, NULL), 0);
        assert_memory_equal(got, want, fleet_dims[table] * sizeof *got);
        rows++;
    }
    assert_true(rows > 0);
    for (uint32_t s = 0; s < f->shards; s++) {
        uint64_t n = 0, seen = 1, key = 0;
        uint32_t sightings = 0;
        float slot[5] = {1};
        struct table *t = f->tables[table][s];
        struct table_chunk c = {.capacity = 1, .keys = &key, .seen = &seen, .kept = true};
        c.sightings = &sightings;
        c.slots[0] = slot;
        cursor = (struct table_cursor){0};
        assert_int_equal(table_count(t, f->version, &n, NULL), 0);
        for (uint64_t i = 0; i < n; i++) {
            assert_int_equal(table_walk(t, f->version, &cursor, &c, NULL), 0);
            assert_true(seen == f->version && slot[0] == 0 && sightings > 0);
        }
        count += n;
    }
    assert_int_equal(count, rows);
}

static void test_rows_alone(void **state)
{
    struct fixture *x = *state;
    static const uint32_t counts[] = {1, 4};
    struct fleet whole, three, other;
    fleet_open(&whole, "adam", 1, 0);
    fleet_open(&three, "adam", 3, 0);
    grow(&whole, &three, 12);
    char *path = fleet_save(&three, x, 1500, false);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        fleet_open(&other, "momentum", counts[i], 0);
        take_all(&other, &three, path);
        for (size_t k = 0; k < TABLES; k++) {
            assert_taken(&other, &whole, k);
        }
        fleet_update(&other, 3);
        fleet_close(&other);
    }
    fleet_close(&whole);
    fleet_close(&three);
    free(path);
}

static void test_rows_alone_that_cannot_be(void **state)
{
    struct fixture *x = *state;
    struct fleet bad, other;
    struct checkpoint *c = NULL;
    struct err err;
    float values[] = {1, INFINITY, 1, 1, 1};
    uint64_t key = 77;
    const struct table_chunk chunk = {.n = 1, .keys = &key, .values = values};
    fleet_open(&bad, "sgd", 1, 0);
    fleet_open(&other, "sgd", 1, 0);
    const size_t wide = fleet_dims[0] > 1 ? 0 : 1;
    assert_int_equal(table_restore_rows(bad.tables[wide][0], &chunk, NULL), 0);
    char *path = fleet_save(&bad, x, 0, false);
    open_good(path, &c);
    struct table *t = other.tables[wide][0];
    assert_int_equal(checkpoint_take_rows(c, fleet_names[wide], false, t, 0, 1, &err), ERR_INVALID);
    assert_message(err, "element 1 of the row of key 77 is inf, which is not finite");
    assert_int_equal(checkpoint_take_rows(c, "none", false, t, 0, 1, &err), ERR_NOT_FOUND);
    assert_message(err, "no table none");
    for (size_t i = 0; i < TABLES; i++) {
        if (fleet_dims[i] != fleet_dims[wide]) {
            assert_int_equal(checkpoint_take_rows(c, fleet_names[i], false, t, 0, 1, &err),
                             ERR_INVALID);
            assert_message(err, "floats, ");
        }
    }
    checkpoint_close(c);
    fleet_close(&bad);
    fleet_close(&other);
    free(path);
}

/* ---- files that are wrong ---- */

static char *save_small(struct fixture *x, uint32_t shards)
{
    struct fleet f;
    fleet_open(&f, "adam", shards, 0);
    fleet_update(&f, 3);
    char *path = fleet_save(&f, x, 4000, false);
    fleet_close(&f);
    return path;
}

static int restore(const char *path, uint32_t shards, struct err *err)
{
    struct fleet f;
    fleet_open(&f, "adam", shards, 3);
    int rc = fleet_restore(&f, path, CHECKPOINT_PIECES, err);
    fleet_close(&f);
    return rc;
}

/* Whatever byte it is, nobody restores other rows than were written. */
static void test_damage(void **state)
{
    char *path = save_small(*state, 2);
    static const char name[] = "shard-1-of-2.safetensors";
    struct fleet good;
    struct buf file = {0};
    struct err err = {0};
    size_t refused = 0;
    fleet_open(&good, "adam", 2, 3);
    assert_int_equal(fleet_restore(&good, path, CHECKPOINT_PIECES, &err), 0);
    read_whole(path, name, &file);
    for (uint64_t round = 0; round < 200; round++) {
        struct fleet f;
        const size_t at = (size_t)rng_below(rng_key(1, "damage"), round, file.len);
        const char flip = (char)(1 << rng_below(rng_key(2, "damage"), round, 8));
        file.data[at] ^= flip;
        write_whole(path, name, file.data, file.len);
        file.data[at] ^= flip;
        fleet_open(&f, "adam", 2, 3);
        const int rc = fleet_restore(&f, path, CHECKPOINT_PIECES, &err);
        if (rc == 0) { /* it was of a partition */
            fleet_assert_same(&good, &f);
        } else {
            assert_true(rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED);
            assert_message(err, name);
            refused++;
        }
        fleet_close(&f);
    }
    assert_true(refused > 150);
    write_whole(path, name, file.data, file.len - 1);
    assert_int_equal(restore(path, 3, &err), ERR_CORRUPT);
    assert_message(err, "shard-1-of-2.safetensors: size differs");
    char *gone = file_join(path, name);
    assert_int_equal(unlink(gone), 0);
    assert_int_equal(restore(path, 3, &err), ERR_NOT_FOUND);
    assert_message(err, "shard-1-of-2.safetensors: missing");
    fleet_close(&good);
    buf_release(&file);
    free(gone);
    free(path);
}

/* Of a manifest that is sound in itself, and is not of these files. */
static void test_another_manifest(void **state)
{
    char *path = save_small(*state, 2);
    struct manifest good;
    struct err err = {0};
    assert_int_equal(manifest_read(path, &good, NULL), 0);
    assert_int_equal(good.table_count, TABLES);
    assert_string_equal(good.tables[1].info.name, "ads-2");
    assert_int_equal(good.tables[1].info.dim, 3);
    assert_int_equal(good.tables[0].rows[0] + good.tables[0].rows[1], good.tables[0].info.rows);
    assert_true(good.tables[0].counts[0] > 0);
    const struct {
        uint64_t *number;
        uint64_t wrong;
        const char *says;
    } wrong[] = {
        {&good.tables[0].rows[1], 1, "table ads: "},
        {&good.tables[1].counts[0], 7, "table ads-2: "},
        {&good.tables[2].info.dim, 3, "table late of dim 2"},
        {&good.table_count, 2, "3 tables; the manifest names 2"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const uint64_t right = *wrong[i].number;
        *wrong[i].number = wrong[i].wrong;
        assert_int_equal(manifest_write(path, &good, NULL), 0);
        *wrong[i].number = right;
        assert_int_equal(restore(path, 2, &err), ERR_CORRUPT);
        assert_message(err, wrong[i].says);
        assert_message(err, "-of-2.safetensors");
    }
    manifest_release(&good);
    free(path);
}

/* The job has other tables than the checkpoint. */
static void test_another_job(void **state)
{
    char *path = save_small(*state, 2);
    struct err err = {0};
    struct fleet f, sgd;
    struct checkpoint *c = NULL;
    fleet_open(&f, "adam", 1, 3);
    fleet_open(&sgd, "sgd", 1, 3);
    assert_int_equal(checkpoint_open(path, CHECKPOINT_PIECES, &c, NULL), 0);
    struct checkpoint_table ads = {"ads", TABLE_ADMIT_COUNTED, f.tables[0][0]};
    struct checkpoint_table three[] = {ads,
                                       {"ads-2", TABLE_ADMIT_BLOOM, f.tables[1][0]},
                                       {"late", TABLE_ADMIT_ALL, f.tables[2][0]}};
    const struct {
        struct checkpoint_table first;
        size_t count;
        const char *says;
    } wrong[] = {
        {{"other", TABLE_ADMIT_COUNTED, f.tables[0][0]}, 3, "no table other"},
        {{"ads", TABLE_ADMIT_BLOOM, f.tables[0][0]}, 3, "admission of table ads is counted, bloom"},
        {{"ads", TABLE_ADMIT_COUNTED, f.tables[1][0]}, 3, "table ads have 5 floats, 3 are wanted"},
        {{"ads", TABLE_ADMIT_COUNTED, sgd.tables[0][0]}, 3, "of rule adam with its slots, sgd"},
        {ads, 2, "it has table late, which the job has not"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        three[0] = wrong[i].first;
        assert_int_equal(checkpoint_restore_tables(c, three, wrong[i].count, 0, 1, &err),
                         ERR_INVALID);
        assert_message(err, wrong[i].says);
        assert_message(err, path);
    }
    checkpoint_close(c);
    fleet_close(&f);
    fleet_close(&sgd);
    free(path);
}

/* ---- rows that nobody has ---- */

struct crafted {
    const uint64_t *keys;
    size_t n, at;
    uint64_t seen;
};

static int crafted_rows(void *ctx, size_t table, struct table_chunk *chunk, struct err *err)
{
    struct crafted *c = ctx;
    (void)table;
    (void)err;
    for (chunk->n = 0; chunk->n < chunk->capacity && c->at < c->n; chunk->n++, c->at++) {
        chunk->keys[chunk->n] = c->keys[c->at];
        chunk->seen[chunk->n] = c->seen;
    }
    return 0;
}

/* A checkpoint of one shard with one table of @rows such rows, and what restoring it says. */
static int craft(struct fixture *x, struct crafted *rows, struct err *err)
{
    struct fleet f;
    struct checkpoint *c = NULL;
    char name[] = "late";
    const struct table_file_info info = {.name = name, .dim = 2, .rows = rows->n};
    const struct table_file_source source = {
        .count = 1, .tables = &info, .rows = crafted_rows, .ctx = rows, .part_bytes = 60};
    fixture_use_rule(x, "sgd");
    x->tables = &source;
    char *path = write_checkpoint(x, 1, 3, 3);
    x->tables = NULL;
    fleet_open(&f, "sgd", 1, 3);
    const struct checkpoint_table table = {name, TABLE_ADMIT_ALL, f.tables[2][0]};
    int rc = checkpoint_open(path, CHECKPOINT_FULL, &c, err);
    rc = rc != 0 ? rc : checkpoint_restore_tables(c, &table, 1, 0, 1, err);
    checkpoint_close(c);
    fleet_close(&f);
    free(path);
    return rc;
}

static int compare_order(const void *a, const void *b)
{
    const uint64_t x = table_walk_order(*(const uint64_t *)a);
    const uint64_t y = table_walk_order(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

static void test_rows_that_cannot_be(void **state)
{
    uint64_t keys[] = {0, 1, 2, 3, UINT64_MAX, 5, 6};
    struct err err = {0};
    qsort(keys, 7, sizeof keys[0], compare_order);
    struct crafted rows = {.keys = keys, .n = 7, .seen = 3};
    assert_int_equal(craft(*state, &rows, &err), 0); /* all keys may be */
    rows = (struct crafted){.keys = keys, .n = 7, .seen = 4};
    assert_int_equal(craft(*state, &rows, &err), ERR_CORRUPT);
    assert_message(err, "was seen at version 4, after 3");
    keys[4] = keys[3];
    rows = (struct crafted){.keys = keys, .n = 7};
    assert_int_equal(craft(*state, &rows, &err), ERR_CORRUPT);
    assert_message(err, "comes twice");
    assert_message(err, "shard-0-of-1.safetensors: table late: key ");
    keys[4] = keys[0];
    rows = (struct crafted){.keys = keys, .n = 7};
    assert_int_equal(craft(*state, &rows, &err), ERR_CORRUPT);
    assert_message(err, "is out of order");
}

/* A file that says that it is of another shard than its rows are of. */
static void test_rows_of_another_shard(void **state)
{
    struct fleet f;
    struct fixture *x = *state;
    struct err err = {0};
    fleet_open(&f, "adam", 2, 0);
    fleet_update(&f, 3);
    for (size_t i = 0; i < TABLES; i++) {
        struct table *t = f.tables[i][0];
        f.tables[i][0] = f.tables[i][1];
        f.tables[i][1] = t;
    }
    char *path = fleet_save(&f, x, 0, false);
    fleet_close(&f);
    assert_int_equal(restore(path, 2, &err), ERR_CORRUPT);
    assert_message(err, "is of another shard");
    free(path);
}

/* Whoever writes has fewer rows than it said. */
static void test_rows_that_end_early(void **state)
{
    struct fixture *x = *state;
    char name[] = "late";
    const uint64_t keys[] = {1, 2};
    struct crafted rows = {.keys = keys, .n = 2};
    struct err err = {0};
    const struct table_file_info info = {.name = name, .dim = 2, .rows = 3};
    const struct table_file_source source = {
        .count = 1, .tables = &info, .rows = crafted_rows, .ctx = &rows};
    struct plan plan = {0};
    make_plan(x, 1, &plan);
    fixture_use_rule(x, "sgd");
    float *buffers[1 + UPDATE_SLOTS_MAX] = {NULL};
    make_shard(x, &plan, 0, 3, buffers);
    struct update *u = make_update(x, &plan, 0);
    const struct shard_file_state shard = {.job = "t-1",
                                           .plan = &plan,
                                           .rule = "sgd",
                                           .update = u,
                                           .ledger = &x->ledger,
                                           .values = buffers[0],
                                           .slots = buffers + 1,
                                           .tables = &source};
    char *path = file_join(x->dir, "x.safetensors");
    assert_int_equal(shard_file_write(path, &shard, NULL, &err), ERR_STATE);
    assert_message(err, "table late ends behind 2 of 3 rows");
    assert_false(file_exists(path));
    update_free(u);
    free_shard(buffers);
    plan_release(&plan);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_number_of_shards, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_shards_without_variables, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_equal_tables_have_equal_files, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_export, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rows_alone, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rows_alone_that_cannot_be, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_damage, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_another_manifest, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_another_job, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rows_that_cannot_be, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rows_of_another_shard, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_rows_that_end_early, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
