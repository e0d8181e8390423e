/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tensors of floats and whole numbers; other types are refused. */
#include "onnx_net/onnx_net_tensor.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"

#define EXACT_MAX 16777216 /* whole numbers up to here are floats */

void onnx_value_release(struct onnx_value *v)
{
    if (v->owns_ints) {
        free((void *)(uintptr_t)v->ints);
    }
    if (v->owns_floats) {
        free((void *)(uintptr_t)v->floats);
    }
    v->ints = NULL;
    v->floats = NULL;
    v->owns_ints = v->owns_floats = false;
}

static int shape_of(const Onnx__TensorProto *t, const struct onnx_tensor_info *info,
                    struct onnx_value *v, struct err *err)
{
    enum onnx_type type;
    switch (info->type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        type = ONNX_FLOAT;
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        type = ONNX_INT;
        break;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        type = ONNX_BOOL;
        break;
    default:
        return err_set(err, ERR_INVALID,
                       "tensor %.64s is of type %s; FLOAT (or INT64, INT32, BOOL) would fit: "
                       "export the model in float32",
                       t->name == NULL ? "" : t->name, onnx_type_name(info->type));
    }
    struct onnx_dims shape = {.rank = info->rank};
    for (size_t i = 0; i < info->rank; i++) {
        shape.dims[i] = (size_t)info->dims[i];
    }
    return onnx_set_shape(v, type, &shape, err);
}

static int read_elements(const Onnx__TensorProto *t, const void *external, struct onnx_value *v,
                         struct err *err)
{
    if (v->type == ONNX_FLOAT) {
        float *floats = onnx_set_floats(v, err);
        return floats == NULL ? ERR_EXHAUSTED : onnx_tensor_floats(t, external, floats, err);
    }
    int64_t *ints = mem_try_aligned(v->count + 1, sizeof *ints, "a tensor of the file", err);
    if (ints == NULL) {
        return ERR_EXHAUSTED;
    }
    int rc = onnx_tensor_ints(t, external, ints, err);
    float *floats = rc == 0 ? onnx_set_floats(v, err) : NULL;
    rc = rc == 0 && floats == NULL ? ERR_EXHAUSTED : rc;
    for (size_t i = 0; i < v->count && rc == 0; i++) {
        const bool exact = ints[i] <= EXACT_MAX && ints[i] >= -EXACT_MAX;
        if (!exact && v->count > ONNX_INTS_MAX) {
            rc = err_set(err, ERR_INVALID,
                         "tensor %.64s has the whole number %" PRId64 "; up to %d would fit",
                         v->name, ints[i], EXACT_MAX);
        }
        floats[i] = (float)ints[i];
    }
    if (rc != 0 || v->count > ONNX_INTS_MAX) {
        free(ints);
        return rc;
    }
    v->ints = ints;
    v->owns_ints = true;
    return 0;
}

int onnx_net_tensor(const Onnx__TensorProto *t, const struct onnx_net_source *source,
                    struct onnx_value *v, struct err *err)
{
    struct onnx_tensor_info info;
    void *external = NULL;
    int rc = onnx_tensor_inspect(t, &info, err);
    rc = rc != 0 ? rc : shape_of(t, &info, v, err);
    if (rc == 0 && info.external) {
        if (source == NULL || source->external == NULL) {
            return err_set(err, ERR_INVALID,
                           "tensor %.64s is in another file, which cannot be read here",
                           t->name == NULL ? "" : t->name);
        }
        external = mem_try_aligned((size_t)info.bytes + 1, 1, "a tensor of another file", err);
        rc = external == NULL ? ERR_EXHAUSTED
                              : source->external(source->ctx, info.file, info.offset, external,
                                                 (size_t)info.bytes, err);
        if (rc != 0 && external != NULL) {
            (void)err_wrap(err, "tensor %.64s", t->name == NULL ? "" : t->name);
        }
    }
    rc = rc != 0 ? rc : read_elements(t, external, v, err);
    free(external);
    return rc;
}
