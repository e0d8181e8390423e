/* SPDX-License-Identifier: Apache-2.0 */
/* Quotes what stands in a data file (a cell, a label, a column's name, a byte) in messages about
 * it.
 *
 * Whoever writes such a message puts the quoted text between two marks. Before a message leaves the
 * room (dataset_open()) the marks are removed, and the text between them, too, when it is not to be
 * shown: to people who may name files of a node that they cannot read themselves. */
#ifndef GRADUS_DATA_CELLS_H
#define GRADUS_DATA_CELLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CELLS_BEGIN "\x01"
#define CELLS_END "\x02"
#define CELLS_HIDDEN "[not shown]"

/* @text between marks into @out, cut to @bytes_max at a character and to @n, control characters
 * as '?'; with quotation marks when @quoted. Returns @out. */
const char *cells_mark(const char *text, size_t bytes_max, bool quoted, char *out, size_t n);

/* @message without marks; @hide: nor what is between them. Returns owned; NULL of NULL. */
char *cells_settle(const char *message, bool hide);
/* cells_settle() of the message of @err (may be NULL). */
void cells_settle_err(struct err *err, bool hide);

#endif
