/* Update rules: how a gradient changes a variable. One table; one file per rule.
 *
 * To add one: a file rule_<name>.c with its `const struct rule`, and a line in rule.c. */
#ifndef GRADUS_RULE_RULE_H
#define GRADUS_RULE_RULE_H

#include "config/field.h"

#define RULE_SLOTS_MAX 4
#define RULE_SCALARS_MAX 8

struct rule_scalars { /* what one update needs besides the arrays, computed once per update */
    float v[RULE_SCALARS_MAX];
};

struct rule {
    const char *name;
    const char *help;
    const struct field *fields; /* hyperparameters, rows over the params struct */
    size_t field_count;
    size_t params_bytes;
    size_t slot_count;
    const char *slot_names[RULE_SLOTS_MAX];
    float slot_initial[RULE_SLOTS_MAX];
    /* Scalars of update number @version (0-based) from @params, with the learning rate of this
     * update × @lr_scale. */
    void (*prepare)(const void *params, uint64_t version, double lr_scale,
                    struct rule_scalars *out);
    /* One update of @n floats: reads @in (version t), writes @out (version t+1; may equal @in),
     * updates @slots in place. The gradient is @gradient[i] × @gradient_scale. Same bits for any
     * cut of the range. Large arrays must not lie a large power of two apart: they would share the
     * ways of the cache, at two to three times the cost (tests/bench/bench_rules.c staggers). */
    void (*apply)(const struct rule_scalars *s, float *out, const float *in, float *const *slots,
                  const float *gradient, float gradient_scale, size_t n);
};

const struct rule *rule_find(const char *name);
const struct rule *rule_at(size_t index); /* NULL past the end */

/* The `update` section of a job file. */
struct update_spec {
    const struct rule *rule;
    void *params; /* rule->params_bytes bytes filled through its fields */
};
void update_spec_release(struct update_spec *u);

#endif
