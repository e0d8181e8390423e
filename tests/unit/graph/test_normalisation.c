/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm: what it computes in training and in evaluation, what stands for the gradients of its
 * statistics, and which mini-batches are too small. */
#include "support/test.h"

#include <math.h>

#include "support/models.h"
#include "tensor/blas_kernels.h"

enum { GAMMA, BETA, MEAN, VARIANCE };

/* batch_norm over records of @input, with what a head computes of it. */
static void build(struct models_rig *rig, struct model_spec *spec, struct shape input,
                  const char *settings, size_t records)
{
    *spec = (struct model_spec){.loss = LOSS_MEAN_SQUARED_ERROR};
    models_add(spec, "batch_norm", settings);
    models_add(spec, "flatten", "");
    models_add(spec, "dense", "units=1");
    models_rig_init(rig, spec, input, 0, records, 11);
}

/* Mean and unbiased variance of feature @j, one value after the other. */
static void moments(const struct models_rig *rig, size_t rows, size_t width, size_t j, double *mean,
                    double *variance)
{
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < rows; i++) {
        sum += (double)rig->batch.features[i * width + j];
    }
    *mean = sum / (double)rows;
    for (size_t i = 0; i < rows; i++) {
        const double d = (double)rig->batch.features[i * width + j] - *mean;
        squares += d * d;
    }
    *variance = squares / (double)(rows - 1);
}

/* Records times the mean and the variance: what servers divide by the records of all pushes. */
static void test_what_stands_for_gradients(void **state)
{
    (void)state;
    const struct shape inputs[] = {MODELS_SHAPE(4), MODELS_SHAPE(5, 3), MODELS_SHAPE(3, 2, 6)};
    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++) {
        const size_t records = 7, width = (size_t)inputs[k].dims[inputs[k].rank - 1];
        const size_t rows = records * (size_t)shape_count(&inputs[k]) / width;
        struct models_rig rig;
        struct model_spec spec;
        build(&rig, &spec, inputs[k], "momentum=0.75", records);
        (void)models_gradients(&rig, 1);
        for (size_t j = 0; j < width; j++) {
            double mean, variance;
            moments(&rig, rows, width, j, &mean, &variance);
            assert_true(fabs((double)rig.gradients[MEAN][j] - 7 * mean) < 1e-5);
            assert_true(fabs((double)rig.gradients[VARIANCE][j] - 7 * variance) < 1e-5);
        }
        assert_string_equal(model_variable(rig.model, MEAN)->name, "batch_norm_1.mean");
        assert_true(model_variable(rig.model, GAMMA)->statistic == 0);
        assert_true(model_variable(rig.model, BETA)->statistic == 0);
        assert_true(model_variable(rig.model, MEAN)->statistic == 0.25);
        assert_true(model_variable(rig.model, VARIANCE)->statistic == 0.25);
        models_rig_release(&rig);
        model_spec_release(&spec);
    }
}

/* All else than training takes the running statistics: one record has the output that it has among
 * others. */
static void test_evaluation_takes_the_running_ones(void **state)
{
    (void)state;
    struct models_rig rig;
    struct model_spec spec;
    size_t outputs;
    build(&rig, &spec, MODELS_SHAPE(2), "epsilon=0.5", 5);
    static const float variables[4][2] = {{2, 3}, {1, -1}, {0.5F, 0.25F}, {3.5F, 0.5F}};
    for (size_t v = 0; v < 4; v++) {
        memcpy(rig.values[v], variables[v], sizeof variables[v]);
    }
    rig.values[4][0] = 1.0F; /* the head gives the sum */
    rig.values[4][1] = 1.0F;
    rig.values[5][0] = 0.0F;
    rig.batch.features[0] = 2.5F;
    rig.batch.features[1] = 1.25F;
    rig.batch.count = 1;
    const float *y = runner_predict(rig.runner, models_values(&rig), &rig.batch, &outputs);
    assert_true(fabs((double)y[0] - (2.0 * 2.0 / 2.0 + 1.0 + 3.0 * 1.0 / 1.0 - 1.0)) < 1e-6);
    const float alone = y[0];
    rig.batch.count = 5;
    y = runner_predict(rig.runner, models_values(&rig), &rig.batch, &outputs);
    assert_true(y[0] == alone);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* What is left over of an epoch may be one record: it says nothing of the variance. */
static void test_one_record(void **state)
{
    (void)state;
    struct models_rig rig;
    struct model_spec spec;
    struct err err = {0};
    build(&rig, &spec, MODELS_SHAPE(3), "", 4);
    rig.batch.count = 1;
    (void)models_gradients(&rig, 1);
    for (size_t j = 0; j < 3; j++) {
        assert_true(rig.gradients[MEAN][j] == rig.batch.features[j]);
        assert_true(rig.gradients[VARIANCE][j] == rig.values[VARIANCE][j]);
        assert_true(rig.gradients[GAMMA][j] == 0.0F);
        assert_true(isfinite(rig.gradients[BETA][j]));
    }
    assert_int_equal(model_check_batch(rig.model, 2, &err), 0);
    assert_int_equal(model_check_batch(rig.model, 1, &err), ERR_INVALID);
    assert_string_equal(err.msg, "layer 'batch_norm_1' takes statistics of a mini-batch, and "
                                 "training.batch_size: 1 leaves none; 2 records or more would fit");
    models_rig_release(&rig);
    model_spec_release(&spec);
    build(&rig, &spec, MODELS_SHAPE(2, 2, 3), "", 1); /* images have more than one value each */
    assert_int_equal(model_check_batch(rig.model, 1, &err), 0);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* What training hands on has mean beta and deviation gamma in each feature, so that the mean of the
 * squared outputs is known. */
static void test_what_training_hands_on(void **state)
{
    (void)state;
    struct models_rig rig;
    struct model_spec spec;
    build(&rig, &spec, MODELS_SHAPE(2), "epsilon=1e-12", 50);
    static const float gamma[2] = {3, 0}, beta[2] = {0.5F, 0};
    memcpy(rig.values[GAMMA], gamma, sizeof gamma);
    memcpy(rig.values[BETA], beta, sizeof beta);
    rig.values[4][0] = 1.0F;
    rig.values[4][1] = 1.0F;
    rig.values[5][0] = 0.0F;
    memset(rig.batch.targets, 0, 50 * sizeof(float));
    assert_true(fabs(models_gradients(&rig, 1) / 50 - (9.0 + 0.25)) < 1e-4);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_kernels_choose(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_stands_for_gradients),
        cmocka_unit_test(test_evaluation_takes_the_running_ones),
        cmocka_unit_test(test_one_record),
        cmocka_unit_test(test_what_training_hands_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
