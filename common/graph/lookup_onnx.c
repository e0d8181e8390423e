/* SPDX-License-Identifier: Apache-2.0 */
/* A Gather over the rows, then zeros for keys that have none. The keys of all fields of a layer are
 * looked up at once, so the nodes of a hash are there once. */
#include "graph/lookup_onnx.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "graph/init_onnx.h"
#include "onnx/onnx_bits.h"

/* ---- the keys of all inputs ---- */

static const char *side_by_side(struct layer_onnx *o, const char *name, const char *const *parts)
{
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    const size_t count = o->layer->input_count;
    return count == 1 ? parts[0]
                      : onnx_graph_node(o->graph, "Concat", name, parts, count, &axis, 1);
}

/* How many keys each input has, INT64 [1]. */
static const char *size_of(struct layer_onnx *o, size_t k)
{
    const struct onnx_attr from_to[2] = {ONNX_ATTR_INT("start", 1), ONNX_ATTR_INT("end", 2)};
    return onnx_graph_node(o->graph, "Shape", "/size", &o->keys[k], 1, from_to, 2);
}

static const char *sizes_of(struct layer_onnx *o, const char **each)
{
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 0);
    const size_t count = o->layer->input_count;
    for (size_t k = 0; k < count && count > 1; k++) {
        each[k] = size_of(o, k);
    }
    return count == 1 ? NULL : onnx_graph_node(o->graph, "Concat", "/sizes", each, count, &axis, 1);
}

static bool is_weighted(const struct layer_onnx *o)
{
    bool weighted = false;
    for (size_t k = 0; k < o->layer->input_count; k++) {
        weighted = weighted || o->weights[k] != NULL;
    }
    return weighted;
}

/* Keys under which the data's are looked up, by the hash of lookup.c. @sizes: of each input. */
static const char *hashed(struct layer_onnx *o, const struct lookup_params *p, const char *keys,
                          const char *const *sizes)
{
    struct onnx_graph *g = o->graph;
    const char *seeds[LAYER_INPUTS_MAX];
    if (p->hashing == LOOKUP_HASHING_NONE) {
        return keys;
    }
    const bool one = p->shared || o->layer->input_count == 1;
    for (size_t k = 0; k < o->layer->input_count; k++) {
        const uint64_t seed = p->shared ? 0 : o->layer->inputs[k].field_seed;
        seeds[k] = onnx_bits_number(g, rng_key(seed, ""));
        seeds[k] = one ? seeds[k] : onnx_graph_op(g, "Expand", "/seed", seeds[k], sizes[k], NULL);
    }
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 0);
    const char *seed =
        one ? seeds[0]
            : onnx_graph_node(g, "Concat", "/seeds", seeds, o->layer->input_count, &axis, 1);
    return onnx_bits_key_mix(g, seed, keys);
}

/* ---- which have rows, and where ---- */

static const char *number(struct layer_onnx *o, const char *name, int64_t value)
{
    return onnx_graph_ints(o->graph, name, 1, &value);
}

/* Which of @keys have a row, as true or false. */
static const char *known(struct layer_onnx *o, const struct lookup_params *p, const char *keys)
{
    struct onnx_graph *g = o->graph;
    if (o->table != NULL || p->hashing == LOOKUP_HASHING_MIXED) {
        const char *none = onnx_graph_op(g, "Equal", "/none", keys, number(o, "/no_key", -1), NULL);
        return onnx_graph_op(g, "Not", "/there", none, NULL);
    }
    const char *zero = number(o, "/zero", 0);
    const char *there = onnx_graph_op(g, "GreaterOrEqual", "/there", keys, zero, NULL);
    if (p->unknown != LOOKUP_UNKNOWN_ZERO) {
        return there;
    }
    const char *below = onnx_graph_op(g, "Less", "/below", keys, number(o, "/rows", p->rows), NULL);
    return onnx_graph_op(g, "And", "/known", there, below, NULL);
}

/* The places of keys in a table; of those without a row, that behind the last. */
static const char *places_in_table(struct layer_onnx *o, const char *keys)
{
    const struct model_onnx_table *t = o->table;
    const int64_t last = (int64_t)t->count, nothing = 0; /* a list of keys may not be empty */
    int64_t *places = mem_new(t->count + 1, sizeof *places);
    for (size_t i = 0; i < t->count; i++) {
        places[i] = (int64_t)i;
    }
    const size_t count = t->count == 0 ? 1 : t->count;
    const struct onnx_attr attrs[] = {
        ONNX_ATTR_INTS("keys_int64s", t->count == 0 ? &nothing : t->keys, count),
        ONNX_ATTR_INTS("values_int64s", places, count), ONNX_ATTR_INT("default_int64", last)};
    const char *found =
        onnx_graph_node(o->graph, ONNX_ML "LabelEncoder", "/place", &keys, 1, attrs, 3);
    free(places);
    return found;
}

/* The rows of @keys; where they have none, of any. A key that is an error is one of Gather's. */
static const char *places(struct layer_onnx *o, const struct lookup_params *p, const char *keys)
{
    struct onnx_graph *g = o->graph;
    if (o->table != NULL) {
        return places_in_table(o, keys);
    }
    if (p->hashing == LOOKUP_HASHING_MIXED) {
        return onnx_bits_remainder(g, keys, (uint64_t)p->rows);
    }
    const char *at = onnx_graph_op(g, "Max", "/at_least_0", keys, number(o, "/first", 0), NULL);
    if (p->unknown == LOOKUP_UNKNOWN_ERROR) {
        return at;
    }
    const int64_t last = p->rows - (p->unknown == LOOKUP_UNKNOWN_ZERO);
    return onnx_graph_op(g, "Min", "/at_most", at, number(o, "/last", last), NULL);
}

/* ---- rows ---- */

/* The rows of the table, and one more for all keys without one. */
static const char *table_values(struct layer_onnx *o, size_t dim)
{
    const struct shape shape = {.rank = 2, .dims = {o->table->count + 1, dim}};
    if (*o->table_values == NULL) {
        *o->table_values = onnx_graph_floats(o->graph, o->table->name, &shape, o->table->values);
    }
    return *o->table_values;
}

/* @rows with what keys without a row begin with, which is another row for each. Only those are
 * computed. */
static const char *with_initial(struct layer_onnx *o, const char *rows, const char *place,
                                const char *there, const char *keys, size_t dim)
{
    struct onnx_graph *g = o->graph;
    const struct model_onnx_table *t = o->table;
    const int64_t turned[2] = {1, 0};
    const struct onnx_attr perm = ONNX_ATTR_INTS("perm", turned, 2);
    const char *last = number(o, "/without", (int64_t)t->count);
    const char *new = onnx_graph_op(g, "Equal", "/new", place, last, NULL);
    new = onnx_graph_op(g, "And", "/new_there", new, there, NULL);
    const char *at = onnx_graph_op(g, "NonZero", "/new_places", new, NULL);
    at = onnx_graph_node(g, "Transpose", "/new_at", &at, 1, &perm, 1);
    const char *of = onnx_graph_op(g, "GatherND", "/new_keys", keys, at, NULL);
    const char *initial = init_onnx_rows(g, &t->init, t->seed, t->name, of, dim);
    return onnx_graph_op(g, "ScatterND", "/all_rows", rows, at, initial, NULL);
}

static const char *gather(struct layer_onnx *o, const struct lookup_params *p, const char *keys,
                          const char *there, size_t dim)
{
    struct onnx_graph *g = o->graph;
    const char *place = places(o, p, keys);
    const char *values = o->table != NULL ? table_values(o, dim) : layer_onnx_variable(o, 0);
    const char *rows = onnx_graph_op(g, "Gather", "/gathered", values, place, NULL);
    return o->table == NULL || init_onnx_same(&o->table->init)
               ? rows
               : with_initial(o, rows, place, there, keys, dim);
}

struct lookup_onnx lookup_onnx(struct layer_onnx *o, const struct lookup_params *p, size_t dim)
{
    struct onnx_graph *g = o->graph;
    const struct onnx_attr to = ONNX_ATTR_INT("to", ONNX_TYPE_FLOAT);
    const char *sizes[LAYER_INPUTS_MAX];
    struct lookup_onnx out = {.sizes = sizes_of(o, sizes)};
    const char *keys = side_by_side(o, "/keys", o->keys), *have = known(o, p, keys);
    const char *mask = onnx_graph_node(g, "Cast", "/ones", &have, 1, &to, 1);
    if (is_weighted(o)) {
        const char *weights = side_by_side(o, "/weights", o->weights);
        mask = onnx_graph_op(g, "Mul", "/weights_of", mask, weights, NULL);
    }
    out.weights = layer_onnx_unsqueeze(o, "/mask", mask, 2);
    const char *rows = gather(o, p, hashed(o, p, keys, sizes), have, dim);
    out.rows = onnx_graph_op(g, "Mul", "/masked", rows, out.weights, NULL);
    return out;
}

void lookup_onnx_split(struct layer_onnx *o, const struct lookup_onnx *l, const char *name,
                       const char *x, const char **out)
{
    if (l->sizes == NULL) {
        out[0] = x;
        return;
    }
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    const char *inputs[2] = {x, l->sizes};
    onnx_graph_node_several(o->graph, "Split", name, inputs, 2, &axis, 1, out,
                            o->layer->input_count);
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
