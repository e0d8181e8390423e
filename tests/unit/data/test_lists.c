/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse fields whose keys layers read: the lists of a batch, their names, and what is refused. */
#include "support/test.h"

#include "data/column_spec.h"
#include "unit/data/data_rig.h"

static struct data_column columns[3];
static char first[] = "1", second_name[] = "2";
static char *lists[] = {first, second_name};

/* A CSV file with a header whose columns are numbered: y, then two lists of places in [p, q, r]. */
static struct data_spec numbered(void)
{
    fixture_text("t.csv", "y,a,b\n0,p,q|r\n1,r,\n");
    static char train[] = "t.csv", none[] = "";
    struct data_spec spec = fixture_spec(train, none);
    static char zero[] = "0", range[] = "1..2", bar[] = "|", words[] = "[p, q, r]";
    columns[0] = (struct data_column){.column = zero, .as = COLUMN_LABEL};
    columns[1] = (struct data_column){.column = range,
                                      .as = COLUMN_SPARSE,
                                      .separator = bar,
                                      .missing = COLUMN_MISSING_ZERO,
                                      .vocabulary = words};
    spec.header = DATA_HEADER_TRUE;
    spec.columns = columns;
    spec.column_count = 2;
    spec.lists = lists;
    return spec;
}

static void lists_are_in_the_batch(void **state)
{
    (void)state;
    struct data_spec spec = numbered();
    spec.list_count = 2;
    for (int all = 0; all < 2; all++) {
        columns[1].width = all; /* no columns are made, whatever it says */
        spec.lists_all = all == 1;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        const struct dataset_info *info = dataset_info(d);
        assert_int_equal(shape_count(&info->features), 0);
        assert_int_equal(info->fields.count, 2);
        assert_string_equal(info->fields.names[0], "1"); /* as the job calls it, not the file */
        assert_string_equal(info->fields.names[1], "2");
        struct batch b = fixture_read(d);
        const uint64_t *second = b.lists.offsets + b.lists.capacity + 1;
        assert_int_equal(b.lists.count, 2);
        assert_int_equal(b.lists.keys[0], 0);
        assert_int_equal(b.lists.keys[1], 2);
        assert_int_equal(second[1] - second[0], 2);
        assert_int_equal(second[2] - second[1], 0);
        assert_true(dataset_batch_bytes(d, 2) > 0);
        batch_release(&b);
        dataset_free(d);
    }
}

static void some_are_columns(void **state)
{
    (void)state;
    struct data_spec spec = numbered();
    spec.list_count = 1;
    columns[1].width = 4;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->features.dims[0], 4); /* those of field 2 */
    struct batch b = fixture_read(d);
    assert_float_equal(b.features[1] + b.features[2], 2.0F, 0.0F);
    const uint64_t *second = b.lists.offsets + b.lists.capacity + 1;
    assert_int_equal(second[2] - second[0], 0);
    batch_release(&b);
    dataset_free(d);
    columns[1].width = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "t.csv: no layer reads the sparse field 2, and it has no width; 'from: 2' of a "
                    "layer would read it, and width would feed it as columns");
}

/* The lists of a field that tells groups are there beside its columns, or without any. */
static void lists_of_groups(void **state)
{
    (void)state;
    struct data_spec spec = numbered();
    spec.list_count = 1;
    spec.group = "2";
    for (int64_t width = 0; width <= 4; width += 4) {
        columns[1].width = width;
        struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
        assert_int_equal(dataset_info(d)->features.dims[0], width);
        struct batch b = fixture_read(d);
        const uint64_t *second = b.lists.offsets + b.lists.capacity + 1;
        assert_int_equal(second[2] - second[0], 2);
        batch_release(&b);
        struct err err = {0};
        assert_int_equal(dataset_check_groups(d, "test", 0, &err), 0);
        assert_int_equal(dataset_check_groups(d, "test", 1, &err), ERR_INVALID);
        assert_string_equal(err.msg,
                            "test record 0 (from 0): its sparse field 2 has 2 keys, but "
                            "model.group_by takes the one that is its group; a field with one key "
                            "in every record would fit");
        dataset_free(d);
    }
    columns[1].width = 0;
}

static void limits_of_lists(void **state)
{
    (void)state;
    struct data_spec spec = numbered();
    spec.list_count = 2;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    struct err err = {0};
    struct list_limit limit = {.keys = 3,
                               .length = SIZE_MAX,
                               .layer = "layer 'x'",
                               .keys_hint = "more would fit",
                               .length_hint = "longer would fit"};
    assert_int_equal(dataset_check_lists(d, "train", 0, &limit, &err), 0);
    limit.keys = 2;
    assert_int_equal(dataset_check_lists(d, "train", 0, &limit, &err), ERR_INVALID);
    assert_string_equal(err.msg, "train record 1 (from 0): its sparse field 1 has the key 2, but "
                                 "layer 'x' has rows for the keys below 2; more would fit");
    limit.keys = UINT64_MAX;
    limit.length = 1;
    assert_int_equal(dataset_check_lists(d, "train", 0, &limit, &err), 0);
    assert_int_equal(dataset_check_lists(d, "test", 1, &limit, &err), ERR_INVALID);
    assert_string_equal(err.msg, "test record 0 (from 0): its sparse field 2 has 2 keys, but layer "
                                 "'x' takes 1; longer would fit");
    dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_in_the_batch),
        cmocka_unit_test(some_are_columns),
        cmocka_unit_test(lists_of_groups),
        cmocka_unit_test(limits_of_lists),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
