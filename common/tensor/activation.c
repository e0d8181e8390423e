/* SPDX-License-Identifier: Apache-2.0 */
/* Activation functions as loops that the compiler vectorises, with exp, tanh and the normal
 * distribution from vector_math.h. gelu is that of Hendrycks and Gimpel (2016). */
#include "tensor/activation.h"

#include <math.h>

#include "tensor/kernel.h"
#include "tensor/vector_math.h"

VECTOR_CLONES
void activation_relu(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] < 0.0F ? 0.0F : x[i];
    }
}

VECTOR_CLONES
void activation_relu_backward(size_t n, const float *y, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float d = dy[i];
        dx[i] = y[i] > 0.0F ? d : 0.0F;
    }
}

VECTOR_CLONES
void activation_sigmoid(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = vm_sigmoid(x[i]);
    }
}

VECTOR_CLONES
void activation_sigmoid_backward(size_t n, const float *y, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (y[i] * (1.0F - y[i]));
    }
}

VECTOR_CLONES
void activation_tanh(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = vm_tanh(x[i]);
    }
}

VECTOR_CLONES
void activation_tanh_backward(size_t n, const float *y, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * (1.0F - y[i] * y[i]);
    }
}

VECTOR_CLONES
void activation_leaky_relu(size_t n, float alpha, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] < 0.0F ? alpha * x[i] : x[i];
    }
}

VECTOR_CLONES
void activation_leaky_relu_backward(size_t n, float alpha, const float *y, const float *dy,
                                    float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float d = dy[i];
        dx[i] = y[i] > 0.0F ? d : alpha * d;
    }
}

VECTOR_CLONES
void activation_elu(size_t n, float alpha, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float low = alpha * (vm_exp(x[i]) - 1.0F);
        y[i] = x[i] < 0.0F ? low : x[i];
    }
}

VECTOR_CLONES
void activation_elu_backward(size_t n, float alpha, const float *y, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float d = dy[i];
        dx[i] = y[i] > 0.0F ? d : d * (y[i] + alpha);
    }
}

VECTOR_CLONES
void activation_silu(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] * vm_sigmoid(x[i]);
    }
}

VECTOR_CLONES
void activation_silu_backward(size_t n, const float *x, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float s = vm_sigmoid(x[i]);
        dx[i] = dy[i] * (s + x[i] * s * (1.0F - s));
    }
}

void activation_softplus(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = (x[i] < 0.0F ? 0.0F : x[i]) + log1pf(expf(-fabsf(x[i])));
    }
}

VECTOR_CLONES
void activation_softplus_backward(size_t n, const float *x, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] * vm_sigmoid(x[i]);
    }
}

VECTOR_CLONES
void activation_gelu(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float density;
        y[i] = x[i] * vm_normal(x[i], &density);
    }
}

VECTOR_CLONES
void activation_gelu_backward(size_t n, const float *x, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float density;
        float integral = vm_normal(x[i], &density);
        dx[i] = dy[i] * (integral + x[i] * density);
    }
}

static const float gelu_scale = 0.797884561F; /* √(2/π) */
static const float gelu_cubic = 0.044715F;

VECTOR_CLONES
void activation_gelu_tanh(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float v = x[i];
        float t = vm_tanh(gelu_scale * (v + gelu_cubic * v * v * v));
        y[i] = 0.5F * v * (1.0F + t);
    }
}

VECTOR_CLONES
void activation_gelu_tanh_backward(size_t n, const float *x, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float v = x[i];
        float t = vm_tanh(gelu_scale * (v + gelu_cubic * v * v * v));
        float slope = gelu_scale * (1.0F + 3.0F * gelu_cubic * v * v);
        dx[i] = dy[i] * (0.5F * (1.0F + t) + 0.5F * v * (1.0F - t * t) * slope);
    }
}

VECTOR_CLONES
static void exp_row(size_t n, const float *x, float max, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = vm_exp(x[i] - max);
    }
}

float activation_exp_row(size_t n, const float *x, float max, float *y)
{
    exp_row(n, x, max, y);
    return kernel_sum(y, n);
}

VECTOR_CLONES
static void scale_row(size_t n, float factor, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] *= factor;
    }
}

/* erf x = 2 Φ(x √2) - 1. */
VECTOR_CLONES
void activation_erf(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float density;
        y[i] = 2.0F * vm_normal(x[i] * 1.41421356F, &density) - 1.0F;
    }
}

VECTOR_CLONES
void activation_erf_backward(size_t n, const float *x, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float density;
        (void)vm_normal(x[i] * 1.41421356F, &density);
        dx[i] = dy[i] * 2.82842712F * density;
    }
}

void activation_softmax(size_t rows, size_t width, const float *x, float *y)
{
    for (size_t r = 0; r < rows; r++) {
        const float *row = x + r * width;
        float sum = activation_exp_row(width, row, kernel_max(row, width), y + r * width);
        scale_row(width, 1.0F / sum, y + r * width);
    }
}

VECTOR_CLONES
static void softmax_row_backward(size_t n, const float *y, const float *dy, float dot, float *dx)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        dx[i] = y[i] * (dy[i] - dot);
    }
}

void activation_softmax_backward(size_t rows, size_t width, const float *y, const float *dy,
                                 float *dx)
{
    for (size_t r = 0; r < rows; r++) {
        size_t at = r * width;
        float dot = kernel_dot(y + at, dy + at, width);
        softmax_row_backward(width, y + at, dy + at, dot, dx + at);
    }
}
