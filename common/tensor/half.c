/* SPDX-License-Identifier: Apache-2.0 */
/* Converts arrays of floats to 16 bits and back by arithmetic on their bits, without branches.
 * For fp16 the processor's F16C instructions are used where there are some; the bits are the
 * same. */
#include "tensor/half.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/vector.h"

#if defined(__x86_64__)
#define HALF_F16C 1
#include <cpuid.h>
#include <immintrin.h>
#endif

const char *const value_type_names[VALUE_TYPES + 1] = {"fp32", "fp16", "bf16", NULL};

size_t value_type_bytes(enum value_type type)
{
    return type == VALUE_FP32 ? sizeof(float) : sizeof(uint16_t);
}

/* ---- one value ---- */

VECTOR_INLINE uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

VECTOR_INLINE float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

VECTOR_INLINE uint16_t to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

VECTOR_INLINE float from_bf16(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

#define FP16_TOO_LARGE 0x47800000U  /* 65536 */
#define FP16_NORMAL_MIN 0x38800000U /* 2^-14 */

/* Three results, of which one is taken, so that loops of it need no branch. Below the least normal
 * number of fp16 an addition does the rounding: one ulp of 0.5 is its least denormal. */
VECTOR_INLINE uint16_t to_fp16(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t size = bits & 0x7fffffff;
    uint32_t small = bits_of(float_of(size) + 0.5F) - bits_of(0.5F);
    uint32_t normal = (size - ((127U - 15U) << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    uint32_t large = size > 0x7f800000 ? 0x7e00 | (size >> 13 & 0x3ff) : 0x7c00;
    uint32_t half = size < FP16_NORMAL_MIN ? small : normal;
    return (uint16_t)(sign | (size >= FP16_TOO_LARGE ? large : half));
}

/* The exponent is moved; zero and denormals are put right by a subtraction that is exact. */
VECTOR_INLINE float from_fp16(uint16_t half)
{
    uint32_t size = (uint32_t)(half & 0x7fff) << 13;
    uint32_t normal = size + ((127U - 15U) << 23);
    uint32_t small = bits_of(float_of(normal + (1U << 23)) - float_of((127U - 14U) << 23));
    uint32_t large = size | 0x7f800000 | ((size & 0x007fe000) != 0 ? 0x00400000 : 0);
    uint32_t bits = size < 0x00800000 ? small : normal;
    bits = size >= 0x0f800000 ? large : bits;
    return float_of(bits | (uint32_t)(half & 0x8000) << 16);
}

/* ---- many ---- */

/* Pointers of bytes, because chunks of messages begin anywhere. */
VECTOR_INLINE void store(unsigned char *out, size_t i, uint16_t half)
{
    memcpy(out + i * sizeof half, &half, sizeof half);
}

VECTOR_INLINE uint16_t load(const unsigned char *in, size_t i)
{
    uint16_t half;
    memcpy(&half, in + i * sizeof half, sizeof half);
    return half;
}

VECTOR_CLONES
static void encode_bf16(const float *restrict in, size_t n, unsigned char *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        store(out, i, to_bf16(in[i]));
    }
}

VECTOR_CLONES
static void decode_bf16(const unsigned char *restrict in, size_t n, float *restrict out)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        out[i] = from_bf16(load(in, i));
    }
}

VECTOR_CLONES
static void round_bf16(float *values, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        values[i] = from_bf16(to_bf16(values[i]));
    }
}

static void encode_fp16_plain(const float *restrict in, size_t n, unsigned char *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        store(out, i, to_fp16(in[i]));
    }
}

static void decode_fp16_plain(const unsigned char *restrict in, size_t n, float *restrict out)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        out[i] = from_fp16(load(in, i));
    }
}

static void round_fp16_plain(float *values, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        values[i] = from_fp16(to_fp16(values[i]));
    }
}

/* Processors have instructions for fp16, which do the same to the bit and four times as fast. */
#ifdef HALF_F16C

#define F16C_LANES 8
#define F16C_ROUND (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/* Not every compiler has this one by name. Asked once: on virtual machines the answer takes
 * microseconds. */
static bool has_f16c(void)
{
    static atomic_int known; /* 1: no, 2: yes */
    int has = atomic_load_explicit(&known, memory_order_relaxed);
    if (has == 0) {
        unsigned a, b, c, d;
        bool instructions = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
        has = instructions && __builtin_cpu_supports("avx") ? 2 : 1;
        atomic_store_explicit(&known, has, memory_order_relaxed);
    }
    return has == 2;
}

__attribute__((target("avx,f16c"))) static size_t encode_fp16_f16c(const float *in, size_t n,
                                                                   unsigned char *out)
{
    size_t i = 0;
    for (; n - i >= F16C_LANES; i += F16C_LANES) {
        __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), F16C_ROUND);
        memcpy(out + i * sizeof(uint16_t), &half, sizeof half);
    }
    return i;
}

__attribute__((target("avx,f16c"))) static size_t decode_fp16_f16c(const unsigned char *in,
                                                                   size_t n, float *out)
{
    size_t i = 0;
    for (; n - i >= F16C_LANES; i += F16C_LANES) {
        __m128i half;
        memcpy(&half, in + i * sizeof(uint16_t), sizeof half);
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
    }
    return i;
}

__attribute__((target("avx,f16c"))) static size_t round_fp16_f16c(float *values, size_t n)
{
    size_t i = 0;
    for (; n - i >= F16C_LANES; i += F16C_LANES) {
        __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), F16C_ROUND);
        _mm256_storeu_ps(values + i, _mm256_cvtph_ps(half));
    }
    return i;
}

#else

static bool has_f16c(void)
{
    return false;
}

static size_t encode_fp16_f16c(const float *in, size_t n, unsigned char *out)
{
    (void)in;
    (void)n;
    (void)out;
    return 0;
}

static size_t decode_fp16_f16c(const unsigned char *in, size_t n, float *out)
{
    (void)in;
    (void)n;
    (void)out;
    return 0;
}

static size_t round_fp16_f16c(float *values, size_t n)
{
    (void)values;
    (void)n;
    return 0;
}

#endif

static void encode_fp16(const float *in, size_t n, unsigned char *out)
{
    size_t done = has_f16c() ? encode_fp16_f16c(in, n, out) : 0;
    encode_fp16_plain(in + done, n - done, out + done * sizeof(uint16_t));
}

static void decode_fp16(const unsigned char *in, size_t n, float *out)
{
    size_t done = has_f16c() ? decode_fp16_f16c(in, n, out) : 0;
    decode_fp16_plain(in + done * sizeof(uint16_t), n - done, out + done);
}

static void round_fp16(float *values, size_t n)
{
    size_t done = has_f16c() ? round_fp16_f16c(values, n) : 0;
    round_fp16_plain(values + done, n - done);
}

void values_encode(enum value_type type, const float *in, size_t n, void *out)
{
    if (type == VALUE_BF16) {
        encode_bf16(in, n, out);
    } else if (type == VALUE_FP16) {
        encode_fp16(in, n, out);
    } else if (n > 0) {
        memcpy(out, in, n * sizeof *in);
    }
}

void values_decode(enum value_type type, const void *in, size_t n, float *out)
{
    if (type == VALUE_BF16) {
        decode_bf16(in, n, out);
    } else if (type == VALUE_FP16) {
        decode_fp16(in, n, out);
    } else if (n > 0) {
        memcpy(out, in, n * sizeof *out);
    }
}

void values_round(enum value_type type, float *values, size_t n)
{
    if (type == VALUE_BF16) {
        round_bf16(values, n);
    } else if (type == VALUE_FP16) {
        round_fp16(values, n);
    }
}
