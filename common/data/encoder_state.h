/* SPDX-License-Identifier: Apache-2.0 */
/* An encoder, as the files that make it of data and read data with it see it. */
#ifndef GRADUS_DATA_ENCODER_STATE_H
#define GRADUS_DATA_ENCODER_STATE_H

#include <stdatomic.h>

#include "data/encoder.h"

struct encoder {
    atomic_uint refs;
    struct data_spec spec;      /* a copy */
    struct dataset *shape;      /* the train records' data set, without records */
    struct records like;        /* no records, but of the kind that the format reads */
    struct records bare;        /* the same without names, and with floats in the place of bytes */
    struct encoding own;        /* of data in memory, or recalled; of streamed data in the stream */
    struct names *vocabularies; /* of files, recalled */
    size_t vocabulary_count;
    enum data_format format;
};

/* encoder_apply(), with labels as @encoding has them. */
int encoder_apply_as(const struct encoder *e, const struct encoding *encoding, struct records *r,
                     struct dataset **out, struct err *err);

#endif
