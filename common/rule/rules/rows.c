/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a rule to some rows of a variable, such as the rows of an embedding that a batch used.
 * Neighbouring rows go to the rule as one span. */
#include "rule/rules/rows.h"

#include <assert.h>

bool rule_takes_rows(const struct rule *rule)
{
    return rule->rounds == 0;
}

static void slots_of(const struct rule *rule, const struct rule_rows *rows, uint64_t row,
                     float **slots)
{
    for (size_t k = 0; k < rule->slot_count; k++) {
        size_t stride = rule->slot_kinds[k] == RULE_SLOT_ROW ? 1 : rows->width;
        slots[k] = rows->slots[k] + row * stride;
    }
}

/* The number of rows from the @at-th on that lie one behind the other: they are one span. */
static size_t run_length(const struct rule_rows *rows, size_t at)
{
    size_t n = 1;
    while (at + n < rows->n && rows->index[at + n] == rows->index[at] + n) {
        n++;
    }
    return n;
}

void rule_apply_rows(const struct rule *rule, const struct rule_scalars *s, uint64_t version,
                     const struct rule_rows *rows)
{
    assert(rule_takes_rows(rule));
    for (size_t at = 0, count; at < rows->n; at += count) {
        const uint64_t row = rows->index[at];
        float *slots[RULE_SLOTS_MAX] = {NULL};
        slots_of(rule, rows, row, slots);
        count = run_length(rows, at);
        const struct rule_span span = {
            .out = rows->values + row * rows->width,
            .in = rows->values + row * rows->width,
            .slots = slots,
            .gradient = rows->gradient + at * rows->width,
            .gradient_scale = rows->gradient_scale,
            .n = count * rows->width,
            .first = row * rows->width,
            .variable = rows->variable,
            .width = rows->width,
            .base = rows->base == NULL ? NULL : rows->base + at * rows->width,
        };
        rule_apply_span(rule, s, &span);
        for (size_t k = 0; rows->seen != NULL && k < count; k++) {
            rows->seen[row + k] = version + 1;
        }
    }
}

void rule_catch_up_rows(const struct rule *rule, const struct rule_past *past, uint64_t version,
                        const struct rule_rows *rows)
{
    assert(rule->still || rule->catch_up != NULL);
    for (size_t at = 0; at < rows->n; at++) {
        const uint64_t row = rows->index[at];
        if (rows->seen[row] >= version) {
            continue;
        }
        if (rule->catch_up != NULL) {
            float *slots[RULE_SLOTS_MAX] = {NULL};
            slots_of(rule, rows, row, slots);
            rule->catch_up(past, rows->seen[row], version, rows->values + row * rows->width, slots,
                           rows->width);
        }
        rows->seen[row] = version;
    }
}
