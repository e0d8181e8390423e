/* SPDX-License-Identifier: Apache-2.0 */
/* Update rules: how a gradient changes a variable. One table; one file per rule.
 *
 * To add one: a file rule_<name>.c with its `const struct rule`, a line in rule.c, a row in
 * tests/golden/rules.py.
 *
 * A rule is pure arithmetic on the arrays it is given: no clock, no memory of its own, nothing that
 * depends on how a variable is cut or on how many threads run. There are two kinds:
 *
 * - Rules of single elements (`apply`): a loop over any span of floats, even over several variables
 *   at once. sgd, momentum, adam and most others.
 * - Rules that look further (`apply_span`): at the position in the variable (sgld), at rows and
 *   columns (rowwise_adagrad, adafactor), at what the worker read (dc_asgd, adaptive_revision), or
 *   at sums over the whole variable (lars, lamb, novograd, adafactor).
 *
 * Those with sums go in rounds. In each round `reduce` reads spans of whole rows and writes partial
 * sums (rule/sums.h); the partial sums of all spans, wherever they were made, are joined; `settle`
 * takes the totals, once for each copy of the slots that are per column or per variable; after the
 * last round `apply_span` changes the values. However the variable is cut, the bits are the same.
 *
 * Gradients that are not finite are not filtered here: NaN makes the parameter NaN, where it is
 * seen, and the whole variable where a rule sums over it; what infinity does is up to each formula.
 * Whoever calls decides what to skip. */
#ifndef GRADUS_RULE_RULES_RULE_H
#define GRADUS_RULE_RULES_RULE_H

#include "config/field.h"
#include "rule/rules/sums.h"

#define RULE_SLOTS_MAX 4
#define RULE_SCALARS_MAX 12
#define RULE_ROUNDS_MAX 2
#define RULE_SUMS_MAX 2
#define RULE_SETTLED_MAX 4

struct rule_scalars { /* what one update needs besides the arrays, computed once per update */
    float v[RULE_SCALARS_MAX];
    uint64_t key; /* of the random numbers of this update */
};

/* A variable is seen as a matrix: as many rows as its first dimension, each of `width` elements. A
 * vector has rows of one element. */
enum rule_slot_kind {
    RULE_SLOT_PARAMETER, /* one float for each parameter */
    RULE_SLOT_ROW,       /* one for each row */
    RULE_SLOT_COLUMN,    /* one for each element of a row; every partition has the same copy */
    RULE_SLOT_VARIABLE,  /* one float; every partition has the same copy */
};

enum rule_base {
    /* which values, of those that the worker computed the gradient on, the rule needs */
    RULE_BASE_NONE,
    RULE_BASE_VALUES, /* the parameters */
    RULE_BASE_SLOT,   /* slot 0 */
};

/* The results of `settle` from the sums over a whole variable. The caller sets @elements and @width
 * and, in each round, @sums and @columns to the totals of that round. */
struct rule_totals {
    uint64_t elements;
    size_t width;
    double sums[RULE_SUMS_MAX];
    double *columns; /* [width + 1] for rules with column sums, of round 0; NULL for others */
    float settled[RULE_SETTLED_MAX]; /* for the next round and for apply_span */
};

/* A piece of one variable. Rules with slots per row or sums over columns want whole rows. */
struct rule_span {
    float *out;      /* may equal in */
    const float *in; /* @n floats, as out */
    /* Where each slot begins for the span: at the first element, at its row, or at the slot's own
     * begin (columns, variable). */
    float *const *slots;
    const float *gradient;
    float gradient_scale;
    size_t n;
    uint64_t first;    /* position of the first element in the variable */
    uint64_t variable; /* a number of the variable's own: rng_key(0, its name) */
    size_t width;
    /* What the worker read there, for rules with a base; NULL: the present values, no delay. */
    const float *base;
    const struct rule_totals *totals; /* for rules with rounds */
};

/* The hyperparameters of past updates, for catch-up. */
struct rule_past {
    const void *params; /* of all updates when @at is NULL */
    double lr_scale;
    /* Gives the parameters of update number @version. */
    void (*at)(const void *context, uint64_t version, const void **params, double *lr_scale);
    const void *context;
};

struct rule {
    const char *name;
    const char *help;
    const struct field *fields; /* hyperparameters, rows over the params struct; no owned texts */
    size_t field_count;
    size_t params_bytes;
    size_t slot_count;
    const char *slot_names[RULE_SLOTS_MAX];
    float slot_initial[RULE_SLOTS_MAX];
    enum rule_slot_kind slot_kinds[RULE_SLOTS_MAX];
    enum rule_base base;
    /* Makes the scalars of update number @version (0-based) from @params; the learning rate, where
     * there is one, is that of @params × @lr_scale. */
    void (*prepare)(const void *params, uint64_t version, double lr_scale,
                    struct rule_scalars *out);
    /* One update of @n floats: reads @in (version t), writes @out (version t+1; may equal @in),
     * updates @slots in place. The gradient is @gradient[i] × @gradient_scale. Same bits for any
     * cut of the range. Large arrays must not lie a large power of two apart: they would share the
     * ways of the cache, at two to three times the cost (tests/bench/bench_rules.c staggers).
     * NULL: the rule looks further than single elements; rule_apply_span() does both kinds. */
    void (*apply)(const struct rule_scalars *s, float *out, const float *in, float *const *slots,
                  const float *gradient, float gradient_scale, size_t n);
    void (*apply_span)(const struct rule_scalars *s, const struct rule_span *span);

    /* Sums over the variable: @rounds of them, @sum_count[round] sums over its elements each, and
     * with @columns in round 0 also one over each column, and one more over rows. */
    unsigned rounds;
    size_t sum_count[RULE_ROUNDS_MAX];
    bool columns;
    /* Changes nothing but @out. Spans of one rule_sums come in order and leave no gap. */
    void (*reduce)(const struct rule_scalars *s, unsigned round, const struct rule_span *span,
                   struct rule_sums *out);
    void (*settle)(const struct rule_scalars *s, unsigned round, struct rule_totals *totals,
                   float *const *slots);

    /* Tables. Lazy: only touched rows change, with the scalars of the present version. For some
     * rules that is also what a dense update does: a gradient of zero changes nothing (@still). For
     * those with @catch_up, it brings @n elements of a row from version @from (so many updates they
     * have seen) to @to, as dense updates with gradients of zero would have. Other rules are lazy
     * or dense (all rows get the dense update) by choice of the caller, and the two differ. */
    bool still;
    void (*catch_up)(const struct rule_past *past, uint64_t from, uint64_t to, float *values,
                     float *const *slots, size_t n);
};

const struct rule *rule_find(const char *name);
const struct rule *rule_at(size_t index); /* NULL past the end */

/* Rules of plug-ins (rule/plugin.h), behind the others in the table. */
#define RULE_ADDED_MAX 32
/* Checks that no rule has the name. Errors: ERR_EXISTS there is a rule @name. */
int rule_name_is_free(const char *name, struct err *err);
/* Adds a rule, before there is a second thread. @rule and @file are kept. Errors: ERR_EXISTS the
 * name is taken; ERR_EXHAUSTED. */
int rule_add(const struct rule *rule, const char *file, struct err *err);
const char *rule_file(const struct rule *rule); /* file of its plug-in; NULL: built in */

/* True when `apply` does all: any span of a shard, with slots per parameter and nothing else. */
bool rule_is_elementwise(const struct rule *rule);
/* Floats of a slot for @rows rows of @width. */
size_t rule_slot_floats(const struct rule *rule, size_t slot, size_t rows, size_t width);
/* Bytes of a parameter and its slots, without those of rows, columns and variables. */
size_t rule_bytes_per_parameter(const struct rule *rule);
/* Makes one update of a span, by whichever entry the rule has. */
void rule_apply_span(const struct rule *rule, const struct rule_scalars *s,
                     const struct rule_span *span);

/* The part of @span from its element @at on, @n elements. @slots (RULE_SLOTS_MAX) is filled and
 * lent to the result. */
struct rule_span rule_span_part(const struct rule *rule, const struct rule_span *span, size_t at,
                                size_t n, float **slots);

/* One update of a whole variable that lies in one piece: all rounds, then apply. @span covers the
 * variable; its totals are ignored. Errors: ERR_EXHAUSTED. */
int rule_apply_variable(const struct rule *rule, const struct rule_scalars *s,
                        const struct rule_span *span, struct err *err);

#endif
