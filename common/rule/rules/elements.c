/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over elements that variables and rows of tables share. */
#include "rule/rules/elements.h"

#include <stdint.h>
#include <string.h>

#include "base/vector.h"

VECTOR_CLONES
bool elements_all_finite(const float *x, size_t n)
{
    uint32_t worst = 0;
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffU;
        worst = bits > worst ? bits : worst;
    }
    return worst < 0x7f800000U;
}

VECTOR_CLONES
void elements_clip(float *gradient, float scale, float limit, float factor, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * scale;
        float c = g > limit ? limit : g;
        c = c < -limit ? -limit : c;
        gradient[i] = c * factor;
    }
}

VECTOR_CLONES
void elements_penalize(float *restrict gradient, const float *in, float l1, float l2, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float w = in[i];
        float sign = w > 0.0F ? 1.0F : 0.0F;
        sign = w < 0.0F ? -1.0F : sign;
        gradient[i] = gradient[i] + (l2 * w + l1 * sign);
    }
}

VECTOR_CLONES
void elements_shrink(float *restrict out, const float *restrict in, float decay, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        out[i] = out[i] - decay * in[i];
    }
}
