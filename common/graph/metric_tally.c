/* SPDX-License-Identifier: Apache-2.0 */
/* A row of counters. Its wire form is their number, the number of those that are not 0, and these:
 * the place times 2^32 plus the count, a whole number below 2^53. */
#include "graph/metric_tally.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define COUNT_END 0x1.0p32
enum { PACKED_CELLS, PACKED_USED, PACKED_HEAD };

void tally_release(struct metric_tally *t)
{
    free(t->cells);
    *t = (struct metric_tally){0};
}

void tally_reset(struct metric_tally *t)
{
    if (t->count > 0) {
        memset(t->cells, 0, t->count * sizeof *t->cells);
    }
}

void tally_reserve(struct metric_tally *t, size_t count)
{
    assert(count <= TALLY_CELLS_MAX);
    if (count > t->count) {
        t->cells = mem_resize(t->cells, count, sizeof *t->cells);
        memset(t->cells + t->count, 0, (count - t->count) * sizeof *t->cells);
        t->count = count;
    }
}

void tally_merge(struct metric_tally *into, const struct metric_tally *from)
{
    tally_reserve(into, from->count);
    for (size_t i = 0; i < from->count; i++) {
        into->cells[i] += from->cells[i];
    }
}

size_t tally_pack(const struct metric_tally *t, double *out)
{
    size_t used = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->cells[i] != 0) {
            if (out != NULL) {
                out[PACKED_HEAD + used] = (double)i * COUNT_END + (double)t->cells[i];
            }
            used++;
        }
    }
    if (out != NULL) {
        out[PACKED_CELLS] = (double)t->count;
        out[PACKED_USED] = (double)used;
    }
    return PACKED_HEAD + used;
}

static bool is_whole(double v, double max)
{
    return v >= 0.0 && v <= max && v == floor(v);
}

int tally_check(const double *in, size_t count, size_t cells_max, size_t *used, struct err *err)
{
    if (count < PACKED_HEAD) {
        return err_set(err, ERR_INVALID, "metrics end before their counters");
    }
    const double cells = in[PACKED_CELLS], items = in[PACKED_USED];
    if (!is_whole(cells, (double)cells_max) || !is_whole(items, cells) ||
        items > (double)(count - PACKED_HEAD)) {
        return err_set(err, ERR_INVALID, "metrics have %g of %g counters; at most %zu are possible",
                       items, cells, cells_max);
    }
    double next = 0.0;
    for (size_t i = 0; i < (size_t)items; i++) {
        const double item = in[PACKED_HEAD + i];
        if (!is_whole(item, cells * COUNT_END) || floor(item / COUNT_END) < next ||
            floor(item / COUNT_END) >= cells) {
            return err_set(err, ERR_INVALID, "metrics counter %zu of them is %g", i, item);
        }
        next = floor(item / COUNT_END) + 1.0;
    }
    *used = PACKED_HEAD + (size_t)items;
    return 0;
}

size_t tally_unpack(struct metric_tally *t, const double *in)
{
    const size_t items = (size_t)in[PACKED_USED];
    tally_reset(t);
    tally_reserve(t, (size_t)in[PACKED_CELLS]);
    for (size_t i = 0; i < items; i++) {
        const uint64_t item = (uint64_t)in[PACKED_HEAD + i];
        t->cells[item >> 32] = (uint32_t)item;
    }
    return PACKED_HEAD + items;
}
