/* SPDX-License-Identifier: Apache-2.0 */
/* average: the parameters follow the mean of what the workers push (Polyak & Juditsky,
 * "Acceleration of stochastic approximation by averaging", 1992; model averaging).
 *
 *     w ← w + rate · (g − w),  and w ← g with rate 1
 *
 * Default: rate 1, the mean of one update's pushes itself; below 1 an exponential moving average
 * (Monolith's MovingAverage, with momentum = 1 − rate). Pushes are values here, not gradients, and
 * scales of the learning rate do not count.
 *
 * Tables: lazy: rows that nobody pushed keep their values. Dense would pull them to 0. */
#include "rule/rules/rule_kernel.h"

struct average_params {
    double rate;
};

enum { AVERAGE_RATE, AVERAGE_KEPT };

static const struct field average_fields[] = {
    {"rate", FIELD_FLOAT, offsetof(struct average_params, rate), "1", 0, 1, NULL,
     "Weight of the new mean beside the old parameters"},
};

static void average_prepare(const void *params, uint64_t version, double lr_scale,
                            struct rule_scalars *out)
{
    const struct average_params *p = params;
    (void)version;
    (void)lr_scale;
    out->v[AVERAGE_RATE] = (float)p->rate;
    out->v[AVERAGE_KEPT] = (float)(1.0 - p->rate);
}

VECTOR_CLONES
static void average_apply(const struct rule_scalars *s, float *out, const float *in,
                          float *const *slots, const float *gradient, float gradient_scale,
                          size_t n)
{
    const float rate = s->v[AVERAGE_RATE];
    const float kept = s->v[AVERAGE_KEPT];
    (void)slots;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        out[i] = kept * in[i] + rate * g;
    }
}

extern const struct rule rule_average;
const struct rule rule_average = {
    .name = "average",
    .help = "The mean of what the workers push, or a moving average of it",
    .fields = average_fields,
    .field_count = sizeof average_fields / sizeof average_fields[0],
    .params_bytes = sizeof(struct average_params),
    .slot_count = 0,
    .prepare = average_prepare,
    .apply = average_apply,
};
