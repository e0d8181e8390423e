/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "support/models.h"
#include "tensor/blas_kernels.h"

/* One layer as "kind key=value key=value < from from". */
static void add(struct model_spec *spec, const char *text)
{
    char kind[32], settings[128];
    size_t n = strcspn(text, " ");
    memcpy(kind, text, n);
    kind[n] = '\0';
    (void)snprintf(settings, sizeof settings, "%s", text + n);
    char *from = strstr(settings, " < ");
    if (from != NULL) {
        *from = '\0';
    }
    struct layer_spec *l = models_add(spec, kind, settings);
    if (from != NULL) {
        models_from(l, from + 3);
    }
}

static void build(struct model_spec *spec, enum loss_kind loss, const char *const *layers)
{
    *spec = (struct model_spec){.loss = loss};
    for (size_t i = 0; layers[i] != NULL; i++) {
        add(spec, layers[i]);
    }
}

struct refusal {
    enum loss_kind loss;
    unsigned metrics;
    struct shape input;
    uint32_t classes;
    struct field_ints reshape;
    const char *layers[5];
    const char *message; /* the whole of it */
};

static const struct refusal refusals[] = {
    {.input = {1, {4}}, .classes = 3, .message = "the model has no layers; a dense layer would do"},
    {.input = {2, {28, 28}},
     .classes = 10,
     .layers = {"dense units=10"},
     .message =
         "layer 1 (dense 'dense_1', line 10): a dense layer needs one row of numbers, but its "
         "input is [28, 28]; put a flatten layer in front of it"},
    {.input = {1, {784}},
     .classes = 10,
     .layers = {"conv2d filters=2 kernel=3"},
     .message = "layer 1 (conv2d 'conv2d_1', line 10): it needs images, but its input is [784]; "
                "[height, width, channels] or [height, width] would fit (model.input gives records "
                "their shape)"},
    {.input = {3, {3, 3, 8}},
     .classes = 10,
     .layers = {"relu", "conv2d filters=2 kernel=5"},
     .message = "layer 2 (conv2d 'conv2d_2', line 20): kernel [5, 5] does not fit its input [3, 3, "
                "8]; a kernel of at most [3, 3] or padding: same would"},
    {.input = {2, {4, 4}},
     .classes = 10,
     .layers = {"max_pool2d size=[5,1]"},
     .message = "layer 1 (max_pool2d 'max_pool2d_1', line 10): size [5, 1] does not fit its input "
                "[4, 4]; a size of at most [4, 4] or padding: same would"},
    {.input = {2, {4, 4}},
     .classes = 10,
     .layers = {"avg_pool2d size=[2,2,2]"},
     .message = "layer 1 (avg_pool2d 'avg_pool2d_1', line 10): size has 3 numbers; one number, or "
                "[height, width] would fit"},
    {.input = {2, {4, 1}},
     .classes = 10,
     .layers = {"layer_norm"},
     .message = "layer 1 (layer_norm 'layer_norm_1', line 10): its input [4, 1] has nothing to "
                "normalise over; a last dimension of 2 or more would fit"},
    {.input = {1, {4}},
     .classes = 10,
     .layers = {"dense units=8", "dense units=9"},
     .message = "layer 2 (dense 'dense_2', line 20): the output of the model is [9], but loss "
                "softmax_cross_entropy for the classes of the data needs [10]; a dense layer with "
                "units: 10 at the end would fit"},
    {.input = {2, {5, 5}},
     .classes = 10,
     .layers = {"conv2d filters=10 kernel=5"},
     .message =
         "layer 1 (conv2d 'conv2d_1', line 10): the output of the model is [1, 1, 10], but "
         "loss softmax_cross_entropy for the classes of the data needs [10]; a flatten layer "
         "and a dense layer with units: 10 at the end would fit"},
    {.loss = LOSS_MEAN_SQUARED_ERROR,
     .input = {1, {4}},
     .layers = {"dense units=2"},
     .message = "layer 1 (dense 'dense_1', line 10): the output of the model is [2], but loss "
                "mean_squared_error needs [1]; a dense layer with units: 1 at the end would fit"},
    {.input = {1, {4}},
     .layers = {"dense units=2"},
     .message =
         "loss softmax_cross_entropy needs class labels, but the labels of the data are real "
         "numbers; mean_squared_error would fit"},
    {.loss = LOSS_SIGMOID_CROSS_ENTROPY,
     .input = {1, {4}},
     .classes = 10,
     .layers = {"dense units=1"},
     .message = "loss sigmoid_cross_entropy is for 2 classes, but the data has 10; "
                "softmax_cross_entropy would fit"},
    {.metrics = 1U << METRIC_CALIBRATION,
     .input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3"},
     .message =
         "metric calibration has no meaning for loss softmax_cross_entropy; loss, accuracy, auc, "
         "precision, recall, f1, top_k_accuracy, log_loss, ece, confusion_matrix would fit"},
    {.input = {1, {3}},
     .classes = 3,
     .layers = {"relu"},
     .message = "no layer of the model has anything to train; a dense layer would"},
    {.input = {1, {784}},
     .classes = 3,
     .reshape = {.values = {28, 27}, .count = 2},
     .layers = {"dense units=3"},
     .message = "model.input [28, 27] has 756 elements, but a record of the data is [784]; 784 "
                "elements would fit"},
    {.input = {1, {784}},
     .classes = 3,
     .reshape = {.values = {2, 2, 2, 2, 49}, .count = 5},
     .layers = {"dense units=3"},
     .message = "model.input has 5 dimensions; at most 4 are possible"},
    {.input = {1, {0}},
     .classes = 3,
     .layers = {"dense units=3"},
     .message =
         "a record of shape [0] cannot be an input; from 1 to 2147483647 elements would fit"},
    {.input = {1, {100000}},
     .classes = 3,
     .layers = {"dense units=1000000"},
     .message =
         "layer 1 (dense 'dense_1', line 10): its kernel would be [100000, 1000000]; at most "
         "2147483647 elements are possible"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "relu < dense"},
     .message = "layer 2 (relu 'relu_2', line 20): from: there is no layer above it of the name "
                "'dense'; input, dense_1 would fit"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "relu < dense_3", "dense units=3"},
     .message = "layer 2 (relu 'relu_2', line 20): from: a layer reads only layers above it, which "
                "is not so of 'dense_3'; input, dense_1 would fit"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "relu < relu_2"},
     .message = "layer 2 (relu 'relu_2', line 20): from: a layer reads only layers above it, which "
                "is not so of 'relu_2'; input, dense_1 would fit"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3 activation=relu", "dense units=2 < input", "dense units=3"},
     .message = "layer 1 (dense 'dense_1', line 10): no layer reads its output; a 'from' below "
                "with its name would"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "relu < dense_1 input"},
     .message = "layer 2 (relu 'relu_2', line 20): it takes one input, but 'from' has 2; a concat "
                "layer would join them"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "add"},
     .message = "layer 2 (add 'add_2', line 20): it takes 2 inputs or more, but has 1; from: "
                "[NAME, NAME] would fit"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "dot < input input dense_1"},
     .message = "layer 2 (dot 'dot_2', line 20): a dot layer takes at most 2 inputs, not 3"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "add < dense_1 input"},
     .message = "layer 2 (add 'add_2', line 20): its inputs must have one shape, but the first is "
                "[3] and the 2. is [4]"},
    {.input = {2, {2, 3}},
     .classes = 3,
     .layers = {"flatten", "concat < input flatten_1"},
     .message = "layer 2 (concat 'concat_2', line 20): its inputs must have one shape but for the "
                "last dimension, but the first is [2, 3] and the 2. is [6]"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"dense units=3", "dot_interaction < dense_1 input"},
     .message = "layer 2 (dot_interaction 'dot_interaction_2', line 20): its inputs are rows of "
                "one width, [width] or [rows, width], but the 2. is [4]"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"factorization"},
     .message = "layer 1 (factorization 'factorization_1', line 10): it has one row of 4 numbers, "
                "and no other to multiply it by; two inputs or more, or one of [rows, width] would "
                "fit"},
    {.input = {1, {4}},
     .classes = 3,
     .layers = {"cross rank=5"},
     .message = "layer 1 (cross 'cross_1', line 10): rank 5 is more than its 4 inputs; up to 4 "
                "would fit"},
    {.input = {2, {4000, 4000}},
     .classes = 3,
     .layers = {"conv2d filters=1 kernel=1000"},
     .message = "layer 1 (conv2d 'conv2d_1', line 10): its windows over one image have more than "
                "2147483647 elements; a smaller kernel or a larger stride would fit"},
    {.input = {2, {4000, 4000}},
     .classes = 3,
     .layers = {"conv2d filters=1000 kernel=1"},
     .message = "layer 1 (conv2d 'conv2d_1', line 10): its output would be [4000, 4000, 1000]; at "
                "most 2147483647 elements are possible"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        struct model_spec spec;
        struct model *m = NULL;
        struct err err = {0};
        build(&spec, r->loss, r->layers);
        spec.metrics = r->metrics;
        spec.input = r->reshape;
        assert_int_equal(ERR_INVALID, model_new(&spec, &r->input, NULL, r->classes, &m, &err));
        assert_string_equal(r->message, err.msg);
        assert_null(m);
        assert_int_equal(ERR_INVALID, model_new(&spec, &r->input, NULL, r->classes, &m, NULL));
        model_spec_release(&spec);
    }
}

static void test_refuses_names(void **state)
{
    (void)state;
    static const char *const layers[] = {"dense units=4", "dense units=3", NULL};
    const struct shape input = {1, {4}};
    struct model_spec spec;
    struct model *m;
    struct err err = {0};
    build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, layers);
    spec.layers[1].line = 0;
    spec.layers[1].name[strlen(spec.layers[1].name) - 1] = '1';
    assert_int_equal(ERR_INVALID, model_new(&spec, &input, NULL, 3, &m, &err));
    assert_string_equal("layer 2 (dense 'dense_1'): layer 1 has the same name; a name that is used "
                        "once would fit",
                        err.msg);
    free(spec.layers[1].name);
    spec.layers[1].name = mem_strdup("input");
    assert_int_equal(ERR_INVALID, model_new(&spec, &input, NULL, 3, &m, &err));
    assert_string_equal("layer 2 (dense 'input'): its name is what 'from' calls the records; "
                        "another name would fit",
                        err.msg);
    free(spec.layers[1].name);
    spec.layers[1].name = mem_new(200, 1);
    memset(spec.layers[1].name, 'x', 199);
    assert_int_equal(ERR_INVALID, model_new(&spec, &input, NULL, 3, &m, &err));
    assert_non_null(strstr(err.msg, "its name is too long; at most 120 bytes are possible"));
    model_spec_release(&spec);
}

static void check_variable(const struct model *m, size_t i, const char *name, const char *shape)
{
    char text[64];
    const struct variable_spec *v = model_variable(m, i);
    assert_string_equal(name, v->name);
    assert_string_equal(shape, shape_format(&v->shape, text, sizeof text));
}

static void test_variables(void **state)
{
    (void)state;
    static const char *const layers[] = {
        "conv2d filters=4 kernel=[3,2] activation=relu",
        "flatten",
        "dense units=5 use_bias=false kernel_init=uniform kernel_init_mean=1 "
        "kernel_init_spread=0.5",
        "layer_norm",
        "dense units=3 kernel_init=he_normal bias_init=constant bias_init_mean=0.1",
        NULL};
    const struct shape input = {1, {48}};
    struct model_spec spec;
    struct model *m;
    build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, layers);
    spec.input = (struct field_ints){.values = {4, 6, 2}, .count = 3}; /* flat records as images */
    assert_int_equal(0, model_new(&spec, &input, NULL, 3, &m, NULL));
    assert_int_equal(7, model_variable_count(m));
    check_variable(m, 0, "conv2d_1.kernel", "[12, 4]");
    check_variable(m, 1, "conv2d_1.bias", "[4]");
    check_variable(m, 2, "dense_3.kernel", "[40, 5]");
    check_variable(m, 3, "layer_norm_4.gamma", "[5]");
    check_variable(m, 4, "layer_norm_4.beta", "[5]");
    check_variable(m, 5, "dense_5.kernel", "[5, 3]");
    check_variable(m, 6, "dense_5.bias", "[3]");
    const struct init *conv = &model_variable(m, 0)->init, *uniform = &model_variable(m, 2)->init;
    assert_int_equal(INIT_GLOROT_UNIFORM, conv->kind);
    assert_int_equal(12, conv->fan_in);
    assert_int_equal(24, conv->fan_out);
    assert_int_equal(INIT_UNIFORM, uniform->kind);
    assert_true(uniform->a == 0.5 && uniform->b == 1.5);
    assert_int_equal(INIT_CONSTANT, model_variable(m, 3)->init.kind);
    assert_true(model_variable(m, 3)->init.a == 1.0);
    assert_int_equal(INIT_HE_NORMAL, model_variable(m, 5)->init.kind);
    assert_int_equal(INIT_CONSTANT, model_variable(m, 6)->init.kind);
    assert_true(model_variable(m, 6)->init.a == 0.1);
    model_free(m);
    model_spec_release(&spec);
}

/* units: 0 is as many outputs as the loss wants. */
static void test_outputs_by_the_loss(void **state)
{
    (void)state;
    static const char *const layers[] = {"dense units=0", NULL};
    static const struct {
        enum loss_kind loss;
        uint32_t classes;
        const char *kernel;
    } cases[] = {
        {LOSS_SOFTMAX_CROSS_ENTROPY, 7, "[4, 7]"},
        {LOSS_SIGMOID_CROSS_ENTROPY, 2, "[4, 1]"},
        {LOSS_MEAN_SQUARED_ERROR, 0, "[4, 1]"},
    };
    const struct shape input = {1, {4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model_spec spec;
        struct model *m;
        build(&spec, cases[i].loss, layers);
        assert_int_equal(0, model_new(&spec, &input, NULL, cases[i].classes, &m, NULL));
        check_variable(m, 0, "dense_1.kernel", cases[i].kernel);
        model_free(m);
        model_spec_release(&spec);
    }
}

static void test_describe(void **state)
{
    (void)state;
    static const char *const layers[] = {"flatten", "dense units=256 activation=relu", "dropout",
                                         "dense units=10", NULL};
    const struct shape input = {2, {28, 28}};
    struct model_spec spec;
    struct model *m;
    struct buf out = {0};
    build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, layers);
    assert_int_equal(0, model_new(&spec, &input, NULL, 10, &m, NULL));
    model_describe(m, &out);
    assert_string_equal(
        "layer              kind               output             parameters\n"
        "input              -                  [28, 28]                    0\n"
        "flatten_1          flatten            [784]                       0\n"
        "dense_2            dense + relu       [256]                  200960\n"
        "dropout_3          dropout            [256]                       0\n"
        "dense_4            dense              [10]                     2570\n"
        "total              -                  -                      203530 (795.0 KiB)\n",
        buf_str(&out));
    buf_release(&out);
    model_free(m);
    model_spec_release(&spec);
}

static void test_describe_a_graph(void **state)
{
    (void)state;
    static const char *const layers[] = {
        "dense units=4 activation=relu", "cross rank=2 < input", "cross rank=2 < input cross_2",
        "concat < cross_3 dense_1",      "dense units=10",       NULL};
    const struct shape input = {1, {4}};
    struct model_spec spec;
    struct model *m;
    struct buf out = {0};
    build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, layers);
    assert_int_equal(0, model_new(&spec, &input, NULL, 10, &m, NULL));
    check_variable(m, 2, "cross_2.kernel_down", "[4, 2]");
    check_variable(m, 3, "cross_2.kernel_up", "[2, 4]");
    check_variable(m, 4, "cross_2.bias", "[4]");
    model_describe(m, &out);
    assert_string_equal(
        "layer              kind               output             parameters\n"
        "input              -                  [4]                         0\n"
        "dense_1            dense + relu       [4]                        20\n"
        "cross_2            cross              [4]                        20  from input\n"
        "cross_3            cross              [4]                        20  from input, cross_2\n"
        "concat_4           concat             [8]                         0  from cross_3, "
        "dense_1\n"
        "dense_5            dense              [10]                       90\n"
        "total              -                  -                         150 (600 B)\n",
        buf_str(&out));
    buf_release(&out);
    model_free(m);
    model_spec_release(&spec);
}

/* A gradient has a place only as long as it is needed: a deep chain takes two of them, as wide as
 * the widest, and a graph of as many layers hardly more. */
static void test_memory_of_a_runner(void **state)
{
    (void)state;
    static const char *const chain[] = {"dense units=1000", "dense units=1000", "dense units=1000",
                                        "dense units=3", NULL};
    static const char *const graph[] = {"dense units=1000", "dense units=1000 < dense_1",
                                        "add < dense_1 dense_2", "dense units=3", NULL};
    const struct shape input = {1, {4}};
    static const char *const *const models[] = {chain, graph};
    static const size_t floats[] = {5 * 1000, 6 * 1000};
    for (size_t i = 0; i < 2; i++) {
        struct model_spec spec;
        struct model *m;
        build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, models[i]);
        assert_int_equal(0, model_new(&spec, &input, NULL, 3, &m, NULL));
        const size_t bytes = runner_bytes(m, 100);
        assert_in_range(bytes, floats[i] * 100 * sizeof(float),
                        (floats[i] + 50) * 100 * sizeof(float));
        model_free(m);
        model_spec_release(&spec);
    }
}

static void test_too_many_records(void **state)
{
    (void)state;
    static const char *const layers[] = {"dense units=10", NULL};
    const struct shape input = {1, {4}};
    struct model_spec spec;
    struct model *m;
    struct runner *r = NULL;
    struct err err = {0};
    build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, layers);
    assert_int_equal(0, model_new(&spec, &input, NULL, 10, &m, NULL));
    assert_int_equal(ERR_EXHAUSTED, runner_new(m, SIZE_MAX / 8, 1, &r, &err));
    assert_non_null(strstr(err.msg, "do not fit in memory"));
    assert_null(r);
    runner_free(NULL);
    model_free(m);
    model_free(NULL);
    model_spec_release(&spec);
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_kernels_choose(argv); /* those that programs compute with are tested */
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(test_refusals),           cmocka_unit_test(test_refuses_names),
        cmocka_unit_test(test_variables),          cmocka_unit_test(test_outputs_by_the_loss),
        cmocka_unit_test(test_describe),           cmocka_unit_test(test_describe_a_graph),
        cmocka_unit_test(test_memory_of_a_runner), cmocka_unit_test(test_too_many_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
