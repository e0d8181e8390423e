/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>

#include "support/models.h"

#define WIDTH 64
#define RECORDS 50

/* dropout in front of a dense layer whose kernel's gradient shows what passed: with one output,
 * zero values and target -0.5, it is the sum over records of the (scaled or dropped) feature. */
static void gradient_of(struct models_rig *rig, const struct runner_step *step, float *out)
{
    runner_gradients(rig->runner, models_values(rig), &rig->batch, step, rig->gradients, NULL, NULL,
                     NULL);
    memcpy(out, rig->gradients[0], WIDTH * sizeof *out);
}

static void init(struct models_rig *rig, struct model_spec *spec, const char *rate)
{
    *spec = (struct model_spec){.loss = LOSS_MEAN_SQUARED_ERROR};
    models_add(spec, "dropout", rate);
    models_add(spec, "dense", "units=1 use_bias=false");
    models_rig_init(rig, spec, MODELS_SHAPE(WIDTH), 0, RECORDS, 1);
    memset(rig->values[0], 0, WIDTH * sizeof(float));
    for (size_t i = 0; i < RECORDS * WIDTH; i++) {
        rig->batch.features[i] = 1.0F;
    }
    for (size_t i = 0; i < RECORDS; i++) {
        rig->batch.targets[i] = -0.5F;
    }
}

static void test_rate_and_scale(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    const struct runner_step step = {.seed = 1, .step = 2, .replica = 3};
    float g[WIDTH];
    double sum = 0.0;
    init(&rig, &spec, "rate=0.2");
    gradient_of(&rig, &step, g);
    for (size_t i = 0; i < WIDTH; i++) {
        const double kept = (double)g[i] * 0.8; /* a whole number of records */
        assert_true(fabs(kept - round(kept)) < 1e-4);
        sum += kept;
    }
    assert_true(fabs(sum / (WIDTH * RECORDS) - 0.8) < 0.03);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

static void test_mask_is_a_function_of_the_step(void **state)
{
    (void)state;
    static const struct runner_step others[] = {{2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {1, 3, 2}};
    const struct runner_step step = {.seed = 1, .step = 2, .replica = 3};
    struct model_spec spec;
    struct models_rig rig;
    float first[WIDTH], g[WIDTH];
    init(&rig, &spec, "rate=0.5");
    gradient_of(&rig, &step, first);
    for (size_t i = 0; i < 4; i++) {
        gradient_of(&rig, &others[i], g);
        assert_true(memcmp(first, g, sizeof g) != 0);
    }
    gradient_of(&rig, &step, g);
    assert_memory_equal(first, g, sizeof g);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* Two layers of one model drop different elements. */
static void test_mask_depends_on_the_layer(void **state)
{
    (void)state;
    const struct runner_step step = {.seed = 1};
    float a[WIDTH], b[WIDTH];
    struct model_spec spec;
    struct models_rig rig;
    init(&rig, &spec, "rate=0.5");
    gradient_of(&rig, &step, a);
    models_rig_release(&rig);
    free(spec.layers[0].name);
    spec.layers[0].name = mem_strdup("another");
    struct model_spec other = spec;
    models_rig_init(&rig, &other, MODELS_SHAPE(WIDTH), 0, RECORDS, 1);
    memset(rig.values[0], 0, WIDTH * sizeof(float));
    for (size_t i = 0; i < RECORDS * WIDTH; i++) {
        rig.batch.features[i] = 1.0F;
        rig.batch.targets[i / WIDTH] = -0.5F;
    }
    gradient_of(&rig, &step, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

static void test_evaluation_drops_nothing(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    size_t outputs;
    init(&rig, &spec, "rate=0.9");
    for (size_t i = 0; i < WIDTH; i++) {
        rig.values[0][i] = 1.0F;
    }
    const float *y = runner_predict(rig.runner, models_values(&rig), &rig.batch, &outputs);
    for (size_t i = 0; i < RECORDS; i++) {
        assert_true(y[i] == WIDTH);
    }
    models_rig_release(&rig);
    model_spec_release(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rate_and_scale),
        cmocka_unit_test(test_mask_is_a_function_of_the_step),
        cmocka_unit_test(test_mask_depends_on_the_layer),
        cmocka_unit_test(test_evaluation_drops_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
