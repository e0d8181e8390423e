/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct onnx_graph, for onnx_graph.c and onnx_write.c. */
#ifndef GRADUS_ONNX_ONNX_GRAPH_IMPL_H
#define GRADUS_ONNX_ONNX_GRAPH_IMPL_H

#include "onnx/onnx.pb-c.h"
#include "onnx/onnx_graph.h"
#include "onnx/onnx_tensor.h"

/* The elements of initializer i of the graph. */
struct onnx_constant {
    const void *values;
    size_t bytes;
    void *owned; /* NULL: borrowed */
    bool shared; /* onnx_graph_shared_ints() */
};

struct onnx_graph {
    Onnx__ModelProto model;
    Onnx__GraphProto *graph; /* of the model */
    struct onnx_constant *constants;
    size_t constant_count;
    char **names; /* [name_count] that are taken */
    size_t name_count;
    const char *part;
    uint64_t message_bytes_max; /* ONNX_MESSAGE_BYTES_MAX */
};

#endif
