/* SPDX-License-Identifier: Apache-2.0 */
/* The graph for one number of records: shapes, and everything that they alone decide. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_net_impl.h"
#include "onnx_net/onnx_net_tensor.h"

/* ---- the shape of the input ---- */

static const Onnx__TypeProto__Tensor *input_type(const struct onnx_net *net)
{
    const Onnx__GraphProto *g = net->model->graph;
    for (size_t i = 0; i < g->n_input; i++) {
        const Onnx__ValueInfoProto *v = g->input[i];
        if (v->name != NULL && strcmp(v->name, net->values[net->input].name) == 0) {
            return v->type == NULL ? NULL : v->type->tensor_type;
        }
    }
    return NULL;
}

/* The dimensions that are not 1, in their order. */
static size_t squeezed(const size_t *dims, size_t rank, size_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] != 1) {
            out[n++] = dims[i];
        }
    }
    return n;
}

/* Do records lie in memory as the file has them? */
static int check_layout(const struct onnx_dims *want, const struct onnx_dims *have, struct err *err)
{
    size_t a[ONNX_DIMS_MAX], b[ONNX_DIMS_MAX];
    const size_t n = squeezed(want->dims + 1, want->rank - 1, a);
    const size_t m = squeezed(have->dims + 1, have->rank - 1, b);
    const bool rows = n <= 1 || m <= 1; /* one of them is flat */
    char file[128], data[128];
    if (onnx_dims_count(want) == onnx_dims_count(have) &&
        (rows || (n == m && memcmp(a, b, n * sizeof *a) == 0))) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "the input of the graph is %s for so many records, and these are %s; equal "
                   "dimensions, or one of them flat, would fit (images of several channels: "
                   "channels first, as in the file)",
                   onnx_dims_format(want, file, sizeof file),
                   onnx_dims_format(have, data, sizeof data));
}

/* Dimensions that the file leaves open are those of the records, or what is left for one dimension.
 */
static int declared_shape(const Onnx__TensorShapeProto *shape, const struct onnx_dims *have,
                          struct onnx_dims *out, struct err *err)
{
    size_t open = 0, open_at = 0, known = have->dims[0];
    if (shape->n_dim > ONNX_DIMS_MAX || shape->n_dim == 0) {
        return err_set(err, ERR_INVALID,
                       "the input of the graph has %zu dimensions; from 1 to %d "
                       "would fit, the first of which counts records",
                       shape->n_dim, ONNX_DIMS_MAX);
    }
    *out = (struct onnx_dims){.rank = shape->n_dim, .dims = {have->dims[0]}};
    for (size_t i = 1; i < out->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
        const bool given = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                           d->dim_value > 0 && d->dim_value <= ONNX_ELEMENTS_MAX;
        out->dims[i] = given ? (size_t)d->dim_value : 1;
        open += !given;
        open_at = given ? open_at : i;
        if (!mem_mul(known, out->dims[i], &known)) {
            known = SIZE_MAX;
        }
    }
    if (open > 1 && have->rank == out->rank) {
        for (size_t i = 1; i < out->rank; i++) {
            const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
            const bool given =
                d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                d->dim_value > 0;
            out->dims[i] = given ? out->dims[i] : have->dims[i];
        }
    } else if (open == 1 && known > 0 && known != SIZE_MAX) {
        out->dims[open_at] = onnx_dims_count(have) / known;
    }
    return check_layout(out, have, err);
}

static int input_elements(int type, enum onnx_type *out, struct err *err)
{
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        *out = ONNX_FLOAT;
        return 0;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        *out = ONNX_INT;
        return 0;
    default:
        return err_set(err, ERR_INVALID,
                       "the input of the graph is of type %s; FLOAT, INT64 or INT32 would fit: "
                       "export the model in float32",
                       onnx_type_name(type));
    }
}

bool onnx_net_takes_whole(const struct onnx_net *net)
{
    const Onnx__TypeProto__Tensor *type = input_type(net);
    enum onnx_type elements = ONNX_FLOAT;
    return type != NULL && input_elements(type->elem_type, &elements, NULL) == 0 &&
           elements == ONNX_INT;
}

static int shape_input(struct onnx_plan *p, const struct shape *record, struct err *err)
{
    const Onnx__TypeProto__Tensor *type = input_type(p->net);
    struct onnx_dims have = {.rank = record->rank + 1, .dims = {p->records}}, want;
    enum onnx_type elements = ONNX_FLOAT;
    for (size_t i = 0; i < record->rank; i++) {
        have.dims[i + 1] = (size_t)record->dims[i];
    }
    want = have;
    int rc = type == NULL ? 0 : input_elements(type->elem_type, &elements, err);
    if (rc == 0 && type != NULL && type->shape != NULL) {
        rc = declared_shape(type->shape, &have, &want, err);
    }
    return rc != 0 ? rc : onnx_set_shape(&p->values[p->net->input], elements, &want, err);
}

/* ---- steps ---- */

/* Whole numbers are read as floats, too. */
static int know_floats(struct onnx_value *v, struct err *err)
{
    if (v == NULL || v->ints == NULL || v->floats != NULL) {
        return 0;
    }
    float *floats = onnx_set_floats(v, err);
    for (size_t i = 0; i < v->count && floats != NULL; i++) {
        floats[i] = (float)v->ints[i];
    }
    return floats == NULL ? ERR_EXHAUSTED : 0;
}

static bool is_setting(const struct onnx_op *op, size_t k)
{
    return k < 32 && (op->settings >> k & 1U) != 0;
}

/* Settles what is computed when there are records. */
static int settle(struct onnx_step *s, struct err *err)
{
    const struct onnx_op *op = s->node->op;
    bool known = true, empty = false;
    for (size_t k = 0; k < s->out_count; k++) {
        if (know_floats(s->out[k], err) != 0) {
            return ERR_EXHAUSTED;
        }
        known = known && (s->out[k] == NULL || s->out[k]->floats != NULL);
        empty = empty || (s->out[k] != NULL && s->out[k]->count == 0);
    }
    const bool view = (op->flags & ONNX_SAME_BYTES) != 0 && !known;
    for (size_t k = 0; k < s->in_count; k++) {
        empty = empty || (s->in[k] != NULL && s->in[k]->count == 0 && !is_setting(op, k));
        s->trains = s->trains || (s->in[k] != NULL && !is_setting(op, k) && s->in[k]->trains);
    }
    if (view) {
        s->out[0]->is = s->in[0];
    }
    s->runs = !known && !view;
    if (s->runs && (empty || op->forward == NULL)) {
        return err_set(err, ERR_INVALID, "it would have to compute %s",
                       empty ? "with an empty tensor"
                             : "what is not known before there are records");
    }
    s->trains = s->trains && !known;
    for (size_t k = 0; k < s->out_count; k++) {
        if (s->out[k] != NULL) {
            s->out[k]->trains = s->trains;
        }
    }
    s->trains = s->trains && s->runs && op->backward != NULL;
    return 0;
}

static int make_step(struct onnx_plan *p, size_t i, struct err *err)
{
    const struct onnx_node *n = &p->net->nodes[i];
    struct onnx_step *s = &p->steps[i];
    const size_t outputs = n->op->out_max < n->out_count ? n->op->out_max : n->out_count;
    *s = (struct onnx_step){.node = n,
                            .records = p->records,
                            .in_count = n->in_count,
                            .out_count = outputs,
                            .in = mem_new(n->in_count + 1, sizeof(struct onnx_value *)),
                            .out = mem_new(outputs + 1, sizeof(struct onnx_value *)),
                            .dx_at = mem_new(n->in_count + 1, sizeof(size_t)),
                            .dx_adds = mem_new(n->in_count + 1, sizeof(bool))};
    for (size_t k = 0; k < n->in_count; k++) {
        s->in[k] = n->in[k] == ONNX_NONE ? NULL : &p->values[n->in[k]];
    }
    for (size_t k = 0; k < outputs; k++) {
        s->out[k] = n->out[k] == ONNX_NONE ? NULL : &p->values[n->out[k]];
    }
    if (s->out[0] == NULL && n->op->out_max == 1) {
        return err_set(err, ERR_INVALID, "its first output is not there");
    }
    int rc = n->op->shape(s, err);
    return rc != 0 ? rc : settle(s, err);
}

static int make_steps(struct onnx_plan *p, struct err *err)
{
    char text[192];
    for (size_t i = 0; i < p->net->node_count; i++) {
        int rc = make_step(p, i, err);
        if (rc != 0) {
            return err_wrap(err, "%s", onnx_node_text(&p->net->nodes[i], text, sizeof text));
        }
    }
    return 0;
}

/* Takes the net's values, whose contents stay the net's. */
static void borrow_values(struct onnx_plan *p)
{
    const struct onnx_net *net = p->net;
    p->values = mem_new(net->value_count + 1, sizeof *p->values);
    for (size_t i = 0; i < net->value_count; i++) {
        p->values[i] = net->values[i];
        p->values[i].owns_ints = p->values[i].owns_floats = false;
        p->values[i].trains = net->values[i].variable != SIZE_MAX;
        p->values[i].gradient_at = SIZE_MAX;
    }
}

int onnx_plan_new(const struct onnx_net *net, const struct shape *record, size_t records,
                  struct onnx_plan **out, struct err *err)
{
    struct onnx_plan *p = mem_new(1, sizeof *p);
    struct err local = {0};
    err = err == NULL ? &local : err; /* wrapping needs one */
    p->net = net;
    p->records = records;
    p->steps = mem_new(net->node_count + 1, sizeof *p->steps);
    borrow_values(p);
    int rc = shape_input(p, record, err);
    rc = rc != 0 ? rc : make_steps(p, err);
    if (rc != 0) {
        onnx_plan_free(p);
        return rc;
    }
    onnx_plan_place(p);
    *out = p;
    return 0;
}

void onnx_plan_free(struct onnx_plan *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < p->net->node_count; i++) {
        free(p->steps[i].in);
        free(p->steps[i].out);
        free(p->steps[i].dx_at);
        free(p->steps[i].dx_adds);
        free(p->steps[i].plan);
    }
    for (size_t i = 0; i < p->net->value_count; i++) {
        onnx_value_release(&p->values[i]);
    }
    free(p->values);
    free(p->steps);
    free(p->zeros);
    free(p);
}

/* ---- the output for a record ---- */

static int output_for(const struct onnx_net *net, const struct shape *record, size_t records,
                      struct onnx_dims *out, struct err *err)
{
    struct onnx_plan *p;
    int rc = onnx_plan_new(net, record, records, &p, err);
    if (rc != 0) {
        return rc;
    }
    const struct onnx_value *v = &p->values[net->output];
    char text[128];
    *out = v->shape;
    if (v->type != ONNX_FLOAT || v->count == 0 || v->shape.rank == 0 ||
        v->shape.dims[0] != records) {
        rc = err_set(err, ERR_INVALID,
                     "output '%.64s' is %s %s for %zu records; [%zu, …] floats would fit", v->name,
                     onnx_dims_format(&v->shape, text, sizeof text),
                     v->type == ONNX_FLOAT ? "floats" : "whole numbers", records, records);
    }
    onnx_plan_free(p);
    return rc;
}

/* Two numbers of records show what depends on them. */
int onnx_net_output(const struct onnx_net *net, const struct shape *record, struct shape *out,
                    struct err *err)
{
    struct onnx_dims two, three;
    int rc = output_for(net, record, 2, &two, err);
    rc = rc != 0 ? rc : output_for(net, record, 3, &three, err);
    if (rc != 0) {
        return rc;
    }
    two.dims[0] = three.dims[0];
    if (!onnx_dims_equal(&two, &three)) {
        return err_set(err, ERR_INVALID,
                       "the shape of the output depends on how many records are computed at once");
    }
    *out = (struct shape){.rank = 0};
    for (size_t i = 1; i < two.rank; i++) {
        const bool unit = two.dims[i] == 1 && two.rank > 2; /* [10, 1, 1] is [10] */
        if (!unit && out->rank < SHAPE_RANK_MAX) {
            out->dims[out->rank++] = two.dims[i];
        }
    }
    if (out->rank == 0) { /* one number of each record */
        *out = (struct shape){.rank = 1, .dims = {1}};
    }
    return shape_count(out) == onnx_dims_count(&two) / two.dims[0]
               ? 0
               : err_set(err, ERR_INVALID, "the output has too many dimensions");
}
