/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "graph/loss.h"
#include "support/models.h"

#define ALL (1U << METRIC_LOSS | 1U << METRIC_ACCURACY | 1U << METRIC_AUC | 1U << METRIC_RMSE)

/* Run @kind over outputs y[count × width] and labels; @dy may be NULL. */
static void run(enum loss_kind kind, size_t count, size_t width, const float *y, int32_t *classes,
                float *targets, float *dy, struct metrics *m)
{
    const struct batch b = {
        .capacity = count, .count = count, .classes = classes, .targets = targets};
    float scratch[64];
    const struct loss_run r = {
        .width = width, .y = y, .batch = &b, .dy = dy, .scratch = scratch, .metrics = m};
    loss_of(kind)->run(&r);
    loss_count_examples(&r);
}

static void test_softmax(void **state)
{
    (void)state;
    const float y[6] = {1, 2, 3, -1000, 0, 1000}; /* the second row must not overflow */
    int32_t classes[2] = {1, 2};
    float dy[6];
    struct metrics m;
    metrics_init(&m, 1U << METRIC_ACCURACY);
    run(LOSS_SOFTMAX_CROSS_ENTROPY, 2, 3, y, classes, NULL, dy, &m);
    const double sum = exp(1) + exp(2) + exp(3);
    assert_true(fabs(m.loss_sum - (log(sum) - 2.0)) < 1e-6);
    assert_true(fabs(metrics_value(&m, METRIC_ACCURACY, 1) - 0.5) < 1e-12);
    assert_true(fabs((double)dy[0] - exp(1) / sum) < 1e-6);
    assert_true(fabs((double)dy[1] - (exp(2) / sum - 1.0)) < 1e-6);
    assert_true(dy[3] == 0.0F && dy[5] == 0.0F);
    struct metrics again;
    metrics_init(&again, 1U << METRIC_ACCURACY);
    run(LOSS_SOFTMAX_CROSS_ENTROPY, 2, 3, y, classes, NULL, NULL, &again); /* without gradient */
    assert_true(again.loss_sum == m.loss_sum && again.correct == m.correct);
    metrics_release(&m);
    metrics_release(&again);
}

/* A model that says the same of every class, as before its first step, is right about the first. */
static void test_of_equal_outputs_the_first_counts(void **state)
{
    (void)state;
    const float y[9] = {0, 0, 0, 0, 0, 0, 1, 2, 2};
    int32_t classes[3] = {0, 2, 1};
    struct metrics m;
    metrics_init(&m, 1U << METRIC_ACCURACY);
    run(LOSS_SOFTMAX_CROSS_ENTROPY, 3, 3, y, classes, NULL, NULL, &m);
    assert_true(m.correct == 2.0);
    metrics_release(&m);
}

static void test_sigmoid(void **state)
{
    (void)state;
    const float y[5] = {0.5F, -2.0F, 800.0F, -800.0F, 800.0F};
    float targets[5] = {1, 0, 1, 1, 0}, dy[5];
    struct metrics m;
    metrics_init(&m, ALL);
    run(LOSS_SIGMOID_CROSS_ENTROPY, 5, 1, y, NULL, targets, dy, &m);
    const double expected = log1p(exp(-0.5)) + log1p(exp(-2.0)) + 0.0 + 800.0 + 800.0;
    assert_true(fabs(m.loss_sum - expected) < 1e-6);
    assert_true(metrics_value(&m, METRIC_ACCURACY, 1) == 0.6);
    assert_true(fabs((double)dy[0] - (1.0 / (1.0 + exp(-0.5)) - 1.0)) < 1e-6);
    assert_true(dy[2] == 0.0F && dy[3] == -1.0F && dy[4] == 1.0F);
    metrics_release(&m);
}

static void test_squared_error(void **state)
{
    (void)state;
    const float y[3] = {1, 2, 5};
    float targets[3] = {0, 2, 3}, dy[3];
    struct metrics m;
    metrics_init(&m, 1U << METRIC_RMSE);
    run(LOSS_MEAN_SQUARED_ERROR, 3, 1, y, NULL, targets, dy, &m);
    assert_true(fabs(metrics_value(&m, METRIC_LOSS, 10) - 5.0 / 3.0) < 1e-12);
    assert_true(fabs(metrics_value(&m, METRIC_RMSE, 10) - 10 * sqrt(5.0 / 3.0)) < 1e-12);
    assert_true(dy[0] == 2.0F && dy[1] == 0.0F && dy[2] == 4.0F);
    metrics_release(&m);
}

static void test_absolute_error(void **state)
{
    (void)state;
    const float y[3] = {1, 2, 5};
    float targets[3] = {0, 2, 7}, dy[3];
    struct metrics m;
    metrics_init(&m, 1U << METRIC_MAE);
    run(LOSS_MEAN_SQUARED_ERROR, 3, 1, y, NULL, targets, dy, &m);
    assert_true(fabs(metrics_value(&m, METRIC_MAE, 10) - 10.0) < 1e-12);
    assert_true(isnan(metrics_value(&m, METRIC_NORMALISED_ENTROPY, 1)));
    metrics_release(&m);
}

/* A model that says the base rate has 1; one that knows better has less. */
static void test_normalised_entropy(void **state)
{
    (void)state;
    const float base = -1.0986123F; /* the logit of one in four */
    const float rate[4] = {base, base, base, base}, better[4] = {2, -2, -2, -2};
    float targets[4] = {1, 0, 0, 0}, dy[4];
    struct metrics m;
    metrics_init(&m, 1U << METRIC_NORMALISED_ENTROPY);
    run(LOSS_SIGMOID_CROSS_ENTROPY, 4, 1, rate, NULL, targets, dy, &m);
    assert_true(fabs(metrics_value(&m, METRIC_NORMALISED_ENTROPY, 1) - 1.0) < 1e-6);
    metrics_reset(&m);
    run(LOSS_SIGMOID_CROSS_ENTROPY, 4, 1, better, NULL, targets, dy, &m);
    const double entropy = -(0.25 * log(0.25) + 0.75 * log(0.75));
    const double expected = log1p(exp(-2.0)) / entropy;
    assert_true(fabs(metrics_value(&m, METRIC_NORMALISED_ENTROPY, 1) - expected) < 1e-6);
    metrics_reset(&m);
    targets[0] = 0;
    run(LOSS_SIGMOID_CROSS_ENTROPY, 4, 1, better, NULL, targets, dy, &m);
    assert_true(isnan(metrics_value(&m, METRIC_NORMALISED_ENTROPY, 1))); /* no base rate */
    metrics_release(&m);
}

/* Sums that not every job has travel where they are on, and parts add up. */
static void test_sums_that_are_on(void **state)
{
    (void)state;
    static const unsigned sets[] = {1U << METRIC_MAE, 1U << METRIC_NORMALISED_ENTROPY,
                                    1U << METRIC_MAE | 1U << METRIC_NORMALISED_ENTROPY |
                                        1U << METRIC_AUC};
    double packed[32];
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct metrics a, b;
        metrics_init(&a, sets[i]);
        metrics_init(&b, sets[i]);
        a.examples = 4;
        a.absolute_error_sum = (sets[i] & 1U << METRIC_MAE) != 0 ? 6.5 : 0;
        a.label_sum = (sets[i] & 1U << METRIC_NORMALISED_ENTROPY) != 0 ? 3 : 0;
        const bool auc = (sets[i] & 1U << METRIC_AUC) != 0;
        if (auc) {
            tally_reserve(&a.scores, 2 * METRIC_AUC_BINS);
            a.scores.cells[7] = 5;
            a.scores.cells[2 * METRIC_AUC_BINS - 1] = 6;
        }
        const size_t n = metrics_pack(&a, packed);
        assert_int_equal(n, metrics_pack(&a, NULL));
        assert_int_equal(metrics_unpack(&b, packed, n, NULL), 0);
        metrics_merge(&b, &a);
        assert_true(b.examples == 8 && b.absolute_error_sum == 2 * a.absolute_error_sum &&
                    b.label_sum == 2 * a.label_sum);
        assert_true(!auc ||
                    (b.scores.cells[7] == 10 && b.scores.cells[2 * METRIC_AUC_BINS - 1] == 12));
        metrics_release(&a);
        metrics_release(&b);
    }
}

static void test_diverged_outputs_do_no_harm(void **state)
{
    (void)state;
    const float y[4] = {NAN, INFINITY, -INFINITY, NAN};
    int32_t classes[2] = {0, 1};
    float targets[4] = {1, 0, 1, 0}, dy[4];
    for (int kind = 0; kind < LOSS_AUTO; kind++) {
        struct metrics m;
        const bool softmax = kind == LOSS_SOFTMAX_CROSS_ENTROPY;
        const size_t width = softmax ? 2U : 1U;
        metrics_init(&m, ALL);
        run((enum loss_kind)kind, 4 / width, width, y, classes, targets, dy, &m);
        assert_true(isfinite(m.loss_sum) == 0); /* it shows */
        metrics_release(&m);
    }
}

static void test_no_examples(void **state)
{
    (void)state;
    struct metrics m;
    metrics_init(&m, ALL);
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        assert_true(isnan(metrics_value(&m, (enum metric_kind)k, 1)));
    }
    m.examples = 3; /* but none of one class */
    m.weight = 3;
    tally_reserve(&m.scores, 2 * METRIC_AUC_BINS);
    m.scores.cells[5] = 3U;
    assert_true(isnan(metrics_value(&m, METRIC_AUC, 1)));
    metrics_release(&m);
    metrics_init(&m, 0);
    m.examples = 1;
    m.weight = 1;
    assert_true(isnan(metrics_value(&m, METRIC_RMSE, 1))); /* not asked for */
    assert_true(metrics_value(&m, METRIC_LOSS, 1) == 0.0); /* always there */
    metrics_release(&m);
}

/* Against all pairs, over scores that fall on bins: equal to rounding; over others, rare positives
 * with probabilities near 0 among them: to a bin. */
static void test_auc_against_all_pairs(void **state)
{
    (void)state;
    enum { N = 600 };
    for (int kind = 0; kind < 3; kind++) {
        const bool exact = kind == 1, rare = kind == 2;
        float y[N], targets[N];
        double pairs = 0.0, wins = 0.0;
        for (size_t i = 0; i < N; i++) {
            targets[i] = rng_uniform(1, i) < 0.3 ? 1.0F : 0.0F;
            const double shift = targets[i] > 0.5F ? 0.1 : 0.0;
            double p = 0.05 + 0.8 * rng_uniform(2, i) + shift;
            p = exact ? (floor(p * 40) + 0.5) / 40 : p; /* few values: many ties */
            y[i] = (float)(log(p / (1.0 - p)) - (rare ? 9 : 0));
        }
        for (size_t i = 0; i < N; i++) {
            for (size_t j = 0; j < N; j++) {
                if (targets[i] > 0.5F && targets[j] < 0.5F) {
                    pairs += 1.0;
                    wins += y[i] > y[j] ? 1.0 : y[i] == y[j] ? 0.5 : 0.0;
                }
            }
        }
        struct metrics m;
        metrics_init(&m, 1U << METRIC_AUC);
        run(LOSS_SIGMOID_CROSS_ENTROPY, N, 1, y, NULL, targets, NULL, &m);
        const double auc = metrics_value(&m, METRIC_AUC, 1);
        assert_true(auc > 0.55 && auc < 0.9);
        assert_true(fabs(auc - wins / pairs) < (exact ? 1e-12 : 1e-4));
        metrics_release(&m);
    }
}

static void fill(struct metrics *m, uint64_t key)
{
    m->examples = rng_below(key, 0, 1000) + 1;
    m->weight = rng_uniform(key, 4);
    m->loss_sum = rng_uniform(key, 1);
    m->correct = (double)rng_below(key, 2, 100) + 1;
    m->squared_error_sum = rng_uniform(key, 3);
    if ((m->kinds & 1U << METRIC_AUC) != 0) {
        tally_reserve(&m->scores, 2 * METRIC_AUC_BINS);
        for (size_t i = 0; i < m->scores.count; i++) {
            m->scores.cells[i] = (double)rng_below(key, 10 + i, 50) / 8.0; /* some are whole */
        }
    }
}

static void test_pack_and_unpack(void **state)
{
    (void)state;
    static const unsigned kinds[] = {0, ALL};
    for (size_t k = 0; k < 2; k++) {
        struct metrics a, b;
        metrics_init(&a, kinds[k]);
        metrics_init(&b, kinds[k]);
        fill(&a, 7);
        const size_t n = metrics_pack(&a, NULL);
        assert_true(k == 0 ? n == 5 : n > 5 + METRIC_AUC_BINS && n < 7 + 4 * METRIC_AUC_BINS);
        double *packed = mem_new(n, sizeof *packed);
        assert_int_equal(n, metrics_pack(&a, packed));
        assert_int_equal(0, metrics_unpack(&b, packed, n, NULL));
        assert_int_equal(a.examples, b.examples);
        assert_true(a.loss_sum == b.loss_sum && a.correct == b.correct && a.weight == b.weight);
        assert_true(a.squared_error_sum == b.squared_error_sum);
        if (k == 1) {
            assert_int_equal(b.scores.count, a.scores.count);
            assert_memory_equal(a.scores.cells, b.scores.cells,
                                a.scores.count * sizeof *a.scores.cells);
        }
        free(packed);
        metrics_release(&a);
        metrics_release(&b);
    }
}

/* What a peer could send; nothing of it may change the metrics. */
static void test_unpack_refuses(void **state)
{
    (void)state;
    static const double bad[] = {-1, 0.5, NAN, INFINITY, 1e300};
    struct metrics m;
    struct err err = {0};
    metrics_init(&m, ALL);
    tally_reserve(&m.scores, 2 * METRIC_AUC_BINS);
    m.scores.cells[2 * METRIC_AUC_BINS - 1] = 3;
    const size_t n = metrics_pack(&m, NULL);
    double *packed = mem_new(n + 1, sizeof *packed);
    assert_int_equal(n, metrics_pack(&m, packed));
    const double counter = packed[n - 1];
    m.loss_sum = 3.0;
    assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, 3, &err));
    assert_string_equal("metrics hold 3 numbers; these kinds need 5", err.msg);
    assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, 5, &err));
    assert_string_equal("metrics end before their counters", err.msg);
    assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, n + 1, &err));
    assert_string_equal("metrics hold 9 numbers; these kinds need 8", err.msg);
    assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, 0, &err));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        packed[0] = bad[i];
        assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, n, &err));
        packed[0] = 0;
        for (size_t k = 5; k < n; k++) { /* counters: how many, how many of them not 0, which */
            const double good = packed[k];
            packed[k] = bad[i];
            assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, n, &err));
            packed[k] = good;
        }
    }
    packed[n - 1] = counter - 3; /* the sum that follows is not there */
    assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, n, &err));
    static const double sums[] = {0, -0.5, NAN, INFINITY};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        packed[n] = sums[i];
        assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, n + 1, &err));
    }
    packed[n - 1] = counter + 0x1.0p32; /* behind the last */
    assert_int_equal(ERR_INVALID, metrics_unpack(&m, packed, n, &err));
    assert_true(m.scores.cells[2 * METRIC_AUC_BINS - 1] == 3);
    assert_true(m.loss_sum == 3.0);
    free(packed);
    metrics_release(&m);
}

static void test_merge_and_reset(void **state)
{
    (void)state;
    struct metrics a, b;
    metrics_init(&a, ALL);
    metrics_init(&b, ALL);
    fill(&a, 1);
    fill(&b, 2);
    const uint64_t examples = a.examples + b.examples;
    const double bin = a.scores.cells[9] + b.scores.cells[9];
    metrics_merge(&a, &b);
    assert_int_equal(examples, a.examples);
    assert_true(bin == a.scores.cells[9]);
    metrics_reset(&a);
    metrics_merge(&b, &a); /* nothing */
    assert_true(a.examples == 0 && a.scores.cells[9] == 0 && a.weight == 0);
    metrics_release(&a);
    metrics_release(&b);
}

static void run_grouped_weighted(size_t count, const float *y, float *targets, float *weights,
                                 const uint64_t *groups, struct metrics *m)
{
    const struct batch b = {
        .capacity = count, .count = count, .targets = targets, .weights = weights};
    const struct loss_run r = {.width = 1, .y = y, .batch = &b, .groups = groups, .metrics = m};
    loss_of(LOSS_SIGMOID_CROSS_ENTROPY)->run(&r);
    loss_count_examples(&r);
}

static void run_grouped(size_t count, const float *y, float *targets, const uint64_t *groups,
                        struct metrics *m)
{
    run_grouped_weighted(count, y, targets, NULL, groups, m);
}

/* Two groups, each by roc_auc_score of scikit-learn with sample_weight, and by their weights; the
 * same bits for any order of the records. */
static void test_grouped_auc_of_weights(void **state)
{
    (void)state;
    const uint64_t groups[8] = {7, 7, 9, 9, 9, 7, 9, 7};
    const float y[8] = {2, -1, 0.5F, -0.25F, 3, -2, 1, -0.5F};
    float targets[8] = {1, 0, 0, 1, 1, 0, 1, 1}, weights[8] = {1, 2.5F, 0.5F, 3, 0, 1.5F, 0.75F, 2};
    double first = 0;
    for (size_t turn = 0; turn < 8; turn++) {
        struct metrics m;
        metrics_init(&m, 1U << METRIC_GROUPED_AUC);
        for (size_t k = 0; k < 8; k++) {
            const size_t i = (k * 5 + turn) % 8;
            run_grouped_weighted(1, y + i, targets + i, weights + i, groups + i, &m);
        }
        const double value = metrics_value(&m, METRIC_GROUPED_AUC, 1);
        first = turn == 0 ? value : first;
        assert_true(fabs(value - 0.6977777777777777) < 1e-12 && value == first);
        metrics_release(&m);
    }
}

static void test_grouped_auc_by_hand(void **state)
{
    (void)state;
    /* Group 7: one pair is right, one is wrong; group 9: 1; group 2^63: no negatives; group 1: a
     * tie. (4 · ½ + 2 · 1 + 2 · ½) / 8. */
    const uint64_t high = UINT64_C(1) << 63;
    const uint64_t groups[10] = {7, 9, 7, high, 7, 9, 1, 7, high, 1};
    const float y[10] = {2, -3, 1, 0, 3, -2, 0.5F, 2, 1, 0.5F};
    float targets[10] = {1, 0, 0, 1, 0, 1, 0, 1, 1, 1};
    struct metrics m;
    metrics_init(&m, 1U << METRIC_GROUPED_AUC);
    assert_true(isnan(metrics_value(&m, METRIC_GROUPED_AUC, 1)));
    run_grouped(10, y, targets, groups, &m);
    assert_true(metrics_value(&m, METRIC_GROUPED_AUC, 1) == 0.625);
    metrics_reset(&m);
    run_grouped(1, y, targets, groups, &m); /* one label alone says nothing */
    assert_true(isnan(metrics_value(&m, METRIC_GROUPED_AUC, 1)));
    metrics_release(&m);
    assert_int_equal(metrics_of_training(1U << METRIC_AUC | 1U << METRIC_GROUPED_AUC),
                     1U << METRIC_AUC);
}

enum { GROUPED = 900 };

/* The definition: all pairs of a positive and a negative of each group. */
static double grouped_by_pairs(const float *y, const float *targets, const uint64_t *groups,
                               uint64_t group_count)
{
    double sum = 0.0, weights = 0.0;
    for (uint64_t g = 0; g < group_count; g++) {
        double pairs = 0.0, wins = 0.0, records = 0.0;
        for (size_t i = 0; i < GROUPED; i++) {
            records += groups[i] == g ? 1.0 : 0.0;
            for (size_t j = 0; j < GROUPED && groups[i] == g; j++) {
                if (groups[j] == g && targets[i] > 0.5F && targets[j] < 0.5F) {
                    pairs += 1.0;
                    wins += y[i] > y[j] ? 1.0 : y[i] == y[j] ? 0.5 : 0.0;
                }
            }
        }
        sum += pairs > 0.0 ? records * wins / pairs : 0.0;
        weights += pairs > 0.0 ? records : 0.0;
    }
    return sum / weights;
}

/* Random records, cut into parts that are packed, and added in another order: the same bits. */
static void test_grouped_auc_against_all_pairs(void **state)
{
    (void)state;
    float y[GROUPED], targets[GROUPED];
    uint64_t groups[GROUPED];
    for (size_t i = 0; i < GROUPED; i++) {
        groups[i] = rng_below(1, i, 1 + i % 60);
        targets[i] = rng_uniform(2, i) < 0.3 ? 1.0F : 0.0F;
        y[i] = (float)(floor(rng_uniform(3, i) * 40) / 4 - 5) + targets[i];
    }
    const double expected = grouped_by_pairs(y, targets, groups, 60);
    const unsigned kinds = 1U << METRIC_AUC | 1U << METRIC_GROUPED_AUC;
    double values[3];
    for (size_t cut = 0; cut < 3; cut++) {
        const size_t part = cut == 0 ? GROUPED : cut == 1 ? 450 : 100;
        struct metrics all, one, back;
        metrics_init(&all, kinds);
        for (size_t at = GROUPED; at > 0; at -= part) {
            metrics_init(&one, kinds);
            metrics_init(&back, kinds);
            run_grouped(part, y + at - part, targets + at - part, groups + at - part, &one);
            const size_t n = metrics_pack(&one, NULL);
            double *packed = mem_new(n, sizeof *packed);
            assert_int_equal(metrics_pack(&one, packed), n);
            assert_int_equal(metrics_unpack(&back, packed, n, NULL), 0);
            metrics_merge(&all, &back);
            free(packed);
            metrics_release(&one);
            metrics_release(&back);
        }
        values[cut] = metrics_value(&all, METRIC_GROUPED_AUC, 1);
        metrics_release(&all);
    }
    assert_true(expected > 0.55 && expected < 0.9);
    assert_true(fabs(values[0] - expected) < 1e-12);
    assert_true(values[1] == values[0] && values[2] == values[0]);
}

static void test_scores_that_are_refused(void **state)
{
    (void)state;
    const float y = 0;
    float target = 1;
    const uint64_t group = UINT64_MAX;
    struct metrics m;
    struct err err = {0};
    double packed[8];
    metrics_init(&m, 1U << METRIC_GROUPED_AUC);
    run_grouped(1, &y, &target, &group, &m);
    assert_int_equal(metrics_pack(&m, packed), 8);
    assert_int_equal(metrics_unpack(&m, packed, 8, NULL), 0);
    assert_true(m.groups.items[0].group == UINT64_MAX && m.groups.items[0].positive);
    assert_int_equal(m.groups.items[0].bin, METRIC_AUC_BINS / 2);
    assert_int_equal(metrics_unpack(&m, packed, 6, &err), ERR_INVALID);
    assert_string_equal(err.msg, "metrics hold 6 numbers; these kinds need 8");
    packed[0] = 0x1p52; /* examples */
    assert_int_equal(metrics_unpack(&m, packed, 8, &err), ERR_INVALID);
    packed[0] = 1;
    static const double bad[][3] = {{-1, 0, 1},     {0, -1, 1},  {0.5, 0, 1},
                                    {0, 0x1p32, 1}, {NAN, 0, 1}, {0, NAN, 1},
                                    {0, 0, -1},     {0, 0, NAN}, {0, 0, 1e39}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(packed + 5, bad[i], sizeof bad[i]);
        assert_int_equal(metrics_unpack(&m, packed, 8, &err), ERR_INVALID);
    }
    packed[5] = METRIC_AUC_BINS * 2 * 0x1p32;
    packed[6] = 0;
    packed[7] = 1;
    assert_int_equal(metrics_unpack(&m, packed, 8, &err), ERR_INVALID);
    assert_string_equal(err.msg, "the score of record 0 of them is 3.51844e+13, 0, 1");
    assert_int_equal(m.groups.count, 1);
    m.groups.count = METRIC_GROUPED_RECORDS_MAX; /* no place for more */
    group_scores_add(&m.groups, &(struct group_score){.weight = 1});
    m.groups.count = 1;
    assert_true(isnan(metrics_value(&m, METRIC_GROUPED_AUC, 1)));
    metrics_release(&m);
}

/* Batches merged one by one in another order, in groups, over the wire and by opening: the same
 * bits, and the sum of all. Added as they come they differ in the last bits. */
static void test_sums_do_not_show_their_order(void **state)
{
    (void)state;
    enum { BATCHES = 400 };
    static const size_t steps[] = {1, 7, 149, 399};
    double expected = 0.0, plain[4] = {0};
    bool differ = false;
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        struct metrics all, part, back;
        metrics_init(&all, 0);
        metrics_init(&part, 0);
        metrics_init(&back, 0);
        for (size_t i = 0; i < BATCHES; i++) {
            const uint64_t k = i * steps[s] % BATCHES;
            struct metrics batch;
            metrics_init(&batch, 0);
            fill(&batch, 100 + k);
            batch.loss_sum = ldexp(batch.loss_sum, (int)(k % 40) - 20);
            plain[s] += batch.loss_sum;
            struct metrics_before before;
            metrics_open(&part, &before);
            part.examples += batch.examples;
            part.loss_sum += batch.loss_sum;
            part.weight += batch.weight;
            metrics_close(&part, &before);
            metrics_release(&batch);
            if (i % (2 + s) == 0 || i + 1 == BATCHES) {
                double packed[32];
                const size_t n = metrics_pack(&part, packed);
                assert_int_equal(metrics_unpack(&back, packed, n, NULL), 0);
                metrics_merge(&all, &back);
                metrics_reset(&part);
            }
        }
        expected = s == 0 ? all.loss_sum : expected;
        differ = differ || plain[s] != plain[0];
        assert_true(all.loss_sum == expected);
        assert_true(fabs(all.loss_sum - plain[s]) < 1e-9 * expected);
        metrics_release(&all);
        metrics_release(&part);
        metrics_release(&back);
    }
    assert_true(differ);
}

static void test_infinite_sums_stay_so(void **state)
{
    (void)state;
    struct metrics a, b;
    metrics_init(&a, 0);
    metrics_init(&b, 0);
    a.loss_sum = 0.1;
    b.loss_sum = 0.2;
    metrics_merge(&a, &b);
    b.loss_sum = INFINITY;
    metrics_merge(&a, &b);
    metrics_merge(&a, &b);
    assert_true(isinf(a.loss_sum) && a.rest[1][0] == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_of_equal_outputs_the_first_counts),
        cmocka_unit_test(test_sigmoid),
        cmocka_unit_test(test_squared_error),
        cmocka_unit_test(test_absolute_error),
        cmocka_unit_test(test_normalised_entropy),
        cmocka_unit_test(test_sums_that_are_on),
        cmocka_unit_test(test_diverged_outputs_do_no_harm),
        cmocka_unit_test(test_no_examples),
        cmocka_unit_test(test_auc_against_all_pairs),
        cmocka_unit_test(test_grouped_auc_by_hand),
        cmocka_unit_test(test_grouped_auc_of_weights),
        cmocka_unit_test(test_grouped_auc_against_all_pairs),
        cmocka_unit_test(test_scores_that_are_refused),
        cmocka_unit_test(test_pack_and_unpack),
        cmocka_unit_test(test_unpack_refuses),
        cmocka_unit_test(test_merge_and_reset),
        cmocka_unit_test(test_sums_do_not_show_their_order),
        cmocka_unit_test(test_infinite_sums_stay_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
