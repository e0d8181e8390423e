/* SPDX-License-Identifier: Apache-2.0 */
/* The names of metrics, and their values, from their sums and counters. It needs nothing of the
 * other files: a library that knows what a metric is called does not have all layers in it. */
#include <math.h>

#include "graph/metric.h"

const char *const metric_kind_names[METRIC_KIND_COUNT + 1] = {
    [METRIC_LOSS] = "loss",
    [METRIC_ACCURACY] = "accuracy",
    [METRIC_AUC] = "auc",
    [METRIC_RMSE] = "rmse",
    [METRIC_MAE] = "mae",
    [METRIC_NORMALISED_ENTROPY] = "normalised_entropy",
    [METRIC_GROUPED_AUC] = "grouped_auc",
    [METRIC_PRECISION] = "precision",
    [METRIC_RECALL] = "recall",
    [METRIC_F1] = "f1",
    [METRIC_TOP_K_ACCURACY] = "top_k_accuracy",
    [METRIC_LOG_LOSS] = "log_loss",
    [METRIC_ECE] = "ece",
    [METRIC_R2] = "r2",
    [METRIC_CALIBRATION] = "calibration",
    [METRIC_CONFUSION_MATRIX] = "confusion_matrix",
    [METRIC_KIND_COUNT] = NULL,
};

/* AUC of one class: the probability that a positive scores above a negative; ties count half (Mann
 * & Whitney 1947). NaN where there is no such pair. */
static double area_under_curve(const double *positives, const double *negatives)
{
    double below = 0.0, above = 0.0, pairs = 0.0;
    for (size_t i = 0; i < METRIC_AUC_BINS; i++) {
        const double p = positives[i], n = negatives[i];
        pairs += p * (below + 0.5 * n);
        below += n;
        above += p;
    }
    return pairs / (above * below);
}

static double auc(const struct metric_tally *scores)
{
    double sum = 0.0, classes = 0.0;
    const size_t row_cells = (size_t)2 * METRIC_AUC_BINS;
    for (size_t at = 0; at + row_cells <= scores->count; at += row_cells) {
        const double *row = scores->cells + at;
        const double area = area_under_curve(row, row + METRIC_AUC_BINS);
        sum += isnan(area) ? 0.0 : area;
        classes += isnan(area) ? 0.0 : 1.0;
    }
    return sum / classes;
}

/* The entropy of a rate, in nats, as the log loss is. */
static double base_entropy(double p)
{
    return p > 0.0 && p < 1.0 ? -(p * log(p) + (1.0 - p) * log1p(-p)) : NAN;
}

static double ratio(double part, double of)
{
    return of > 0.0 ? part / of : 0.0;
}

static double of_class(const double *sums, enum metric_kind kind)
{
    const double hits = sums[METRIC_CLASS_HITS];
    const double predicted = sums[METRIC_CLASS_PREDICTED];
    const double labelled = sums[METRIC_CLASS_LABELLED];
    return kind == METRIC_PRECISION ? ratio(hits, predicted)
           : kind == METRIC_RECALL  ? ratio(hits, labelled)
                                    : ratio(2.0 * hits, predicted + labelled);
}

static double of_classes(const struct metric_tally *classes, enum metric_kind kind)
{
    if (classes->count == 2 * (size_t)METRIC_CLASS_COUNTS) {
        return of_class(classes->cells + METRIC_CLASS_COUNTS, kind);
    }
    double sum = 0.0, there = 0.0;
    for (size_t at = 0; at + METRIC_CLASS_COUNTS <= classes->count; at += METRIC_CLASS_COUNTS) {
        const double *sums = classes->cells + at;
        if (sums[METRIC_CLASS_PREDICTED] > 0 || sums[METRIC_CLASS_LABELLED] > 0) {
            sum += of_class(sums, kind);
            there += 1.0;
        }
    }
    return sum / there;
}

/* Σ |what is right − the mean probability| of the bins, each by the weight of its records. */
static double calibration_error(const struct metrics *m)
{
    double sum = 0.0;
    for (size_t i = 0; i < METRIC_ECE_BINS; i++) {
        sum += fabs(m->ece[i][METRIC_ECE_RIGHT] - m->ece[i][METRIC_ECE_PROBABILITY]);
    }
    return sum / m->weight;
}

size_t metrics_confusion_classes(const struct metrics *m)
{
    size_t classes = 0;
    while ((classes + 1) * (classes + 1) <= m->confusion.count) {
        classes++;
    }
    return classes;
}

double metrics_value(const struct metrics *m, enum metric_kind kind, double label_scale)
{
    const double n = m->weight;
    if (m->examples == 0 || !(n > 0.0) || (m->kinds & (1U << kind)) == 0) {
        return NAN;
    }
    switch (kind) {
    case METRIC_LOSS:
    case METRIC_LOG_LOSS:
        return m->loss_sum / n;
    case METRIC_ACCURACY:
        return m->correct / n;
    case METRIC_AUC:
        return auc(&m->scores);
    case METRIC_GROUPED_AUC:
        return group_scores_value(&m->groups);
    case METRIC_RMSE:
        return sqrt(m->squared_error_sum / n) * label_scale;
    case METRIC_MAE:
        return m->absolute_error_sum / n * label_scale;
    case METRIC_NORMALISED_ENTROPY:
        return m->loss_sum / n / base_entropy(m->label_sum / n);
    case METRIC_PRECISION:
    case METRIC_RECALL:
    case METRIC_F1:
        return of_classes(&m->classes, kind);
    case METRIC_TOP_K_ACCURACY:
        return m->top_correct / n;
    case METRIC_ECE:
        return calibration_error(m);
    case METRIC_CALIBRATION:
        return m->label_sum > 0.0 ? m->probability_sum / m->label_sum : NAN;
    case METRIC_R2:
        return m->label_m2 > 0.0 ? 1.0 - m->squared_error_sum / m->label_m2 : NAN;
    case METRIC_CONFUSION_MATRIX:
    case METRIC_KIND_COUNT:
        break;
    }
    return NAN;
}
