/* SPDX-License-Identifier: Apache-2.0 */
/* Reads CSV row by row: RFC 4180, and what files in practice add to it.
 *
 * Quoted fields may hold separators, line ends and doubled quotes. Lines end with LF, CRLF or CR. A
 * UTF-8 byte order mark is skipped, and so are empty lines. Blanks around unquoted fields are
 * dropped. A quote inside an unquoted field is an ordinary character. Owner: one thread. */
#ifndef GRADUS_DATA_CSV_H
#define GRADUS_DATA_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_roots.h"

#define CSV_ROW_BYTES_MAX (16U << 20) /* a row beyond that is a quote that was never closed */
#define CSV_COLUMNS_MAX 100000U
#define CSV_BLANKS ' ' /* the separator that means runs of blanks and tabs */

struct csv;

struct csv_row {
    char **fields; /* [count] NUL-terminated; valid until the next row is read */
    size_t count;
    uint64_t line; /* line in which the row begins, from 1 */
};

/* How many bytes at the beginning of a file are before its first row: a byte order mark, and the
 * line "sep=;" with which spreadsheets are told the separator. *@line: that of what follows. */
size_t csv_preamble(const char *text, size_t n, char separator, uint64_t *line);

/* Errors: as source_open(). */
int csv_open(const char *path, const struct data_roots *roots, char separator, struct csv **out,
             struct err *err);
/* Rows of a file that are in memory, of which the first begins in line @first; borrowed. */
void csv_of_bytes(const char *path, const char *bytes, size_t n, uint64_t first, char separator,
                  struct csv **out);
void csv_close(struct csv *c); /* NULL is fine */
/* The next row, or NULL at the end of the file. Errors: ERR_CORRUPT a quote that is not closed,
 * text behind a closing quote, a NUL byte, a damaged gzip file; ERR_EXHAUSTED a limit; all with the
 * line. */
int csv_next(struct csv *c, const struct csv_row **row, struct err *err);

/* Give the row in hand empty fields until it has @count. */
void csv_pad(struct csv *c, size_t count);

/* Put the field @text, which stays the caller's, in front of field @column of the row in hand, or
 * behind the last one. */
void csv_insert(struct csv *c, size_t column, char *text);

/* After a failure: can reading go on with the next line? Not behind a quote that is not closed,
 * which would take all lines up to the next quote, nor in a damaged file. */
bool csv_recover(struct csv *c);

#endif
