/* SPDX-License-Identifier: Apache-2.0 */
/* max_pool2d: the largest value under each window. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"

static const struct field max_pool2d_fields[] = {
    {"size", FIELD_INTS, offsetof(struct image_params, size), "2", 1, 1024, NULL,
     "Size of the window: one number, or height and width"},
    {"stride", FIELD_INTS, offsetof(struct image_params, stride), "[]", 1, 1024, NULL,
     "Distance between windows: one number, or down and across; empty: as the size"},
    {"padding", FIELD_ENUM, offsetof(struct image_params, padding), "valid", 0, 0, padding_names,
     "valid: only whole windows; same: windows may hang over the edge"},
};

static int max_pool2d_plan(struct layer *l, struct err *err)
{
    int rc = layer_plan_window(l, l->params, "size", err);
    if (rc == 0) {
        layer_image_output(l, l->window.channels);
        /* which pixel won, per output */
        l->state_bytes = window_positions(&l->window) * l->window.channels * sizeof(uint32_t);
    }
    return rc;
}

static void max_pool2d_forward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    uint32_t *winners = r->state;
    for (size_t i = 0; i < r->count; i++) {
        window_max(&l->window, r->x + i * l->in_count, r->y + i * l->out_count,
                   r->training ? winners + i * l->out_count : NULL);
    }
}

static void max_pool2d_backward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    const uint32_t *winners = r->state;
    if (r->dx == NULL) {
        return;
    }
    memset(r->dx, 0, r->count * l->in_count * sizeof *r->dx);
    for (size_t i = 0; i < r->count; i++) {
        window_max_backward(&l->window, r->dy + i * l->out_count, winners + i * l->out_count,
                            r->dx + i * l->in_count);
    }
}

static int max_pool2d_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    struct layer_onnx_window w;
    const char *image = layer_onnx_image(o);
    layer_onnx_window(o, &w);
    return layer_onnx_is_first(
        o, onnx_graph_node(o->graph, "MaxPool", "", &image, 1, w.attrs, w.count));
}

extern const struct layer_kind layer_max_pool2d;
const struct layer_kind layer_max_pool2d = {
    .name = "max_pool2d",
    .help = "Keeps the largest value under each window of an image",
    .fields = max_pool2d_fields,
    .field_count = sizeof max_pool2d_fields / sizeof max_pool2d_fields[0],
    .params_bytes = sizeof(struct image_params),
    .plan = max_pool2d_plan,
    .forward = max_pool2d_forward,
    .backward = max_pool2d_backward,
    .onnx = max_pool2d_onnx,
};
