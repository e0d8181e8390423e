/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto of ONNX: constants read with checks, and made.
 *
 * Elements may be in `raw_data`, in the list that belongs to their type, or in another file;
 * nothing is believed that the message does not prove. Who only passes tensors on needs no header
 * of the messages: `struct Onnx__TensorProto` is declared here. */
#ifndef GRADUS_ONNX_ONNX_TENSOR_H
#define GRADUS_ONNX_ONNX_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct Onnx__TensorProto;

#define ONNX_RANK_MAX 8
/* Elements of a tensor: what BLAS can index. */
#define ONNX_ELEMENTS_MAX INT32_MAX

/* The description of a tensor. */
struct onnx_tensor_info {
    int type; /* ONNX__TENSOR_PROTO__DATA_TYPE__…, one that onnx_type_bytes() knows */
    size_t rank;
    uint64_t dims[ONNX_RANK_MAX];
    uint64_t count;    /* elements; 0 when a dimension is 0 */
    uint64_t bytes;    /* of them, raw */
    bool external;     /* in another file: */
    const char *file;  /* borrowed: relative, and without ".." */
    uint64_t offset;   /* where the elements begin in that file */
    bool length_given; /* then it is the same as `bytes` */
};

/* Bytes of an element; 0: a type that is unknown or has no fixed size (STRING). */
size_t onnx_type_bytes(int type);
const char *onnx_type_name(int type); /* "FLOAT"; unknown types are "unknown" */

/* Errors: ERR_INVALID, beginning with the tensor's name: unknown type, dimensions that are negative
 * or too many, more than ONNX_ELEMENTS_MAX elements, a segment, contents in no place or in several,
 * or of another size than the dimensions say, a location that is absolute or leads out of the
 * directory. */
int onnx_tensor_inspect(const struct Onnx__TensorProto *t, struct onnx_tensor_info *info,
                        struct err *err);

/* Reads all elements into @out[info.count]. @external: the info.bytes bytes at info.offset of
 * info.file; NULL for a tensor that holds its elements itself. FLOAT, FLOAT16, BFLOAT16 and DOUBLE
 * are read as floats, the last rounded; INT8 to INT64, UINT8 to UINT32 and BOOL as integers.
 * Errors: those of onnx_tensor_inspect(); ERR_INVALID another type. */
int onnx_tensor_floats(const struct Onnx__TensorProto *t, const void *external, float *out,
                       struct err *err);
int onnx_tensor_ints(const struct Onnx__TensorProto *t, const void *external, int64_t *out,
                     struct err *err);

/* A tensor with these elements, raw; all is copied. Owned: onnx__tensor_proto__free_unpacked(t,
 * NULL), which also a message around it calls. @values NULL: it has no elements yet (they go to
 * another file). Errors: NULL, ERR_EXHAUSTED. */
struct Onnx__TensorProto *onnx_tensor_new_floats(const char *name, const uint64_t *dims,
                                                 size_t rank, const float *values, struct err *err);
struct Onnx__TensorProto *onnx_tensor_new_ints(const char *name, const uint64_t *dims, size_t rank,
                                               const int64_t *values, struct err *err);
/* The elements, of which @t has none, are @bytes bytes at @offset of @file. */
void onnx_tensor_set_external(struct Onnx__TensorProto *t, const char *file, uint64_t offset,
                              uint64_t bytes);

#endif
