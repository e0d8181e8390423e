/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct model, for model.c and runner.c. */
#ifndef GRADUS_GRAPH_MODEL_IMPL_H
#define GRADUS_GRAPH_MODEL_IMPL_H

#include "graph/loss.h"
#include "graph/op.h"

/* A job file's layer becomes one layer here, and one more for its activation. */
struct model_layer {
    struct layer layer;
    bool is_activation; /* of the layer before it */
};

struct model {
    struct model_layer *layers;
    size_t layer_count;
    size_t loss_layers;     /* layers below the loss: without a last one that is part of it */
    size_t first_trainable; /* index of the first layer with variables */
    const struct variable_spec **variables; /* point into layers */
    size_t variable_count;
    size_t outputs;        /* per record */
    uint32_t loss_outputs; /* of the last layer, as the loss needs them for the labels */
    struct shape input;
    const struct loss *loss;
};

#endif
