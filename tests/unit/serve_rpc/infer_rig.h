/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for answers, put together tensor by tensor. */
#ifndef GRADUS_TESTS_UNIT_SERVE_RPC_INFER_RIG_H
#define GRADUS_TESTS_UNIT_SERVE_RPC_INFER_RIG_H

#include "support/test.h"

#include <string.h>

#include "inference/open_inference.pb-c.h"

#define ASK_TENSORS_MAX 4

/* One request; stays where it is. */
struct ask {
    Inference__ModelInferRequest message;
    Inference__ModelInferRequest__InferInputTensor tensors[ASK_TENSORS_MAX];
    Inference__ModelInferRequest__InferInputTensor *list[ASK_TENSORS_MAX];
    Inference__InferTensorContents contents[ASK_TENSORS_MAX];
    int64_t shapes[ASK_TENSORS_MAX][4];
    ProtobufCBinaryData raw[ASK_TENSORS_MAX];
    Inference__ModelInferRequest__InferRequestedOutputTensor outputs[ASK_TENSORS_MAX];
    Inference__ModelInferRequest__InferRequestedOutputTensor *output_list[ASK_TENSORS_MAX];
};

void ask_begin(struct ask *a);
/* One more tensor, [records, columns] (@columns -1: [records]); typed contents follow in the
 * returned struct. */
Inference__InferTensorContents *ask_typed(struct ask *a, const char *name, const char *datatype,
                                          int64_t records, int64_t columns);
/* The same with raw contents, which are borrowed. */
void ask_raw(struct ask *a, const char *name, const char *datatype, int64_t records,
             int64_t columns, const void *bytes, size_t n);
void ask_output(struct ask *a, const char *name);
ProtobufCBinaryData ask_text(const char *text);

#endif
