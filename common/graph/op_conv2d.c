/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d: cross-correlation of images [height, width, channels] with a kernel.
 *
 * The kernel variable is [kernel height · kernel width · channels, filters]: the same numbers in
 * the same order as [kh, kw, in, filters], with a first axis that is long enough to be partitioned.
 *
 * Patches of a few images at a time are laid out as rows (im2col) and multiplied by the kernel, so
 * the scratch memory does not grow with the batch. The group size depends on shapes alone: equal
 * batches give equal bits. A 1×1 kernel with stride 1 needs no patches: they are the image. */
#include <string.h>

#include "base/mem.h"
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/blas.h"
#include "tensor/kernel.h"

/* Rows of patches per product: enough to keep the product near its full speed ... */
#define GROUP_ROWS 512
/* ... while the patches of a group should stay in a second-level cache. */
#define GROUP_BYTES ((size_t)512 * 1024)

struct conv2d_params {
    int64_t filters;
    struct image_params image;
    int activation;
    bool use_bias;
    struct init_params kernel, bias;
};

static const struct field conv2d_fields[] = {
    {"filters", FIELD_INT, offsetof(struct conv2d_params, filters), NULL, 1, 1 << 16, NULL,
     "Number of output channels"},
    {"kernel", FIELD_INTS, offsetof(struct conv2d_params, image.size), NULL, 1, 1024, NULL,
     "Size of the window: one number, or height and width"},
    {"stride", FIELD_INTS, offsetof(struct conv2d_params, image.stride), "1", 1, 1024, NULL,
     "Distance between windows: one number, or down and across"},
    {"padding", FIELD_ENUM, offsetof(struct conv2d_params, image.padding), "valid", 0, 0,
     padding_names,
     "valid: only whole windows; same: zeros around the image, size / stride outputs"},
    {"activation", FIELD_ENUM, offsetof(struct conv2d_params, activation), "none", 0, 0,
     activation_names, "Applied to the outputs"},
    {"use_bias", FIELD_BOOL, offsetof(struct conv2d_params, use_bias), "true", 0, 0, NULL,
     "Add a trainable bias to every filter"},
    INIT_FIELDS(struct conv2d_params, kernel, "kernel", "glorot_uniform"),
    INIT_FIELDS(struct conv2d_params, bias, "bias", "zeros"),
};

static bool patches_are_image(const struct window *w)
{
    return w->height == 1 && w->width == 1 && w->stride_height == 1 && w->stride_width == 1;
}

/* Images whose patches are multiplied at once. */
static size_t group_images(const struct window *w)
{
    const size_t rows = window_positions(w);
    const size_t bytes = rows * window_patch_floats(w) * sizeof(float);
    size_t images = (GROUP_ROWS + rows - 1) / rows;
    while (images > 1 && images * bytes > GROUP_BYTES) {
        images--;
    }
    return images;
}

static int conv2d_plan(struct layer *l, struct err *err)
{
    const struct conv2d_params *p = l->params;
    const uint64_t filters = (uint64_t)p->filters;
    int rc = layer_plan_window(l, &p->image, "kernel", err);
    if (rc != 0) {
        return rc;
    }
    const struct window *w = &l->window;
    const uint64_t area = (uint64_t)w->height * w->width;
    const struct shape kernel = {.rank = 2, .dims = {area * w->channels, filters}};
    const struct shape bias = {.rank = 1, .dims = {filters}};
    const struct shape patches = {.rank = 2, .dims = {window_positions(w), kernel.dims[0]}};
    if (shape_count(&patches) == 0 || shape_count(&patches) > LAYER_ELEMENTS_MAX) {
        return err_set(err, ERR_INVALID,
                       "its windows over one image have more than %d elements; a smaller kernel or "
                       "a larger stride would fit",
                       LAYER_ELEMENTS_MAX);
    }
    layer_image_output(l, filters);
    l->activation = p->activation;
    if (!patches_are_image(w)) {
        l->scratch_bytes = group_images(w) * (size_t)shape_count(&patches) * sizeof(float);
    }
    rc = layer_add_variable(l, "kernel", &kernel, &p->kernel, kernel.dims[0], area * filters, err);
    if (rc == 0 && p->use_bias) {
        rc = layer_add_variable(l, "bias", &bias, &p->bias, kernel.dims[0], area * filters, err);
    }
    return rc;
}

/* The patches of @count images from image @first on, in scratch or where they lie. */
static const float *patches_of(const struct layer_run *r, size_t first, size_t count)
{
    const struct window *w = &r->layer->window;
    const float *images = r->x + first * r->layer->in_count;
    if (patches_are_image(w)) {
        return images;
    }
    const size_t floats = window_positions(w) * window_patch_floats(w);
    float *scratch = r->scratch;
    for (size_t i = 0; i < count; i++) {
        window_patches(w, images + i * r->layer->in_count, scratch + i * floats);
    }
    return scratch;
}

static size_t group_at(const struct layer_run *r, size_t first)
{
    const size_t group = group_images(&r->layer->window);
    return r->count - first < group ? r->count - first : group;
}

static void conv2d_forward(const struct layer_run *r)
{
    const struct window *w = &r->layer->window;
    const size_t rows = window_positions(w), patch = window_patch_floats(w);
    const size_t filters = (size_t)r->layer->out.dims[2];
    const bool bias = r->layer->variable_count > 1;
    if (bias) {
        kernel_repeat_row(r->count * rows, filters, r->values[1], r->y);
    }
    for (size_t first = 0, n; first < r->count; first += n) {
        n = group_at(r, first);
        blas_gemm(false, false, n * rows, filters, patch, patches_of(r, first, n), r->values[0],
                  bias ? 1.0F : 0.0F, r->y + first * r->layer->out_count);
    }
}

static void input_gradient(const struct layer_run *r, size_t first, size_t count)
{
    const struct window *w = &r->layer->window;
    const size_t rows = window_positions(w), patch = window_patch_floats(w);
    const size_t filters = (size_t)r->layer->out.dims[2];
    const float *dy = r->dy + first * r->layer->out_count;
    float *dx = r->dx + first * r->layer->in_count;
    if (patches_are_image(w)) {
        blas_gemm(false, true, count * rows, patch, filters, dy, r->values[0], 0.0F, dx);
        return;
    }
    float *dpatches = r->scratch;
    blas_gemm(false, true, count * rows, patch, filters, dy, r->values[0], 0.0F, dpatches);
    memset(dx, 0, count * r->layer->in_count * sizeof *dx);
    for (size_t i = 0; i < count; i++) {
        window_patches_add(w, dpatches + i * rows * patch, dx + i * r->layer->in_count);
    }
}

static void conv2d_backward(const struct layer_run *r)
{
    const struct window *w = &r->layer->window;
    const size_t rows = window_positions(w), patch = window_patch_floats(w);
    const size_t filters = (size_t)r->layer->out.dims[2];
    for (size_t first = 0, n; first < r->count; first += n) {
        n = group_at(r, first);
        blas_gemm(true, false, patch, filters, n * rows, patches_of(r, first, n),
                  r->dy + first * r->layer->out_count, first == 0 ? 0.0F : 1.0F, r->gradients[0]);
        if (r->dx != NULL) {
            input_gradient(r, first, n);
        }
    }
    if (r->layer->variable_count > 1) {
        kernel_column_sums(r->count * rows, filters, r->dy, r->gradients[1]);
    }
}

/* The kernel as ONNX has it: [filters, channels, height, width]. */
static const char *onnx_kernel(struct layer_onnx *o, struct err *err)
{
    const struct window *w = &o->layer->window;
    const size_t filters = (size_t)o->layer->out.dims[2], area = w->height * w->width;
    const struct shape shape = {.rank = 4, .dims = {filters, w->channels, w->height, w->width}};
    float *turned = mem_try_aligned(filters * area * w->channels, sizeof *turned, "a kernel", err);
    for (size_t f = 0, at = 0; turned != NULL && f < filters; f++) {
        for (size_t c = 0; c < w->channels; c++) {
            for (size_t p = 0; p < area; p++) {
                turned[at++] = o->values[0][(p * w->channels + c) * filters + f];
            }
        }
    }
    return turned == NULL
               ? NULL
               : onnx_graph_floats_take(o->graph, o->layer->variables[0].name, &shape, turned);
}

static int conv2d_onnx(struct layer_onnx *o, struct err *err)
{
    struct layer_onnx_window w;
    const bool bias = o->layer->variable_count > 1;
    const char *inputs[3] = {layer_onnx_image(o), onnx_kernel(o, err), NULL};
    if (inputs[1] == NULL) {
        return ERR_EXHAUSTED;
    }
    inputs[2] = bias ? layer_onnx_variable(o, 1) : NULL;
    layer_onnx_window(o, &w);
    return layer_onnx_is_first(
        o, onnx_graph_node(o->graph, "Conv", "", inputs, bias ? 3 : 2, w.attrs, w.count));
}

extern const struct layer_kind layer_conv2d;
const struct layer_kind layer_conv2d = {
    .name = "conv2d",
    .help = "Slides small filters over images of shape [height, width, channels]",
    .fields = conv2d_fields,
    .field_count = sizeof conv2d_fields / sizeof conv2d_fields[0],
    .params_bytes = sizeof(struct conv2d_params),
    .plan = conv2d_plan,
    .forward = conv2d_forward,
    .backward = conv2d_backward,
    .onnx = conv2d_onnx,
};
