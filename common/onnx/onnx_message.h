/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a message of ONNX as a file. */
#ifndef GRADUS_ONNX_ONNX_MESSAGE_H
#define GRADUS_ONNX_ONNX_MESSAGE_H

#include "base/err.h"

struct Onnx__ModelProto;

/* Writes a message to @location, a path or a URL (storage.h), piece by piece as it is packed, so
 * that large parts are never copied. Errors: those of storage_create() and storage_add(). */
int onnx_message_write(const struct Onnx__ModelProto *m, const char *location, struct err *err);

#endif
