/* SPDX-License-Identifier: Apache-2.0 */
/* The list of all layer kinds, the words for losses, metrics and paddings in job files, and what
 * layers do alike when a model is planned. A new layer is one line here. */
#include "graph/layer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "onnx_net/onnx_net.h"

/* clang-format off */
/* Kinds that other layers may name as their activation; they keep the shape and have no
 * required parameters. */
#define LAYER_ACTIVATIONS(X) \
    X(relu)                  \
    X(sigmoid)               \
    X(tanh)                  \
    X(gelu)                  \
    X(leaky_relu)            \
    X(elu)                   \
    X(silu)                  \
    X(softplus)              \
    X(softmax)

#define LAYER_KINDS(X)   \
    X(dense)             \
    LAYER_ACTIVATIONS(X) \
    X(dropout)           \
    X(flatten)           \
    X(layer_norm)        \
    X(batch_norm)        \
    X(concat)            \
    X(add)               \
    X(multiply)          \
    X(dot)               \
    X(dot_interaction)   \
    X(factorization)     \
    X(cross)             \
    X(embedding)         \
    X(linear)            \
    X(fm)                \
    X(conv2d)            \
    X(max_pool2d)        \
    X(avg_pool2d)
/* clang-format on */

#define X(name) extern const struct layer_kind layer_##name;
LAYER_KINDS(X)
#undef X

static const struct layer_kind *const kinds[] = {
#define X(name) &layer_##name,
    LAYER_KINDS(X)
#undef X
};

const char *const activation_names[] = {
    "none",
#define X(name) #name,
    LAYER_ACTIVATIONS(X)
#undef X
        NULL,
};

const char *const padding_names[] = {"valid", "same", NULL};

const char *const loss_kind_names[LOSS_KIND_COUNT + 1] = {
    [LOSS_SOFTMAX_CROSS_ENTROPY] = "softmax_cross_entropy",
    [LOSS_SIGMOID_CROSS_ENTROPY] = "sigmoid_cross_entropy",
    [LOSS_MEAN_SQUARED_ERROR] = "mean_squared_error",
    [LOSS_AUTO] = "auto",
    [LOSS_KIND_COUNT] = NULL,
};

const struct layer_kind *layer_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

const struct layer_kind *layer_kind_at(size_t index)
{
    return index < sizeof kinds / sizeof kinds[0] ? kinds[index] : NULL;
}

const char *layer_kind_name(const struct layer_kind *k)
{
    return k->name;
}

const char *layer_kind_help(const struct layer_kind *k)
{
    return k->help;
}

const struct field *layer_kind_fields(const struct layer_kind *k, size_t *count)
{
    *count = k->field_count;
    return k->fields;
}

size_t layer_kind_params_bytes(const struct layer_kind *k)
{
    return k->params_bytes;
}

void layer_kind_inputs(const struct layer_kind *k, size_t *min, size_t *max)
{
    *min = k->inputs_min == 0 ? 1 : k->inputs_min;
    *max = k->inputs_max == 0 ? 1 : k->inputs_max;
}

bool layer_kind_reads_fields(const struct layer_kind *k)
{
    return k->reads_fields;
}

void model_spec_release(struct model_spec *spec)
{
    for (size_t i = 0; i < spec->layer_count; i++) {
        struct layer_spec *l = &spec->layers[i];
        if (l->kind != NULL && l->params != NULL) {
            field_release(l->kind->fields, l->kind->field_count, l->params);
        }
        for (size_t k = 0; k < l->from_count; k++) {
            free(l->from[k]);
        }
        free(l->from);
        free(l->name);
        free(l->params);
    }
    free(spec->layers);
    model_tables_free(spec->tables, spec->table_count);
    onnx_net_free(spec->net);
    *spec = (struct model_spec){0};
}

/* The job file's words for a distribution, in the form of struct init. */
static struct init init_from_params(const struct init_params *p, uint64_t fan_in, uint64_t fan_out)
{
    struct init init = {.kind = (enum init_kind)p->kind, .fan_in = fan_in, .fan_out = fan_out};
    init.a = p->mean;
    init.b = p->spread;
    if (init.kind == INIT_UNIFORM) {
        init.a = p->mean - p->spread;
        init.b = p->mean + p->spread;
    }
    return init;
}

int layer_add_variable(struct layer *l, const char *part, const struct shape *shape,
                       const struct init_params *init, uint64_t fan_in, uint64_t fan_out,
                       struct err *err)
{
    assert(l->variable_count < LAYER_VARIABLES_MAX);
    const uint64_t count = shape_count(shape);
    if (count == 0 || count > LAYER_ELEMENTS_MAX) {
        char text[96];
        return err_set(err, ERR_INVALID, "its %s would be %s; at most %d elements are possible",
                       part, shape_format(shape, text, sizeof text), LAYER_ELEMENTS_MAX);
    }
    struct variable_spec *v = &l->own[l->variable_count];
    int n = snprintf(v->name, sizeof v->name, "%s.%s", l->name, part);
    if (n < 0 || (size_t)n >= sizeof v->name) {
        return err_set(err, ERR_INVALID, "its name is too long; at most %zu bytes are possible",
                       sizeof v->name - strlen(part) - 2);
    }
    v->shape = *shape;
    v->init = init_from_params(init, fan_in, fan_out);
    l->variable_count++;
    return 0;
}

int layer_plan_same_shape(struct layer *l, struct err *err)
{
    (void)err;
    l->out = l->in;
    return 0;
}
