/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts the keys of a batch, from the lowest digit on. Digits that all keys have alike are left
 * out: of small numbers most are. */
#include "table/table_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define DIGIT_BITS 8
#define DIGITS (1U << DIGIT_BITS)
#define DIGIT_COUNT (64 / DIGIT_BITS)

void table_keys_release(struct table_keys *k)
{
    free(k->unique);
    free(k->sightings);
    free(k->index);
    free(k->sorted);
    free(k->scratch);
    memset(k, 0, sizeof *k);
}

static int reserve(struct table_keys *k, size_t n, struct err *err)
{
    if (n <= k->capacity) {
        return 0;
    }
    table_keys_release(k);
    static const char what[] = "keys of a batch";
    k->unique = mem_try_aligned(n, sizeof *k->unique, what, err);
    k->sightings = mem_try_aligned(n, sizeof *k->sightings, what, err);
    k->index = mem_try_aligned(n, sizeof *k->index, what, err);
    k->sorted = mem_try_aligned(n, sizeof *k->sorted, what, err);
    k->scratch = mem_try_aligned(n, sizeof *k->scratch, what, err);
    if (k->unique == NULL || k->sightings == NULL || k->index == NULL || k->sorted == NULL ||
        k->scratch == NULL) {
        table_keys_release(k);
        return ERR_EXHAUSTED;
    }
    k->capacity = n;
    return 0;
}

static void swap_arrays(struct table_keys *k)
{
    struct table_keys_entry *sorted = k->sorted;
    k->sorted = k->scratch;
    k->scratch = sorted;
}

/* Sorts by one digit, whose counts are @counts. */
static void sort_by(struct table_keys *k, size_t n, unsigned shift, const uint32_t counts[DIGITS])
{
    uint32_t to[DIGITS];
    uint32_t at = 0;
    for (unsigned d = 0; d < DIGITS; d++) {
        to[d] = at;
        at += counts[d];
    }
    const struct table_keys_entry *from = k->sorted;
    for (size_t i = 0; i < n; i++) {
        k->scratch[to[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    }
    swap_arrays(k);
}

static void sort(struct table_keys *k, const uint64_t *keys, size_t n)
{
    uint32_t counts[DIGIT_COUNT][DIGITS] = {{0}};
    uint64_t all = 0, common = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const uint64_t key = keys[i];
        k->sorted[i] = (struct table_keys_entry){key, (uint32_t)i};
        all |= key;
        common &= key;
        for (unsigned d = 0; d < DIGIT_COUNT; d++) {
            counts[d][key >> (d * DIGIT_BITS) & (DIGITS - 1)]++;
        }
    }
    for (unsigned d = 0; d < DIGIT_COUNT; d++) {
        if (((all ^ common) >> (d * DIGIT_BITS) & (DIGITS - 1)) != 0) {
            sort_by(k, n, d * DIGIT_BITS, counts[d]);
        }
    }
}

int table_keys_unique(struct table_keys *k, const uint64_t *keys, size_t n, struct err *err)
{
    if (n > UINT32_MAX) {
        return err_set(err, ERR_INVALID, "a batch of %zu keys; at most %u", n, UINT32_MAX);
    }
    int rc = reserve(k, n, err);
    if (rc != 0) {
        return rc;
    }
    sort(k, keys, n);
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const struct table_keys_entry e = k->sorted[i];
        if (count == 0 || k->unique[count - 1] != e.key) {
            k->unique[count] = e.key;
            k->sightings[count++] = 0;
        }
        k->sightings[count - 1]++;
        k->index[e.position] = (uint32_t)(count - 1);
    }
    k->n = n;
    k->count = count;
    return 0;
}
