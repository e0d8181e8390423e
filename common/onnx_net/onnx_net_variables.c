/* SPDX-License-Identifier: Apache-2.0 */
/* Which constants of a file are variables: by default those that are floats and have a dimension,
 * since a single number is a part of a formula. A constant that an operator takes as a setting
 * never is. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "onnx_net/onnx_net_impl.h"

/* How the nodes use a value. */
struct use {
    bool read; /* read other than as a setting */
    /* a running statistic, and the share that an update moves it; 0: it is none */
    double statistic;
    bool moves; /* the node's scale, shift or it itself is trained */
};

static bool matches(const struct onnx_reading *r, const struct onnx_value *v)
{
    const struct onnx_net_source *s = r->source;
    for (size_t i = 0; i < s->trainable_count; i++) {
        if (fnmatch(s->trainable[i], v->name, 0) == 0) {
            return true;
        }
    }
    return s->trainable_count == 0 && v->shape.rank > 0;
}

static bool is_constant(const struct onnx_value *v)
{
    return v->shaped && v->floats != NULL && v->type == ONNX_FLOAT && v->count > 0;
}

/* Makes running statistics variables when their node is trained; else the node computes with them
 * as they are. */
static void use_statistics(const struct onnx_reading *r, struct onnx_node *n, struct use *uses)
{
    const struct onnx_value *values = r->net->values;
    const double rate = 1.0 - (double)onnx_attribute_float(n, "momentum", 0.9F);
    bool all = true, any = false;
    for (size_t k = 1; k < n->in_count; k++) {
        any = any || (is_constant(&values[n->in[k]]) && matches(r, &values[n->in[k]]));
    }
    for (size_t k = 3; k < 5; k++) {
        all = all && is_constant(&values[n->in[k]]);
    }
    n->frozen = !any || !all || !(rate > 0.0 && rate <= 1.0);
    for (size_t k = 3; k < 5 && !n->frozen; k++) {
        uses[n->in[k]].statistic = rate;
        uses[n->in[k]].moves = true;
    }
}

static struct use *find_uses(const struct onnx_reading *r)
{
    struct use *uses = mem_new(r->net->value_count + 1, sizeof *uses);
    for (size_t i = 0; i < r->net->node_count; i++) {
        struct onnx_node *n = &r->net->nodes[i];
        const bool statistics = (n->op->flags & ONNX_STATISTICS) != 0;
        for (size_t k = 0; k < n->in_count; k++) {
            const bool setting = (k < 32 && (n->op->settings >> k & 1U) != 0);
            if (n->in[k] != ONNX_NONE && !setting && !(statistics && k >= 3)) {
                uses[n->in[k]].read = true;
            }
        }
        if (statistics) {
            use_statistics(r, n, uses);
        }
    }
    return uses;
}

static int check_name(const char *name, struct err *err)
{
    const size_t n = strlen(name);
    bool fits = n < VARIABLE_NAME_BYTES;
    for (size_t i = 0; i < n && fits; i++) {
        fits = (unsigned char)name[i] > ' ' && name[i] != 127;
    }
    char shown[160];
    return fits ? 0
                : err_set(err, ERR_INVALID,
                          "initializer '%s': names of 1 to %d bytes without blanks would fit",
                          text_shown(name, shown, sizeof shown), VARIABLE_NAME_BYTES - 1);
}

static struct shape shape_of(const struct onnx_value *v)
{
    struct shape out = {.rank = 1, .dims = {v->count}};
    if (v->shape.rank >= 1 && v->shape.rank <= SHAPE_RANK_MAX) {
        out.rank = v->shape.rank;
        for (size_t i = 0; i < out.rank; i++) {
            out.dims[i] = v->shape.dims[i];
        }
    }
    return out;
}

static int add_variable(struct onnx_net *net, struct onnx_value *v, const struct use *use,
                        struct err *err)
{
    struct variable_spec *spec = &net->variables[net->variable_count];
    int rc = check_name(v->name, err);
    for (size_t i = 0; i < v->count && rc == 0; i++) {
        if (!isfinite(v->floats[i])) {
            rc = err_set(err, ERR_INVALID, "initializer '%.64s': value %zu is not finite", v->name,
                         i);
        }
    }
    if (rc != 0) {
        return rc;
    }
    text_copy(spec->name, sizeof spec->name, v->name);
    spec->shape = shape_of(v);
    spec->init.kind = INIT_GIVEN;
    spec->statistic = use->statistic;
    spec->digest = checksum_of(v->floats, v->count * sizeof *v->floats);
    net->initial[net->variable_count] = (float *)(uintptr_t)v->floats; /* taken */
    v->floats = NULL;
    v->owns_floats = false;
    v->variable = net->variable_count++;
    return 0;
}

/* Finds variables, in the order of the file. */
int onnx_variables_find(struct onnx_reading *r, struct err *err)
{
    struct onnx_net *net = r->net;
    struct use *uses = find_uses(r);
    int rc = 0;
    net->variables = mem_new(r->graph->n_initializer + 1, sizeof *net->variables);
    net->initial = mem_new(r->graph->n_initializer + 1, sizeof *net->initial);
    for (size_t i = 0; i < r->graph->n_initializer && rc == 0; i++) {
        const char *name = r->graph->initializer[i]->name;
        const struct onnx_named *n = name == NULL ? NULL : onnx_names_find(r, name);
        if (n == NULL || n->maker != ONNX_BY_INITIALIZER || n->index != i ||
            n->value == ONNX_NONE) {
            continue;
        }
        struct onnx_value *v = &net->values[n->value];
        const struct use *use = &uses[n->value];
        if (use->statistic != 0 && use->read) {
            rc = err_set(err, ERR_INVALID,
                         "initializer '%.64s' is a running statistic, and read elsewhere", name);
        } else if (is_constant(v) && (use->moves || (use->read && matches(r, v)))) {
            rc = add_variable(net, v, use, err);
        }
    }
    free(uses);
    if (rc == 0 && net->variable_count == 0 && r->source->trainable_count > 0) {
        rc = err_set(err, ERR_INVALID,
                     "no initializer of floats has a name that is to be trained (model.trainable)");
    }
    return rc;
}
