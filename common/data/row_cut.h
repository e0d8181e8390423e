/* SPDX-License-Identifier: Apache-2.0 */
/* Where rows of text end, so that a file is read in pieces of whole rows. */
#ifndef GRADUS_DATA_ROW_CUT_H
#define GRADUS_DATA_ROW_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How rows are written. */
struct row_kind {
    bool quoted;    /* CSV: quotes may hold line ends */
    char separator; /* of CSV; CSV_BLANKS */
    bool framed;    /* TFRecord: no text; a row is a record between its length and its sum */
};

/* Behind the row that begins at @p, NULL: it does not end before @end. */
const char *row_end(const struct row_kind *k, const char *p, const char *end);
/* Behind the line at @p, or the record where they are framed; rows are numbered by these. */
const char *row_step(const struct row_kind *k, const char *p, const char *end);
/* The bytes of the first rows of @text, at most @rows_max, that end in its @n bytes; *@lines: how
 * many lines or framed records are in them. @last: the file ends there, and with it the last row.
 */
size_t row_cut(const struct row_kind *k, const char *text, size_t n, uint64_t rows_max, bool last,
               uint64_t *lines);
/* True if the text has a CR without LF, which ends a line of CSV. */
bool row_has_lone_cr(const char *text, size_t n);

#endif
