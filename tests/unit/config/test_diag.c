/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <string.h>

#include "config/diag.h"

static void test_order_is_file_then_position(void **state)
{
    (void)state;
    struct diags d = {0};
    struct buf out = {0};
    diags_add(&d, "job.yaml", 12, 3, "third %d", 3);
    diags_add(&d, "--set", 0, 0, "from a flag");
    diags_add(&d, "job.yaml", 2, 9, "second");
    diags_add(&d, "job.yaml", 2, 1, "first");
    diags_add(&d, "job.yaml", 2, 9, "second, again");
    diags_add(&d, "job.yaml", 40, 0, "last");
    diags_add(&d, "--set", 0, 0, "from another flag");
    diags_format(&d, &out);
    assert_string_equal(buf_str(&out), "job.yaml:2:1: first\n"
                                       "job.yaml:2:9: second\n"
                                       "job.yaml:2:9: second, again\n"
                                       "job.yaml:12:3: third 3\n"
                                       "job.yaml:40: last\n"
                                       "--set: from a flag\n"
                                       "--set: from another flag\n");
    buf_release(&out);
    diags_release(&d);
    assert_int_equal(d.count, 0);
}

static void test_the_list_is_bounded(void **state)
{
    (void)state;
    struct diags d = {0};
    for (unsigned i = 0; i < 3 * DIAGS_MAX; i++) {
        diags_add(&d, "f", 3 * DIAGS_MAX - i, 1, "problem");
    }
    assert_int_equal(d.count, DIAGS_MAX + 1);
    assert_string_equal(d.items[DIAGS_MAX].message,
                        "more than 500 problems; the rest is not listed");
    diags_release(&d);
}

static void test_keys(void **state)
{
    (void)state;
    static const struct {
        const char *message, *key;
    } cases[] = {
        {"training.mode: 'sink' is not known", "training.mode"},
        {"model.layers.1.units: 'x' is not a number", "model.layers.1.units"},
        {"data.train.file is missing; allowed: text", "data.train.file"},
        {"unknown key 'lables' in data.train; did you mean 'labels'?", "data.train.lables"},
        {"unknown key 'foo'; allowed: data", "foo"},
        {"the section 'model' is missing: The network", "model"},
        {"mapping values are not allowed in this context", ""},
        {"open x.yaml: No such file or directory", ""},
        {"unknown key ", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf key = {0};
        diag_key(cases[i].message, &key);
        assert_string_equal(buf_str(&key), cases[i].key);
        buf_release(&key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_order_is_file_then_position),
        cmocka_unit_test(test_the_list_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
