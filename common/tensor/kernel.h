/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over rows of floats: [rows × width], row-major. Pure functions; sums are taken in an order
 * that the code fixes, so equal inputs give equal bits on every vector width and alignment. */
#ifndef GRADUS_TENSOR_KERNEL_H
#define GRADUS_TENSOR_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* Every row of @out becomes a copy of @row. */
void kernel_repeat_row(size_t rows, size_t width, const float *row, float *out);
/* out[j] = sum over rows of in[i][j]; zeros without rows. */
void kernel_column_sums(size_t rows, size_t width, const float *in, float *out);
/* The sum and the maximum of a row; the maximum of nothing is -infinity, NaN is passed over. */
float kernel_sum(const float *x, size_t n);
float kernel_max(const float *x, size_t n);
/* sum of a[i] · b[i] */
float kernel_dot(const float *a, const float *b, size_t n);
/* y[i] += x[i] */
void kernel_add(size_t n, const float *x, float *y);
/* y[i] += a · x[i] */
void kernel_add_scaled(size_t n, float a, const float *x, float *y);
/* y[i] = a[i] · b[i]; y may be a or b */
void kernel_multiply(size_t n, const float *a, const float *b, float *y);

/* Layer normalisation (Ba, Kiros, Hinton 2016) of every row: y = (x - mean) · rstd · gamma + beta,
 * rstd = 1 / √(variance + epsilon); mean and rstd [rows] are kept for the gradient. y may be x. */
void kernel_layer_norm(size_t rows, size_t width, float epsilon, const float *x, const float *gamma,
                       const float *beta, float *y, float *mean, float *rstd);
/* Adds to @dgamma and @dbeta [width]; writes @dx unless NULL. */
void kernel_layer_norm_backward(size_t rows, size_t width, const float *x, const float *gamma,
                                const float *mean, const float *rstd, const float *dy, float *dx,
                                float *dgamma, float *dbeta);

/* Mean and variance (of the rows themselves, biased) of every column of @x; @sums [width] scratch.
 */
void kernel_column_moments(size_t rows, size_t width, const float *x, double *sums, float *mean,
                           float *variance);
/* Batch normalisation (Ioffe, Szegedy 2015) of every column: y = (x - mean) · gamma / √(variance +
 * epsilon) + beta. y may be x. @factors [width] scratch. */
void kernel_batch_norm(size_t rows, size_t width, float epsilon, const float *x, const float *mean,
                       const float *variance, const float *gamma, const float *beta, float *factors,
                       float *y);
/* For mean and variance of @x itself. Writes @dgamma, @dbeta, and @dx unless NULL. @sums [2 ·
 * width] and @factors [width] are scratch. */
void kernel_batch_norm_backward(size_t rows, size_t width, float epsilon, const float *x,
                                const float *mean, const float *variance, const float *gamma,
                                const float *dy, double *sums, float *factors, float *dx,
                                float *dgamma, float *dbeta);

/* A dropout mask: keep[i] is 0 with probability @rate, else 1; element i is word i % 4 of Philox
 * block i / 4 under @key, so it depends on nothing else. */
void kernel_dropout_mask(uint64_t key, double rate, size_t n, uint8_t *keep);
/* y = x · scale where kept, else 0; y may be x. */
void kernel_mask(size_t n, const uint8_t *keep, float scale, const float *x, float *y);

#endif
