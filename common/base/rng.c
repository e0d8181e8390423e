/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers without a state: Philox makes the bits, SplitMix64's finalizer mixes seeds and
 * names into keys, the formula of Box and Muller (1958) makes normal numbers of uniform ones. */
#include "base/rng.h"

#include <math.h>

void rng_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53U * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

uint64_t rng_key_mix(uint64_t key, uint64_t number)
{
    return mix(mix(key) ^ number);
}

uint64_t rng_key(uint64_t seed, const char *name)
{
    uint64_t key = mix(seed);
    for (const char *p = name; *p != '\0'; p++) {
        key = rng_key_mix(key, (uint8_t)*p);
    }
    return key;
}

static void draw(uint64_t key, uint64_t index, uint32_t out[4])
{
    uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    rng_philox(k, c, out);
}

uint64_t rng_u64(uint64_t key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index, out);
    return (uint64_t)out[1] << 32 | out[0];
}

double rng_uniform(uint64_t key, uint64_t index)
{
    return (double)(rng_u64(key, index) >> 11) * 0x1.0p-53;
}

double rng_normal(uint64_t key, uint64_t index)
{
    uint32_t out[4];
    draw(key, index, out);
    double u = ((double)(((uint64_t)out[1] << 32 | out[0]) >> 11) + 0.5) * 0x1.0p-53;
    double v = (double)(((uint64_t)out[3] << 32 | out[2]) >> 11) * 0x1.0p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

__extension__ typedef unsigned __int128 wide; /* a compiler extension on 64-bit targets */

uint64_t rng_below(uint64_t key, uint64_t index, uint64_t n)
{
    wide product = (wide)rng_u64(key, index) * n;
    return (uint64_t)(product >> 64);
}
