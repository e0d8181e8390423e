/* SPDX-License-Identifier: Apache-2.0 */
/* What adam and adamw share: skipped updates of table rows.
 *
 * While the gradient is zero, m and v only decay, so each skipped update j = 1, 2, … moves
 *
 *     w ← w − decay · w − rate_j · β1^j · m / (√(v · β2^j / (1 − β2^t)) + ε)
 *
 * and m and v need not be written before the end. The moves die out like (β1/√β2)^j; when they are
 * below 1e-10 of the first, the rest is left out: some 220 moves with the usual β. */
#ifndef GRADUS_RULE_RULES_ADAM_FAMILY_H
#define GRADUS_RULE_RULES_ADAM_FAMILY_H

#include "rule/rules/rule.h"

struct adam_move { /* the hyperparameters of one update */
    double rate, beta1, beta2, epsilon;
    double decay; /* of the parameter, for each unit of rate */
};

typedef struct adam_move adam_move_of(const void *params, double lr_scale);

/* As `catch_up` of struct rule, for slots m and v. */
void adam_family_catch_up(const struct rule_past *past, adam_move_of *move_of, uint64_t from,
                          uint64_t to, float *values, float *const *slots, size_t n);

#endif
