/* SPDX-License-Identifier: Apache-2.0 */
/* Losses: from the last layer's output to a number per record and its gradient. Private to
 * common/graph. */
#ifndef GRADUS_GRAPH_LOSS_H
#define GRADUS_GRAPH_LOSS_H

#include "graph/layer.h"
#include "graph/model.h"

struct loss_run {
    size_t width;   /* outputs per record */
    const float *y; /* [batch->count × width] */
    const struct batch *batch;
    float *dy;               /* gradient of the sum of losses; NULL: not wanted */
    float *scratch;          /* [width] */
    const uint64_t *groups;  /* [batch->count], for METRIC_GROUPED_AUC */
    struct metrics *metrics; /* added to; NULL: not wanted */
};

struct loss {
    /* A last layer of this kind is part of the loss, which then computes from what goes into it:
     * the mathematics is the same, but nothing overflows or cancels. NULL: none. */
    const struct layer_kind *link;
    unsigned metrics;      /* those it can give */
    bool needs_classes;    /* class labels */
    uint32_t classes_max;  /* 0: any number */
    bool output_per_class; /* else one output */
    void (*run)(const struct loss_run *r);
};

const struct loss *loss_of(enum loss_kind kind);

#endif
