/* SPDX-License-Identifier: Apache-2.0 */
/* avg_pool2d: the mean over the pixels under each window; padding does not count. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"

static const struct field avg_pool2d_fields[] = {
    {"size", FIELD_INTS, offsetof(struct image_params, size), "2", 1, 1024, NULL,
     "Size of the window: one number, or height and width"},
    {"stride", FIELD_INTS, offsetof(struct image_params, stride), "[]", 1, 1024, NULL,
     "Distance between windows: one number, or down and across; empty: as the size"},
    {"padding", FIELD_ENUM, offsetof(struct image_params, padding), "valid", 0, 0, padding_names,
     "valid: only whole windows; same: windows may hang over the edge"},
};

static int avg_pool2d_plan(struct layer *l, struct err *err)
{
    int rc = layer_plan_window(l, l->params, "size", err);
    if (rc == 0) {
        layer_image_output(l, l->window.channels);
    }
    return rc;
}

static void avg_pool2d_forward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    for (size_t i = 0; i < r->count; i++) {
        window_mean(&l->window, r->x + i * l->in_count, r->y + i * l->out_count);
    }
}

static void avg_pool2d_backward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    if (r->dx == NULL) {
        return;
    }
    memset(r->dx, 0, r->count * l->in_count * sizeof *r->dx);
    for (size_t i = 0; i < r->count; i++) {
        window_mean_backward(&l->window, r->dy + i * l->out_count, r->dx + i * l->in_count);
    }
}

/* ONNX leaves padding out of the mean by default, as we do. */
static int avg_pool2d_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    struct layer_onnx_window w;
    const char *image = layer_onnx_image(o);
    layer_onnx_window(o, &w);
    return layer_onnx_is_first(
        o, onnx_graph_node(o->graph, "AveragePool", "", &image, 1, w.attrs, w.count));
}

extern const struct layer_kind layer_avg_pool2d;
const struct layer_kind layer_avg_pool2d = {
    .name = "avg_pool2d",
    .help = "Takes the mean under each window of an image",
    .fields = avg_pool2d_fields,
    .field_count = sizeof avg_pool2d_fields / sizeof avg_pool2d_fields[0],
    .params_bytes = sizeof(struct image_params),
    .plan = avg_pool2d_plan,
    .forward = avg_pool2d_forward,
    .backward = avg_pool2d_backward,
    .onnx = avg_pool2d_onnx,
};
