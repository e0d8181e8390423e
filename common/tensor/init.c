/* SPDX-License-Identifier: Apache-2.0 */
/* Fills any part of a variable with its initial values. Each element is drawn by its own number,
 * so parameter servers fill their partitions without knowing of each other. */
#include "tensor/init.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* A truncated draw lies outside with probability 0.0455; 64 misses in a row do not happen. */
#define TRUNCATED_TRIES_MAX 64

const char *const init_kind_names[INIT_KIND_COUNT + 1] = {
    [INIT_ZEROS] = "zeros",
    [INIT_CONSTANT] = "constant",
    [INIT_UNIFORM] = "uniform",
    [INIT_NORMAL] = "normal",
    [INIT_TRUNCATED_NORMAL] = "truncated_normal",
    [INIT_GLOROT_UNIFORM] = "glorot_uniform",
    [INIT_GLOROT_NORMAL] = "glorot_normal",
    [INIT_HE_UNIFORM] = "he_uniform",
    [INIT_HE_NORMAL] = "he_normal",
    [INIT_LECUN_UNIFORM] = "lecun_uniform",
    [INIT_LECUN_NORMAL] = "lecun_normal",
    [INIT_KIND_COUNT] = NULL,
};

static void fill_constant(float value, uint64_t count, float *out)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] = value;
    }
}

static void fill_uniform(double low, double high, uint64_t key, uint64_t first, uint64_t count,
                         float *out)
{
    const float end = (float)high;
    for (uint64_t i = 0; i < count; i++) {
        float v = (float)(low + (high - low) * rng_uniform(key, first + i));
        /* Rounding to float may reach the open end. */
        out[i] = v >= end && high > low ? nextafterf(end, -INFINITY) : v;
    }
}

static void fill_normal(double mean, double deviation, uint64_t key, uint64_t first, uint64_t count,
                        float *out)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] = (float)(mean + deviation * rng_normal(key, first + i));
    }
}

/* Try t of element i draws from the stream (key, t), so no element depends on another. */
static double truncated(uint64_t key, uint64_t index)
{
    double v = rng_normal(key, index);
    for (uint64_t t = 1; fabs(v) > 2.0 && t < TRUNCATED_TRIES_MAX; t++) {
        v = rng_normal(rng_key_mix(key, t), index);
    }
    return fabs(v) > 2.0 ? 0.0 : v;
}

static void fill_truncated(double mean, double deviation, uint64_t key, uint64_t first,
                           uint64_t count, float *out)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] = (float)(mean + deviation * truncated(key, first + i));
    }
}

/* The variance that glorot, he and lecun aim at: 1 / mean fan, 2 / fan_in, 1 / fan_in. */
static double scaled_variance(const struct init *init)
{
    double in = init->fan_in == 0 ? 1.0 : (double)init->fan_in;
    double out = init->fan_out == 0 ? 1.0 : (double)init->fan_out;
    switch (init->kind) {
    case INIT_GLOROT_UNIFORM:
    case INIT_GLOROT_NORMAL:
        return 2.0 / (in + out);
    case INIT_HE_UNIFORM:
    case INIT_HE_NORMAL:
        return 2.0 / in;
    default:
        return 1.0 / in;
    }
}

void init_fill(const struct init *init, uint64_t seed, const char *name, uint64_t first,
               uint64_t count, float *out)
{
    const uint64_t key = rng_key(seed, name);
    const double deviation = sqrt(scaled_variance(init));
    const double limit = sqrt(3.0) * deviation; /* a uniform in ±limit has that deviation */
    switch (init->kind) {
    case INIT_ZEROS:
    case INIT_GIVEN:
        fill_constant(0.0F, count, out);
        break;
    case INIT_CONSTANT:
        fill_constant((float)init->a, count, out);
        break;
    case INIT_UNIFORM:
        fill_uniform(init->a, init->b, key, first, count, out);
        break;
    case INIT_NORMAL:
        fill_normal(init->a, init->b, key, first, count, out);
        break;
    case INIT_TRUNCATED_NORMAL:
        fill_truncated(init->a, init->b, key, first, count, out);
        break;
    case INIT_GLOROT_UNIFORM:
    case INIT_HE_UNIFORM:
    case INIT_LECUN_UNIFORM:
        fill_uniform(-limit, limit, key, first, count, out);
        break;
    case INIT_GLOROT_NORMAL:
    case INIT_HE_NORMAL:
    case INIT_LECUN_NORMAL:
        fill_normal(0.0, deviation, key, first, count, out);
        break;
    }
}

bool variable_equal(const struct variable_spec *a, const struct variable_spec *b)
{
    return strcmp(a->name, b->name) == 0 && shape_equal(&a->shape, &b->shape) &&
           a->statistic == b->statistic;
}

const char *variable_format(const struct variable_spec *v, char *out, size_t n)
{
    char shape[96];
    (void)snprintf(out, n, "%s %s%s", v->name, shape_format(&v->shape, shape, sizeof shape),
                   v->statistic > 0 ? ", a statistic" : "");
    return out;
}
