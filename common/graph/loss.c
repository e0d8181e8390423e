/* SPDX-License-Identifier: Apache-2.0 */
/* The losses of a batch with their gradients and metrics. Both cross entropies work on the
 * values before softmax or sigmoid (a last layer of that kind is passed over), so that large
 * values do no harm. */
#include "graph/loss.h"

#include <assert.h>
#include <math.h>

#include "graph/op.h"
#include "tensor/activation.h"
#include "tensor/kernel.h"

static bool wants(const struct metrics *m, enum metric_kind kind)
{
    return m != NULL && (m->kinds & (1U << kind)) != 0;
}

static size_t largest(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        if (x[i] > x[best]) {
            best = i;
        }
    }
    return best;
}

/* loss = log(sum e^y) - y[class]; gradient = softmax(y) - onehot(class). */
static void softmax_cross_entropy(const struct loss_run *r)
{
    double loss = 0.0;
    size_t correct = 0;
    for (size_t i = 0; i < r->batch->count; i++) {
        const float *y = r->y + i * r->width;
        const size_t class = (size_t)r->batch->classes[i];
        assert(class < r->width); /* the data set refuses other labels */
        float *e = r->dy != NULL ? r->dy + i * r->width : r->scratch;
        const float max = kernel_max(y, r->width);
        const float sum = activation_exp_row(r->width, y, max, e);
        if (r->metrics != NULL) {
            loss += log((double)sum) - ((double)y[class] - (double)max);
        }
        if (wants(r->metrics, METRIC_ACCURACY)) {
            correct += largest(y, r->width) == class;
        }
        if (r->dy != NULL) {
            const float scale = 1.0F / sum;
            for (size_t j = 0; j < r->width; j++) {
                e[j] *= scale;
            }
            e[class] -= 1.0F;
        }
    }
    if (r->metrics != NULL) {
        r->metrics->loss_sum += loss;
        r->metrics->correct += (double)correct;
    }
}

/* Bins are of the logit: of rare classes almost all probabilities are near 0, where bins of the
 * probability would make ties of most pairs. */
static size_t bin_of(double logit)
{
    /* A diverged model's NaN counts as the lowest score. */
    double scaled = (logit / METRIC_AUC_LOGIT_MAX + 1) * (0.5 * METRIC_AUC_BINS);
    return scaled >= METRIC_AUC_BINS - 1 ? METRIC_AUC_BINS - 1 : scaled > 0.0 ? (size_t)scaled : 0;
}

static void count_score(const struct loss_run *r, size_t record, double logit, bool positive)
{
    struct metrics *m = r->metrics;
    if (wants(m, METRIC_AUC)) {
        (positive ? m->positives : m->negatives)[bin_of(logit)]++;
    }
    if (wants(m, METRIC_GROUPED_AUC)) {
        assert(r->groups != NULL); /* the model refuses the metric without a field */
        group_scores_add(&m->groups, r->groups[record], (uint32_t)bin_of(logit), positive);
    }
}

/* loss = max(y, 0) - y · t + log(1 + e^-|y|); gradient = sigmoid(y) - t. */
static void sigmoid_cross_entropy(const struct loss_run *r)
{
    double loss = 0.0;
    size_t correct = 0, labels = 0;
    for (size_t i = 0; i < r->batch->count; i++) {
        const double y = (double)r->y[i], t = (double)r->batch->targets[i];
        const double small = exp(-fabs(y));
        const double probability = (y < 0.0 ? small : 1.0) / (1.0 + small);
        if (r->dy != NULL) {
            r->dy[i] = (float)(probability - t);
        }
        if (r->metrics != NULL) {
            loss += (y > 0.0 ? y : 0.0) - y * t + log1p(small);
            loss = y != y ? y : loss;
            correct += (y > 0.0) == (t > 0.5);
            labels += t > 0.5;
        }
        count_score(r, i, y, t > 0.5);
    }
    if (r->metrics != NULL) {
        r->metrics->loss_sum += loss;
        r->metrics->correct += (double)correct;
        r->metrics->label_sum += (double)labels;
    }
}

/* loss = (y - t)²; gradient = 2 (y - t). */
static void mean_squared_error(const struct loss_run *r)
{
    double sum = 0.0, absolute = 0.0;
    for (size_t i = 0; i < r->batch->count; i++) {
        const float error = r->y[i] - r->batch->targets[i];
        sum += (double)error * (double)error;
        absolute += fabs((double)error);
        if (r->dy != NULL) {
            r->dy[i] = 2.0F * error;
        }
    }
    if (r->metrics != NULL) {
        r->metrics->loss_sum += sum;
        r->metrics->squared_error_sum += sum;
        r->metrics->absolute_error_sum += absolute;
    }
}

extern const struct layer_kind layer_softmax, layer_sigmoid;

const struct loss *loss_of(enum loss_kind kind)
{
    static const struct loss losses[LOSS_KIND_COUNT] = {
        [LOSS_SOFTMAX_CROSS_ENTROPY] = {.link = &layer_softmax,
                                        .metrics = 1U << METRIC_LOSS | 1U << METRIC_ACCURACY,
                                        .needs_classes = true,
                                        .output_per_class = true,
                                        .run = softmax_cross_entropy},
        [LOSS_SIGMOID_CROSS_ENTROPY] = {.link = &layer_sigmoid,
                                        .metrics = 1U << METRIC_LOSS | 1U << METRIC_ACCURACY |
                                                   1U << METRIC_AUC |
                                                   1U << METRIC_NORMALISED_ENTROPY |
                                                   1U << METRIC_GROUPED_AUC,
                                        .needs_classes = true,
                                        .classes_max = 2,
                                        .run = sigmoid_cross_entropy},
        [LOSS_MEAN_SQUARED_ERROR] = {.metrics =
                                         1U << METRIC_LOSS | 1U << METRIC_RMSE | 1U << METRIC_MAE,
                                     .run = mean_squared_error},
    };
    return &losses[kind];
}
