/* SPDX-License-Identifier: Apache-2.0 */
/* Which train records data.negative_sampling keeps: all of the second class, and of the first a
 * share that is drawn, record by record, by the number of the record in its part. One bit for each.
 */
#ifndef GRADUS_DATA_SAMPLE_H
#define GRADUS_DATA_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_spec.h"

struct sample {
    uint64_t key;
    double rate;
    uint64_t records, kept;
    uint64_t *bits; /* [words] record 0 is the lowest bit of the first */
    size_t words;
    uint64_t *ranks; /* [a step each] how many are kept before it; made by sample_end() */
};

/* NULL where @spec keeps all. Errors: ERR_INVALID not @classes 2. */
int sample_new(const struct data_spec *spec, uint32_t classes, struct sample **out,
               struct err *err);
void sample_free(struct sample *s); /* NULL is fine */
/* The next record. Is it kept? */
bool sample_add(struct sample *s, int32_t class);
/* Call when all records were added. Errors: ERR_INVALID none is kept. */
int sample_end(struct sample *s, struct err *err);
/* Take the bits of @records in place of adding them; false: they are none. */
bool sample_take(struct sample *s, uint64_t records, const void *bits, size_t bytes);

/* The number of the kept record at @position. After sample_end(); any thread. */
uint64_t sample_record(const struct sample *s, uint64_t position);
/* Turns @fingerprint of all records into that of the records that are kept. */
uint64_t sample_fingerprint(const struct sample *s, uint64_t fingerprint);

#endif
