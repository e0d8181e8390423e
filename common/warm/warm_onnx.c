/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files as sources: their initializers, whatever the graph computes with them. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "data/beside_file.h"
#include "data/whole_file.h"
#include "onnx_net/onnx_initializers.h"
#include "warm/warm_kinds.h"

#define FILE_BYTES_MAX ((size_t)INT32_MAX) /* the limit of protobuf */

struct onnx_state {
    struct onnx_initializers *file;
    struct beside_file *beside;
};

static void close_file(struct warm_source *s)
{
    struct onnx_state *o = s->state;
    onnx_initializers_free(o->file);
    beside_file_free(o->beside);
    free(o);
}

static bool is_one_of(const char *type, const char *const *types)
{
    while (*types != NULL && strcmp(*types, type) != 0) {
        types++;
    }
    return *types != NULL;
}

static void describe(const struct onnx_initializers *f, size_t i, struct warm_tensor *out)
{
    static const char *const readable[] = {"FLOAT", "FLOAT16", "BFLOAT16", NULL};
    const struct onnx_tensor_info *info = onnx_initializers_info(f, i);
    const char *type = onnx_type_name(info->type);
    const bool reads = is_one_of(type, readable);
    *out = (struct warm_tensor){
        .name = onnx_initializers_name(f, i),
        .type = type,
        .shape = warm_shape(info->dims, info->rank),
        .readable = reads,
        /* shapes, indices, and numbers of a formula */
        .aside = (!reads && strcmp(type, "DOUBLE") != 0) || info->rank == 0,
    };
}

static int open_file(struct warm_source *s, const struct from_spec *from,
                     const struct data_roots *roots, struct err *err)
{
    (void)from;
    struct buf bytes = {0};
    struct onnx_state *o = mem_new(1, sizeof *o);
    s->state = o;
    o->beside = beside_file_new(s->path, roots);
    int rc = whole_file_read(s->path, roots, FILE_BYTES_MAX, &bytes, err);
    rc = rc != 0 ? rc : onnx_initializers_read(bytes.data, bytes.len, &o->file, err);
    buf_release(&bytes);
    if (rc != 0) {
        return rc;
    }
    s->count = onnx_initializers_count(o->file);
    s->tensors = mem_new(s->count + 1, sizeof *s->tensors);
    for (size_t i = 0; i < s->count; i++) {
        describe(o->file, i, &s->tensors[i]);
    }
    return 0;
}

static int read_tensor(const struct warm_source *s, size_t tensor, float *out, struct err *err)
{
    const struct onnx_state *o = s->state;
    return onnx_initializers_floats(o->file, tensor, beside_file_read, o->beside, out, err);
}

const struct warm_source_kind warm_onnx = {"onnx", open_file, close_file, read_tensor};
