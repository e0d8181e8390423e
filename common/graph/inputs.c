/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers a layer reads: names of a job file turned into indices, and what kinds of several
 * inputs ask of their shapes. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "graph/op.h"

#define SHAPE_TEXT_BYTES 96
#define NAMES_SHOWN 12

/* Error: no such field; names the fields that there are, the nearest ones when there are many. */
static int no_such_field(const struct model_spec *spec, const char *name,
                         const struct sparse_names *fields, struct err *err)
{
    struct buf names = {0};
    bool layer = false;
    for (size_t j = 0; j < spec->layer_count; j++) {
        layer = layer || strcmp(spec->layers[j].name, name) == 0;
    }
    for (size_t j = 0; j < fields->count && j < NAMES_SHOWN; j++) {
        buf_printf(&names, "%s%.64s", j == 0 ? "" : ", ", fields->names[j]);
    }
    int rc = err_set(err, ERR_INVALID,
                     "from: it reads sparse fields of the data, and '%.64s' is %s; %s%s", name,
                     layer ? "a layer" : "none of them",
                     fields->count == 0 ? "there are none: 'as: sparse' in data.columns makes them"
                                        : buf_str(&names),
                     fields->count == 0            ? ""
                     : fields->count > NAMES_SHOWN ? ", … would fit"
                                                   : " would fit");
    buf_release(&names);
    return rc;
}

static int no_such_layer(const struct model_spec *spec, size_t i, const char *name, struct err *err)
{
    struct buf names = {0};
    const size_t first = i > NAMES_SHOWN ? i - NAMES_SHOWN : 0;
    bool below = false;
    for (size_t j = i; j < spec->layer_count; j++) {
        below = below || strcmp(spec->layers[j].name, name) == 0;
    }
    for (size_t j = first; j < i; j++) {
        buf_printf(&names, ", %s", spec->layers[j].name);
    }
    int rc = err_set(err, ERR_INVALID, "from: %s '%.64s'; %s%s%s would fit",
                     below ? "a layer reads only layers above it, which is not so of"
                           : "there is no layer above it of the name",
                     name, LAYER_NAME_OF_INPUT, buf_str(&names), first > 0 ? ", …" : "");
    buf_release(&names);
    return rc;
}

static int wrong_number(const struct layer_spec *l, size_t count, size_t min, size_t max,
                        struct err *err)
{
    if (count < min) {
        return err_set(err, ERR_INVALID,
                       "it takes %zu inputs%s, but has %zu; from: [NAME, NAME] would fit", min,
                       max > min ? " or more" : "", count);
    }
    return max == 1 ? err_set(err, ERR_INVALID,
                              "it takes one input, but 'from' has %zu; a concat layer would join "
                              "them",
                              count)
                    : err_set(err, ERR_INVALID, "a %s layer takes at most %zu inputs, not %zu",
                              layer_kind_name(l->kind), max, count);
}

static int find(const struct model_spec *spec, size_t i, const char *name, size_t *out,
                struct err *err)
{
    if (strcmp(name, LAYER_NAME_OF_INPUT) == 0) {
        *out = LAYER_FROM_INPUT;
        return 0;
    }
    for (size_t j = 0; j < i; j++) {
        if (strcmp(spec->layers[j].name, name) == 0) {
            *out = j;
            return 0;
        }
    }
    return no_such_layer(spec, i, name, err);
}

static int all_fields(const struct sparse_names *fields, size_t out[LAYER_INPUTS_MAX],
                      size_t *count, struct err *err)
{
    if (fields->count == 0 || fields->count > LAYER_INPUTS_MAX) {
        return err_set(err, ERR_INVALID,
                       "it reads all sparse fields of the data, of which there are %zu; from 1 to "
                       "%d would fit ('as: sparse' in data.columns)",
                       fields->count, LAYER_INPUTS_MAX);
    }
    for (size_t k = 0; k < fields->count; k++) {
        out[k] = k;
    }
    *count = fields->count;
    return 0;
}

static int find_fields(const struct model_spec *spec, size_t i, const struct sparse_names *fields,
                       size_t out[LAYER_INPUTS_MAX], size_t *count, struct err *err)
{
    const struct layer_spec *l = &spec->layers[i];
    *count = fields == NULL ? 0 : l->from_count;
    if (fields == NULL) {
        return 0;
    }
    if (l->from_count == 0) {
        return all_fields(fields, out, count, err);
    }
    for (size_t k = 0; k < l->from_count; k++) {
        for (out[k] = 0; out[k] < fields->count; out[k]++) {
            if (strcmp(fields->names[out[k]], l->from[k]) == 0) {
                break;
            }
        }
        if (out[k] == fields->count) {
            return no_such_field(spec, l->from[k], fields, err);
        }
    }
    return 0;
}

int model_spec_inputs(const struct model_spec *spec, size_t i, const struct sparse_names *fields,
                      size_t out[LAYER_INPUTS_MAX], size_t *count, struct err *err)
{
    const struct layer_spec *l = &spec->layers[i];
    size_t min, max;
    *count = l->from_count == 0 ? 1 : l->from_count;
    layer_kind_inputs(l->kind, &min, &max);
    if (*count < min || *count > max) {
        return wrong_number(l, *count, min, max, err);
    }
    if (l->kind->reads_fields) {
        return find_fields(spec, i, fields, out, count, err);
    }
    out[0] = i == 0 ? LAYER_FROM_INPUT : i - 1;
    for (size_t k = 0; k < l->from_count; k++) {
        if (find(spec, i, l->from[k], &out[k], err) != 0) {
            return ERR_INVALID;
        }
    }
    return 0;
}

int layer_check_same_inputs(const struct layer *l, struct err *err)
{
    char first[SHAPE_TEXT_BYTES], other[SHAPE_TEXT_BYTES];
    for (size_t k = 1; k < l->input_count; k++) {
        if (!shape_equal(&l->inputs[0].shape, &l->inputs[k].shape)) {
            return err_set(err, ERR_INVALID,
                           "its inputs must have one shape, but the first is %s and the %zu. is "
                           "%s",
                           shape_format(&l->inputs[0].shape, first, sizeof first), k + 1,
                           shape_format(&l->inputs[k].shape, other, sizeof other));
        }
    }
    return 0;
}

static size_t rows_of(const struct layer_input *in, size_t width)
{
    return in->count / width;
}

int layer_plan_rows(const struct layer *l, size_t *rows, size_t *width, struct err *err)
{
    *rows = 0;
    for (size_t k = 0; k < l->input_count; k++) {
        const struct shape *s = &l->inputs[k].shape;
        const uint64_t last = s->rank == 0 ? 0 : s->dims[s->rank - 1];
        if (s->rank < 1 || s->rank > 2 || (k > 0 && last != *width)) {
            char text[SHAPE_TEXT_BYTES];
            return err_set(err, ERR_INVALID,
                           "its inputs are rows of one width, [width] or [rows, width], but the "
                           "%zu. is %s",
                           k + 1, shape_format(s, text, sizeof text));
        }
        *width = (size_t)last;
        *rows += rows_of(&l->inputs[k], *width);
    }
    if (*rows < 2) {
        return err_set(err, ERR_INVALID,
                       "it has one row of %zu numbers, and no other to multiply it by; two inputs "
                       "or more, or one of [rows, width] would fit",
                       *width);
    }
    return 0;
}

size_t layer_row_count(const struct layer *l)
{
    size_t rows = 0, width = 0;
    (void)layer_plan_rows(l, &rows, &width, NULL); /* it was planned */
    return rows;
}

void layer_rows(const struct layer_run *r, size_t record, const float **out)
{
    const struct layer *l = r->layer;
    const size_t width = (size_t)l->in.dims[l->in.rank - 1];
    for (size_t k = 0; k < l->input_count; k++) {
        const float *x = r->xs[k] + record * l->inputs[k].count;
        for (size_t j = 0; j < rows_of(&l->inputs[k], width); j++) {
            *out++ = x + j * width;
        }
    }
}

void layer_row_gradients(const struct layer_run *r, size_t record, float **out)
{
    const struct layer *l = r->layer;
    const size_t width = (size_t)l->in.dims[l->in.rank - 1];
    for (size_t k = 0; k < l->input_count; k++) {
        float *dx = r->dxs[k] == NULL ? NULL : r->dxs[k] + record * l->inputs[k].count;
        for (size_t j = 0; j < rows_of(&l->inputs[k], width); j++) {
            *out++ = dx == NULL ? NULL : dx + j * width;
        }
    }
}
