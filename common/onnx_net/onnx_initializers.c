/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the file and looks at what each initializer says of itself. */
#include "onnx_net/onnx_initializers.h"

#include <stdlib.h>

#include "base/mem.h"
#include "onnx_net/onnx_net_impl.h"

struct onnx_initializers {
    Onnx__ModelProto *model;
    size_t count;
    struct onnx_tensor_info *infos; /* [count] */
};

void onnx_initializers_free(struct onnx_initializers *f)
{
    if (f == NULL) {
        return;
    }
    if (f->model != NULL) {
        onnx__model_proto__free_unpacked(f->model, NULL);
    }
    free(f->infos);
    free(f);
}

static int decode(struct onnx_initializers *f, const void *bytes, size_t n, struct err *err)
{
    if (n > ONNX_NET_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "the file has %zu bytes; at most %zu are possible", n,
                       ONNX_NET_BYTES_MAX);
    }
    if (!onnx_nesting_fits(bytes, n)) {
        return err_set(err, ERR_INVALID, "graphs are nested too deep in each other");
    }
    f->model = onnx__model_proto__unpack(NULL, n, bytes);
    if (f->model == NULL || f->model->graph == NULL) {
        return err_set(err, ERR_INVALID, "this is no ONNX file");
    }
    const Onnx__GraphProto *graph = f->model->graph;
    f->count = graph->n_initializer;
    f->infos = mem_new(f->count + 1, sizeof *f->infos);
    int rc = 0;
    for (size_t i = 0; i < f->count && rc == 0; i++) {
        rc = onnx_tensor_inspect(graph->initializer[i], &f->infos[i], err);
    }
    return rc;
}

int onnx_initializers_read(const void *bytes, size_t n, struct onnx_initializers **out,
                           struct err *err)
{
    struct onnx_initializers *f = mem_new(1, sizeof *f);
    int rc = decode(f, bytes, n, err);
    if (rc != 0) {
        onnx_initializers_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

size_t onnx_initializers_count(const struct onnx_initializers *f)
{
    return f->count;
}

const char *onnx_initializers_name(const struct onnx_initializers *f, size_t i)
{
    const char *name = f->model->graph->initializer[i]->name;
    return name == NULL ? "" : name;
}

const struct onnx_tensor_info *onnx_initializers_info(const struct onnx_initializers *f, size_t i)
{
    return &f->infos[i];
}

int onnx_initializers_floats(const struct onnx_initializers *f, size_t i,
                             int (*external)(void *ctx, const char *file, uint64_t offset,
                                             void *out, size_t bytes, struct err *err),
                             void *ctx, float *out, struct err *err)
{
    const Onnx__TensorProto *t = f->model->graph->initializer[i];
    const struct onnx_tensor_info *info = &f->infos[i];
    if (!info->external) {
        return onnx_tensor_floats(t, NULL, out, err);
    }
    void *bytes = mem_try_aligned((size_t)info->bytes, 1, "a tensor of another file", err);
    int rc = bytes == NULL
                 ? ERR_EXHAUSTED
                 : external(ctx, info->file, info->offset, bytes, (size_t)info->bytes, err);
    rc = rc != 0 ? rc : onnx_tensor_floats(t, bytes, out, err);
    free(bytes);
    return rc;
}
