/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what metrics need of each record, each by its weight. Two classes are measured alike
 * whichever loss they have: by the logit of the second one. */
#include <assert.h>
#include <math.h>

#include "graph/loss.h"

#define WANTS(m, kind) (((m)->kinds & (1U << (kind))) != 0)

/* Bins are of the logit: of rare classes almost all probabilities are near 0, where bins of the
 * probability would make ties of most pairs. */
static size_t bin_of(double logit)
{
    /* A diverged model's NaN counts as the lowest score. */
    double scaled = (logit / METRIC_AUC_LOGIT_MAX + 1) * (0.5 * METRIC_AUC_BINS);
    return scaled >= METRIC_AUC_BINS - 1 ? METRIC_AUC_BINS - 1 : scaled > 0.0 ? (size_t)scaled : 0;
}

double loss_record_weight(const struct loss_run *r, size_t record)
{
    return r->batch->weights == NULL ? 1.0 : (double)r->batch->weights[record];
}

void loss_count_examples(const struct loss_run *r)
{
    r->metrics->examples += r->batch->count;
    for (size_t i = 0; i < r->batch->count; i++) {
        r->metrics->weight += loss_record_weight(r, i);
    }
}

static void count_score(struct metrics *m, size_t rows, size_t row, double logit, bool positive,
                        double weight)
{
    tally_reserve(&m->scores, rows * 2 * METRIC_AUC_BINS);
    m->scores.cells[(row * 2 + (positive ? 0 : 1)) * METRIC_AUC_BINS + bin_of(logit)] += weight;
}

/* Counts an answer of @probability, which is @right or not. */
static void count_calibration(struct metrics *m, double probability, bool right, double weight)
{
    const double scaled = probability * METRIC_ECE_BINS;
    const size_t bin = scaled >= METRIC_ECE_BINS - 1 ? METRIC_ECE_BINS - 1
                       : scaled > 0.0                ? (size_t)scaled
                                                     : 0;
    m->ece[bin][METRIC_ECE_RECORDS] += weight;
    m->ece[bin][METRIC_ECE_PROBABILITY] += weight * probability;
    m->ece[bin][METRIC_ECE_RIGHT] += right ? weight : 0.0;
}

static void count_class(struct metrics *m, size_t classes, size_t label, size_t predicted,
                        double weight)
{
    if (WANTS(m, METRIC_PRECISION) || WANTS(m, METRIC_RECALL) || WANTS(m, METRIC_F1)) {
        tally_reserve(&m->classes, classes * METRIC_CLASS_COUNTS);
        m->classes.cells[label * METRIC_CLASS_COUNTS + METRIC_CLASS_LABELLED] += weight;
        m->classes.cells[predicted * METRIC_CLASS_COUNTS + METRIC_CLASS_PREDICTED] += weight;
        m->classes.cells[label * METRIC_CLASS_COUNTS + METRIC_CLASS_HITS] +=
            label == predicted ? weight : 0.0;
    }
    if (WANTS(m, METRIC_CONFUSION_MATRIX)) {
        tally_reserve(&m->confusion, classes * classes);
        m->confusion.cells[label * classes + predicted] += weight;
    }
}

void loss_count_binary(const struct loss_run *r, size_t record, double logit, bool positive)
{
    struct metrics *m = r->metrics;
    const double weight = loss_record_weight(r, record);
    m->correct += (logit > 0.0) == positive ? weight : 0.0;
    m->label_sum += positive ? weight : 0.0;
    count_class(m, 2, positive, logit > 0.0, weight);
    if (WANTS(m, METRIC_AUC)) {
        count_score(m, 1, 0, logit, positive, weight);
    }
    if (WANTS(m, METRIC_ECE) || WANTS(m, METRIC_CALIBRATION)) {
        const double small = exp(-fabs(logit));
        const double probability = (logit < 0.0 ? small : 1.0) / (1.0 + small);
        m->probability_sum += weight * probability;
        count_calibration(m, probability, positive, weight);
    }
    if (WANTS(m, METRIC_GROUPED_AUC)) {
        assert(r->groups != NULL); /* the model refuses the metric without a field */
        const struct group_score score = {.group = r->groups[record],
                                          .weight = (float)weight,
                                          .bin = (uint16_t)bin_of(logit),
                                          .positive = positive};
        group_scores_add(&m->groups, &score);
    }
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

/* The number of classes that come before @label when they are sorted by their outputs. */
static size_t rank_of(const float *y, size_t width, size_t label)
{
    size_t before = 0;
    for (size_t j = 0; j < width; j++) {
        before += y[j] > y[label] || (y[j] == y[label] && j < label);
    }
    return before;
}

/* Each class against the rest: the logit of its probability. @e: e^(y - the largest y), which add
 * up to @sum. */
static void count_scores(struct metrics *m, size_t width, const float *e, double sum, size_t best,
                         size_t label, double weight)
{
    double others = 0.0; /* not sum - 1, which cancels when a model is sure */
    for (size_t j = 0; j < width; j++) {
        others += j == best ? 0.0 : (double)e[j];
    }
    for (size_t j = 0; j < width; j++) {
        const double rest = j == best ? others : sum - (double)e[j];
        count_score(m, width, j, log((double)e[j] / rest), j == label, weight);
    }
}

void loss_count_classes(const struct loss_run *r, size_t record, const float *y, const float *e,
                        double sum)
{
    struct metrics *m = r->metrics;
    const size_t label = (size_t)r->batch->classes[record], best = largest(y, r->width);
    const double weight = loss_record_weight(r, record);
    if (WANTS(m, METRIC_TOP_K_ACCURACY)) {
        m->top_correct += rank_of(y, r->width, label) < r->top_k ? weight : 0.0;
    }
    if (r->width == 2) {
        loss_count_binary(r, record, (double)y[1] - (double)y[0], label == 1);
        return;
    }
    m->correct += best == label ? weight : 0.0;
    count_class(m, r->width, label, best, weight);
    if (WANTS(m, METRIC_AUC)) {
        count_scores(m, r->width, e, sum, best, label, weight);
    }
    if (WANTS(m, METRIC_ECE)) {
        count_calibration(m, (double)e[best] / sum, best == label, weight);
    }
}

void loss_count_values(const struct loss_run *r)
{
    struct metrics *m = r->metrics;
    const size_t count = r->batch->count;
    double squared = 0.0, absolute = 0.0, labels = 0.0, m2 = 0.0, weights = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double error = (double)(r->y[i] - r->batch->targets[i]);
        const double weight = loss_record_weight(r, i);
        squared += weight * (error * error);
        absolute += weight * fabs(error);
        labels += weight * (double)r->batch->targets[i];
        weights += weight;
    }
    m->loss_sum += squared;
    m->squared_error_sum += squared;
    m->absolute_error_sum += absolute;
    if (WANTS(m, METRIC_R2) && weights > 0.0) {
        const double mean = labels / weights;
        for (size_t i = 0; i < count; i++) {
            const double off = (double)r->batch->targets[i] - mean;
            m2 += loss_record_weight(r, i) * (off * off);
        }
        metrics_add_labels(m, weights, mean, m2);
    }
}
