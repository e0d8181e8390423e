/* SPDX-License-Identifier: Apache-2.0 */
/* A row of sums. Its wire form is the number of cells, the number of those that are not 0, and
 * these: a count below 2^32 is the place times 2^32 plus the count, a whole number below 2^53;
 * another sum follows the place times 2^32. */
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

static bool is_whole(double v, double max)
{
    return v >= 0.0 && v <= max && v == floor(v);
}

static bool is_count(double sum)
{
    return is_whole(sum, COUNT_END - 1.0);
}

size_t tally_pack(const struct metric_tally *t, double *out)
{
    size_t used = 0, n = PACKED_HEAD;
    for (size_t i = 0; i < t->count; i++) {
        const double sum = t->cells[i], at = (double)i * COUNT_END;
        if (sum == 0.0) {
            continue;
        }
        const bool count = is_count(sum);
        if (out != NULL) {
            out[n] = count ? at + sum : at;
        }
        if (out != NULL && !count) {
            out[n + 1] = sum;
        }
        n += count ? 1 : 2;
        used++;
    }
    if (out != NULL) {
        out[PACKED_CELLS] = (double)t->count;
        out[PACKED_USED] = (double)used;
    }
    return n;
}

/* How many numbers the item at in[0] is made of; 0: it is none of a cell from *@next to @cells.
 * @next: the place behind its own. */
static size_t item_numbers(const double *in, size_t count, double cells, double *next)
{
    if (count == 0 || !is_whole(in[0], cells * COUNT_END)) {
        return 0;
    }
    const double place = floor(in[0] / COUNT_END);
    if (place < *next || place >= cells) {
        return 0;
    }
    *next = place + 1.0;
    if (in[0] != place * COUNT_END) {
        return 1;
    }
    return count > 1 && isfinite(in[1]) && in[1] > 0.0 ? 2 : 0;
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
    size_t at = PACKED_HEAD;
    for (size_t i = 0; i < (size_t)items; i++) {
        const size_t n = item_numbers(in + at, count - at, cells, &next);
        if (n == 0) {
            return err_set(err, ERR_INVALID, "metrics counter %zu of them is %g", i,
                           at < count ? in[at] : NAN);
        }
        at += n;
    }
    *used = at;
    return 0;
}

size_t tally_unpack(struct metric_tally *t, const double *in)
{
    const size_t items = (size_t)in[PACKED_USED];
    size_t at = PACKED_HEAD;
    tally_reset(t);
    tally_reserve(t, (size_t)in[PACKED_CELLS]);
    for (size_t i = 0; i < items; i++) {
        const double place = floor(in[at] / COUNT_END), sum = in[at] - place * COUNT_END;
        t->cells[(size_t)place] = sum > 0.0 ? sum : in[at + 1];
        at += sum > 0.0 ? 1 : 2;
    }
    return at;
}
