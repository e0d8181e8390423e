/* SPDX-License-Identifier: Apache-2.0 */
/* What the loss of a record is multiplied by in training, by its class. */
#ifndef GRADUS_GRAPH_MODEL_WEIGHTS_H
#define GRADUS_GRAPH_MODEL_WEIGHTS_H

#include "graph/model.h"

/* Weights as a job file has them: *@balanced, or @weights [*@count], owned; neither for an empty
 * text. Errors: ERR_INVALID no weight from 0 on, or all are 0. */
int model_weights_read(const char *text, bool *balanced, float **weights, size_t *count,
                       struct err *err);
/* True if the weights depend on the numbers of train records of each class: model_balance() must
 * follow. */
bool model_is_balanced(const struct model *m);
/* Records of each class weigh as much as those of any other: all records over the classes that some
 * have, over @counts [classes of the model]. Before the model is shared. */
void model_balance(struct model *m, const uint64_t *counts);
/* Says that only the share @rate of the records of the first of two classes is trained on.
 * Gradients, and metrics of training, are then those at the logit minus ln @rate, so that the logit
 * itself is that of all records. Before the model is shared. */
void model_sampled(struct model *m, double rate);

#endif
