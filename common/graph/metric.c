/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the sums that loss, accuracy, AUC and RMSE are made of, merges those of several
 * workers, and packs them for the wire as doubles, which are exact for counts below 2^53. */
#include "graph/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The wire form: this many sums, those that are on of the absolute error and the labels, then the
 * bins of AUC, then the scores of grouped AUC, one for each example. */
enum { PACKED_EXAMPLES, PACKED_LOSS, PACKED_CORRECT, PACKED_SQUARED_ERROR, PACKED_SUMS };

static bool has(const struct metrics *m, enum metric_kind kind)
{
    return (m->kinds & (1U << kind)) != 0;
}

static bool has_auc(const struct metrics *m)
{
    return has(m, METRIC_AUC);
}

unsigned metrics_of_training(unsigned kinds)
{
    return kinds & ~(1U << METRIC_GROUPED_AUC);
}

void metrics_init(struct metrics *m, unsigned kinds)
{
    *m = (struct metrics){.kinds = kinds | 1U << METRIC_LOSS};
    if (has_auc(m)) {
        m->positives = mem_new(METRIC_AUC_BINS, sizeof *m->positives);
        m->negatives = mem_new(METRIC_AUC_BINS, sizeof *m->negatives);
    }
}

void metrics_release(struct metrics *m)
{
    free(m->positives);
    free(m->negatives);
    group_scores_release(&m->groups);
    *m = (struct metrics){0};
}

void metrics_reset(struct metrics *m)
{
    m->examples = 0;
    m->loss_sum = m->correct = m->squared_error_sum = 0.0;
    m->absolute_error_sum = m->label_sum = 0.0;
    if (has_auc(m)) {
        memset(m->positives, 0, METRIC_AUC_BINS * sizeof *m->positives);
        memset(m->negatives, 0, METRIC_AUC_BINS * sizeof *m->negatives);
    }
    group_scores_reset(&m->groups);
}

void metrics_merge(struct metrics *into, const struct metrics *from)
{
    into->examples += from->examples;
    into->loss_sum += from->loss_sum;
    into->correct += from->correct;
    into->squared_error_sum += from->squared_error_sum;
    into->absolute_error_sum += from->absolute_error_sum;
    into->label_sum += from->label_sum;
    if (has_auc(into) && has_auc(from)) {
        for (size_t i = 0; i < METRIC_AUC_BINS; i++) {
            into->positives[i] += from->positives[i];
            into->negatives[i] += from->negatives[i];
        }
    }
    if (has(into, METRIC_GROUPED_AUC)) {
        group_scores_merge(&into->groups, &from->groups);
    }
}

/* The probability that a positive scores above a negative; ties count half (Mann & Whitney 1947).
 */
static double area_under_curve(const struct metrics *m)
{
    double below = 0.0, positives = 0.0, pairs = 0.0;
    for (size_t i = 0; i < METRIC_AUC_BINS; i++) {
        const double p = (double)m->positives[i], n = (double)m->negatives[i];
        pairs += p * (below + 0.5 * n);
        below += n;
        positives += p;
    }
    return pairs / (positives * below);
}

/* In nats, as the log loss is. */
static double base_entropy(double p)
{
    return p > 0.0 && p < 1.0 ? -(p * log(p) + (1.0 - p) * log1p(-p)) : NAN;
}

double metrics_value(const struct metrics *m, enum metric_kind kind, double label_scale)
{
    const double n = (double)m->examples;
    if (m->examples == 0 || (m->kinds & (1U << kind)) == 0) {
        return NAN;
    }
    switch (kind) {
    case METRIC_LOSS:
        return m->loss_sum / n;
    case METRIC_ACCURACY:
        return m->correct / n;
    case METRIC_AUC:
        return area_under_curve(m);
    case METRIC_GROUPED_AUC:
        return group_scores_value(&m->groups);
    case METRIC_RMSE:
        return sqrt(m->squared_error_sum / n) * label_scale;
    case METRIC_MAE:
        return m->absolute_error_sum / n * label_scale;
    case METRIC_NORMALISED_ENTROPY:
        return m->loss_sum / n / base_entropy(m->label_sum / n);
    case METRIC_KIND_COUNT:
        break;
    }
    return NAN;
}

static size_t more_sums(const struct metrics *m)
{
    return (size_t)has(m, METRIC_MAE) + (size_t)has(m, METRIC_NORMALISED_ENTROPY);
}

/* Numbers before the scores of records. */
static size_t fixed_numbers(const struct metrics *m)
{
    return PACKED_SUMS + more_sums(m) + (has_auc(m) ? 2 * METRIC_AUC_BINS : 0);
}

size_t metrics_pack(const struct metrics *m, double *out)
{
    const size_t sums = PACKED_SUMS + more_sums(m), fixed = fixed_numbers(m);
    const size_t count = fixed + m->groups.count * GROUP_SCORE_DOUBLES;
    if (out == NULL) {
        return count;
    }
    out[PACKED_EXAMPLES] = (double)m->examples;
    out[PACKED_LOSS] = m->loss_sum;
    out[PACKED_CORRECT] = m->correct;
    out[PACKED_SQUARED_ERROR] = m->squared_error_sum;
    size_t at = PACKED_SUMS;
    if (has(m, METRIC_MAE)) {
        out[at++] = m->absolute_error_sum;
    }
    if (has(m, METRIC_NORMALISED_ENTROPY)) {
        out[at++] = m->label_sum;
    }
    for (size_t i = 0; i < METRIC_AUC_BINS && has_auc(m); i++) {
        out[sums + i] = (double)m->positives[i];
        out[sums + METRIC_AUC_BINS + i] = (double)m->negatives[i];
    }
    group_scores_pack(&m->groups, out + fixed);
    return count;
}

static bool is_count(double v, double max)
{
    return v >= 0.0 && v <= max && v == floor(v);
}

/* Are these numbers as many as the kinds need, and the counts among them counts? */
static int check_numbers(const struct metrics *m, const double *in, size_t count, struct err *err)
{
    const size_t fixed = fixed_numbers(m), sums = PACKED_SUMS + more_sums(m);
    if (count >= fixed && !is_count(in[PACKED_EXAMPLES], 0x1.0p53)) {
        return err_set(err, ERR_INVALID, "metrics count %g examples", in[PACKED_EXAMPLES]);
    }
    const bool grouped = has(m, METRIC_GROUPED_AUC) && count >= fixed;
    const double examples = grouped ? in[PACKED_EXAMPLES] : 0.0;
    if ((double)count != (double)fixed + examples * GROUP_SCORE_DOUBLES) {
        return err_set(err, ERR_INVALID, "metrics hold %zu numbers; these kinds need %.0f", count,
                       (double)fixed + examples * GROUP_SCORE_DOUBLES);
    }
    for (size_t i = sums; i < fixed; i++) {
        if (!is_count(in[i], UINT32_MAX)) {
            return err_set(err, ERR_INVALID, "metrics bin %zu counts %g", i - sums, in[i]);
        }
    }
    return 0;
}

int metrics_unpack(struct metrics *m, const double *in, size_t count, struct err *err)
{
    const size_t fixed = fixed_numbers(m), sums = PACKED_SUMS + more_sums(m);
    int rc = check_numbers(m, in, count, err);
    if (rc == 0 && has(m, METRIC_GROUPED_AUC)) {
        rc = group_scores_unpack(&m->groups, in + fixed, (count - fixed) / GROUP_SCORE_DOUBLES,
                                 METRIC_AUC_BINS, err);
    }
    if (rc != 0) {
        return rc;
    }
    m->examples = (uint64_t)in[PACKED_EXAMPLES];
    m->loss_sum = in[PACKED_LOSS];
    m->correct = in[PACKED_CORRECT];
    m->squared_error_sum = in[PACKED_SQUARED_ERROR];
    size_t at = PACKED_SUMS;
    m->absolute_error_sum = has(m, METRIC_MAE) ? in[at++] : 0.0;
    m->label_sum = has(m, METRIC_NORMALISED_ENTROPY) ? in[at++] : 0.0;
    for (size_t i = 0; i < METRIC_AUC_BINS && has_auc(m); i++) {
        m->positives[i] = (uint32_t)in[sums + i];
        m->negatives[i] = (uint32_t)in[sums + METRIC_AUC_BINS + i];
    }
    return 0;
}
