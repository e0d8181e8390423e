/* SPDX-License-Identifier: Apache-2.0 */
/* Writes models around layers of every kind as ONNX below a directory, each with its inputs and
 * with what our own runner answers, for a Python test that computes the same.
 *
 *   cases.txt        a line per model: number, what it is, and how it went
 *   0.onnx …         the files; only of those that can be written
 *   0.y …            answers, floats
 *   0.features …     inputs, floats; of sparse fields keys, integers of 64 bits, and weights
 *
 * Usage: onnx_writer DIRECTORY */
#include "support/test.h"

#include <math.h>

#include "graph/model_onnx.h"
#include "os/file.h"
#include "support/layer_variants.h"

#define RECORDS 5
#define TABLES_MAX 2

struct writing {
    const char *directory;
    struct buf cases;
    size_t number;
};

static void put(const struct writing *w, const char *name, const void *data, size_t bytes)
{
    char *path = mem_printf("%s/%zu.%s", w->directory, w->number, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) {
        fail_msg("%s cannot be written", path);
    }
    free(path);
}

/* Variances that are some, and keys that all layers have rows for. */
static void settle(struct models_rig *rig)
{
    struct sparse_batch *lists = &rig->batch.lists;
    for (size_t i = 0; i < rig->variables; i++) {
        const struct variable_spec *v = model_variable(rig->model, i);
        for (size_t j = 0; v->statistic > 0 && j < rig->sizes[i]; j++) {
            rig->values[i][j] = 0.5F + fabsf(rig->values[i][j]);
        }
    }
    for (size_t f = 0; f < MODELS_FIELDS; f++) {
        uint64_t keys;
        size_t length;
        const char *keys_layer, *length_layer;
        const uint64_t *offsets = lists->offsets + f * (lists->capacity + 1);
        model_list_limits(rig->model, f, &keys, &keys_layer, &length, &length_layer);
        for (uint64_t k = offsets[0]; k < offsets[lists->count]; k++) {
            lists->keys[k] %= keys;
        }
    }
}

/* The lists of field @f as [records, keys], filled up with -1, and as many weights. */
static void put_lists(const struct writing *w, const struct models_rig *rig, size_t f, size_t most)
{
    const struct sparse_batch *lists = &rig->batch.lists;
    const uint64_t *offsets = lists->offsets + f * (lists->capacity + 1);
    const size_t width = most == SIZE_MAX ? MODELS_LIST_MAX : most;
    int64_t *keys = mem_new(RECORDS * width, sizeof *keys);
    float *weights = mem_new(RECORDS * width, sizeof *weights);
    for (size_t i = 0; i < RECORDS; i++) {
        for (size_t k = 0; k < width; k++) {
            const uint64_t at = offsets[i] + k;
            keys[i * width + k] = at < offsets[i + 1] ? (int64_t)lists->keys[at] : -1;
            weights[i * width + k] = at < offsets[i + 1] ? lists->weights[at] : 3.0F;
        }
    }
    char *values = mem_printf("%s.values", models_field_names[f]);
    put(w, models_field_names[f], keys, RECORDS * width * sizeof *keys);
    put(w, values, weights, RECORDS * width * sizeof *weights);
    free(values);
    free(keys);
    free(weights);
}

/* The rows of the batch's keys, each once, and zeros for others. */
static void fill_table(const struct models_rig *rig, size_t t, struct model_onnx_table *out)
{
    const size_t n = model_table_lookups(rig->model, t, &rig->batch.lists);
    const size_t dim = model_table_dim(rig->model, t), values = rig->sizes[rig->variables + t];
    uint64_t *all = mem_new(n + 1, sizeof *all);
    int64_t *keys = mem_new(n + 1, sizeof *keys);
    float *rows = mem_new(values + dim, sizeof *rows);
    model_table_keys(rig->model, t, &rig->batch.lists, all);
    for (size_t i = 0; i < n; i++) {
        keys[rig->index[t][i]] = (int64_t)all[i];
    }
    memcpy(rows, rig->values[rig->variables + t], values * sizeof *rows);
    *out = (struct model_onnx_table){
        .name = "t.rows", .count = values / dim, .keys = keys, .values = rows};
    free(all);
}

static void free_table(const struct model_onnx_table *t)
{
    free((void *)(uintptr_t)t->keys);
    free((void *)(uintptr_t)t->values);
}

static void put_answers(const struct writing *w, struct models_rig *rig, struct shape input)
{
    size_t outputs;
    const float *y = runner_predict(rig->runner, models_values(rig), &rig->batch, &outputs);
    float *answers = mem_new(RECORDS * outputs, sizeof *answers);
    model_answer(rig->model, y, RECORDS, answers);
    put(w, "y", answers, RECORDS * outputs * sizeof *answers);
    put(w, "features", rig->batch.features, RECORDS * (size_t)shape_count(&input) * sizeof(float));
    free(answers);
}

static int write_model(struct writing *w, struct models_rig *rig, struct shape input,
                       struct err *err)
{
    struct onnx_graph *g = onnx_graph_new("case", 1);
    struct onnx_dim dims[ONNX_DIMS_MAX];
    const char *keys[MODELS_FIELDS], *weights[MODELS_FIELDS], *answer;
    struct model_onnx_table tables[TABLES_MAX];
    const size_t table_count = model_table_count(rig->model);
    assert_true(table_count <= TABLES_MAX);
    for (size_t t = 0; t < table_count; t++) {
        fill_table(rig, t, &tables[t]);
    }
    model_onnx_dims(&input, dims);
    onnx_graph_reserve(g, "probabilities");
    struct model_onnx o = {.graph = g,
                           .values = models_values(rig),
                           .keys = keys,
                           .weights = weights,
                           .tables = tables};
    o.input = onnx_graph_input(g, "features", ONNX_FLOATS, dims, input.rank + 1);
    o.input_shape = input;
    for (size_t f = 0; f < MODELS_FIELDS; f++) {
        const size_t most = model_onnx_keys(rig->model, f);
        dims[1] =
            most == SIZE_MAX ? (struct onnx_dim){.name = "keys"} : (struct onnx_dim){.value = most};
        keys[f] = onnx_graph_input(g, models_field_names[f], ONNX_INT64S, dims, 2);
        char *values = mem_printf("%s.values", models_field_names[f]);
        weights[f] = onnx_graph_input(g, values, ONNX_FLOATS, dims, 2);
        free(values);
        put_lists(w, rig, f, most);
    }
    int rc = model_onnx(rig->model, &o, &answer, err);
    if (rc == 0) {
        char *path = mem_printf("%s/%zu.onnx", w->directory, w->number);
        dims[1] = (struct onnx_dim){.value = model_outputs(rig->model)};
        onnx_graph_output(g, answer, "probabilities", dims, 2);
        rc = onnx_graph_write(g, path, w->number % 7 == 3, NULL, err);
        free(path);
    }
    onnx_graph_free(g);
    for (size_t t = 0; t < table_count; t++) {
        free_table(&tables[t]);
    }
    return rc;
}

static void write_case(void *context, const struct model_spec *spec, struct shape input,
                       const char *what)
{
    struct writing *w = context;
    struct models_rig rig;
    struct err err = {0};
    models_rig_init(&rig, spec, input, VARIANTS_CLASSES, RECORDS, 77 + w->number);
    settle(&rig);
    const int rc = write_model(w, &rig, input, &err);
    if (rc == 0) {
        put_answers(w, &rig, input);
    }
    buf_printf(&w->cases, "%zu\t%s\t%s\n", w->number, what, rc == 0 ? "written" : err.msg);
    models_rig_release(&rig);
    w->number++;
}

static void write_all(void **state)
{
    struct writing *w = *state;
    for (size_t i = 0; layer_kind_at(i) != NULL; i++) {
        (void)variants_visit(layer_kind_at(i), write_case, w);
    }
    char *path = mem_printf("%s/cases.txt", w->directory);
    struct err err = {0};
    assert_int_equal(file_write_atomic(path, w->cases.data, w->cases.len, &err), 0);
    free(path);
    buf_release(&w->cases);
}

int main(int argc, char **argv)
{
    struct writing w = {.directory = argc == 2 ? argv[1] : "."};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(write_all, &w)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
