/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a text file, plain or compressed, line by line.
 *
 * Lines end with LF or CRLF; the last one may lack its end. A UTF-8 byte order mark is skipped.
 * Owner: one thread. */
#ifndef GRADUS_DATA_LINES_H
#define GRADUS_DATA_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_roots.h"

#define LINES_BYTES_MAX (64U << 20) /* a longer line is no text of records */

struct lines;

struct line {
    char
        *text; /* [bytes], then a NUL; valid, and free to be changed, until the next line is read */
    size_t bytes;    /* without the line end */
    uint64_t number; /* from 1 */
};

/* Errors: as source_open(). */
int lines_open(const char *path, const struct data_roots *roots, struct lines **out,
               struct err *err);
/* Lines of a file that are in memory, of which the first is number @first; all is borrowed. */
void lines_of_bytes(const char *path, const char *bytes, size_t n, uint64_t first,
                    struct lines **out);
void lines_close(struct lines *l); /* NULL is fine */
/* The next line; its text is NULL at the end of the file. Errors: ERR_EXHAUSTED the line is too
 * long; as source_read(). */
int lines_next(struct lines *l, struct line *line, struct err *err);

#endif
