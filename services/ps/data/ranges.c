/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps which values of a gradient have arrived, as a short sorted list of ranges. A value that
 * comes twice is an error, and so are too many gaps. */
#include "ps/data/ranges.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static void insert(struct ranges *r, size_t at, struct range range)
{
    memmove(r->items + at + 1, r->items + at, (r->count - at) * sizeof range);
    r->items[at] = range;
    r->count++;
}

static void remove_at(struct ranges *r, size_t at)
{
    r->count--;
    memmove(r->items + at, r->items + at + 1, (r->count - at) * sizeof r->items[0]);
}

int ranges_add(struct ranges *r, uint64_t first, uint64_t count, struct err *err)
{
    if (count == 0) {
        return 0;
    }
    uint64_t end = first + count;
    size_t at = 0; /* the first range that ends behind the new one's beginning */
    while (at < r->count && r->items[at].end <= first) {
        at++;
    }
    if (at < r->count && r->items[at].first < end) {
        uint64_t again = r->items[at].first > first ? r->items[at].first : first;
        return err_set(err, ERR_INVALID, "element %" PRIu64 " came before", again);
    }
    bool joins_left = at > 0 && r->items[at - 1].end == first;
    bool joins_right = at < r->count && r->items[at].first == end;
    if (joins_left) {
        r->items[at - 1].end = joins_right ? r->items[at].end : end;
        if (joins_right) {
            remove_at(r, at);
        }
    } else if (joins_right) {
        r->items[at].first = first;
    } else if (r->count == RANGES_MAX) {
        return err_set(err, ERR_EXHAUSTED, "values with more than %d gaps", RANGES_MAX - 1);
    } else {
        insert(r, at, (struct range){first, end});
    }
    return 0;
}
