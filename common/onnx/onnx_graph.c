/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the message of a model, all of it on the heap as if it had been read, so that one call
 * frees it. The elements of constants alone stay where they are: the message gets them for the
 * length of the writing. */
#include "onnx/onnx_graph.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/release.h"
#include "onnx/onnx_graph_impl.h"

#define NODE_INPUTS_MAX 8 /* of onnx_graph_op() */

static void *add(void *array, size_t *count, void *item)
{
    void **items = mem_resize(array, *count + 1, sizeof *items);
    items[(*count)++] = item;
    return items;
}

static void use_operators(struct onnx_graph *g, const char *domain, int64_t version)
{
    for (size_t i = 0; i < g->model.n_opset_import; i++) {
        if (strcmp(g->model.opset_import[i]->domain, domain) == 0) {
            return;
        }
    }
    Onnx__OperatorSetIdProto *set = mem_new(1, sizeof *set);
    onnx__operator_set_id_proto__init(set);
    set->domain = mem_strdup(domain);
    set->has_version = true;
    set->version = version;
    g->model.opset_import = add(g->model.opset_import, &g->model.n_opset_import, set);
}

struct onnx_graph *onnx_graph_new(const char *name, int64_t version)
{
    struct onnx_graph *g = mem_new(1, sizeof *g);
    g->part = "graph";
    g->message_bytes_max = ONNX_MESSAGE_BYTES_MAX;
    onnx__model_proto__init(&g->model);
    g->graph = mem_new(1, sizeof *g->graph);
    onnx__graph_proto__init(g->graph);
    g->model.graph = g->graph;
    g->graph->name = mem_strdup(name);
    g->model.has_ir_version = true;
    g->model.ir_version = ONNX_IR_VERSION;
    g->model.has_model_version = true;
    g->model.model_version = version;
    g->model.producer_name = mem_strdup("gradus");
    g->model.producer_version = mem_strdup(release_version());
    use_operators(g, "", ONNX_OPSET);
    return g;
}

void onnx_graph_free(struct onnx_graph *g)
{
    if (g == NULL) {
        return;
    }
    for (size_t i = 0; i < g->constant_count; i++) {
        free(g->constants[i].owned);
    }
    for (size_t i = 0; i < g->name_count; i++) {
        free(g->names[i]);
    }
    Onnx__ModelProto *model = mem_new(1, sizeof *model);
    *model = g->model; /* on the heap, as everything in it */
    onnx__model_proto__free_unpacked(model, NULL);
    free(g->constants);
    free(g->names);
    free(g);
}

void onnx_graph_describe(struct onnx_graph *g, const char *key, const char *text)
{
    Onnx__StringStringEntryProto *e = mem_new(1, sizeof *e);
    onnx__string_string_entry_proto__init(e);
    e->key = mem_strdup(key);
    e->value = mem_strdup(text);
    g->model.metadata_props = add(g->model.metadata_props, &g->model.n_metadata_props, e);
}

/* ---- names ---- */

static bool is_taken(const struct onnx_graph *g, const char *name)
{
    for (size_t i = 0; i < g->name_count; i++) {
        if (strcmp(g->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *keep_name(struct onnx_graph *g, char *name)
{
    g->names = add(g->names, &g->name_count, name);
    return name;
}

/* @wanted, or, where that is taken, it with a number behind. */
static const char *take_name(struct onnx_graph *g, const char *wanted)
{
    const bool inside = wanted[0] == '\0' || wanted[0] == '/';
    const char *part = inside ? g->part : "";
    char *name = mem_printf("%s%s", part, wanted);
    for (size_t n = 2; is_taken(g, name); n++) {
        free(name);
        name = mem_printf("%s%s_%zu", part, wanted, n);
    }
    return keep_name(g, name);
}

void onnx_graph_part(struct onnx_graph *g, const char *name)
{
    g->part = name;
}

void onnx_graph_reserve(struct onnx_graph *g, const char *name)
{
    if (!is_taken(g, name)) {
        (void)keep_name(g, mem_strdup(name));
    }
}

/* ---- inputs, outputs, constants ---- */

static Onnx__ValueInfoProto *info_new(const char *name, enum onnx_element type,
                                      const struct onnx_dim *dims, size_t rank)
{
    static const int types[] = {[ONNX_FLOATS] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
                                [ONNX_INT64S] = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
                                [ONNX_STRINGS] = ONNX__TENSOR_PROTO__DATA_TYPE__STRING};
    Onnx__ValueInfoProto *v = mem_new(1, sizeof *v);
    onnx__value_info_proto__init(v);
    v->name = mem_strdup(name);
    v->type = mem_new(1, sizeof *v->type);
    onnx__type_proto__init(v->type);
    Onnx__TypeProto__Tensor *t = v->type->tensor_type = mem_new(1, sizeof *t);
    onnx__type_proto__tensor__init(t);
    t->has_elem_type = true;
    t->elem_type = types[type];
    t->shape = mem_new(1, sizeof *t->shape);
    onnx__tensor_shape_proto__init(t->shape);
    for (size_t i = 0; i < rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = mem_new(1, sizeof *d);
        onnx__tensor_shape_proto__dimension__init(d);
        if (dims[i].name != NULL) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = mem_strdup(dims[i].name);
        } else {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = (int64_t)dims[i].value;
        }
        t->shape->dim = add(t->shape->dim, &t->shape->n_dim, d);
    }
    return v;
}

const char *onnx_graph_input(struct onnx_graph *g, const char *name, enum onnx_element type,
                             const struct onnx_dim *dims, size_t rank)
{
    const char *taken = take_name(g, name);
    g->graph->input = add(g->graph->input, &g->graph->n_input, info_new(taken, type, dims, rank));
    return taken;
}

static const char *add_constant(struct onnx_graph *g, Onnx__TensorProto *t, const void *values,
                                size_t bytes, void *owned)
{
    g->constants = mem_resize(g->constants, g->constant_count + 1, sizeof *g->constants);
    g->constants[g->constant_count++] =
        (struct onnx_constant){.values = values, .bytes = bytes, .owned = owned};
    g->graph->initializer = add(g->graph->initializer, &g->graph->n_initializer, t);
    return g->names[g->name_count - 1];
}

static const char *add_floats(struct onnx_graph *g, const char *name, const struct shape *shape,
                              const float *values, float *owned)
{
    Onnx__TensorProto *t =
        onnx_tensor_new_floats(take_name(g, name), shape->dims, shape->rank, NULL, NULL);
    return add_constant(g, t, values, (size_t)shape_count(shape) * sizeof *values, owned);
}

const char *onnx_graph_floats(struct onnx_graph *g, const char *name, const struct shape *shape,
                              const float *values)
{
    return add_floats(g, name, shape, values, NULL);
}

const char *onnx_graph_floats_take(struct onnx_graph *g, const char *name,
                                   const struct shape *shape, float *values)
{
    return add_floats(g, name, shape, values, values);
}

const char *onnx_graph_float(struct onnx_graph *g, const char *name, float value)
{
    float *one = mem_new(1, sizeof *one);
    *one = value;
    return onnx_graph_floats_take(g, name, &(struct shape){.rank = 0}, one);
}

const char *onnx_graph_ints(struct onnx_graph *g, const char *name, size_t count,
                            const int64_t *values)
{
    const uint64_t dims[1] = {count};
    int64_t *own = mem_new(count + 1, sizeof *own);
    memcpy(own, values, count * sizeof *own);
    Onnx__TensorProto *t = onnx_tensor_new_ints(take_name(g, name), dims, 1, NULL, NULL);
    return add_constant(g, t, own, count * sizeof *own, own);
}

static bool has_shape(const Onnx__TensorProto *t, const struct shape *shape)
{
    bool same = t->n_dims == shape->rank;
    for (size_t i = 0; same && i < shape->rank; i++) {
        same = t->dims[i] == (int64_t)shape->dims[i];
    }
    return same;
}

/* The constant, or NULL; a number may stand behind its name. */
static const char *find_shared(const struct onnx_graph *g, const char *name,
                               const struct shape *shape, const int64_t *values)
{
    const size_t bytes = (size_t)shape_count(shape) * sizeof *values, n = strlen(name);
    for (size_t i = 0; i < g->constant_count; i++) {
        const struct onnx_constant *c = &g->constants[i];
        const Onnx__TensorProto *t = g->graph->initializer[i];
        if (c->shared && c->bytes == bytes && has_shape(t, shape) &&
            strncmp(t->name, name, n) == 0 && memcmp(c->values, values, bytes) == 0) {
            return t->name;
        }
    }
    return NULL;
}

const char *onnx_graph_shared_ints(struct onnx_graph *g, const char *name,
                                   const struct shape *shape, const int64_t *values)
{
    const char *found = find_shared(g, name, shape, values);
    if (found != NULL) {
        return found;
    }
    const size_t count = (size_t)shape_count(shape);
    int64_t *own = mem_new(count + 1, sizeof *own);
    memcpy(own, values, count * sizeof *own);
    Onnx__TensorProto *t =
        onnx_tensor_new_ints(take_name(g, name), shape->dims, shape->rank, NULL, NULL);
    const char *taken = add_constant(g, t, own, count * sizeof *own, own);
    g->constants[g->constant_count - 1].shared = true;
    return taken;
}

/* ---- nodes ---- */

static void set_texts(Onnx__AttributeProto *out, const char *const *texts, size_t count)
{
    out->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    out->n_strings = count;
    out->strings = mem_new(count + 1, sizeof *out->strings);
    for (size_t i = 0; i < count; i++) {
        out->strings[i].len = strlen(texts[i]);
        out->strings[i].data = (uint8_t *)mem_strdup(texts[i]);
    }
}

static Onnx__AttributeProto *attribute_new(const struct onnx_attr *a)
{
    Onnx__AttributeProto *out = mem_new(1, sizeof *out);
    onnx__attribute_proto__init(out);
    out->name = mem_strdup(a->name);
    out->has_type = true;
    if (a->kind == ONNX_FLOAT) {
        out->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        out->has_f = true;
        out->f = a->f;
    } else if (a->kind == ONNX_INT) {
        out->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        out->has_i = true;
        out->i = a->i;
    } else if (a->kind == ONNX_TEXT) {
        out->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
        out->has_s = true;
        out->s.len = strlen(a->texts[0]);
        out->s.data = (uint8_t *)mem_strdup(a->texts[0]);
    } else if (a->kind == ONNX_TEXTS) {
        set_texts(out, a->texts, (size_t)a->i);
    } else {
        out->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
        out->n_ints = (size_t)a->i;
        out->ints = mem_new(out->n_ints + 1, sizeof *out->ints);
        memcpy(out->ints, a->ints, out->n_ints * sizeof *out->ints);
    }
    return out;
}

void onnx_graph_node_several(struct onnx_graph *g, const char *op, const char *name,
                             const char *const *inputs, size_t input_count,
                             const struct onnx_attr *attrs, size_t attr_count, const char **outputs,
                             size_t output_count)
{
    Onnx__NodeProto *n = mem_new(1, sizeof *n);
    onnx__node_proto__init(n);
    if (strncmp(op, ONNX_ML, sizeof ONNX_ML - 1) == 0) {
        op += sizeof ONNX_ML - 1;
        n->domain = mem_strdup(ONNX_ML_DOMAIN);
        use_operators(g, ONNX_ML_DOMAIN, ONNX_ML_OPSET);
    }
    n->op_type = mem_strdup(op);
    for (size_t i = 0; i < input_count; i++) {
        n->input = add(n->input, &n->n_input, mem_strdup(inputs[i]));
    }
    for (size_t i = 0; i < output_count; i++) {
        outputs[i] = take_name(g, name);
        n->output = add(n->output, &n->n_output, mem_strdup(outputs[i]));
    }
    n->name = mem_strdup(outputs[0]);
    for (size_t i = 0; i < attr_count; i++) {
        n->attribute = add(n->attribute, &n->n_attribute, attribute_new(&attrs[i]));
    }
    g->graph->node = add(g->graph->node, &g->graph->n_node, n);
}

const char *onnx_graph_node(struct onnx_graph *g, const char *op, const char *name,
                            const char *const *inputs, size_t input_count,
                            const struct onnx_attr *attrs, size_t attr_count)
{
    const char *output;
    onnx_graph_node_several(g, op, name, inputs, input_count, attrs, attr_count, &output, 1);
    return output;
}

const char *onnx_graph_op(struct onnx_graph *g, const char *op, const char *name, ...)
{
    const char *inputs[NODE_INPUTS_MAX];
    size_t n = 0;
    va_list args;
    va_start(args, name);
    for (const char *input; (input = va_arg(args, const char *)) != NULL && n < NODE_INPUTS_MAX;) {
        inputs[n++] = input;
    }
    va_end(args);
    return onnx_graph_node(g, op, name, inputs, n, NULL, 0);
}

void onnx_graph_shape(struct onnx_graph *g, const char *value, const struct onnx_dim *dims,
                      size_t rank)
{
    g->graph->value_info = add(g->graph->value_info, &g->graph->n_value_info,
                               info_new(value, ONNX_FLOATS, dims, rank));
}

static void rename_text(char **text, const char *from, const char *to)
{
    if (strcmp(*text, from) == 0) {
        free(*text);
        *text = mem_strdup(to);
    }
}

/* The value is an output now, and no longer one inside. */
static void forget_shape(Onnx__GraphProto *graph, const char *value)
{
    for (size_t i = 0; i < graph->n_value_info; i++) {
        if (strcmp(graph->value_info[i]->name, value) == 0) {
            onnx__value_info_proto__free_unpacked(graph->value_info[i], NULL);
            graph->value_info[i--] = graph->value_info[--graph->n_value_info];
        }
    }
}

static bool is_made(const Onnx__GraphProto *graph, const char *value)
{
    bool made = false;
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_output; k++) {
            made = made || strcmp(graph->node[i]->output[k], value) == 0;
        }
    }
    return made;
}

void onnx_graph_output(struct onnx_graph *g, const char *value, const char *name,
                       const struct onnx_dim *dims, size_t rank)
{
    if (!is_made(g->graph, value)) { /* an input or a constant, which keeps its name */
        value = onnx_graph_op(g, "Identity", name, value, NULL);
    }
    for (size_t i = 0; i < g->graph->n_node; i++) {
        Onnx__NodeProto *n = g->graph->node[i];
        for (size_t k = 0; k < n->n_input; k++) {
            rename_text(&n->input[k], value, name);
        }
        for (size_t k = 0; k < n->n_output; k++) {
            rename_text(&n->output[k], value, name);
        }
    }
    forget_shape(g->graph, value);
    g->graph->output =
        add(g->graph->output, &g->graph->n_output, info_new(name, ONNX_FLOATS, dims, rank));
}
