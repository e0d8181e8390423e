/* SPDX-License-Identifier: Apache-2.0 */
/* Files are read with checks: what cannot be computed is refused with what is wrong and where. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx_tensor.h"
#include "onnx_net/onnx_net.h"
#include "support/onnx_text.h"

#define MLP                                                                                        \
    "input x ?,4; float w 4,3; float b 3; Gemm x w b -> h; Relu h -> r; float v 3,2;"              \
    "MatMul r v -> y; output y;"

static int read_model(Onnx__ModelProto *m, const struct onnx_net_source *how, struct onnx_net **net,
                      struct err *err)
{
    struct onnx_net_source source = *how;
    void *bytes = onnx_text_pack(m, &source.n);
    source.bytes = bytes;
    int rc = onnx_net_read(&source, net, err);
    free(bytes);
    return rc;
}

static struct onnx_net *read_text(const char *text, const struct onnx_net_source *how)
{
    struct err err = {0};
    struct onnx_net *net = NULL;
    if (read_model(onnx_text_model(text), how, &net, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return net;
}

static const struct onnx_net_source plain = {.bytes = NULL};

static void refused(Onnx__ModelProto *m, const struct onnx_net_source *how, int code,
                    const char *words)
{
    struct err err = {0};
    struct onnx_net *net = NULL;
    const int rc = read_model(m, how, &net, &err);
    if (rc != code || strstr(err.msg, words) == NULL) {
        fail_msg("%d '%s' instead of %d '%s'", rc, err.msg, code, words);
    }
}

static void texts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *words;
    } cases[] = {
        {"input x ?,4; Add x a -> b; Add b b -> c; Add c x -> a; output c;", ERR_INVALID,
         "the graph has a cycle: "},
        {"input x ?,4; Add x w -> y; output y;", ERR_INVALID,
         "node 'y' reads 'w', which no initializer, input or node makes"},
        {"input x ?,4; Relu x -> y; Relu x -> y; output y;", ERR_INVALID,
         "value 'y' is made twice"},
        {"input x ?,4; float y 4; Relu x -> y; output y;", ERR_INVALID, "value 'y' is made twice"},
        {"input x ?,4; Relu x -> y; output z;", ERR_INVALID, "nothing makes the output 'z'"},
        {"input x ?,4; Relu x -> y; output y; output x;", ERR_INVALID,
         "the graph has 2 outputs, of which one must be named (model.output): y, x"},
        {"input x ?,4; LSTM x -> a; Gru a -> b; LSTM b -> c; Relu c -> y; output y;",
         ERR_UNSUPPORTED,
         "3 nodes cannot be computed here: 'a' (LSTM), 'b' (Gru), 'c' (LSTM); recurrent networks"},
        {"input x ?,4; Loop x -> y; output y;", ERR_UNSUPPORTED, "written as Embedding and sum"},
        {"opset 6; input x ?,4; Relu x -> y; output y;", ERR_UNSUPPORTED,
         "opset 6; 7 to 21 are read"},
        {"opset 22; input x ?,4; Relu x -> y; output y;", ERR_UNSUPPORTED, "opset 22"},
        {"input x ?,4; input z ?,4; Add x z -> y; output y;", ERR_INVALID,
         "the output needs 2 inputs (x, z)"},
        {"float w 4; Relu w -> y; output y;", ERR_INVALID, "reads no input"},
        {"input x ?,4; Gemm x -> y; output y;", ERR_INVALID, "node 'y' (Gemm) has 1 inputs"},
        {"input x ?,4; MaxPool x -> y i : kernel_shape=2; Relu i -> z; output z;", ERR_INVALID,
         "its output 1 ('i') is not computed here"},
        {"", ERR_INVALID, "no ONNX model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refused(onnx_text_model(cases[i].text), &plain, cases[i].code, cases[i].words);
    }
}

static void bytes_that_are_no_file(void **state)
{
    (void)state;
    struct onnx_net *net = NULL;
    struct err err = {0};
    static const char junk[] = "PK\3\4 this is a zip";
    const struct onnx_net_source source = {.bytes = junk, .n = sizeof junk};
    assert_int_equal(onnx_net_read(&source, &net, &err), ERR_INVALID);
    /* Graphs in attributes of nodes of graphs …, deeper than a stack. */
    enum { LEVELS = 20000 };
    size_t n = 0, room = (size_t)LEVELS * 24;
    unsigned char *bytes = mem_new(room, 1), *at = bytes + room;
    static const unsigned char tags[] = {0x0A, 0x2A, 0x32}; /* node, attribute, its graph */
    for (size_t i = 0; i < (size_t)LEVELS * 3; i++) {
        unsigned char size[8];
        size_t k = 0, rest = n;
        do {
            size[k++] = (unsigned char)((rest & 0x7F) | (rest > 0x7F ? 0x80 : 0));
            rest >>= 7;
        } while (rest > 0);
        at -= k;
        memcpy(at, size, k);
        *--at = i == (size_t)LEVELS * 3 - 1 ? 0x3A : tags[(LEVELS * 3 - 2 - i) % 3];
        n += k + 1;
    }
    const struct onnx_net_source deep = {.bytes = at, .n = n};
    assert_int_equal(onnx_net_read(&deep, &net, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "nested too deep"));
    free(bytes);
}

/* ---- tensors ---- */

static void tensors_that_contradict_themselves(void **state)
{
    (void)state;
    Onnx__ModelProto *m = onnx_text_model(MLP);
    Onnx__TensorProto *w = m->graph->initializer[0];
    w->dims[0] = 5;
    refused(m, &plain, ERR_INVALID, "tensor w");
    m = onnx_text_model(MLP);
    w = m->graph->initializer[0];
    w->n_float_data = 12; /* both */
    w->float_data = mem_new(12, sizeof(float));
    refused(m, &plain, ERR_INVALID, "tensor w");
    m = onnx_text_model(MLP);
    w = m->graph->initializer[0];
    w->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    w->raw_data.data = mem_resize(w->raw_data.data, 96, 1);
    memset(w->raw_data.data, 0, 96);
    w->raw_data.len = 96;
    refused(m, &plain, ERR_INVALID, "is of type DOUBLE; FLOAT");
    m = onnx_text_model("input x ?,4; float w 4 = 1 2 3 nan; Add x w -> y; output y;");
    refused(m, &plain, ERR_INVALID, "initializer 'w': value 3 is not finite");
}

static char asked[256];

static int give_ones(void *ctx, const char *file, uint64_t offset, void *out, size_t bytes,
                     struct err *err)
{
    (void)ctx;
    (void)err;
    (void)snprintf(asked, sizeof asked, "%s %llu %zu", file, (unsigned long long)offset, bytes);
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        ((float *)out)[i] = 1.0F;
    }
    return 0;
}

static Onnx__ModelProto *outside(const char *file)
{
    Onnx__ModelProto *m = onnx_text_model(MLP);
    Onnx__TensorProto *w = m->graph->initializer[0];
    free(w->raw_data.data);
    w->raw_data.data = NULL;
    w->raw_data.len = 0;
    w->has_raw_data = 0;
    onnx_tensor_set_external(w, file, 128, 48);
    return m;
}

static void tensors_in_other_files(void **state)
{
    (void)state;
    const struct onnx_net_source how = {.external = give_ones};
    struct onnx_net *net = NULL;
    struct err err = {0};
    assert_int_equal(read_model(outside("weights/net.bin"), &how, &net, &err), 0);
    assert_string_equal(asked, "weights/net.bin 128 48");
    assert_true(onnx_net_initial(net, 0)[11] == 1.0F);
    onnx_net_free(net);
    refused(outside("net.bin"), &plain, ERR_INVALID, "which cannot be read here");
    static const char *const bad[] = {"/etc/passwd", "../net.bin", "a/../../net.bin", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        asked[0] = '\0';
        refused(outside(bad[i]), &how, ERR_INVALID, "tensor w");
        assert_string_equal(asked, "");
    }
}

/* ---- what is read ---- */

static void the_file_need_be_in_no_order(void **state)
{
    (void)state;
    struct onnx_net *net =
        read_text("output y; MatMul r v -> y; Relu h -> r; Gemm x w b -> h;"
                  "float v 3,2; float b 3; float w 4,3; input x ?,4; LSTM x -> q",
                  &plain);
    struct shape record = {.rank = 1, .dims = {4}}, out;
    assert_int_equal(onnx_net_variable_count(net), 3);
    assert_string_equal(onnx_net_variables(net)[0].name, "v");
    assert_int_equal(onnx_net_variables(net)[0].init.kind, INIT_GIVEN);
    assert_int_equal(onnx_net_output(net, &record, &out, NULL), 0);
    assert_int_equal(out.rank, 1);
    assert_int_equal(out.dims[0], 2);
    struct buf text = {0};
    onnx_net_describe(net, &text);
    assert_string_equal(buf_str(&text),
                        "opset 17, 3 nodes (1 Gemm, 1 MatMul, 1 Relu), input x, output y");
    buf_release(&text);
    onnx_net_free(net);
}

static void what_is_trained(void **state)
{
    (void)state;
    static const char *const some[] = {"w", "g*"};
    const struct onnx_net_source how = {.trainable = some, .trainable_count = 2};
    static const char text[] =
        "input x ?,4,2; float w 1,4,2; float c - = 2; Mul x w -> a; Mul a c -> s; float g 4;"
        "float b 4; float m 4; float v 4; BatchNormalization s g b m v -> n : momentum=0.8;"
        "int f 2 = 0 -1; Reshape n f -> y; output y;";
    struct onnx_net *net = read_text(text, &plain);
    assert_int_equal(onnx_net_variable_count(net), 5); /* not the number c, not the shape f */
    assert_true(onnx_net_variables(net)[0].statistic == 0);
    assert_true(onnx_net_variables(net)[3].statistic > 0.199);
    assert_true(onnx_net_variables(net)[4].statistic < 0.201);
    const uint64_t all = onnx_net_fingerprint(net);
    onnx_net_free(net);
    net = read_text(text, &how);
    assert_int_equal(onnx_net_variable_count(net), 4); /* the statistics go with g */
    assert_string_equal(onnx_net_variables(net)[2].name, "m");
    assert_true(onnx_net_fingerprint(net) != all);
    onnx_net_free(net);
    static const char *const other[] = {"w"};
    const struct onnx_net_source frozen = {.trainable = other, .trainable_count = 1};
    net = read_text(text, &frozen);
    assert_int_equal(onnx_net_variable_count(net), 1);
    onnx_net_free(net);
    static const char *const none[] = {"nothing"};
    const struct onnx_net_source nothing = {.trainable = none, .trainable_count = 1};
    refused(onnx_text_model(text), &nothing, ERR_INVALID, "model.trainable");
}

/* Checkpoints and files that were exported have it: another number for the same file would make
 * them refuse it. Other nodes are another number. */
static void a_fingerprint_is_for_good(void **state)
{
    (void)state;
    struct onnx_net *net = read_text(MLP, &plain);
    assert_true(onnx_net_fingerprint(net) == 0x0CC4557B94264DB6);
    onnx_net_free(net);
    net = read_text("input x ?,4; float w 4,3; float b 3; Gemm x w b -> h; Tanh h -> r;"
                    "float v 3,2; MatMul r v -> y; output y;",
                    &plain);
    assert_true(onnx_net_fingerprint(net) == 0xFDBB22959C57A36C);
    onnx_net_free(net);
}

static void a_loss_takes_what_is_before_it(void **state)
{
    (void)state;
    static const char text[] = "input x ?,4; float w 4,3; MatMul x w -> z; Softmax z -> y;"
                               "Identity y -> i; output i; output y; output z;";
    const struct onnx_net_source linked = {.output = "i", .link = "Softmax"};
    const struct onnx_net_source other = {.output = "y", .link = "Sigmoid"};
    struct buf with = {0}, without = {0};
    struct onnx_net *net = read_text(text, &linked);
    onnx_net_describe(net, &with);
    assert_non_null(strstr(buf_str(&with), "output z"));
    onnx_net_free(net);
    net = read_text(text, &other);
    onnx_net_describe(net, &without);
    assert_non_null(strstr(buf_str(&without), "output y"));
    onnx_net_free(net);
    buf_release(&with);
    buf_release(&without);
}

static void no_output(const char *text, const struct shape *record, const char *words)
{
    struct onnx_net *net = read_text(text, &plain);
    struct shape out;
    struct err err = {0};
    if (onnx_net_output(net, record, &out, &err) != ERR_INVALID || strstr(err.msg, words) == NULL) {
        fail_msg("'%s' instead of '%s'", err.msg, words);
    }
    onnx_net_free(net);
}

static void shapes_that_do_not_fit(void **state)
{
    (void)state;
    const struct shape four = {.rank = 1, .dims = {4}}, five = {.rank = 1, .dims = {5}};
    const struct shape image = {.rank = 3, .dims = {8, 8, 3}};
    no_output(MLP, &five, "the input of the graph is [2, 4] for so many records, and these are");
    no_output("input x ?,3,8,8; float w 1,3,8,8; Mul x w -> y; output y;", &image,
              "channels first");
    no_output("input x ?,4; float w 5,3; MatMul x w -> y; output y;", &four,
              "node 'y' (MatMul): [2, 4] and [5, 3] have no product");
    no_output("input x ?,4; int f 2 = 1 8; float w 4; Mul x w -> z; Reshape z f -> y; output y;",
              &four, "[1, 8] floats for 2 records; [2, …] floats would fit");
    no_output("input x ?,4; float w 4; Mul x w -> z; ReduceSum z -> y; output y;", &four,
              "for 2 records");
    no_output("input x ?,4; float w 4; Mul x w -> z; Reshape z x -> y; output y;", &four,
              "is not known before there are records");
    no_output("input x ?,4; float w 4; Mul x w -> z; Clip z w -> y; output y;", &four,
              "is a setting; one constant number would fit");
}

static void any_number_of_records(void **state)
{
    (void)state;
    struct onnx_net *net = read_text(
        "input x ?,4; float w 4; Mul x w -> z; Shape z -> s; int i - = 0; Gather s i -> n;"
        "int a 1 = 0; Unsqueeze n a -> u; int t 2 = 2 2; Concat u t -> f : axis=0;"
        "Reshape z f -> r; ReduceSum r k -> y : keepdims=0; int k 1 = 2; output y;",
        &plain);
    const struct shape record = {.rank = 1, .dims = {4}};
    struct onnx_run *run = NULL;
    float ones[4] = {1, 1, 1, 1}, x[28], y[14], dy[14], gradient[4];
    const float *values[] = {ones};
    float *gradients[] = {gradient};
    assert_int_equal(onnx_run_new(net, &record, 7, &run, NULL), 0);
    for (size_t i = 0; i < 28; i++) {
        x[i] = (float)i;
        dy[i / 2] = 1.0F;
    }
    static const size_t counts[] = {7, 3, 1, 2, 4, 5, 7, 6};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) { /* more than plans are kept */
        const size_t n = counts[k];
        y[2 * n - 1] = 0;
        onnx_run_forward(run, n, true, 1, values, x, y);
        assert_true(y[2 * n - 1] == 8.0F * (float)n - 3.0F);
        onnx_run_backward(run, values, dy, gradients);
        assert_true(gradient[1] == (float)(n * (2 * n - 1))); /* 1 + 5 + 9 … */
    }
    assert_true(onnx_run_bytes(net, &record, 7) > 0);
    onnx_run_free(run);
    onnx_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_refused),
        cmocka_unit_test(bytes_that_are_no_file),
        cmocka_unit_test(tensors_that_contradict_themselves),
        cmocka_unit_test(tensors_in_other_files),
        cmocka_unit_test(the_file_need_be_in_no_order),
        cmocka_unit_test(what_is_trained),
        cmocka_unit_test(a_fingerprint_is_for_good),
        cmocka_unit_test(a_loss_takes_what_is_before_it),
        cmocka_unit_test(shapes_that_do_not_fit),
        cmocka_unit_test(any_number_of_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
