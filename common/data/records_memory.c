/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow up to the machine's memory and no further, whatever a file says its size is. */
#include "data/records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"

#define RECORDS_FIRST_BYTES 4096U /* then it doubles; blocks of a stream may be small */

int records_check_memory(uint64_t count, size_t size, const char *where, struct err *err)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t limit = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : SIZE_MAX / 2;
    if (size == 0 || count <= limit / size) {
        return 0;
    }
    char need[32] = "more than 16 EiB", have[32];
    if (count <= UINT64_MAX / size) {
        (void)text_bytes(count * size, need, sizeof need);
    }
    return err_set(err, ERR_EXHAUSTED, "%s: the records need %s, this machine has %s of memory",
                   where, need, text_bytes(limit, have, sizeof have));
}

void *records_resize(void *array, uint64_t count, size_t size, const char *where, struct err *err)
{
    if (records_check_memory(count, size, where, err) != 0) {
        return NULL;
    }
    size_t bytes = (size_t)count * size;
    void *resized = realloc(array, bytes == 0 ? 1 : bytes);
    if (resized == NULL) {
        err_set(err, ERR_EXHAUSTED, "%s: no memory for %" PRIu64 " × %zu bytes", where, count,
                size);
    }
    return resized;
}

void *records_grow(void *array, uint64_t *capacity, uint64_t need, size_t size, const char *where,
                   struct err *err)
{
    if (need <= *capacity) {
        return array;
    }
    uint64_t first = RECORDS_FIRST_BYTES / size;
    uint64_t n = *capacity < first ? first : *capacity * 2;
    n = n < need ? need : n;
    if (records_check_memory(n, size, where, NULL) != 0) {
        n = need; /* the last doubling may be too much where the need is not */
    }
    void *grown = records_resize(array, n, size, where, err);
    if (grown != NULL) {
        *capacity = n;
    }
    return grown;
}
