/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of keys: how they lie in memory, in batches and in columns, and what is refused. */
#include "unit/data/data_rig.h"

#include "base/checksum.h"
#include "base/rng.h"
#include "data/sparse_batch.h"
#include "data/sparse_fields.h"

/* Two fields with weights: "a" of @width columns by @fold, "b" of 3 by the key itself. */
static struct sparse_fields two_fields(uint32_t width, enum sparse_fold fold)
{
    struct sparse_fields f = {.weighted = true};
    assert_int_equal(sparse_fields_declare(&f, "a", width, fold, "x", NULL), 0);
    assert_int_equal(sparse_fields_declare(&f, "b", 3, SPARSE_FOLD_NONE, "x", NULL), 0);
    return f;
}

static void add(struct sparse_fields *f, const struct sparse_entry *entries, size_t count)
{
    struct sparse_draft d = {0};
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(
            sparse_draft_add(&d, entries[i].field, entries[i].key, entries[i].weight, NULL), 0);
    }
    assert_null(sparse_draft_sort(&d, false));
    assert_int_equal(sparse_fields_add(f, &d, "x", NULL), 0);
    assert_int_equal(d.count, 0);
    sparse_draft_release(&d);
}

/* Three records: keys out of order and the largest one, none, one of the second field. */
static struct sparse_fields three_records(void)
{
    struct sparse_fields f = two_fields(4, SPARSE_FOLD_NONE);
    add(&f,
        (struct sparse_entry[]){{.key = 5, .field = 1, .weight = 7},
                                {.key = UINT64_MAX, .field = 0, .weight = 0.5F},
                                {.key = 3, .field = 0, .weight = 2}},
        3);
    add(&f, NULL, 0);
    add(&f, (struct sparse_entry[]){{.key = 1, .field = 1, .weight = -1}}, 1);
    return f;
}

static void check_list(const struct sparse_fields *f, uint64_t record, size_t field,
                       const uint64_t *keys, size_t count)
{
    const struct sparse_list list = sparse_fields_list(f, record, field);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(list.keys[i] == keys[i]);
    }
}

static void lists_are_sorted(void **state)
{
    (void)state;
    struct sparse_fields f = three_records();
    check_list(&f, 0, 0, (uint64_t[]){3, UINT64_MAX}, 2);
    check_list(&f, 0, 1, (uint64_t[]){5}, 1);
    check_list(&f, 1, 0, NULL, 0);
    check_list(&f, 1, 1, NULL, 0);
    check_list(&f, 2, 0, NULL, 0);
    check_list(&f, 2, 1, (uint64_t[]){1}, 1);
    assert_true(sparse_fields_list(&f, 0, 0).weights[0] == 2);
    assert_true(sparse_fields_list(&f, 0, 0).weights[1] == 0.5F);
    assert_int_equal(sparse_fields_keys(&f), 4);
    assert_int_equal(sparse_fields_bytes(&f), 4 * 8 + 6 * 4 + 4 * 12);
    sparse_fields_release(&f);
}

static void repeated_keys_are_found_or_dropped(void **state)
{
    (void)state;
    struct sparse_draft d = {0};
    static const uint64_t keys[] = {9, 4, 9, 4, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(sparse_draft_add(&d, 0, keys[i], 1, NULL), 0);
    }
    const struct sparse_entry *twice = sparse_draft_sort(&d, false);
    assert_non_null(twice);
    assert_int_equal(twice->key, 4);
    assert_null(sparse_draft_sort(&d, true));
    assert_int_equal(d.count, 3);
    assert_true(d.entries[0].key == 1 && d.entries[1].key == 4 && d.entries[2].key == 9);
    d.count = 0;
    (void)sparse_draft_add(&d, 0, 4, 1, NULL); /* the same key of two fields is two keys */
    (void)sparse_draft_add(&d, 1, 4, 1, NULL);
    assert_null(sparse_draft_sort(&d, false));
    sparse_draft_release(&d);
}

static void limits_are_said(void **state)
{
    (void)state;
    struct err err = {0};
    struct sparse_draft d = {.count = SPARSE_KEYS_MAX};
    assert_int_equal(sparse_draft_add(&d, 0, 1, 1, &err), ERR_INVALID);
    assert_string_equal(err.msg, "more than 1000000 keys in one record");
    struct sparse_fields f = {.count = SPARSE_FIELDS_MAX};
    assert_int_equal(sparse_fields_declare(&f, "a", 1, SPARSE_FOLD_NONE, "x", &err), ERR_EXHAUSTED);
    assert_string_equal(err.msg, "x: more than 4096 sparse fields");
}

static void check_columns(const struct sparse_fields *f, uint64_t record, const float *expected)
{
    float out[16];
    memset(out, 0xFF, sizeof out);
    sparse_fields_spread(f, record, out);
    for (size_t i = 0; i < f->width; i++) {
        assert_true(out[i] == expected[i]);
    }
}

static void keys_become_columns(void **state)
{
    (void)state;
    struct sparse_fields f = three_records();
    check_columns(&f, 0, (float[]){0, 0, 0, 2.5F, 0, 0, 7}); /* 2^64 - 1 mod 4 is 3, too */
    check_columns(&f, 1, (float[]){0, 0, 0, 0, 0, 0, 0});
    check_columns(&f, 2, (float[]){0, 0, 0, 0, 0, -1, 0});
    sparse_fields_release(&f);
    static const enum sparse_fold folds[] = {SPARSE_FOLD_XXH3, SPARSE_FOLD_FNV1A};
    for (size_t i = 0; i < 2; i++) {
        f = two_fields(5, folds[i]);
        add(&f, (struct sparse_entry[]){{.key = 0x0102030405060708, .field = 0, .weight = 3}}, 1);
        uint64_t hash = checksum_of("\x08\x07\x06\x05\x04\x03\x02\x01", 8);
        if (folds[i] == SPARSE_FOLD_FNV1A) {
            hash = UINT64_C(14695981039346656037);
            for (uint64_t k = 8; k > 0; k--) {
                hash = (hash ^ k) * UINT64_C(1099511628211);
            }
        }
        float expected[8] = {0};
        expected[hash % 5] = 3;
        check_columns(&f, 0, expected);
        sparse_fields_release(&f);
    }
}

static uint64_t sum_of(const struct sparse_fields *f)
{
    struct checksum *c = checksum_new();
    checksum_add(c, f->ends, (size_t)f->records * f->count * sizeof *f->ends);
    checksum_add(c, f->keys, (size_t)sparse_fields_keys(f) * sizeof *f->keys);
    if (f->weighted) {
        checksum_add(c, f->weights, (size_t)sparse_fields_keys(f) * sizeof *f->weights);
    }
    uint64_t value = checksum_value(c);
    checksum_free(c);
    return value;
}

static void copies_are_equal(void **state)
{
    (void)state;
    struct sparse_fields f = three_records(), twin = sparse_fields_twin(&f);
    assert_true(sparse_fields_equal(&f, &twin));
    assert_int_equal(sparse_fields_append(&twin, &f, "y", NULL), 0);
    assert_true(sum_of(&f) == sum_of(&twin));
    assert_int_equal(sparse_fields_append(&twin, &f, "y", NULL), 0);
    assert_int_equal(twin.records, 6);
    check_list(&twin, 3, 0, (uint64_t[]){3, UINT64_MAX}, 2);
    check_list(&twin, 5, 1, (uint64_t[]){1}, 1);
    sparse_fields_limit(&twin, 3);
    assert_true(sum_of(&f) == sum_of(&twin));
    sparse_fields_limit(&twin, 2);
    assert_true(sum_of(&f) != sum_of(&twin));
    assert_int_equal(sparse_fields_keys(&twin), 3);
    struct sparse_fields other = two_fields(4, SPARSE_FOLD_NONE), wider = two_fields(5, 0);
    struct err err = {0};
    free(other.fields[1].name);
    other.fields[1].name = mem_strdup("c");
    assert_int_equal(sparse_fields_append(&other, &f, "y", &err), ERR_INVALID);
    assert_string_equal(err.msg, "y: its sparse fields are not those of the files before");
    assert_false(sparse_fields_equal(&wider, &f));
    sparse_fields_release(&wider);
    sparse_fields_release(&other);
    sparse_fields_release(&twin);
    sparse_fields_release(&f);
}

/* Random records against lists read one by one. */
static void batches_lie_by_field(void **state)
{
    (void)state;
    struct sparse_fields f = two_fields(0, SPARSE_FOLD_NONE);
    struct sparse_draft d = {0};
    assert_int_equal(sparse_fields_read_lists(&f, NULL, 0, NULL, "x", NULL), 0); /* no columns */
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t n = rng_below(1, i, 9);
        for (uint64_t k = 0; k < n; k++) {
            (void)sparse_draft_add(&d, (uint32_t)rng_below(2, i * 9 + k, 2),
                                   rng_below(3, i * 9 + k, 50), (float)k, NULL);
        }
        (void)sparse_draft_sort(&d, true);
        assert_int_equal(sparse_fields_add(&f, &d, "x", NULL), 0);
    }
    sparse_draft_release(&d);
    struct sparse_batch b;
    assert_int_equal(sparse_batch_init(&b, &f, 10, NULL), 0);
    for (uint64_t round = 0; round < 20; round++) {
        uint64_t records[10];
        size_t count = round == 0 ? 0 : 10;
        for (uint64_t i = 0; i < count; i++) {
            records[i] = (round * 10 + i * 7) % 100;
        }
        sparse_batch_read(&b, &f, records, count);
        assert_int_equal(b.count, count);
        for (size_t field = 0; field < 2; field++) {
            const uint64_t *offsets = b.offsets + field * (b.capacity + 1);
            for (size_t i = 0; i < count; i++) {
                const struct sparse_list list = sparse_fields_list(&f, records[i], field);
                assert_int_equal(offsets[i + 1] - offsets[i], list.count);
                assert_memory_equal(b.keys + offsets[i], list.keys, list.count * 8);
                assert_memory_equal(b.weights + offsets[i], list.weights, list.count * 4);
            }
        }
    }
    sparse_batch_release(&b);
    struct err err = {0};
    assert_int_equal(sparse_batch_init(&b, &f, SIZE_MAX / 4, &err), ERR_EXHAUSTED);
    f.weighted = false;
    assert_int_equal(sparse_batch_init(&b, &f, 200, NULL), 0); /* more than there are */
    assert_null(b.weights);
    sparse_batch_release(&b);
    f.weighted = true;
    sparse_fields_release(&f);
}

static void fields_are_described(void **state)
{
    (void)state;
    struct sparse_fields f = three_records();
    struct buf out = {0};
    sparse_fields_describe(&f, &out);
    assert_string_equal(buf_str(&out), "sparse field a: 0.7 keys of a record, as 4 columns\n"
                                       "sparse field b: 0.7 keys of a record, as 3 columns\n");
    buf_reset(&out);
    f.fields[1].width = 4;
    sparse_fields_describe(&f, &out);
    assert_string_equal(
        buf_str(&out), "sparse fields a to b (2): 1.3 keys of a record, each field as 4 columns\n");
    buf_release(&out);
    sparse_fields_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_sorted),
        cmocka_unit_test(repeated_keys_are_found_or_dropped),
        cmocka_unit_test(limits_are_said),
        cmocka_unit_test(keys_become_columns),
        cmocka_unit_test(copies_are_equal),
        cmocka_unit_test(batches_lie_by_field),
        cmocka_unit_test(fields_are_described),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
