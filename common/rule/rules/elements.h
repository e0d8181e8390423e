/* SPDX-License-Identifier: Apache-2.0 */
/* What an update does to a gradient and to values besides the rule, element by element: the same
 * bits however a variable is cut, and for a row of a table as for a dense one. */
#ifndef GRADUS_RULE_RULES_ELEMENTS_H
#define GRADUS_RULE_RULES_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>

bool elements_all_finite(const float *x, size_t n);
/* Mean, clip by value, clip by norm: times @scale, to ± @limit, times @factor. NaN stays NaN. */
void elements_clip(float *gradient, float scale, float limit, float factor, size_t n);
/* + l2 · w + l1 · sign(w), w being @in. */
void elements_penalize(float *restrict gradient, const float *in, float l1, float l2, size_t n);
/* @out loses @decay · @in. */
void elements_shrink(float *restrict out, const float *restrict in, float decay, size_t n);

#endif
