/* SPDX-License-Identifier: Apache-2.0 */
/* The order of records: a pure function of (seed, epoch), without memory.
 *
 * Position i of an epoch holds record order_record(…, i): a keyed permutation of 0..records-1 made
 * of a balanced Feistel network with cycle walking (Black & Rogaway 2002). A split is a range of
 * positions. */
#ifndef GRADUS_DATA_ORDER_H
#define GRADUS_DATA_ORDER_H

#include <stdint.h>

struct order {
    uint64_t records;
    uint64_t key;
    uint32_t half_bits;
};

void order_init(struct order *o, uint64_t records, uint64_t seed, uint64_t epoch);
uint64_t order_record(const struct order *o, uint64_t position); /* position < records */

#endif
