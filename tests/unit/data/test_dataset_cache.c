/* SPDX-License-Identifier: Apache-2.0 */
/* Data that are opened again: the same ones while nothing of them has changed. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/dataset_cache.h"
#include "os/file.h"

struct rig {
    char *dir;
    struct data_spec spec;
    struct dataset_cache *cache;
    struct dataset *train, *test;
    bool known;
};

static void write_file(const struct rig *r, const char *name, const char *text)
{
    char *path = file_join(r->dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    free(path);
}

static void begin(struct rig *r)
{
    *r = (struct rig){.dir = tmp_dir_make("cache")};
    field_defaults(data_fields, data_field_count, &r->spec);
    assert_int_equal(
        field_set(field_find(data_fields, data_field_count, "dir"), &r->spec, r->dir, NULL), 0);
    assert_int_equal(
        field_set(field_find(data_fields, data_field_count, "train.file"), &r->spec, "a.csv", NULL),
        0);
    write_file(r, "a.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n");
    r->cache = dataset_cache_new(NULL, NULL);
}

static void release(struct rig *r)
{
    dataset_free(r->train);
    dataset_free(r->test);
    r->train = r->test = NULL;
}

static void end(struct rig *r)
{
    release(r);
    dataset_cache_free(r->cache);
    field_release(data_fields, data_field_count, &r->spec);
    tmp_dir_remove(r->dir);
}

static int open_data(struct rig *r, enum data_label_kind kind)
{
    release(r);
    return dataset_cache_open(r->cache, &r->spec, kind, &r->train, &r->test, &r->known, NULL);
}

static void what_was_opened_is_known(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    assert_int_equal(open_data(&r, DATA_LABEL_CLASS), 0);
    assert_false(r.known);
    assert_int_equal(dataset_info(r.train)->records, 4);
    uint64_t fingerprint = dataset_info(r.train)->fingerprint;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_data(&r, DATA_LABEL_CLASS), 0);
        assert_true(r.known);
        assert_int_equal(dataset_info(r.train)->fingerprint, fingerprint);
    }
    end(&r);
}

static void what_has_changed_is_read_again(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    assert_int_equal(open_data(&r, DATA_LABEL_CLASS), 0);
    assert_int_equal(open_data(&r, DATA_LABEL_REAL), 0); /* other labels */
    assert_false(r.known);
    r.spec.test_fraction = 0.5; /* another key */
    assert_int_equal(open_data(&r, DATA_LABEL_REAL), 0);
    assert_false(r.known);
    assert_int_equal(dataset_info(r.test)->records, 2);
    assert_int_equal(open_data(&r, DATA_LABEL_REAL), 0);
    assert_true(r.known);
    assert_non_null(r.test);
    write_file(&r, "a.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,9,1\n9,8,0\n"); /* another file */
    assert_int_equal(open_data(&r, DATA_LABEL_REAL), 0);
    assert_false(r.known);
    assert_int_equal(dataset_info(r.train)->records + dataset_info(r.test)->records, 6);
    char *path = file_join(r.dir, "a.csv");
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}}; /* or another time */
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(open_data(&r, DATA_LABEL_REAL), 0);
    assert_false(r.known);
    assert_int_equal(unlink(path), 0);
    assert_int_not_equal(open_data(&r, DATA_LABEL_REAL),
                         0); /* and what is not there is not known */
    write_file(&r, "a.csv", "1,2,0\n3,4,1\n");
    assert_int_equal(open_data(&r, DATA_LABEL_REAL), 0);
    assert_false(r.known);
    free(path);
    end(&r);
}

static void a_new_file_of_a_pattern_is_read(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    assert_int_equal(
        field_set(field_find(data_fields, data_field_count, "train.file"), &r.spec, "a*.csv", NULL),
        0);
    assert_int_equal(open_data(&r, DATA_LABEL_CLASS), 0);
    assert_int_equal(open_data(&r, DATA_LABEL_CLASS), 0);
    assert_true(r.known);
    write_file(&r, "a2.csv", "1,2,0\n3,4,1\n");
    assert_int_equal(open_data(&r, DATA_LABEL_CLASS), 0);
    assert_false(r.known);
    assert_int_equal(dataset_info(r.train)->records, 6);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_opened_is_known),
        cmocka_unit_test(what_has_changed_is_read_again),
        cmocka_unit_test(a_new_file_of_a_pattern_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
