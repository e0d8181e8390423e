/* SPDX-License-Identifier: Apache-2.0 */
/* The table of update rules, built-in ones and those of plug-ins, and how any rule is run over a
 * span or, with sums over all of it, over a whole variable. */
#include "rule/rules/rule.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The list of update rules. A new one is a file rule_<name>.c and a line here. */
#define RULES(X)                                                                                   \
    X(sgd)                                                                                         \
    X(momentum)                                                                                    \
    X(nesterov)                                                                                    \
    X(adagrad)                                                                                     \
    X(adagrad_decay)                                                                               \
    X(rowwise_adagrad)                                                                             \
    X(adadelta)                                                                                    \
    X(rmsprop)                                                                                     \
    X(centered_rmsprop)                                                                            \
    X(adam)                                                                                        \
    X(amsgrad)                                                                                     \
    X(adamw)                                                                                       \
    X(adamax)                                                                                      \
    X(nadam)                                                                                       \
    X(radam)                                                                                       \
    X(adabelief)                                                                                   \
    X(yogi)                                                                                        \
    X(lion)                                                                                        \
    X(lamb)                                                                                        \
    X(lars)                                                                                        \
    X(novograd)                                                                                    \
    X(adafactor)                                                                                   \
    X(ftrl)                                                                                        \
    X(ftml)                                                                                        \
    X(proximal_sgd)                                                                                \
    X(proximal_adagrad)                                                                            \
    X(signum)                                                                                      \
    X(sgld)                                                                                        \
    X(dc_asgd)                                                                                     \
    X(adaptive_revision)                                                                           \
    X(sum)                                                                                         \
    X(average)

#define RULE_EXTERN(name) extern const struct rule rule_##name;
RULES(RULE_EXTERN)
#undef RULE_EXTERN

#define RULE_ROW(name) &rule_##name,
static const struct rule *const rules[] = {RULES(RULE_ROW)};
#undef RULE_ROW

#define RULE_COUNT (sizeof rules / sizeof rules[0])

/* Rules of plug-ins. Written before there is a second thread, then only read. */
static struct {
    const struct rule *rule;
    const char *file;
} added[RULE_ADDED_MAX];
static size_t added_count;

const struct rule *rule_at(size_t index)
{
    if (index < RULE_COUNT) {
        return rules[index];
    }
    return index - RULE_COUNT < added_count ? added[index - RULE_COUNT].rule : NULL;
}

const struct rule *rule_find(const char *name)
{
    const struct rule *rule;
    for (size_t i = 0; (rule = rule_at(i)) != NULL; i++) {
        if (strcmp(rule->name, name) == 0) {
            return rule;
        }
    }
    return NULL;
}

int rule_name_is_free(const char *name, struct err *err)
{
    const struct rule *rule = rule_find(name);
    const char *file = rule == NULL ? NULL : rule_file(rule);
    return rule == NULL ? 0
                        : err_set(err, ERR_EXISTS, "there is a rule %s already, %s%s", name,
                                  file == NULL ? "built in" : "from ", file == NULL ? "" : file);
}

int rule_add(const struct rule *rule, const char *file, struct err *err)
{
    int rc = rule_name_is_free(rule->name, err);
    if (rc != 0) {
        return rc;
    }
    if (added_count == RULE_ADDED_MAX) {
        return err_set(err, ERR_EXHAUSTED, "there are %d rules of plug-ins already",
                       RULE_ADDED_MAX);
    }
    added[added_count].rule = rule;
    added[added_count++].file = file;
    return 0;
}

const char *rule_file(const struct rule *rule)
{
    for (size_t i = 0; i < added_count; i++) {
        if (added[i].rule == rule) {
            return added[i].file;
        }
    }
    return NULL;
}

bool rule_is_elementwise(const struct rule *rule)
{
    return rule->apply != NULL;
}

size_t rule_slot_floats(const struct rule *rule, size_t slot, size_t rows, size_t width)
{
    switch (rule->slot_kinds[slot]) {
    case RULE_SLOT_ROW:
        return rows;
    case RULE_SLOT_COLUMN:
        return width;
    case RULE_SLOT_VARIABLE:
        return 1;
    case RULE_SLOT_PARAMETER:
        break;
    }
    return rows * width;
}

size_t rule_bytes_per_parameter(const struct rule *rule)
{
    size_t floats = 1;
    for (size_t i = 0; i < rule->slot_count; i++) {
        floats += rule->slot_kinds[i] == RULE_SLOT_PARAMETER;
    }
    return floats * sizeof(float);
}

void rule_apply_span(const struct rule *rule, const struct rule_scalars *s,
                     const struct rule_span *span)
{
    if (rule->apply_span != NULL) {
        rule->apply_span(s, span);
    } else {
        rule->apply(s, span->out, span->in, span->slots, span->gradient, span->gradient_scale,
                    span->n);
    }
}

struct rule_span rule_span_part(const struct rule *rule, const struct rule_span *span, size_t at,
                                size_t n, float **slots)
{
    struct rule_span part = *span;
    for (size_t k = 0; k < rule->slot_count; k++) {
        slots[k] = span->slots[k];
        if (rule->slot_kinds[k] == RULE_SLOT_PARAMETER) {
            slots[k] += at;
        } else if (rule->slot_kinds[k] == RULE_SLOT_ROW) {
            slots[k] += at / span->width;
        }
    }
    part.slots = slots;
    part.out += at;
    part.in += at;
    part.gradient += at;
    part.base = span->base == NULL ? NULL : span->base + at;
    part.first += at;
    part.n = n;
    return part;
}

static int reduce_round(const struct rule *rule, const struct rule_scalars *s, unsigned round,
                        const struct rule_span *span, struct rule_totals *totals, struct err *err)
{
    struct rule_sums sums;
    int rc = rule_sums_init(&sums, rule, round, span->width, err);
    if (rc != 0) {
        return rc;
    }
    rule->reduce(s, round, span, &sums);
    sums_total(&sums.scalars, totals->sums);
    if (rule->columns && round == 0) {
        sums_total(&sums.rows, totals->columns);
    }
    rule_sums_release(&sums);
    rule->settle(s, round, totals, span->slots);
    return 0;
}

int rule_apply_variable(const struct rule *rule, const struct rule_scalars *s,
                        const struct rule_span *span, struct err *err)
{
    struct rule_totals totals = {.elements = span->n, .width = span->width};
    struct rule_span whole = *span;
    int rc = 0;
    if (rule->columns) {
        totals.columns = mem_try_aligned(span->width + 1, sizeof(double), "column sums", err);
        rc = totals.columns == NULL ? ERR_EXHAUSTED : 0;
    }
    whole.totals = &totals;
    for (unsigned round = 0; rc == 0 && round < rule->rounds; round++) {
        rc = reduce_round(rule, s, round, &whole, &totals, err);
    }
    if (rc == 0) {
        rule_apply_span(rule, s, &whole);
    }
    free(totals.columns);
    return rc;
}
