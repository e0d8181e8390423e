/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a model as text: a line for each record. */
#ifndef GRADUS_CLI_ANSWER_TEXT_H
#define GRADUS_CLI_ANSWER_TEXT_H

#include "base/buf.h"
#include "saved/saved_model.h"

enum answer_format { ANSWER_CSV, ANSWER_JSON };

/* Writes the text before all answers: the header line of CSV ("class,p_setosa,…" or "value"; with
 * @id "ID,class,…"). */
void answer_text_begin(const struct saved_model *m, enum answer_format format, const char *id,
                       struct buf *out);
/* Append @count answers; @ids: of each a text with its NUL, which comes first under the name @id;
 * both may be NULL. CSV: the class with the largest probability (the first of equal ones) and
 * all probabilities, or the value. JSON: {"class": "setosa", "probabilities": {"setosa": 0.9, …}}
 * or {"value": 2.5}; what JSON cannot say is null. */
void answer_text_add(const struct saved_model *m, enum answer_format format, const float *answers,
                     const char *id, const char *ids, size_t count, struct buf *out);
/* Appends @prefix and @text as a cell of CSV, quoted where RFC 4180 wants it. */
void answer_text_cell(const char *prefix, const char *text, struct buf *out);

#endif
