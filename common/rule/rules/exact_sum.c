/* SPDX-License-Identifier: Apache-2.0 */
/* A sum of doubles without rounding. */
#include "rule/rules/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LOWEST_BIT 298 /* the lowest bit of the words is 2^-298 */

/* @x is finite, not negative, and a multiple of 2^-LOWEST_BIT, as sums of squares of floats are. */
static void add(struct exact_sum *s, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t exponent = bits >> 52; /* 0: it is zero */
    if (exponent == 0) {
        return;
    }
    uint64_t mantissa = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    int at = (int)exponent - 1075 + LOWEST_BIT; /* of its lowest bit */
    if (at < 0) {
        mantissa >>= -at; /* zeros */
        at = 0;
    }
    size_t word = (size_t)at / 64;
    const unsigned shift = (unsigned)at % 64;
    const uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
    uint64_t carry = __builtin_add_overflow(s->words[word], mantissa << shift, &s->words[word]);
    carry += high;
    while (carry != 0 && ++word < EXACT_SUM_WORDS) {
        carry = __builtin_add_overflow(s->words[word], carry, &s->words[word]);
    }
}

void exact_sum_add(struct exact_sum *s, double x)
{
    if (isfinite(x)) {
        add(s, x);
    } else {
        s->not_finite++;
    }
}

void exact_sum_join(struct exact_sum *s, const struct exact_sum *other)
{
    uint64_t carry = 0;
    for (size_t i = 0; i < EXACT_SUM_WORDS; i++) {
        uint64_t sum;
        const bool once = __builtin_add_overflow(s->words[i], other->words[i], &sum);
        const bool twice = __builtin_add_overflow(sum, carry, &s->words[i]);
        carry = once || twice;
    }
    s->not_finite += other->not_finite;
}

double exact_sum_total(const struct exact_sum *s)
{
    if (s->not_finite > 0) {
        return INFINITY;
    }
    size_t top = EXACT_SUM_WORDS;
    while (top > 0 && s->words[top - 1] == 0) {
        top--;
    }
    if (top == 0) {
        return 0;
    }
    /* The highest 64 bits; the lowest of them is also set when any below is: a double has 53. */
    const unsigned zeros = (unsigned)__builtin_clzll(s->words[top - 1]);
    uint64_t high = s->words[top - 1] << zeros;
    uint64_t rest = 0;
    if (top > 1) {
        high |= zeros == 0 ? 0 : s->words[top - 2] >> (64 - zeros);
        rest = s->words[top - 2] << zeros;
    }
    for (size_t i = 0; i + 2 < top; i++) {
        rest |= s->words[i];
    }
    return ldexp((double)(high | (rest != 0)), (int)(top - 1) * 64 - (int)zeros - LOWEST_BIT);
}
