/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of tensor/init.c, of those kinds that a table may have. */
#include "graph/init_onnx.h"

#include "base/rng.h"
#include "onnx/onnx_bits.h"

/* Draws of a truncated number; one of 2^35 is outside in all of them. */
#define TRIES 8

bool init_onnx_same(const struct init *init)
{
    return init->kind == INIT_ZEROS || init->kind == INIT_GIVEN || init->kind == INIT_CONSTANT;
}

/* The first of several draws that is within two deviations. */
static const char *truncated(struct onnx_graph *g, const char *keys, size_t dim)
{
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 0), to_float = ONNX_ATTR_INT("to", 1);
    const char *mixed = onnx_bits_mix(g, keys), *tries[TRIES];
    for (unsigned t = 0; t < TRIES; t++) {
        const char *stream = t == 0 ? keys : onnx_bits_key_mix(g, mixed, onnx_bits_number(g, t));
        const char *drawn = onnx_bits_normal(g, stream, dim);
        tries[t] = onnx_graph_op(g, "Unsqueeze", "/try", drawn, onnx_bits_number(g, 0), NULL);
    }
    const char *all = onnx_graph_node(g, "Concat", "/tries", tries, TRIES, &axis, 1);
    const char *size = onnx_graph_op(g, "Abs", "/sizes", all, NULL);
    const char *within =
        onnx_graph_op(g, "Less", "/inside", size, onnx_graph_float(g, "/two", 2.0F), NULL);
    const char *inside = onnx_graph_node(g, "Cast", "/is_inside", &within, 1, &to_float, 1);
    const char *first = onnx_graph_node(g, "ArgMax", "/first", &inside, 1, &axis, 1);
    const char *found =
        onnx_graph_node(g, "GatherElements", "/taken", (const char *[]){all, first}, 2, &axis, 1);
    return onnx_graph_op(g, "Squeeze", "/drawn", found, onnx_bits_number(g, 0), NULL);
}

const char *init_onnx_rows(struct onnx_graph *g, const struct init *init, uint64_t seed,
                           const char *name, const char *keys, size_t dim)
{
    const char *mixed = onnx_bits_number(g, rng_key(rng_key(seed, name), ""));
    const char *streams = onnx_bits_mix(g, onnx_bits_key_mix(g, mixed, keys));
    const bool uniform = init->kind == INIT_UNIFORM;
    const float spread = (float)(uniform ? init->b - init->a : init->b);
    const char *x = uniform                               ? onnx_bits_uniform(g, streams, dim)
                    : init->kind == INIT_TRUNCATED_NORMAL ? truncated(g, streams, dim)
                                                          : onnx_bits_normal(g, streams, dim);
    x = onnx_graph_op(g, "Mul", "/spread", x, onnx_graph_float(g, "/by", spread), NULL);
    const char *centre = onnx_graph_float(g, "/centre", (float)init->a);
    return onnx_graph_op(g, "Add", "/initial", x, centre, NULL);
}
