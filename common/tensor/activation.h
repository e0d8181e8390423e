/* SPDX-License-Identifier: Apache-2.0 */
/* Activation functions and their gradients over @n floats. In each, the output may be the input
 * (y == x, dx == dy). Gradients need y, or x where it is named. NaN stays NaN. */
#ifndef GRADUS_TENSOR_ACTIVATION_H
#define GRADUS_TENSOR_ACTIVATION_H

#include <stddef.h>

void activation_relu(size_t n, const float *x, float *y);
void activation_relu_backward(size_t n, const float *y, const float *dy, float *dx);
void activation_sigmoid(size_t n, const float *x, float *y);
void activation_sigmoid_backward(size_t n, const float *y, const float *dy, float *dx);
void activation_tanh(size_t n, const float *x, float *y);
void activation_tanh_backward(size_t n, const float *y, const float *dy, float *dx);

/* leaky_relu (Maas et al. 2013): x, below 0 alpha · x. elu (Clevert et al. 2016): x, below 0
 * alpha · (e^x - 1). alpha >= 0. */
void activation_leaky_relu(size_t n, float alpha, const float *x, float *y);
void activation_leaky_relu_backward(size_t n, float alpha, const float *y, const float *dy,
                                    float *dx);
void activation_elu(size_t n, float alpha, const float *x, float *y);
void activation_elu_backward(size_t n, float alpha, const float *y, const float *dy, float *dx);
/* silu, or swish (Ramachandran et al. 2017): x / (1 + e^-x). softplus: log(1 + e^x). */
void activation_silu(size_t n, const float *x, float *y);
void activation_silu_backward(size_t n, const float *x, const float *dy, float *dx);
void activation_softplus(size_t n, const float *x, float *y);
void activation_softplus_backward(size_t n, const float *x, const float *dy, float *dx);

/* gelu (Hendrycks & Gimpel 2016): x · Φ(x), and its tanh approximation
 * x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))). */
void activation_gelu(size_t n, const float *x, float *y);
void activation_gelu_backward(size_t n, const float *x, const float *dy, float *dx);
void activation_gelu_tanh(size_t n, const float *x, float *y);
void activation_gelu_tanh_backward(size_t n, const float *x, const float *dy, float *dx);

/* erf x, within 4e-7. */
void activation_erf(size_t n, const float *x, float *y);
void activation_erf_backward(size_t n, const float *x, const float *dy, float *dx);

/* Over each row of [rows × width]. */
void activation_softmax(size_t rows, size_t width, const float *x, float *y);
void activation_softmax_backward(size_t rows, size_t width, const float *y, const float *dy,
                                 float *dx);

/* y[i] = e^(x[i] - max); returns the sum. */
float activation_exp_row(size_t n, const float *x, float max, float *y);

#endif
