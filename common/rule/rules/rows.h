/* SPDX-License-Identifier: Apache-2.0 */
/* Rules on rows of tables: those that a batch touched, by index.
 *
 * What that means is chosen by the caller, by name:
 * - lazy: only touched rows change: rule_apply_rows();
 * - catch-up: before it, rule_catch_up_rows() brings the rows to where dense updates would have
 *   brought them; before a table is read as a whole (checkpoint, evaluation), all of its rows;
 * - dense: all rows get every update: no table business, rule_apply_span() over all of it.
 * For rules that are `still`, the three are the same. */
#ifndef GRADUS_RULE_RULES_ROWS_H
#define GRADUS_RULE_RULES_ROWS_H

#include "rule/rules/rule.h"

/* Rows of one table. Row r has its values at r × width, and each slot at r × width or, when it is
 * per row, at r. */
struct rule_rows {
    float *values;
    float *const *slots;
    const uint64_t *index; /* [n] rows, each at most once */
    size_t n;
    size_t width;
    const float *gradient; /* [n × width], in the order of @index */
    float gradient_scale;
    const float *base; /* [n × width] what the worker read, for rules with a base; or NULL */
    uint64_t variable; /* as in struct rule_span */
    /* by row: the number of its updates, maintained here; NULL: lazy, not needed */
    uint64_t *seen;
};

/* True when the rule can be applied row by row: none with sums over the variable. */
bool rule_takes_rows(const struct rule *rule);
/* One update, number @version with scalars @s, of each row; a row's `seen` becomes @version + 1. */
void rule_apply_rows(const struct rule *rule, const struct rule_scalars *s, uint64_t version,
                     const struct rule_rows *rows);
/* Bring each row to @version: the updates that it has not seen had gradients of zero for it. For
 * rules with catch_up or still; gradient and base are not used. */
void rule_catch_up_rows(const struct rule *rule, const struct rule_past *past, uint64_t version,
                        const struct rule_rows *rows);

#endif
