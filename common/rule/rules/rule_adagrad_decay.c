/* SPDX-License-Identifier: Apache-2.0 */
/* adagrad_decay: Adagrad that forgets, as DeepRec's AdagradDecay; for models that train on and on,
 * where plain Adagrad comes to rest.
 *
 *     n ← max(n, initial_accumulator), and before it n ← decay_rate · n at every decay_steps-th
 *         update (not the first)
 *     n ← n + g²
 *     w ← w − learning_rate · g / √n
 *
 * Defaults: learning_rate 0.01, initial_accumulator 0.1, decay_steps 100,000, decay_rate 0.9, as
 * DeepRec. The initial value is the floor, so there is no epsilon. The slot begins with 0 and takes
 * the floor when it is first used.
 *
 * Tables: lazy loses the decays of updates that a row was not part of; catch-up makes them up, in
 * one multiplication, and is exact, as the parameters do not move without a gradient. (DeepRec
 * keeps the number of decays of each row for that.) */
#include "rule/rules/rule_kernel.h"

struct adagrad_decay_params {
    double learning_rate;
    double initial_accumulator;
    int64_t decay_steps;
    double decay_rate;
};

enum { ADAGRAD_DECAY_RATE, ADAGRAD_DECAY_FLOOR, ADAGRAD_DECAY_KEPT };

static const struct field adagrad_decay_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct adagrad_decay_params, learning_rate), "0.01", 0,
     1e6, NULL, "Step length where the accumulator is 1"},
    {"initial_accumulator", FIELD_FLOAT, offsetof(struct adagrad_decay_params, initial_accumulator),
     "0.1", 1e-30, 1e12, NULL,
     "What the sum of squared gradients begins with and never falls below"},
    {"decay_steps", FIELD_INT, offsetof(struct adagrad_decay_params, decay_steps), "100000", 1,
     1e15, NULL, "Updates from one decay of the sum to the next"},
    {"decay_rate", FIELD_FLOAT, offsetof(struct adagrad_decay_params, decay_rate), "0.9", 0, 1,
     NULL, "Share of the sum that a decay leaves"},
};

static void adagrad_decay_prepare(const void *params, uint64_t version, double lr_scale,
                                  struct rule_scalars *out)
{
    const struct adagrad_decay_params *p = params;
    bool decays = version > 0 && version % (uint64_t)p->decay_steps == 0;
    out->v[ADAGRAD_DECAY_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[ADAGRAD_DECAY_FLOOR] = (float)p->initial_accumulator;
    out->v[ADAGRAD_DECAY_KEPT] = decays ? (float)p->decay_rate : 1.0F;
}

VECTOR_CLONES
static void adagrad_decay_apply(const struct rule_scalars *s, float *out, const float *in,
                                float *const *slots, const float *gradient, float gradient_scale,
                                size_t n)
{
    const float rate = s->v[ADAGRAD_DECAY_RATE];
    const float floor = s->v[ADAGRAD_DECAY_FLOOR];
    const float kept = s->v[ADAGRAD_DECAY_KEPT];
    float *restrict squares = slots[0];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        squares[i] = kernel_max(floor, kept * squares[i]) + g * g;
        out[i] = in[i] - rate * g / sqrtf(squares[i]);
    }
}

/* Decays come at versions that are multiples of decay_steps, 0 excepted. */
static uint64_t decays_before(uint64_t version, int64_t steps)
{
    return version == 0 ? 0 : (version - 1) / (uint64_t)steps;
}

VECTOR_CLONES
static void decay_by(float kept, float *restrict squares, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        squares[i] *= kept;
    }
}

static void adagrad_decay_catch_up(const struct rule_past *past, uint64_t from, uint64_t to,
                                   float *values, float *const *slots, size_t n)
{
    (void)values;
    double kept = 1;
    if (past->at == NULL) {
        const struct adagrad_decay_params *p = past->params;
        uint64_t missed = decays_before(to, p->decay_steps) - decays_before(from, p->decay_steps);
        kept = pow(p->decay_rate, (double)missed);
    }
    for (uint64_t version = from; past->at != NULL && version < to; version++) {
        double lr_scale;
        const struct adagrad_decay_params *p = kernel_past(past, version, &lr_scale);
        bool decays = version > 0 && version % (uint64_t)p->decay_steps == 0;
        kept *= decays ? p->decay_rate : 1.0;
    }
    if (kept != 1.0) { /* the floor is taken at the next use; once there, it stays there */
        decay_by((float)kept, slots[0], n);
    }
}

extern const struct rule rule_adagrad_decay;
const struct rule rule_adagrad_decay = {
    .name = "adagrad_decay",
    .help = "Adagrad whose sum of squared gradients decays at times, down to a floor",
    .fields = adagrad_decay_fields,
    .field_count = sizeof adagrad_decay_fields / sizeof adagrad_decay_fields[0],
    .params_bytes = sizeof(struct adagrad_decay_params),
    .slot_count = 1,
    .slot_names = {"squares"},
    .prepare = adagrad_decay_prepare,
    .apply = adagrad_decay_apply,
    .catch_up = adagrad_decay_catch_up,
};
