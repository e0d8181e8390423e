/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operators, and advice on those that are not in it. */
#include "onnx_net/onnx_op.h"

#include <string.h>

#define OPERATORS(X)                                                                               \
    X(abs)                                                                                         \
    X(add)                                                                                         \
    X(average_pool)                                                                                \
    X(batch_norm)                                                                                  \
    X(cast)                                                                                        \
    X(clip)                                                                                        \
    X(concat)                                                                                      \
    X(constant)                                                                                    \
    X(constant_of_shape)                                                                           \
    X(conv)                                                                                        \
    X(div)                                                                                         \
    X(dropout)                                                                                     \
    X(elu)                                                                                         \
    X(erf)                                                                                         \
    X(exp)                                                                                         \
    X(expand)                                                                                      \
    X(flatten)                                                                                     \
    X(gather)                                                                                      \
    X(gelu)                                                                                        \
    X(gemm)                                                                                        \
    X(global_average)                                                                              \
    X(global_max)                                                                                  \
    X(identity)                                                                                    \
    X(layer_norm)                                                                                  \
    X(leaky_relu)                                                                                  \
    X(log)                                                                                         \
    X(log_softmax)                                                                                 \
    X(matmul)                                                                                      \
    X(max_pool)                                                                                    \
    X(mul)                                                                                         \
    X(neg)                                                                                         \
    X(pad)                                                                                         \
    X(pow)                                                                                         \
    X(range)                                                                                       \
    X(reciprocal)                                                                                  \
    X(reduce_mean)                                                                                 \
    X(reduce_prod)                                                                                 \
    X(reduce_sum)                                                                                  \
    X(relu)                                                                                        \
    X(reshape)                                                                                     \
    X(shape)                                                                                       \
    X(sigmoid)                                                                                     \
    X(slice)                                                                                       \
    X(softmax)                                                                                     \
    X(softplus)                                                                                    \
    X(split)                                                                                       \
    X(sqrt)                                                                                        \
    X(squeeze)                                                                                     \
    X(sub)                                                                                         \
    X(tanh)                                                                                        \
    X(transpose)                                                                                   \
    X(unsqueeze)

#define DECLARE(symbol) extern const struct onnx_op onnx_op_##symbol;
OPERATORS(DECLARE)

#define LIST(symbol) &onnx_op_##symbol,
static const struct onnx_op *const operators[] = {OPERATORS(LIST)};

#define COUNT (sizeof operators / sizeof operators[0])

const struct onnx_op *onnx_op_at(size_t i)
{
    return i < COUNT ? operators[i] : NULL;
}

const struct onnx_op *onnx_op_find(const char *type)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(operators[i]->type, type) == 0) {
            return operators[i];
        }
    }
    return NULL;
}

const char *onnx_op_advice(const char *type)
{
    static const struct {
        const char *type, *advice;
    } known[] = {
        {"Loop", "an EmbeddingBag becomes Gather and ReduceSum when it is written as Embedding and "
                 "sum"},
        {"Scan", "write the recurrence out, or train it as a program of your own (model.program)"},
        {"If", "export the branch that is taken"},
        {"LSTM", "recurrent networks train as a program of your own (model.program)"},
        {"GRU", "recurrent networks train as a program of your own (model.program)"},
        {"RNN", "recurrent networks train as a program of your own (model.program)"},
        {"Where", "masks multiply: Mul with 0 and 1"},
        {"QuantizeLinear", "export the model before it is quantised"},
        {"DequantizeLinear", "export the model before it is quantised"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].type, type) == 0) {
            return known[i].advice;
        }
    }
    return NULL;
}
