/* SPDX-License-Identifier: Apache-2.0 */
/* adaptive_revision: Adagrad for delayed gradients (McMahan & Streeter, "Delay-tolerant algorithms
 * for asynchronous distributed online learning", NIPS 2014, algorithm 3), as XDL's.
 *
 *     b ← s − s_read                         what others added since the worker read
 *     z ← z + g² + 2 · g · b
 *     x ← max(x, z)
 *     η_old, η ← learning_rate / √x, before and after
 *     w ← w − η · g + (η_old − η) · b
 *     s ← s + g
 *
 * The last term of w revises the steps b as if they had been taken with the new rate. s is the sum
 * of all gradients; s_read is s as it was when the worker read its parameters (the base of a push).
 *
 * Defaults: learning_rate 0.01, initial_accumulator 1, from which z and x begin. Their slots hold
 * what is above it and begin with 0. Without delay it is Adagrad without epsilon.
 *
 * Tables: a gradient of zero without delay changes nothing, so lazy is exact.
 * A gradient beyond 1.8e19 overflows x to infinity, and its element then stands still or is NaN. */
#include "rule/rules/rule_kernel.h"

struct adaptive_revision_params {
    double learning_rate;
    double initial_accumulator;
};

enum { ADAPTIVE_REVISION_RATE, ADAPTIVE_REVISION_INITIAL };

static const struct field adaptive_revision_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adaptive_revision_params, learning_rate), "0.01",
     0, 1e6, NULL, "Step length where the accumulator is 1"},
    {"initial_accumulator", FIELD_FLOAT,
     offsetof(struct adaptive_revision_params, initial_accumulator), "1", 1e-30, 1e12, NULL,
     "What the sum of squared gradients begins with"},
};

static void adaptive_revision_prepare(const void *params, uint64_t version, double lr_scale,
                                      struct rule_scalars *out)
{
    const struct adaptive_revision_params *p = params;
    (void)version;
    out->v[ADAPTIVE_REVISION_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[ADAPTIVE_REVISION_INITIAL] = (float)p->initial_accumulator;
}

VECTOR_CLONES
static void adaptive_revision_apply(const struct rule_scalars *s, const struct rule_span *span)
{
    const float rate = s->v[ADAPTIVE_REVISION_RATE];
    const float initial = s->v[ADAPTIVE_REVISION_INITIAL];
    const float scale = span->gradient_scale;
    const float *in = span->in;
    const float *gradient = span->gradient;
    float *out = span->out;
    float *sum = span->slots[0];
    float *restrict z = span->slots[1];
    float *restrict x = span->slots[2];
    const float *read = span->base == NULL ? sum : span->base;
    VECTOR_LOOP
    for (size_t i = 0; i < span->n; i++) {
        float g = gradient[i] * scale;
        float b = sum[i] - read[i];
        float before = rate / sqrtf(initial + x[i]);
        z[i] = z[i] + (g * g + 2.0F * g * b);
        x[i] = kernel_max(x[i], z[i]);
        float after = rate / sqrtf(initial + x[i]);
        out[i] = in[i] - (after * g - (before - after) * b);
        sum[i] = sum[i] + g;
    }
}

extern const struct rule rule_adaptive_revision;
const struct rule rule_adaptive_revision = {
    .name = "adaptive_revision",
    .help = "Adagrad that revises the steps made since the worker read",
    .fields = adaptive_revision_fields,
    .field_count = sizeof adaptive_revision_fields / sizeof adaptive_revision_fields[0],
    .params_bytes = sizeof(struct adaptive_revision_params),
    .slot_count = 3,
    .slot_names = {"sum", "z", "z_max"},
    .base = RULE_BASE_SLOT,
    .prepare = adaptive_revision_prepare,
    .apply_span = adaptive_revision_apply,
    .still = true,
};
