/* SPDX-License-Identifier: Apache-2.0 */
/* Layer by layer, each by its kind. */
#include "graph/model_onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/layer_onnx.h"
#include "graph/model_impl.h"

struct writing {
    const struct model *m;
    const struct model_onnx *o;
    struct layer_onnx_value input;
    struct layer_onnx_value *values; /* of each layer */
    const char **tables;             /* of each table the constant with its rows, or NULL */
};

void model_onnx_dims(const struct shape *record, struct onnx_dim out[ONNX_DIMS_MAX])
{
    out[0] = (struct onnx_dim){.name = LAYER_ONNX_BATCH};
    for (size_t i = 0; i < record->rank && i < SHAPE_RANK_MAX; i++) {
        out[i + 1] = (struct onnx_dim){.value = record->dims[i]};
    }
}

/* ---- what a layer reads ---- */

/* The input of layer @i: of the layer that computes it, or, as readers look through views, of the
 * view above that gives it the shape that is wanted. */
static struct layer_onnx_value *value_of(struct writing *w, size_t i, const struct layer_input *in)
{
    struct layer_onnx_value *v = in->from == LAYER_FROM_INPUT ? &w->input : &w->values[in->from];
    for (size_t j = i; !shape_equal(&v->shape, &in->shape) && j-- > 0;) {
        const struct layer *l = &w->m->layers[j].layer;
        if (l->kind->view && l->inputs[0].from == in->from && shape_equal(&l->out, &in->shape)) {
            v = &w->values[j];
        }
    }
    return v;
}

static bool only_first(struct layer_onnx_value *const *inputs, size_t count)
{
    bool only = count > 0;
    for (size_t k = 0; k < count; k++) {
        only = only && inputs[k]->last == NULL;
    }
    return only;
}

/* A layer that reads sparse fields. */
static void find_keys(const struct writing *w, const struct layer *l, const char **keys,
                      const char **weights, size_t *lengths)
{
    for (size_t k = 0; k < l->input_count; k++) {
        keys[k] = w->o->keys[l->inputs[k].field];
        weights[k] = w->o->weights == NULL ? NULL : w->o->weights[l->inputs[k].field];
        lengths[k] = model_onnx_keys(w->m, l->inputs[k].field);
    }
}

bool model_onnx_reads(const struct model *m, size_t field)
{
    bool reads = false;
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct layer *l = &m->layers[i].layer;
        for (size_t k = 0; k < l->input_count && l->kind->reads_fields; k++) {
            reads = reads || l->inputs[k].field == field;
        }
    }
    return reads;
}

size_t model_onnx_keys(const struct model *m, size_t field)
{
    uint64_t keys;
    size_t length;
    const char *keys_layer, *length_layer;
    model_list_limits(m, field, &keys, &keys_layer, &length, &length_layer);
    return length;
}

/* ---- layers ---- */

static int unsupported(const struct layer *l, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "layer '%s': %s cannot be written as ONNX; a model without it can, or --format "
                   "safetensors",
                   l->name, l->kind->name);
}

static int write_layer(struct writing *w, size_t i, struct err *err)
{
    const struct layer *l = &w->m->layers[i].layer;
    struct layer_onnx_value *inputs[LAYER_INPUTS_MAX];
    const char *keys[LAYER_INPUTS_MAX], *weights[LAYER_INPUTS_MAX];
    size_t lengths[LAYER_INPUTS_MAX];
    if (l->kind->onnx == NULL) {
        return unsupported(l, err);
    }
    struct layer_onnx o = {.layer = l,
                           .graph = w->o->graph,
                           .values = w->o->values + l->first_variable,
                           .inputs = inputs,
                           .keys = keys,
                           .weights = weights,
                           .table = l->has_table ? &w->o->tables[l->table] : NULL,
                           .table_values = &w->tables[l->table],
                           .lengths = lengths,
                           .y = {.shape = l->out}};
    if (l->kind->reads_fields) {
        find_keys(w, l, keys, weights, lengths);
    } else {
        for (size_t k = 0; k < l->input_count; k++) {
            inputs[k] = value_of(w, i, &l->inputs[k]);
        }
        o.keeps_first = only_first(inputs, l->input_count);
    }
    onnx_graph_part(o.graph, l->name);
    int rc = l->kind->onnx(&o, err);
    if (rc != 0) {
        return err_wrap(err, "layer '%s' (%s)", l->name, l->kind->name);
    }
    w->values[i] = o.y;
    if (o.y.last != NULL) {
        struct onnx_dim dims[ONNX_DIMS_MAX];
        model_onnx_dims(&l->out, dims);
        onnx_graph_shape(o.graph, o.y.last, dims, l->out.rank + 1);
    }
    return 0;
}

/* ---- the whole ---- */

static void read_input(struct writing *w)
{
    const struct shape *want = &w->m->input;
    w->input = (struct layer_onnx_value){.last = w->o->input, .shape = *want};
    if (w->o->input == NULL || shape_equal(want, &w->o->input_shape)) {
        return;
    }
    int64_t sizes[ONNX_DIMS_MAX] = {0}; /* the batch stays */
    for (size_t i = 0; i < want->rank; i++) {
        sizes[i + 1] = (int64_t)want->dims[i];
    }
    onnx_graph_part(w->o->graph, LAYER_NAME_OF_INPUT);
    const char *shape = onnx_graph_ints(w->o->graph, "/shape", want->rank + 1, sizes);
    w->input.last = onnx_graph_op(w->o->graph, "Reshape", "", w->o->input, shape, NULL);
}

extern const struct layer_kind layer_softmax, layer_sigmoid;

/* As model_answer(). */
static const char *answer(struct writing *w)
{
    const struct model *m = w->m;
    struct onnx_graph *g = w->o->graph;
    const char *y = layer_onnx_value_last(g, &w->values[m->layer_count - 1]);
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", -1);
    const bool linked = m->loss_layers < m->layer_count;
    onnx_graph_part(g, "answer");
    if (m->loss->link == &layer_softmax && !linked) {
        return onnx_graph_node(g, "Softmax", "", &y, 1, &axis, 1);
    }
    return m->loss->link == &layer_sigmoid && !linked ? onnx_graph_op(g, "Sigmoid", "", y, NULL)
                                                      : y;
}

int model_onnx(const struct model *m, const struct model_onnx *o, const char **out, struct err *err)
{
    struct writing w = {.m = m,
                        .o = o,
                        .values = mem_new(m->layer_count, sizeof *w.values),
                        .tables = mem_new(m->table_count + 1, sizeof *w.tables)};
    int rc = 0;
    read_input(&w);
    for (size_t i = 0; i < m->layer_count && rc == 0; i++) {
        rc = write_layer(&w, i, err);
    }
    if (rc == 0) {
        *out = answer(&w);
    }
    free(w.values);
    free(w.tables);
    return rc;
}
