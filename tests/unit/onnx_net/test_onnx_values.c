/* SPDX-License-Identifier: Apache-2.0 */
/* What operators come to, in numbers that are worked out by hand: gradients beside differences of
 * the output say nothing of the output itself. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_net.h"
#include "support/onnx_text.h"

#define RECORDS 2
#define VALUES_MAX 16
#define TOLERANCE 1e-4

/* The numbers of the records are 1, 2, 3 … */
struct value_case {
    const char *record; /* shape of x */
    const char *text;   /* from x to y */
    const char *out;    /* shape of y for one record; dimensions of 1 are left out */
    float y[VALUES_MAX];
};

static const struct value_case cases[] = {
    {"4", "float w 4 = 1 2 3 4; Add x w -> y", "4", {2, 4, 6, 8, 6, 8, 10, 12}},
    {"4", "float w 4 = 1 2 3 4; Sub w x -> y", "4", {0, 0, 0, 0, -4, -4, -4, -4}},
    {"2,2", "float w 2,1 = 10 100; Mul x w -> y", "2,2", {10, 20, 300, 400, 50, 60, 700, 800}},
    {"2,2", "float w 2 = 10 100; Mul x w -> y", "2,2", {10, 200, 30, 400, 50, 600, 70, 800}},
    {"4", "float w 1 = 12; Div w x -> y", "4", {12, 6, 4, 3, 2.4F, 2, 12.0F / 7, 1.5F}},
    {"3", "float e - = 2; Pow x e -> y", "3", {1, 4, 9, 16, 25, 36}},
    {"2", "float e - = 0.5; Pow x e -> y", "2", {1, 1.4142136F, 1.7320508F, 2}},
    {"2", "float e - = -1; Pow x e -> y", "2", {1, 0.5F, 1.0F / 3, 0.25F}},
    {"1", "Sqrt x -> y", "1", {1, 1.4142136F}},
    {"1", "Exp x -> y", "1", {2.7182818F, 7.3890561F}},
    {"1", "Log x -> y", "1", {0, 0.6931472F}},
    {"1", "Erf x -> y", "1", {0.8427008F, 0.9953223F}},
    {"1", "Neg x -> y", "1", {-1, -2}},
    {"1", "Neg x -> n; Abs n -> y", "1", {1, 2}},
    {"1", "Reciprocal x -> y", "1", {1, 0.5F}},
    {"1", "Softplus x -> y", "1", {1.3132617F, 2.1269280F}},
    {"1", "Sigmoid x -> y", "1", {0.7310586F, 0.8807971F}},
    {"1", "Tanh x -> y", "1", {0.7615942F, 0.9640276F}},
    {"1", "opset 20; Gelu x -> y", "1", {0.8413447F, 1.9544997F}},
    {"1", "opset 20; Gelu x -> y : approximate=tanh", "1", {0.8411920F, 1.9545977F}},
    {"4", "float w 4 = 2 2 2 9; Sub x w -> d; Relu d -> y", "4", {0, 0, 1, 0, 3, 4, 5, 0}},
    {"4",
     "float w 4 = 2 2 2 9; Sub x w -> d; LeakyRelu d -> y : alpha=0.1",
     "4",
     {-0.1F, 0, 1, -0.5F, 3, 4, 5, -0.1F}},
    {"4",
     "float w 4 = 2 2 2 9; Sub x w -> d; Elu d -> y : alpha=2",
     "4",
     {-1.2642411F, 0, 1, -1.9865241F, 3, 4, 5, -1.2642411F}},
    {"4", "float a - = 2; float b - = 6; Clip x a b -> y", "4", {2, 2, 3, 4, 5, 6, 6, 6}},
    {"4", "float a - = 2; Clip x a -> y", "4", {2, 2, 3, 4, 5, 6, 7, 8}},
    {"4", "float b - = 6; Clip x '' b -> y", "4", {1, 2, 3, 4, 5, 6, 6, 6}},
    {"4", "opset 9; Clip x -> y : max=3", "4", {1, 2, 3, 3, 3, 3, 3, 3}},
    {"4", "float r - = 0.5; Dropout x r -> y", "4", {1, 2, 3, 4, 5, 6, 7, 8}},
    {"4", "Cast x -> c : to=1; Identity c -> y", "4", {1, 2, 3, 4, 5, 6, 7, 8}},

    {"2", "float w 2,2 = 1 2 3 4; MatMul x w -> y", "2", {7, 10, 15, 22}},
    {"2,2", "float w 2,1 = 1 10; MatMul x w -> y", "2", {21, 43, 65, 87}},
    {"2,2", "float w 2 = 1 10; MatMul x w -> y", "2", {21, 43, 65, 87}},
    {"2,1", "Transpose x -> t : perm=0,2,1; MatMul x t -> y", "2,2", {1, 2, 2, 4, 9, 12, 12, 16}},
    {"2",
     "float w 2,2 = 1 2 3 4; float b 2 = 1 2; Gemm x w b -> y : transB=1 alpha=0.5 beta=2",
     "2",
     {4.5F, 9.5F, 7.5F, 16.5F}},
    {"1,4", "float w 1,1,2 = 1 10; Conv x w -> y", "3", {21, 32, 43, 65, 76, 87}},
    {"1,4",
     "float w 1,1,2 = 1 10; Conv x w -> y : pads=1,0",
     "4",
     {10, 21, 32, 43, 50, 65, 76, 87}},
    {"1,4",
     "float w 1,1,2 = 1 10; float b 1 = 100; Conv x w b -> y : pads=1,1 strides=2",
     "3",
     {110, 132, 104, 150, 176, 108}},
    {"1,4", "float w 1,1,2 = 1 10; Conv x w -> y : dilations=2", "2", {31, 42, 75, 86}},
    {"2,2", "float w 2,1,1 = 1 10; Conv x w -> y : group=2", "2,2", {1, 2, 30, 40, 5, 6, 70, 80}},
    {"1,4",
     "float w 1,1,2 = 1 10; Conv x w -> y : auto_pad=SAME_UPPER",
     "4",
     {21, 32, 43, 4, 65, 76, 87, 8}},
    {"1,4",
     "float w 1,1,2 = 1 10; Conv x w -> y : auto_pad=SAME_LOWER",
     "4",
     {10, 21, 32, 43, 50, 65, 76, 87}},
    {"1,2,2", "float w 2,1,1,2 = 1 10 1 0; Conv x w -> y", "2,2", {21, 43, 1, 3, 65, 87, 5, 7}},

    {"1,4", "MaxPool x -> y : kernel_shape=2", "3", {2, 3, 4, 6, 7, 8}},
    {"1,4", "MaxPool x -> y : kernel_shape=2 strides=2", "2", {2, 4, 6, 8}},
    {"1,5", "MaxPool x -> y : kernel_shape=2 strides=2", "2", {2, 4, 7, 9}},
    {"1,5", "MaxPool x -> y : kernel_shape=2 strides=2 ceil_mode=1", "3", {2, 4, 5, 7, 9, 10}},
    {"1,2,2", "MaxPool x -> y : kernel_shape=2,2", "1", {4, 8}},
    {"1,2,2", "MaxPool x -> y : kernel_shape=1,2", "2", {2, 4, 6, 8}},
    {"1,4", "AveragePool x -> y : kernel_shape=2 strides=2", "2", {1.5F, 3.5F, 5.5F, 7.5F}},
    {"1,4",
     "AveragePool x -> y : kernel_shape=2 strides=2 pads=1,1",
     "3",
     {1, 2.5F, 4, 5, 6.5F, 8}},
    {"1,4",
     "AveragePool x -> y : kernel_shape=2 strides=2 pads=1,1 count_include_pad=1",
     "3",
     {0.5F, 2.5F, 2, 2.5F, 6.5F, 4}},
    {"2,2", "GlobalAveragePool x -> y", "2", {1.5F, 3.5F, 5.5F, 7.5F}},
    {"2,2", "GlobalMaxPool x -> y", "2", {2, 4, 6, 8}},

    {"2",
     "float g 2 = 2 1; float b 2 = 0 5; float m 2 = 1 2; float v 2 = 4 1;"
     "BatchNormalization x g b m v -> y",
     "2",
     {0, 5, 2, 7}},
    {"2", "float g 2 = 2 1; float b 2 = 0 5; LayerNormalization x g b -> y", "2", {-2, 6, -2, 6}},
    {"2", "float g 2 = 2 1; LayerNormalization x g -> y", "2", {-2, 1, -2, 1}},
    {"2", "Softmax x -> y", "2", {0.2689414F, 0.7310586F, 0.2689414F, 0.7310586F}},
    {"2,2",
     "Softmax x -> y : axis=1",
     "2,2",
     {0.1192029F, 0.1192029F, 0.8807971F, 0.8807971F, 0.1192029F, 0.1192029F, 0.8807971F,
      0.8807971F}},
    {"2,2",
     "opset 11; Softmax x -> y",
     "2,2",
     {0.0320586F, 0.0871443F, 0.2368828F, 0.6439143F, 0.0320586F, 0.0871443F, 0.2368828F,
      0.6439143F}},
    {"2", "LogSoftmax x -> y", "2", {-1.3132617F, -0.3132617F, -1.3132617F, -0.3132617F}},
    {"2",
     "float w 1 = 100000; Add x w -> s; LogSoftmax s -> y",
     "2",
     {-1.3132617F, -0.3132617F, -1.3132617F, -0.3132617F}},

    {"4", "ReduceMean x -> y : axes=1", "1", {2.5F, 6.5F}},
    {"2,2", "ReduceMean x -> y : axes=1,2 keepdims=0", "1", {2.5F, 6.5F}},
    {"2,2", "int a 1 = 1; ReduceSum x a -> y : keepdims=0", "2", {4, 6, 12, 14}},
    {"2,2", "int a 1 = -1; ReduceSum x a -> y", "2", {3, 7, 11, 15}},
    {"4", "ReduceSum x -> y : noop_with_empty_axes=1", "4", {1, 2, 3, 4, 5, 6, 7, 8}},

    {"2", "Neg x -> n; Concat x n x -> y : axis=1", "6", {1, 2, -1, -2, 1, 2, 3, 4, -3, -4, 3, 4}},
    {"6", "Split x -> a b c : axis=1; Sub c a -> y", "2", {4, 4, 4, 4}},
    {"5", "Split x -> a y : axis=-1", "2", {4, 5, 9, 10}},
    {"4", "int n 2 = 3 1; Split x n -> a y : axis=1", "1", {4, 8}},
    {"4",
     "int n 6 = 7 9 1 3 0 4; Split n -> a b c : axis=0; Reshape x c -> y",
     "4",
     {1, 2, 3, 4, 5, 6, 7, 8}},
    {"4", "int i 2 = 2 -4; Gather x i -> y : axis=1", "2", {3, 1, 7, 5}},
    {"2,2", "int i - = 1; Gather x i -> y : axis=1", "2", {3, 4, 7, 8}},
    {"4",
     "float w 8,1 = 10 20 30 40 50 60 70 80; Cast x -> i : to=7; Gather w i -> y",
     "4",
     {20, 30, 40, 50, 60, 70, 80, NAN}},
    {"2,3", "Transpose x -> y : perm=0,2,1", "3,2", {1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12}},
    {"4", "int f 1 = 1; int t 1 = 3; int a 1 = 1; Slice x f t a -> y", "2", {2, 3, 6, 7}},
    {"4", "int f 2 = 0 1; int t 2 = 9 9; Slice x f t -> y", "3", {2, 3, 4, 6, 7, 8}},
    {"4",
     "int f 1 = -1; int t 1 = -100; int a 1 = 1; int p 1 = -2; Slice x f t a p -> y",
     "2",
     {4, 2, 8, 6}},
    {"4", "opset 9; Slice x -> y : starts=1 ends=-1 axes=1", "2", {2, 3, 6, 7}},
    {"1,2", "int f 3 = 1 2 1; Expand x f -> y", "2,2", {1, 2, 1, 2, 3, 4, 3, 4}},
    {"2", "int p 4 = 0 1 0 2; float v - = 9; Pad x p v -> y", "5", {9, 1, 2, 9, 9, 9, 3, 4, 9, 9}},
    {"2,2", "opset 10; Pad x -> y : pads=0,0,1,0,0,0", "2,3", {0, 1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 8}},
    {"4", "int p 4 = 0 -1 0 -2; Pad x p -> y", "1", {2, 6}},
    {"3", "int p 4 = 0 2 0 1; Pad x p -> y : mode=edge", "6", {1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6}},
    {"3",
     "int p 4 = 0 2 0 2; Pad x p -> y : mode=reflect",
     "7",
     {3, 2, 1, 2, 3, 2, 1, 6, 5, 4, 5, 6, 5, 4}},
    {"2",
     "opset 19; int p 2 = 3 1; int a 1 = -1; Pad x p '' a -> y : mode=wrap",
     "6",
     {2, 1, 2, 1, 2, 1, 4, 3, 4, 3, 4, 3}},
    {"2,3", "int f 3 = 0 3 -1; Reshape x f -> y", "3,2", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
    {"2,2", "Flatten x -> y", "4", {1, 2, 3, 4, 5, 6, 7, 8}},
    {"1,2", "Squeeze x -> y", "2", {1, 2, 3, 4}},
    {"1,2,1", "int a 1 = -1; Squeeze x a -> y", "2", {1, 2, 3, 4}},
    {"2", "int a 2 = 1 -1; Unsqueeze x a -> y", "2", {1, 2, 3, 4}},
    {"4",
     "int o - = 1; int t - = 8; int d - = 2; Range o t d -> p; Cast p -> f : to=1; Add x f -> y",
     "4",
     {2, 5, 8, 11, 6, 9, 12, 15}},
    {"2", "int sh 1 = 2; ConstantOfShape sh -> o; Add x o -> y", "2", {1, 2, 3, 4}},
    {"2", "Constant -> c : value_float=0.5; Mul x c -> y", "2", {0.5F, 1, 1.5F, 2}},
};
#define CASES (sizeof cases / sizeof cases[0])

static struct shape shape_of(const char *text)
{
    struct shape out = {.rank = 0};
    for (const char *at = text; at != NULL && *text != '\0'; at = strchr(at, ',')) {
        at += *at == ',';
        out.dims[out.rank] = strtoull(at, NULL, 10);
        out.rank++;
    }
    return out;
}

static struct onnx_net *read_case(const struct value_case *c)
{
    struct err err = {0};
    char text[1024];
    struct onnx_net *net = NULL;
    (void)snprintf(text, sizeof text, "input x ?,%s; output y; %s", c->record, c->text);
    struct onnx_net_source source = {.bytes = NULL};
    void *bytes = onnx_text_pack(onnx_text_model(text), &source.n);
    source.bytes = bytes;
    if (onnx_net_read(&source, &net, &err) != 0) {
        fail_msg("%s: %s", c->text, err.msg);
    }
    free(bytes);
    return net;
}

/* How many numbers it has for all records. */
static size_t check_shape(const struct onnx_net *net, const struct value_case *c)
{
    const struct shape record = shape_of(c->record), want = shape_of(c->out);
    struct shape have;
    struct err err = {0};
    if (onnx_net_output(net, &record, &have, &err) != 0) {
        fail_msg("%s: %s", c->text, err.msg);
    }
    if (have.rank != want.rank ||
        memcmp(have.dims, want.dims, want.rank * sizeof want.dims[0]) != 0) {
        fail_msg("%s: the output has another shape", c->text);
    }
    return RECORDS * (size_t)shape_count(&want);
}

static void check_case(const struct value_case *c)
{
    struct err err = {0};
    struct onnx_net *net = read_case(c);
    struct onnx_run *run = NULL;
    const struct shape record = shape_of(c->record);
    const size_t n = check_shape(net, c), count = onnx_net_variable_count(net);
    float x[VALUES_MAX], y[VALUES_MAX + 1];
    const float **values = mem_new(count + 1, sizeof *values);
    for (size_t i = 0; i < VALUES_MAX; i++) {
        x[i] = (float)(i + 1);
        y[i] = -999;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = onnx_net_initial(net, i);
    }
    assert_true(n <= VALUES_MAX);
    y[n] = -999;
    if (onnx_run_new(net, &record, RECORDS, &run, &err) != 0) {
        fail_msg("%s: %s", c->text, err.msg);
    }
    onnx_run_forward(run, RECORDS, false, 0, values, x, y);
    for (size_t i = 0; i < n; i++) {
        const bool same = isnan(c->y[i]) ? isnan(y[i])
                                         : fabs((double)y[i] - (double)c->y[i]) <=
                                               TOLERANCE * (1 + fabs((double)c->y[i]));
        if (!same) {
            fail_msg("%s: number %zu is %g, not %g", c->text, i, (double)y[i], (double)c->y[i]);
        }
    }
    assert_true(y[n] == -999); /* and none more */
    onnx_run_free(run);
    onnx_net_free(net);
    free(values);
}

static void operators_come_to_these_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        check_case(&cases[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_come_to_these_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
