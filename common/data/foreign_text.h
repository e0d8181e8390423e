/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of records that are not UTF-8: of a file in another encoding. */
#ifndef GRADUS_DATA_FOREIGN_TEXT_H
#define GRADUS_DATA_FOREIGN_TEXT_H

#include "data/records.h"

/* The first record with a label or category that is no UTF-8, in words: where it is, the column,
 * and the text, between marks (cells.h). Returns owned; NULL: there is none. */
char *foreign_text_first(const struct records *r);

#endif
