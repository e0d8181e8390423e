/* SPDX-License-Identifier: Apache-2.0 */
/* rowwise_adagrad: Adagrad with one sum for each row (Gupta et al., "Training recommender systems
 * at scale", 2020; fbgemm's EXACT_ROWWISE_ADAGRAD), for tables: 4 bytes a row of state.
 *
 *     n ← max(n, initial_accumulator) + mean of g² over the row
 *     w ← w − learning_rate · g / (√n + epsilon)
 *
 * Defaults: learning_rate 0.01, initial_accumulator 0, epsilon 1e-8, as TorchRec. Paddle's AdaGrad
 * uses n as it was before the row's own gradient; PERSIA's vectorwise_shared begins with 0.01. On a
 * vector, whose rows are single elements, it is adagrad.
 *
 * Tables: a gradient of zero changes nothing, so lazy is exact.
 * A gradient beyond 1.8e19 overflows n to infinity, and its row then stands still. */
#include "rule/rules/rule_kernel.h"

struct rowwise_adagrad_params {
    double learning_rate;
    double initial_accumulator;
    double epsilon;
};

enum { ROWWISE_ADAGRAD_RATE, ROWWISE_ADAGRAD_INITIAL, ROWWISE_ADAGRAD_EPSILON };

static const struct field rowwise_adagrad_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct rowwise_adagrad_params, learning_rate), "0.01",
     0, 1e6, NULL, "Length of a row's first step, of which later ones become a falling share"},
    {"initial_accumulator", FIELD_FLOAT,
     offsetof(struct rowwise_adagrad_params, initial_accumulator), "0", 0, 1e12, NULL,
     "What the sum of mean squared gradients begins with"},
    {"epsilon", FIELD_FLOAT, offsetof(struct rowwise_adagrad_params, epsilon), "1e-8", 1e-30, 1,
     NULL, "Added to the root of the sum of mean squared gradients"},
};

static void rowwise_adagrad_prepare(const void *params, uint64_t version, double lr_scale,
                                    struct rule_scalars *out)
{
    const struct rowwise_adagrad_params *p = params;
    (void)version;
    out->v[ROWWISE_ADAGRAD_RATE] = (float)(p->learning_rate * lr_scale);
    out->v[ROWWISE_ADAGRAD_INITIAL] = (float)p->initial_accumulator;
    out->v[ROWWISE_ADAGRAD_EPSILON] = (float)p->epsilon;
}

VECTOR_CLONES
static void rowwise_adagrad_apply(const struct rule_scalars *s, const struct rule_span *span)
{
    const float initial = s->v[ROWWISE_ADAGRAD_INITIAL];
    const float epsilon = s->v[ROWWISE_ADAGRAD_EPSILON];
    const size_t width = span->width;
    float *restrict squares = span->slots[0];
    for (size_t row = 0; row < span->n / width; row++) {
        const float *in = span->in + row * width;
        const float *gradient = span->gradient + row * width;
        float *out = span->out + row * width;
        double sum = kernel_row_squares(gradient, span->gradient_scale, width);
        squares[row] = kernel_max(initial, squares[row]) + (float)(sum / (double)width);
        float rate = s->v[ROWWISE_ADAGRAD_RATE] / (sqrtf(squares[row]) + epsilon);
        VECTOR_LOOP
        for (size_t i = 0; i < width; i++) {
            out[i] = in[i] - rate * (gradient[i] * span->gradient_scale);
        }
    }
}

extern const struct rule rule_rowwise_adagrad;
const struct rule rule_rowwise_adagrad = {
    .name = "rowwise_adagrad",
    .help = "Adagrad with one sum of squared gradients for each row",
    .fields = rowwise_adagrad_fields,
    .field_count = sizeof rowwise_adagrad_fields / sizeof rowwise_adagrad_fields[0],
    .params_bytes = sizeof(struct rowwise_adagrad_params),
    .slot_count = 1,
    .slot_names = {"squares"},
    .slot_kinds = {RULE_SLOT_ROW},
    .prepare = rowwise_adagrad_prepare,
    .apply_span = rowwise_adagrad_apply,
    .still = true,
};
