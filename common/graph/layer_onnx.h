/* SPDX-License-Identifier: Apache-2.0 */
/* What layer kinds use to say how they are written into an ONNX file. Private to common/graph.
 *
 * Our values have their features last, [batch, height, width, channels]; ONNX's operators for
 * images and normalisation have them behind the batch. A value is known in one of the two layouts
 * or in both: it is turned when somebody needs the other, once, and who does not mind takes it as
 * it comes. Rows of numbers, [batch, features], are the same in both.
 *
 * A model without the scaling of its records answers wrongly and says nothing, so scaling, missing
 * values and the units of labels are nodes of the file (saved/saved_onnx.h); what no operator says
 * is refused, never left out (decision 60). Numbers that were measured in 64 bits are subtracted in
 * two steps of 32, and a boundary is moved to the float that decides the same. */
#ifndef GRADUS_GRAPH_LAYER_ONNX_H
#define GRADUS_GRAPH_LAYER_ONNX_H

#include "graph/model_onnx.h"
#include "graph/op.h"
#include "onnx/onnx_graph.h"

#define LAYER_ONNX_BATCH "batch" /* the dimension of all values that is not known */

struct layer_onnx_value {
    /* names of the value with features last, and first; NULL: not in that layout yet */
    const char *last, *first;
    struct shape shape; /* of one record, features last */
};

struct layer_onnx {
    const struct layer *layer;
    struct onnx_graph *graph;
    const float *const *values;       /* of the layer's variables; they outlive the graph */
    struct layer_onnx_value **inputs; /* [input_count] of layers that read others */
    const char *const *keys;          /* [input_count] of layers that read sparse fields: INT64
                                         [batch, keys], -1 is no key */
    const char *const *weights;       /* [input_count] likewise: FLOAT [batch, keys]; NULL: all are
                                         1 */
    const size_t *lengths;            /* [input_count] likewise: keys; SIZE_MAX: not known */
    const struct model_onnx_table *table; /* in which it looks keys up; NULL: none */
    const char **table_values; /* the constant with its rows, once one layer has made it */
    bool keeps_first;          /* all inputs are there with features first alone */
    struct layer_onnx_value y; /* the output; set by one of the functions below */
};

/* Input @k with its features last, with its features in front, or in the layout of keeps_first. */
const char *layer_onnx_last(struct layer_onnx *o, size_t k);
const char *layer_onnx_first(struct layer_onnx *o, size_t k);
const char *layer_onnx_any(struct layer_onnx *o, size_t k);
/* The output, in these layouts. Return 0. */
int layer_onnx_is(struct layer_onnx *o, const char *y);
int layer_onnx_is_first(struct layer_onnx *o, const char *y);
int layer_onnx_keep(struct layer_onnx *o, const char *y);

/* The layer's variable @i as a constant of its name and shape. Once for each. */
const char *layer_onnx_variable(struct layer_onnx *o, size_t i);
/* The sum of @x over dimension @axis, which becomes 1 with @keep and otherwise is removed. */
const char *layer_onnx_sum(struct layer_onnx *o, const char *name, const char *x, int64_t axis,
                           bool keep);
/* @x with a dimension 1 in place @axis. */
const char *layer_onnx_unsqueeze(struct layer_onnx *o, const char *name, const char *x,
                                 int64_t axis);
/* The inputs put together by an operator of two. Returns 0. */
int layer_onnx_chain(struct layer_onnx *o, const char *op);
/* The inputs as layer_plan_rows() has them: [batch, rows, width]. */
const char *layer_onnx_rows(struct layer_onnx *o);

/* Input 0 as an image, [batch, channels, height, width], and the layer's window. */
struct layer_onnx_window {
    int64_t size[2], stride[2], pads[4];
    struct onnx_attr attrs[3]; /* of these */
    size_t count;
};
const char *layer_onnx_image(struct layer_onnx *o);
void layer_onnx_window(const struct layer_onnx *o, struct layer_onnx_window *w);

/* @v in that layout; adds to @g, in the part that is written. */
const char *layer_onnx_value_last(struct onnx_graph *g, struct layer_onnx_value *v);

#endif
