/* SPDX-License-Identifier: Apache-2.0 */
/* Values of FIELD_TEXTS: one text, or several in brackets: [a.csv, "b, c.csv"].
 *
 * An item with a comma, a bracket, a quote or a blank at one of its ends stands in double quotes,
 * in which \" and \\ are a quote and a backslash. What does not begin with '[', or goes on behind
 * the ']' that ends the list, is one text as it stands: [ab]*.csv is a pattern. */
#ifndef GRADUS_CONFIG_FIELD_TEXTS_H
#define GRADUS_CONFIG_FIELD_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define FIELD_TEXTS_MAX 65536

struct field_texts {
    char **items;
    size_t count;
};

/* The items of @text; an empty text has none. False: a quote is not closed, an item or the
 * list is empty, or there are too many. */
bool field_texts_read(const char *text, struct field_texts *out);
/* The same of a value that older files write as one text with commas between the items, "a, b";
 * between two commas is an empty one. */
bool field_texts_read_commas(const char *text, struct field_texts *out);
void field_texts_release(struct field_texts *texts);
bool field_texts_is_list(const char *text); /* several in brackets */
/* Append an item of a list; the caller writes the brackets. @first: no comma before it. */
void field_texts_add(struct buf *out, const char *item, bool first);

#endif
