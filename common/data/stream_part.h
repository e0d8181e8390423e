/* SPDX-License-Identifier: Apache-2.0 */
/* The records of one part of a source that data.test_fraction divides: the position of a record in
 * its part leads to its number in the source. */
#ifndef GRADUS_DATA_STREAM_PART_H
#define GRADUS_DATA_STREAM_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream_part {
    bool divided, test; /* divided: not all records of the source are its own */
    uint64_t records;
    uint64_t key;
    double fraction;
    uint64_t *ranks; /* [rank_count] how many records of the part are before each step */
    size_t rank_count;
};

/* A part of all records; divided, a part of those that fall to the test part, or of the others. */
void stream_part_all(struct stream_part *p, uint64_t records);
void stream_part_divide(struct stream_part *p, uint64_t records, double test_fraction,
                        uint64_t seed, bool test);
void stream_part_release(struct stream_part *p); /* zeroed struct is fine */
uint64_t stream_part_record(const struct stream_part *p, uint64_t position);

#endif
