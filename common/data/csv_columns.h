/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of a CSV file: which is the label, which are numbers, categories, or ignored. */
#ifndef GRADUS_DATA_CSV_COLUMNS_H
#define GRADUS_DATA_CSV_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/csv.h"
#include "data/data_spec.h"

enum csv_role { CSV_NUMBER, CSV_CATEGORY, CSV_LABEL, CSV_WEIGHT, CSV_IGNORED };

struct csv_columns {
    size_t count;
    enum csv_role *roles; /* [count] */
    char **names;         /* [count]; "#3" for the fourth column without a header */
    uint32_t *declared;   /* [count] entry of data.columns; NULL: none are declared */
    bool header;
    bool unlabelled;     /* the label's column is not in the file, but was put in */
    const char *only;    /* while roles are given: the first row's cell, when it is its only one */
    uint64_t first_line; /* the line of the first row, with which every row is compared */
    size_t numbers, categories;
    size_t label;  /* its column */
    size_t weight; /* column of data.weight; SIZE_MAX: none is there, or read */
    size_t id;     /* column of data_spec.id; SIZE_MAX: none */
};

/* data.separator as a byte. Errors: ERR_INVALID. */
int csv_separator(const char *text, char *separator, struct err *err);
/* True if the first line of @path is a header. data.header decides; auto: it is one when a column
 * that holds numbers in the following lines (up to 100) does not in the first one, or when
 * data.label or data.weight is a name in it, or data.columns has a name. */
int csv_has_header(const char *path, char separator, const struct data_spec *spec, bool *header,
                   struct err *err);
/* Gives every column its role. @first: the first row of @path. @weights: whether records have
 * weights; a column of weights that are not read is left out. Errors: ERR_INVALID a column that
 * does not exist or is named twice; no features. */
int csv_columns_init(struct csv_columns *c, const char *path, const struct csv_row *first,
                     bool header, enum data_weights weights, const struct data_spec *spec,
                     struct err *err);
void csv_columns_release(struct csv_columns *c);
/* How many columns messages speak of: without a label behind them that is not in the file. */
size_t csv_columns_seen(const struct csv_columns *c);
/* Finds the column that @text means: a name of the header, else a number, negative from the end.
 * @key: the key of the job file, for messages. Errors: ERR_INVALID there is none, or there are two.
 */
int csv_columns_find(const struct csv_columns *c, const char *path, const char *key,
                     const char *text, size_t *column, struct err *err);

/* Of a file with one column: the separator that its first line seems to have, as advice. */
void csv_advise_separator(const struct csv_columns *c, char *out, size_t n);
/* How many columns data.columns numbers at least; 0: none are declared by a number from 0. */
size_t csv_columns_least(const struct data_spec *spec);
/* What a missing value of column @j becomes: enum column_missing, but COLUMN_MISSING_DATA. */
enum column_missing csv_column_missing(const struct csv_columns *c, const struct data_spec *spec,
                                       size_t j);

/* Empty, NA, N/A, NaN, null or ?, in any case. */
bool csv_is_missing(const char *text);
/* Those, and what databases, spreadsheets and Python write in a column of numbers, where it cannot
 * be a word: \N, #N/A, <NA>, None, - and a point. */
bool csv_is_missing_number(const char *text);
/* Which of the two it is for a cell of a column, of a label by its kind. */
bool csv_is_missing_as(enum csv_role role, bool label_is_class, const char *text);
/* A finite number that fits a float, with @decimal (enum data_decimal) before its decimals. */
bool csv_is_number(const char *text, int decimal, double *value);
#define CSV_SHOWN_BYTES 40 /* bytes of a cell that a message shows */
/* @text of the job file as messages show it (what a data file says: cells.h), quoted and cut, into
 * @out; returns @out. */
const char *csv_quote(const char *text, char *out, size_t n);

#endif
