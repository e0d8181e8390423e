/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up doubles so that the result has the same bits however the work was cut. Complete nodes
 * of a fixed binary tree are kept in a list; two siblings at its end merge into one. */
#include "rule/rules/sums.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vector.h"
#include "rule/rules/rule.h"

static int init(struct sums *s, size_t width, size_t lanes, struct err *err)
{
    size_t count;
    double *values = NULL;
    if (mem_mul(width, lanes * SUMS_NODES_MAX, &count)) {
        values = mem_try_aligned(count, sizeof *values, "partial sums", err);
    } else {
        (void)err_set(err, ERR_EXHAUSTED, "partial sums of %zu columns", width);
    }
    if (values == NULL) {
        return ERR_EXHAUSTED;
    }
    s->width = width;
    s->lanes = lanes;
    s->values = values;
    sums_reset(s);
    return 0;
}

int sums_init(struct sums *s, size_t width, struct err *err)
{
    return init(s, width, SUMS_LANES, err);
}

int sums_init_vectors(struct sums *s, size_t width, struct err *err)
{
    return init(s, width, 1, err);
}

void sums_release(struct sums *s)
{
    free(s->values);
    s->values = NULL;
    s->width = 0;
    sums_reset(s);
}

void sums_reset(struct sums *s)
{
    s->count = 0;
    s->first = s->end = 0;
}

static double *values_of(const struct sums *s, size_t node)
{
    return s->values + node * s->width * s->lanes;
}

static bool are_siblings(const struct sums_node *left, const struct sums_node *right)
{
    uint64_t size = UINT64_C(1) << left->level;
    return left->level == right->level && right->first - left->first == size &&
           (left->first & size) == 0;
}

VECTOR_CLONES
static void add_to(double *restrict to, const double *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

/* The last two nodes become one. */
static void merge_last(struct sums *s)
{
    add_to(values_of(s, s->count - 2), values_of(s, s->count - 1), s->width * s->lanes);
    s->count--;
}

/* A cut leaf, at either end, waits for its other part. */
static bool may_merge(const struct sums *s)
{
    return s->count >= 2 && s->end % s->lanes == 0 && !(s->count == 2 && s->first % s->lanes != 0);
}

/* Add the node whose values stand at sums_next(); summands up to @end are then in. */
static void push(struct sums *s, uint64_t leaf, unsigned level, uint64_t begin, uint64_t end)
{
    assert(s->count < SUMS_NODES_MAX && (s->count == 0 || begin == s->end));
    if (s->count == 0) {
        s->first = begin;
    }
    const struct sums_node *last = &s->nodes[s->count == 0 ? 0 : s->count - 1];
    bool same = s->count > 0 && level == 0 && last->level == 0 && last->first == leaf;
    s->nodes[s->count] = (struct sums_node){leaf, level};
    s->count++;
    s->end = end;
    if (same) {
        merge_last(s);
    }
    while (may_merge(s) && are_siblings(&s->nodes[s->count - 2], &s->nodes[s->count - 1])) {
        merge_last(s);
        s->nodes[s->count - 1].level++;
    }
}

double *sums_next(struct sums *s)
{
    assert(s->count < SUMS_NODES_MAX);
    return values_of(s, s->count);
}

void sums_push_vectors(struct sums *s, uint64_t first, unsigned level)
{
    assert(s->lanes == 1);
    push(s, first, level, first, first + (UINT64_C(1) << level));
}

/* The sum of 2^@level leaves, lane by lane, into the first of them. */
VECTOR_CLONES
static void add_leaves(double *t, unsigned level)
{
    size_t leaves = (size_t)1 << level;
    for (; leaves >= 8; leaves /= 8) {
        for (size_t k = 0; k < leaves / 8; k++) {
            const double *f = t + k * 8 * SUMS_LANES;
            double *to = t + k * SUMS_LANES;
            VECTOR_LOOP
            for (size_t j = 0; j < SUMS_LANES; j++) {
                double a =
                    (f[j] + f[SUMS_LANES + j]) + (f[2 * SUMS_LANES + j] + f[3 * SUMS_LANES + j]);
                double b = (f[4 * SUMS_LANES + j] + f[5 * SUMS_LANES + j]) +
                           (f[6 * SUMS_LANES + j] + f[7 * SUMS_LANES + j]);
                to[j] = a + b;
            }
        }
    }
    for (; leaves > 1; leaves /= 2) {
        for (size_t k = 0; k < leaves / 2; k++) {
            const double *f = t + k * 2 * SUMS_LANES;
            double *to = t + k * SUMS_LANES;
            VECTOR_LOOP
            for (size_t j = 0; j < SUMS_LANES; j++) {
                to[j] = f[j] + f[SUMS_LANES + j];
            }
        }
    }
}

/* Summands [@from, @to) of one leaf. */
static void push_cut_leaf(struct sums *s, uint64_t from, uint64_t to, const double *terms)
{
    double *values = sums_next(s);
    memset(values, 0, s->width * SUMS_LANES * sizeof *values);
    for (size_t k = 0; k < s->width; k++) {
        memcpy(values + k * SUMS_LANES + from % SUMS_LANES, terms + k * SUMS_BLOCK,
               (size_t)(to - from) * sizeof *terms);
    }
    push(s, from / SUMS_LANES, 0, from, to);
}

static void push_leaves(struct sums *s, uint64_t leaf, unsigned level, double *terms)
{
    double *values = sums_next(s);
    for (size_t k = 0; k < s->width; k++) {
        add_leaves(terms + k * SUMS_BLOCK, level);
        memcpy(values + k * SUMS_LANES, terms + k * SUMS_BLOCK, SUMS_LANES * sizeof *terms);
    }
    push(s, leaf, level, leaf * SUMS_LANES, (leaf + (UINT64_C(1) << level)) * SUMS_LANES);
}

void sums_add(struct sums *s, uint64_t first, size_t n, double *terms)
{
    assert(n <= SUMS_BLOCK && s->lanes == SUMS_LANES);
    for (size_t at = 0; at < n;) {
        const uint64_t here = first + at;
        const size_t lane = (size_t)(here % SUMS_LANES), left = n - at;
        if (lane != 0 || left < SUMS_LANES) {
            size_t count = SUMS_LANES - lane < left ? SUMS_LANES - lane : left;
            push_cut_leaf(s, here, here + count, terms + at);
            at += count;
            continue;
        }
        unsigned level = 0; /* level of the largest node that begins here */
        const uint64_t leaf = here / SUMS_LANES;
        while ((leaf >> level & 1) == 0 && ((size_t)SUMS_LANES * 2) << level <= left) {
            level++;
        }
        push_leaves(s, leaf, level, terms + at);
        at += (size_t)SUMS_LANES << level;
    }
}

int sums_join(struct sums *s, const struct sums *right, struct err *err)
{
    if (right->width != s->width || right->lanes != s->lanes) {
        return err_set(err, ERR_INVALID, "partial sums of %zu columns joined with %zu",
                       right->width, s->width);
    }
    if (s->count > 0 && right->count > 0 && right->first != s->end) {
        return err_set(err, ERR_INVALID, "partial sums do not begin where those before them end");
    }
    for (size_t i = 0; i < right->count; i++) {
        const struct sums_node *node = &right->nodes[i];
        uint64_t begin = node->first * s->lanes;
        uint64_t end = (node->first + (UINT64_C(1) << node->level)) * s->lanes;
        memcpy(sums_next(s), values_of(right, i), s->width * s->lanes * sizeof *s->values);
        push(s, node->first, node->level, i == 0 ? right->first : begin,
             i + 1 == right->count ? right->end : end);
    }
    return 0;
}

/* The lanes of value @k of all nodes, the small nodes of the right end first. */
static double total_of(const struct sums *s, size_t k)
{
    double lane[SUMS_LANES] = {0};
    for (size_t i = s->count; i > 0; i--) {
        for (size_t j = 0; j < s->lanes; j++) {
            lane[j] = values_of(s, i - 1)[k * s->lanes + j] + lane[j];
        }
    }
    for (size_t half = s->lanes / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            lane[j] += lane[j + half];
        }
    }
    return lane[0];
}

void sums_total(const struct sums *s, double *out)
{
    for (size_t k = 0; k < s->width; k++) {
        out[k] = total_of(s, k);
    }
}

int rule_sums_init(struct rule_sums *s, const struct rule *rule, unsigned round, size_t width,
                   struct err *err)
{
    struct rule_sums made = {0};
    int rc = sums_init(&made.scalars, rule->sum_count[round], err);
    if (rc == 0 && rule->columns && round == 0) {
        rc = sums_init_vectors(&made.rows, width + 1, err);
    }
    if (rc != 0) {
        rule_sums_release(&made);
        return rc;
    }
    *s = made;
    return 0;
}

void rule_sums_release(struct rule_sums *s)
{
    sums_release(&s->scalars);
    sums_release(&s->rows);
}

int rule_sums_join(struct rule_sums *s, const struct rule_sums *right, struct err *err)
{
    int rc = sums_join(&s->scalars, &right->scalars, err);
    return rc != 0 ? rc : sums_join(&s->rows, &right->rows, err);
}
