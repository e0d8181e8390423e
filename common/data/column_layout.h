/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct column_layout: made by column_features.c, and read by code that makes the
 * same features by other means. */
#ifndef GRADUS_DATA_COLUMN_LAYOUT_H
#define GRADUS_DATA_COLUMN_LAYOUT_H

#include "data/column_features.h"
#include "data/column_vocabulary.h"

/* A number that stays one: feature = (log?(x) − mean) ÷ deviation, where log?(x) is
 * x or sign(x) · ln(1 + |x|). */
struct plain_number {
    size_t source;      /* number of the record */
    bool log, measured; /* mean and deviation were measured on the train records */
    double mean, deviation;
};

/* A number with boundaries. */
struct bucketed_number {
    size_t source;
    bool log, own_missing;
    double *boundaries;
    size_t count;
    size_t first; /* feature of the record */
};

struct category_group {
    struct column_vocabulary vocabulary;
    size_t source; /* category of the record */
    size_t first;
    uint32_t entry; /* index into data.columns; not all parts of the records know it */
};

struct column_layout {
    struct plain_number *plain;
    struct bucketed_number *bucketed;
    struct category_group *categories, *sparse;
    size_t plain_count, bucketed_count, category_count, sparse_count;
    size_t width;
    bool any_fields; /* the records have sparse fields */
};

#endif
