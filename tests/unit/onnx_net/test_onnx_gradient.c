/* SPDX-License-Identifier: Apache-2.0 */
/* Every operator of the table: its gradients beside differences of its output. */
#include "support/test.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_net.h"
#include "onnx_net/onnx_op.h"
#include "support/onnx_text.h"

#define RECORDS 3
#define STEP 1e-3F
#define ELEMENTS_MAX 4096

struct gradient_case {
    const char *name;
    const char *record; /* of x; it is multiplied by a variable s, so that gradients pass through
                           everything */
    const char *text;   /* from z to y */
    bool evaluates;     /* without dropout and statistics of the batch */
};

/* At least one for each operator. */
static const struct gradient_case cases[] = {
    {"add of a row", "4", "float w 4; Add z w -> y", false},
    {"add of a column", "2,3", "float w 2,1; Add w z -> y", false},
    {"add to itself", "4", "Add z z -> y", false},
    {"sub", "4", "float w 4; Sub w z -> y", false},
    {"mul of different ranks", "2,3", "float w 3; Mul z w -> y", false},
    {"mul by a number", "2,3", "float w 1; Mul z w -> y", false},
    {"square by mul", "4", "Mul z z -> y", false},
    {"div", "4", "float w 4; Div z w -> y", false},
    {"div by it", "4", "float w 1; Div w z -> y", false},
    {"pow 2", "4", "float e - = 2; Pow z e -> y", false},
    {"pow 0.5", "4", "float e - = 0.5; Pow z e -> y", false},
    {"pow 1.7", "4", "float e 1 = 1.7; Pow z e -> y", false},
    {"sqrt", "4", "Sqrt z -> y", false},
    {"erf", "4", "Erf z -> y", false},
    {"exp", "4", "Exp z -> y", false},
    {"log", "4", "Log z -> y", false},
    {"neg", "4", "Neg z -> y", false},
    {"abs", "4", "Neg z -> n; Abs n -> y", false},
    {"reciprocal", "4", "Reciprocal z -> y", false},
    {"relu", "4", "float w 4 = 0.7; Sub z w -> d; Relu d -> y", false},
    {"leaky relu", "4", "float w 4 = 0.7; Sub z w -> d; LeakyRelu d -> y : alpha=0.2", false},
    {"elu", "4", "float w 4 = 0.7; Sub z w -> d; Elu d -> y : alpha=0.7", false},
    {"softplus", "4", "Softplus z -> y", false},
    {"gelu", "4", "opset 20; Gelu z -> y", false},
    {"gelu by tanh", "4", "opset 20; Gelu z -> y : approximate=tanh", false},
    {"sigmoid", "4", "Sigmoid z -> y", false},
    {"tanh", "4", "Tanh z -> y", false},
    {"clip", "4", "float a - = 0.4; float b - = 0.9; Clip z a b -> y", false},
    {"clip by attributes", "4", "opset 9; Clip z -> y : min=0.4 max=0.9", false},
    {"dropout", "40", "float r - = 0.4; Dropout z r -> y", false},
    {"dropout of opset 7", "40", "opset 7; Dropout z -> y mask : ratio=0.3", false},
    {"dropout without training", "8", "Dropout z -> y", true},
    {"matmul", "5", "float w 5,4; MatMul z w -> y", false},
    {"matmul of stacks", "2,5", "float w 2,5,4; Unsqueeze z a -> u; MatMul u w -> y; int a 1 = 2",
     false},
    {"matmul with its transpose", "3,5", "Transpose z -> t : perm=0,2,1; MatMul z t -> y", false},
    {"matmul by a vector", "3,5", "float w 5; MatMul z w -> y", false},
    {"gemm", "5", "float w 5,4; float b 4; Gemm z w b -> y", false},
    {"gemm transposed", "5",
     "float w 4,5; float b 1,4; Gemm z w b -> y : transB=1 alpha=0.5 beta=2", false},
    {"gemm with a column", "3", "float w 4,3; float b 4,1; Gemm w z b -> y : transB=1", false},
    {"gemm of turned inputs", "5", "float w 3,4; Gemm z w -> y : transA=1", false},
    {"conv", "2,5,4", "float w 3,2,3,2; float b 3; Conv z w b -> y : pads=1,0,1,1 strides=2,1",
     false},
    {"conv of 1 x 1", "2,3,4", "float w 3,2,1,1; Conv z w -> y", false},
    {"conv in groups with holes", "4,6",
     "float w 4,2,2; Conv z w -> y : group=2 dilations=2 auto_pad=SAME_UPPER", false},
    {"max pool", "2,5,5", "MaxPool z -> y : kernel_shape=3,2 strides=2,2 pads=1,0,1,1", false},
    {"max pool that rounds up", "1,5", "MaxPool z -> y : kernel_shape=2 strides=2 ceil_mode=1",
     false},
    {"average pool", "2,5,5", "AveragePool z -> y : kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
     false},
    {"average pool with padding", "2,5,5",
     "AveragePool z -> y : kernel_shape=3,3 strides=2,2 pads=1,1,1,1 count_include_pad=1", false},
    {"global average pool", "2,3,4", "GlobalAveragePool z -> y", false},
    {"global max pool", "2,3,4", "GlobalMaxPool z -> y", false},
    {"batch norm", "2,3,2",
     "float g 2; float b 2; float m 2; float v 2; BatchNormalization z g b m v -> y", false},
    {"batch norm that is evaluated", "2,3",
     "float g 2; float b 2; float m 2; float v 2; BatchNormalization z g b m v -> y", true},
    {"layer norm", "3,4", "float g 4; float b 4; LayerNormalization z g b -> y", false},
    {"layer norm without shift", "3,4", "float g 12; Flatten z -> f; LayerNormalization f g -> y",
     false},
    {"softmax", "5", "Softmax z -> y", false},
    {"softmax along the channels", "4,3", "Softmax z -> y : axis=1", false},
    {"softmax of opset 11", "2,3", "opset 11; Softmax z -> y", false},
    {"log softmax", "5", "LogSoftmax z -> y", false},
    {"reduce sum", "3,4", "int a 1 = 1; ReduceSum z a -> y : keepdims=0", false},
    {"reduce sum of opset 11", "3,4", "opset 11; ReduceSum z -> y : axes=2", false},
    {"reduce mean", "3,4", "ReduceMean z -> y : axes=1,2", false},
    {"gather", "3",
     "float w 5,2; int i 2 = 4 -2; Gather w i -> g; Reshape g f -> r; int f 1 = -1;"
     "Concat r r -> t : axis=0; Unsqueeze t a -> u; int a 1 = 0;"
     "float p 3,8; MatMul z p -> q; Add q u -> y",
     false},
    {"gather of columns", "4",
     "int i - = 2; Gather z i -> g : axis=1; Unsqueeze g a -> y;"
     "int a 1 = 1",
     false},
    {"pad", "2,3", "int p 6 = 0 1 1 0 0 2; Pad z p -> y", false},
    {"pad by reflection", "4", "int p 4 = 0 3 0 -1; Pad z p -> y : mode=reflect", false},
    {"reshape", "2,6", "int f 3 = 0 3 -1; Reshape z f -> y", false},
    {"reshape by the shape", "2,6",
     "Shape z -> h; int i - = 0; Gather h i -> n; int a 1 = 0; Unsqueeze n a -> u; int m 1 = -1;"
     "Concat u m -> f : axis=0; Reshape z f -> y",
     false},
    {"transpose", "2,3", "Transpose z -> t : perm=0,2,1; Sigmoid t -> y", false},
    {"flatten", "2,3", "Flatten z -> f; Tanh f -> y", false},
    {"squeeze and unsqueeze", "1,4",
     "int a 1 = 1; Squeeze z a -> q; Exp q -> e; int b 1 = -1; Unsqueeze e b -> y", false},
    {"concat", "2", "float w 3,4; Concat z w z -> y : axis=1", false},
    {"split", "6", "Split z -> a b c : axis=1; Mul a c -> y", false},
    {"split of given sizes", "6",
     "int n 2 = 2 4; Split z n -> a b : axis=1; int from 1 = 0; int to 1 = 2; int ax 1 = 1;"
     "Slice b from to ax -> c; Mul a c -> y",
     false},
    {"slice backwards", "6",
     "int from 1 = 5; int e 1 = -100; int a 1 = 1; int p 1 = -2; Slice z from e a p -> y", false},
    {"slice of opset 9", "6", "opset 9; Slice z -> y : starts=1 ends=-1 axes=1", false},
    {"expand", "1,3", "int f 3 = 1 4 1; Expand z f -> y", false},
    {"cast and identity", "3", "Cast z -> c : to=1; Identity c -> y", false},
    {"attention's scale", "3,4",
     "Shape z -> h : start=-1; int q 1 = 1; Mul h q -> h1; Cast h1 -> f : to=1; Sqrt f -> r;"
     "Div z r -> y",
     false},
    {"positions", "3,4",
     "int o - = 0; int t - = 3; int d - = 1; Range o t d -> p; float w 7,4; Gather w p -> e;"
     "Add z e -> y",
     false},
    {"whole numbers", "4",
     "int q 2 = 2 3; ReduceProd q -> n; int six 1 = -2; Add n six -> four; Sub four six -> k;"
     "Div k six -> m; Constant -> c : value_float=0.5; int sh 1 = 4;"
     "ConstantOfShape sh -> o; Add o z -> w; Mul w c -> v; Reshape v m2 -> y;"
     "int b 1 = -1; Concat m b -> m1 : axis=1; Constant -> m2 : value_ints=0,-1",
     false},
};
#define CASES (sizeof cases / sizeof cases[0])

struct bench {
    struct onnx_net *net;
    struct onnx_run *run;
    float *x, *y, *dy;
    size_t outputs;
    float **values, **gradients; /* [variables] */
    size_t count;
    bool training;
};

static void read_net(struct bench *b, const struct gradient_case *c)
{
    struct err err = {0};
    char text[2048];
    (void)snprintf(text, sizeof text, "input x ?,%s; float s 1,%s; Mul x s -> z; output y; %s",
                   c->record, c->record, c->text);
    struct onnx_net_source source = {.bytes = NULL};
    void *bytes = onnx_text_pack(onnx_text_model(text), &source.n);
    source.bytes = bytes;
    if (onnx_net_read(&source, &b->net, &err) != 0) {
        fail_msg("%s: %s", c->name, err.msg);
    }
    free(bytes);
}

static void open_bench(struct bench *b, const struct gradient_case *c)
{
    struct err err = {0};
    struct shape record = {.rank = 0};
    read_net(b, c);
    for (const char *at = c->record; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        record.dims[record.rank] = strtoull(at, NULL, 10);
        record.rank++;
    }
    if (onnx_run_new(b->net, &record, RECORDS, &b->run, &err) != 0) {
        fail_msg("%s: %s", c->name, err.msg);
    }
    b->training = !c->evaluates;
    b->count = onnx_net_variable_count(b->net);
    b->values = mem_new(b->count + 1, sizeof *b->values);
    b->gradients = mem_new(b->count + 1, sizeof *b->gradients);
    for (size_t i = 0; i < b->count; i++) {
        const size_t n = (size_t)shape_count(&onnx_net_variables(b->net)[i].shape);
        b->values[i] = mem_new(n, sizeof(float));
        b->gradients[i] = mem_new(n, sizeof(float));
        memcpy(b->values[i], onnx_net_initial(b->net, i), n * sizeof(float));
    }
    b->x = mem_new(ELEMENTS_MAX, sizeof *b->x);
    b->y = mem_new(ELEMENTS_MAX, sizeof *b->y);
    b->dy = mem_new(ELEMENTS_MAX, sizeof *b->dy);
    for (size_t i = 0; i < ELEMENTS_MAX; i++) { /* no two alike: largest ones stay it */
        b->x[i] = 0.4F + (float)((i * 61) % 211) / 140.0F;
        b->dy[i] = (float)((i * 53) % 17) / 8.0F - 0.9F;
    }
    /* Without an end of its own it would not be seen. */
    for (size_t i = 0; i < ELEMENTS_MAX; i++) {
        b->y[i] = NAN;
    }
}

static void close_bench(struct bench *b)
{
    for (size_t i = 0; i < b->count; i++) {
        free(b->values[i]);
        free(b->gradients[i]);
    }
    free(b->values);
    free(b->gradients);
    free(b->x);
    free(b->y);
    free(b->dy);
    onnx_run_free(b->run);
    onnx_net_free(b->net);
}

/* The sum of the outputs times dy. */
static double loss_of(struct bench *b)
{
    double sum = 0;
    onnx_run_forward(b->run, RECORDS, b->training, 7, (const float *const *)b->values, b->x, b->y);
    for (size_t i = 0; i < ELEMENTS_MAX && !isnan(b->y[i]); i++) {
        sum += (double)b->y[i] * (double)b->dy[i];
    }
    return sum;
}

static void check_element(struct bench *b, const struct gradient_case *c, size_t v, size_t i)
{
    float *at = &b->values[v][i], was = *at;
    *at = was + STEP;
    const double above = loss_of(b);
    *at = was - STEP;
    const double below = loss_of(b);
    *at = was;
    const double want = (above - below) / (2.0 * (double)STEP), have = (double)b->gradients[v][i];
    if (!(fabs(want - have) <= 2e-2 + 2e-2 * fabs(want))) {
        fail_msg("%s: gradient %zu of %s is %g, and differences say %g", c->name, i,
                 onnx_net_variables(b->net)[v].name, have, want);
    }
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    for (size_t k = 0; k < CASES; k++) {
        struct bench b = {0};
        double moved = 0;
        open_bench(&b, &cases[k]);
        (void)loss_of(&b);
        assert_true(b.y[0] == b.y[0]);
        onnx_run_backward(b.run, (const float *const *)b.values, b.dy, b.gradients);
        for (size_t v = 0; v < b.count; v++) {
            const struct variable_spec *spec = &onnx_net_variables(b.net)[v];
            for (size_t i = 0; i < shape_count(&spec->shape) && spec->statistic == 0; i++) {
                check_element(&b, &cases[k], v, i);
                moved += fabs((double)b.gradients[v][i]);
            }
        }
        if (moved == 0) {
            fail_msg("%s: no gradient at all", cases[k].name);
        }
        close_bench(&b);
    }
}

static void every_operator_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; onnx_op_at(i) != NULL; i++) {
        bool found = false;
        char word[64];
        (void)snprintf(word, sizeof word, "%s ", onnx_op_at(i)->type);
        for (size_t k = 0; k < CASES; k++) {
            const char *at = strstr(cases[k].text, word);
            found = found || (at != NULL && (at == cases[k].text || !isalpha(at[-1])));
        }
        if (!found && strcmp(onnx_op_at(i)->type, "Mul") != 0) {
            fail_msg("no case has a %s", onnx_op_at(i)->type);
        }
    }
}

static void bits_repeat(void **state)
{
    (void)state;
    for (size_t k = 0; k < CASES; k++) {
        struct bench a = {0}, b = {0};
        open_bench(&a, &cases[k]);
        open_bench(&b, &cases[k]);
        const double first = loss_of(&a), second = loss_of(&b);
        assert_true(first == second);
        onnx_run_backward(a.run, (const float *const *)a.values, a.dy, a.gradients);
        onnx_run_backward(b.run, (const float *const *)b.values, b.dy, b.gradients);
        for (size_t v = 0; v < a.count; v++) {
            const size_t n = (size_t)shape_count(&onnx_net_variables(a.net)[v].shape);
            assert_memory_equal(a.gradients[v], b.gradients[v], n * sizeof(float));
        }
        close_bench(&a);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_is_checked),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(bits_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
