/* SPDX-License-Identifier: Apache-2.0 */
/* The loops over rows that layers share: sums, layer and batch normalisation, dropout masks. Sums
 * always run in 16 lanes that are joined in one order, whatever the processor's vectors. */
#include "tensor/kernel.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "base/vector.h"

/* Sums run in this many lanes, whatever the machine's width. */
#define LANES 16
/* Repeated rows are copied in blocks of about this size. */
#define REPEAT_BYTES 4096

void kernel_repeat_row(size_t rows, size_t width, const float *row, float *out)
{
    if (rows == 0) {
        return;
    }
    memcpy(out, row, width * sizeof *out);
    /* Rows may be short: copy what is there already, twice as much each time, while it is in cache.
     */
    size_t block = 1;
    for (size_t done = 1; done < rows;) {
        size_t n = rows - done < block ? rows - done : block;
        memcpy(out + done * width, out, n * width * sizeof *out);
        done += n;
        block = block * width * sizeof *out < REPEAT_BYTES ? done : block;
    }
}

VECTOR_CLONES
void kernel_column_sums(size_t rows, size_t width, const float *in, float *out)
{
    memset(out, 0, width * sizeof *out);
    size_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *a = in + i * width, *b = a + width, *c = b + width, *d = c + width;
        VECTOR_LOOP
        for (size_t j = 0; j < width; j++) {
            out[j] += (a[j] + b[j]) + (c[j] + d[j]);
        }
    }
    for (; i < rows; i++) {
        const float *a = in + i * width;
        VECTOR_LOOP
        for (size_t j = 0; j < width; j++) {
            out[j] += a[j];
        }
    }
}

VECTOR_INLINE float lanes_sum(const float lane[LANES])
{
    float s[LANES];
    memcpy(s, lane, sizeof s);
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t k = 0; k < half; k++) {
            s[k] += s[k + half];
        }
    }
    return s[0];
}

VECTOR_CLONES
float kernel_sum(const float *x, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += x[i + k];
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        lane[k] += x[i + k];
    }
    return lanes_sum(lane);
}

VECTOR_CLONES
float kernel_dot(const float *a, const float *b, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] += a[i + k] * b[i + k];
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        lane[k] += a[i + k] * b[i + k];
    }
    return lanes_sum(lane);
}

VECTOR_CLONES
void kernel_add(size_t n, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] += x[i];
    }
}

VECTOR_CLONES
void kernel_add_scaled(size_t n, float a, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] += a * x[i];
    }
}

VECTOR_CLONES
void kernel_multiply(size_t n, const float *a, const float *b, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = a[i] * b[i];
    }
}

VECTOR_CLONES
float kernel_max(const float *x, size_t n)
{
    float lane[LANES];
    for (size_t k = 0; k < LANES; k++) {
        lane[k] = -INFINITY;
    }
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
        }
    }
    float max = -INFINITY;
    for (; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    for (size_t k = 0; k < LANES; k++) {
        max = lane[k] > max ? lane[k] : max;
    }
    return max;
}

/* Sum of (x[i] - mean)². */
VECTOR_CLONES
static float sum_squares_about(const float *x, float mean, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++) {
            float d = x[i + k] - mean;
            lane[k] += d * d;
        }
    }
    for (size_t k = 0; i + k < n; k++) {
        float d = x[i + k] - mean;
        lane[k] += d * d;
    }
    return lanes_sum(lane);
}

VECTOR_CLONES
static void normalise_row(size_t width, const float *x, float mean, float rstd, const float *gamma,
                          const float *beta, float *y)
{
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        y[j] = (x[j] - mean) * rstd * gamma[j] + beta[j];
    }
}

void kernel_layer_norm(size_t rows, size_t width, float epsilon, const float *x, const float *gamma,
                       const float *beta, float *y, float *mean, float *rstd)
{
    const float n = (float)width;
    for (size_t i = 0; i < rows; i++) {
        const float *row = x + i * width;
        mean[i] = kernel_sum(row, width) / n;
        rstd[i] = 1.0F / sqrtf(sum_squares_about(row, mean[i], width) / n + epsilon);
        normalise_row(width, row, mean[i], rstd[i], gamma, beta, y + i * width);
    }
}

/* With h = (x - mean) · rstd and g = dy · gamma:
 * dx = rstd · (g - mean(g) - h · mean(g · h)). */
VECTOR_CLONES
static void layer_norm_row_backward(size_t width, const float *x, const float *gamma, float mean,
                                    float rstd, const float *dy, float *dx)
{
    float sum[LANES] = {0}, dot[LANES] = {0};
    for (size_t j = 0; j < width; j += LANES) {
        size_t n = width - j < LANES ? width - j : LANES;
        for (size_t k = 0; k < n; k++) {
            float g = dy[j + k] * gamma[j + k];
            sum[k] += g;
            dot[k] += g * ((x[j + k] - mean) * rstd);
        }
    }
    const float mean_g = lanes_sum(sum) / (float)width;
    const float mean_gh = lanes_sum(dot) / (float)width;
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        float h = (x[j] - mean) * rstd;
        dx[j] = rstd * (dy[j] * gamma[j] - mean_g - h * mean_gh);
    }
}

VECTOR_CLONES
static void layer_norm_row_parameters(size_t width, const float *x, float mean, float rstd,
                                      const float *dy, float *restrict dgamma,
                                      float *restrict dbeta)
{
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        dgamma[j] += dy[j] * ((x[j] - mean) * rstd);
        dbeta[j] += dy[j];
    }
}

void kernel_layer_norm_backward(size_t rows, size_t width, const float *x, const float *gamma,
                                const float *mean, const float *rstd, const float *dy, float *dx,
                                float *dgamma, float *dbeta)
{
    for (size_t i = 0; i < rows; i++) {
        const float *row = x + i * width;
        layer_norm_row_parameters(width, row, mean[i], rstd[i], dy + i * width, dgamma, dbeta);
        if (dx != NULL) {
            layer_norm_row_backward(width, row, gamma, mean[i], rstd[i], dy + i * width,
                                    dx + i * width);
        }
    }
}

VECTOR_CLONES
static void add_row(size_t width, const float *row, double *restrict sums)
{
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        sums[j] += (double)row[j];
    }
}

VECTOR_CLONES
static void add_squares(size_t width, const float *row, const float *mean, double *restrict sums)
{
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        const double d = (double)row[j] - (double)mean[j];
        sums[j] += d * d;
    }
}

void kernel_column_moments(size_t rows, size_t width, const float *x, double *sums, float *mean,
                           float *variance)
{
    memset(sums, 0, width * sizeof *sums);
    for (size_t i = 0; i < rows; i++) {
        add_row(width, x + i * width, sums);
    }
    for (size_t j = 0; j < width; j++) {
        mean[j] = (float)(sums[j] / (double)rows);
        sums[j] = 0.0;
    }
    for (size_t i = 0; i < rows; i++) {
        add_squares(width, x + i * width, mean, sums);
    }
    for (size_t j = 0; j < width; j++) {
        variance[j] = (float)(sums[j] / (double)rows);
    }
}

VECTOR_CLONES
static void batch_norm_row(size_t width, const float *x, const float *mean, const float *factors,
                           const float *beta, float *y)
{
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        y[j] = (x[j] - mean[j]) * factors[j] + beta[j];
    }
}

static void deviations(size_t width, float epsilon, const float *variance, float *rstd)
{
    for (size_t j = 0; j < width; j++) {
        rstd[j] = 1.0F / sqrtf(variance[j] + epsilon);
    }
}

void kernel_batch_norm(size_t rows, size_t width, float epsilon, const float *x, const float *mean,
                       const float *variance, const float *gamma, const float *beta, float *factors,
                       float *y)
{
    deviations(width, epsilon, variance, factors);
    for (size_t j = 0; j < width; j++) {
        factors[j] *= gamma[j];
    }
    for (size_t i = 0; i < rows; i++) {
        batch_norm_row(width, x + i * width, mean, factors, beta, y + i * width);
    }
}

VECTOR_CLONES
static void add_batch_gradients(size_t width, const float *x, const float *mean, const float *rstd,
                                const float *dy, double *restrict dgamma, double *restrict dbeta)
{
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        dgamma[j] += (double)(dy[j] * ((x[j] - mean[j]) * rstd[j]));
        dbeta[j] += (double)dy[j];
    }
}

/* With h = (x - mean) · rstd: dx = gamma · rstd · (dy - mean(dy) - h · mean(dy · h)). */
VECTOR_CLONES
static void batch_norm_row_backward(size_t width, float over, const float *x, const float *mean,
                                    const float *rstd, const float *gamma, const float *dgamma,
                                    const float *dbeta, const float *dy, float *dx)
{
    VECTOR_LOOP
    for (size_t j = 0; j < width; j++) {
        const float h = (x[j] - mean[j]) * rstd[j];
        dx[j] = gamma[j] * rstd[j] * (dy[j] - dbeta[j] * over - h * (dgamma[j] * over));
    }
}

void kernel_batch_norm_backward(size_t rows, size_t width, float epsilon, const float *x,
                                const float *mean, const float *variance, const float *gamma,
                                const float *dy, double *sums, float *factors, float *dx,
                                float *dgamma, float *dbeta)
{
    memset(sums, 0, 2 * width * sizeof *sums);
    deviations(width, epsilon, variance, factors);
    for (size_t i = 0; i < rows; i++) {
        add_batch_gradients(width, x + i * width, mean, factors, dy + i * width, sums,
                            sums + width);
    }
    for (size_t j = 0; j < width; j++) {
        dgamma[j] = (float)sums[j];
        dbeta[j] = (float)sums[width + j];
    }
    for (size_t i = 0; i < rows && dx != NULL; i++) {
        batch_norm_row_backward(width, 1.0F / (float)rows, x + i * width, mean, factors, gamma,
                                dgamma, dbeta, dy + i * width, dx + i * width);
    }
}

void kernel_dropout_mask(uint64_t key, double rate, size_t n, uint8_t *keep)
{
    const uint64_t threshold = (uint64_t)(rate * 0x1.0p32);
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (size_t i = 0; i < n; i += 4) {
        const uint64_t block = i / 4;
        const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
        uint32_t word[4];
        rng_philox(k, counter, word);
        for (size_t j = 0; j < 4 && i + j < n; j++) {
            keep[i + j] = word[j] >= threshold;
        }
    }
}

VECTOR_CLONES
void kernel_mask(size_t n, const uint8_t *keep, float scale, const float *x, float *y)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] = keep[i] != 0 ? x[i] * scale : 0.0F;
    }
}
