/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tensor/init.h"

#define COUNT 40000

struct expected {
    struct init init;
    double mean, deviation; /* of the distribution */
    double low, high;       /* values lie in [low, high) */
};

static const struct expected distributions[] = {
    {{INIT_ZEROS, 7, 7, 3, 3}, 0, 0, 0, 1e-30},
    {{INIT_CONSTANT, 2.5, 7, 3, 3}, 2.5, 0, 2.5, 2.6},
    {{INIT_UNIFORM, -1, 3, 3, 3}, 1, 1.154700538, -1, 3},
    {{INIT_NORMAL, 0.5, 2, 3, 3}, 0.5, 2, -12, 13},
    /* the deviation of a normal cut at 2 is 0.879626 */
    {{INIT_TRUNCATED_NORMAL, 1, 0.5, 3, 3}, 1, 0.439813, 0, 2.000001},
    {{INIT_GLOROT_UNIFORM, 0, 0, 30, 70}, 0, 0.141421356, -0.244949, 0.244950},
    {{INIT_GLOROT_NORMAL, 0, 0, 30, 70}, 0, 0.141421356, -1, 1},
    {{INIT_HE_UNIFORM, 0, 0, 50, 70}, 0, 0.2, -0.346411, 0.346411},
    {{INIT_HE_NORMAL, 0, 0, 50, 70}, 0, 0.2, -1.3, 1.3},
    {{INIT_LECUN_UNIFORM, 0, 0, 25, 70}, 0, 0.2, -0.346411, 0.346411},
    {{INIT_LECUN_NORMAL, 0, 0, 25, 70}, 0, 0.2, -1.3, 1.3},
};

static void test_distributions(void **state)
{
    (void)state;
    float *v = mem_new(COUNT, sizeof *v);
    assert_int_equal(INIT_KIND_COUNT, sizeof distributions / sizeof distributions[0]);
    for (size_t k = 0; k < INIT_KIND_COUNT; k++) {
        const struct expected *e = &distributions[k];
        double sum = 0, squares = 0;
        assert_int_equal(k, e->init.kind);
        init_fill(&e->init, 3, "dense_1.kernel", 0, COUNT, v);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true((double)v[i] >= e->low && (double)v[i] < e->high);
            sum += (double)v[i];
            squares += ((double)v[i] - e->mean) * ((double)v[i] - e->mean);
        }
        /* Four standard errors of the mean, and of the deviation (kurtosis of a normal or less). */
        const double error = e->deviation / sqrt(COUNT);
        assert_true(fabs(sum / COUNT - e->mean) <= 4 * error);
        assert_true(fabs(sqrt(squares / COUNT) - e->deviation) <= 4 * error * sqrt(0.5));
    }
    free(v);
}

/* Any cut of the range gives the same bits. */
static void test_partitions_do_not_matter(void **state)
{
    (void)state;
    float whole[1000], part[1000];
    for (size_t k = 0; k < INIT_KIND_COUNT; k++) {
        const struct init *init = &distributions[k].init;
        init_fill(init, 11, "v", 5, 1000, whole);
        for (size_t at = 0, n = 1; at < 1000; at += n, n = n * 3 + 1) {
            n = n > 1000 - at ? 1000 - at : n;
            init_fill(init, 11, "v", 5 + at, n, part + at);
        }
        assert_memory_equal(whole, part, sizeof whole);
    }
}

static void test_seed_and_name_matter(void **state)
{
    (void)state;
    const struct init init = {.kind = INIT_UNIFORM, .a = 0, .b = 1};
    float a[64], b[64];
    init_fill(&init, 1, "a.kernel", 0, 64, a);
    init_fill(&init, 2, "a.kernel", 0, 64, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
    init_fill(&init, 1, "b.kernel", 0, 64, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
}

/* A uniform over two neighbouring floats gives the lower one only: the end is open. */
static void test_open_end(void **state)
{
    (void)state;
    const struct init init = {.kind = INIT_UNIFORM, .a = 1.0, .b = 0x1.000002p0};
    float v[256];
    init_fill(&init, 1, "v", 0, 256, v);
    for (size_t i = 0; i < 256; i++) {
        assert_true(v[i] == 1.0F);
    }
}

static void test_names(void **state)
{
    (void)state;
    for (size_t k = 0; k < INIT_KIND_COUNT; k++) {
        assert_non_null(init_kind_names[k]);
    }
    assert_null(init_kind_names[INIT_KIND_COUNT]);
    assert_string_equal("truncated_normal", init_kind_names[INIT_TRUNCATED_NORMAL]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_partitions_do_not_matter),
        cmocka_unit_test(test_seed_and_name_matter),
        cmocka_unit_test(test_open_end),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
