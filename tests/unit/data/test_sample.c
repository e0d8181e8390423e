/* SPDX-License-Identifier: Apache-2.0 */
/* data.negative_sampling: which records are kept, that they are found again, and that they are the
 * same in memory and from files (data_rig.c compares them). */
#include "unit/data/data_rig.h"

#include <math.h>

#include "base/buf.h"
#include "data/sample.h"

static char none[] = "", train_name[] = "t.csv", test_name[] = "u.csv";

/* @n records of one number, their own; every @each-th is positive. */
static void write_records(const char *name, size_t n, size_t each)
{
    struct buf text = {0};
    for (size_t i = 0; i < n; i++) {
        buf_printf(&text, "%zu,%d\n", i, i % each == 0);
    }
    fixture_write(name, text.data, text.len);
    buf_release(&text);
}

static struct data_spec sampled(double rate)
{
    struct data_spec spec = fixture_spec(train_name, none);
    spec.scale = DATA_SCALE_NONE;
    spec.negative_sampling = rate;
    return spec;
}

static void positions_lead_to_what_is_kept(void **state)
{
    (void)state;
    static const double rates[] = {0.001, 0.3, 0.999};
    for (size_t k = 0; k < sizeof rates / sizeof rates[0]; k++) {
        for (uint64_t n = 1; n < 3000; n = n * 3 + 1) {
            const struct data_spec spec = sampled(rates[k]);
            struct sample *s = NULL, *again = NULL;
            assert_int_equal(sample_new(&spec, 2, &s, NULL), 0);
            assert_int_equal(sample_new(&spec, 2, &again, NULL), 0);
            uint64_t *kept = mem_new((size_t)n, sizeof *kept), count = 0;
            for (uint64_t i = 0; i < n; i++) {
                if (sample_add(s, i % 50 == 0)) {
                    kept[count++] = i;
                }
            }
            assert_int_equal(sample_end(s, NULL), 0);
            assert_int_equal(s->kept, count);
            assert_true(sample_take(again, n, s->bits, s->words * sizeof *s->bits));
            for (uint64_t i = 0; i < count; i++) {
                assert_int_equal(sample_record(s, i), kept[i]);
                assert_int_equal(sample_record(again, i), kept[i]);
            }
            assert_true(sample_fingerprint(s, 7) == sample_fingerprint(again, 7));
            assert_true(sample_fingerprint(s, 7) != sample_fingerprint(s, 8));
            sample_free(again);
            assert_int_equal(sample_new(&spec, 2, &again, NULL), 0);
            assert_false(sample_take(again, n + 64, s->bits, s->words * sizeof *s->bits));
            sample_free(again);
            sample_free(s);
            free(kept);
        }
    }
}

/* All positives, a share of the negatives by the seed, and all test records. */
static void negatives_are_left_out(void **state)
{
    (void)state;
    static const double rates[] = {0.1, 0.5};
    uint64_t prints[5];
    size_t n = 0;
    write_records(train_name, 4000, 20);
    write_records(test_name, 500, 20);
    for (int64_t seed = 0; seed < 2; seed++) {
        for (size_t k = 0; k < 2; k++) {
            struct data_spec spec = sampled(rates[k]);
            spec.split_seed = seed;
            spec.test.file = test_name;
            struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
            struct batch b = fixture_read(train);
            uint64_t counts[2], classes[2] = {0};
            dataset_class_counts(train, counts);
            for (size_t i = 0; i < b.count; i++) {
                assert_int_equal(b.classes[i], (int)b.features[i] % 20 == 0);
                assert_true(i == 0 || b.features[i] > b.features[i - 1]);
                classes[b.classes[i]]++;
            }
            assert_memory_equal(counts, classes, sizeof counts);
            assert_int_equal(classes[1], 200);
            assert_true(fabs((double)classes[0] - 3800 * rates[k]) < 120);
            assert_int_equal(dataset_info(test)->records, 500);
            prints[n++] = dataset_info(train)->fingerprint;
            batch_release(&b);
            dataset_free(train);
            dataset_free(test);
        }
    }
    struct data_spec spec = sampled(1);
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 4000);
    prints[n++] = dataset_info(d)->fingerprint;
    dataset_free(d);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(prints[i] != prints[k]);
        }
    }
}

/* What is set aside for test is no negative that is left out. */
static void with_a_test_fraction(void **state)
{
    (void)state;
    write_records(train_name, 2000, 10);
    struct data_spec spec = sampled(0.25);
    spec.test_fraction = 0.2;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    spec.negative_sampling = 1;
    struct dataset *whole, *all = fixture_open(&spec, DATA_LABEL_CLASS, &whole);
    assert_int_equal(dataset_info(test)->records, dataset_info(whole)->records);
    assert_true(dataset_info(train)->records < dataset_info(all)->records / 2);
    dataset_free(train);
    dataset_free(test);
    dataset_free(all);
    dataset_free(whole);
}

static void what_has_no_negatives_is_refused(void **state)
{
    (void)state;
    fixture_text(train_name, "1,a\n2,b\n3,c\n");
    struct data_spec spec = sampled(0.5);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.negative_sampling: the data has 3 classes; only of two is one");
    fixture_text(train_name, "1,0\n2,0\n3,0\n");
    spec.classes = 2;
    spec.negative_sampling = 1e-9;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "of 3 train records, none of the second class, keeps none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_lead_to_what_is_kept),
        cmocka_unit_test(negatives_are_left_out),
        cmocka_unit_test(with_a_test_fraction),
        cmocka_unit_test(what_has_no_negatives_is_refused),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
