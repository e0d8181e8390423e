/* SPDX-License-Identifier: Apache-2.0 */
/* The width of the reader's lines, and text that keeps to it. */
#ifndef GRADUS_CLI_TERMINAL_H
#define GRADUS_CLI_TERMINAL_H

#include <stddef.h>

#include "base/buf.h"

#define TERMINAL_ANY SIZE_MAX /* width of an output that is no terminal: lines are not cut */

/* Columns of the terminal that @fd is; TERMINAL_ANY when it is none. */
size_t terminal_columns(int fd);
/* Append @text with every line that is longer than @columns broken between words, if it can be
 * between two blanks, where columns and pairs of a name and a number end. What follows is indented
 * like the line, or else to its second column of text. */
void terminal_wrap(const char *text, size_t columns, struct buf *out);
/* @text to stdout, wrapped when that is a terminal. */
void terminal_print(const struct buf *text);

#endif
