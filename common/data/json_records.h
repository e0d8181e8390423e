/* SPDX-License-Identifier: Apache-2.0 */
/* Records as lines of JSON, for who asks a model for answers, whatever format it was trained on. A
 * line is an object:
 *
 *   {"width": 1.5, "soil": "clay"}       numbers and categories by the names of their columns
 *   {"features": [[0, 17], [255, 3]]}    all numbers of a record in their order, in lists or not
 *   {"C1": [17, [4711, 0.5]]}            the keys of a sparse field, one with a weight
 *
 * null, or nothing, is a missing value; a field that is not there has no keys. The label, the
 * weight, columns that data.ignore names, and data_spec.id may be there; other members may not, but
 * where columns are declared. */
#ifndef GRADUS_DATA_JSON_RECORDS_H
#define GRADUS_DATA_JSON_RECORDS_H

#include "data/encoder.h"
#include "data/feed.h"

/* Read the lines of @text. Errors: ERR_INVALID, with the line; ERR_EXHAUSTED. */
int json_records_read(const struct encoder *e, const struct feed_text *text, struct records *out,
                      struct err *err);

#endif
