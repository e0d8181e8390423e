/* SPDX-License-Identifier: Apache-2.0 */
/* Makes sparse fields of entries of data.columns, for formats whose fields have no header line: a
 * range is written out into single names here. */
#ifndef GRADUS_DATA_COLUMN_FIELDS_H
#define GRADUS_DATA_COLUMN_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/format.h"
#include "data/sparse_fields.h"

#define COLUMN_RANGE_MAX 100000U
#define COLUMN_NOT_DECLARED UINT32_MAX

/* What data.columns.N.column means: "C1..C26", "0..38" or one name. */
struct column_range {
    char *prefix; /* owned; without a range the whole name */
    uint64_t first, last;
    bool several; /* a range: prefix and each number are a name */
};

/* Errors: ERR_INVALID "C9..C1", or more than COLUMN_RANGE_MAX. */
int column_range_read(const char *text, struct column_range *out, struct err *err);
char *column_range_name(const struct column_range *r, uint64_t number); /* owned */
void column_range_release(struct column_range *r);

/* How keys of the column that are numbers in the file fold into columns. */
enum sparse_fold column_fields_fold(const struct data_column *c);
/* Refuse a vocabulary of the entry, whose keys are numbers in the file. Errors: ERR_INVALID. */
int column_fields_check_numbers(const struct data_column *c, size_t entry, const char *path,
                                const char *format, struct err *err);
/* The only sparse field of a format that has one (LIBSVM). Errors: ERR_INVALID data.columns says
 * something else. */
int column_fields_only(const struct format_request *q, const char *format,
                       struct sparse_fields *out, struct err *err);

/* Sparse fields that are called by numbers. */
struct column_numbers {
    uint32_t *fields; /* [count] of each number, or COLUMN_NOT_DECLARED; owned */
    size_t count;
};
/* Errors: ERR_INVALID an entry that is not 'as: sparse' or 'as: ignore', is no number, or declares
 * one again; ERR_EXHAUSTED too many. */
int column_fields_numbered(const struct format_request *q, const char *format,
                           struct sparse_fields *out, struct column_numbers *numbers,
                           struct err *err);

#endif
