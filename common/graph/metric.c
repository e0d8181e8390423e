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
 * on, then the scores of grouped AUC, one for each example; where sums have rests, those of the
 * sums that are on. The sums of R² have none, and are the last. */
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
    memset(m->rest, 0, sizeof m->rest);
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

/* @a + @b, and what rounding has taken from it (Knuth, TAOCP 2, 4.2.2, theorem B). */
static double two_sum(double a, double b, double *rest)
{
    const double sum = a + b, part = sum - a;
    *rest = (a - (sum - part)) + (b - part);
    return sum;
}

/* Adds @x to the sum @sum + @rest[0] + @rest[1], each of which is below the last bit of the one
 * before. */
static void add_exactly(double *sum, double rest[METRIC_RESTS], double x)
{
    double over = 0.0, least = 0.0;
    const double all = two_sum(*sum, x, &over);
    if (!isfinite(all)) {
        *sum = all;
        memset(rest, 0, METRIC_RESTS * sizeof *rest);
        return;
    }
    double mid = two_sum(rest[0], over, &over);
    mid = two_sum(mid, rest[1] + over, &least);
    *sum = two_sum(all, mid, &mid);
    rest[0] = two_sum(mid, least, &rest[1]);
}

void metrics_merge(struct metrics *into, const struct metrics *from)
{
    size_t at = 0;
    if (has(into, METRIC_R2)) {
        metrics_add_labels(into, from->weight, from->label_mean, from->label_m2);
    }
    into->examples += from->examples;
    for (size_t i = 0; i < SUMS && sums[i].kinds != KIND(METRIC_R2); i++) {
        for (size_t k = 0; k < sums[i].count; k++, at++) {
            double *sum = &sum_at(into, &sums[i])[k];
            for (size_t j = METRIC_RESTS; j-- > 0;) {
                add_exactly(sum, into->rest[at], from->rest[at][j]);
            }
            add_exactly(sum, into->rest[at], sum_of(from, &sums[i])[k]);
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

void metrics_open(struct metrics *m, struct metrics_before *before)
{
    size_t at = 0;
    *before = (struct metrics_before){.label_mean = m->label_mean, .label_m2 = m->label_m2};
    m->label_mean = m->label_m2 = 0.0;
    for (size_t i = 0; i < SUMS && sums[i].kinds != KIND(METRIC_R2); i++) {
        double *sum = sum_at(m, &sums[i]);
        memcpy(before->sums + at, sum, sums[i].count * sizeof *sum);
        memset(sum, 0, sums[i].count * sizeof *sum);
        at += sums[i].count;
    }
}

void metrics_close(struct metrics *m, const struct metrics_before *before)
{
    size_t at = 0;
    const double weight = m->weight, mean = m->label_mean, m2 = m->label_m2;
    for (size_t i = 0; i < SUMS && sums[i].kinds != KIND(METRIC_R2); i++) {
        for (size_t k = 0; k < sums[i].count; k++, at++) {
            double *sum = &sum_at(m, &sums[i])[k];
            const double batch = *sum;
            *sum = before->sums[at];
            if (sum == &m->weight &&
                has(m, METRIC_R2)) { /* labels are added before their weight is */
                m->label_mean = before->label_mean;
                m->label_m2 = before->label_m2;
                metrics_add_labels(m, weight, mean, m2);
            }
            add_exactly(sum, m->rest[at], batch);
        }
    }
}

/* ---- the wire form ---- */

static bool has_rests(const struct metrics *m)
{
    bool any = false;
    for (size_t i = 0; i < METRIC_SUM_COUNT; i++) {
        any = any || m->rest[i][0] != 0.0 || m->rest[i][1] != 0.0;
    }
    return any;
}

static size_t rests_on(const struct metrics *m)
{
    size_t n = 0;
    for (size_t i = 0; i < SUMS && sums[i].kinds != KIND(METRIC_R2); i++) {
        n += (m->kinds & sums[i].kinds) != 0 ? sums[i].count * METRIC_RESTS : 0;
    }
    return n;
}

/* Returns how many there are; @out may be NULL. */
static size_t pack_rests(const struct metrics *m, double *out)
{
    size_t at = 0;
    for (size_t i = 0; out != NULL && i < SUMS && sums[i].kinds != KIND(METRIC_R2); i++) {
        if ((m->kinds & sums[i].kinds) != 0) {
            memcpy(out, m->rest[at], sums[i].count * sizeof m->rest[at]);
            out += sums[i].count * METRIC_RESTS;
        }
        at += sums[i].count;
    }
    return rests_on(m);
}

static void unpack_rests(struct metrics *m, const double *in)
{
    size_t at = 0;
    for (size_t i = 0; i < SUMS && sums[i].kinds != KIND(METRIC_R2); i++) {
        if ((m->kinds & sums[i].kinds) != 0) {
            memcpy(m->rest[at], in, sums[i].count * sizeof m->rest[at]);
            in += sums[i].count * METRIC_RESTS;
        }
        at += sums[i].count;
    }
}

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
    n += m->groups.count * GROUP_SCORE_DOUBLES;
    return has_rests(m) ? n + pack_rests(m, out == NULL ? NULL : out + n) : n;
}

/* Checks that the numbers are as many as the kinds need, and the counts among them are counts.
 * @groups, @rests: where the scores of records and the rests begin, if there are any. */
static int check_numbers(const struct metrics *m, const double *in, size_t count, size_t *groups,
                         size_t *rests, struct err *err)
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
    const bool all = (double)count == need || (double)count == need + (double)rests_on(m);
    *rests = all ? (size_t)need : 0;
    return all ? 0
               : err_set(err, ERR_INVALID, "metrics hold %zu numbers; these kinds need %.0f", count,
                         need);
}

int metrics_unpack(struct metrics *m, const double *in, size_t count, struct err *err)
{
    size_t groups = 0, rests = 0;
    int rc = check_numbers(m, in, count, &groups, &rests, err);
    if (rc == 0 && has(m, METRIC_GROUPED_AUC)) {
        rc = group_scores_unpack(&m->groups, in + groups, (rests - groups) / GROUP_SCORE_DOUBLES,
                                 METRIC_AUC_BINS, err);
    }
    if (rc != 0) {
        return rc;
    }
    memset(m->rest, 0, sizeof m->rest);
    if (rests < count) {
        unpack_rests(m, in + rests);
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
