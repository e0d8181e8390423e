/* SPDX-License-Identifier: Apache-2.0 */
/* A file becomes a net: decoded, checked, cut down to what the output needs. */
#include "onnx_net/onnx_net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "onnx_net/onnx_net_impl.h"
#include "onnx_net/onnx_net_tensor.h"

#define SHOWN_MAX 12 /* nodes, names in a message */

static int decode(struct onnx_reading *r, struct err *err)
{
    if (r->source->n > ONNX_NET_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "the file has %zu bytes; at most %zu are possible",
                       r->source->n, ONNX_NET_BYTES_MAX);
    }
    if (!onnx_nesting_fits(r->source->bytes, r->source->n)) {
        return err_set(err, ERR_INVALID, "graphs are nested too deep in each other");
    }
    r->net->model = onnx__model_proto__unpack(NULL, r->source->n, r->source->bytes);
    if (r->net->model == NULL) {
        return err_set(err, ERR_INVALID, "this is no ONNX file");
    }
    r->graph = r->net->model->graph;
    if (r->graph == NULL || r->graph->n_node == 0) {
        return err_set(err, ERR_INVALID, "the file has no graph of nodes: no ONNX model");
    }
    if (r->graph->n_node > ONNX_NODES_MAX) {
        return err_set(err, ERR_INVALID, "the graph has %zu nodes; at most %d are possible",
                       r->graph->n_node, ONNX_NODES_MAX);
    }
    return 0;
}

static bool is_own(const char *domain)
{
    return domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static int find_opset(struct onnx_reading *r, struct err *err)
{
    const Onnx__ModelProto *m = r->net->model;
    for (size_t i = 0; i < m->n_opset_import; i++) {
        if (is_own(m->opset_import[i]->domain)) {
            r->net->opset = m->opset_import[i]->version;
        }
    }
    const int64_t v = r->net->opset;
    return v >= ONNX_OPSET_MIN && v <= ONNX_OPSET_MAX
               ? 0
               : err_set(err, ERR_UNSUPPORTED,
                         "the file is of opset %" PRId64 "; %d to %d are read", v, ONNX_OPSET_MIN,
                         ONNX_OPSET_MAX);
}

static int find_output(struct onnx_reading *r, struct err *err)
{
    const Onnx__GraphProto *g = r->graph;
    if (r->source->output != NULL && r->source->output[0] != '\0') {
        r->output = r->source->output;
        return 0;
    }
    if (g->n_output == 1 && g->output[0]->name != NULL) {
        r->output = g->output[0]->name;
        return 0;
    }
    struct buf names = {0};
    for (size_t i = 0; i < g->n_output && i < SHOWN_MAX; i++) {
        char shown[64];
        buf_printf(
            &names, "%s%s", i == 0 ? "" : ", ",
            text_shown(g->output[i]->name == NULL ? "" : g->output[i]->name, shown, sizeof shown));
    }
    int rc = err_set(err, ERR_INVALID,
                     "the graph has %zu outputs, of which one must be named (model.output): %s",
                     g->n_output, buf_str(&names));
    buf_release(&names);
    return rc;
}

/* What makes value @name, through nodes that only hand it on; NULL: no node does. */
static const Onnx__NodeProto *maker_of(const struct onnx_reading *r, const char *name)
{
    const Onnx__NodeProto *n = NULL;
    for (size_t i = 0; i <= r->graph->n_node; i++) { /* bounded, because there may be a cycle */
        const struct onnx_named *made = onnx_names_find(r, name);
        n = made == NULL || made->maker != ONNX_BY_NODE ? NULL : r->graph->node[made->index];
        if (n == NULL || n->op_type == NULL || strcmp(n->op_type, "Identity") != 0 ||
            n->n_input != 1) {
            return n;
        }
        name = n->input[0];
    }
    return NULL;
}

/* A last node that the loss computes itself: what goes into it is the output. */
static void unlink_loss(struct onnx_reading *r)
{
    const Onnx__NodeProto *n = r->source->link == NULL ? NULL : maker_of(r, r->output);
    if (n == NULL) {
        return;
    }
    const struct onnx_node node = {.proto = n};
    const int64_t axis = onnx_attribute_int(&node, "axis", -1);
    if (n->op_type != NULL && strcmp(n->op_type, r->source->link) == 0 && is_own(n->domain) &&
        n->n_input == 1 && (axis == -1 || axis == 1)) {
        r->output = n->input[0];
    }
}

/* ---- nodes ---- */

const char *onnx_node_text(const struct onnx_node *n, char *out, size_t bytes)
{
    char shown[96];
    (void)snprintf(out, bytes, "node '%s' (%s)", text_shown(n->name, shown, sizeof shown),
                   n->op->type);
    return out;
}

static const char *name_of(const Onnx__NodeProto *n)
{
    const bool named = n->name != NULL && n->name[0] != '\0';
    return named ? n->name : n->n_output > 0 ? n->output[0] : "";
}

static const struct onnx_op *op_of(const Onnx__NodeProto *n)
{
    return n->op_type == NULL || !is_own(n->domain) ? NULL : onnx_op_find(n->op_type);
}

/* Reports all unknown operators at once. */
static int check_operators(const struct onnx_reading *r, struct err *err)
{
    struct buf list = {0}, advice = {0};
    size_t count = 0;
    for (size_t i = 0; i < r->order_count; i++) {
        const Onnx__NodeProto *n = r->graph->node[r->order[i]];
        const char *type = n->op_type == NULL ? "" : n->op_type;
        char shown[64], kind[64], domain[64];
        if (op_of(n) != NULL) {
            continue;
        }
        if (count++ < SHOWN_MAX) {
            buf_printf(&list, "%s'%s' (%s%s%s)", count == 1 ? "" : ", ",
                       text_shown(name_of(n), shown, sizeof shown),
                       is_own(n->domain) ? "" : text_shown(n->domain, domain, sizeof domain),
                       is_own(n->domain) ? "" : ".", text_shown(type, kind, sizeof kind));
        }
        const char *what = onnx_op_advice(type);
        if (what != NULL && strstr(buf_str(&advice), what) == NULL) {
            buf_printf(&advice, "; %s", what);
        }
    }
    int rc =
        count == 0
            ? 0
            : err_set(err, ERR_UNSUPPORTED, "%zu node%s cannot be computed here: %s%s%s", count,
                      count == 1 ? "" : "s", buf_str(&list), count > SHOWN_MAX ? ", …" : "",
                      advice.len == 0 ? "; docs/onnx.md lists the operators" : buf_str(&advice));
    buf_release(&list);
    buf_release(&advice);
    return rc;
}

/* The number of a value of the net. */
static size_t value_of(const struct onnx_reading *r, const char *name)
{
    struct onnx_named *found = name[0] == '\0' ? NULL : onnx_names_find(r, name);
    if (found == NULL || !found->needed) {
        return ONNX_NONE;
    }
    if (found->value == ONNX_NONE) {
        struct onnx_value *v = &r->net->values[r->net->value_count];
        *v = (struct onnx_value){.name = found->name, .variable = SIZE_MAX};
        found->value = r->net->value_count++;
    }
    return found->value;
}

static int check_node(const struct onnx_reading *r, const struct onnx_node *n, struct err *err)
{
    const struct onnx_op *op = n->op;
    char text[192];
    size_t given = 0;
    for (size_t k = 0; k < n->in_count; k++) {
        given = n->in[k] != ONNX_NONE ? k + 1 : given;
    }
    bool fits = given >= op->in_min && (op->in_max == 0 || given <= op->in_max);
    for (size_t k = 0; k < op->in_min && fits; k++) {
        fits = n->in[k] != ONNX_NONE;
    }
    fits = fits && n->out_count > 0 && (op->in_max != 0 || given > 0 || op->in_min == 0);
    if (!fits) {
        return err_set(err, ERR_INVALID, "%s has %zu inputs", onnx_node_text(n, text, sizeof text),
                       given);
    }
    for (size_t k = op->out_max; k < n->out_count; k++) {
        if (n->out[k] != ONNX_NONE) {
            return err_set(err, ERR_INVALID, "%s: its output %zu ('%.64s') is not computed here",
                           onnx_node_text(n, text, sizeof text), k, r->net->values[n->out[k]].name);
        }
    }
    return 0;
}

static int add_node(struct onnx_reading *r, const Onnx__NodeProto *proto, struct err *err)
{
    struct onnx_node *n = &r->net->nodes[r->net->node_count++];
    *n = (struct onnx_node){.op = op_of(proto),
                            .proto = proto,
                            .name = name_of(proto),
                            .opset = r->net->opset,
                            .in = mem_new(proto->n_input + 1, sizeof *n->in),
                            .out = mem_new(proto->n_output + 1, sizeof *n->out),
                            .in_count = proto->n_input,
                            .out_count = proto->n_output};
    for (size_t k = 0; k < n->in_count; k++) {
        n->in[k] = value_of(r, proto->input[k]);
    }
    for (size_t k = 0; k < n->out_count; k++) {
        n->out[k] = value_of(r, proto->output[k]);
    }
    while (n->in_count > 0 && n->in[n->in_count - 1] == ONNX_NONE) {
        n->in_count--;
    }
    return check_node(r, n, err);
}

static int add_nodes(struct onnx_reading *r, struct err *err)
{
    int rc = 0;
    r->net->nodes = mem_new(r->order_count + 1, sizeof *r->net->nodes);
    r->net->values = mem_new(r->name_count + 1, sizeof *r->net->values);
    for (size_t i = 0; i < r->order_count && rc == 0; i++) {
        rc = add_node(r, r->graph->node[r->order[i]], err);
    }
    r->net->output = rc == 0 ? value_of(r, r->output) : 0;
    return rc;
}

/* ---- inputs and constants ---- */

static int find_input(struct onnx_reading *r, struct err *err)
{
    struct buf names = {0};
    size_t count = 0;
    for (size_t i = 0; i < r->name_count; i++) {
        const struct onnx_named *n = &r->names[i];
        if (n->maker == ONNX_BY_INPUT && n->needed) {
            char shown[64];
            r->net->input = value_of(r, n->name);
            r->net->values[r->net->input].shaped = false;
            if (count++ < SHOWN_MAX) {
                buf_printf(&names, "%s%s", count == 1 ? "" : ", ",
                           text_shown(n->name, shown, sizeof shown));
            }
        }
    }
    int rc =
        count == 1 ? 0
        : count == 0
            ? err_set(err, ERR_INVALID, "the output '%.64s' reads no input of the graph", r->output)
            : err_set(err, ERR_INVALID,
                      "the output needs %zu inputs (%s); one, which gets the records, would "
                      "fit",
                      count, buf_str(&names));
    buf_release(&names);
    return rc;
}

static int read_constants(struct onnx_reading *r, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->name_count && rc == 0; i++) {
        const struct onnx_named *n = &r->names[i];
        if (n->maker == ONNX_BY_INITIALIZER && n->needed) {
            rc = onnx_net_tensor(r->graph->initializer[n->index], r->source,
                                 &r->net->values[value_of(r, n->name)], err);
        }
    }
    return rc;
}

/* Checkpoints keep it: the same file has to have the same sum in later versions, too. */
static void sum_up(struct onnx_reading *r)
{
    struct onnx_net *net = r->net;
    struct checksum *sum = checksum_new();
    checksum_add(sum, r->source->bytes, r->source->n);
    checksum_add(sum, r->output, strlen(r->output));
    for (size_t i = 0; i < net->variable_count; i++) {
        checksum_add(sum, &net->variables[i], offsetof(struct variable_spec, digest));
        checksum_add(sum, net->initial[i],
                     (size_t)shape_count(&net->variables[i].shape) * sizeof(float));
    }
    for (size_t i = 0; i < net->value_count; i++) {
        if (net->values[i].floats != NULL) {
            checksum_add(sum, net->values[i].floats, net->values[i].count * sizeof(float));
        }
    }
    net->fingerprint = checksum_value(sum);
    net->fingerprint = net->fingerprint == 0 ? 1 : net->fingerprint;
    checksum_free(sum);
}

static int read_net(struct onnx_reading *r, struct err *err)
{
    int rc = decode(r, err);
    rc = rc != 0 ? rc : find_opset(r, err);
    rc = rc != 0 ? rc : find_output(r, err);
    rc = rc != 0 ? rc : onnx_names_collect(r, err);
    if (rc == 0) {
        unlink_loss(r);
        rc = onnx_order_find(r, err);
    }
    rc = rc != 0 ? rc : check_operators(r, err);
    rc = rc != 0 ? rc : add_nodes(r, err);
    rc = rc != 0 ? rc : find_input(r, err);
    rc = rc != 0 ? rc : read_constants(r, err);
    rc = rc != 0 ? rc : onnx_variables_find(r, err);
    if (rc == 0) {
        sum_up(r);
    }
    return rc;
}

int onnx_net_read(const struct onnx_net_source *source, struct onnx_net **out, struct err *err)
{
    struct onnx_reading r = {.net = mem_new(1, sizeof *r.net), .source = source};
    int rc = read_net(&r, err);
    free(r.names);
    free(r.order);
    if (rc != 0) {
        onnx_net_free(r.net);
        return rc;
    }
    *out = r.net;
    return 0;
}

void onnx_net_free(struct onnx_net *net)
{
    if (net == NULL) {
        return;
    }
    for (size_t i = 0; i < net->node_count; i++) {
        free(net->nodes[i].in);
        free(net->nodes[i].out);
    }
    for (size_t i = 0; i < net->value_count; i++) {
        onnx_value_release(&net->values[i]);
    }
    for (size_t i = 0; i < net->variable_count; i++) {
        free(net->initial[i]);
    }
    free(net->nodes);
    free(net->values);
    free(net->variables);
    free(net->initial);
    if (net->model != NULL) {
        onnx__model_proto__free_unpacked(net->model, NULL);
    }
    free(net);
}

size_t onnx_net_variable_count(const struct onnx_net *net)
{
    return net->variable_count;
}

const struct variable_spec *onnx_net_variables(const struct onnx_net *net)
{
    return net->variables;
}

const float *onnx_net_initial(const struct onnx_net *net, size_t variable)
{
    return net->initial[variable];
}

uint64_t onnx_net_fingerprint(const struct onnx_net *net)
{
    return net->fingerprint;
}

void onnx_net_describe(const struct onnx_net *net, struct buf *out)
{
    buf_printf(out, "opset %" PRId64 ", %zu nodes (", net->opset, net->node_count);
    bool first = true;
    for (size_t i = 0; onnx_op_at(i) != NULL; i++) {
        size_t n = 0;
        for (size_t k = 0; k < net->node_count; k++) {
            n += net->nodes[k].op == onnx_op_at(i);
        }
        if (n > 0) {
            buf_printf(out, "%s%zu %s", first ? "" : ", ", n, onnx_op_at(i)->type);
            first = false;
        }
    }
    char in[96], name[96];
    buf_printf(out, "), input %s, output %s",
               text_shown(net->values[net->input].name, in, sizeof in),
               text_shown(net->values[net->output].name, name, sizeof name));
}
