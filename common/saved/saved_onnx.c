/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a model as an ONNX file: inputs and features, the layers, the answers, and the metadata. A
 * model that was imported from a file is written as that file, with its present values. */
#include "saved/saved_onnx.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "graph/model_import.h"
#include "graph/model_onnx.h"
#include "json/json_write.h"
#include "saved/saved_notes.h"
#include "saved/saved_onnx_features.h"
#include "saved/saved_onnx_fields.h"
#include "saved/saved_onnx_tables.h"

/* ---- the metadata of the file ---- */

static void describe(const struct saved_model *m, struct saved_notes *n)
{
    const struct records *raw = encoder_raw(saved_model_encoder(m));
    const size_t classes = saved_model_classes(m);
    saved_note_version(n, saved_model_about(m));
    saved_note(n, "gradus.loss", mem_strdup(loss_kind_names[model_loss(saved_model_graph(m))]));
    if (classes > 0) {
        const char **names = mem_new(classes, sizeof *names);
        for (size_t i = 0; i < classes; i++) {
            names[i] = saved_model_class_name(m, i);
        }
        saved_note_list(n, "gradus.classes", names, classes);
        free(names);
    }
    if (raw->columns != NULL) {
        saved_note_list(n, "gradus.columns", (const char *const *)raw->columns, raw->numbers);
    }
}

/* ---- answers ---- */

/* Adds the answers, as saved_run_answer() has them. */
static void add_answers(const struct saved_model *m, struct onnx_graph *g, const char *y)
{
    const struct dataset_info *info = encoder_info(saved_model_encoder(m));
    const size_t classes = saved_model_classes(m);
    const struct onnx_dim dims[2] = {{.name = "batch"}, {.value = saved_model_width(m)}};
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    onnx_graph_part(g, "answer");
    if (classes == 2 && model_outputs(saved_model_graph(m)) == 1) {
        const char *one = onnx_graph_float(g, "/one", 1.0F);
        const char *both[2] = {onnx_graph_op(g, "Sub", "/other", one, y, NULL), y};
        y = onnx_graph_node(g, "Concat", "/both", both, 2, &axis, 1);
    } else if (classes == 0 && (info->label_scale < 1 || info->label_scale > 1)) {
        const char *by = onnx_graph_float(g, "/scale", (float)info->label_scale);
        y = onnx_graph_op(g, "Mul", "/scaled", y, by, NULL);
    }
    if (classes == 0 && (info->label_offset < 0 || info->label_offset > 0)) {
        const char *by = onnx_graph_float(g, "/offset", (float)info->label_offset);
        y = onnx_graph_op(g, "Add", "/shifted", y, by, NULL);
    }
    onnx_graph_output(g, y, classes > 0 ? "probabilities" : "value", dims, 2);
}

static int build(const struct saved_model *m, bool texts, const struct saved_onnx_tables *tables,
                 struct onnx_graph *g, struct err *err)
{
    const struct encoder *e = saved_model_encoder(m);
    struct model_onnx o = {.graph = g, .values = saved_model_values(m), .tables = tables->tables};
    struct saved_onnx_fields fields = {0};
    const char *answer = NULL;
    onnx_graph_reserve(g, saved_model_classes(m) > 0 ? "probabilities" : "value");
    int rc = saved_onnx_features(e, texts, g, &o.input, &o.input_shape, err);
    rc = rc != 0 ? rc : saved_onnx_fields(m, texts, g, &fields, err);
    if (rc == 0) {
        saved_onnx_columns(m, &fields, g, &o.input, &o.input_shape);
    }
    o.keys = fields.keys;
    o.weights = fields.weights;
    rc = rc != 0 ? rc : model_onnx(saved_model_graph(m), &o, &answer, err);
    if (rc == 0) {
        add_answers(m, g, answer);
    }
    saved_onnx_fields_release(&fields);
    return rc;
}

static int write_layers(const struct saved_model *m, const struct saved_notes *notes,
                        const char *location, const struct saved_onnx_options *options,
                        bool *wrote_external, struct err *err)
{
    struct onnx_graph *g = onnx_graph_new(saved_model_spec(m)->name,
                                          (int64_t)(saved_model_about(m)->step & INT64_MAX));
    for (size_t i = 0; i < notes->count; i++) {
        onnx_graph_describe(g, notes->items[i][0], notes->items[i][1]);
    }
    struct saved_onnx_tables tables = {0};
    int rc = saved_onnx_tables(m, &tables, err);
    rc = rc != 0 ? rc : build(m, options->texts, &tables, g, err);
    rc = rc != 0 ? rc : onnx_graph_write(g, location, options->external, wrote_external, err);
    onnx_graph_free(g);
    saved_onnx_tables_release(&tables);
    return rc;
}

int saved_onnx_write(const struct saved_model *m, const char *location,
                     const struct saved_onnx_options *options, bool *wrote_external,
                     struct err *err)
{
    const struct model_spec *spec = &saved_model_spec(m)->model;
    struct saved_notes notes = {0};
    int rc;
    describe(m, &notes);
    if (!model_is_imported(spec)) {
        rc = write_layers(m, &notes, location, options, wrote_external, err);
    } else if (options->external || options->texts) {
        rc = err_set(err, ERR_UNSUPPORTED, "--%s",
                     options->external
                         ? "external: the file of model.onnx is written with its weights inside"
                         : "texts: the file of model.onnx takes what it took, which are numbers");
    } else {
        rc = model_import_write(spec, saved_model_values(m), (const char *const(*)[2])notes.items,
                                notes.count, location, err);
    }
    saved_notes_release(&notes);
    return rc;
}
