#include "rule/sums.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vector.h"
#include "rule/rule.h"

int sums_init(struct sums *s, size_t width, struct err *err)
{
    size_t floats;
    double *values = NULL;
    if (mem_mul(width, SUMS_NODES_MAX, &floats)) {
        values = mem_try_aligned(floats, sizeof *values, "partial sums", err);
    } else {
        (void)err_set(err, ERR_EXHAUSTED, "partial sums of %zu columns", width);
    }
    if (values == NULL) {
        return ERR_EXHAUSTED;
    }
    s->width = width;
    s->count = 0;
    s->values = values;
    return 0;
}

void sums_release(struct sums *s)
{
    free(s->values);
    s->values = NULL;
    s->count = 0;
    s->width = 0;
}

void sums_reset(struct sums *s)
{
    s->count = 0;
}

uint64_t sums_end(const struct sums *s)
{
    if (s->count == 0) {
        return 0;
    }
    const struct sums_node *last = &s->nodes[s->count - 1];
    return last->first + (UINT64_C(1) << last->level);
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

double *sums_next(struct sums *s)
{
    assert(s->count < SUMS_NODES_MAX);
    return s->values + s->count * s->width;
}

void sums_push(struct sums *s, uint64_t first, unsigned level, const double *values)
{
    assert(s->count < SUMS_NODES_MAX && (s->count == 0 || first == sums_end(s)));
    s->nodes[s->count] = (struct sums_node){first, level};
    if (values != sums_next(s)) {
        memcpy(sums_next(s), values, s->width * sizeof *values);
    }
    s->count++;
    while (s->count >= 2 && are_siblings(&s->nodes[s->count - 2], &s->nodes[s->count - 1])) {
        double *left = s->values + (s->count - 2) * s->width;
        add_to(left, left + s->width, s->width);
        s->nodes[s->count - 2].level++;
        s->count--;
    }
}

/* The sum of 2^@level terms, in place. */
VECTOR_CLONES
static double pairwise(double *t, unsigned level)
{
    for (size_t half = (size_t)1 << level >> 1; half > 0; half >>= 1) {
        VECTOR_LOOP
        for (size_t i = 0; i < half; i++) {
            t[i] = t[2 * i] + t[2 * i + 1];
        }
    }
    return t[0];
}

void sums_add(struct sums *s, uint64_t first, size_t n, double *terms)
{
    assert(n <= SUMS_BLOCK && s->width <= RULE_SUMS_MAX);
    for (size_t at = 0; at < n;) {
        unsigned level = 0; /* of the largest node that begins here */
        while (((first + at) >> level & 1) == 0 && (size_t)2 << level <= n - at) {
            level++;
        }
        double values[RULE_SUMS_MAX];
        for (size_t k = 0; k < s->width; k++) {
            values[k] = pairwise(terms + k * SUMS_BLOCK + at, level);
        }
        sums_push(s, first + at, level, values);
        at += (size_t)1 << level;
    }
}

int sums_join(struct sums *s, const struct sums *right, struct err *err)
{
    if (right->width != s->width) {
        return err_set(err, ERR_INVALID, "partial sums of %zu columns joined with %zu",
                       right->width, s->width);
    }
    if (s->count > 0 && right->count > 0 && right->nodes[0].first != sums_end(s)) {
        return err_set(err, ERR_INVALID, "partial sums do not begin where those before them end");
    }
    for (size_t i = 0; i < right->count; i++) {
        sums_push(s, right->nodes[i].first, right->nodes[i].level,
                  right->values + i * right->width);
    }
    return 0;
}

void sums_total(const struct sums *s, double *out)
{
    for (size_t k = 0; k < s->width; k++) {
        double total = 0;
        for (size_t i = s->count; i > 0; i--) { /* the small nodes of the right end first */
            total = s->values[(i - 1) * s->width + k] + total;
        }
        out[k] = total;
    }
}

int rule_sums_init(struct rule_sums *s, const struct rule *rule, unsigned round, size_t width,
                   struct err *err)
{
    struct rule_sums made = {0};
    int rc = sums_init(&made.scalars, rule->sum_count[round], err);
    if (rc == 0 && rule->columns && round == 0) {
        rc = sums_init(&made.rows, width + 1, err);
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
