/* SPDX-License-Identifier: Apache-2.0 */
/* How records as a format read them become what a model computes with: everything that is measured
 * on the train records (classes, means, vocabularies, scaling) and is then applied to all.
 *
 * Measuring goes over the train records several times and in their order, whether they are in
 * memory as a whole or come block by block: it adds the same numbers in the same order. */
#ifndef GRADUS_DATA_ENCODING_H
#define GRADUS_DATA_ENCODING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/classes.h"
#include "data/column_features.h"
#include "data/data_spec.h"
#include "data/encode.h"
#include "data/records.h"
#include "data/scaling.h"

/* How much has been measured; encoding_apply() applies no more than that to records. */
enum encoding_stage {
    ENCODING_RAW,
    ENCODING_FILLED,   /* missing numbers have their values */
    ENCODING_FEATURES, /* categories and declared columns are features or sparse fields */
    ENCODING_SCALED    /* all is known; bytes are scaled when they are read */
};

/* How labels become numbers; the same for train and test records. */
struct label_map {
    bool is_class;
    struct classes classes;
    double scale, offset;
};

struct encoding {
    const struct data_spec *spec; /* borrows */
    enum encoding_stage stage;
    struct label_map labels;
    struct encode_fills fills;
    struct encode_known known;     /* categories of columns that are not declared */
    struct column_layout *columns; /* declared columns; NULL: none are declared */
    struct scaling scaling;
};

struct encoding_given;

/* The train records to measure on. */
struct encoding_train {
    /* All different texts of labels and categories; all records where they are in memory. */
    const struct records *digest;
    uint64_t records;
    measure_walk *walk; /* every record in the stage that is reached */
    void *data;
    /* The encoding has reached the next stage. May be NULL. */
    int (*reached)(void *data, struct encoding *e, struct err *err);
    struct encoding_given *given; /* whose encoding is taken instead; NULL: measure */
};

/* Measure, or take what is given, which then has to outlive @e. @e is zeroed, and is to be released
 * in any case. Errors: as dataset_open(). */
int encoding_fit(struct encoding *e, const struct data_spec *spec, bool label_is_class,
                 const struct encoding_train *train, struct err *err);
/* Take records from the stage @from, in which they are, to the one that is reached. Errors:
 * ERR_EXHAUSTED; ERR_INVALID too many features. */
int encoding_apply(const struct encoding *e, enum encoding_stage from, struct records *r,
                   struct err *err);
void encoding_release(struct encoding *e);

#endif
