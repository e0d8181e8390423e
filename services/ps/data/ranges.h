/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of an array that have come, each once, in any order. Neighbouring ranges are joined,
 * so a sender that goes up or down needs one range.
 *
 * Plain data; zeroed is empty. Limit: RANGES_MAX ranges apart from each other. */
#ifndef GRADUS_PS_DATA_RANGES_H
#define GRADUS_PS_DATA_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define RANGES_MAX 16 /* a sender leaves few gaps: layers end one after the other */

struct range {
    uint64_t first, end;
};

struct ranges {
    struct range items[RANGES_MAX]; /* rising, none touches the next */
    size_t count;
};

/* Elements [first, first + count), which does not overflow; none is fine. Errors: ERR_INVALID some
 * came before; ERR_EXHAUSTED too many gaps. */
int ranges_add(struct ranges *r, uint64_t first, uint64_t count, struct err *err);

#endif
