/* SPDX-License-Identifier: Apache-2.0 */
/* The named hashes that make numbers of categories and of keys; XXH3 is base/checksum.h's. */
#ifndef GRADUS_DATA_KEY_HASH_H
#define GRADUS_DATA_KEY_HASH_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a, 64 bits (draft-eastlake-fnv): h = 14695981039346656037; for each byte
 * h = (h xor byte) · 1099511628211 mod 2^64. */
static inline uint64_t key_hash_fnv1a(const void *data, size_t n)
{
    const unsigned char *bytes = data;
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++) {
        h = (h ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return h;
}

#endif
