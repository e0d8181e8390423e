/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "cli/job_changes.h"

static void is(const char *before, const char *after, const char *const expected[][3], size_t n)
{
    struct job_changes c;
    job_changes_make(before, after, &c);
    assert_int_equal(c.count, n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(c.items[i].key, expected[i][0]);
        assert_string_equal(c.items[i].from, expected[i][1]);
        assert_string_equal(c.items[i].to, expected[i][2]);
    }
    job_changes_release(&c);
}

static const char BASE[] = "name: x\nmodel:\n  layers:\n    - dense: {units: 3}\n"
                           "training:\n  mode: sync\n  evaluate_every: 1 epoch\n"
                           "cluster:\n  workers: 2\n";

static void values_that_differ_are_listed(void **state)
{
    (void)state;
    is(BASE, BASE, NULL, 0);
    static const char *const one[][3] = {{"training.mode", "sync", "async"},
                                         {"cluster.workers", "2", "2..8"}};
    is(BASE,
       "name: x\nmodel:\n  layers:\n    - dense: {units: 3}\n"
       "training:\n  mode: async\n  evaluate_every: 1 epoch\n"
       "cluster:\n  workers: 2..8\n",
       one, 2);
    static const char *const other[][3] = {
        {"name", "x", "y"},
        {"model.layers", "- dense:     units: 3", "- dense:     units: 4"},
        {"training.epochs", "", "5"},
        {"training.mode", "sync", ""},
        {"training.evaluate_every", "1 epoch", ""}};
    is(BASE,
       "name: y\nmodel:\n  layers:\n    - dense: {units: 4}\n"
       "training:\n  epochs: 5\ncluster:\n  workers: 2\n",
       other, 5);
}

static void any_text_is_fine(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "[", "a", "- 1", "a: [1", "training: 3", BASE};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
            struct job_changes c;
            job_changes_make(texts[i], texts[k], &c);
            job_changes_release(&c);
        }
    }
    static const char *const all[][3] = {{"training", "", "3"}};
    is("", "training: 3", all, 1);
    static const char *const section[][3] = {{"training", "3", "mode: sync"}};
    is("training: 3", "training:\n  mode: sync\n", section, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_that_differ_are_listed),
                                       cmocka_unit_test(any_text_is_fine)};
    return cmocka_run_group_tests_name("job_changes", tests, NULL, NULL);
}
