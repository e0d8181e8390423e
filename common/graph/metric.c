/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the sums and counters that metrics are made of, merges those of several workers, and packs
 * them for the wire as doubles, which are exact for counts below 2^53. */
#include "graph/metric.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define KIND(kind) (1U << (kind))
#define BY_CLASS (KIND(METRIC_PRECISION) | KIND(METRIC_RECALL) | KIND(METRIC_F1))
#define CLASSES_MAX 100000U /* data.classes */

/* The wire form: the number of examples, their weight, the sums that are on, the counters that are
 * on, then the scores of grouped AUC, one for each example. */
static const struct sum {
    size_t offset, count;
    unsigned kinds; /* that it is for */
} sums[] = {
    {offsetof(struct metrics, weight), 1, UINT_MAX},
    {offsetof(struct metrics, loss_sum), 1, UINT_MAX},
    {offsetof(struct metrics, correct), 1, UINT_MAX},
    {offsetof(struct metrics, squared_error_sum), 1, UINT_MAX},
    {offsetof(struct metrics, absolute_error_sum), 1, KIND(METRIC_MAE)},
    {offsetof(struct metrics, label_sum), 1,
     KIND(METRIC_NORMALISED_ENTROPY) | KIND(METRIC_CALIBRATION)},
    {offsetof(struct metrics, probability_sum), 1, KIND(METRIC_CALIBRATION)},
    {offsetof(struct metrics, top_correct), 1, KIND(METRIC_TOP_K_ACCURACY)},
    {offsetof(struct metrics, ece), (size_t)METRIC_ECE_BINS *METRIC_ECE_SUMS, KIND(METRIC_ECE)},
    {offsetof(struct metrics, label_mean), 1, KIND(METRIC_R2)},
    {offsetof(struct metrics, label_m2), 1, KIND(METRIC_R2)},
};
static const struct counters {
    size_t offset, cells_max;
    unsigned kinds;
} tallies[] = {
    {offsetof(struct metrics, scores), (size_t)METRIC_CLASSES_MAX * 2 * METRIC_AUC_BINS,
     KIND(METRIC_AUC)},
    {offsetof(struct metrics, classes), METRIC_CLASS_COUNTS *(size_t)CLASSES_MAX, BY_CLASS},
    {offsetof(struct metrics, confusion), METRIC_CLASSES_MAX *(size_t)METRIC_CLASSES_MAX,
     KIND(METRIC_CONFUSION_MATRIX)},
};
#define SUMS (sizeof sums / sizeof sums[0])
#define TALLIES (sizeof tallies / sizeof tallies[0])

static bool has(const struct metrics *m, enum metric_kind kind)
{
    return (m->kinds & KIND(kind)) != 0;
}

static double *sum_at(struct metrics *m, const struct sum *s)
{
    return (double *)(void *)((char *)m + s->offset);
}

static const double *sum_of(const struct metrics *m, const struct sum *s)
{
    return (const double *)(const void *)((const char *)m + s->offset);
}

static struct metric_tally *tally_at(struct metrics *m, size_t i)
{
    return (struct metric_tally *)(void *)((char *)m + tallies[i].offset);
}

static const struct metric_tally *tally_of(const struct metrics *m, size_t i)
{
    return (const struct metric_tally *)(const void *)((const char *)m + tallies[i].offset);
}

unsigned metrics_of_training(unsigned kinds)
{
    return kinds & ~(KIND(METRIC_GROUPED_AUC) | KIND(METRIC_CONFUSION_MATRIX));
}

void metrics_init(struct metrics *m, unsigned kinds)
{
    *m = (struct metrics){.kinds = kinds | KIND(METRIC_LOSS)};
}

void metrics_release(struct metrics *m)
{
    for (size_t i = 0; i < TALLIES; i++) {
        tally_release(tally_at(m, i));
    }
    group_scores_release(&m->groups);
    *m = (struct metrics){0};
}

void metrics_reset(struct metrics *m)
{
    m->examples = 0;
    for (size_t i = 0; i < SUMS; i++) {
        memset(sum_at(m, &sums[i]), 0, sums[i].count * sizeof(double));
    }
    for (size_t i = 0; i < TALLIES; i++) {
        tally_reset(tally_at(m, i));
    }
    group_scores_reset(&m->groups);
}

void metrics_add_labels(struct metrics *m, double weight, double mean, double m2)
{
    const double all = m->weight + weight, shift = mean - m->label_mean;
    if (weight > 0.0) {
        m->label_mean += shift * weight / all;
        m->label_m2 += m2 + shift * shift * (m->weight * weight / all);
    }
}

void metrics_merge(struct metrics *into, const struct metrics *from)
{
    if (has(into, METRIC_R2)) {
        metrics_add_labels(into, from->weight, from->label_mean, from->label_m2);
    }
    into->examples += from->examples;
    for (size_t i = 0; i < SUMS; i++) {
        for (size_t k = 0; k < sums[i].count && sums[i].kinds != KIND(METRIC_R2); k++) {
            sum_at(into, &sums[i])[k] += sum_of(from, &sums[i])[k];
        }
    }
    for (size_t i = 0; i < TALLIES; i++) {
        if ((into->kinds & tallies[i].kinds) != 0) {
            tally_merge(tally_at(into, i), tally_of(from, i));
        }
    }
    if (has(into, METRIC_GROUPED_AUC)) {
        group_scores_merge(&into->groups, &from->groups);
    }
}

/* ---- the wire form ---- */

static size_t sums_on(const struct metrics *m)
{
    size_t n = 1; /* examples */
    for (size_t i = 0; i < SUMS; i++) {
        n += (m->kinds & sums[i].kinds) != 0 ? sums[i].count : 0;
    }
    return n;
}

size_t metrics_pack(const struct metrics *m, double *out)
{
    size_t n = sums_on(m), at = 1;
    for (size_t i = 0; i < SUMS && out != NULL; i++) {
        if ((m->kinds & sums[i].kinds) != 0) {
            memcpy(out + at, sum_of(m, &sums[i]), sums[i].count * sizeof(double));
            at += sums[i].count;
        }
    }
    for (size_t i = 0; i < TALLIES; i++) {
        if ((m->kinds & tallies[i].kinds) != 0) {
            n += tally_pack(tally_of(m, i), out == NULL ? NULL : out + n);
        }
    }
    if (out != NULL) {
        out[0] = (double)m->examples;
        group_scores_pack(&m->groups, out + n);
    }
    return n + m->groups.count * GROUP_SCORE_DOUBLES;
}

/* Checks that the numbers are as many as the kinds need, and the counts among them are counts.
 * @groups: where the scores of records begin. */
static int check_numbers(const struct metrics *m, const double *in, size_t count, size_t *groups,
                         struct err *err)
{
    size_t at = sums_on(m);
    if (count < at) {
        return err_set(err, ERR_INVALID, "metrics hold %zu numbers; these kinds need %zu", count,
                       at);
    }
    if (!(in[0] >= 0.0 && in[0] <= 0x1.0p53 && in[0] == floor(in[0]))) {
        return err_set(err, ERR_INVALID, "metrics count %g examples", in[0]);
    }
    for (size_t i = 0; i < TALLIES; i++) {
        size_t used = 0;
        if ((m->kinds & tallies[i].kinds) != 0 &&
            tally_check(in + at, count - at, tallies[i].cells_max, &used, err) != 0) {
            return ERR_INVALID;
        }
        at += used;
    }
    *groups = at;
    const double need = (double)at + (has(m, METRIC_GROUPED_AUC) ? in[0] * GROUP_SCORE_DOUBLES : 0);
    return (double)count == need
               ? 0
               : err_set(err, ERR_INVALID, "metrics hold %zu numbers; these kinds need %.0f", count,
                         need);
}

int metrics_unpack(struct metrics *m, const double *in, size_t count, struct err *err)
{
    size_t groups = 0;
    int rc = check_numbers(m, in, count, &groups, err);
    if (rc == 0 && has(m, METRIC_GROUPED_AUC)) {
        rc = group_scores_unpack(&m->groups, in + groups, (count - groups) / GROUP_SCORE_DOUBLES,
                                 METRIC_AUC_BINS, err);
    }
    if (rc != 0) {
        return rc;
    }
    m->examples = (uint64_t)in[0];
    size_t at = 1;
    for (size_t i = 0; i < SUMS; i++) {
        const bool on = (m->kinds & sums[i].kinds) != 0;
        memset(sum_at(m, &sums[i]), 0, sums[i].count * sizeof(double));
        if (on) {
            memcpy(sum_at(m, &sums[i]), in + at, sums[i].count * sizeof(double));
        }
        at += on ? sums[i].count : 0;
    }
    for (size_t i = 0; i < TALLIES; i++) {
        if ((m->kinds & tallies[i].kinds) != 0) {
            at += tally_unpack(tally_at(m, i), in + at);
        }
    }
    return 0;
}
