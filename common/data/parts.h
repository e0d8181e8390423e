/* SPDX-License-Identifier: Apache-2.0 */
/* The two parts of a job's data, train and test, as the files hold them. */
#ifndef GRADUS_DATA_PARTS_H
#define GRADUS_DATA_PARTS_H

#include <stdbool.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/records.h"

struct parts {
    struct records train, test;
    bool has_test;
    char *format; /* of the train records, and why; owned */
};

/* Read all files of @spec, and set the test part aside when test_fraction says so. @out is zeroed,
 * and is to be released in any case. Errors: as dataset_open(). */
int parts_read(const struct data_spec *spec, bool label_is_class, struct parts *out,
               struct err *err);
void parts_release(struct parts *p);

#endif
