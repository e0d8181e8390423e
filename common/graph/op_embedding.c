/* SPDX-License-Identifier: Apache-2.0 */
/* embedding: a row of a variable, or of a table, for each key of sparse fields, times the key's
 * weight. Pooling makes one row of a list: sum is Σ w · v, mean that over Σ |w|, sqrt_n that over
 * √(Σ w²); none keeps the rows apart. A list without keys gives zeros.
 *
 * The gradient is as large as the variable: backward() fills it with zeros, because the caller adds
 * other gradients into the same memory, and then writes the rows of the batch's keys alone. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/lookup_onnx.h"
#include "tensor/kernel.h"

enum { POOLING_SUM, POOLING_MEAN, POOLING_SQRT_N, POOLING_NONE };
static const char *const pooling_names[] = {"sum", "mean", "sqrt_n", "none", NULL};

struct embedding_params {
    int64_t dim, length;
    int pooling;
    struct lookup_params lookup;
    struct init_params embeddings;
};

static const struct field embedding_fields[] = {
    {"dim", FIELD_INT, offsetof(struct embedding_params, dim), "0", 0, 1 << 16, NULL,
     "Numbers of a row, 1 or more; 0 is for a table: those of its rows"},
    LOOKUP_FIELDS(struct embedding_params, lookup),
    {"pooling", FIELD_ENUM, offsetof(struct embedding_params, pooling), "sum", 0, 0, pooling_names,
     "How the rows of a list become one: sum, each times its key's weight; mean and sqrt_n, that "
     "divided by the sum of the weights or by the root of the sum of their squares; none leaves "
     "them apart"},
    {"length", FIELD_INT, offsetof(struct embedding_params, length), "1", 1, 1 << 16, NULL,
     "With pooling none, rows of each list: behind the last key they are 0; a list with more keys "
     "is an error"},
    INIT_FIELDS(struct embedding_params, embeddings, "embeddings", "uniform"),
};

static const struct init_params usual_init = {.kind = INIT_UNIFORM, .spread = 0.05};

static const struct embedding_params *params_of(const struct layer *l)
{
    return l->params;
}

/* Rows of a record that one field gives. */
static size_t rows_of_field(const struct layer *l)
{
    const struct embedding_params *p = params_of(l);
    return p->pooling == POOLING_NONE ? (size_t)p->length : 1;
}

static int embedding_plan(struct layer *l, struct err *err)
{
    struct embedding_params *p = l->params;
    const uint64_t rows = l->input_count * rows_of_field(l);
    struct lookup_plan plan = {.part = "embeddings",
                               .width_key = "dim",
                               .width = (uint64_t)p->dim,
                               .init = &p->embeddings,
                               .init_default = &usual_init};
    int rc = lookup_plan(l, &p->lookup, &plan, err);
    p->dim = (int64_t)plan.width;
    if (rc == 0 && p->length > 1 && p->pooling != POOLING_NONE) {
        rc = err_set(err, ERR_INVALID,
                     "length: pooling: %s makes one row of a list of any length; pooling: none "
                     "would fit",
                     pooling_names[p->pooling]);
    }
    l->out = rows == 1 ? (struct shape){.rank = 1, .dims = {plan.width}}
                       : (struct shape){.rank = 2, .dims = {rows, plan.width}};
    return rc;
}

static void embedding_limits(const struct layer *l, uint64_t *keys, size_t *length)
{
    const struct embedding_params *p = params_of(l);
    *keys = lookup_keys(&p->lookup);
    *length = p->pooling == POOLING_NONE ? (size_t)p->length : SIZE_MAX;
}

/* What the sum of a list's rows is multiplied by. Keys without a row do not count. */
static float scale_of(const struct embedding_params *p, const struct layer_input *in,
                      const struct lookup_list *list)
{
    double sum = 0;
    if (p->pooling != POOLING_MEAN && p->pooling != POOLING_SQRT_N) {
        return 1.0F;
    }
    for (size_t k = 0; k < list->count; k++) {
        const double w = (double)lookup_weight(list, k);
        if (lookup_row(&p->lookup, in, list, k) != LOOKUP_NO_ROW) {
            sum += p->pooling == POOLING_MEAN ? fabs(w) : w * w;
        }
    }
    sum = p->pooling == POOLING_MEAN ? sum : sqrt(sum);
    return sum > 0 ? (float)(1.0 / sum) : 0.0F;
}

/* The next list of @pass: into @y, or from @dy into the gradient; the other is NULL. */
static void run_list(struct lookup_pass *pass, const struct layer_input *in, size_t record,
                     float *y, const float *dy)
{
    const struct layer *l = pass->run->layer;
    const struct embedding_params *p = params_of(l);
    const size_t dim = (size_t)p->dim, most = rows_of_field(l);
    const struct lookup_list list = lookup_next(pass, in, record);
    const bool apart = p->pooling == POOLING_NONE;
    const float scale = scale_of(p, in, &list);
    for (size_t k = 0; k < list.count && (!apart || k < most); k++) {
        const uint64_t row = lookup_row(&p->lookup, in, &list, k);
        const size_t at = apart ? k * dim : 0;
        const float w = scale * lookup_weight(&list, k);
        if (row == LOOKUP_NO_ROW) {
            continue;
        }
        if (y != NULL) {
            kernel_add_scaled(dim, w, pass->values + row * dim, y + at);
        } else {
            kernel_add_scaled(dim, w, dy + at, pass->gradient + row * dim);
        }
    }
}

static void embedding_forward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    const size_t width = rows_of_field(l) * (size_t)params_of(l)->dim;
    struct lookup_pass pass = lookup_begin(r);
    memset(r->y, 0, r->count * l->out_count * sizeof *r->y);
    for (size_t k = 0; k < l->input_count; k++) { /* keys of a field lie together */
        for (size_t i = 0; i < r->count; i++) {
            run_list(&pass, &l->inputs[k], i, r->y + i * l->out_count + k * width, NULL);
        }
    }
}

static void embedding_backward(const struct layer_run *r)
{
    const struct layer *l = r->layer;
    const size_t width = rows_of_field(l) * (size_t)params_of(l)->dim;
    struct lookup_pass pass = lookup_begin(r);
    lookup_zero_gradient(r);
    for (size_t k = 0; k < l->input_count; k++) {
        for (size_t i = 0; i < r->count; i++) {
            run_list(&pass, &l->inputs[k], i, NULL, r->dy + i * l->out_count + k * width);
        }
    }
}

/* The rows of a list as one, [batch, dim]; @weights of its keys. A list without any gives zeros. */
static const char *onnx_pooled(struct layer_onnx *o, const char *rows, const char *weights)
{
    const int pooling = params_of(o->layer)->pooling;
    struct onnx_graph *g = o->graph;
    const char *sum = layer_onnx_sum(o, "/sum", rows, 1, false);
    if (pooling == POOLING_SUM) {
        return sum;
    }
    weights = pooling == POOLING_MEAN ? onnx_graph_op(g, "Abs", "/sizes", weights, NULL)
                                      : onnx_graph_op(g, "Mul", "/squares", weights, weights, NULL);
    const char *all = layer_onnx_sum(o, "/all", weights, 1, false);
    const char *none = onnx_graph_float(g, "/not_0", FLT_MIN);
    all = onnx_graph_op(g, "Max", "/by", all, none, NULL);
    all = pooling == POOLING_MEAN ? all : onnx_graph_op(g, "Sqrt", "/root", all, NULL);
    return onnx_graph_op(g, "Div", "/pooled", sum, all, NULL);
}

static int embedding_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const struct embedding_params *p = params_of(o->layer);
    const size_t count = o->layer->input_count;
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    const char *rows[LAYER_INPUTS_MAX], *weights[LAYER_INPUTS_MAX] = {NULL},
                                        *fields[LAYER_INPUTS_MAX];
    const struct lookup_onnx l = lookup_onnx(o, &p->lookup, (size_t)p->dim);
    lookup_onnx_split(o, &l, "/rows", l.rows, rows);
    if (p->pooling == POOLING_MEAN || p->pooling == POOLING_SQRT_N) {
        lookup_onnx_split(o, &l, "/weights_by_field", l.weights, weights);
    }
    for (size_t k = 0; k < count; k++) {
        fields[k] = p->pooling == POOLING_NONE
                        ? lookup_onnx_lengthen(o, k, rows[k], (size_t)p->length)
                        : layer_onnx_unsqueeze(o, "/row", onnx_pooled(o, rows[k], weights[k]), 1);
    }
    const char *all = count == 1
                          ? fields[0]
                          : onnx_graph_node(o->graph, "Concat", "/fields", fields, count, &axis, 1);
    return layer_onnx_is(o, o->layer->out.rank == 1
                                ? onnx_graph_op(o->graph, "Flatten", "", all, NULL)
                                : onnx_graph_op(o->graph, "Identity", "", all, NULL));
}

extern const struct layer_kind layer_embedding;
const struct layer_kind layer_embedding = {
    .name = "embedding",
    .help = "A row of a variable or table for each key of sparse fields: a vector of dim numbers "
            "for each "
            "field of a record",
    .fields = embedding_fields,
    .field_count = sizeof embedding_fields / sizeof embedding_fields[0],
    .params_bytes = sizeof(struct embedding_params),
    .inputs_max = LAYER_INPUTS_MAX,
    .reads_fields = true,
    .limits = embedding_limits,
    .plan = embedding_plan,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .onnx = embedding_onnx,
};
