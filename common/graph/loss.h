/* SPDX-License-Identifier: Apache-2.0 */
/* Losses: from the last layer's output to a number per record and its gradient. Private to
 * common/graph. */
#ifndef GRADUS_GRAPH_LOSS_H
#define GRADUS_GRAPH_LOSS_H

#include "graph/layer.h"
#include "graph/model.h"

struct loss_run {
    size_t width;   /* outputs per record */
    size_t top_k;   /* for METRIC_TOP_K_ACCURACY */
    const float *y; /* [batch->count × width] */
    const struct batch *batch;
    float *dy;                  /* gradient of the sum of losses; NULL: not wanted */
    const float *class_weights; /* of the classes, for the gradient alone; NULL: all 1 */
    float shift;                /* added to the logit of the second of two classes; 0: none */
    float *scratch;             /* [width] */
    const uint64_t *groups;     /* [batch->count], for METRIC_GROUPED_AUC */
    struct metrics *metrics;    /* added to; NULL: not wanted */
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

/* Counts a record of two classes, of more, all records with real labels; r->metrics is there. Of
 * classes, @y are the outputs of the record, @e is e^(y - the largest of them), which add up to
 * @sum. */
double loss_record_weight(const struct loss_run *r, size_t record); /* 1 where there are none */
void loss_count_examples(const struct loss_run *r); /* the batch's, after all else was counted */
void loss_count_binary(const struct loss_run *r, size_t record, double logit, bool positive);
void loss_count_classes(const struct loss_run *r, size_t record, const float *y, const float *e,
                        double sum);
void loss_count_values(const struct loss_run *r);

const struct loss *loss_of(enum loss_kind kind); /* not of LOSS_AUTO */

#endif
