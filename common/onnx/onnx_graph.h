/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX file in the making: a graph to which nodes are added one after the other, then written.
 *
 * Values are known by their names. A caller that adds something proposes a name; the name that it
 * gets is returned, because another may have the proposed one already. A proposal that is "" or
 * begins with a slash stands behind the name of the part that is written at the time
 * (onnx_graph_part()). Returned names are borrowed and live as long as the graph. Owner: one
 * thread. Operators are those of set ONNX_OPSET, or, behind ONNX_ML, of ai.onnx.ml's set
 * ONNX_ML_OPSET. */
#ifndef GRADUS_ONNX_ONNX_GRAPH_H
#define GRADUS_ONNX_ONNX_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tensor/shape.h"

#define ONNX_IR_VERSION 8
#define ONNX_OPSET 17
#define ONNX_ML_DOMAIN "ai.onnx.ml"
#define ONNX_ML ONNX_ML_DOMAIN "." /* ONNX_ML "LabelEncoder" */
#define ONNX_ML_OPSET 3
/* as Cast names them */
enum { ONNX_TYPE_FLOAT = 1, ONNX_TYPE_INT64 = 7, ONNX_TYPE_BOOL = 9, ONNX_TYPE_UINT64 = 13 };
/* Above that the elements of constants go to a file of their own: a message may have 2 GiB. What
 * attributes have stays in the message. */
#define ONNX_MESSAGE_BYTES_MAX ((uint64_t)2000 << 20)
#define ONNX_EXTERNAL_SUFFIX ".data"
/* Dimensions of a value of the graph: those of a record, and the batch. */
#define ONNX_DIMS_MAX (SHAPE_RANK_MAX + 1)

struct onnx_graph;

struct onnx_attr {
    const char *name;
    enum { ONNX_INT, ONNX_INTS, ONNX_FLOAT, ONNX_TEXT, ONNX_TEXTS } kind;
    int64_t i; /* of ONNX_INTS, ONNX_TEXT and ONNX_TEXTS: their number */
    const int64_t *ints;
    float f;
    const char *const *texts;
};
#define ONNX_ATTR_INT(name, value) ((struct onnx_attr){(name), ONNX_INT, (value), NULL, 0, NULL})
#define ONNX_ATTR_INTS(name, values, count)                                                        \
    ((struct onnx_attr){(name), ONNX_INTS, (int64_t)(count), (values), 0, NULL})
#define ONNX_ATTR_FLOAT(name, value)                                                               \
    ((struct onnx_attr){(name), ONNX_FLOAT, 0, NULL, (value), NULL})
#define ONNX_ATTR_TEXT(name, text)                                                                 \
    ((struct onnx_attr){(name), ONNX_TEXT, 1, NULL, 0, (const char *const[]){(text)}})
#define ONNX_ATTR_TEXTS(name, values, count)                                                       \
    ((struct onnx_attr){(name), ONNX_TEXTS, (int64_t)(count), NULL, 0, (values)})

enum onnx_element { ONNX_FLOATS, ONNX_INT64S, ONNX_STRINGS };
/* A dimension: a number, or a name when it is not known. */
struct onnx_dim {
    uint64_t value;
    const char *name; /* NULL: the value */
};

struct onnx_graph *onnx_graph_new(const char *name, int64_t version);
void onnx_graph_free(struct onnx_graph *g); /* NULL is fine */
void onnx_graph_describe(struct onnx_graph *g, const char *key, const char *text);
/* Nothing that is added gets that name from now on; for an output. */
void onnx_graph_reserve(struct onnx_graph *g, const char *name);

/* Nodes that are added from now on belong to @name, borrowed. */
void onnx_graph_part(struct onnx_graph *g, const char *name);

const char *onnx_graph_input(struct onnx_graph *g, const char *name, enum onnx_element type,
                             const struct onnx_dim *dims, size_t rank);
/* Constants. The floats are borrowed until the graph is freed, or taken. */
const char *onnx_graph_floats(struct onnx_graph *g, const char *name, const struct shape *shape,
                              const float *values);
const char *onnx_graph_floats_take(struct onnx_graph *g, const char *name,
                                   const struct shape *shape, float *values);
const char *onnx_graph_ints(struct onnx_graph *g, const char *name, size_t count,
                            const int64_t *values);
const char *onnx_graph_float(struct onnx_graph *g, const char *name, float value); /* a scalar */
/* A constant of shape @shape that all parts of the graph share: one for equal names and values. */
const char *onnx_graph_shared_ints(struct onnx_graph *g, const char *name,
                                   const struct shape *shape, const int64_t *values);

/* Adds a node of operator @op; its one output, which is returned, and the node itself are called
 * @name. */
const char *onnx_graph_node(struct onnx_graph *g, const char *op, const char *name,
                            const char *const *inputs, size_t input_count,
                            const struct onnx_attr *attrs, size_t attr_count);
/* The same with @output_count outputs, whose names are written to @outputs. */
void onnx_graph_node_several(struct onnx_graph *g, const char *op, const char *name,
                             const char *const *inputs, size_t input_count,
                             const struct onnx_attr *attrs, size_t attr_count, const char **outputs,
                             size_t output_count);
/* onnx_graph_node() without attributes, of the inputs that follow, up to NULL. */
const char *onnx_graph_op(struct onnx_graph *g, const char *op, const char *name, ...)
    __attribute__((sentinel));
/* Notes the shape of a value, for readers of the file. */
void onnx_graph_shape(struct onnx_graph *g, const char *value, const struct onnx_dim *dims,
                      size_t rank);
/* The value is an output and is called @name, which was reserved, from now on. */
void onnx_graph_output(struct onnx_graph *g, const char *value, const char *name,
                       const struct onnx_dim *dims, size_t rank);

/* Write the file, once, at @location, a path or a URL (storage.h), and where @external, or the
 * constants have more than ONNX_MESSAGE_BYTES_MAX, the large ones into @location
 * ONNX_EXTERNAL_SUFFIX before.
 * @wrote_external (may be NULL) is set. Errors: those of storage_create() and storage_add();
 * ERR_INVALID a location that has no name at its end; ERR_UNSUPPORTED the message would be too
 * large without these constants, too. */
int onnx_graph_write(struct onnx_graph *g, const char *location, bool external,
                     bool *wrote_external, struct err *err);

#endif
