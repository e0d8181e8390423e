/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured on train records, as JSON: everything that turns other records into what a
 * model computes with, for programs that have neither the train records nor this program's memory.
 * docs/serving.md describes its members. */
#ifndef GRADUS_DATA_ENCODING_JSON_H
#define GRADUS_DATA_ENCODING_JSON_H

#include "base/err.h"
#include "data/encoding.h"
#include "data/records.h"

#define ENCODING_JSON_VERSION 1
#define ENCODING_JSON_BYTES_MAX (48U << 20) /* fits a message and a manifest */

/* Of records of the kind of @like, which may have any; @choice: as dataset_format() has it. On one
 * line, UTF-8; owned. NULL: it would be longer than ENCODING_JSON_BYTES_MAX. */
char *encoding_describe(const struct data_spec *spec, const char *choice,
                        const struct records *like, const struct encoding *e);

/* And back. */
struct encoding_recalled {
    struct records like;        /* no records, but of the kind that the format reads */
    struct encoding encoding;   /* of the spec that was given */
    char *choice;               /* owned */
    struct names *vocabularies; /* [column_count] of vocabulary files, which columns borrow */
    size_t vocabulary_count;
};
/* @spec is the data section of the same job, whose columns are given their vocabularies; @r is
 * zeroed, and is to be released in any case, after @spec has been used for the last time. Errors:
 * ERR_UNSUPPORTED another version; ERR_CORRUPT it does not hold together, or is of another data
 * section. */
int encoding_recall(const char *text, struct data_spec *spec, bool label_is_class,
                    struct encoding_recalled *r, struct err *err);
void encoding_recalled_release(struct encoding_recalled *r);

/* Names by enum sparse_fold, NULL at the end. */
extern const char *const encoding_json_folds[];

#endif
