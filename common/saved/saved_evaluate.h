/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates a trained model on the records of its job. */
#ifndef GRADUS_SAVED_SAVED_EVALUATE_H
#define GRADUS_SAVED_SAVED_EVALUATE_H

#include "graph/metric.h"
#include "saved/saved_model.h"

/* Add the metrics over the test part of the job's data (@test; else the train part) to @sums, which
 * are of the job's. The files are read in blocks where that can be, and nothing is measured on
 * them. @weighted: the records have weights, by which they count. Errors: of encoder_read_part();
 * ERR_INVALID records that the model does not take; ERR_EXHAUSTED. */
int saved_evaluate(struct saved_model *m, bool test, int threads, struct metrics *sums,
                   bool *weighted, struct err *err);

#endif
