/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets a row: exact counts beside an array, a filter that never counts too low, a share. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "table/table_admission.h"

#define BYTES_MAX ((uint64_t)1 << 28)
#define KEYS 4000

static struct table_admission_spec spec_of(enum table_admission_kind kind, uint32_t sightings)
{
    return (struct table_admission_spec){.kind = kind,
                                         .sightings = sightings,
                                         .bytes = 65536,
                                         .probability = 0.3,
                                         .seed = 5,
                                         .name = "users"};
}

static uint64_t key_of(size_t i)
{
    return i == 0 ? UINT64_MAX : i == 1 ? 0 : rng_u64(5, i);
}

/* Sightings in pieces of @piece, forwards or backwards; what they add up to is the same. */
static void note_all(struct table_admission *a, size_t piece, bool backwards, uint64_t *counted)
{
    enum { N = 3 * KEYS };
    static uint64_t keys[N];
    static uint32_t times[N];
    memset(counted, 0, KEYS * sizeof *counted);
    for (size_t i = 0; i < N; i++) {
        const size_t k = (size_t)(rng_uniform(1, i) * rng_uniform(2, i) * KEYS);
        const size_t at = backwards ? N - 1 - i : i;
        keys[at] = key_of(k);
        times[at] = (uint32_t)rng_below(3, i, 4);
        counted[k] += times[at];
    }
    for (size_t at = 0; at < N; at += piece) {
        const size_t n = N - at < piece ? N - at : piece;
        assert_int_equal(table_admission_note(a, keys + at, times + at, n, NULL), 0);
    }
}

static void test_counted(void **state)
{
    (void)state;
    static uint64_t counted[KEYS];
    for (uint32_t sightings = 1; sightings <= 7; sightings += 2) {
        struct table_budget budget = {.bytes_max = BYTES_MAX};
        struct table_admission a;
        const struct table_admission_spec spec = spec_of(TABLE_ADMIT_COUNTED, sightings);
        assert_int_equal(table_admission_init(&a, &spec, &budget, NULL), 0);
        note_all(&a, sightings * 100, sightings == 3, counted);
        for (size_t i = 0; i < KEYS; i++) {
            assert_int_equal(table_admission_admits(&a, key_of(i)), counted[i] >= sightings);
        }
        table_admission_forget(&a, key_of(1));
        assert_false(table_admission_admits(&a, key_of(1)));
        const uint64_t key = key_of(1);
        for (uint32_t k = 0; k < sightings; k++) {
            assert_false(table_admission_admits(&a, key));
            assert_int_equal(table_admission_note(&a, &key, NULL, 1, NULL), 0);
        }
        assert_true(table_admission_admits(&a, key));
        assert_true(budget.bytes > 0);
        table_admission_release(&a);
        assert_int_equal(budget.bytes, 0);
    }
}

static void test_counts_stop(void **state)
{
    (void)state;
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    const uint64_t key = 9;
    const uint32_t many = UINT32_MAX;
    struct table_admission a;
    struct table_admission_spec spec = spec_of(TABLE_ADMIT_COUNTED, UINT32_MAX - 1);
    assert_int_equal(table_admission_init(&a, &spec, &budget, NULL), 0);
    assert_int_equal(table_admission_note(&a, &key, NULL, 1, NULL), 0);
    assert_false(table_admission_admits(&a, key));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(table_admission_note(&a, &key, &many, 1, NULL), 0);
        assert_true(table_admission_admits(&a, key));
    }
    table_admission_release(&a);
    spec = spec_of(TABLE_ADMIT_BLOOM, 255);
    assert_int_equal(table_admission_init(&a, &spec, &budget, NULL), 0);
    const uint32_t some = 254;
    assert_int_equal(table_admission_note(&a, &key, &some, 1, NULL), 0);
    assert_false(table_admission_admits(&a, key));
    assert_int_equal(table_admission_note(&a, &key, &many, 1, NULL), 0);
    assert_true(table_admission_admits(&a, key));
    table_admission_release(&a);
    assert_int_equal(budget.bytes, 0);
}

/* Never too low, seldom too high, and the same in any order. */
static void test_bloom(void **state)
{
    (void)state;
    static uint64_t counted[KEYS];
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    struct table_admission a, b;
    const struct table_admission_spec spec = spec_of(TABLE_ADMIT_BLOOM, 5);
    assert_int_equal(table_admission_init(&a, &spec, &budget, NULL), 0);
    assert_int_equal(table_admission_init(&b, &spec, &budget, NULL), 0);
    assert_int_equal(budget.bytes, 131072);
    note_all(&b, 77, true, counted);
    note_all(&a, 1000, false, counted);
    assert_memory_equal(a.counters, b.counters, 65536);
    size_t early = 0, admitted = 0;
    for (size_t i = 0; i < KEYS; i++) {
        const bool admits = table_admission_admits(&a, key_of(i));
        assert_true(admits || counted[i] < 5);
        early += admits && counted[i] < 5;
        admitted += admits;
        table_admission_forget(&a, key_of(i));
        assert_int_equal(table_admission_admits(&a, key_of(i)), admits);
    }
    assert_in_range(admitted, KEYS / 8, KEYS);
    assert_true(early < KEYS / 50);
    for (size_t i = 0; i < KEYS; i++) {
        early += table_admission_admits(&a, rng_u64(99, i));
    }
    assert_true(early < KEYS / 25);
    table_admission_release(&a);
    table_admission_release(&b);
    assert_int_equal(budget.bytes, 0);
}

static size_t admitted_by(const struct table_admission_spec *spec, bool *admits)
{
    struct table_budget budget = {.bytes_max = 0};
    struct table_admission a;
    size_t n = 0;
    assert_int_equal(table_admission_init(&a, spec, &budget, NULL), 0);
    for (size_t i = 0; i < KEYS; i++) {
        const uint64_t key = key_of(i);
        assert_int_equal(table_admission_note(&a, &key, NULL, 1, NULL), 0);
        admits[i] = table_admission_admits(&a, key);
        n += admits[i];
    }
    table_admission_release(&a);
    return n;
}

static void test_probability(void **state)
{
    (void)state;
    static bool first[KEYS], again[KEYS];
    struct table_admission_spec spec = spec_of(TABLE_ADMIT_PROBABILITY, 0);
    const double share = (double)admitted_by(&spec, first) / KEYS;
    assert_true(fabs(share - 0.3) < 0.03);
    (void)admitted_by(&spec, again);
    assert_memory_equal(first, again, sizeof first);
    spec.name = "items";
    (void)admitted_by(&spec, again);
    assert_memory_not_equal(first, again, sizeof first);
    spec.name = "users";
    spec.seed++;
    (void)admitted_by(&spec, again);
    assert_memory_not_equal(first, again, sizeof first);
    spec.probability = 1;
    assert_int_equal(admitted_by(&spec, again), KEYS);
    spec.probability = 0;
    assert_int_equal(admitted_by(&spec, again), 0);
    spec.kind = TABLE_ADMIT_ALL;
    assert_int_equal(admitted_by(&spec, again), KEYS);
}

static void test_errors(void **state)
{
    (void)state;
    struct table_budget budget = {.bytes_max = 200000};
    struct table_admission a;
    struct err err;
    struct table_admission_spec bad[] = {
        spec_of(TABLE_ADMIT_COUNTED, 0),     spec_of(TABLE_ADMIT_COUNTED, UINT32_MAX),
        spec_of(TABLE_ADMIT_BLOOM, 0),       spec_of(TABLE_ADMIT_BLOOM, 256),
        spec_of(TABLE_ADMIT_BLOOM, 2),       spec_of(TABLE_ADMIT_PROBABILITY, 0),
        spec_of(TABLE_ADMIT_PROBABILITY, 0), spec_of(TABLE_ADMIT_PROBABILITY, 0),
    };
    bad[4].bytes = 3;
    bad[5].probability = -0.1;
    bad[6].probability = 1.1;
    bad[7].probability = (double)NAN;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(table_admission_init(&a, &bad[i], &budget, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "table users: "));
    }
    struct table_admission_spec spec = spec_of(TABLE_ADMIT_BLOOM, 2);
    spec.bytes = 262144;
    assert_int_equal(table_admission_init(&a, &spec, &budget, &err), ERR_EXHAUSTED);
    assert_int_equal(budget.bytes, 0);
    spec.kind = TABLE_ADMIT_COUNTED;
    assert_int_equal(table_admission_init(&a, &spec, &budget, &err), 0);
    int rc = 0;
    uint64_t n = 0;
    for (; rc == 0; n++) {
        const uint64_t twice[] = {n, n};
        rc = table_admission_note(&a, twice, NULL, 2, &err);
    }
    assert_int_equal(rc, ERR_EXHAUSTED);
    assert_true(strncmp(err.msg, "sightings of key ", 17) == 0);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(table_admission_admits(&a, i), i < n - 1);
    }
    table_admission_release(&a);
    table_admission_release(&a);
    assert_int_equal(budget.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted), cmocka_unit_test(test_counts_stop),
        cmocka_unit_test(test_bloom),   cmocka_unit_test(test_probability),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
