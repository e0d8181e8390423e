/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is written again has the new values, answers in place of training, and is else what
 * it was. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <string.h>

#include "onnx/onnx_tensor.h"
#include "onnx_net/onnx_net.h"
#include "support/onnx_text.h"

/* A norm and a dropout that were exported for training. */
#define NET                                                                                        \
    "input x ?,4; float w 4,3; float b 3; Gemm x w b -> h; float s 3; float o 3; float m 3;"       \
    "float v 3; BatchNormalization h s o m v -> n mean var : training_mode=1 momentum=0.5;"        \
    "float ratio - = 0.5; int training - = 1; Dropout n ratio training -> y; output y;"

static int give_twos(void *ctx, const char *file, uint64_t offset, void *out, size_t bytes,
                     struct err *err)
{
    float *values = out;
    (void)ctx, (void)file, (void)offset, (void)err;
    for (size_t i = 0; i < bytes / sizeof *values; i++) {
        values[i] = 2;
    }
    return 0;
}

static struct onnx_net *read_bytes(const void *bytes, size_t n, struct onnx_net_source how)
{
    struct onnx_net *net = NULL;
    struct err err = {0};
    how.bytes = bytes;
    how.n = n;
    if (onnx_net_read(&how, &net, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return net;
}

static struct onnx_net *read_model(Onnx__ModelProto *m, struct onnx_net_source how)
{
    size_t n;
    void *bytes = onnx_text_pack(m, &n);
    struct onnx_net *net = read_bytes(bytes, n, how);
    free(bytes);
    return net;
}

/* What is in the file; owned. */
static Onnx__ModelProto *written(const char *path, struct buf *bytes)
{
    assert_int_equal(file_read(path, 1 << 20, bytes, NULL), 0);
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, bytes->len, (uint8_t *)bytes->data);
    assert_non_null(m);
    return m;
}

/* Values of the variables: their number, and a hundredth for each element. */
static void number(const struct onnx_net *net, float (*values)[64], const float **list)
{
    for (size_t i = 0; i < onnx_net_variable_count(net); i++) {
        for (size_t k = 0; k < 64; k++) {
            values[i][k] = (float)(i + 1) + 0.01F * (float)k;
        }
        list[i] = values[i];
    }
}

static void values_come_back(void **state)
{
    (void)state;
    char *dir = tmp_dir_make("onnx"), *path = file_join(dir, "out.onnx");
    Onnx__ModelProto *m = onnx_text_model(NET);
    const struct onnx_net_source plain = {.bytes = NULL};
    struct onnx_net *net = read_model(m, plain);
    float values[8][64];
    const float *list[8];
    const struct onnx_note notes[] = {{"gradus.job", "a-1"}, {"k", "t"}}, later = {"k", "u"};
    struct buf bytes = {0}, twice = {0};
    struct err err;
    number(net, values, list);
    assert_int_equal(onnx_net_variable_count(net), 6);
    assert_int_equal(onnx_net_write(net, list, notes, 2, path, &err), 0);
    Onnx__ModelProto *w = written(path, &bytes);
    struct onnx_net *again = read_bytes(bytes.data, bytes.len, plain);
    assert_int_equal(onnx_net_variable_count(again), 6);
    for (size_t i = 0; i < 6; i++) {
        const struct variable_spec *a = &onnx_net_variables(net)[i],
                                   *b = &onnx_net_variables(again)[i];
        assert_string_equal(a->name, b->name);
        assert_true(shape_equal(&a->shape, &b->shape));
        assert_memory_equal(onnx_net_initial(again, i), values[i],
                            (size_t)shape_count(&a->shape) * sizeof(float));
        assert_true(onnx_net_initial(net, i)[0] < 1.3F); /* that one is as it was */
    }
    assert_int_equal(w->graph->n_node, 3);
    const Onnx__NodeProto *norm = w->graph->node[1], *drop = w->graph->node[2];
    assert_int_equal(norm->n_output, 1);
    assert_int_equal(norm->n_attribute, 1);
    assert_string_equal(norm->attribute[0]->name, "momentum");
    assert_int_equal(drop->n_input, 2);
    assert_int_equal(w->n_metadata_props, 2);
    assert_string_equal(w->metadata_props[0]->value, "a-1");
    /* Written once more: notes of the same key are replaced, and all else is the same. */
    assert_int_equal(onnx_net_write(again, list, &later, 1, path, &err), 0);
    Onnx__ModelProto *v = written(path, &twice);
    assert_int_equal(v->n_metadata_props, 2);
    assert_string_equal(v->metadata_props[0]->value, "a-1");
    assert_string_equal(v->metadata_props[1]->value, "u");
    assert_int_equal(twice.len, bytes.len);
    onnx__model_proto__free_unpacked(v, NULL);
    onnx__model_proto__free_unpacked(w, NULL);
    onnx_net_free(again);
    onnx_net_free(net);
    buf_release(&bytes);
    buf_release(&twice);
    free(path);
    tmp_dir_remove(dir);
}

/* Initializer @i in another file. */
static Onnx__ModelProto *outside(const char *text, size_t i)
{
    Onnx__ModelProto *m = onnx_text_model(text);
    Onnx__TensorProto *t = m->graph->initializer[i];
    uint64_t bytes = sizeof(float);
    for (size_t d = 0; d < t->n_dims; d++) {
        bytes *= (uint64_t)t->dims[d];
    }
    free(t->raw_data.data);
    free(t->float_data);
    t->has_raw_data = 0;
    t->raw_data = (ProtobufCBinaryData){0, NULL};
    t->n_float_data = 0;
    t->float_data = NULL;
    onnx_tensor_set_external(t, "net.bin", 0, bytes);
    return m;
}

static void other_files_come_in(void **state)
{
    (void)state;
    static const char text[] = "input x ?,4; float w 4,3; float b 3; float q 5; Gemm x w b -> y;"
                               "output y;";
    static const char *const only[] = {"b"};
    char *dir = tmp_dir_make("onnx"), *path = file_join(dir, "out.onnx");
    const struct onnx_net_source how = {
        .external = give_twos, .trainable = only, .trainable_count = 1};
    struct onnx_net *net = read_model(outside(text, 0), how);
    float values[8][64], found[12];
    const float *list[8];
    struct buf bytes = {0};
    struct err err = {0};
    number(net, values, list);
    assert_int_equal(onnx_net_variable_count(net), 1);
    assert_int_equal(onnx_net_write(net, list, NULL, 0, path, &err), 0);
    Onnx__ModelProto *m = written(path, &bytes);
    assert_int_equal(m->graph->initializer[0]->n_external_data, 0);
    assert_int_equal(onnx_tensor_floats(m->graph->initializer[0], NULL, found, &err), 0);
    assert_true(found[0] == 2.0F && found[11] == 2.0F);
    onnx__model_proto__free_unpacked(m, NULL);
    onnx_net_free(net);
    /* One that nothing reads was never looked at. */
    net = read_model(outside(text, 2), how);
    assert_int_equal(onnx_net_write(net, list, NULL, 0, path, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "initializer 'q' lies in another file"));
    onnx_net_free(net);
    buf_release(&bytes);
    free(path);
    tmp_dir_remove(dir);
}

static void disks_that_do_not_take_it(void **state)
{
    (void)state;
    const struct onnx_net_source plain = {.bytes = NULL};
    struct onnx_net *net = read_model(onnx_text_model(NET), plain);
    float values[8][64];
    const float *list[8];
    struct err err;
    number(net, values, list);
    assert_int_not_equal(onnx_net_write(net, list, NULL, 0, "/nowhere/out.onnx", &err), 0);
    assert_non_null(strstr(err.msg, "/nowhere"));
    onnx_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),
        cmocka_unit_test(other_files_come_in),
        cmocka_unit_test(disks_that_do_not_take_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
