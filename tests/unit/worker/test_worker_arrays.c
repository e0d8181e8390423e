/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that a job left for its next start. */
#include "support/test.h"

#include <stdlib.h>

#include "worker/job/worker_arrays.h"

#define FLOATS 1000

static float *take(struct worker_arrays *a, size_t floats)
{
    struct err err;
    float *array = worker_arrays_take(a, floats, "an array", &err);
    assert_non_null(array);
    return array;
}

static void the_next_start_has_them(void **state)
{
    (void)state;
    struct worker_arrays *a = worker_arrays_new();
    worker_arrays_of(a, "job-1");
    float *first = take(a, FLOATS), *second = take(a, FLOATS);
    assert_true(first[0] == 0.0F && first[FLOATS - 1] == 0.0F);
    first[0] = 1;
    second[0] = 2;
    worker_arrays_give(a, first, FLOATS);
    worker_arrays_give(a, second, FLOATS);
    worker_arrays_give(a, NULL, FLOATS);
    worker_arrays_of(a, "job-1");
    float *again = take(a, FLOATS), *other = take(a, FLOATS), *third = take(a, FLOATS);
    assert_true(again[0] + other[0] == 3.0F);
    assert_true(third[0] == 0.0F);
    worker_arrays_give(a, again, FLOATS);
    worker_arrays_free(a); /* the leak sanitizer sees what it does not free */
    free(other);
    free(third);
}

static void another_job_or_size_has_its_own(void **state)
{
    (void)state;
    struct worker_arrays *a = worker_arrays_new();
    worker_arrays_of(a, "job-1");
    float *array = take(a, FLOATS);
    array[0] = 1;
    worker_arrays_give(a, array, FLOATS);
    worker_arrays_of(a, "job-2");
    array = take(a, FLOATS);
    assert_true(array[0] == 0.0F);
    array[0] = 1;
    worker_arrays_give(a, array, FLOATS);
    float *larger = take(a, FLOATS + 1);
    assert_true(larger[0] == 0.0F && larger[FLOATS] == 0.0F);
    array = take(a, FLOATS);
    assert_true(array[0] == 0.0F);
    array[0] = 1;
    worker_arrays_give(a, array, FLOATS);
    worker_arrays_clear(a);
    array = take(a, FLOATS);
    assert_true(array[0] == 0.0F);
    free(array);
    free(larger);
    worker_arrays_free(a);
    worker_arrays_free(NULL);
}

static void there_are_so_many_at_most(void **state)
{
    (void)state;
    struct worker_arrays *a = worker_arrays_new();
    float *arrays[WORKER_ARRAYS_MAX + 1];
    worker_arrays_of(a, "job-1");
    for (size_t i = 0; i <= WORKER_ARRAYS_MAX; i++) {
        arrays[i] = take(a, FLOATS);
    }
    for (size_t i = 0; i <= WORKER_ARRAYS_MAX; i++) {
        worker_arrays_give(a, arrays[i], FLOATS);
    }
    struct err err;
    assert_null(worker_arrays_take(a, SIZE_MAX / sizeof(float), "an array", &err));
    assert_int_equal(err.code, ERR_EXHAUSTED);
    worker_arrays_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_start_has_them),
        cmocka_unit_test(another_job_or_size_has_its_own),
        cmocka_unit_test(there_are_so_many_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
