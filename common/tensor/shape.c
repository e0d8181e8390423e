/* SPDX-License-Identifier: Apache-2.0 */
/* Counts, compares and prints shapes. A count that does not fit in 64 bits is 0. */
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t shape_count(const struct shape *s)
{
    uint64_t count = 1;
    for (size_t i = 0; i < s->rank; i++) {
        if (__builtin_mul_overflow(count, s->dims[i], &count)) {
            return 0;
        }
    }
    return count;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank) {
        return false;
    }
    for (size_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) {
            return false;
        }
    }
    return true;
}

/* Text goes to out[*used]; what does not fit is cut, and the result is always terminated. */
static void append(char *out, size_t n, size_t *used, const char *before, uint64_t dim)
{
    if (*used >= n) {
        return;
    }
    int wrote = snprintf(out + *used, n - *used, "%s%" PRIu64, before, dim);
    if (wrote > 0) {
        *used += (size_t)wrote;
    }
}

const char *shape_format(const struct shape *s, char *out, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < s->rank; i++) {
        append(out, n, &used, i == 0 ? "[" : ", ", s->dims[i]);
    }
    if (used < n) {
        (void)snprintf(out + used, n - used, s->rank == 0 ? "[]" : "]");
    }
    return out;
}
