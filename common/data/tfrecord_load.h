/* SPDX-License-Identifier: Apache-2.0 */
/* A TFRecord file on its way into records, one tf.train.Example after the other. */
#ifndef GRADUS_DATA_TFRECORD_LOAD_H
#define GRADUS_DATA_TFRECORD_LOAD_H

#include "data/format.h"
#include "data/tfrecord.h"
#include "data/tfrecord_slots.h"

/* Begins with request, out.where, weights and slots; all else is zeroed. */
struct tfrecord_load {
    const struct format_request *request;
    struct records out;
    struct tfrecord_slots slots;
    struct tfrecord_item item; /* in hand */
    struct sparse_draft draft; /* of the record in hand */
    bool skip;                 /* the record in hand is left out for a missing value */
    bool lacks_weight;         /* the record in hand may have a weight, and has none */
    size_t ids_before;         /* bytes of ids of the records before */
    enum data_weights weights;
    uint64_t without_weight; /* records */
    uint64_t labels_capacity, places_capacity, values_capacity, weights_capacity;
};

/* Adds the record in hand; nothing is added when it fails or is skipped. Errors: ERR_INVALID, with
 * the record; ERR_EXHAUSTED. */
int tfrecord_load_add(struct tfrecord_load *l, struct err *err);
/* After the last record. Errors: ERR_INVALID some test records have weights, and some have not. */
int tfrecord_load_end(struct tfrecord_load *l, struct err *err);

#endif
