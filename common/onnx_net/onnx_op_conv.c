/* SPDX-License-Identifier: Apache-2.0 */
/* Conv of images and rows, with groups: a product of the weights with the patches of each image. */
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_slide.h"
#include "tensor/blas.h"
#include "tensor/kernel.h"

struct conv {
    struct onnx_slide window;
    size_t groups, filters; /* filters: of a group */
    size_t channels, patch; /* of a group: channels, and the rows of its patches */
    size_t pixels;          /* of an output image */
    bool direct;            /* the image is its patches */
};

static int conv_groups(const struct onnx_step *s, struct conv *p, struct err *err)
{
    const struct onnx_dims *w = &s->in[1]->shape;
    const int64_t groups = onnx_attribute_int(s->node, "group", 1);
    if (groups < 1 || p->window.channels % (size_t)groups != 0 ||
        w->dims[0] % (size_t)groups != 0 || w->dims[1] != p->window.channels / (size_t)groups) {
        char text[128];
        return err_set(err, ERR_INVALID,
                       "weights %s do not fit %zu channels in %lld groups; [filters, channels of a "
                       "group, …] would",
                       onnx_dims_format(w, text, sizeof text), p->window.channels,
                       (long long)groups);
    }
    p->groups = (size_t)groups;
    p->filters = w->dims[0] / p->groups;
    p->channels = w->dims[1];
    p->patch = p->channels * p->window.height * p->window.width;
    p->pixels = p->window.out_height * p->window.out_width;
    if (onnx_in_is(s, 2) && s->in[2]->count != w->dims[0]) {
        return err_set(err, ERR_INVALID, "the bias has %zu numbers for %zu filters",
                       s->in[2]->count, w->dims[0]);
    }
    return 0;
}

static int conv_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *w = &s->in[1]->shape;
    struct conv *p = mem_new(1, sizeof *p);
    s->plan = p;
    if (w->rank != s->in[0]->shape.rank || w->rank < 3) {
        return err_set(err, ERR_INVALID,
                       "the weights have %zu dimensions and the images %zu; [filters, channels, "
                       "height, width] for [images, channels, height, width] would fit",
                       w->rank, s->in[0]->shape.rank);
    }
    int rc = onnx_slide_place(s, w->dims + 2, &p->window, err);
    rc = rc != 0 ? rc : conv_groups(s, p, err);
    if (rc != 0) {
        return rc;
    }
    const struct onnx_slide *v = &p->window;
    p->direct = v->height * v->width == 1 && v->stride_y == 1 && v->stride_x == 1 &&
                v->top + v->left + v->bottom + v->right == 0;
    if (!mem_mul(p->patch, p->pixels, &s->scratch_floats) ||
        s->scratch_floats > ONNX_ELEMENTS_MAX) {
        return err_set(err, ERR_INVALID, "the patches of an image are too many");
    }
    const struct onnx_dims out = onnx_slide_output(v, p->filters * p->groups);
    return onnx_set_shape(s->out[0], ONNX_FLOAT, &out, err);
}

static const float *patches_of(const struct onnx_calc *c, const struct conv *p, size_t image,
                               size_t group)
{
    const struct onnx_slide *w = &p->window;
    const float *x =
        c->x[0] + (image * w->channels + group * p->channels) * w->in_height * w->in_width;
    if (p->direct) {
        return x;
    }
    onnx_slide_patches(w, p->channels, x, c->scratch);
    return c->scratch;
}

static void conv_forward(const struct onnx_calc *c)
{
    const struct conv *p = c->step->plan;
    const bool bias = onnx_in_is(c->step, 2);
    float *y = c->y[0];
    for (size_t i = 0; i < p->window.images; i++) {
        for (size_t g = 0; g < p->groups; g++, y += p->filters * p->pixels) {
            const float *patches = patches_of(c, p, i, g);
            for (size_t f = 0; f < p->filters && bias; f++) {
                const float b = c->x[2][g * p->filters + f];
                for (size_t k = 0; k < p->pixels; k++) {
                    y[f * p->pixels + k] = b;
                }
            }
            blas_gemm(false, false, p->filters, p->pixels, p->patch,
                      c->x[1] + g * p->filters * p->patch, patches, bias ? 1.0F : 0.0F, y);
        }
    }
}

static void image_gradient(const struct onnx_calc *c, const struct conv *p, size_t image, size_t g,
                           const float *dy)
{
    const struct onnx_slide *w = &p->window;
    const size_t pixels = w->in_height * w->in_width;
    float *dx = c->dx[0] + (image * w->channels + g * p->channels) * pixels;
    float *to = p->direct ? dx : c->scratch;
    blas_gemm(true, false, p->patch, p->pixels, p->filters, c->x[1] + g * p->filters * p->patch, dy,
              0.0F, to);
    if (!p->direct) {
        memset(dx, 0, p->channels * pixels * sizeof *dx);
        onnx_slide_patches_add(w, p->channels, c->scratch, dx);
    }
}

static void conv_backward(const struct onnx_calc *c)
{
    const struct conv *p = c->step->plan;
    const float *dy = c->dy[0];
    if (c->dx[1] != NULL) {
        memset(c->dx[1], 0, c->step->in[1]->count * sizeof(float));
    }
    float *dbias = onnx_in_is(c->step, 2) ? c->dx[2] : NULL;
    if (dbias != NULL) {
        memset(dbias, 0, c->step->in[2]->count * sizeof(float));
    }
    for (size_t i = 0; i < p->window.images; i++) {
        for (size_t g = 0; g < p->groups; g++, dy += p->filters * p->pixels) {
            if (c->dx[1] != NULL) {
                blas_gemm(false, true, p->filters, p->patch, p->pixels, dy, patches_of(c, p, i, g),
                          1.0F, c->dx[1] + g * p->filters * p->patch);
            }
            for (size_t f = 0; f < p->filters && dbias != NULL; f++) {
                dbias[g * p->filters + f] += kernel_sum(dy + f * p->pixels, p->pixels);
            }
            if (c->dx[0] != NULL) {
                image_gradient(c, p, i, g, dy);
            }
        }
    }
}

const struct onnx_op onnx_op_conv = {"Conv",        2, 3, 1, 0, conv_shape, conv_forward,
                                     conv_backward, 0};
