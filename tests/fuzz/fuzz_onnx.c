/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files (onnx_net): decoded, checked, planned for several numbers of records, and, where that
 * is little work, computed forward and backward. Its initializers are read without the graph, too.
 *
 * Input: a byte of flags and the shape of a record; the file. Tensors in other files get ones. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_initializers.h"
#include "onnx_net/onnx_net.h"

#define RECORDS 3
#define WORK_BYTES_MAX (1U << 20)
#define NUMBERS_MAX 65536

/* Some part of it is "..". */
static bool leads_out(const char *path)
{
    const char *at = path;
    for (; (at = strstr(at, "..")) != NULL; at++) {
        if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0')) {
            return true;
        }
    }
    return path[0] == '/';
}

static int ones(void *ctx, const char *file, uint64_t offset, void *out, size_t bytes,
                struct err *err)
{
    (void)ctx;
    (void)offset;
    fuzz_require(!leads_out(file), "no name leads out");
    memset(out, 0x3C, bytes);
    return bytes > 4096 ? err_set(err, ERR_NOT_FOUND, "no such file") : 0;
}

/* Windows may be large where tensors are small. */
static bool is_quick(const struct onnx_net *net)
{
    struct buf text = {0};
    onnx_net_describe(net, &text);
    const bool quick = strstr(buf_str(&text), "Pool") == NULL;
    buf_release(&text);
    return quick;
}

static void compute(const struct onnx_net *net, const struct shape *record, size_t width)
{
    const size_t bytes = onnx_run_bytes(net, record, RECORDS), count = onnx_net_variable_count(net);
    const size_t numbers = (size_t)shape_count(record);
    struct onnx_run *run = NULL;
    if (bytes > WORK_BYTES_MAX || width * RECORDS > NUMBERS_MAX || numbers > NUMBERS_MAX ||
        !is_quick(net) || onnx_run_new(net, record, RECORDS, &run, NULL) != 0) {
        return;
    }
    const float **values = mem_new(count + 1, sizeof *values);
    float **gradients = mem_new(count + 1, sizeof *gradients);
    float *x = mem_new(numbers * RECORDS + 1, sizeof *x), *y = mem_new(width * RECORDS, sizeof *y);
    for (size_t i = 0; i < count; i++) {
        values[i] = onnx_net_initial(net, i);
        gradients[i] =
            mem_new((size_t)shape_count(&onnx_net_variables(net)[i].shape), sizeof(float));
    }
    for (size_t n = RECORDS; n > 0; n--) {
        onnx_run_forward(run, n, true, 1, values, x, y);
        onnx_run_backward(run, values, y, gradients);
    }
    for (size_t i = 0; i < count; i++) {
        free(gradients[i]);
    }
    free(values);
    free(gradients);
    free(x);
    free(y);
    onnx_run_free(run);
}

static void read_initializers(const void *bytes, size_t n)
{
    struct onnx_initializers *f = NULL;
    struct err err = {0};
    int rc = onnx_initializers_read(bytes, n, &f, &err);
    fuzz_require_error(rc, &err);
    for (size_t i = 0; rc == 0 && i < onnx_initializers_count(f); i++) {
        const uint64_t count = onnx_initializers_info(f, i)->count;
        if (count <= NUMBERS_MAX && onnx_initializers_name(f, i) != NULL) {
            float *values = mem_new((size_t)count + 1, sizeof *values);
            fuzz_require_error(onnx_initializers_floats(f, i, ones, NULL, values, &err), &err);
            free(values);
        }
    }
    onnx_initializers_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const patterns[] = {"*w*", "b"};
    struct fuzz_input in = {data, n};
    const uint8_t flags = fuzz_byte(&in);
    struct shape record = {.rank = fuzz_below(&in, 4)}, out;
    for (size_t i = 0; i < record.rank; i++) {
        record.dims[i] = 1 + fuzz_below(&in, 32);
    }
    const struct onnx_net_source source = {
        .bytes = in.data,
        .n = in.n,
        .output = (flags & 1) != 0 ? "y" : NULL,
        .link = (flags & 2) != 0 ? "Softmax" : NULL,
        .trainable = patterns,
        .trainable_count = (flags & 4) != 0 ? 2 : 0,
        .external = (flags & 8) != 0 ? ones : NULL,
    };
    read_initializers(in.data, in.n);
    struct onnx_net *net = NULL;
    struct err err = {0};
    int rc = onnx_net_read(&source, &net, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        rc = onnx_net_output(net, &record, &out, &err);
        fuzz_require_error(rc, &err);
        if (rc == 0) {
            compute(net, &record, (size_t)shape_count(&out));
        }
        onnx_net_free(net);
    }
    return 0;
}
