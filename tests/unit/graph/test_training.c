/* SPDX-License-Identifier: Apache-2.0 */
/* Small networks learn: the parts fit together. */
#include "support/test.h"

#include <math.h>

#include "support/models.h"
#include "tensor/blas_kernels.h"

static void initialise(struct models_rig *rig)
{
    for (size_t i = 0; i < rig->count; i++) {
        const struct variable_spec *v = model_variable(rig->model, i);
        init_fill(&v->init, 1, v->name, 0, rig->sizes[i], rig->values[i]);
    }
}

static void descend(struct models_rig *rig, double rate, uint64_t steps)
{
    for (uint64_t s = 0; s < steps; s++) {
        models_gradients(rig, s);
        const float scale = (float)(rate / (double)rig->batch.count);
        for (size_t i = 0; i < rig->count; i++) {
            for (size_t j = 0; j < rig->sizes[i]; j++) {
                rig->values[i][j] -= scale * rig->gradients[i][j];
            }
        }
    }
}

static double measure(struct models_rig *rig, enum metric_kind kind)
{
    struct metrics m;
    metrics_init(&m, 1U << kind);
    runner_evaluate(rig->runner, models_values(rig), &rig->batch, &m);
    const double value = metrics_value(&m, kind, 1.0);
    metrics_release(&m);
    return value;
}

static void test_spirals(void **state)
{
    (void)state;
    enum { N = 200 };
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct models_rig rig;
    models_add(&spec, "dense",
               "units=32 activation=tanh kernel_init=normal kernel_init_spread=1.5");
    models_add(&spec, "dense", "units=32 activation=relu kernel_init=he_normal");
    models_add(&spec, "dense", "units=2");
    models_rig_init(&rig, &spec, MODELS_SHAPE(2), 2, N, 3);
    for (size_t i = 0; i < N; i++) {
        const double t = 0.3 + 1.2 * (double)(i / 2) / (N / 2.0);
        const double angle = 6.0 * t + 3.14159265 * (double)(i % 2);
        rig.batch.classes[i] = (int32_t)(i % 2);
        rig.batch.features[2 * i] = (float)(t * cos(angle) + 0.02 * rng_normal(4, i));
        rig.batch.features[2 * i + 1] = (float)(t * sin(angle) + 0.02 * rng_normal(5, i));
    }
    initialise(&rig);
    assert_true(measure(&rig, METRIC_ACCURACY) < 0.8);
    descend(&rig, 0.5, 600);
    assert_true(measure(&rig, METRIC_ACCURACY) > 0.95);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

static void test_xor(void **state)
{
    (void)state;
    struct model_spec spec = {.loss = LOSS_SIGMOID_CROSS_ENTROPY};
    struct models_rig rig;
    models_add(&spec, "dense", "units=8 activation=tanh");
    models_add(&spec, "dense", "units=1");
    models_rig_init(&rig, &spec, MODELS_SHAPE(2), 2, 4, 3);
    for (size_t i = 0; i < 4; i++) {
        rig.batch.features[2 * i] = (float)(i / 2);
        rig.batch.features[2 * i + 1] = (float)(i % 2);
        rig.batch.targets[i] = (float)(i / 2 ^ i % 2);
    }
    initialise(&rig);
    descend(&rig, 0.5, 1500);
    assert_true(measure(&rig, METRIC_ACCURACY) == 1.0);
    assert_true(measure(&rig, METRIC_AUC) == 1.0);
    assert_true(measure(&rig, METRIC_LOSS) < 0.1);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

static void test_regression(void **state)
{
    (void)state;
    enum { N = 100 };
    struct model_spec spec = {.loss = LOSS_MEAN_SQUARED_ERROR};
    struct models_rig rig;
    models_add(&spec, "dense", "units=1");
    models_rig_init(&rig, &spec, MODELS_SHAPE(2), 0, N, 3);
    for (size_t i = 0; i < N; i++) {
        rig.batch.targets[i] =
            3.0F * rig.batch.features[2 * i] - rig.batch.features[2 * i + 1] + 0.5F;
    }
    initialise(&rig);
    descend(&rig, 0.2, 300);
    assert_true(measure(&rig, METRIC_RMSE) < 1e-3);
    assert_float_equal(3.0F, rig.values[0][0], 1e-2F);
    assert_float_equal(0.5F, rig.values[1][0], 1e-2F);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* Which half of an image is bright: needs convolution, pooling and dropout to work together. */
static void test_convolution(void **state)
{
    (void)state;
    enum { N = 80, SIDE = 8 };
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct models_rig rig;
    models_add(&spec, "conv2d", "filters=4 kernel=3 padding=same activation=relu");
    models_add(&spec, "max_pool2d", "");
    models_add(&spec, "conv2d", "filters=4 kernel=2");
    models_add(&spec, "gelu", "approximate=true");
    models_add(&spec, "avg_pool2d", "");
    models_add(&spec, "flatten", "");
    models_add(&spec, "dropout", "rate=0.1");
    models_add(&spec, "dense", "units=2 activation=softmax");
    models_rig_init(&rig, &spec, MODELS_SHAPE(SIDE, SIDE), 2, N, 3);
    for (size_t i = 0; i < N * SIDE * SIDE; i++) {
        const bool upper = i % (SIDE * SIDE) < SIDE * SIDE / 2;
        const bool wanted = rig.batch.classes[i / (SIDE * SIDE)] == 0;
        rig.batch.features[i] += upper == wanted ? 0.5F : 0.0F;
    }
    initialise(&rig);
    descend(&rig, 0.3, 200);
    assert_true(measure(&rig, METRIC_ACCURACY) > 0.95);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_kernels_choose(argv); /* those that programs compute with are tested */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spirals),
        cmocka_unit_test(test_xor),
        cmocka_unit_test(test_regression),
        cmocka_unit_test(test_convolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
