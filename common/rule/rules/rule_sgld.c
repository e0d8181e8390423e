/* SPDX-License-Identifier: Apache-2.0 */
/* sgld: stochastic gradient Langevin dynamics (Welling & Teh, "Bayesian learning via stochastic
 * gradient Langevin dynamics", ICML 2011): draws parameters from the posterior.
 *
 *     w ← w − learning_rate / 2 · examples · g + √(learning_rate · temperature) · N(0, 1)
 *
 * where g is the gradient of the mean loss and `examples` the size of the data, so that the product
 * is that of the whole negative log posterior. Defaults: learning_rate 0.01, examples 1,
 * temperature 1, seed 1. MXNet's has examples 1 and adds weight decay as the prior. The paper lets
 * the rate fall polynomially (a schedule of the job).
 *
 * The noise of element i of a variable at one version is a pure function of seed, version, the
 * variable's name and i: Philox4x32-10, of which 16 counters serve 64 elements, and the transform
 * of Box and Muller in single precision (up to 5.7 standard deviations; errors below 1e-6).
 * Generating it takes longer than reading the parameters, so this rule is bound by arithmetic.
 *
 * Tables: lazy: only touched rows diffuse; dense: all of them. */
#include <string.h>

#include "base/rng.h"
#include "rule/rules/rule_kernel.h"

#define LANE ((size_t)16) /* counters side by side */
#define GROUP (4 * LANE)  /* elements that they serve */

struct sgld_params {
    double learning_rate;
    double examples;
    double temperature;
    int64_t seed;
};

enum { SGLD_RATE, SGLD_NOISE };

static const struct field sgld_fields[] = {
    {"learning_rate", FIELD_FLOAT, offsetof(struct sgld_params, learning_rate), "0.01", 0, 1e6,
     NULL, "Step length, and variance of the noise"},
    {"examples", FIELD_FLOAT, offsetof(struct sgld_params, examples), "1", 1e-6, 1e15, NULL,
     "Number of examples whose mean loss the gradient is of"},
    {"temperature", FIELD_FLOAT, offsetof(struct sgld_params, temperature), "1", 0, 1e6, NULL,
     "Factor of the variance of the noise; 0: gradient descent"},
    {"seed", FIELD_INT, offsetof(struct sgld_params, seed), "1", 0, 9e15, NULL,
     "Which noise; the same seed gives the same run"},
};

static void sgld_prepare(const void *params, uint64_t version, double lr_scale,
                         struct rule_scalars *out)
{
    const struct sgld_params *p = params;
    double rate = p->learning_rate * lr_scale;
    out->v[SGLD_RATE] = (float)(0.5 * rate * p->examples);
    out->v[SGLD_NOISE] = (float)sqrt(rate * p->temperature);
    out->key = rng_key_mix(rng_key((uint64_t)p->seed, "sgld"), version);
}

/* ln u for 0 < u < 1, normal numbers. The polynomials of this file are minimax fits (reweighted
 * least squares at Chebyshev points) with errors below 4e-9. */
VECTOR_INLINE float sgld_log(float u)
{
    uint32_t bits;
    memcpy(&bits, &u, sizeof bits);
    uint32_t shifted = bits - 0x3F3504F3U; /* brings the mantissa into √½ .. √2 */
    int32_t exponent = (int32_t)shifted >> 23;
    bits = (shifted & 0x007FFFFFU) + 0x3F3504F3U;
    float mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    float f = mantissa - 1.0F;
    float p = -0.0763449303F;
    p = p * f + 0.127615756F;
    p = p * f - 0.131601831F;
    p = p * f + 0.142017582F;
    p = p * f - 0.166233573F;
    p = p * f + 0.200012269F;
    p = p * f - 0.25000821F;
    p = p * f + 0.333333317F;
    float log = f - 0.5F * f * f + f * f * f * p;
    return log + (float)exponent * 0.693147181F;
}

/* Two normal numbers from two random words. */
VECTOR_INLINE void sgld_pair(uint32_t a, uint32_t b, float *first, float *second)
{
    float u = ((float)(int32_t)(a >> 9) + 0.5F) * 0x1p-23F;
    float radius = sqrtf(-2.0F * sgld_log(u));
    /* The angle in turns is a quarter of k and x, |x| <= 1/8. */
    int32_t turn = (int32_t)(b >> 8);
    int32_t k = (turn + (1 << 21)) >> 22;
    float x = (float)(turn - (k << 22)) * 0x1p-24F;
    float y = x * x;
    float sine = x * (6.28318529F + y * (-41.3416615F + y * (81.592355F - y * 75.3936153F)));
    float cosine =
        1.0F + y * (-19.7392086F + y * (64.9393108F + y * (-85.4422989F + y * 59.2028232F)));
    float c = (k & 1) != 0 ? -sine : cosine;
    float s = (k & 1) != 0 ? cosine : sine;
    float sign = (k & 2) != 0 ? -1.0F : 1.0F;
    *first = radius * (sign * c);
    *second = radius * (sign * s);
}

/* The noise of elements @group × GROUP on: rng_philox() of base, side by side. */
VECTOR_INLINE void sgld_noise(uint64_t key, uint64_t group, float *restrict noise)
{
    const uint64_t counter = group * LANE; /* the sums below do not carry out of the low word */
    const uint64_t word = UINT32_MAX;
    VECTOR_LOOP
    for (uint64_t j = 0; j < LANE; j++) {
        /* In 64-bit lanes, of which the upper halves may hold anything: the product needs them. */
        uint64_t c0 = counter + j, c1 = counter >> 32, c2 = 0, c3 = 0;
        uint64_t k0 = key, k1 = key >> 32;
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            uint64_t p0 = UINT64_C(0xD2511F53) * (c0 & word);
            uint64_t p1 = UINT64_C(0xCD9E8D57) * (c2 & word);
            c0 = (p1 >> 32) ^ c1 ^ k0;
            c1 = p1;
            c2 = (p0 >> 32) ^ c3 ^ k1;
            c3 = p0;
            k0 += 0x9E3779B9U;
            k1 += 0xBB67AE85U;
        }
        sgld_pair((uint32_t)c0, (uint32_t)c1, &noise[j], &noise[LANE + j]);
        sgld_pair((uint32_t)c2, (uint32_t)c3, &noise[2 * LANE + j], &noise[3 * LANE + j]);
    }
}

VECTOR_CLONES
static void sgld_apply(const struct rule_scalars *s, const struct rule_span *span)
{
    const float rate = s->v[SGLD_RATE];
    const float amount = s->v[SGLD_NOISE];
    const uint64_t key = rng_key_mix(s->key, span->variable);
    for (size_t at = 0, n; at < span->n; at += n) {
        float noise[GROUP];
        const uint64_t element = span->first + at;
        const size_t from = (size_t)(element % GROUP);
        n = GROUP - from < span->n - at ? GROUP - from : span->n - at;
        sgld_noise(key, element / GROUP, noise);
        const float *in = span->in + at;
        const float *gradient = span->gradient + at;
        float *out = span->out + at;
        VECTOR_LOOP
        for (size_t i = 0; i < n; i++) {
            float g = gradient[i] * span->gradient_scale;
            out[i] = in[i] - (rate * g - amount * noise[from + i]);
        }
    }
}

extern const struct rule rule_sgld;
const struct rule rule_sgld = {
    .name = "sgld",
    .help = "Langevin dynamics: gradient descent with noise that draws from the posterior",
    .fields = sgld_fields,
    .field_count = sizeof sgld_fields / sizeof sgld_fields[0],
    .params_bytes = sizeof(struct sgld_params),
    .prepare = sgld_prepare,
    .apply_span = sgld_apply,
};
