/* SPDX-License-Identifier: Apache-2.0 */
/* The tests that onnx/onnx has for operators, where GRADUS_TEST_DATA names a directory that has
 * them: each is a model with inputs and what they come to. */
#include "support/test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx_tensor.h"
#include "onnx_net/onnx_net.h"
#include "os/file.h"
#include "support/onnx_text.h"

#define FILE_BYTES_MAX (64U << 20)
#define ABSOLUTE 1e-5
#define RELATIVE 1e-4

static Onnx__TensorProto *read_tensor(const char *dir, const char *kind, size_t number)
{
    char *path = mem_printf("%s/test_data_set_0/%s_%zu.pb", dir, kind, number);
    struct buf bytes = {0};
    Onnx__TensorProto *t = NULL;
    if (file_read(path, FILE_BYTES_MAX, &bytes, NULL) == 0) {
        t = onnx__tensor_proto__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    }
    buf_release(&bytes);
    free(path);
    return t;
}

static float *floats_of(const Onnx__TensorProto *t, struct onnx_tensor_info *info)
{
    struct err err = {0};
    assert_int_equal(onnx_tensor_inspect(t, info, &err), 0);
    float *out = mem_new(info->count + 1, sizeof *out);
    if (onnx_tensor_floats(t, NULL, out, &err) != 0) {
        int64_t *ints = mem_new(info->count + 1, sizeof *ints);
        assert_int_equal(onnx_tensor_ints(t, NULL, ints, &err), 0);
        for (uint64_t i = 0; i < info->count; i++) {
            out[i] = (float)ints[i];
        }
        free(ints);
    }
    return out;
}

/* Some are of a time before opset 7, when what they use meant the same already. */
static void make_readable(Onnx__ModelProto *m)
{
    for (size_t i = 0; i < m->n_opset_import; i++) {
        if (m->opset_import[i]->version < ONNX_OPSET_MIN) {
            m->opset_import[i]->version = ONNX_OPSET_MIN;
        }
    }
}

/* The first input is the records; the others become initializers. */
static Onnx__TensorProto *bind_inputs(Onnx__ModelProto *m, const char *dir)
{
    Onnx__GraphProto *g = m->graph;
    Onnx__TensorProto *first = NULL;
    size_t number = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        bool bound = false;
        for (size_t k = 0; k < g->n_initializer; k++) {
            bound = bound || strcmp(g->initializer[k]->name, g->input[i]->name) == 0;
        }
        Onnx__TensorProto *t = bound ? NULL : read_tensor(dir, "input", number++);
        if (t != NULL && first == NULL) {
            first = t;
        } else if (t != NULL) {
            free(t->name);
            t->name = mem_strdup(g->input[i]->name);
            g->initializer =
                mem_resize(g->initializer, g->n_initializer + 1, sizeof(Onnx__TensorProto *));
            g->initializer[g->n_initializer++] = t;
        }
    }
    return first;
}

static bool close_to(const float *have, const float *want, uint64_t n, const char *dir)
{
    for (uint64_t i = 0; i < n; i++) {
        const double off = fabs((double)have[i] - (double)want[i]);
        if (!(off <= ABSOLUTE + RELATIVE * fabs((double)want[i]))) {
            print_message("%s: element %llu is %g, not %g\n", dir, (unsigned long long)i,
                          (double)have[i], (double)want[i]);
            return false;
        }
    }
    return true;
}

static bool compute(const struct onnx_net *net, const Onnx__TensorProto *input, const char *dir,
                    struct err *err)
{
    struct onnx_tensor_info in, out;
    Onnx__TensorProto *wanted = read_tensor(dir, "output", 0);
    float *x = floats_of(input, &in), *want = floats_of(wanted, &out);
    struct shape record = {.rank = in.rank == 0 ? 0 : in.rank - 1};
    for (size_t i = 0; i < record.rank; i++) {
        record.dims[i] = in.dims[i + 1];
    }
    struct onnx_run *run = NULL;
    const size_t count = onnx_net_variable_count(net);
    const float **values = mem_new(count + 1, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        values[i] = onnx_net_initial(net, i);
    }
    float *y = mem_new(out.count + 4096, sizeof *y);
    bool right = onnx_run_new(net, &record, (size_t)in.dims[0], &run, err) == 0;
    if (right) {
        onnx_run_forward(run, (size_t)in.dims[0], false, 0, values, x, y);
        right = close_to(y, want, out.count, dir);
    }
    onnx_run_free(run);
    free(values);
    free(x);
    free(y);
    free(want);
    onnx__tensor_proto__free_unpacked(wanted, NULL);
    return right;
}

static bool passes(const char *dir)
{
    struct err err = {0};
    struct buf file = {0};
    char *path = mem_printf("%s/model.onnx", dir);
    assert_int_equal(file_read(path, FILE_BYTES_MAX, &file, &err), 0);
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, file.len, (const uint8_t *)file.data);
    buf_release(&file);
    free(path);
    assert_non_null(m);
    make_readable(m);
    Onnx__TensorProto *input = bind_inputs(m, dir);
    assert_non_null(input);
    struct onnx_net *net = NULL;
    struct onnx_net_source source = {.output = m->graph->output[0]->name};
    char *output = mem_strdup(source.output);
    source.output = output;
    void *bytes = onnx_text_pack(m, &source.n);
    source.bytes = bytes;
    bool right = onnx_net_read(&source, &net, &err) == 0 && compute(net, input, dir, &err);
    if (err.code != 0) {
        print_message("%s: %s\n", dir, err.msg);
    }
    onnx_net_free(net);
    free(bytes);
    free(output);
    onnx__tensor_proto__free_unpacked(input, NULL);
    return right;
}

static void operators_compute_what_onnx_says(void **state)
{
    (void)state;
    const char *data = getenv("GRADUS_TEST_DATA");
    static const char *const kinds[] = {"node", "pytorch-converted", "pytorch-operator"};
    size_t tried = 0, passed = 0;
    for (size_t i = 0; i < 3 && data != NULL; i++) {
        char *kind = mem_printf("%s/onnx/%s", data, kinds[i]);
        DIR *dir = opendir(kind);
        for (struct dirent *e = dir == NULL ? NULL : readdir(dir); e != NULL; e = readdir(dir)) {
            if (e->d_name[0] != '.') {
                char *path = mem_printf("%s/%s", kind, e->d_name);
                tried++;
                passed += passes(path);
                free(path);
            }
        }
        if (dir != NULL) {
            (void)closedir(dir);
        }
        free(kind);
    }
    print_message("%zu of %zu operator tests of onnx/onnx pass\n", passed, tried);
    assert_int_equal(passed, tried);
    if (tried == 0) {
        print_message("GRADUS_TEST_DATA names no directory with onnx\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_compute_what_onnx_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
