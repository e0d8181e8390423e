/* SPDX-License-Identifier: Apache-2.0 */
/* Models as ONNX: which nodes there are. What they compute is compared by others
 * (tests/integration/test_onnx_layers.py). */
#include "support/test.h"

#include "graph/model_onnx.h"
#include "graph/op.h" /* a kind of our own */
#include "os/file.h"
#include "support/models.h"
#include "support/tmp_dir.h"

/* How often the written file has this text: an operator is named once in each node. */
static size_t count_text(const struct buf *file, const char *text)
{
    size_t n = 0;
    const char *at = file->data, *end = file->data + file->len;
    while ((at = memmem(at, (size_t)(end - at), text, strlen(text))) != NULL) {
        at += strlen(text);
        n++;
    }
    return n;
}

static int write_model(const struct model_spec *spec, struct shape input, uint32_t classes,
                       struct buf *file, struct err *err)
{
    struct models_rig rig;
    struct onnx_dim dims[ONNX_DIMS_MAX];
    const char *answer, *keys[MODELS_FIELDS];
    models_rig_init(&rig, spec, input, classes, 2, 3);
    struct onnx_graph *g = onnx_graph_new("model", 1);
    model_onnx_dims(&input, dims);
    const char *x = onnx_graph_input(g, "features", ONNX_FLOATS, dims, input.rank + 1);
    for (size_t f = 0; f < MODELS_FIELDS; f++) {
        keys[f] = onnx_graph_input(g, models_field_names[f], ONNX_INT64S, dims, 2);
    }
    const struct model_onnx o = {
        .graph = g, .values = models_values(&rig), .input = x, .input_shape = input, .keys = keys};
    int rc = model_onnx(rig.model, &o, &answer, err);
    if (rc == 0) {
        char *dir = tmp_dir_make("onnx"), *path = file_join(dir, "model.onnx");
        struct onnx_dim out[] = {dims[0], {.value = model_outputs(rig.model)}};
        onnx_graph_output(g, answer, "answer", out, 2);
        assert_int_equal(onnx_graph_write(g, path, false, NULL, err), 0);
        assert_int_equal(file_read(path, 1 << 24, file, err), 0);
        free(path);
        tmp_dir_remove(dir);
    }
    onnx_graph_free(g);
    models_rig_release(&rig);
    return rc;
}

/* Between layers of images nothing is turned, and views are found again. */
static void images_are_turned_once(void **state)
{
    (void)state;
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct buf file = {0};
    struct err err = {0};
    models_add(&spec, "conv2d", "filters=4 kernel=3 use_bias=false");
    models_add(&spec, "batch_norm", "");
    models_add(&spec, "relu", "");
    models_add(&spec, "dropout", "");
    models_add(&spec, "conv2d", "filters=2 kernel=1 activation=gelu");
    models_from(models_add(&spec, "concat", ""), "conv2d_5 relu_3");
    models_add(&spec, "max_pool2d", "");
    models_add(&spec, "flatten", "");
    models_add(&spec, "dense", "units=3");
    assert_int_equal(write_model(&spec, MODELS_SHAPE(8, 8, 2), 3, &file, &err), 0);
    assert_int_equal(count_text(&file, "Transpose"), 2); /* at the beginning and before flatten */
    assert_int_equal(count_text(&file, "Flatten"), 1);
    assert_int_equal(count_text(&file, "BatchNormalization"), 1);
    assert_int_equal(count_text(&file, "Conv"), 2);
    assert_int_equal(count_text(&file, "Softmax"), 1); /* of the loss */
    buf_release(&file);
    model_spec_release(&spec);
}

/* Records get the shape that model.input says, and a last layer that the loss has is no second. */
static void answers_are_those_of_the_loss(void **state)
{
    (void)state;
    static const struct {
        enum loss_kind loss;
        const char *last, *operator;
        uint32_t classes;
        size_t count;
    } rows[] = {{LOSS_SIGMOID_CROSS_ENTROPY, NULL, "Sigmoid", 2, 1},
                {LOSS_SIGMOID_CROSS_ENTROPY, "sigmoid", "Sigmoid", 2, 1},
                {LOSS_SOFTMAX_CROSS_ENTROPY, "softmax", "Softmax", 3, 1},
                {LOSS_MEAN_SQUARED_ERROR, NULL, "Sigmoid", 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_spec spec = {.loss = rows[i].loss};
        struct buf file = {0};
        struct err err = {0};
        models_add(&spec, "dense", rows[i].classes == 3 ? "units=3" : "units=1");
        if (rows[i].last != NULL) {
            models_add(&spec, rows[i].last, "");
        }
        assert_int_equal(write_model(&spec, MODELS_SHAPE(4), rows[i].classes, &file, &err), 0);
        assert_int_equal(count_text(&file, rows[i].operator), rows[i].count);
        buf_release(&file);
        model_spec_release(&spec);
    }
}

/* A kind that says nothing of ONNX is refused by its name. */
static void a_kind_without_it_is_refused(void **state)
{
    (void)state;
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct buf file = {0};
    struct err err = {0};
    struct layer_kind silent = *layer_kind_find("relu");
    silent.name = "silent";
    silent.onnx = NULL;
    models_add(&spec, "dense", "units=3");
    models_add(&spec, "relu", "")->kind = &silent;
    models_add(&spec, "dense", "units=3");
    assert_int_equal(write_model(&spec, MODELS_SHAPE(4), 3, &file, &err), ERR_UNSUPPORTED);
    assert_string_equal(err.msg,
                        "layer 'relu_2': silent cannot be written as ONNX; a model without "
                        "it can, or --format safetensors");
    spec.layers[1].kind = layer_kind_find("relu");
    model_spec_release(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_turned_once),
        cmocka_unit_test(answers_are_those_of_the_loss),
        cmocka_unit_test(a_kind_without_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
