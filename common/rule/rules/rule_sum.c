/* SPDX-License-Identifier: Apache-2.0 */
/* sum: plain addition.
 *
 *     w ← w + scale · g
 *
 * Default: scale 1. What ps-lite, BytePS, Multiverso and Bösen do with a push: the workers compute
 * what is to be added, the servers only add. The learning rate is the workers' business, so scales
 * of the learning rate do not count here.
 *
 * Tables: a push of zero changes nothing, so lazy is exact. */
#include "rule/rules/rule_kernel.h"

struct sum_params {
    double scale;
};

enum { SUM_SCALE };

static const struct field sum_fields[] = {
    {"scale", FIELD_FLOAT, offsetof(struct sum_params, scale), "1", -1e6, 1e6, NULL,
     "Factor of what is added"},
};

static void sum_prepare(const void *params, uint64_t version, double lr_scale,
                        struct rule_scalars *out)
{
    const struct sum_params *p = params;
    (void)version;
    (void)lr_scale;
    out->v[SUM_SCALE] = (float)p->scale;
}

VECTOR_CLONES
static void sum_apply(const struct rule_scalars *s, float *out, const float *in,
                      float *const *slots, const float *gradient, float gradient_scale, size_t n)
{
    const float scale = s->v[SUM_SCALE];
    (void)slots;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        out[i] = in[i] + scale * g;
    }
}

extern const struct rule rule_sum;
const struct rule rule_sum = {
    .name = "sum",
    .help = "Adds what the workers push",
    .fields = sum_fields,
    .field_count = sizeof sum_fields / sizeof sum_fields[0],
    .params_bytes = sizeof(struct sum_params),
    .slot_count = 0,
    .prepare = sum_prepare,
    .apply = sum_apply,
    .still = true,
};
