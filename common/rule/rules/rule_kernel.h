/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules' loops share: small functions without branches, so that the loops vectorise, and
 * the walk over blocks that reductions make. Only rules include this.
 *
 * Compares are written so that NaN in the fresh operand comes through. */
#ifndef GRADUS_RULE_RULES_RULE_KERNEL_H
#define GRADUS_RULE_RULES_RULE_KERNEL_H

#include <math.h>

#include "base/vector.h"
#include "rule/rules/rule.h"

VECTOR_INLINE float kernel_abs(float x)
{
    return x < 0.0F ? -x : x;
}

/* -1, 0 or 1; NaN stays NaN. */
VECTOR_INLINE float kernel_sign(float x)
{
    float s = x > 0.0F ? 1.0F : x;
    return x < 0.0F ? -1.0F : s;
}

/* The larger; @fresh when it is NaN. */
VECTOR_INLINE float kernel_max(float old, float fresh)
{
    return old > fresh ? old : fresh;
}

/* Soft threshold: @x moved towards 0 by @by, at most to 0. NaN stays NaN. */
VECTOR_INLINE float kernel_shrink(float x, float by)
{
    float above = x - by, below = x + by;
    float s = x > by ? above : 0.0F * x;
    return x < -by ? below : s;
}

#define KERNEL_LANES 16

/* The sum of interleaved sums, in one order. */
VECTOR_INLINE double kernel_lanes_total(double *lane)
{
    for (size_t half = KERNEL_LANES / 2; half > 0; half /= 2) {
        for (size_t k = 0; k < half; k++) {
            lane[k] += lane[k + half];
        }
    }
    return lane[0];
}

/* Σ (x · scale)² over a row, in interleaved sums, so that it is fast and always the same. */
VECTOR_INLINE double kernel_row_squares(const float *x, float scale, size_t n)
{
    double lane[KERNEL_LANES] = {0};
    size_t i = 0;
    for (; n - i >= KERNEL_LANES; i += KERNEL_LANES) {
        VECTOR_LOOP
        for (size_t k = 0; k < KERNEL_LANES; k++) {
            double g = (double)(x[i + k] * scale);
            lane[k] += g * g;
        }
    }
    for (size_t k = 0; i < n; i++, k++) {
        double g = (double)(x[i] * scale);
        lane[k] += g * g;
    }
    return kernel_lanes_total(lane);
}

/* The hyperparameters of update number @version. */
static inline const void *kernel_past(const struct rule_past *past, uint64_t version,
                                      double *lr_scale)
{
    const void *params = past->params;
    *lr_scale = past->lr_scale;
    if (past->at != NULL) {
        past->at(past->context, version, &params, lr_scale);
    }
    return params;
}

/* Terms of @n elements from the @at-th of the span on: value k of element i goes to
 * @terms[k × SUMS_BLOCK + i]. */
typedef void kernel_terms(const struct rule_scalars *s, const struct rule_span *span, size_t at,
                          size_t n, double *terms);

/* Add the terms of all elements of the span, block by block. */
static inline void kernel_reduce(const struct rule_scalars *s, const struct rule_span *span,
                                 struct sums *out, kernel_terms *terms_of)
{
    double terms[RULE_SUMS_MAX * SUMS_BLOCK];
    for (size_t at = 0, n; at < span->n; at += n) {
        /* Cut where blocks of the variable begin: there the tree's nodes are large. */
        n = SUMS_BLOCK - (size_t)((span->first + at) % SUMS_BLOCK);
        n = n < span->n - at ? n : span->n - at;
        terms_of(s, span, at, n, terms);
        sums_add(out, span->first + at, n, terms);
    }
}

#endif
