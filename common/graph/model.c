/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a model from the layers of a job file: passes the shape from layer to layer, adds
 * activations, and checks that output, loss, labels and metrics go together. Errors name the
 * layer's line. */
#include "graph/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/model_impl.h"

#define SHAPE_TEXT_BYTES 96

extern const struct layer_kind layer_imported; /* no layer of a job file */

/* Put "layer 3 (conv2d 'conv2d_1', line 12)" in front of the message. */
static int wrap_layer(struct err *err, const struct model_spec *spec, size_t i)
{
    const struct layer_spec *l = &spec->layers[i];
    if (l->line == 0) {
        return err_wrap(err, "layer %zu (%s '%s')", i + 1, l->kind->name, l->name);
    }
    return err_wrap(err, "layer %zu (%s '%s', line %u)", i + 1, l->kind->name, l->name, l->line);
}

/* The shape of a record as the layers see it: model.input may give flat records a shape. */
static int input_shape(const struct model_spec *spec, const struct shape *data,
                       const struct sparse_names *fields, struct shape *out, struct err *err)
{
    char wanted[SHAPE_TEXT_BYTES], have[SHAPE_TEXT_BYTES];
    *out = *data;
    if (spec->input.count > SHAPE_RANK_MAX) {
        return err_set(err, ERR_INVALID, "model.input has %zu dimensions; at most %d are possible",
                       spec->input.count, SHAPE_RANK_MAX);
    }
    if (spec->input.count > 0) {
        out->rank = spec->input.count;
        for (size_t i = 0; i < out->rank; i++) {
            out->dims[i] = (uint64_t)spec->input.values[i];
        }
    }
    const uint64_t count = shape_count(out);
    const bool none = shape_count(data) == 0 && fields != NULL && fields->count > 0;
    if (none && spec->input.count == 0) {
        return 0;
    }
    if (count == 0 || count > LAYER_ELEMENTS_MAX) {
        return err_set(err, ERR_INVALID,
                       "a record of shape %s cannot be an input; from 1 to %d elements would fit",
                       shape_format(out, have, sizeof have), LAYER_ELEMENTS_MAX);
    }
    if (count != shape_count(data)) {
        return err_set(err, ERR_INVALID,
                       "model.input %s has %" PRIu64 " elements, but a record of the data is %s; "
                       "%" PRIu64 " elements would fit",
                       shape_format(out, wanted, sizeof wanted), count,
                       shape_format(data, have, sizeof have), shape_count(data));
    }
    return 0;
}

static const struct shape *shape_of(const struct model *m, size_t i)
{
    return i == LAYER_FROM_INPUT ? &m->input : &m->layers[i].layer.out;
}

size_t model_source(const struct model *m, size_t i)
{
    while (i != LAYER_FROM_INPUT && m->layers[i].layer.kind->view) {
        i = m->layers[i].layer.inputs[0].from;
    }
    return i;
}

/* @from: layers of the model, or LAYER_FROM_INPUT. */
static void connect(struct model *m, struct model_layer *ml, const size_t *from, size_t count)
{
    struct layer *l = &ml->layer;
    l->inputs = mem_new(count, sizeof *l->inputs);
    l->input_count = count;
    m->inputs_max = count > m->inputs_max ? count : m->inputs_max;
    for (size_t k = 0; k < count; k++) {
        const struct shape *shape = shape_of(m, from[k]);
        const size_t source = model_source(m, from[k]);
        l->inputs[k] = (struct layer_input){
            .from = source, .shape = *shape, .count = (size_t)shape_count(shape)};
        if (from[k] != LAYER_FROM_INPUT) {
            m->layers[from[k]].readers++;
        }
        if (source != LAYER_FROM_INPUT) {
            m->layers[source].uses += !l->kind->view;
            ml->trains = ml->trains || m->layers[source].trains;
        }
    }
    l->in = l->inputs[0].shape;
    l->in_count = l->inputs[0].count;
}

/* Records of sparse fields alone have no numbers to read. */
static int check_numbers(const struct model *m, const struct layer *l, struct err *err)
{
    bool reads = false;
    for (size_t k = 0; k < l->input_count && !l->kind->reads_fields; k++) {
        reads = reads || (l->inputs[k].from == LAYER_FROM_INPUT && l->inputs[k].count == 0);
    }
    return !reads || m->fields == NULL
               ? 0
               : err_set(err, ERR_INVALID,
                         "it reads the numbers of a record, and the data have none but keys of "
                         "sparse fields; a %s layer above it would read these",
                         "linear or embedding");
}

/* Append a layer like @made, whose name and parameters are taken, that reads @from. */
static int add_layer(struct model *m, const struct model_layer *made, const size_t *from,
                     size_t count, struct err *err)
{
    struct model_layer *ml = &m->layers[m->layer_count];
    struct layer *l = &ml->layer;
    *ml = *made;
    l->variables = l->own;
    l->loss_outputs = m->loss_outputs;
    l->tables.items = m->table_specs;
    l->tables.count = m->table_count;
    if (l->kind->reads_fields) {
        model_connect_fields(m, l, from, count);
    } else {
        connect(m, ml, from, count);
    }
    m->layer_count++;
    int rc = check_numbers(m, l, err);
    rc = rc != 0 ? rc : l->kind->plan(l, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t out_count = shape_count(&l->out);
    if (out_count == 0 || out_count > LAYER_ELEMENTS_MAX) {
        char text[SHAPE_TEXT_BYTES];
        return err_set(err, ERR_INVALID, "its output would be %s; at most %d elements are possible",
                       shape_format(&l->out, text, sizeof text), LAYER_ELEMENTS_MAX);
    }
    l->out_count = (size_t)out_count;
    ml->trains = ml->trains || l->variable_count > 0 || l->has_table;
    l->first_variable = m->variable_count;
    m->variable_count += l->variable_count;
    return 0;
}

/* The activation that the layer before named, with its default parameters. */
static int add_activation(struct model *m, const struct model_layer *of, struct err *err)
{
    const struct layer_kind *kind = layer_kind_find(activation_names[of->layer.activation]);
    const size_t from = m->layer_count - 1;
    const struct model_layer made = {
        .is_activation = true,
        .spec = of->spec,
        .layer = {.kind = kind,
                  .name = mem_printf("%s.%s", of->layer.name, kind->name),
                  .params = mem_new(1, kind->params_bytes)}};
    field_defaults(kind->fields, kind->field_count, made.layer.params);
    return add_layer(m, &made, &from, 1, err);
}

static int check_name(const struct model_spec *spec, size_t i, struct err *err)
{
    if (strcmp(spec->layers[i].name, LAYER_NAME_OF_INPUT) == 0) {
        return err_set(err, ERR_INVALID,
                       "its name is what 'from' calls the records; another name would fit");
    }
    for (size_t j = 0; j < i; j++) {
        if (strcmp(spec->layers[j].name, spec->layers[i].name) == 0) {
            return err_set(err, ERR_INVALID,
                           "layer %zu has the same name; a name that is used once would fit",
                           j + 1);
        }
    }
    return 0;
}

/* @last[j]: the layer of the model that gives what entry j of @spec gives. */
static int add_spec_layer(struct model *m, const struct model_spec *spec, size_t i, size_t *last,
                          struct err *err)
{
    const struct layer_spec *s = &spec->layers[i];
    size_t from[LAYER_INPUTS_MAX], count;
    if (check_name(spec, i, err) != 0) {
        return ERR_INVALID;
    }
    static const struct sparse_names none = {0};
    if (model_spec_inputs(spec, i, m->fields == NULL ? &none : m->fields, from, &count, err) != 0) {
        return ERR_INVALID;
    }
    for (size_t k = 0; k < count && !s->kind->reads_fields; k++) {
        from[k] = from[k] == LAYER_FROM_INPUT ? LAYER_FROM_INPUT : last[from[k]];
    }
    const struct model_layer made = {.spec = i,
                                     .from = model_from_text(s),
                                     .layer = {.kind = s->kind,
                                               .name = mem_strdup(s->name),
                                               .params = mem_new(1, s->kind->params_bytes)}};
    if (s->kind->params_bytes > 0) {
        memcpy(made.layer.params, s->params, s->kind->params_bytes);
    }
    int rc = add_layer(m, &made, from, count, err);
    if (rc == 0 && m->layers[m->layer_count - 1].layer.activation != 0) {
        rc = add_activation(m, &m->layers[m->layer_count - 1], err);
    }
    last[i] = m->layer_count - 1;
    return rc;
}

static int add_spec_layers(struct model *m, const struct model_spec *spec, struct err *err)
{
    size_t *last = mem_new(spec->layer_count, sizeof *last);
    int rc = 0;
    for (size_t i = 0; i < spec->layer_count && rc == 0; i++) {
        rc = add_spec_layer(m, spec, i, last, err);
        if (rc != 0) {
            rc = wrap_layer(err, spec, i);
        }
    }
    free(last);
    return rc;
}

/* Adds the graph of a file, which is one layer. */
static int add_net(struct model *m, const struct model_spec *spec, struct err *err)
{
    const size_t from = LAYER_FROM_INPUT;
    const struct model_layer made = {.layer = {.kind = &layer_imported,
                                               .name = mem_strdup(layer_imported.name),
                                               .params = mem_new(1, 1),
                                               .net = spec->net}};
    int rc = add_layer(m, &made, &from, 1, err);
    return rc == 0 ? 0 : err_wrap(err, "model.onnx");
}

/* Checks that every layer but the last has a reader. */
static int check_readers(const struct model *m, const struct model_spec *spec, struct err *err)
{
    for (size_t i = 0; i + 1 < m->layer_count; i++) {
        if (m->layers[i].readers == 0) {
            (void)err_set(err, ERR_INVALID,
                          "no layer reads its output; a 'from' below with its name would");
            return wrap_layer(err, spec, m->layers[i].spec);
        }
    }
    return 0;
}

static void list_variables(struct model *m)
{
    m->variables = mem_new(m->variable_count, sizeof(const struct variable_spec *));
    size_t n = 0;
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct layer *l = &m->layers[i].layer;
        for (size_t j = 0; j < l->variable_count; j++) {
            m->variables[n++] = &l->variables[j];
        }
    }
}

/* Do the labels suit the loss? */
static int check_labels(const struct model *m, const char *loss, uint32_t classes, struct err *err)
{
    if (m->loss->needs_classes && classes == 0) {
        return err_set(err, ERR_INVALID,
                       "loss %s needs class labels, but the labels of the data are real numbers; "
                       "mean_squared_error would fit",
                       loss);
    }
    if (m->loss->classes_max > 0 && classes > m->loss->classes_max) {
        return err_set(err, ERR_INVALID,
                       "loss %s is for %" PRIu32 " classes, but the data has %" PRIu32
                       "; softmax_cross_entropy would fit",
                       loss, m->loss->classes_max, classes);
    }
    return 0;
}

/* Checks that the output is one row as wide as the loss wants. The caller adds which layer; of a
 * graph (@net) nobody does. */
static int check_output(const struct model *m, const char *loss, bool net, struct err *err)
{
    const struct shape *out = shape_of(m, m->layer_count - 1);
    const struct shape want = {.rank = 1, .dims = {m->loss_outputs}};
    if (shape_equal(out, &want)) {
        return 0;
    }
    char have[SHAPE_TEXT_BYTES], wanted[SHAPE_TEXT_BYTES];
    const char *classes = m->loss->output_per_class ? " for the classes of the data" : "";
    (void)shape_format(out, have, sizeof have);
    (void)shape_format(&want, wanted, sizeof wanted);
    return net ? err_set(err, ERR_INVALID,
                         "model.onnx: the output of the graph is %s for each record, but loss %s%s "
                         "needs %s; another model.output, or another loss would fit",
                         have, loss, classes, wanted)
               : err_set(err, ERR_INVALID,
                         "the output of the model is %s, but loss %s%s needs %s; %s dense layer "
                         "with units: %" PRIu64 " at the end would fit",
                         have, loss, classes, wanted, out->rank > 1 ? "a flatten layer and a" : "a",
                         want.dims[0]);
}

/* Do the classes suit the metrics? */
static int check_classes(const struct model_spec *spec, uint32_t classes, struct err *err)
{
    static const enum metric_kind rows[] = {METRIC_AUC, METRIC_CONFUSION_MATRIX};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((spec->metrics & 1U << rows[i]) != 0 && classes > METRIC_CLASSES_MAX) {
            return err_set(err, ERR_INVALID,
                           "metric %s counts at most %u classes, but the data has %" PRIu32,
                           metric_kind_names[rows[i]], METRIC_CLASSES_MAX, classes);
        }
    }
    if ((spec->metrics & 1U << METRIC_TOP_K_ACCURACY) != 0 && spec->top_k >= (int64_t)classes) {
        return err_set(err, ERR_INVALID,
                       "metric top_k_accuracy is always 1 with model.top_k: %" PRId64 " of %" PRIu32
                       " classes; less would fit",
                       spec->top_k, classes);
    }
    return 0;
}

static int check_metrics(const struct model *m, unsigned metrics, const char *loss, struct err *err)
{
    for (unsigned k = 0; k < METRIC_KIND_COUNT; k++) {
        if ((metrics & (1U << k)) == 0 || (m->loss->metrics & (1U << k)) != 0) {
            continue;
        }
        struct buf fit = {0};
        for (unsigned j = 0; j < METRIC_KIND_COUNT; j++) {
            if ((m->loss->metrics & (1U << j)) != 0) {
                buf_printf(&fit, "%s%s", fit.len == 0 ? "" : ", ", metric_kind_names[j]);
            }
        }
        int rc = err_set(err, ERR_INVALID, "metric %s has no meaning for loss %s; %s would fit",
                         metric_kind_names[k], loss, buf_str(&fit));
        buf_release(&fit);
        return rc;
    }
    return 0;
}

/* Everything about the whole. */
static int finish(struct model *m, const struct model_spec *spec, uint32_t classes, struct err *err)
{
    const char *loss = loss_kind_names[m->loss_kind];
    int rc = check_readers(m, spec, err);
    if (rc == 0) {
        rc = check_labels(m, loss, classes, err);
    }
    if (rc == 0) {
        rc = check_metrics(m, spec->metrics, loss, err);
    }
    rc = rc != 0 ? rc : check_classes(spec, classes, err);
    rc = rc != 0 ? rc : model_weights_take(m, spec, classes, err);
    if (rc != 0) {
        return rc;
    }
    if (check_output(m, loss, spec->net != NULL, err) != 0) {
        return spec->net != NULL ? ERR_INVALID : wrap_layer(err, spec, spec->layer_count - 1);
    }
    if (m->variable_count == 0) {
        return err_set(
            err, ERR_INVALID,
            m->table_count == 0
                ? "no layer of the model has anything to train; a dense layer would"
                : "no layer of the model has a variable beside its tables; a dense layer, "
                  "or linear with bias: true, would");
    }
    list_variables(m);
    m->outputs = m->layers[m->layer_count - 1].layer.out_count;
    m->loss_layers = m->layer_count;
    m->loss_from = model_source(m, m->layer_count - 1);
    if (m->layers[m->layer_count - 1].layer.kind == m->loss->link) {
        m->loss_layers--;
        m->loss_from = m->layers[m->layer_count - 1].layer.inputs[0].from;
    }
    return 0;
}

static enum loss_kind model_loss_of(const struct model_spec *spec, uint32_t classes)
{
    return spec->loss != LOSS_AUTO ? spec->loss
           : classes == 2          ? LOSS_SIGMOID_CROSS_ENTROPY
                                   : LOSS_SOFTMAX_CROSS_ENTROPY;
}

enum loss_kind model_loss(const struct model *m)
{
    return m->loss_kind;
}

int model_new(const struct model_spec *spec, const struct shape *input,
              const struct sparse_names *fields, uint32_t classes, struct model **out,
              struct err *err)
{
    struct err local = {0};
    err = err == NULL ? &local : err; /* wrapping needs one */
    if (spec->layer_count == 0 && spec->net == NULL) {
        return err_set(err, ERR_INVALID, "the model has no layers; a dense layer would do");
    }
    struct model *m = mem_new(1, sizeof *m);
    m->layers = mem_new(2 * spec->layer_count + 1, sizeof *m->layers);
    m->loss_kind = model_loss_of(spec, classes);
    m->loss = loss_of(m->loss_kind);
    m->loss_outputs = m->loss->output_per_class && classes > 0 ? classes : 1;
    m->top_k = (size_t)spec->top_k;
    m->fields = fields;
    m->table_specs = spec->tables;
    m->table_count = spec->table_count;
    int rc = input_shape(spec, input, fields, &m->input, err);
    rc = rc != 0 ? rc : spec->net != NULL ? add_net(m, spec, err) : add_spec_layers(m, spec, err);
    rc = rc != 0 ? rc : model_tables_check(m, spec, err);
    rc = rc != 0 ? rc : model_find_group(m, spec, err);
    if (rc == 0) {
        rc = finish(m, spec, classes, err);
    }
    if (rc != 0) {
        model_free(m);
        return rc;
    }
    m->fields = NULL;
    m->table_specs = NULL;
    *out = m;
    return 0;
}

void model_free(struct model *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < m->layer_count; i++) {
        free(m->layers[i].layer.name);
        free(m->layers[i].layer.params);
        free(m->layers[i].layer.inputs);
        free(m->layers[i].from);
        free(m->layers[i].table);
    }
    free(m->layers);
    free(m->variables);
    free(m->table_dims);
    free(m->class_weights);
    free(m);
}

size_t model_variable_count(const struct model *m)
{
    return m->variable_count;
}

size_t model_outputs(const struct model *m)
{
    return m->outputs;
}

int model_check_batch(const struct model *m, size_t records, struct err *err)
{
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct layer *l = &m->layers[i].layer;
        if (l->records_min > records) {
            return err_set(err, ERR_INVALID,
                           "layer '%s' takes statistics of a mini-batch, and training.batch_size: "
                           "%zu leaves none; %zu records or more would fit",
                           l->name, records, l->records_min);
        }
    }
    return 0;
}

const struct variable_spec *model_variable(const struct model *m, size_t i)
{
    return m->variables[i];
}

struct variable_spec *model_variables(const struct model *m)
{
    const size_t count = model_variable_count(m);
    struct variable_spec *variables = mem_new(count, sizeof *variables);
    for (size_t i = 0; i < count; i++) {
        variables[i] = *model_variable(m, i);
    }
    return variables;
}
