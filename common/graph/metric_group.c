/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the scores of records with their groups, and takes AUC group by group. The value is a
 * function of the set of records: they are sorted first, by all that their sums depend on. */
#include "graph/metric_group.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The wire form of a record is the upper half of its group with bin and label, the lower half,
 * which are whole numbers below 2^53, and the weight. */
#define HALF 0x1.0p32

void group_scores_release(struct group_scores *s)
{
    free(s->items);
    *s = (struct group_scores){0};
}

void group_scores_reset(struct group_scores *s)
{
    s->count = 0;
    s->full = false;
}

/* Makes room for @more; false: there are too many. */
static bool reserve(struct group_scores *s, size_t more)
{
    if (s->full || more > METRIC_GROUPED_RECORDS_MAX - s->count) {
        s->full = true;
        return false;
    }
    s->items = mem_grow(s->items, &s->capacity, s->count + more, sizeof *s->items);
    return true;
}

void group_scores_add(struct group_scores *s, const struct group_score *score)
{
    if (reserve(s, 1)) {
        s->items[s->count++] = *score;
    }
}

void group_scores_merge(struct group_scores *into, const struct group_scores *from)
{
    if (reserve(into, from->count) && from->count > 0) {
        memcpy(into->items + into->count, from->items, from->count * sizeof *from->items);
        into->count += from->count;
    }
    into->full = into->full || from->full;
}

static int in_order(const void *a, const void *b)
{
    const struct group_score *x = a, *y = b;
    if (x->group != y->group) {
        return x->group < y->group ? -1 : 1;
    }
    if (x->bin != y->bin) {
        return x->bin < y->bin ? -1 : 1;
    }
    return x->weight < y->weight ? -1 : x->weight > y->weight;
}

/* AUC of one group, sorted: the probability that a positive scores above a negative, ties counting
 * half; NaN where there is no such pair. */
static double area(const struct group_score *items, size_t count)
{
    double below = 0.0, positives = 0.0, pairs = 0.0;
    for (size_t i = 0; i < count;) {
        double p = 0.0, n = 0.0;
        const uint32_t bin = items[i].bin;
        for (; i < count && items[i].bin == bin; i++) {
            const double weight = (double)items[i].weight;
            p += items[i].positive ? weight : 0.0;
            n += items[i].positive ? 0.0 : weight;
        }
        pairs += p * (below + 0.5 * n);
        below += n;
        positives += p;
    }
    return pairs / (positives * below);
}

double group_scores_value(const struct group_scores *s)
{
    if (s->full || s->count == 0) {
        return NAN;
    }
    struct group_score *sorted = mem_new(s->count, sizeof *sorted);
    memcpy(sorted, s->items, s->count * sizeof *sorted);
    qsort(sorted, s->count, sizeof *sorted, in_order);
    double sum = 0.0, weights = 0.0;
    for (size_t i = 0, end; i < s->count; i = end) {
        double weight = 0.0;
        for (end = i; end < s->count && sorted[end].group == sorted[i].group; end++) {
            weight += (double)sorted[end].weight;
        }
        const double auc = area(sorted + i, end - i);
        if (!isnan(auc)) {
            sum += weight * auc;
            weights += weight;
        }
    }
    free(sorted);
    return sum / weights;
}

void group_scores_pack(const struct group_scores *s, double *out)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct group_score *r = &s->items[i];
        *out++ = ((double)r->bin * 2 + (r->positive ? 1 : 0)) * HALF + (double)(r->group >> 32);
        *out++ = (double)(r->group & UINT32_MAX);
        *out++ = (double)r->weight;
    }
}

static bool is_below(double v, double end)
{
    return v >= 0.0 && v < end && v == floor(v);
}

int group_scores_unpack(struct group_scores *s, const double *in, size_t count, uint32_t bins,
                        struct err *err)
{
    if (count > METRIC_GROUPED_RECORDS_MAX) {
        return err_set(err, ERR_INVALID, "scores of %zu records; at most %u are possible", count,
                       METRIC_GROUPED_RECORDS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        const double *r = in + i * GROUP_SCORE_DOUBLES;
        if (!is_below(r[0], (double)bins * 2 * HALF) || !is_below(r[1], HALF) ||
            !(r[2] >= 0.0 && r[2] <= (double)FLT_MAX)) {
            return err_set(err, ERR_INVALID, "the score of record %zu of them is %g, %g, %g", i,
                           r[0], r[1], r[2]);
        }
    }
    group_scores_reset(s);
    (void)reserve(s, count); /* it is not too much */
    for (size_t i = 0; i < count; i++) {
        const uint64_t high = (uint64_t)in[i * GROUP_SCORE_DOUBLES];
        const uint64_t low = (uint64_t)in[i * GROUP_SCORE_DOUBLES + 1];
        const struct group_score score = {.group = high << 32 | low,
                                          .weight = (float)in[i * GROUP_SCORE_DOUBLES + 2],
                                          .bin = (uint16_t)(high >> 33),
                                          .positive = (high >> 32 & 1) != 0};
        group_scores_add(s, &score);
    }
    return 0;
}
