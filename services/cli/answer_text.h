/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a model as text: a line for each record. */
#ifndef GRADUS_CLI_ANSWER_TEXT_H
#define GRADUS_CLI_ANSWER_TEXT_H

#include "base/buf.h"
#include "saved/saved_model.h"

enum answer_format { ANSWER_CSV, ANSWER_JSON };

/* What comes before all answers: the header line of CSV ("class,p_setosa,…" or "value"). */
void answer_text_begin(const struct saved_model *m, enum answer_format format, struct buf *out);
/* Append @count answers. CSV: the class with the largest probability (the first of equal ones) and
 * all probabilities, or the value. JSON: {"class": "setosa", "probabilities": {"setosa": 0.9, …}}
 * or {"value": 2.5}; what JSON cannot say is null. */
void answer_text_add(const struct saved_model *m, enum answer_format format, const float *answers,
                     size_t count, struct buf *out);

#endif
