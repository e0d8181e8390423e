/* SPDX-License-Identifier: Apache-2.0 */
/* An encoding that was measured on the train records of another job, in place of one that is
 * measured on these: a job that begins with a model has to feed it what it was trained on. */
#ifndef GRADUS_DATA_ENCODING_GIVEN_H
#define GRADUS_DATA_ENCODING_GIVEN_H

#include "base/buf.h"
#include "base/err.h"
#include "data/data_spec.h"
#include "data/encoding_json.h"
#include "data/records.h"

struct encoding_given {
    struct data_spec spec; /* a copy, whose columns have the vocabularies that were measured */
    struct encoding_recalled recalled;
};

/* What data_spec.measured says of records of @spec. *@out is owned, and NULL when it says nothing.
 * Errors: ERR_INVALID it is of another data section; ERR_UNSUPPORTED of a newer program. */
int encoding_given_open(const struct data_spec *spec, bool label_is_class,
                        struct encoding_given **out, struct err *err);
void encoding_given_free(struct encoding_given *g); /* NULL is fine */

/* Is a record of @digest (encoding.h) what a record was there? Appends to @news which categories
 * were not there, and what becomes of them: "column city: 2 new categories (Lyon, Metz), whose
 * features are all 0". Errors: ERR_INVALID other columns, shapes or labels, with both lists. */
int encoding_given_check(const struct encoding_given *g, const struct records *digest,
                         struct buf *news, struct err *err);

#endif
