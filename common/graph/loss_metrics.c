/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what metrics need of each record. Two classes are measured alike whichever loss they have:
 * by the logit of the second one. */
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

static void count_score(struct metrics *m, size_t rows, size_t row, double logit, bool positive)
{
    tally_reserve(&m->scores, rows * 2 * METRIC_AUC_BINS);
    m->scores.cells[(row * 2 + (positive ? 0 : 1)) * METRIC_AUC_BINS + bin_of(logit)]++;
}

/* Counts an answer of @probability, which is @right or not. */
static void count_calibration(struct metrics *m, double probability, bool right)
{
    const double scaled = probability * METRIC_ECE_BINS;
    const size_t bin = scaled >= METRIC_ECE_BINS - 1 ? METRIC_ECE_BINS - 1
                       : scaled > 0.0                ? (size_t)scaled
                                                     : 0;
    m->ece[bin][METRIC_ECE_RECORDS] += 1.0;
    m->ece[bin][METRIC_ECE_PROBABILITY] += probability;
    m->ece[bin][METRIC_ECE_RIGHT] += right ? 1.0 : 0.0;
}

static void count_class(struct metrics *m, size_t classes, size_t label, size_t predicted)
{
    if (WANTS(m, METRIC_PRECISION) || WANTS(m, METRIC_RECALL) || WANTS(m, METRIC_F1)) {
        tally_reserve(&m->classes, classes * METRIC_CLASS_COUNTS);
        m->classes.cells[label * METRIC_CLASS_COUNTS + METRIC_CLASS_LABELLED]++;
        m->classes.cells[predicted * METRIC_CLASS_COUNTS + METRIC_CLASS_PREDICTED]++;
        m->classes.cells[label * METRIC_CLASS_COUNTS + METRIC_CLASS_HITS] += label == predicted;
    }
    if (WANTS(m, METRIC_CONFUSION_MATRIX)) {
        tally_reserve(&m->confusion, classes * classes);
        m->confusion.cells[label * classes + predicted]++;
    }
}

void loss_count_binary(const struct loss_run *r, size_t record, double logit, bool positive)
{
    struct metrics *m = r->metrics;
    m->correct += (logit > 0.0) == positive ? 1.0 : 0.0;
    m->label_sum += positive ? 1.0 : 0.0;
    count_class(m, 2, positive, logit > 0.0);
    if (WANTS(m, METRIC_AUC)) {
        count_score(m, 1, 0, logit, positive);
    }
    if (WANTS(m, METRIC_ECE) || WANTS(m, METRIC_CALIBRATION)) {
        const double small = exp(-fabs(logit));
        const double probability = (logit < 0.0 ? small : 1.0) / (1.0 + small);
        m->probability_sum += probability;
        count_calibration(m, probability, positive);
    }
    if (WANTS(m, METRIC_GROUPED_AUC)) {
        assert(r->groups != NULL); /* the model refuses the metric without a field */
        group_scores_add(&m->groups, r->groups[record], (uint32_t)bin_of(logit), positive);
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
                         size_t label)
{
    double others = 0.0; /* not sum - 1, which cancels when a model is sure */
    for (size_t j = 0; j < width; j++) {
        others += j == best ? 0.0 : (double)e[j];
    }
    for (size_t j = 0; j < width; j++) {
        const double rest = j == best ? others : sum - (double)e[j];
        count_score(m, width, j, log((double)e[j] / rest), j == label);
    }
}

void loss_count_classes(const struct loss_run *r, size_t record, const float *y, const float *e,
                        double sum)
{
    struct metrics *m = r->metrics;
    const size_t label = (size_t)r->batch->classes[record], best = largest(y, r->width);
    if (WANTS(m, METRIC_TOP_K_ACCURACY)) {
        m->top_correct += rank_of(y, r->width, label) < r->top_k ? 1.0 : 0.0;
    }
    if (r->width == 2) {
        loss_count_binary(r, record, (double)y[1] - (double)y[0], label == 1);
        return;
    }
    m->correct += best == label ? 1.0 : 0.0;
    count_class(m, r->width, label, best);
    if (WANTS(m, METRIC_AUC)) {
        count_scores(m, r->width, e, sum, best, label);
    }
    if (WANTS(m, METRIC_ECE)) {
        count_calibration(m, (double)e[best] / sum, best == label);
    }
}

void loss_count_values(const struct loss_run *r)
{
    struct metrics *m = r->metrics;
    const size_t count = r->batch->count;
    double squared = 0.0, absolute = 0.0, labels = 0.0, m2 = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double error = (double)(r->y[i] - r->batch->targets[i]);
        squared += error * error;
        absolute += fabs(error);
        labels += (double)r->batch->targets[i];
    }
    m->loss_sum += squared;
    m->squared_error_sum += squared;
    m->absolute_error_sum += absolute;
    if (WANTS(m, METRIC_R2)) {
        const double mean = labels / (double)count;
        for (size_t i = 0; i < count; i++) {
            const double off = (double)r->batch->targets[i] - mean;
            m2 += off * off;
        }
        metrics_add_labels(m, (double)count, mean, m2);
    }
}
