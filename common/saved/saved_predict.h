/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of a trained model for all records of files, in their order. */
#ifndef GRADUS_SAVED_SAVED_PREDICT_H
#define GRADUS_SAVED_SAVED_PREDICT_H

#include "saved/saved_model.h"

/* Gets the answers of the next @count records, [count × saved_model_width()]. */
typedef int saved_predict_take(void *context, const float *answers, size_t count, struct err *err);

/* Compute them in batches of SAVED_BATCH, as evaluations do, with @threads BLAS threads. No more
 * than a block of the records is in memory where the files can be read in blocks (encoder_read()).
 * Errors: those of encoder_read(), saved_run_answer() and @take. */
int saved_predict(struct saved_model *m, const struct encoder_files *files, int threads,
                  saved_predict_take *take, void *context, struct err *err);

#endif
