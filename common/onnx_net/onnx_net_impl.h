/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct onnx_net and of its plans. Private to common/onnx_net. */
#ifndef GRADUS_ONNX_NET_ONNX_NET_IMPL_H
#define GRADUS_ONNX_NET_ONNX_NET_IMPL_H

#include "onnx_net/onnx_net.h"
#include "onnx_net/onnx_op.h"

struct onnx_net {
    Onnx__ModelProto *model;
    int64_t opset;
    struct onnx_node *nodes; /* each behind the nodes that it reads */
    size_t node_count;
    struct onnx_value *values; /* by number; initializers have shape and contents */
    size_t value_count;
    size_t input, output; /* values */
    struct variable_spec *variables;
    float **initial; /* [variables] */
    size_t variable_count;
    uint64_t fingerprint;
};

/* The graph for one number of records. */
struct onnx_plan {
    const struct onnx_net *net;
    size_t records;
    struct onnx_value *values; /* [net->value_count] */
    struct onnx_step *steps;   /* [net->node_count] */
    size_t *zeros;             /* variables that get no gradient */
    size_t zero_count;
    size_t floats;     /* of the arena, in which there are: */
    size_t scratch_at; /* of operators */
    size_t sums_at;    /* gradients that are to be added up */
};

/* Errors: ERR_INVALID which node does not go together with what it reads. */
int onnx_plan_new(const struct onnx_net *net, const struct shape *record, size_t records,
                  struct onnx_plan **out, struct err *err);
void onnx_plan_free(struct onnx_plan *plan);
/* Where everything lies, and what backward() writes where. (onnx_place.c) */
void onnx_plan_place(struct onnx_plan *plan);
struct onnx_value *onnx_value_root(struct onnx_value *v);

/* ---- while a file is read ---- */

#define ONNX_NONE SIZE_MAX

/* The source of a value. */
enum onnx_maker { ONNX_BY_INPUT, ONNX_BY_INITIALIZER, ONNX_BY_NODE };
struct onnx_named {
    const char *name;
    enum onnx_maker maker;
    size_t index; /* number of the input, the initializer, the node */
    size_t place; /* number of the output of the node */
    bool needed;
    size_t value; /* number in the net, when it is needed */
};

struct onnx_reading {
    struct onnx_net *net;
    const Onnx__GraphProto *graph;
    const struct onnx_net_source *source;
    struct onnx_named *names; /* sorted */
    size_t name_count;
    size_t *order; /* numbers of the needed nodes, each behind those that it reads */
    size_t order_count;
    const char *output;
};

/* All values that are made, each once. Errors: ERR_INVALID one is made twice. */
int onnx_names_collect(struct onnx_reading *r, struct err *err);
struct onnx_named *onnx_names_find(const struct onnx_reading *r, const char *name); /* or NULL */
/* The nodes that r->output needs. Errors: ERR_INVALID a cycle, or a value that nothing makes. */
int onnx_order_find(struct onnx_reading *r, struct err *err);
/* Finds the variables. Errors: ERR_INVALID. */
int onnx_variables_find(struct onnx_reading *r, struct err *err);

/* True if messages are nested no deeper than in any useful model: a deeper file would crash the
 * decoder. */
bool onnx_nesting_fits(const void *bytes, size_t n);

/* "node 'fc/Gemm' (Gemm)" into @out. */
const char *onnx_node_text(const struct onnx_node *n, char *out, size_t bytes);

#endif
