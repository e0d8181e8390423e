/* SPDX-License-Identifier: Apache-2.0 */
/* Constants of a file as values. Private to common/onnx_net. */
#ifndef GRADUS_ONNX_NET_ONNX_NET_TENSOR_H
#define GRADUS_ONNX_NET_ONNX_NET_TENSOR_H

#include "onnx_net/onnx_net.h"
#include "onnx_net/onnx_op.h"

/* Reads shape, type and contents into @v, which owns them. @source (may be NULL: no such files)
 * reads contents in another file. Errors: ERR_INVALID; those of source->external(). */
int onnx_net_tensor(const Onnx__TensorProto *t, const struct onnx_net_source *source,
                    struct onnx_value *v, struct err *err);
void onnx_value_release(struct onnx_value *v); /* what it owns */

#endif
