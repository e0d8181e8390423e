/* SPDX-License-Identifier: Apache-2.0 */
/* What encoding_apply() does with records, by the operators of ONNX. Numbers of 64 bits that were
 * measured are written as two of 32 where one would lose too much. */
#include "saved/saved_onnx_features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/column_layout.h"
#include "graph/model_onnx.h"
#include "onnx/onnx_bits.h"
#include "saved/saved_onnx_categories.h"

struct making {
    const struct encoding *encoding;
    const struct records *raw;
    struct onnx_graph *g;
    bool texts;         /* categories stay texts instead of places */
    const char **parts; /* [part_count] of the features, side by side */
    size_t part_count;
    size_t width; /* of all of them */
};

int saved_onnx_input(struct onnx_graph *g, const char *name, enum onnx_element type,
                     const struct onnx_dim *dims, size_t rank, const char **out, struct err *err)
{
    *out = onnx_graph_input(g, name, type, dims, rank);
    return strcmp(*out, name) == 0
               ? 0
               : err_set(err, ERR_INVALID,
                         "two inputs of the file would be called \"%.64s\"; numbers are the input "
                         "\"" SAVED_ONNX_FEATURES "\", categories and sparse fields have the names "
                         "of their columns",
                         name);
}

/* ---- constants of a row ---- */

/* One number for each of a record, of @shape; the array is taken. */
static const char *row(struct making *m, const char *name, const struct shape *shape, float *values)
{
    return onnx_graph_floats_take(m->g, name, shape, values);
}

static bool all_are(const float *values, size_t n, float what)
{
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        all = all && !(values[i] < what) && !(values[i] > what);
    }
    return all;
}

/* @x @op a row of numbers; @x itself when all numbers are @neutral. Takes the array. */
static const char *with_row(struct making *m, const char *op, const char *name, const char *x,
                            const struct shape *shape, float *values, float neutral)
{
    if (all_are(values, (size_t)shape_count(shape), neutral)) {
        free(values);
        return x;
    }
    char *constant = mem_printf("%s_by", name);
    const char *by = row(m, constant, shape, values);
    free(constant);
    return onnx_graph_op(m->g, op, name, x, by, NULL);
}

static struct shape row_of(size_t n)
{
    return (struct shape){.rank = 1, .dims = {n}};
}

/* ---- numbers ---- */

/* Missing numbers get their values. */
static const char *fill(struct making *m, const char *x)
{
    const struct encode_fills *f = &m->encoding->fills;
    float *values = mem_new(f->count + 1, sizeof *values);
    bool any = false;
    for (size_t j = 0; j < f->count; j++) {
        values[j] = f->set[j] ? f->values[j] : NAN;
        any = any || f->set[j];
    }
    if (!any) {
        free(values);
        return x;
    }
    const char *by = row(m, "/fills", &m->raw->shape, values);
    const char *missing = onnx_graph_op(m->g, "IsNaN", "/missing", x, NULL);
    return onnx_graph_op(m->g, "Where", "/filled", missing, by, x, NULL);
}

/* The numbers @sources of @x, [batch, count]. */
static const char *pick(struct making *m, const char *name, const char *x, const int64_t *sources,
                        size_t count)
{
    bool same = count == m->raw->numbers;
    for (size_t i = 0; i < count; i++) {
        same = same && sources[i] == (int64_t)i;
    }
    if (same) {
        return x;
    }
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    const char *inputs[2] = {x, onnx_graph_ints(m->g, "/columns", count, sources)};
    return onnx_graph_node(m->g, "Gather", name, inputs, 2, &axis, 1);
}

/* sign(x) · ln(1 + |x|) for the columns that want it. */
static const char *logarithms(struct making *m, const struct column_layout *l, const char *x)
{
    const size_t n = l->plain_count;
    const struct shape shape = row_of(n);
    const struct onnx_attr to = ONNX_ATTR_INT("to", ONNX_TYPE_BOOL);
    float *wanted = mem_new(n + 1, sizeof *wanted);
    for (size_t j = 0; j < n; j++) {
        wanted[j] = l->plain[j].log;
    }
    const bool none = all_are(wanted, n, 0), all = all_are(wanted, n, 1);
    if (none) {
        free(wanted);
        return x;
    }
    const char *size = onnx_graph_op(m->g, "Abs", "/sizes", x, NULL);
    const char *one = onnx_graph_float(m->g, "/one", 1.0F);
    const char *log = onnx_graph_op(m->g, "Log", "/logs",
                                    onnx_graph_op(m->g, "Add", "/raised", size, one, NULL), NULL);
    const char *sign = onnx_graph_op(m->g, "Sign", "/signs", x, NULL);
    const char *y = onnx_graph_op(m->g, "Mul", "/logarithms", sign, log, NULL);
    if (all) {
        free(wanted);
        return y;
    }
    const char *which = row(m, "/of", &shape, wanted);
    which = onnx_graph_node(m->g, "Cast", "/which", &which, 1, &to, 1);
    return onnx_graph_op(m->g, "Where", "/transformed", which, y, x, NULL);
}

/* (x − mean) ÷ deviation of declared columns: the mean in two steps, for large ones. */
static void add_plain(struct making *m, const struct column_layout *l, const char *x)
{
    const size_t n = l->plain_count;
    const struct shape shape = row_of(n);
    int64_t *sources = mem_new(n + 1, sizeof *sources);
    float *high = mem_new(n + 1, sizeof *high), *low = mem_new(n + 1, sizeof *low);
    float *deviation = mem_new(n + 1, sizeof *deviation);
    for (size_t j = 0; j < n; j++) {
        const struct plain_number *p = &l->plain[j];
        sources[j] = (int64_t)p->source;
        high[j] = (float)p->mean;
        low[j] = (float)(p->mean - (double)high[j]);
        deviation[j] = (float)p->deviation;
    }
    if (n > 0) {
        x = logarithms(m, l, pick(m, "/numbers", x, sources, n));
        x = with_row(m, "Sub", "/centred", x, &shape, high, 0);
        x = with_row(m, "Sub", "/centred_exactly", x, &shape, low, 0);
        m->parts[m->part_count++] = with_row(m, "Div", "/standardised", x, &shape, deviation, 1);
    } else {
        free(high);
        free(low);
        free(deviation);
    }
    free(sources);
    m->width += n;
}

/* The smallest float x that is @boundary or more, after the logarithm if the column has one. */
static float reach(const struct bucketed_number *b, double boundary)
{
    const double x = b->log ? copysign(expm1(fabs(boundary)), boundary) : boundary;
    const float near = (float)x;
    return (double)near < x ? nextafterf(near, INFINITY) : near;
}

/* Adds a feature for each bucket: x has reached its lower end, and not that of the next one. */
static void add_buckets(struct making *m, const struct bucketed_number *b, const char *x)
{
    struct onnx_graph *g = m->g;
    const struct onnx_attr to = ONNX_ATTR_INT("to", ONNX_TYPE_FLOAT),
                           axis = ONNX_ATTR_INT("axis", 1);
    const struct shape shape = row_of(b->count);
    const int64_t source = (int64_t)b->source;
    float *ends = mem_new(b->count, sizeof *ends);
    for (size_t i = 0; i < b->count; i++) {
        ends[i] = reach(b, b->boundaries[i]);
    }
    const char *number = pick(m, "/number", x, &source, 1);
    const char *missing = onnx_graph_op(g, "IsNaN", "/missing", number, NULL);
    missing = onnx_graph_node(g, "Cast", "/is_missing", &missing, 1, &to, 1);
    const char *reached = onnx_graph_op(g, "GreaterOrEqual", "/reaches", number,
                                        row(m, "/boundaries", &shape, ends), NULL);
    reached = onnx_graph_node(g, "Cast", "/reached", &reached, 1, &to, 1);
    /* A missing one is in the first bucket, or has a feature of its own. */
    const char *none = onnx_graph_op(g, "Sub", "/none", missing, missing, NULL);
    const char *all = onnx_graph_op(g, "Sub", "/some", onnx_graph_float(g, "/one", 1.0F),
                                    b->own_missing ? missing : none, NULL);
    const char *lower[2] = {all, reached}, *upper[2] = {reached, none};
    const char *from = onnx_graph_node(g, "Concat", "/from", lower, 2, &axis, 1);
    const char *to_end = onnx_graph_node(g, "Concat", "/to", upper, 2, &axis, 1);
    if (b->own_missing) {
        m->parts[m->part_count++] = missing;
    }
    m->parts[m->part_count++] = onnx_graph_op(g, "Sub", "/buckets", from, to_end, NULL);
    m->width += b->own_missing + b->count + 1;
}

/* ---- categories ---- */

struct category {
    const char *name;
    const struct names *known;
    const struct data_column *hashed; /* NULL: numbers are places */
    size_t first, width;              /* features: the first of @known, all */
    int64_t missing, unknown;         /* features; -1: none */
    bool list;                        /* a list of several, which are places in any case */
};

/* The places of hashes @x. */
static const char *places_of(struct making *m, const struct category *c, const char *x)
{
    struct onnx_graph *g = m->g;
    const char *none = onnx_bits_number(g, UINT64_MAX);
    const char *missing = onnx_graph_op(g, "Equal", "/missing", x, none, NULL);
    const char *place = onnx_bits_remainder(g, x, (uint64_t)c->hashed->buckets);
    place = onnx_bits_add(g, place, c->first);
    const char *of_missing = onnx_bits_number(g, (uint64_t)c->missing);
    return onnx_graph_op(g, "Where", "/place", missing, of_missing, place, NULL);
}

/* An input of texts, of numbers of features, or of hashes, -1: none, and a 1 for each of them. */
static int add_ones(struct making *m, const struct category *c, struct err *err)
{
    struct onnx_graph *g = m->g;
    const size_t width = c->width;
    const bool texts = m->texts && !c->list && c->hashed == NULL;
    const struct onnx_attr to = ONNX_ATTR_INT("to", ONNX_TYPE_FLOAT);
    const struct onnx_attr drop = ONNX_ATTR_INT("keepdims", 0);
    const int64_t last = 2, each = 1;
    char *several = mem_printf("%s_count", c->name);
    const struct onnx_dim dims[2] = {{.name = "batch"},
                                     {.value = 1, .name = c->list ? several : NULL}};
    int64_t *numbers = mem_new(width + 1, sizeof *numbers);
    for (size_t i = 0; i < width; i++) {
        numbers[i] = (int64_t)i;
    }
    const char *keys;
    int rc = saved_onnx_input(g, c->name, texts ? ONNX_STRINGS : ONNX_INT64S, dims, 2, &keys, err);
    if (rc == 0) {
        keys = texts ? saved_onnx_places(g, c->known, c->first, c->missing, c->unknown, keys)
               : c->hashed != NULL ? places_of(m, c, keys)
                                   : keys;
        const char *places = onnx_graph_ints(g, "/places", width, numbers);
        keys = onnx_graph_op(g, "Unsqueeze", "/apart", keys, onnx_graph_ints(g, "/last", 1, &last),
                             NULL);
        const char *ones = onnx_graph_op(g, "Equal", "/is", keys, places, NULL);
        ones = onnx_graph_node(g, "Cast", "/ones", &ones, 1, &to, 1);
        const char *inputs[2] = {ones, onnx_graph_ints(g, "/lists", 1, &each)};
        m->parts[m->part_count++] =
            onnx_graph_node(g, "ReduceSum", "/categories", inputs, 2, &drop, 1);
        m->width += width;
    }
    free(numbers);
    free(several);
    return rc;
}

static int64_t place_of(uint32_t feature)
{
    return feature == RECORDS_CATEGORY_NONE ? -1 : (int64_t)feature;
}

static int add_category(struct making *m, const struct category_group *c, struct err *err)
{
    const struct column_vocabulary *v = &c->vocabulary;
    const char *name = m->raw->categories[c->source].name;
    const bool hashed = v->column->buckets > 0;
    if (hashed) {
        saved_onnx_tell_hash(m->g, name, v->column);
    } else {
        saved_onnx_tell_categories(m->g, name, &v->known, v->first, v->width);
    }
    const struct category what = {.name = name,
                                  .known = &v->known,
                                  .hashed = hashed ? v->column : NULL,
                                  .first = v->first,
                                  .width = v->width,
                                  .missing = place_of(v->missing),
                                  .unknown = place_of(v->unknown),
                                  .list = v->column->as == COLUMN_LIST};
    return add_ones(m, &what, err);
}

/* ---- the whole ---- */

static int add_declared(struct making *m, const struct column_layout *l, const char *x,
                        struct err *err)
{
    int rc = 0;
    add_plain(m, l, x);
    for (size_t i = 0; i < l->bucketed_count; i++) {
        add_buckets(m, &l->bucketed[i], x);
    }
    for (size_t i = 0; i < l->category_count && rc == 0; i++) {
        rc = add_category(m, &l->categories[i], err);
    }
    return rc;
}

static int add_known(struct making *m, const char *x, struct err *err)
{
    const struct encode_known *known = &m->encoding->known;
    int rc = 0;
    if (x != NULL) {
        m->parts[m->part_count++] = x;
        m->width += m->raw->numbers;
    }
    for (size_t k = 0; k < known->count && rc == 0; k++) {
        const char *name = m->raw->categories[k].name;
        saved_onnx_tell_categories(m->g, name, &known->columns[k], 0, known->columns[k].count);
        const struct category what = {.name = name,
                                      .known = &known->columns[k],
                                      .width = known->columns[k].count,
                                      .missing = -1,
                                      .unknown = -1};
        rc = add_ones(m, &what, err);
    }
    return rc;
}

/* (x − shift) × factor, of the first numbers. */
static const char *scale(struct making *m, const char *x, const struct shape *shape)
{
    const struct scaling *s = &m->encoding->scaling;
    const struct shape one = {.rank = 0};
    const struct shape *row_shape = s->uniform ? &one : shape;
    const size_t n = (size_t)shape_count(row_shape);
    float *shift = mem_new(n, sizeof *shift), *factor = mem_new(n, sizeof *factor);
    for (size_t j = 0; j < n; j++) {
        const bool scaled = j < s->count;
        shift[j] = scaled ? s->shift[j] : 0;
        factor[j] = scaled ? s->factor[j] : 1;
    }
    x = with_row(m, "Sub", "/shifted", x, row_shape, shift, 0);
    return with_row(m, "Mul", "/scaled", x, row_shape, factor, 1);
}

static int make(struct making *m, const char *x, const char **out, struct shape *shape,
                struct err *err)
{
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    const bool columns = m->encoding->columns != NULL;
    x = x == NULL ? NULL : fill(m, x);
    int rc = columns ? add_declared(m, m->encoding->columns, x, err) : add_known(m, x, err);
    if (rc != 0 || m->part_count == 0) {
        *out = NULL;
        *shape = (struct shape){.rank = 1};
        return rc;
    }
    const bool as_it_was = !columns && m->encoding->known.count == 0;
    *shape = as_it_was ? m->raw->shape : row_of(m->width);
    x = m->part_count == 1
            ? m->parts[0]
            : onnx_graph_node(m->g, "Concat", "/all", m->parts, m->part_count, &axis, 1);
    *out = m->encoding->scaling.count == 0 ? x : scale(m, x, shape);
    return 0;
}

int saved_onnx_features(const struct encoder *e, bool texts, struct onnx_graph *g, const char **out,
                        struct shape *shape, struct err *err)
{
    struct making m = {
        .encoding = encoder_encoding(e), .raw = encoder_raw(e), .g = g, .texts = texts};
    struct onnx_dim dims[ONNX_DIMS_MAX];
    const char *x = NULL;
    int rc = 0;
    if (m.raw->numbers > 0) {
        model_onnx_dims(&m.raw->shape, dims);
        rc = saved_onnx_input(g, SAVED_ONNX_FEATURES, ONNX_FLOATS, dims, m.raw->shape.rank + 1, &x,
                              err);
    }
    m.parts = mem_new(2 * m.raw->numbers + m.raw->category_count + 2, sizeof *m.parts);
    onnx_graph_part(g, "data");
    rc = rc != 0 ? rc : make(&m, x, out, shape, err);
    free(m.parts);
    return rc;
}
