/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct runner, for runner.c and runner_place.c. */
#ifndef GRADUS_GRAPH_RUNNER_IMPL_H
#define GRADUS_GRAPH_RUNNER_IMPL_H

#include "graph/model_impl.h"

#define NOWHERE SIZE_MAX

/* Where backward() of a layer leaves the gradient of one input. */
struct input_place {
    size_t dx;  /* NOWHERE: not needed */
    size_t sum; /* the gradient to which it is added; NOWHERE: it is the first part */
};

struct place {
    size_t y; /* offset in the arena */
    size_t state;
    size_t gradient; /* gradient of y; NOWHERE: not needed */
    struct input_place *inputs;
    void *engine; /* of a kind that has one; owned */
};

struct runner {
    const struct model *model;
    size_t batch_max;
    unsigned char *arena;
    struct place *places;       /* one per layer */
    struct input_place *inputs; /* of all layers */
    const float **xs;           /* of the running layer */
    float **dxs;
    size_t scratch;
    const struct runner_rows *rows; /* of the model's tables, for the present batch */
};

/* Take @count × @size bytes of the arena; false when the sum does not fit. */
bool runner_take(size_t *used, size_t count, size_t size, size_t *offset);
/* @width floats for each record. */
bool runner_take_floats(const struct runner *r, size_t *used, size_t width, size_t *offset);
bool runner_place_gradients(struct runner *r, size_t *used);

#endif
