/* SPDX-License-Identifier: Apache-2.0 */
/* adam's update, and how a table row is brought up to date that many updates skipped: one move is
 * computed after the other until they are too small to matter; the rest of the updates only scales
 * m and v. */
#include "rule/rules/adam_family.h"

#include "rule/rules/rule_kernel.h"

void adam_prepare(const void *params, uint64_t version, double lr_scale, struct rule_scalars *out)
{
    const struct adam_params *p = params;
    const double t = (double)version + 1.0;
    out->v[0] = (float)p->beta1;
    out->v[1] = (float)(1.0 - p->beta1);
    out->v[2] = (float)p->beta2;
    out->v[3] = (float)(1.0 - p->beta2);
    out->v[ADAM_RATE] = (float)(p->learning_rate * lr_scale / (1.0 - pow(p->beta1, t)));
    out->v[ADAM_ROOT] = (float)(1.0 / sqrt(1.0 - pow(p->beta2, t)));
    out->v[ADAM_EPSILON_AT] = (float)p->epsilon;
}

VECTOR_CLONES
void adam_apply(const struct rule_scalars *s, float *out, const float *in, float *const *slots,
                const float *gradient, float gradient_scale, size_t n)
{
    const struct adam_scalars c = adam_scalars_of(s);
    float *restrict m = slots[0];
    float *restrict v = slots[1];
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * gradient_scale;
        m[i] = c.beta1 * m[i] + c.one_minus_beta1 * g;
        v[i] = c.beta2 * v[i] + c.one_minus_beta2 * (g * g);
        out[i] = in[i] - c.rate * m[i] / (sqrtf(v[i]) * c.root + c.epsilon);
    }
}

/* ---- skipped updates ---- */

#define ADAM_GONE 1e-10 /* moves below this share of the first are left out */

struct coast {             /* how far a row's skipped updates have been made up for */
    double m_left, v_left; /* shares of m and v that are left */
    double power1, power2; /* powers of beta, at the last update that was made up for */
    double w_left;         /* share of w that is left since the last move that was written */
};

VECTOR_CLONES
static void write_move(float shrink, float rate, float root, float epsilon, float *restrict w,
                       const float *restrict m, const float *restrict v, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        w[i] = w[i] - (shrink * w[i] + rate * m[i] / (sqrtf(v[i]) * root + epsilon));
    }
}

VECTOR_CLONES
static void scale_by(float by, float *restrict x, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        x[i] *= by;
    }
}

static void decay_once(struct coast *c, const struct adam_move *a)
{
    c->m_left *= a->beta1;
    c->v_left *= a->beta2;
}

/* Does all that is left when the moves have died out. */
static void decay_rest(struct coast *c, const struct rule_past *past, adam_move_of *move_of,
                       uint64_t from, uint64_t to)
{
    if (past->at == NULL) {
        const struct adam_move a = move_of(past->params, past->lr_scale);
        double k = (double)(to - from);
        c->m_left *= pow(a.beta1, k);
        c->v_left *= pow(a.beta2, k);
        c->w_left *= pow(1.0 - a.rate * a.decay, k);
        return;
    }
    for (uint64_t version = from; version < to; version++) {
        double lr_scale;
        const void *params = kernel_past(past, version, &lr_scale);
        const struct adam_move a = move_of(params, lr_scale);
        decay_once(c, &a);
        c->w_left *= 1.0 - a.rate * a.decay;
    }
}

void adam_family_catch_up(const struct rule_past *past, adam_move_of *move_of, uint64_t from,
                          uint64_t to, float *values, float *const *slots, size_t n)
{
    struct coast c = {.m_left = 1, .v_left = 1, .w_left = 1};
    uint64_t version = from;
    for (; version < to && c.m_left > ADAM_GONE * sqrt(c.v_left); version++) {
        double lr_scale;
        const void *params = kernel_past(past, version, &lr_scale);
        const struct adam_move a = move_of(params, lr_scale);
        decay_once(&c, &a);
        bool first = version == from || past->at != NULL;
        c.power1 = first ? pow(a.beta1, (double)version + 1.0) : c.power1 * a.beta1;
        c.power2 = first ? pow(a.beta2, (double)version + 1.0) : c.power2 * a.beta2;
        write_move((float)(a.rate * a.decay), (float)(a.rate * c.m_left / (1.0 - c.power1)),
                   (float)sqrt(c.v_left / (1.0 - c.power2)), (float)a.epsilon, values, slots[0],
                   slots[1], n);
    }
    decay_rest(&c, past, move_of, version, to);
    if (c.w_left != 1.0) {
        scale_by((float)c.w_left, values, n);
    }
    scale_by((float)c.m_left, slots[0], n);
    scale_by((float)c.v_left, slots[1], n);
}
