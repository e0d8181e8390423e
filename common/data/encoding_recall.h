/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files share that read an encoding from JSON. */
#ifndef GRADUS_DATA_ENCODING_RECALL_H
#define GRADUS_DATA_ENCODING_RECALL_H

#include "base/err.h"
#include "data/data_spec.h"
#include "data/records.h"

#define ENCODING_NUMBERS_MAX (16U << 20) /* numbers of a record; more than any format has */

struct json_t;

/* Returns ERR_CORRUPT, of the member @what. */
int encoding_lies(const char *what, struct err *err);
/* A text, or its bytes in an object; owned. NULL: it is neither. */
char *encoding_text(const struct json_t *value);
/* None, of the kind that a format reads; to be released in any case. Errors: ERR_CORRUPT. */
int encoding_recall_records(const struct json_t *root, const struct data_spec *spec,
                            struct records *r, struct err *err);

#endif
