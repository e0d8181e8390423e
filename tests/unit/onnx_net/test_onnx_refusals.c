/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that cannot do with what they get say what is wrong, and at which node. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_net/onnx_net.h"
#include "support/onnx_text.h"

struct refusal {
    const char *record; /* shape of x */
    const char *text;   /* from x to y */
    const char *words;
};

static const struct refusal cases[] = {
    {"4", "float w 5; Add x w -> y", "shapes [2, 4] and [5] do not go together"},
    {"4", "int n 1 = 4; int z 1 = 0; Div n z -> d; Reshape x d -> y", "no whole result"},
    {"4", "Constant -> c; Add x c -> y", "it has no value of numbers"},
    {"4", "int sh 1 = -2; ConstantOfShape sh -> o; Add o x -> y", "is to be -2"},
    {"4", "int o 2 = 0 1; int t - = 4; int d - = 1; Range o t d -> p; Gather x p -> y : axis=1",
     "no start, limit and step of one number each"},
    {"4", "Cast x -> y : to=8", "it casts to type 8; float"},
    {"4", "int n 2 = 1 2; Sqrt n -> q; Reshape x q -> y", "has whole numbers; floats would fit"},
    {"4", "int n 2 = 1 2; Softmax n -> q; Mul x q -> y", "has whole numbers; floats would fit"},

    {"3,5", "float w 3,2,3; Conv x w -> y", "weights [3, 2, 3] do not fit 3 channels in 1 groups"},
    {"4,5", "float w 3,2,3; Conv x w -> y : group=2",
     "weights [3, 2, 3] do not fit 4 channels in 2 groups"},
    {"3,5", "float w 3,3,3; float b 2; Conv x w b -> y", "the bias has 2 numbers for 3 filters"},
    {"3,5", "float w 3,3,3,3; Conv x w -> y", "the weights have 4 dimensions and the images 3"},
    {"1,4", "float w 1,1,5; Conv x w -> y", "a window of 5 does not fit an input of 4"},
    {"1,4", "float w 1,1,2; Conv x w -> y : strides=1,1", "strides has 2 numbers; 1 would fit"},
    {"1,4", "float w 1,1,2; Conv x w -> y : strides=0", "strides is 0; from 1 to"},
    {"1,4", "float w 1,1,2; Conv x w -> y : dilations=0", "dilations is 0; from 1 to"},
    {"1,4", "float w 1,1,2; Conv x w -> y : pads=-1,0", "pads is -1; from 0 to"},
    {"1,4", "MaxPool x -> y : kernel_shape=2,2", "kernel_shape has 2 numbers for an input of 3"},
    {"1,4", "MaxPool x -> y : kernel_shape=2 storage_order=1", "storage_order is not 0"},
    {"1,4", "AveragePool x -> y : kernel_shape=5", "a window of 5 does not fit an input of 4"},
    {"4", "AveragePool x -> y : kernel_shape=2", "kernel_shape has 1 numbers for an input of 2"},
    {"4", "GlobalAveragePool x -> y", "its input has 2 dimensions"},
    {"4", "float w 1,1,2; Conv x w -> y", "the weights have 3 dimensions and the images 2"},

    {"4", "float w 2,3; Concat x w -> y : axis=0",
     "input 1 is [2, 3], and those before it are [2, 4]"},
    {"4", "Concat x '' x -> y : axis=1", "input 1 is left out"},
    {"4", "float w 2,4; Concat x w -> y : axis=2", "axis 2 of a tensor of 2 dimensions"},
    {"4", "int n 2 = 2 3; Split x n -> a y : axis=1", "2 sizes for 2 outputs of 4 altogether"},
    {"4", "int n 3 = 1 1 2; Split x n -> a y : axis=1", "3 sizes for 2 outputs of 4 altogether"},
    {"4", "int n 2 = -1 5; Split x n -> a y : axis=1", "2 sizes for 2 outputs of 4 altogether"},
    {"4", "int n 2 = 1 2; Split x n -> a y : axis=1", "1 of 4 are in no output"},
    {"4", "int i 1 = 4; Gather x i -> y : axis=1", "index 4 of 4 rows"},
    {"4", "int i 1 = -5; Gather x i -> y : axis=1", "index -5 of 4 rows"},
    {"4", "float i 2; Gather x i -> y : axis=1", "its indices are floats"},

    {"2", "float g 3; float b 2; float m 2; float v 2; BatchNormalization x g b m v -> y",
     "input 1 has 3 numbers for 2 channels"},
    {"2", "float g 2; float b 2; float m 2; float v 3; BatchNormalization x g b m v -> y",
     "input 4 has 3 numbers for 2 channels"},
    {"4", "float g 3; LayerNormalization x g -> y", "input 1 has 3 numbers; 4 would fit"},
    {"4", "float g 4; float b 5; LayerNormalization x g b -> y",
     "input 2 has 5 numbers; 4 would fit"},
    {"4", "float r - = 1; Dropout x r -> y", "ratio is 1; from 0 to less than 1"},
    {"4", "float r - = -0.5; Dropout x r -> y", "ratio is -0.5; from 0 to less than 1"},
    {"4", "Softmax x -> y : axis=2", "axis 2 of a tensor of 2 dimensions; from -2 to 1 would fit"},
    {"4", "Softmax x -> y : axis=-3", "axis -3 of a tensor of 2 dimensions"},

    {"2,2", "Transpose x -> y : perm=0,1", "perm has 2 numbers for 3 dimensions"},
    {"2,2", "Transpose x -> y : perm=0,1,1", "perm names axis 1 twice"},
    {"4", "int f 2 = 0 1; int t 1 = 9; Slice x f t -> y", "2 starts, 1 ends"},
    {"4", "int f 1 = 0; int t 1 = 9; int a 1 = 1; int p 1 = 0; Slice x f t a p -> y", "steps of 0"},
    {"4", "int f 2 = 0 0; int t 2 = 9 9; int a 2 = 1 -1; Slice x f t a -> y",
     "axis 1 is cut twice"},
    {"4", "int f 2 = 1 3; Expand x f -> y", "shapes [2, 4] and [1, 3] do not go together"},
    {"4", "int f 2 = 1 -3; Expand x f -> y", "is to be -3"},

    {"4", "int p 3 = 0 1 0; Pad x p -> y", "pads has 3 numbers for 2 dimensions; 4 would fit"},
    {"4", "int p 4 = 0 -3 0 -2; Pad x p -> y",
     "axis 1, which has 4, is padded twice, or by -3 and"},
    {"4", "int p 4 = 1 1 1 1; int a 2 = 1 -1; Pad x p '' a -> y", "axis 1, which has 4, is padded"},
    {"4", "int p 4 = 0 1 0 0; Pad x p -> y : mode=mirror", "none of constant, edge, reflect"},
    {"4", "int p 4 = 0 -2 0 -2; Pad x p -> y", "with an empty tensor"},
    {"4", "int p 4 = 0 1073741824 0 0; Pad x p -> y", "at most"},

    {"4", "float w - = 2; MatMul x w -> y", "an input is a single number; matrices would fit"},
    {"2,2", "float w 2,2; Gemm x w -> y", "input 0 has 3 dimensions; 2 would fit"},
    {"4", "float w 4,3; float b 1,1,3; Gemm x w b -> y",
     "what is added is larger than the product"},
    {"4", "float w 5,3; Gemm x w -> y", "[2, 4] and [5, 3] have no product"},
    {"4", "float w 4,3; Gemm x w -> y : transB=1", "[2, 4] and [4, 3] transposed have no product"},
    {"4", "ReduceProd x -> y", "it multiplies numbers that are computed from records"},
    {"4", "int q 2,2 = 1 2 3 4; int a 1 = 0; ReduceProd q -> n : axes=0; Reshape x n -> y",
     "it leaves 2 numbers; one would fit"},
    {"4", "int q 2 = 4611686018427387904 4; ReduceProd q -> n; Reshape x n -> y",
     "the product is too large"},
    {"4", "int a 1 = 2; ReduceSum x a -> y", "axis 2 of a tensor of 2 dimensions"},

    {"4", "int f 2 = 0 3; Reshape x f -> y", "[2, 4] cannot become [2, 3]"},
    {"4", "int f 2 = -1 -1; Reshape x f -> y", "dimension 1 is to be -1"},
    {"4", "int f 3 = 0 0 0; Reshape x f -> y", "dimension 2 is to be 0"},
    {"4", "int f 2 = 0 -2; Reshape x f -> y", "dimension 1 is to be -2"},
    {"4", "int f 9 = 0 4 1 1 1 1 1 1 1; Reshape x f -> y", "9 dimensions; at most"},
    {"4", "opset 11; Squeeze x -> y : axes=1", "dimension 1 is 4; 1 would fit"},
    {"4", "opset 11; Unsqueeze x -> y : axes=1,1", "axis 1 is named twice"},
    {"4", "opset 11; Unsqueeze x -> y : axes=2,3,4,5,6,7,8", "9 dimensions; at most"},
    {"4", "Flatten x -> y : axis=3", "axis 3 of a tensor of 2 dimensions"},
    {"4", "Shape x -> y", "whole numbers for 2 records"},
};
#define CASES (sizeof cases / sizeof cases[0])

static struct shape shape_of(const char *text)
{
    struct shape out = {.rank = 0};
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        out.dims[out.rank] = strtoull(at, NULL, 10);
        out.rank++;
    }
    return out;
}

/* When the file is read, or when it is known what records are. */
static int try_case(const struct refusal *c, struct err *err)
{
    char text[1024];
    struct onnx_net *net = NULL;
    struct onnx_net_source source = {.bytes = NULL};
    struct shape out;
    (void)snprintf(text, sizeof text, "input x ?,%s; output y; %s", c->record, c->text);
    const struct shape record = shape_of(c->record);
    void *bytes = onnx_text_pack(onnx_text_model(text), &source.n);
    source.bytes = bytes;
    int rc = onnx_net_read(&source, &net, err);
    rc = rc != 0 ? rc : onnx_net_output(net, &record, &out, err);
    onnx_net_free(net);
    free(bytes);
    return rc;
}

static void operators_say_what_is_wrong(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < CASES; i++) {
        struct err err = {0};
        int rc = try_case(&cases[i], &err);
        if (rc != ERR_INVALID || strstr(err.msg, cases[i].words) == NULL) {
            print_error("%s: %d '%s' instead of '%s'\n", cases[i].text, rc, err.msg,
                        cases[i].words);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
