/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of ONNX files: read with checks, and computed forward and backward.
 *
 * A file is float32 with operators of opset ONNX_OPSET_MIN to ONNX_OPSET_MAX; only what the chosen
 * output needs of it is looked at. Its one input gets the records. `struct onnx_net` is immutable
 * and may be shared; `struct onnx_run` belongs to one thread. Shapes are worked out for each number
 * of records that comes: a graph may compute with them.
 *
 * A graph is one layer, the only one of its model (decision 58): what a loss, a metric, an
 * evaluation, a statistic or a checkpoint needs, layers have. Its variables are known to workers
 * alone, and come as those of a program do (worker_fill.h). The last few plans of shapes are kept.
 * All computed numbers are floats, whole ones as well, so no operator needs a second form, and
 * numbers of tokens are exact up to 2^24. Gradients are functions of the operators, not graphs. */
#ifndef GRADUS_ONNX_NET_ONNX_NET_H
#define GRADUS_ONNX_NET_ONNX_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tensor/init.h"
#include "tensor/shape.h"

#define ONNX_OPSET_MIN 7
#define ONNX_OPSET_MAX 21
#define ONNX_NET_BYTES_MAX ((size_t)INT32_MAX) /* bytes of a file: the limit of protobuf */
#define ONNX_NODES_MAX 65536

struct onnx_net;
struct onnx_run;

struct onnx_net_source {
    const void *bytes; /* of the file */
    size_t n;
    const char *output; /* the value that is computed; NULL or "": the only output of the graph */
    /* "Softmax" or "Sigmoid": a last node of that type is part of the loss, and what goes into it
     * is computed. NULL: none is. */
    const char *link;
    /* Patterns (fnmatch) of the initializers that are variables. None: those that are floats and
     * have a dimension. Numbers that an operator takes as a setting are never variables. */
    const char *const *trainable;
    size_t trainable_count;
    /* @bytes bytes at @offset of @file, a path from the directory of the model, without "..", into
     * @out. NULL: there are no such files. */
    int (*external)(void *ctx, const char *file, uint64_t offset, void *out, size_t bytes,
                    struct err *err);
    void *ctx;
};

/* Reads and checks a file. @source is borrowed for the call. Errors: ERR_INVALID what is wrong, and
 * where; ERR_UNSUPPORTED all nodes that cannot be computed, with advice; those of external(). */
int onnx_net_read(const struct onnx_net_source *source, struct onnx_net **out, struct err *err);
void onnx_net_free(struct onnx_net *net); /* NULL is fine */

/* The variables, INIT_GIVEN, named as in the file; running statistics of BatchNormalization are
 * statistics. */
size_t onnx_net_variable_count(const struct onnx_net *net);
const struct variable_spec *onnx_net_variables(const struct onnx_net *net);
const float *onnx_net_initial(const struct onnx_net *net, size_t variable); /* borrowed */
uint64_t onnx_net_fingerprint(const struct onnx_net *net);                  /* of all that counts */
/* "opset 13, 4 nodes (2 Gemm, 2 Relu), input x, output y" */
void onnx_net_describe(const struct onnx_net *net, struct buf *out);

struct onnx_note { /* an entry of the file's metadata */
    const char *key, *text;
};
/* Writes the file again at @location, a path or a URL, with @values [variables] in place of the
 * initial ones, and with @notes in place of those of the same keys. The written file answers:
 * dropouts and norms that were exported for training do not say so any more. Tensors that lay in
 * other files are inside. Errors: ERR_UNSUPPORTED a tensor in another file that the net does not
 * know, or more than a message may have; those of storage_create() and storage_add(). */
int onnx_net_write(const struct onnx_net *net, const float *const *values,
                   const struct onnx_note *notes, size_t note_count, const char *location,
                   struct err *err);

/* Its input is of whole numbers: of tokens, or of rows that a Gather reads. */
bool onnx_net_takes_whole(const struct onnx_net *net);
/* The shape of the output for one record of shape @record. Errors: ERR_INVALID which node cannot
 * compute it, or that the output is not one of each record. */
int onnx_net_output(const struct onnx_net *net, const struct shape *record, struct shape *out,
                    struct err *err);

/* For up to @batch_max records. @net is borrowed. Errors: ERR_EXHAUSTED. */
int onnx_run_new(const struct onnx_net *net, const struct shape *record, size_t batch_max,
                 struct onnx_run **out, struct err *err);
void onnx_run_free(struct onnx_run *run); /* NULL is fine */
/* Bytes of memory of a run for so many records; SIZE_MAX: not known. */
size_t onnx_run_bytes(const struct onnx_net *net, const struct shape *record, size_t batch_max);
/* @x [records of numbers], @y gets what onnx_net_output() says of each. @training: dropout and the
 * statistics of the batch; @key makes the random numbers. @values [variables]. A number of records
 * for which the graph's own arithmetic with shapes fails, or memory, gives NaN. */
void onnx_run_forward(struct onnx_run *run, size_t records, bool training, uint64_t key,
                      const float *const *values, const float *x, float *y);
/* Of the last forward(): @gradients [variables] are overwritten; of a statistic they are records
 * times what the batch has. */
void onnx_run_backward(struct onnx_run *run, const float *const *values, const float *dy,
                       float *const *gradients);

#endif
