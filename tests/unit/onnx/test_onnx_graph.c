/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are built and written, read back as messages. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx.pb-c.h"
#include "onnx/onnx_graph_impl.h"
#include "onnx/onnx_tensor.h"
#include "os/file.h"
#include "support/tmp_dir.h"

#define ROWS 40

static const struct onnx_dim dims[] = {{.name = "batch"}, {.value = ROWS}};
static float kernel[ROWS * 10]; /* 1600 bytes: enough for a file of its own */

/* y = x · kernel, named and renamed. */
static struct onnx_graph *make(void)
{
    for (size_t i = 0; i < ROWS * 10; i++) {
        kernel[i] = (float)i;
    }
    const struct shape shape = {.rank = 2, .dims = {ROWS, 10}};
    const int64_t axes = -1;
    const struct onnx_dim out[] = {dims[0], {.value = 10}};
    struct onnx_graph *g = onnx_graph_new("job", 12);
    onnx_graph_describe(g, "gradus.loss", "none");
    onnx_graph_reserve(g, "value");
    const char *x = onnx_graph_input(g, "features", ONNX_FLOATS, dims, 2);
    onnx_graph_part(g, "value"); /* taken: the layer is called otherwise */
    const char *w = onnx_graph_floats(g, "value.kernel", &shape, kernel);
    const char *y = onnx_graph_op(g, "MatMul", "", x, w, NULL);
    assert_string_equal(y, "value_2");
    onnx_graph_shape(g, y, out, 2);
    assert_string_equal(onnx_graph_ints(g, "/axes", 1, &axes), "value/axes");
    assert_string_equal(onnx_graph_float(g, "/axes", 2), "value/axes_2");
    (void)onnx_graph_op(g, "Relu", "side", y, NULL);
    onnx_graph_output(g, y, "value", out, 2);
    return g;
}

static Onnx__ModelProto *write_and_read(const char *path, bool external)
{
    struct onnx_graph *g = make();
    struct err err = {0};
    bool wrote = !external;
    if (onnx_graph_write(g, path, external, &wrote, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(wrote, external);
    onnx_graph_free(g);
    struct buf bytes = {0};
    assert_int_equal(file_read(path, 1 << 20, &bytes, &err), 0);
    Onnx__ModelProto *m =
        onnx__model_proto__unpack(NULL, bytes.len, (const uint8_t *)buf_str(&bytes));
    assert_non_null(m);
    buf_release(&bytes);
    return m;
}

static void graphs_are_written(void **state)
{
    (void)state;
    char *dir = tmp_dir_make("onnx"), *path = file_join(dir, "net.onnx");
    Onnx__ModelProto *m = write_and_read(path, false);
    assert_int_equal(m->ir_version, ONNX_IR_VERSION);
    assert_int_equal(m->model_version, 12);
    assert_string_equal(m->producer_name, "gradus");
    assert_int_equal(m->n_opset_import, 1);
    assert_int_equal(m->opset_import[0]->version, ONNX_OPSET);
    assert_string_equal(m->metadata_props[0]->value, "none");
    const Onnx__GraphProto *g = m->graph;
    assert_string_equal(g->name, "job");
    assert_int_equal(g->n_node, 2);
    assert_string_equal(g->node[0]->op_type, "MatMul");
    assert_string_equal(g->node[0]->name, "value_2");
    assert_string_equal(g->node[0]->output[0], "value");
    assert_string_equal(g->node[1]->input[0], "value"); /* readers follow the new name */
    assert_int_equal(g->n_value_info, 0);               /* it is an output now */
    assert_string_equal(g->input[0]->type->tensor_type->shape->dim[0]->dim_param, "batch");
    assert_int_equal(g->input[0]->type->tensor_type->shape->dim[1]->dim_value, ROWS);
    assert_string_equal(g->output[0]->name, "value");
    assert_int_equal(g->n_initializer, 3);
    float got[ROWS * 10];
    struct err err = {0};
    assert_int_equal(onnx_tensor_floats(g->initializer[0], NULL, got, &err), 0);
    assert_memory_equal(got, kernel, sizeof kernel);
    int64_t axes = 0;
    assert_int_equal(onnx_tensor_ints(g->initializer[1], NULL, &axes, &err), 0);
    assert_int_equal(axes, -1);
    onnx__model_proto__free_unpacked(m, NULL);
    free(path);
    tmp_dir_remove(dir);
}

static void large_constants_go_to_another_file(void **state)
{
    (void)state;
    char *dir = tmp_dir_make("onnx"), *path = file_join(dir, "net.onnx");
    char *other = file_join(dir, "net.onnx" ONNX_EXTERNAL_SUFFIX);
    Onnx__ModelProto *m = write_and_read(path, true);
    struct onnx_tensor_info info;
    struct err err = {0};
    assert_int_equal(onnx_tensor_inspect(m->graph->initializer[0], &info, &err), 0);
    assert_true(info.external);
    assert_string_equal(info.file, "net.onnx.data");
    assert_int_equal(info.bytes, sizeof kernel);
    struct buf bytes = {0};
    assert_int_equal(file_read(other, 1 << 20, &bytes, &err), 0);
    assert_int_equal(bytes.len, info.offset + info.bytes);
    assert_memory_equal(bytes.data + info.offset, kernel, sizeof kernel);
    assert_int_equal(onnx_tensor_inspect(m->graph->initializer[1], &info, &err), 0);
    assert_false(info.external); /* small ones stay */
    buf_release(&bytes);
    onnx__model_proto__free_unpacked(m, NULL);
    free(other);
    free(path);
    tmp_dir_remove(dir);
}

static void what_no_node_makes_can_be_an_output(void **state)
{
    (void)state;
    char *dir = tmp_dir_make("onnx"), *path = file_join(dir, "same.onnx");
    struct onnx_graph *g = onnx_graph_new("same", 1);
    struct err err = {0};
    const char *x = onnx_graph_input(g, "features", ONNX_FLOATS, dims, 2);
    onnx_graph_reserve(g, "value");
    onnx_graph_output(g, x, "value", dims, 2);
    assert_int_equal(onnx_graph_write(g, path, false, NULL, &err), 0);
    onnx_graph_free(g);
    struct buf bytes = {0};
    assert_int_equal(file_read(path, 1 << 20, &bytes, &err), 0);
    Onnx__ModelProto *m =
        onnx__model_proto__unpack(NULL, bytes.len, (const uint8_t *)buf_str(&bytes));
    assert_int_equal(m->graph->n_node, 1);
    assert_string_equal(m->graph->node[0]->op_type, "Identity");
    assert_string_equal(m->graph->node[0]->input[0], "features");
    assert_string_equal(m->graph->node[0]->output[0], "value");
    assert_string_equal(m->graph->input[0]->name, "features");
    onnx__model_proto__free_unpacked(m, NULL);
    buf_release(&bytes);
    free(path);
    tmp_dir_remove(dir);
}

static void places_that_cannot_be_written(void **state)
{
    (void)state;
    struct onnx_graph *g = make();
    struct err err = {0};
    assert_int_equal(onnx_graph_write(g, "somewhere/", false, NULL, &err), ERR_INVALID);
    assert_string_equal(err.msg, "somewhere/ names no file");
    assert_int_not_equal(onnx_graph_write(g, "/nowhere/at/all/net.onnx", true, NULL, &err), 0);
    assert_non_null(strstr(err.msg, "/nowhere/at/all/net.onnx.data"));
    assert_int_not_equal(onnx_graph_write(g, "/nowhere/at/all/net.onnx", false, NULL, &err), 0);
    onnx_graph_free(g);
}

/* What makes a message too large goes to the other file; what cannot go there is named. */
static void messages_have_a_largest_size(void **state)
{
    (void)state;
    char *dir = tmp_dir_make("onnx"), *path = file_join(dir, "net.onnx");
    struct onnx_graph *g = make();
    struct err err = {0};
    bool external = false;
    g->message_bytes_max = sizeof kernel;
    assert_int_equal(onnx_graph_write(g, path, false, &external, &err), 0);
    assert_true(external);
    int64_t keys[sizeof kernel / 8] = {0};
    const struct onnx_attr attr = ONNX_ATTR_INTS("keys_int64s", keys, sizeof kernel / 8);
    for (size_t i = 0; i < sizeof kernel / 8; i++) {
        keys[i] = -1; /* ten bytes each */
    }
    (void)onnx_graph_node(g, ONNX_ML "LabelEncoder", "", &(const char *){"features"}, 1, &attr, 1);
    assert_int_equal(onnx_graph_write(g, path, false, &external, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "keys of tables"));
    onnx_graph_free(g);
    free(path);
    tmp_dir_remove(dir);
}

static void equal_constants_are_shared(void **state)
{
    (void)state;
    struct onnx_graph *g = onnx_graph_new("shared", 1);
    const struct shape row = {.rank = 2, .dims = {1, 2}}, column = {.rank = 2, .dims = {2, 1}};
    const char *a = onnx_graph_shared_ints(g, "bits", &row, (int64_t[]){1, 2});
    assert_string_equal(a, onnx_graph_shared_ints(g, "bits", &row, (int64_t[]){1, 2}));
    assert_string_not_equal(a, onnx_graph_shared_ints(g, "bits", &row, (int64_t[]){1, 3}));
    assert_string_not_equal(a, onnx_graph_shared_ints(g, "bits", &column, (int64_t[]){1, 2}));
    onnx_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_are_written),
        cmocka_unit_test(large_constants_go_to_another_file),
        cmocka_unit_test(what_no_node_makes_can_be_an_output),
        cmocka_unit_test(places_that_cannot_be_written),
        cmocka_unit_test(messages_have_a_largest_size),
        cmocka_unit_test(equal_constants_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
