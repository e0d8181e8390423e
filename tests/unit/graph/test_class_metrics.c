/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of classes and values beside those of scikit-learn 1.2.1 for the same records, whole and
 * in parts that travel. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "graph/loss.h"

#define RECORDS 8
#define OF_CLASSES                                                                                 \
    (1U << METRIC_ACCURACY | 1U << METRIC_AUC | 1U << METRIC_PRECISION | 1U << METRIC_RECALL |     \
     1U << METRIC_F1 | 1U << METRIC_LOG_LOSS | 1U << METRIC_ECE | 1U << METRIC_CONFUSION_MATRIX)

struct expected {
    enum metric_kind kind;
    double value;
};

static const float three[RECORDS * 3] = {2,    1,     0.5F, 0.5F, 2.5F, 0,     0, 0.25F,
                                         0.5F, 1,     .75F, -1,   0.5F, -2,    3, -1,
                                         1.5F, 1.25F, 3,    0,    0.5F, 0.25F, 1, 0.75F};
static const int32_t three_classes[RECORDS] = {0, 1, 2, 1, 2, 2, 0, 0};
static const float two[RECORDS] = {2, -1, 0.5F, -0.25F, 3, -2, 1, -0.5F};
static const int32_t two_classes[RECORDS] = {1, 0, 0, 1, 1, 0, 1, 1};

/* Records @first to @end. */
static void run_weighted(enum loss_kind loss, size_t width, const float *y, const int32_t *classes,
                         const float *weights, size_t first, size_t end, struct metrics *m)
{
    int32_t labels[RECORDS];
    float targets[RECORDS], weighs[RECORDS], scratch[8];
    for (size_t i = 0; i < RECORDS; i++) {
        labels[i] = classes[i];
        targets[i] = (float)classes[i];
        weighs[i] = weights == NULL ? 1 : weights[i];
    }
    const struct batch b = {.capacity = RECORDS,
                            .count = end - first,
                            .classes = labels + first,
                            .targets = targets + first,
                            .weights = weights == NULL ? NULL : weighs + first};
    const struct loss_run r = {.width = width,
                               .top_k = 2,
                               .y = y + first * width,
                               .batch = &b,
                               .scratch = scratch,
                               .metrics = m};
    loss_of(loss)->run(&r);
    loss_count_examples(&r);
}

static void run(enum loss_kind loss, size_t width, const float *y, const int32_t *classes,
                size_t first, size_t end, struct metrics *m)
{
    run_weighted(loss, width, y, classes, NULL, first, end, m);
}

static void merge_packed(struct metrics *into, const struct metrics *part)
{
    struct metrics back;
    metrics_init(&back, part->kinds);
    const size_t n = metrics_pack(part, NULL);
    double *packed = mem_new(n, sizeof *packed);
    assert_int_equal(metrics_pack(part, packed), n);
    assert_int_equal(metrics_unpack(&back, packed, n, NULL), 0);
    metrics_merge(into, &back);
    metrics_release(&back);
    free(packed);
}

/* For each place to cut the records at: the same values. */
static void check(enum loss_kind loss, size_t width, const float *y, const int32_t *classes,
                  const float *weights, unsigned kinds, const struct expected *values, size_t count,
                  const double *counts)
{
    for (size_t cut = 0; cut < RECORDS; cut++) {
        struct metrics all, part;
        metrics_init(&all, kinds);
        metrics_init(&part, kinds);
        run_weighted(loss, width, y, classes, weights, 0, cut, &part);
        merge_packed(&all, &part);
        metrics_reset(&part);
        run_weighted(loss, width, y, classes, weights, cut, RECORDS, &part);
        merge_packed(&all, &part);
        for (size_t i = 0; i < count; i++) {
            const double value = metrics_value(&all, values[i].kind, 1);
            assert_true(fabs(value - values[i].value) < 1e-6);
        }
        const size_t side = metrics_confusion_classes(&all);
        assert_int_equal(side, width == 1 ? 2 : width);
        assert_memory_equal(all.confusion.cells, counts, side * side * sizeof *counts);
        metrics_release(&all);
        metrics_release(&part);
    }
}

static void test_three_classes(void **state)
{
    (void)state;
    static const struct expected values[] = {
        {METRIC_PRECISION, 0.6666666666666666}, {METRIC_RECALL, 0.611111111111111},
        {METRIC_F1, 0.6222222222222222},        {METRIC_AUC, 0.9},
        {METRIC_TOP_K_ACCURACY, 0.875},         {METRIC_LOG_LOSS, 0.6338973811716957},
        {METRIC_ECE, 0.24306358557369223},      {METRIC_ACCURACY, 0.625}};
    static const double counts[] = {2, 1, 0, 1, 1, 0, 0, 1, 2};
    check(LOSS_SOFTMAX_CROSS_ENTROPY, 3, three, three_classes, NULL,
          OF_CLASSES | 1U << METRIC_TOP_K_ACCURACY, values, sizeof values / sizeof *values, counts);
}

/* Of one output or of two: the same. */
static void test_two_classes(void **state)
{
    (void)state;
    static const struct expected values[] = {
        {METRIC_PRECISION, 0.75},          {METRIC_RECALL, 0.6},
        {METRIC_F1, 0.6666666666666665},   {METRIC_AUC, 0.8666666666666667},
        {METRIC_ECE, 0.32885121540641243}, {METRIC_LOG_LOSS, 0.46288251711689865},
        {METRIC_ACCURACY, 0.625},          {METRIC_CALIBRATION, 0.878079525187327}};
    static const double counts[] = {2, 1, 2, 3};
    float pairs[2 * RECORDS];
    for (size_t i = 0; i < RECORDS; i++) {
        pairs[2 * i] = 0.125F;
        pairs[2 * i + 1] = two[i] + 0.125F;
    }
    const size_t n = sizeof values / sizeof *values;
    check(LOSS_SIGMOID_CROSS_ENTROPY, 1, two, two_classes, NULL,
          OF_CLASSES | 1U << METRIC_CALIBRATION, values, n, counts);
    check(LOSS_SOFTMAX_CROSS_ENTROPY, 2, pairs, two_classes, NULL, OF_CLASSES, values, n - 1,
          counts);
}

/* What scikit-learn 1.2 makes of sample_weight; of calibration and ECE, numpy by the formula. */
static void records_count_by_their_weights(void **state)
{
    (void)state;
    static const float weights[RECORDS] = {1, 2.5F, 0.5F, 3, 0, 1.5F, 0.75F, 2};
    static const struct expected of_three[] = {{METRIC_PRECISION, 0.5950292397660819},
                                               {METRIC_RECALL, 0.39040404040404036},
                                               {METRIC_F1, 0.41551577152600166},
                                               {METRIC_AUC, 0.8063651002781437},
                                               {METRIC_TOP_K_ACCURACY, 0.8222222222222222},
                                               {METRIC_LOG_LOSS, 0.7654269889589059},
                                               {METRIC_ECE, 0.34459764918334945},
                                               {METRIC_ACCURACY, 0.4222222222222222}};
    static const double counts_of_three[] = {1.75, 2, 0, 3, 2.5, 0, 0, 1.5, 0.5};
    check(LOSS_SOFTMAX_CROSS_ENTROPY, 3, three, three_classes, weights,
          OF_CLASSES | 1U << METRIC_TOP_K_ACCURACY, of_three, sizeof of_three / sizeof *of_three,
          counts_of_three);
    static const struct expected of_two[] = {{METRIC_PRECISION, 0.7777777777777778},
                                             {METRIC_RECALL, 0.25925925925925924},
                                             {METRIC_F1, 0.3888888888888889},
                                             {METRIC_AUC, 0.9176954732510288},
                                             {METRIC_ECE, 0.39242175601509405},
                                             {METRIC_LOG_LOSS, 0.5554161095225291},
                                             {METRIC_ACCURACY, 0.5111111111111111},
                                             {METRIC_CALIBRATION, 0.6903748813256851},
                                             {METRIC_NORMALISED_ENTROPY, 0.8252696598718695}};
    static const double counts_of_two[] = {4, 0.5, 5, 1.75};
    check(LOSS_SIGMOID_CROSS_ENTROPY, 1, two, two_classes, weights,
          OF_CLASSES | 1U << METRIC_CALIBRATION | 1U << METRIC_NORMALISED_ENTROPY, of_two,
          sizeof of_two / sizeof *of_two, counts_of_two);
}

/* Errors of numbers, merged from parts. */
static void numbers_count_by_their_weights(void **state)
{
    (void)state;
    float y[4] = {1, 2, 5, 4}, targets[4] = {0.5F, 2, 6, 3}, weights[4] = {1, 2.5F, 0.5F, 3};
    const unsigned kinds = 1U << METRIC_R2 | 1U << METRIC_RMSE | 1U << METRIC_MAE;
    for (size_t cut = 0; cut <= 4; cut++) {
        struct metrics all, part;
        metrics_init(&all, kinds);
        metrics_init(&part, kinds);
        for (size_t k = 0; k < 2; k++) {
            const size_t first = k == 0 ? 0 : cut, count = k == 0 ? cut : 4 - cut;
            const struct batch b = {.capacity = count,
                                    .count = count,
                                    .targets = targets + first,
                                    .weights = weights + first};
            const struct loss_run r = {.width = 1, .y = y + first, .batch = &b, .metrics = &part};
            metrics_reset(&part);
            loss_of(LOSS_MEAN_SQUARED_ERROR)->run(&r);
            loss_count_examples(&r);
            merge_packed(&all, &part);
        }
        assert_int_equal(all.examples, 4);
        assert_true(all.weight == 7);
        assert_true(fabs(metrics_value(&all, METRIC_R2, 1) - 0.6739130434782609) < 1e-12);
        assert_true(fabs(metrics_value(&all, METRIC_RMSE, 1) - 0.7319250547113999) < 1e-12);
        assert_true(fabs(metrics_value(&all, METRIC_MAE, 1) - 0.5714285714285714) < 1e-12);
        metrics_release(&all);
        metrics_release(&part);
    }
}

static void records_without_weight_have_no_value(void **state)
{
    (void)state;
    const float weights[RECORDS] = {0};
    struct metrics m;
    metrics_init(&m, OF_CLASSES);
    run_weighted(LOSS_SIGMOID_CROSS_ENTROPY, 1, two, two_classes, weights, 0, RECORDS, &m);
    assert_int_equal(m.examples, RECORDS);
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        assert_true(isnan(metrics_value(&m, (enum metric_kind)k, 1)));
    }
    metrics_release(&m);
}

/* A class that no record has and none is said to have counts for nothing; one that is only said
 * has recall 0. */
static void test_classes_that_are_not_there(void **state)
{
    (void)state;
    const float y[8] = {3, 0, 0, 0, 0, 3, 0, 0};
    const int32_t classes[RECORDS] = {0, 0};
    struct metrics m;
    metrics_init(&m, OF_CLASSES);
    run(LOSS_SOFTMAX_CROSS_ENTROPY, 4, y, classes, 0, 2, &m);
    assert_true(metrics_value(&m, METRIC_PRECISION, 1) == 0.5);
    assert_true(metrics_value(&m, METRIC_RECALL, 1) == 0.25);
    assert_true(isnan(metrics_value(&m, METRIC_AUC, 1))); /* all records have one class */
    assert_true(isnan(metrics_value(&m, METRIC_CONFUSION_MATRIX, 1)));
    metrics_release(&m);
}

/* Probabilities beside 1 are told apart, and 0 and 1 themselves have a bin. */
static void test_scores_of_a_sure_model(void **state)
{
    (void)state;
    const float y[9] = {14, 0, 0, 13, 0, 0, 2000, 0, -2000};
    const int32_t classes[RECORDS] = {0, 1, 0};
    struct metrics m;
    metrics_init(&m, 1U << METRIC_AUC);
    run(LOSS_SOFTMAX_CROSS_ENTROPY, 3, y, classes, 0, 3, &m);
    double positives = 0, negatives = 0;
    size_t first = SIZE_MAX, last = 0;
    for (size_t i = 0; i < METRIC_AUC_BINS; i++) {
        positives += m.scores.cells[i];
        negatives += m.scores.cells[METRIC_AUC_BINS + i];
        first = m.scores.cells[i] > 0 && first == SIZE_MAX ? i : first;
        last = m.scores.cells[METRIC_AUC_BINS + i] > 0 ? i : last;
    }
    assert_true(positives == 2 && negatives == 1);
    assert_true(last < first); /* 13 against 14 */
    metrics_release(&m);
}

/* Gradients are multiplied, what is measured is not. */
static void test_class_weights(void **state)
{
    (void)state;
    static const float weights[3] = {2, 0, 0.5F};
    const float y[6] = {1, 2, 3, 2, 0, 1};
    float scratch[3], plain[6], dy[6], targets[2] = {1, 0};
    for (size_t width = 1; width <= 3; width += 2) {
        int32_t classes[2] = {width == 1 ? 1 : 2, 0};
        const struct batch b = {.capacity = 2, .count = 2, .classes = classes, .targets = targets};
        struct metrics m, n;
        metrics_init(&m, 0);
        metrics_init(&n, 0);
        struct loss_run r = {
            .width = width, .y = y, .batch = &b, .dy = plain, .scratch = scratch, .metrics = &m};
        const enum loss_kind loss =
            width == 1 ? LOSS_SIGMOID_CROSS_ENTROPY : LOSS_SOFTMAX_CROSS_ENTROPY;
        loss_of(loss)->run(&r);
        r.dy = dy;
        r.metrics = &n;
        r.class_weights = weights;
        loss_of(loss)->run(&r);
        assert_true(m.loss_sum == n.loss_sum);
        for (size_t i = 0; i < 2 * width; i++) {
            const float expected = plain[i] * weights[classes[i / width]];
            assert_true(fabsf(dy[i] - expected) < 1e-6F);
        }
    }
}

/* Those of records, with those of classes, too; of any loss. */
static void test_record_weights(void **state)
{
    (void)state;
    static const float of_classes[2] = {3, 0.25F};
    float y[4] = {1, 2, 3, -1}, targets[2] = {1, 0}, weights[2] = {0, 1.5F}, one[2] = {0, 1};
    int32_t classes[2] = {1, 0};
    for (int loss = 0; loss < LOSS_AUTO; loss++) {
        for (int k = 0; k < 2; k++) {
            float plain[4], dy[4], scratch[2];
            const size_t width = loss == LOSS_SOFTMAX_CROSS_ENTROPY ? 2 : 1;
            struct batch b = {.capacity = 2, .count = 2, .classes = classes, .targets = targets};
            struct metrics m, n, of_one;
            metrics_init(&m, 0);
            metrics_init(&n, 0);
            metrics_init(&of_one, 0);
            struct loss_run r = {.width = width,
                                 .y = y,
                                 .batch = &b,
                                 .dy = plain,
                                 .scratch = scratch,
                                 .metrics = &m};
            r.class_weights = k == 1 && loss != LOSS_MEAN_SQUARED_ERROR ? of_classes : NULL;
            loss_of((enum loss_kind)loss)->run(&r);
            r.dy = dy;
            r.metrics = &n;
            b.weights = weights;
            loss_of((enum loss_kind)loss)->run(&r);
            r.dy = NULL;
            r.metrics = &of_one;
            b.weights = one;
            loss_of((enum loss_kind)loss)->run(&r);
            assert_true(of_one.loss_sum > 0 && of_one.loss_sum <= m.loss_sum);
            assert_true(fabs(n.loss_sum - 1.5 * of_one.loss_sum) < 1e-12);
            for (size_t i = 0; i < 2 * width; i++) {
                assert_true(fabsf(dy[i] - plain[i] * weights[i / width]) < 1e-6F);
            }
        }
    }
}

/* As if the outputs were those of the second class shifted. */
static void test_shifted_logits(void **state)
{
    (void)state;
    float y[4] = {1, 2, 3, -1}, moved[4] = {1, 4, 3, 1}, targets[2] = {1, 0}, binary[2] = {3, 4};
    int32_t classes[2] = {1, 0};
    const struct batch b = {.capacity = 2, .count = 2, .classes = classes, .targets = targets};
    for (size_t width = 1; width <= 2; width++) {
        const enum loss_kind loss =
            width == 1 ? LOSS_SIGMOID_CROSS_ENTROPY : LOSS_SOFTMAX_CROSS_ENTROPY;
        float dy[2][4], scratch[2];
        struct metrics m[2];
        for (int k = 0; k < 2; k++) {
            metrics_init(&m[k], 1U << METRIC_ACCURACY);
            const struct loss_run r = {.width = width,
                                       .y = k == 0       ? y
                                            : width == 1 ? binary
                                                         : moved,
                                       .batch = &b,
                                       .dy = dy[k],
                                       .shift = k == 0 ? 2.0F : 0.0F,
                                       .scratch = scratch,
                                       .metrics = &m[k]};
            loss_of(loss)->run(&r);
        }
        assert_memory_equal(dy[0], dy[1], 2 * width * sizeof dy[0][0]);
        assert_true(m[0].loss_sum == m[1].loss_sum && m[0].correct == m[1].correct);
    }
}

/* Far from 0, where a sum of squares would have nothing left. */
static void test_r2(void **state)
{
    (void)state;
    float y[4] = {1, 2, 5, 4}, targets[4] = {0.5F, 2, 6, 3};
    for (int k = 0; k < 2; k++) {
        struct metrics all, part;
        metrics_init(&all, 1U << METRIC_R2);
        metrics_init(&part, 1U << METRIC_R2);
        for (size_t i = 0; i < 4; i += 2) {
            const struct batch b = {.capacity = 2, .count = 2, .targets = targets + i};
            const struct loss_run r = {.width = 1, .y = y + i, .batch = &b, .metrics = &part};
            metrics_reset(&part);
            loss_of(LOSS_MEAN_SQUARED_ERROR)->run(&r);
            loss_count_examples(&r);
            merge_packed(&all, &part);
        }
        assert_true(fabs(metrics_value(&all, METRIC_R2, 7) - 0.8610038610038611) < 1e-12);
        metrics_release(&all);
        metrics_release(&part);
        for (size_t i = 0; i < 4; i++) {
            y[i] += 1048576.0F;
            targets[i] += 1048576.0F;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_count_by_their_weights),
        cmocka_unit_test(numbers_count_by_their_weights),
        cmocka_unit_test(records_without_weight_have_no_value),
        cmocka_unit_test(test_three_classes),
        cmocka_unit_test(test_two_classes),
        cmocka_unit_test(test_classes_that_are_not_there),
        cmocka_unit_test(test_scores_of_a_sure_model),
        cmocka_unit_test(test_class_weights),
        cmocka_unit_test(test_record_weights),
        cmocka_unit_test(test_shifted_logits),
        cmocka_unit_test(test_r2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
