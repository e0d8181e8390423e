/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats against the definition of their formats, in double. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/half.h"

#define HALVES 65536
#define SIZE_MAX_TESTED 70

static const enum value_type types[] = {VALUE_FP16, VALUE_BF16};

struct format {
    int mantissa_bits, exponent_max, exponent_min; /* of normal numbers */
};

static struct format format_of(enum value_type type)
{
    return type == VALUE_FP16 ? (struct format){10, 15, -14} : (struct format){7, 127, -126};
}

/* The value of @half by the definition; NAN for any of them. */
static double value_of(enum value_type type, unsigned half)
{
    struct format f = format_of(type);
    unsigned mantissa = half & ((1U << f.mantissa_bits) - 1);
    int exponent = (int)((half & 0x7fff) >> f.mantissa_bits);
    double sign = (half & 0x8000) != 0 ? -1 : 1;
    if (exponent == f.exponent_max - f.exponent_min + 2) {
        return mantissa == 0 ? sign * HUGE_VAL : (double)NAN;
    }
    double size = exponent == 0
                      ? ldexp(mantissa, f.exponent_min - f.mantissa_bits)
                      : ldexp(1 + ldexp(mantissa, -f.mantissa_bits), exponent - 1 + f.exponent_min);
    return sign * size;
}

/* The nearest half of @value, which is finite; of two the one with an even last bit. What would be
 * the next number after the largest is infinite. */
static unsigned nearest(enum value_type type, double value)
{
    struct format f = format_of(type);
    unsigned sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    unsigned infinite = value_of(type, 0x7c00) == HUGE_VAL && type == VALUE_FP16 ? 0x7c00 : 0x7f80;
    unsigned lo = 0;
    unsigned hi = infinite;
    while (hi - lo > 1) {
        unsigned middle = (lo + hi) / 2;
        if (value_of(type, middle) <= size) {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    double above = hi == infinite ? ldexp(1, f.exponent_max + 1) : value_of(type, hi);
    double below = value_of(type, lo);
    double middle = below + (above - below) / 2;
    bool up = size > middle || (size == middle && (lo & 1) != 0);
    return sign | (up ? hi : lo);
}

/* Arithmetic counts subnormal floats as zero (base/float_mode.h); conversions keep their bits. */

/* The number that a finite float is. */
static double exactly(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int exponent = (int)(bits >> 23 & 0xff);
    const double size = exponent == 0 ? ldexp(bits & 0x7fffff, -149)
                                      : ldexp((bits & 0x7fffff) | 1U << 23, exponent - 150);
    return (bits & 0x80000000) != 0 ? -size : size;
}

/* The float that @size, which is not negative, is exactly, or its neighbour on the side of @step
 * (-1, 0, 1). */
static float float_beside(double size, int step)
{
    uint32_t bits;
    const float normal = (float)size;
    memcpy(&bits, &normal, sizeof bits);
    bits = size < ldexp(1, -126) ? (uint32_t)ldexp(size, 149) : bits;
    bits += (uint32_t)step;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t encode_one(enum value_type type, float value)
{
    float in[9]; /* more than the lanes of one instruction, and a rest */
    uint16_t out[9];
    for (size_t i = 0; i < 9; i++) {
        in[i] = value;
    }
    values_encode(type, in, 9, out);
    for (size_t i = 1; i < 9; i++) {
        assert_int_equal(out[i], out[0]);
    }
    values_encode(type, in, 1, out);
    assert_int_equal(out[0], out[1]);
    return out[0];
}

static void expect(enum value_type type, float value)
{
    uint16_t got = encode_one(type, value);
    unsigned want = nearest(type, exactly(value));
    if (got != want) {
        fail_msg("%s of %a is %04x, expected %04x", value_type_names[type], exactly(value), got,
                 want);
    }
}

static void test_all_halves(void **state)
{
    (void)state;
    uint16_t *halves = mem_new(HALVES, sizeof *halves);
    uint16_t *back = mem_new(HALVES, sizeof *back);
    float *values = mem_new(HALVES, sizeof *values);
    for (unsigned i = 0; i < HALVES; i++) {
        halves[i] = (uint16_t)i;
    }
    for (size_t t = 0; t < 2; t++) {
        values_decode(types[t], halves, HALVES, values);
        values_encode(types[t], values, HALVES, back);
        for (unsigned i = 0; i < HALVES; i++) {
            double want = value_of(types[t], i);
            unsigned quiet = types[t] == VALUE_FP16 ? 0x200 : 0x40;
            float one;
            values_decode(types[t], &halves[i], 1, &one);
            assert_memory_equal(&one, &values[i], sizeof one);
            if (isnan(want)) {
                assert_true(isnan(values[i]));
                assert_int_equal(back[i], i | quiet);
            } else {
                assert_true(isinf(want) ? (double)values[i] == want : exactly(values[i]) == want);
                assert_int_equal(signbit(values[i]) != 0, signbit(want) != 0);
                assert_int_equal(back[i], i);
            }
        }
    }
    free(halves);
    free(back);
    free(values);
}

/* Between every two neighbours: the middle goes to the even one, what is beside it to the nearer.
 */
static void test_rounding(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        unsigned largest = types[t] == VALUE_FP16 ? 0x7bff : 0x7f7f;
        for (unsigned i = 0; i < largest; i++) {
            double low = value_of(types[t], i);
            double middle = low + (value_of(types[t], i + 1) - low) / 2;
            for (int step = -1; step <= 1; step++) {
                expect(types[t], float_beside(middle, step));
                expect(types[t], -float_beside(middle, step));
            }
        }
    }
    assert_int_equal(encode_one(VALUE_FP16, 65519.996F), 0x7bff);
    assert_int_equal(encode_one(VALUE_FP16, 65520), 0x7c00);
    assert_int_equal(encode_one(VALUE_FP16, -3e38F), 0xfc00);
    assert_int_equal(encode_one(VALUE_BF16, 3.4028235e38F), 0x7f80);
    assert_int_equal(encode_one(VALUE_FP16, INFINITY), 0x7c00);
    assert_int_equal(encode_one(VALUE_BF16, -INFINITY), 0xff80);
}

static void test_any_bits(void **state)
{
    (void)state;
    uint64_t key = rng_key(3, "half");
    for (uint64_t i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)rng_u64(key, i);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) {
            continue;
        }
        expect(VALUE_FP16, value);
        expect(VALUE_BF16, value);
    }
    for (uint32_t payload = 1; payload < 1U << 23; payload = payload * 3 + 1) {
        for (size_t t = 0; t < 2; t++) {
            uint32_t bits = 0x7f800000 | payload;
            float nan;
            float rounded;
            memcpy(&nan, &bits, sizeof nan);
            uint16_t half = encode_one(types[t], nan);
            values_decode(types[t], &half, 1, &rounded);
            assert_true(isnan(rounded));
        }
    }
}

/* Every size and place gives what single values give, and nothing beside is touched. */
static void test_sizes_and_places(void **state)
{
    (void)state;
    float values[SIZE_MAX_TESTED];
    uint64_t key = rng_key(4, "half");
    for (size_t i = 0; i < SIZE_MAX_TESTED; i++) {
        values[i] = (float)rng_normal(key, i) * (i % 5 == 0 ? 1e-7F : i % 7 == 0 ? 1e5F : 1);
    }
    for (int t = 0; t < VALUE_TYPES; t++) {
        enum value_type type = (enum value_type)t;
        size_t each = value_type_bytes(type);
        for (size_t n = 0; n <= SIZE_MAX_TESTED; n++) {
            for (size_t place = 0; place < 5; place++) {
                unsigned char coded[SIZE_MAX_TESTED * 4 + 16];
                float decoded[SIZE_MAX_TESTED + 1];
                float rounded[SIZE_MAX_TESTED + 1];
                memset(coded, 0xee, sizeof coded);
                decoded[n] = rounded[n] = 7;
                memcpy(rounded, values, n * sizeof(float));
                values_encode(type, values, n, coded + place);
                values_decode(type, coded + place, n, decoded);
                values_round(type, rounded, n);
                assert_memory_equal(decoded, rounded, (n + 1) * sizeof(float));
                for (size_t i = 0; i < n; i++) {
                    unsigned char one[4];
                    values_encode(type, &values[i], 1, one);
                    assert_memory_equal(coded + place + i * each, one, each);
                }
                assert_int_equal(coded[place + n * each], 0xee);
                assert_true(place == 0 || coded[place - 1] == 0xee);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_halves),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_any_bits),
        cmocka_unit_test(test_sizes_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
