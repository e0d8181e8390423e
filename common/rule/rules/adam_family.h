/* SPDX-License-Identifier: Apache-2.0 */
/* What adam and the rules made of it share: hyperparameters, the scalars of an update, adam's own
 * loop, and skipped updates of table rows.
 *
 * A rule's params begin with struct adam_params, and its scalars with struct adam_scalars; both may
 * have more behind that. Where its scalars differ from adam's, it writes over those that
 * adam_prepare() made.
 *
 * Skipped updates: while the gradient is zero, m and v only decay, so each skipped update j = 1, 2,
 * … moves
 *
 *     w ← w − decay · w − rate_j · β1^j · m / (√(v · β2^j / (1 − β2^t)) + ε)
 *
 * and m and v need not be written before the end. The moves die out like (β1/√β2)^j; when they are
 * below 1e-10 of the first, the rest is left out: some 220 moves with the usual β. */
#ifndef GRADUS_RULE_RULES_ADAM_FAMILY_H
#define GRADUS_RULE_RULES_ADAM_FAMILY_H

#include <stddef.h>

#include "base/vector.h"
#include "rule/rules/rule.h"

struct adam_params {
    double learning_rate;
    double beta1, beta2;
    double epsilon;
};

/* Rows of the fields of a rule, with the default. */
#define ADAM_LEARNING_RATE(def)                                                                    \
    {                                                                                              \
        "learning_rate", FIELD_FLOAT, offsetof(struct adam_params, learning_rate), def, 0, 1e6,    \
            NULL, "Bound on how far one update moves a parameter, roughly"                         \
    }
#define ADAM_BETA1(def)                                                                            \
    {                                                                                              \
        "beta1", FIELD_FLOAT, offsetof(struct adam_params, beta1), def, 0, 0.999999, NULL,         \
            "Decay of the mean of the gradient"                                                    \
    }
#define ADAM_BETA2(def)                                                                            \
    {                                                                                              \
        "beta2", FIELD_FLOAT, offsetof(struct adam_params, beta2), def, 0, 0.999999, NULL,         \
            "Decay of the mean of the squared gradient"                                            \
    }
#define ADAM_EPSILON(def)                                                                          \
    {                                                                                              \
        "epsilon", FIELD_FLOAT, offsetof(struct adam_params, epsilon), def, 1e-30, 1, NULL,        \
            "Added to the corrected root mean square of the gradient"                              \
    }

/* Of an update, in the order in which struct rule_scalars has them; a rule's own begin at ADAM_OWN.
 */
struct adam_scalars {
    float beta1, one_minus_beta1;
    float beta2, one_minus_beta2;
    float rate; /* learning_rate / (1 − beta1^t) */
    float root; /* 1 / √(1 − beta2^t) */
    float epsilon;
};
enum { ADAM_RATE = 4, ADAM_ROOT, ADAM_EPSILON_AT, ADAM_OWN };

VECTOR_INLINE struct adam_scalars adam_scalars_of(const struct rule_scalars *s)
{
    return (struct adam_scalars){s->v[0],
                                 s->v[1],
                                 s->v[2],
                                 s->v[3],
                                 s->v[ADAM_RATE],
                                 s->v[ADAM_ROOT],
                                 s->v[ADAM_EPSILON_AT]};
}

/* As in struct rule. */
void adam_prepare(const void *params, uint64_t version, double lr_scale, struct rule_scalars *out);
void adam_apply(const struct rule_scalars *s, float *out, const float *in, float *const *slots,
                const float *gradient, float gradient_scale, size_t n);

struct adam_move { /* the hyperparameters of one update */
    double rate, beta1, beta2, epsilon;
    double decay; /* of the parameter, for each unit of rate */
};

typedef struct adam_move adam_move_of(const void *params, double lr_scale);

/* As `catch_up` of struct rule, for slots m and v. */
void adam_family_catch_up(const struct rule_past *past, adam_move_of *move_of, uint64_t from,
                          uint64_t to, float *values, float *const *slots, size_t n);

#endif
