/* SPDX-License-Identifier: Apache-2.0 */
/* exp, tanh, the logistic function and the normal distribution for loops that must vectorise: no
 * branches, no tables, no libm. Only kernels include this.
 *
 * Errors are measured against double precision by the tests. The polynomials are minimax fits of
 * our own (reweighted least squares at Chebyshev points); the range reduction of exp is Cody and
 * Waite's ("Software Manual for the Elementary Functions", 1980). NaN stays NaN. */
#ifndef GRADUS_TENSOR_VECTOR_MATH_H
#define GRADUS_TENSOR_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

#include "base/vector.h"

VECTOR_INLINE float vm_abs(float x)
{
    return x < 0.0F ? -x : x;
}

/* 2^n for -126 <= n <= 127. */
VECTOR_INLINE float vm_power_of_two(int32_t n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* e^x; at most 1 ulp off; 0 below -87.33 (where float has no normal numbers), infinity above 88.72.
 */
VECTOR_INLINE float vm_exp(float x)
{
    const float low = -87.33F, high = 88.8F; /* e^high overflows in the last product */
    const float round = 0x1.8p23F;           /* adding it leaves an integer in the low bits */
    float c = x < low ? low : x;
    c = c > high ? high : c;
    float shifted = c * 1.44269504F + round;
    float n = shifted - round;
    float r = c - n * 0.693359375F; /* exact: the constant has 9 bits */
    r = r + n * 2.12194440e-4F;
    float p = 1.39506022e-3F;
    p = p * r + 8.36895352e-3F;
    p = p * r + 4.16662041e-2F;
    p = p * r + 1.66665183e-1F;
    p = p * r + 5.0e-1F;
    p = p * (r * r) + r + 1.0F;
    int32_t bits, bias;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&bias, &round, sizeof bias);
    int32_t k = bits - bias;
    /* In two halves, as 2^128 is no float. NaN leaves rubbish in k, hence the masks. */
    int32_t half = (k >> 1) & 0xFF;
    half = half > 127 ? half - 256 : half;
    int32_t rest = (k - half) & 0xFF;
    rest = rest > 127 ? rest - 256 : rest;
    float y = p * vm_power_of_two(half) * vm_power_of_two(rest);
    return x < low ? 0.0F : y;
}

/* 1 / (1 + e^-x); at most 3 ulp off. */
VECTOR_INLINE float vm_sigmoid(float x)
{
    return 1.0F / (1.0F + vm_exp(-x));
}

/* tanh x; at most 2 ulp off. */
VECTOR_INLINE float vm_tanh(float x)
{
    float a = vm_abs(x);
    float u = x * x;
    float p = 2.14753974e-3F;
    p = p * u - 8.18267725e-3F;
    p = p * u + 2.17029686e-2F;
    p = p * u - 5.39472046e-2F;
    p = p * u + 1.33332098e-1F;
    p = p * u - 3.33333309e-1F;
    float small = x + x * u * p;
    float large = 1.0F - 2.0F / (vm_exp(2.0F * a) + 1.0F);
    large = x < 0.0F ? -large : large;
    return a < 0.625F ? small : large;
}

/* The standard normal distribution: its integral up to x is returned, its density stored.
 * With z = |x| / √2, the upper tail is erfc(z) / 2 = e^(-z²) · t · P(t) / 2, t = 1 / (1 + z / 2).
 * Absolute error of both at most 2e-7. */
VECTOR_INLINE float vm_normal(float x, float *density)
{
    float z = vm_abs(x) * 0.707106781F;
    float t = 1.0F / (1.0F + 0.5F * z);
    float p = -5.69744979e-2F;
    p = p * t + 2.74708243e-1F;
    p = p * t - 4.67562875e-1F;
    p = p * t + 2.56584447e-1F;
    p = p * t - 1.25549322e-2F;
    p = p * t + 1.97061253e-1F;
    p = p * t + 2.44438868e-1F;
    p = p * t + 2.82203965e-1F;
    p = p * t + 2.82095501e-1F;
    float e = vm_exp(-0.5F * x * x);
    float tail = 0.5F * e * t * p;
    *density = 0.398942280F * e;
    return x > 0.0F ? 1.0F - tail : tail;
}

#endif
