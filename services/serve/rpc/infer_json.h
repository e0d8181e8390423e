/* SPDX-License-Identifier: Apache-2.0 */
/* The open inference protocol as JSON, version 2, with Triton's extension for tensors in binary
 * form: the body is JSON and behind it the bytes of the tensors that say "binary_data_size". */
#ifndef GRADUS_SERVE_INFER_JSON_H
#define GRADUS_SERVE_INFER_JSON_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "inference/open_inference.pb-c.h"

struct json_t;

/* A request that was JSON, and is the message of the same request over gRPC, with raw contents. */
struct infer_json {
    Inference__ModelInferRequest message;
    struct json_t *root; /* has the texts */
    Inference__ModelInferRequest__InferInputTensor *inputs;
    Inference__ModelInferRequest__InferRequestedOutputTensor *outputs;
    struct buf *contents; /* [n_inputs] contents that came as JSON */
    bool *binary;         /* [n_outputs] is the answer to be bytes? */
    bool all_binary;      /* for outputs of which the request says nothing */
};

/* @json_bytes of @body are JSON; the rest, which is borrowed, is binary. Errors: ERR_INVALID. Is to
 * be released in any case. */
int infer_json_read(const char *body, size_t bytes, size_t json_bytes, struct infer_json *out,
                    struct err *err);
void infer_json_release(struct infer_json *j);

/* Writes the answer to @j as the body to send; @json_bytes: how much of it is JSON, when bytes
 * follow; else 0. */
void infer_json_answer(const struct infer_json *j, const Inference__ModelInferResponse *r,
                       struct buf *out, size_t *json_bytes);
/* Any message, with the names of the proto. */
void infer_json_message(const ProtobufCMessage *m, struct buf *out);

#endif
