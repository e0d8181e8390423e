/* SPDX-License-Identifier: Apache-2.0 */
/* The model section: what its rows cannot say, the layers and the metrics. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/spec/job_internal.h"

const char job_layer_from_help[] =
    "What the layer reads: the name of a layer above, or input, or a list of such names where a "
    "layer takes several; of embedding, linear and fm, names and ranges (C1..C26) of sparse fields "
    "of the data, all of them if nothing is said";
const char job_layer_name_help[] =
    "Name of the layer, first part of its variables' names; by default its kind and its number "
    "among the layers of that kind, from 1";

#define SHOWN_BYTES 64
#define FIELD_NAME_BYTES_MAX 255

/* Letters of a layer's name: it is the first part of its variables' names ("dense_1.kernel"). */
static bool layer_name_fits(const char *name)
{
    size_t n = strlen(name);
    bool fits = n >= 1 && n <= JOB_NAME_BYTES_MAX;
    for (size_t i = 0; i < n && fits; i++) {
        fits = isalnum((unsigned char)name[i]) || name[i] == '_' || (i > 0 && name[i] == '-');
    }
    return fits;
}

/* The given name, owned; NULL when there is none or after a report. */
static char *read_name(const struct job_reader *r, const struct yaml_node *params,
                       const char *where)
{
    const struct yaml_entry *entry = params == NULL ? NULL : yaml_find(params, "name");
    if (entry == NULL) {
        return NULL;
    }
    const bool fits = entry->value->kind == YAML_SCALAR && layer_name_fits(entry->value->text);
    if (fits && strcmp(entry->value->text, LAYER_NAME_OF_INPUT) == 0) {
        yaml_diag(r->diags, r->file, entry->value,
                  "%s.name: '" LAYER_NAME_OF_INPUT "' is what 'from' calls the records; another "
                  "name is needed",
                  where);
        return NULL;
    }
    if (fits) {
        return mem_strdup(entry->value->text);
    }
    yaml_diag(r->diags, r->file, entry->value,
              "%s.name: not a layer name; allowed: letters, digits, '_' and '-', at most %d", where,
              JOB_NAME_BYTES_MAX);
    return NULL;
}

/* What a layer reads: a name or a list of names. Which layers they are is seen when all have names
 * (check_from). */
static void read_from(const struct job_reader *r, const struct yaml_node *params, const char *where,
                      struct layer_spec *layer)
{
    const struct yaml_entry *entry = params == NULL ? NULL : yaml_find(params, "from");
    if (entry == NULL) {
        return;
    }
    const struct yaml_node *value = entry->value;
    const bool list = value->kind == YAML_SEQUENCE, fields = layer_kind_reads_fields(layer->kind);
    const size_t count = list ? value->count : 1;
    bool fits = count >= 1 && count <= LAYER_INPUTS_MAX;
    for (size_t k = 0; k < count && fits; k++) {
        const struct yaml_node *name = list ? value->items[k].value : value;
        fits = name->kind == YAML_SCALAR &&
               (fields ? name->text[0] != '\0' && strlen(name->text) <= FIELD_NAME_BYTES_MAX
                       : layer_name_fits(name->text));
    }
    if (!fits) {
        yaml_diag(r->diags, r->file, value,
                  "%s.from: not a layer's name; allowed: a name, or a list of 1 to %d names", where,
                  LAYER_INPUTS_MAX);
        return;
    }
    struct err err = {0};
    layer->from = mem_new(count, sizeof *layer->from);
    for (size_t k = 0; k < count && err.code == 0; k++) {
        const char *text = list ? value->items[k].value->text : value->text;
        if (fields) {
            job_lists_expand(layer, text, &err);
        } else {
            layer->from[layer->from_count++] = mem_strdup(text);
        }
    }
    if (err.code != 0) {
        yaml_diag(r->diags, r->file, value, "%s.from: %s", where, err.msg);
    }
}

static void read_params(const struct job_reader *r, struct layer_spec *layer,
                        const struct yaml_node *item, const struct yaml_node *params,
                        const char *where)
{
    size_t count;
    const struct field *fields = layer_kind_fields(layer->kind, &count);
    bool *seen = mem_new(count + 1, sizeof *seen);
    static const char *const extra[] = {"name", "from", NULL};
    const struct binding b = {
        .fields = fields,
        .count = count,
        .object = layer->params,
        .seen = seen,
        .where = where,
        .extra = extra,
        .file = r->file,
        .diags = r->diags,
    };
    if (params != NULL) {
        binding_read(&b, params);
    }
    if (params == NULL || params->kind == YAML_MAPPING) {
        binding_require(&b, params == NULL ? item : params);
    }
    free(seen);
}

/* A frequent slip: the parameters are not indented below the layer's name. */
static void report_form(const struct job_reader *r, const struct yaml_node *item, const char *where)
{
    if (item->kind == YAML_MAPPING && item->count > 1 && yaml_is_null(item->items[0].value)) {
        char shown[SHOWN_BYTES];
        yaml_diag(r->diags, r->file, item,
                  "%s: %zu keys stand side by side; indent the parameters below '%s:'", where,
                  item->count, text_shown(item->items[0].key, shown, sizeof shown));
        return;
    }
    yaml_diag(r->diags, r->file, item,
              "%s: not a layer; allowed: a name (relu) or one name with parameters "
              "(dense: {units: 10})",
              where);
}

/* Read one entry; false when it gives no layer. */
static bool read_layer(const struct job_reader *r, const struct yaml_node *item, size_t index,
                       struct layer_spec *layer)
{
    char where[48];
    (void)snprintf(where, sizeof where, "model.layers.%zu", index);
    struct yaml_node *params;
    const char *kind = job_layer_entry(item, &params);
    if (kind == NULL) {
        report_form(r, item, where);
        return false;
    }
    const char **names = job_layer_names();
    struct yaml_node *word = yaml_scalar(kind, YAML_FLAG);
    word->line = item->line;
    word->column = item->column;
    word->source = item->source;
    int choice = -1;
    bool known = job_choice(r, names, where, word, &choice);
    yaml_node_free(word);
    free(names);
    if (!known) {
        return false;
    }
    layer->kind = layer_kind_at((size_t)choice);
    layer->line = item->line;
    layer->column = item->column;
    size_t bytes = layer_kind_params_bytes(layer->kind);
    layer->params = mem_new(1, bytes == 0 ? 1 : bytes);
    size_t count;
    const struct field *fields = layer_kind_fields(layer->kind, &count);
    field_defaults(fields, count, layer->params);
    read_params(r, layer, item, params, where);
    layer->name = read_name(r, params, where);
    read_from(r, params, where, layer);
    return true;
}

/* "<kind>_<n>", counted over the layers of one kind from 1, for those without a name. */
static void name_layers(struct model_spec *model)
{
    for (size_t i = 0; i < model->layer_count; i++) {
        struct layer_spec *layer = &model->layers[i];
        size_t number = 1;
        for (size_t k = 0; k < i; k++) {
            number += model->layers[k].kind == layer->kind;
        }
        if (layer->name == NULL) {
            layer->name = mem_printf("%s_%zu", layer_kind_name(layer->kind), number);
        }
    }
}

static void check_names(const struct job_reader *r, const struct model_spec *model,
                        const struct yaml_node *const *items)
{
    for (size_t i = 0; i < model->layer_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(model->layers[k].name, model->layers[i].name) == 0) {
                struct yaml_node *params;
                job_layer_entry(items[i], &params);
                const struct yaml_entry *name = params == NULL ? NULL : yaml_find(params, "name");
                yaml_diag(r->diags, r->file, name == NULL ? items[i] : name->value,
                          "two layers have the name '%s'; give one of them another 'name'",
                          model->layers[i].name);
                break;
            }
        }
    }
}

/* Reports at the `from` of the layer, or at the layer. */
static void check_from(const struct job_reader *r, const struct model_spec *model,
                       const struct yaml_node *const *items)
{
    static const struct sparse_names none = {0};
    for (size_t i = 0; i < model->layer_count; i++) {
        size_t from[LAYER_INPUTS_MAX], count;
        struct err err = {0};
        const struct sparse_names *fields = job_lists_none(&r->spec->data) ? &none : NULL;
        if (model_spec_inputs(model, i, fields, from, &count, &err) != 0) {
            struct yaml_node *params;
            job_layer_entry(items[i], &params);
            const struct yaml_entry *at = params == NULL ? NULL : yaml_find(params, "from");
            yaml_diag(r->diags, r->file, at == NULL ? items[i] : at->value, "layer '%s': %s",
                      model->layers[i].name, err.msg);
        }
    }
}

static void read_layers(struct job_reader *r, const struct yaml_node *list)
{
    if (list->kind != YAML_SEQUENCE || list->count == 0) {
        yaml_diag(r->diags, r->file, list, "model.layers: allowed: a list of 1 to %d layers",
                  JOB_LAYERS_MAX);
        return;
    }
    size_t count = list->count;
    if (count > JOB_LAYERS_MAX) {
        yaml_diag(r->diags, r->file, list->items[JOB_LAYERS_MAX].value,
                  "model.layers: %zu layers; allowed: a list of 1 to %d layers", count,
                  JOB_LAYERS_MAX);
        count = JOB_LAYERS_MAX;
    }
    struct model_spec *model = &r->spec->model;
    const struct yaml_node *items[JOB_LAYERS_MAX] = {NULL};
    model->layers = mem_new(count, sizeof model->layers[0]);
    for (size_t i = 0; i < count; i++) {
        const struct yaml_node *item = list->items[i].value;
        if (read_layer(r, item, i, &model->layers[model->layer_count])) {
            items[model->layer_count++] = item;
        }
    }
    name_layers(model);
    check_names(r, model, items);
    if (model->layer_count == list->count) { /* otherwise names that were given may be missing */
        check_from(r, model, items);
    }
}

/* The metrics that a job has that names none. */
static unsigned metrics_of(const struct model_spec *model)
{
    static const unsigned usual[LOSS_KIND_COUNT] = {
        [LOSS_SOFTMAX_CROSS_ENTROPY] = 1U << METRIC_ACCURACY,
        [LOSS_SIGMOID_CROSS_ENTROPY] = 1U << METRIC_ACCURACY | 1U << METRIC_AUC,
        [LOSS_MEAN_SQUARED_ERROR] = 1U << METRIC_RMSE,
        [LOSS_AUTO] = 1U << METRIC_ACCURACY,
    };
    const bool program = model->program != NULL && model->program[0] != '\0';
    return (program ? 0 : usual[model->loss]) | 1U << METRIC_LOSS;
}

static void read_metrics(struct job_reader *r, const struct yaml_node *list)
{
    struct model_spec *model = &r->spec->model;
    if (list->kind != YAML_SEQUENCE) {
        yaml_diag(r->diags, r->file, list,
                  "model.metrics: allowed: a list of metrics, such as [accuracy]");
        return;
    }
    model->metrics = 1U << METRIC_LOSS;
    for (size_t i = 0; i < list->count; i++) {
        const struct yaml_node *item = list->items[i].value;
        int kind;
        if (!job_choice(r, metric_kind_names, "model.metrics", item, &kind)) {
            continue;
        }
        if (r->loss_known && (model_metrics_of(model->loss) & 1U << kind) == 0) {
            struct buf allowed = {0};
            for (int k = 0; k < METRIC_KIND_COUNT; k++) {
                if ((model_metrics_of(model->loss) & 1U << k) != 0) {
                    buf_printf(&allowed, "%s%s", allowed.len == 0 ? "" : ", ",
                               metric_kind_names[k]);
                }
            }
            yaml_diag(r->diags, r->file, item,
                      "model.metrics: '%s' does not fit the loss %s; allowed: %s",
                      metric_kind_names[kind], loss_kind_names[model->loss], buf_str(&allowed));
            buf_release(&allowed);
        }
        model->metrics |= 1U << kind;
    }
}

/* Whether the loss row took what stands there: only then can it judge the metrics. */
static bool loss_given(const struct yaml_node *map)
{
    const struct yaml_entry *entry = yaml_find(map, "loss");
    for (size_t i = 0; entry != NULL && entry->value->kind == YAML_SCALAR && i < LOSS_KIND_COUNT;
         i++) {
        if (strcmp(loss_kind_names[i], entry->value->text) == 0) {
            return true;
        }
    }
    return false;
}

/* Settles loss: auto. With real labels it can be one loss alone; with classes the data say how many
 * there are. */
static void settle_loss(struct job_reader *r)
{
    struct model_spec *model = &r->spec->model;
    if (r->loss_known && model->loss == LOSS_AUTO && r->spec->data.label_kind == DATA_LABEL_REAL) {
        model->loss = LOSS_MEAN_SQUARED_ERROR;
    }
    if (r->loss_known && model->loss == LOSS_AUTO && job_onnx_given(r)) {
        job_report(r, "model.loss",
                   "model.loss: the outputs of a graph are as many as its file says; allowed: the "
                   "loss that they are for");
    }
}

void job_model_read(struct job_reader *r)
{
    const struct yaml_entry *section = yaml_find(r->root, "model");
    if (section == NULL ||
        (section->value->kind != YAML_MAPPING && !yaml_is_null(section->value))) {
        return; /* reported with the rows */
    }
    const struct yaml_node *map = section->value;
    r->loss_known = loss_given(map) && !job_program_given(r);
    settle_loss(r);
    const struct yaml_entry *layers = yaml_find(map, "layers");
    /* the checks of a program are in job_program_check() */
    const bool program = job_program_given(r);
    if (layers == NULL && !program && !job_onnx_given(r)) {
        yaml_diag(r->diags, r->file, map,
                  "model.layers is missing; allowed: a list of 1 to %d layers", JOB_LAYERS_MAX);
    } else if (!program && layers != NULL && !job_onnx_given(r)) {
        read_layers(r, layers->value);
    }
    const struct yaml_entry *metrics = yaml_find(map, "metrics");
    if (metrics != NULL) {
        read_metrics(r, metrics->value);
    } else {
        r->spec->model.metrics = metrics_of(&r->spec->model);
    }
}
