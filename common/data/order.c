/* SPDX-License-Identifier: Apache-2.0 */
/* Shuffles without a table: a Feistel network permutes the numbers of an even count of bits,
 * enough for all records, and is applied again while the result is no record (cycle walking). */
#include "data/order.h"

#include "base/rng.h"

/* Luby & Rackoff need 4 rounds for large blocks; with halves of a few bits the rounds must make up
 * for the small number of distinct round functions. The chi-square test holds from 8 rounds on. */
#define ORDER_ROUNDS 8

void order_init(struct order *o, uint64_t records, uint64_t seed, uint64_t epoch)
{
    uint32_t half_bits = 1;
    while (half_bits < 32 && records > (uint64_t)1 << (2 * half_bits)) {
        half_bits++;
    }
    *o = (struct order){
        .records = records,
        .key = rng_key_mix(rng_key(seed, "order"), epoch),
        .half_bits = half_bits,
    };
}

uint64_t order_record(const struct order *o, uint64_t position)
{
    const uint64_t mask = ((uint64_t)1 << o->half_bits) - 1;
    uint64_t x = position;
    do { /* the block is at most 4 × records, so this takes 4 turns at most on average */
        uint64_t left = x >> o->half_bits, right = x & mask;
        for (uint64_t round = 0; round < ORDER_ROUNDS; round++) {
            uint64_t mixed = rng_key_mix(o->key, round << 32 | right);
            uint64_t next = left ^ (mixed & mask);
            left = right;
            right = next;
        }
        x = left << o->half_bits | right;
    } while (x >= o->records);
    return x;
}
