/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a trained model for a command. */
#ifndef GRADUS_CLI_OPEN_SAVED_H
#define GRADUS_CLI_OPEN_SAVED_H

#include "saved/saved_model.h"

/* saved_model_open(), with a warning for a checkpoint that does not keep what was measured on the
 * train data. */
int open_saved(const struct saved_model_request *request, struct saved_model **out,
               struct err *err);

#endif
