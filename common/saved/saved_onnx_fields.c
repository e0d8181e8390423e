/* SPDX-License-Identifier: Apache-2.0 */
/* Keys come in as the data have them, or as the hashes that are made of texts; what layers and
 * columns make of keys are nodes. */
#include "saved/saved_onnx_fields.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/column_layout.h"
#include "onnx/onnx_bits.h"
#include "saved/saved_onnx_categories.h"
#include "saved/saved_onnx_features.h"

/* ---- inputs ---- */

/* The declared column of texts that field @f is made of; NULL: keys are in the files. Such fields
 * come behind those of the files. */
static const struct column_vocabulary *find_texts(const struct encoder *e, size_t f)
{
    const struct column_layout *l = encoder_encoding(e)->columns;
    const size_t in_files = encoder_raw(e)->fields.count;
    return l == NULL || f < in_files || f - in_files >= l->sparse_count
               ? NULL
               : &l->sparse[f - in_files].vocabulary;
}

/* Keys of texts are places in a vocabulary, which the metadata have, or hashes, whose kind they
 * have. */
static void tell_keys(struct onnx_graph *g, const char *name, const struct column_vocabulary *v)
{
    if (v != NULL && v->known.count > 0) {
        const size_t more = v->unknown != RECORDS_CATEGORY_NONE;
        saved_onnx_tell_categories(g, name, &v->known, 0, v->known.count + more);
    } else if (v != NULL) {
        saved_onnx_tell_hash(g, name, v->column);
    }
}

static int add_keys(struct onnx_graph *g, const char *name, const struct column_vocabulary *v,
                    bool texts, const struct onnx_dim dims[2], const char **out, struct err *err)
{
    const bool places = texts && v != NULL && v->known.count > 0;
    int rc = saved_onnx_input(g, name, places ? ONNX_STRINGS : ONNX_INT64S, dims, 2, out, err);
    if (rc == 0 && places) {
        *out = saved_onnx_places(g, &v->known, 0, -1,
                                 v->unknown == RECORDS_CATEGORY_NONE ? -1 : (int64_t)v->known.count,
                                 *out);
    }
    return rc;
}

static int add_field(const struct saved_model *m, size_t f, bool texts, struct onnx_graph *g,
                     struct saved_onnx_fields *out, struct err *err)
{
    struct encoder *e = saved_model_encoder(m);
    const char *name = encoder_info(e)->fields.names[f];
    const bool read = model_onnx_reads(saved_model_graph(m), f);
    const size_t most = read ? model_onnx_keys(saved_model_graph(m), f) : SIZE_MAX;
    const struct column_vocabulary *v = find_texts(e, f);
    char *count = mem_printf("%s_keys", name), *values = mem_printf("%s.values", name);
    const struct onnx_dim dims[2] = {{.name = "batch"},
                                     {.value = most, .name = most == SIZE_MAX ? count : NULL}};
    int rc = add_keys(g, name, v, texts, dims, &out->keys[f], err);
    if (rc == 0 && out->weights != NULL) {
        rc = saved_onnx_input(g, values, ONNX_FLOATS, dims, 2, &out->weights[f], err);
    }
    tell_keys(g, name, v);
    free(count);
    free(values);
    return rc;
}

static bool has_columns(const struct sparse_field *f)
{
    return f->width > 0 && !f->listed;
}

int saved_onnx_fields(const struct saved_model *m, bool texts, struct onnx_graph *g,
                      struct saved_onnx_fields *out, struct err *err)
{
    const struct sparse_fields *fields = encoder_fields(saved_model_encoder(m));
    int rc = 0;
    out->keys = mem_new(fields->count + 1, sizeof *out->keys);
    out->weights = fields->weighted ? mem_new(fields->count + 1, sizeof *out->weights) : NULL;
    for (size_t f = 0; f < fields->count && rc == 0; f++) {
        if (has_columns(&fields->fields[f]) || model_onnx_reads(saved_model_graph(m), f)) {
            onnx_graph_part(g, fields->fields[f].name);
            rc = add_field(m, f, texts, g, out, err);
        }
    }
    return rc;
}

void saved_onnx_fields_release(struct saved_onnx_fields *f)
{
    free(f->keys);
    free(f->weights);
    *f = (struct saved_onnx_fields){0};
}

/* ---- columns ---- */

static const char *folded(struct onnx_graph *g, enum sparse_fold fold, const char *keys)
{
    return fold == SPARSE_FOLD_FNV1A  ? onnx_bits_fnv1a(g, keys)
           : fold == SPARSE_FOLD_XXH3 ? onnx_bits_xxh3(g, keys)
                                      : keys;
}

/* The columns of a field, [batch, width]: the sum of the weights of the keys that fall into each.
 * What -1 falls into weighs nothing. @weights NULL: all weigh 1. */
static const char *spread(struct onnx_graph *g, const struct sparse_field *f, const char *keys,
                          const char *weights)
{
    const struct onnx_attr to = ONNX_ATTR_INT("to", ONNX_TYPE_FLOAT);
    const struct onnx_attr first[2] = {ONNX_ATTR_INT("start", 0), ONNX_ATTR_INT("end", 1)};
    const struct onnx_attr rows = ONNX_ATTR_INT("axis", 0);
    const struct onnx_attr add[2] = {ONNX_ATTR_INT("axis", 1), ONNX_ATTR_TEXT("reduction", "add")};
    const char *none =
        onnx_graph_op(g, "Equal", "/none", keys, onnx_bits_number(g, UINT64_MAX), NULL);
    const char *some = onnx_graph_op(g, "Not", "/some", none, NULL);
    some = onnx_graph_node(g, "Cast", "/ones", &some, 1, &to, 1);
    some = weights == NULL ? some : onnx_graph_op(g, "Mul", "/weights", some, weights, NULL);
    const char *column = onnx_bits_remainder(g, folded(g, f->fold, keys), f->width);
    const char *sizes[2] = {onnx_graph_node(g, "Shape", "/records", &keys, 1, first, 2),
                            onnx_bits_number(g, f->width)};
    const char *shape = onnx_graph_node(g, "Concat", "/shape", sizes, 2, &rows, 1);
    const char *zeros =
        onnx_graph_op(g, "Expand", "/zeros", onnx_graph_float(g, "/zero", 0.0F), shape, NULL);
    const char *inputs[3] = {zeros, column, some};
    return onnx_graph_node(g, "ScatterElements", "/columns", inputs, 3, add, 2);
}

void saved_onnx_columns(const struct saved_model *m, const struct saved_onnx_fields *f,
                        struct onnx_graph *g, const char **x, struct shape *shape)
{
    const struct sparse_fields *fields = encoder_fields(saved_model_encoder(m));
    const struct onnx_attr axis = ONNX_ATTR_INT("axis", 1);
    const char **parts = mem_new(fields->count + 1, sizeof *parts);
    size_t count = 0, width = *x == NULL ? 0 : (size_t)shape_count(shape);
    if (*x != NULL) {
        parts[count++] = *x;
    }
    for (size_t i = 0; i < fields->count; i++) {
        const struct sparse_field *field = &fields->fields[i];
        if (has_columns(field)) {
            onnx_graph_part(g, field->name);
            parts[count++] =
                spread(g, field, f->keys[i], f->weights == NULL ? NULL : f->weights[i]);
            width += field->width;
        }
    }
    if (width > 0 && count > (*x != NULL)) {
        onnx_graph_part(g, "data");
        *shape = (struct shape){.rank = 1, .dims = {width}};
        *x = count == 1 ? parts[0]
                        : onnx_graph_node(g, "Concat", "/with_columns", parts, count, &axis, 1);
    }
    free(parts);
}
