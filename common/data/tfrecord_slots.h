/* SPDX-License-Identifier: Apache-2.0 */
/* What data.columns declares of the features of a TFRecord file, feature by feature. */
#ifndef GRADUS_DATA_TFRECORD_SLOTS_H
#define GRADUS_DATA_TFRECORD_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/column_vocabulary.h"
#include "data/format.h"
#include "data/names.h"
#include "data/records.h"

/* Where one declared feature goes. */
struct tfrecord_slot {
    uint32_t entry;                   /* of data.columns */
    const struct data_column *column; /* of data.weight: a column of the kind COLUMN_WEIGHT */
    const struct column_vocabulary *vocabulary; /* of keys; NULL: none */
    enum column_missing missing;
    size_t place, length; /* its first number and their count, or its sparse field */
    uint64_t seen;        /* number of the last record that has it, from 1 */
};

struct tfrecord_slots {
    struct names names;          /* of the features */
    struct tfrecord_slot *slots; /* [names.count] */
    size_t capacity;
    struct column_vocabulary *vocabularies; /* [column_count] of those that have one */
    size_t vocabulary_count;
    size_t label; /* its slot */
};

/* Read data.columns; the numbers and sparse fields of @out are declared by it. @out and @slots,
 * zeroed, are to be released in any case. Errors: ERR_INVALID an entry that no TFRecord file can
 * have; ERR_EXHAUSTED. */
int tfrecord_slots_init(struct tfrecord_slots *slots, const struct format_request *q,
                        struct records *out, struct err *err);
void tfrecord_slots_release(struct tfrecord_slots *slots, size_t column_count);

#endif
