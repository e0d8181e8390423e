/* SPDX-License-Identifier: Apache-2.0 */
/* Which records of a source are train records and which are test records, in constant memory. The
 * side of a record is drawn from its number; a count is kept for every STEP records, and the
 * records between two counts are drawn again. */
#include "data/stream_part.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/records.h"

#define STEP 512

void stream_part_all(struct stream_part *p, uint64_t records)
{
    *p = (struct stream_part){.records = records};
}

static bool is_own(const struct stream_part *p, uint64_t record)
{
    return records_is_test(p->key, record, p->fraction) == p->test;
}

void stream_part_divide(struct stream_part *p, uint64_t records, double test_fraction,
                        uint64_t seed, bool test)
{
    *p = (struct stream_part){
        .divided = true, .test = test, .key = records_split_key(seed), .fraction = test_fraction};
    p->ranks = mem_new((size_t)(records / STEP + 1), sizeof *p->ranks);
    for (uint64_t i = 0; i < records; i++) {
        if (i % STEP == 0) {
            p->ranks[p->rank_count++] = p->records;
        }
        p->records += is_own(p, i);
    }
}

void stream_part_release(struct stream_part *p)
{
    free(p->ranks);
    *p = (struct stream_part){.records = 0};
}

uint64_t stream_part_record(const struct stream_part *p, uint64_t position)
{
    if (!p->divided) {
        return position;
    }
    size_t low = 0, high = p->rank_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (p->ranks[middle] <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint64_t record = (uint64_t)low * STEP, left = position - p->ranks[low];
    for (;; record++) {
        if (is_own(p, record) && left-- == 0) {
            return record;
        }
    }
}
