/* SPDX-License-Identifier: Apache-2.0 */
/* A Gather over the rows, then zeros for keys that have none. */
#include "graph/lookup_onnx.h"

int lookup_onnx_check(const struct layer *l, const struct lookup_params *p, struct err *err)
{
    if (l->has_table) {
        return err_set(err, ERR_UNSUPPORTED,
                       "its rows are those of a table, and no operator of ONNX finds a row by a "
                       "64-bit key; a variable (rows: N) with hashing: none can be exported, and "
                       "gradus-serve answers with tables");
    }
    if (p->hashing == LOOKUP_HASHING_MIXED) {
        return err_set(err, ERR_UNSUPPORTED,
                       "hashing: mixed makes the row of a key by a hash, which no operator of ONNX "
                       "computes; hashing: none, where a key is its row, can be exported, and "
                       "gradus-serve answers with both");
    }
    return 0;
}

static const char *number(struct layer_onnx *o, const char *name, int64_t value)
{
    return onnx_graph_ints(o->graph, name, 1, &value);
}

/* Which of @keys have a row, as true or false. */
static const char *known(struct layer_onnx *o, const struct lookup_params *p, const char *keys)
{
    struct onnx_graph *g = o->graph;
    const char *zero = number(o, "/zero", 0);
    const char *there = onnx_graph_op(g, "GreaterOrEqual", "/there", keys, zero, NULL);
    if (p->unknown != LOOKUP_UNKNOWN_ZERO) {
        return there;
    }
    const char *below = onnx_graph_op(g, "Less", "/below", keys, number(o, "/rows", p->rows), NULL);
    return onnx_graph_op(g, "And", "/known", there, below, NULL);
}

/* Their rows; where they have none, of any. A key that is an error is one of Gather's. */
static const char *places(struct layer_onnx *o, const struct lookup_params *p, const char *keys)
{
    struct onnx_graph *g = o->graph;
    const char *at = onnx_graph_op(g, "Max", "/at_least_0", keys, number(o, "/first", 0), NULL);
    if (p->unknown == LOOKUP_UNKNOWN_ERROR) {
        return at;
    }
    const int64_t last = p->rows - (p->unknown == LOOKUP_UNKNOWN_ZERO);
    return onnx_graph_op(g, "Min", "/at_most", at, number(o, "/last", last), NULL);
}

struct lookup_onnx lookup_onnx(struct layer_onnx *o, const struct lookup_params *p, size_t k,
                               const char *table)
{
    struct onnx_graph *g = o->graph;
    const struct onnx_attr to = ONNX_ATTR_INT("to", ONNX_TYPE_FLOAT);
    const char *keys = o->keys[k], *have = known(o, p, keys);
    const char *mask = onnx_graph_node(g, "Cast", "/ones", &have, 1, &to, 1);
    struct lookup_onnx out = {.mask = layer_onnx_unsqueeze(o, "/mask", mask, 2)};
    const char *rows = onnx_graph_op(g, "Gather", "/gathered", table, places(o, p, keys), NULL);
    out.rows = onnx_graph_op(g, "Mul", "/masked", rows, out.mask, NULL);
    return out;
}

const char *lookup_onnx_lengthen(struct layer_onnx *o, size_t k, const char *rows, size_t length)
{
    if (o->lengths[k] >= length) {
        return rows;
    }
    const int64_t pads[6] = {0, 0, 0, 0, (int64_t)(length - o->lengths[k]), 0};
    const char *sizes = onnx_graph_ints(o->graph, "/pads", 6, pads);
    return onnx_graph_op(o->graph, "Pad", "/lengthened", rows, sizes, NULL);
}
