/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes are numbered, as their names would say nothing. Philox computes on pairs: one node does
 * what both halves of a round need. */
#include "onnx/onnx_bits.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "onnx/onnx_graph_impl.h"

#define DIGIT_BITS 4U
#define DIGITS_MAX (64U / DIGIT_BITS)
#define DIGIT_VALUES (UINT64_C(1) << DIGIT_BITS)
#define XOR_MAX 3U
#define ROUNDS 10
#define INV_2_53 0x1.0p-53F

/* ---- nodes and constants ---- */

static const char *node(struct onnx_graph *g, const char *op, const char *const *inputs,
                        size_t count, const struct onnx_attr *attr)
{
    char *name = mem_printf("/bits_%zu", g->graph->n_node);
    const char *y = onnx_graph_node(g, op, name, inputs, count, attr, attr != NULL);
    free(name);
    return y;
}

static const char *two(struct onnx_graph *g, const char *op, const char *a, const char *b)
{
    return node(g, op, (const char *[]){a, b}, 2, NULL);
}

static const char *one(struct onnx_graph *g, const char *op, const char *x)
{
    return node(g, op, &x, 1, NULL);
}

static const char *cast(struct onnx_graph *g, const char *x, int64_t type)
{
    return node(g, "Cast", &x, 1, &ONNX_ATTR_INT("to", type));
}

static const char *numbers(struct onnx_graph *g, size_t count, const uint64_t *values)
{
    const struct shape shape = {.rank = 1, .dims = {count}};
    return onnx_graph_shared_ints(g, "bits", &shape, (const int64_t *)values);
}

/* Two numbers, [2, 1, 1]. */
static const char *pair(struct onnx_graph *g, uint64_t a, uint64_t b)
{
    const struct shape shape = {.rank = 3, .dims = {2, 1, 1}};
    return onnx_graph_shared_ints(g, "bits", &shape, (const int64_t[]){(int64_t)a, (int64_t)b});
}

const char *onnx_bits_number(struct onnx_graph *g, uint64_t value)
{
    return numbers(g, 1, &value);
}

static const char *unsqueeze(struct onnx_graph *g, const char *x, int64_t axis)
{
    return two(g, "Unsqueeze", x, onnx_bits_number(g, (uint64_t)axis));
}

static const char *float_number(struct onnx_graph *g, float value)
{
    return onnx_graph_float(g, "/number", value);
}

/* ---- arithmetic ---- */

static const char *onnx_bits_multiply(struct onnx_graph *g, const char *x, uint64_t by)
{
    return two(g, "Mul", x, onnx_bits_number(g, by));
}

const char *onnx_bits_add(struct onnx_graph *g, const char *x, uint64_t value)
{
    return two(g, "Add", x, onnx_bits_number(g, value));
}

/* @x, as UINT64, by each of the numbers @by. */
static const char *shift(struct onnx_graph *g, const char *x, const char *by, const char *direction)
{
    const char *inputs[2] = {x, cast(g, by, ONNX_TYPE_UINT64)};
    return cast(g, node(g, "BitShift", inputs, 2, &ONNX_ATTR_TEXT("direction", direction)),
                ONNX_TYPE_INT64);
}

/* Zeros come in from above, or below. @by below 64. */
static const char *onnx_bits_right(struct onnx_graph *g, const char *x, unsigned by)
{
    return shift(g, cast(g, x, ONNX_TYPE_UINT64), onnx_bits_number(g, by), "RIGHT");
}

static const char *onnx_bits_left(struct onnx_graph *g, const char *x, unsigned by)
{
    return onnx_bits_multiply(g, x, UINT64_C(1) << by);
}

const char *onnx_bits_remainder(struct onnx_graph *g, const char *x, uint64_t n)
{
    const char *by = cast(g, onnx_bits_number(g, n), ONNX_TYPE_UINT64);
    return cast(g, two(g, "Mod", cast(g, x, ONNX_TYPE_UINT64), by), ONNX_TYPE_INT64);
}

/* The digits of @x, in a last dimension, lowest first. */
static const char *digits(struct onnx_graph *g, const char *x, unsigned count)
{
    uint64_t places[DIGITS_MAX];
    for (unsigned i = 0; i < count; i++) {
        places[i] = (uint64_t)i * DIGIT_BITS;
    }
    const char *wide = cast(g, unsqueeze(g, x, -1), ONNX_TYPE_UINT64);
    const char *moved = shift(g, wide, numbers(g, count, places), "RIGHT");
    return two(g, "Mod", moved, onnx_bits_number(g, DIGIT_VALUES)); /* never below 0 */
}

static const char *xor_table(struct onnx_graph *g)
{
    uint64_t values[DIGIT_VALUES * DIGIT_VALUES];
    for (uint64_t i = 0; i < DIGIT_VALUES * DIGIT_VALUES; i++) {
        values[i] = (i / DIGIT_VALUES) ^ (i % DIGIT_VALUES);
    }
    return numbers(g, DIGIT_VALUES * DIGIT_VALUES, values);
}

/* The exclusive or of @count values of @bits bits, a multiple of 4; they broadcast. */
static const char *onnx_bits_xor(struct onnx_graph *g, const char *const *x, size_t count,
                                 unsigned bits)
{
    const unsigned n = bits / DIGIT_BITS;
    uint64_t weights[DIGITS_MAX];
    const char *y = digits(g, x[0], n);
    for (size_t i = 1; i < count; i++) {
        const char *high = onnx_bits_multiply(g, y, DIGIT_VALUES);
        y = two(g, "Gather", xor_table(g), two(g, "Add", high, digits(g, x[i], n)));
    }
    for (unsigned i = 0; i < n; i++) {
        weights[i] = UINT64_C(1) << (i * DIGIT_BITS);
    }
    return two(g, "MatMul", y, numbers(g, n, weights)); /* ReduceSum is not exact everywhere */
}

/* ---- hashes ---- */

/* x xor (x >> by) */
static const char *fold(struct onnx_graph *g, const char *x, unsigned by)
{
    return onnx_bits_xor(g, (const char *[]){x, onnx_bits_right(g, x, by)}, 2, 64);
}

const char *onnx_bits_mix(struct onnx_graph *g, const char *x)
{
    x = onnx_bits_add(g, x, UINT64_C(0x9E3779B97F4A7C15));
    x = onnx_bits_multiply(g, fold(g, x, 30), UINT64_C(0xBF58476D1CE4E5B9));
    x = onnx_bits_multiply(g, fold(g, x, 27), UINT64_C(0x94D049BB133111EB));
    return fold(g, x, 31);
}

const char *onnx_bits_key_mix(struct onnx_graph *g, const char *mixed, const char *x)
{
    return onnx_bits_mix(g, onnx_bits_xor(g, (const char *[]){x, mixed}, 2, 64));
}

const char *onnx_bits_fnv1a(struct onnx_graph *g, const char *x)
{
    const char *h = onnx_bits_number(g, UINT64_C(14695981039346656037));
    for (unsigned i = 0; i < 8; i++) {
        const char *byte = onnx_bits_remainder(g, onnx_bits_right(g, x, 8 * i), 256);
        h = onnx_bits_multiply(g, onnx_bits_xor(g, (const char *[]){byte, h}, 2, 64),
                               UINT64_C(1099511628211));
    }
    return h;
}

static const char *rotate(struct onnx_graph *g, const char *x, unsigned by)
{
    return two(g, "Add", onnx_bits_left(g, x, by), onnx_bits_right(g, x, 64 - by));
}

/* Of 4 to 8 bytes: the halves change places, then rrmxmx (Evensen). The number is a xor of two
 * words of the hash's secret. */
const char *onnx_bits_xxh3(struct onnx_graph *g, const char *x)
{
    const char *flip = onnx_bits_number(g, UINT64_C(0xc73ab174c5ecd5a2));
    x = onnx_bits_xor(g, (const char *[]){rotate(g, x, 32), flip}, 2, 64);
    x = onnx_bits_xor(g, (const char *[]){x, rotate(g, x, 49), rotate(g, x, 24)}, XOR_MAX, 64);
    x = onnx_bits_multiply(g, x, UINT64_C(0x9FB21C651E98DF25));
    const char *length = onnx_bits_add(g, onnx_bits_right(g, x, 35), 8);
    x = onnx_bits_xor(g, (const char *[]){x, length}, 2, 64);
    return fold(g, onnx_bits_multiply(g, x, UINT64_C(0x9FB21C651E98DF25)), 28);
}

/* ---- Philox4x32-10 ---- */

static const char *swap(struct onnx_graph *g, const char *x)
{
    return two(g, "Gather", x, numbers(g, 2, (const uint64_t[]){1, 0}));
}

static const char *low32(struct onnx_graph *g, const char *x)
{
    return two(g, "Mod", x, onnx_bits_number(g, UINT64_C(1) << 32));
}

/* Numbers 0 and 2 of a counter in *@even and 1 and 3 in *@odd, [2, n, dim]; @key [2, n, 1]. */
static void philox(struct onnx_graph *g, const char *key, const char **even, const char **odd)
{
    const char *by = pair(g, UINT64_C(0xD2511F53), UINT64_C(0xCD9E8D57));
    const char *step = pair(g, UINT64_C(0x9E3779B9), UINT64_C(0xBB67AE85));
    for (int round = 0; round < ROUNDS; round++) {
        const char *product = swap(g, two(g, "Mul", *even, by));
        const char *parts[XOR_MAX] = {onnx_bits_right(g, product, 32), *odd, key};
        *even = onnx_bits_xor(g, parts, XOR_MAX, 32);
        *odd = low32(g, product);
        key = low32(g, two(g, "Add", key, step));
    }
}

/* The draws as two numbers of 53 bits each, [2, n, dim]. */
static const char *draw(struct onnx_graph *g, const char *keys, size_t dim)
{
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 0);
    const struct shape row = {.rank = 3, .dims = {1, 1, dim}};
    int64_t *index = mem_new(dim + 1, sizeof *index);
    for (size_t i = 0; i < dim; i++) {
        index[i] = (int64_t)i;
    }
    const char *all = unsqueeze(g, unsqueeze(g, keys, 1), 0); /* [1, n, 1] */
    const char *halves[2] = {low32(g, all), onnx_bits_right(g, all, 32)};
    const char *key = node(g, "Concat", halves, 2, &axis);
    const char *zeros = onnx_bits_multiply(g, key, 0);
    const char *first = two(g, "Mul", onnx_graph_shared_ints(g, "bits", &row, index),
                            pair(g, 1, 0)); /* numbers 0 and 2 of the counter */
    const char *even = two(g, "Add", first, zeros), *odd = two(g, "Mul", even, pair(g, 0, 0));
    free(index);
    philox(g, key, &even, &odd);
    return onnx_bits_right(g, two(g, "Add", onnx_bits_left(g, odd, 32), even), 11);
}

/* Number @which of each pair as a share of 1. */
static const char *share(struct onnx_graph *g, const char *drawn, uint64_t which, float more)
{
    const char *x =
        two(g, "Gather", drawn,
            onnx_graph_shared_ints(g, "bits", &(struct shape){.rank = 0}, (const int64_t *)&which));
    x = cast(g, x, ONNX_TYPE_FLOAT);
    x = more > 0 ? two(g, "Add", x, float_number(g, more)) : x;
    return two(g, "Mul", x, float_number(g, INV_2_53));
}

const char *onnx_bits_uniform(struct onnx_graph *g, const char *keys, size_t dim)
{
    return share(g, draw(g, keys, dim), 0, 0);
}

const char *onnx_bits_normal(struct onnx_graph *g, const char *keys, size_t dim)
{
    const char *drawn = draw(g, keys, dim);
    const char *log = one(g, "Log", share(g, drawn, 0, 0.5F));
    const char *size = one(g, "Sqrt", two(g, "Mul", log, float_number(g, -2.0F)));
    const char *angle = two(g, "Mul", share(g, drawn, 1, 0), float_number(g, 6.28318530718F));
    return two(g, "Mul", size, one(g, "Cos", angle));
}
