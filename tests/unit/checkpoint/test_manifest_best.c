/* SPDX-License-Identifier: Apache-2.0 */
/* What manifests say of the best version, and how it is found beside them. */
#include "checkpoint_rig.h"

#include <math.h>

#include "checkpoint/manifest.h"

/* The checkpoint of @step says that. Returns its path, owned. */
static char *write_best(const struct fixture *f, uint64_t step, const struct best *best,
                        bool result)
{
    char *path = write_checkpoint(f, 1, step, step);
    struct manifest m = {0};
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    m.best = *best;
    m.result_is_best = result;
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    return path;
}

static void it_comes_back_to_the_bit(void **state)
{
    const struct fixture *f = *state;
    static const double values[] = {0.1, -0.0, 1e-310, INFINITY, 1e308};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const struct best best = {.metric = METRIC_MAE,
                                  .count = 7,
                                  .last = 70,
                                  .known = true,
                                  .value = values[i],
                                  .step = 40,
                                  .without = 3,
                                  .stops = i % 2 == 0,
                                  .kept = i % 2 == 1,
                                  .kept_step = i % 2 == 1 ? 20 : 0};
        char *path = write_best(f, 70, &best, i == 2);
        struct manifest m = {0};
        assert_int_equal(manifest_read(path, &m, NULL), 0);
        assert_memory_equal(&m.best.value, &best.value, sizeof best.value);
        assert_int_equal(m.best.metric, METRIC_MAE);
        assert_int_equal(m.best.count, 7);
        assert_int_equal(m.best.last, 70);
        assert_true(m.best.known);
        assert_int_equal(m.best.step, 40);
        assert_int_equal(m.best.without, 3);
        assert_int_equal(m.best.stops, best.stops);
        assert_int_equal(m.best.kept, best.kept);
        assert_int_equal(m.best.kept_step, best.kept_step);
        assert_int_equal(m.result_is_best, i == 2);
        manifest_release(&m);
        free(path);
    }
}

static void without_one_nothing_is_said(void **state)
{
    const struct fixture *f = *state;
    char *path = write_best(f, 10, &(struct best){0}, false);
    struct buf text = {0};
    read_whole(path, MANIFEST_NAME, &text);
    assert_null(strstr(buf_str(&text), "\"best\""));
    buf_release(&text);
    char *best = NULL;
    struct err err = {0};
    assert_int_equal(checkpoint_best(path, &best, &err), ERR_NOT_FOUND);
    assert_message(err, "no best version was kept");
    assert_null(best);
    free(path);
}

static void it_lies_beside(void **state)
{
    const struct fixture *f = *state;
    const struct best best = {.count = 3, .last = 30, .known = true, .kept = true, .kept_step = 10};
    char *ten = write_best(f, 10, &best, false), *thirty = write_best(f, 30, &best, true);
    char *path = NULL;
    assert_int_equal(checkpoint_best(ten, &path, NULL), 0); /* itself */
    assert_string_equal(path, ten);
    free(path);
    assert_int_equal(checkpoint_best(thirty, &path, NULL), 0);
    assert_non_null(strstr(path, "/step-000000010"));
    free(path);
    /* The job ended with it: that is what its directory resolves to. */
    assert_int_equal(checkpoint_resolve(f->dir, &path, NULL, NULL), 0);
    assert_non_null(strstr(path, "/step-000000010"));
    free(path);
    assert_int_equal(checkpoint_resolve(thirty, &path, NULL, NULL),
                     0); /* who names one gets that one */
    assert_string_equal(path, thirty);
    free(path);
    /* It is gone: there is the newest. */
    assert_int_equal(checkpoint_discard(f->dir, 10, NULL), 0);
    path = NULL;
    struct err err = {0};
    assert_int_equal(checkpoint_best(thirty, &path, &err), ERR_NOT_FOUND);
    assert_message(err, "the best version of checkpoint ");
    assert_int_equal(checkpoint_resolve(f->dir, &path, NULL, NULL), 0);
    assert_string_equal(path, thirty);
    free(path);
    free(ten);
    free(thirty);
}

/* While the job goes on its newest version is what there is. */
static void only_an_end_makes_it_the_result(void **state)
{
    const struct fixture *f = *state;
    const struct best best = {.count = 3, .last = 30, .known = true, .kept = true, .kept_step = 10};
    char *ten = write_best(f, 10, &best, false), *thirty = write_best(f, 30, &best, false);
    char *path = NULL;
    assert_int_equal(checkpoint_resolve(f->dir, &path, NULL, NULL), 0);
    assert_string_equal(path, thirty);
    free(path);
    free(ten);
    free(thirty);
}

static void several_names_stay(void **state)
{
    const struct fixture *f = *state;
    for (uint64_t step = 10; step <= 50; step += 10) {
        free(write_checkpoint(f, 1, step, step));
    }
    const char *const named[] = {"step-000000010", "/elsewhere/t-1/step-000000030"};
    assert_int_equal(checkpoint_prune(f->dir, 1, named, 2, NULL), 0);
    for (uint64_t step = 10; step <= 50; step += 10) {
        char *path = checkpoint_step_path(f->dir, step);
        struct manifest m = {0};
        bool there = manifest_read(path, &m, NULL) == 0;
        assert_int_equal(there, step == 10 || step == 30 || step == 50);
        manifest_release(&m);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_comes_back_to_the_bit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(without_one_nothing_is_said, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(it_lies_beside, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(only_an_end_makes_it_the_result, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(several_names_stay, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
