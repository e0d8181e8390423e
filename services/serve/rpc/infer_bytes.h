/* SPDX-License-Identifier: Apache-2.0 */
/* The elements of a BYTES tensor, one after the other: raw, where each is a length of 4 bytes,
 * lowest first, and the bytes; or typed. */
#ifndef GRADUS_SERVE_INFER_BYTES_H
#define GRADUS_SERVE_INFER_BYTES_H

#include "base/buf.h"
#include "base/err.h"
#include "inference/open_inference.pb-c.h"

struct infer_bytes {
    const ProtobufCBinaryData *raw; /* NULL: typed */
    const Inference__InferTensorContents *typed;
    size_t at; /* byte of raw, or element */
};

/* Checks that @raw has exactly @elements texts. @input: its name. Errors: ERR_INVALID. */
int infer_bytes_check(const ProtobufCBinaryData *raw, size_t elements, const char *input,
                      struct err *err);
/* The next one, of contents that were looked at; borrows. */
ProtobufCBinaryData infer_bytes_next(struct infer_bytes *b);
/* Append one, raw. */
void infer_bytes_add(struct buf *out, const char *text);

#endif
