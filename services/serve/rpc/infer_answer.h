/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to a request: which outputs there are, and the message. */
#ifndef GRADUS_SERVE_INFER_ANSWER_H
#define GRADUS_SERVE_INFER_ANSWER_H

#include "base/buf.h"
#include "serve/rpc/serve_model.h"

#define INFER_OUTPUTS_MAX 2

/* An output of a model: of classes "probabilities" [records, classes] and "class" [records, 1], the
 * name of the likeliest one; otherwise "value" [records, 1]. */
struct infer_output {
    const char *name, *datatype;
    size_t elements;
};
size_t infer_outputs(const struct serve_model *m, struct infer_output out[INFER_OUTPUTS_MAX]);
/* Errors: ERR_INVALID the request asks for an output that there is not, or for one twice. */
int infer_outputs_check(const struct serve_model *m, const Inference__ModelInferRequest *q,
                        struct err *err);
/* The message of the answers, [records × width], with the outputs that were asked for. Outputs are
 * raw, which all clients of the protocol read. It borrows everything. Protobuf-c's types have no
 * const. */
struct infer_answer {
    Inference__ModelInferResponse message;
    Inference__ModelInferResponse__InferOutputTensor tensors[INFER_OUTPUTS_MAX];
    Inference__ModelInferResponse__InferOutputTensor *list[INFER_OUTPUTS_MAX];
    ProtobufCBinaryData raw[INFER_OUTPUTS_MAX];
    int64_t shapes[INFER_OUTPUTS_MAX][2];
    struct buf classes;
};
void infer_answer_make(struct infer_answer *a, const char *name, const struct serve_model *m,
                       const Inference__ModelInferRequest *q, const float *answers, size_t records);
void infer_answer_release(struct infer_answer *a);

#endif
