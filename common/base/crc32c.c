/* SPDX-License-Identifier: Apache-2.0 */
/* The tables are those of eight bytes at a time ("slicing by 8", Kounavis and Berry 2005): table k
 * says what a byte with k more bytes behind it adds to the sum. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82F63B78U /* 0x1EDC6F41 with its bits reversed */
#define SLICES 8
#define MASK_DELTA 0xA282EAD8U

static uint32_t tables[SLICES][256];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) {
            c = (c >> 1) ^ ((c & 1) != 0 ? POLYNOMIAL : 0);
        }
        tables[0][i] = c;
    }
    for (int k = 1; k < SLICES; k++) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = tables[k - 1][i];
            tables[k][i] = (c >> 8) ^ tables[0][c & 0xFF];
        }
    }
}

uint32_t crc32c_by_tables(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t c = ~0U;
    (void)pthread_once(&tables_made, make_tables);
    for (; n >= SLICES; n -= SLICES, p += SLICES) {
        uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                            (uint32_t)p[3] << 24);
        c = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^
            tables[4][low >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
            tables[0][p[7]];
    }
    for (; n > 0; n--, p++) {
        c = (c >> 8) ^ tables[0][(c ^ *p) & 0xFF];
    }
    return ~c;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t by_instruction(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t c = UINT32_MAX;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        c = _mm_crc32_u64(c, word);
    }
    uint32_t last = (uint32_t)c;
    for (; n > 0; n--, p++) {
        last = _mm_crc32_u8(last, *p);
    }
    return ~last;
}

uint32_t crc32c_of(const void *data, size_t n)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(data, n) : crc32c_by_tables(data, n);
}
#else
uint32_t crc32c_of(const void *data, size_t n)
{
    return crc32c_by_tables(data, n);
}
#endif

uint32_t crc32c_masked(const void *data, size_t n)
{
    const uint32_t c = crc32c_of(data, n);
    return (c >> 15 | c << 17) + MASK_DELTA;
}
