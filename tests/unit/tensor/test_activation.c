/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/activation.h"
#include "tensor/vector_math.h"

/* Distance in units of the last place of the float nearest to @exact. */
static double ulps(float got, double exact)
{
    const float near = (float)exact;
    const double unit = (double)nextafterf(fabsf(near), INFINITY) - (double)fabsf(near);
    return fabs((double)got - exact) / unit;
}

static double sigmoid_reference(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static float exp_float(float x)
{
    return vm_exp(x);
}

static float sigmoid_float(float x)
{
    return vm_sigmoid(x);
}

static float tanh_float(float x)
{
    return vm_tanh(x);
}

static void check_ulps(float (*fast)(float), double (*exact)(double), double low, double high,
                       double max)
{
    double worst = 0.0;
    for (size_t i = 0; i <= 200000; i++) {
        const float x = (float)(low + (high - low) * (double)i / 200000.0);
        const double error = ulps(fast(x), exact((double)x));
        worst = error > worst ? error : worst;
    }
    print_message("worst error %.2f ulp\n", worst);
    assert_true(worst <= max);
}

static void test_precision(void **state)
{
    (void)state;
    check_ulps(exp_float, exp, -87.3, 88.7, 1.0);
    check_ulps(exp_float, exp, -0.01, 0.01, 1.0);
    check_ulps(sigmoid_float, sigmoid_reference, -86.0, 30.0, 3.0);
    check_ulps(tanh_float, tanh, -10.0, 10.0, 2.0);
    check_ulps(tanh_float, tanh, -0.7, 0.7, 2.0);
    check_ulps(tanh_float, tanh, 1e-30, 1e-3, 2.0);
}

static void test_normal_distribution(void **state)
{
    (void)state;
    for (int i = -12000; i <= 12000; i++) {
        const float x = (float)i * 1e-3F;
        float density;
        const float integral = vm_normal(x, &density);
        const double d = (double)x;
        assert_true(fabs((double)integral - 0.5 * erfc(-d * 0.70710678118654752)) <= 2e-7);
        assert_true(fabs((double)density - 0.39894228040143268 * exp(-0.5 * d * d)) <= 2e-7);
    }
}

static void test_limits(void **state)
{
    (void)state;
    assert_true(vm_exp(-INFINITY) == 0.0F && vm_exp(-200.0F) == 0.0F);
    assert_true(isinf(vm_exp(INFINITY)) && isinf(vm_exp(89.0F)));
    assert_true(isnan(vm_exp(NAN)) && isnan(vm_exp(-NAN)));
    assert_true(vm_exp(0.0F) == 1.0F);
    assert_true(vm_sigmoid(INFINITY) == 1.0F && vm_sigmoid(-INFINITY) == 0.0F);
    assert_true(vm_sigmoid(-100.0F) < 1e-37F && isnan(vm_sigmoid(NAN)));
    assert_true(vm_tanh(INFINITY) == 1.0F && vm_tanh(-INFINITY) == -1.0F);
    assert_true(vm_tanh(0.0F) == 0.0F && isnan(vm_tanh(NAN)));
    float density;
    assert_true(vm_normal(40.0F, &density) == 1.0F && density == 0.0F);
    assert_true(vm_normal(-40.0F, &density) == 0.0F && density == 0.0F);
}

struct activation {
    const char *name;
    void (*forward)(size_t, const float *, float *);
    void (*backward)(size_t, const float *, const float *, float *);
    double (*exact)(double);
    bool from_input; /* backward() takes x, not y */
};

static double relu_exact(double x)
{
    return x > 0.0 ? x : 0.0;
}

static double gelu_exact(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752);
}

static double gelu_tanh_exact(double x)
{
    return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

/* With one alpha each, as the table wants them. */
static void leaky(size_t n, const float *x, float *y)
{
    activation_leaky_relu(n, 0.125F, x, y);
}

static void leaky_backward(size_t n, const float *y, const float *dy, float *dx)
{
    activation_leaky_relu_backward(n, 0.125F, y, dy, dx);
}

static double leaky_exact(double x)
{
    return x > 0.0 ? x : 0.125 * x;
}

static void elu(size_t n, const float *x, float *y)
{
    activation_elu(n, 1.5F, x, y);
}

static void elu_backward(size_t n, const float *y, const float *dy, float *dx)
{
    activation_elu_backward(n, 1.5F, y, dy, dx);
}

static double elu_exact(double x)
{
    return x > 0.0 ? x : 1.5 * expm1(x);
}

static double silu_exact(double x)
{
    return x / (1.0 + exp(-x));
}

static double softplus_exact(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

static const struct activation activations[] = {
    {"leaky_relu", leaky, leaky_backward, leaky_exact, false},
    {"elu", elu, elu_backward, elu_exact, false},
    {"silu", activation_silu, activation_silu_backward, silu_exact, true},
    {"softplus", activation_softplus, activation_softplus_backward, softplus_exact, true},
    {"relu", activation_relu, activation_relu_backward, relu_exact, false},
    {"sigmoid", activation_sigmoid, activation_sigmoid_backward, sigmoid_reference, false},
    {"tanh", activation_tanh, activation_tanh_backward, tanh, false},
    {"erf", activation_erf, activation_erf_backward, erf, true},
    {"gelu", activation_gelu, activation_gelu_backward, gelu_exact, true},
    {"gelu_tanh", activation_gelu_tanh, activation_gelu_tanh_backward, gelu_tanh_exact, true},
};

/* Against double precision, at sizes around the vector width, in place and not. */
static void test_elementwise(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof activations / sizeof activations[0]; a++) {
        const struct activation *f = &activations[a];
        for (size_t n = 1; n < 70; n += 3) {
            float x[70], y[70], z[70], dy[70], dx[70];
            for (size_t i = 0; i < n; i++) {
                x[i] = (float)(3.0 * rng_normal(n, i));
                dy[i] = (float)rng_normal(n + 1000, i);
            }
            f->forward(n, x, y);
            memcpy(z, x, sizeof x);
            f->forward(n, z, z);
            assert_memory_equal(y, z, n * sizeof *y);
            f->backward(n, f->from_input ? x : y, dy, dx);
            memcpy(z, dy, sizeof dy);
            f->backward(n, f->from_input ? x : y, z, z);
            assert_memory_equal(dx, z, n * sizeof *dx);
            for (size_t i = 0; i < n; i++) {
                const double d = (double)x[i];
                const double slope = (f->exact(d + 1e-5) - f->exact(d - 1e-5)) / 2e-5;
                assert_true(fabs((double)y[i] - f->exact(d)) <= 3e-7 * (1.0 + fabs(d)));
                assert_true(fabs((double)dx[i] - slope * (double)dy[i]) <=
                            2e-6 * (1.0 + fabs((double)dy[i])));
            }
        }
    }
}

static void test_relu_passes_nan(void **state)
{
    (void)state;
    float x[3] = {NAN, -1.0F, 2.0F};
    activation_relu(3, x, x);
    assert_true(isnan(x[0]) && x[1] == 0.0F && x[2] == 2.0F);
}

static void test_softmax(void **state)
{
    (void)state;
    for (size_t width = 1; width < 40; width += 3) {
        float x[3 * 40], y[3 * 40], dy[3 * 40], dx[3 * 40];
        for (size_t i = 0; i < 3 * width; i++) {
            x[i] = (float)(5.0 * rng_normal(1, i)) + (i >= 2 * width ? 500.0F : 0.0F);
            dy[i] = (float)rng_normal(2, i);
        }
        activation_softmax(3, width, x, y);
        activation_softmax_backward(3, width, y, dy, dx);
        for (size_t r = 0; r < 3; r++) {
            double sum = 0.0, dot = 0.0;
            for (size_t j = 0; j < width; j++) {
                sum += exp((double)x[r * width + j] - (double)x[r * width]);
                dot += (double)y[r * width + j] * (double)dy[r * width + j];
            }
            for (size_t j = 0; j < width; j++) {
                const size_t i = r * width + j;
                const double p = exp((double)x[i] - (double)x[r * width]) / sum;
                assert_true(fabs((double)y[i] - p) < 1e-6);
                assert_true(fabs((double)dx[i] - p * ((double)dy[i] - dot)) < 2e-6);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precision),       cmocka_unit_test(test_normal_distribution),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_relu_passes_nan), cmocka_unit_test(test_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
