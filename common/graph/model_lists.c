/* SPDX-License-Identifier: Apache-2.0 */
/* What a model reads of sparse fields: which lists its layers can take, which keys they look up in
 * tables, and which are the groups of records. */
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "graph/lookup.h"
#include "graph/model_impl.h"

#define NAMES_SHOWN 12 /* in a message */

/* Where the number at the end of @name begins; NULL: it has none that can be counted on from. */
static const char *number_of(const char *name)
{
    const char *end = name + strlen(name), *at = end;
    while (at > name && isdigit((unsigned char)at[-1])) {
        at--;
    }
    return at == end || end - at > 9 || *at == '0' ? NULL : at;
}

/* True if @next comes behind @name: C2 behind C1. */
static bool follows(const char *name, const char *next)
{
    const char *a = number_of(name), *b = number_of(next);
    return a != NULL && b != NULL && a - name == b - next &&
           memcmp(name, next, (size_t)(a - name)) == 0 &&
           strtol(b, NULL, 10) == strtol(a, NULL, 10) + 1;
}

char *model_from_text(const struct layer_spec *s)
{
    struct buf text = {0};
    for (size_t k = 0; k < s->from_count; k++) {
        size_t last = k;
        while (last + 1 < s->from_count && follows(s->from[last], s->from[last + 1])) {
            last++;
        }
        buf_printf(&text, "%s%s", k == 0 ? "" : ", ", s->from[k]);
        if (last > k + 1) {
            buf_printf(&text, "..%s", s->from[last]);
            k = last;
        }
    }
    return s->from_count == 0 ? NULL : buf_take(&text);
}

void model_connect_fields(struct model *m, struct layer *l, const size_t *from, size_t count)
{
    l->inputs = mem_new(count, sizeof *l->inputs);
    l->input_count = count;
    m->inputs_max = count > m->inputs_max ? count : m->inputs_max;
    for (size_t k = 0; k < count; k++) {
        l->inputs[k] = (struct layer_input){.from = LAYER_FROM_INPUT,
                                            .field = from[k],
                                            .field_seed = rng_key(0, m->fields->names[from[k]])};
    }
}

void model_list_limits(const struct model *m, size_t field, uint64_t *keys, const char **keys_layer,
                       size_t *length, const char **length_layer)
{
    *keys = UINT64_MAX;
    *length = SIZE_MAX;
    *keys_layer = *length_layer = NULL;
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct layer *l = &m->layers[i].layer;
        for (size_t k = 0; k < l->input_count && l->kind->reads_fields; k++) {
            uint64_t some = UINT64_MAX;
            size_t most = SIZE_MAX;
            if (l->inputs[k].field != field) {
                continue;
            }
            l->kind->limits(l, &some, &most);
            *keys_layer = some < *keys ? l->name : *keys_layer;
            *keys = some < *keys ? some : *keys;
            *length_layer = most < *length ? l->name : *length_layer;
            *length = most < *length ? most : *length;
        }
    }
}

/* ---- groups of records ---- */

int model_find_group(struct model *m, const struct model_spec *spec, struct err *err)
{
    const char *name = spec->group_by == NULL ? "" : spec->group_by;
    m->group_field = SIZE_MAX;
    if ((spec->metrics & 1U << METRIC_GROUPED_AUC) == 0 || m->fields == NULL) {
        return 0;
    }
    struct buf names = {0};
    for (size_t i = 0; i < m->fields->count && m->group_field == SIZE_MAX; i++) {
        m->group_field = strcmp(m->fields->names[i], name) == 0 ? i : SIZE_MAX;
        if (i < NAMES_SHOWN) {
            buf_printf(&names, "%s%.64s", i == 0 ? "" : ", ", m->fields->names[i]);
        }
    }
    int rc = 0;
    if (m->group_field == SIZE_MAX) {
        rc = err_set(err, ERR_INVALID,
                     "model.group_by: metric grouped_auc needs the sparse field whose keys are the "
                     "groups, and '%.64s' is none; %s%s would fit",
                     name, m->fields->count == 0 ? "'as: sparse' in data.columns" : buf_str(&names),
                     m->fields->count > NAMES_SHOWN ? ", …" : "");
    }
    buf_release(&names);
    return rc;
}

size_t model_group_field(const struct model *m)
{
    return m->group_field;
}

const uint64_t *model_groups(const struct model *m, const struct batch *b,
                             const struct metrics *metrics)
{
    if (metrics == NULL || (metrics->kinds & 1U << METRIC_GROUPED_AUC) == 0) {
        return NULL;
    }
    assert(m->group_field != SIZE_MAX);
    const struct sparse_batch *lists = &b->lists;
    const uint64_t *offsets = lists->offsets + m->group_field * (lists->capacity + 1);
    assert(offsets[b->count] - offsets[0] == b->count); /* the data were checked */
    return lists->keys + offsets[0];
}

/* ---- tables ---- */

int model_tables_check(struct model *m, const struct model_spec *spec, struct err *err)
{
    m->table_dims = mem_new(spec->table_count, sizeof *m->table_dims);
    bool *read = mem_new(spec->table_count, sizeof *read);
    for (size_t i = 0; i < m->layer_count; i++) {
        struct layer *l = &m->layers[i].layer;
        l->tables.items = NULL; /* the job file's */
        if (l->has_table) {
            m->layers[i].table = mem_strdup(spec->tables[l->table].name);
            read[l->table] = true;
        }
    }
    int rc = 0;
    for (size_t t = 0; t < spec->table_count && rc == 0; t++) {
        m->table_dims[t] = (size_t)spec->tables[t].dim;
        if (!read[t]) {
            rc = err_set(err, ERR_INVALID,
                         "no layer reads table '%s' (model.tables); a model without it would fit",
                         spec->tables[t].name);
        }
    }
    free(read);
    return rc;
}

size_t model_table_count(const struct model *m)
{
    return m->table_count;
}

size_t model_table_dim(const struct model *m, size_t table)
{
    return m->table_dims[table];
}

static size_t lookups_of(const struct layer *l, const struct sparse_batch *b)
{
    size_t n = 0;
    for (size_t k = 0; k < l->input_count; k++) {
        const uint64_t *offsets = b->offsets + l->inputs[k].field * (b->capacity + 1);
        n += (size_t)(offsets[b->count] - offsets[0]);
    }
    return n;
}

/* The number of lookups of the first @layers layers. */
static size_t lookups_in(const struct model *m, size_t layers, size_t table,
                         const struct sparse_batch *b)
{
    size_t n = 0;
    for (size_t i = 0; i < layers; i++) {
        const struct layer *l = &m->layers[i].layer;
        n += l->has_table && l->table == table ? lookups_of(l, b) : 0;
    }
    return n;
}

size_t model_table_lookups(const struct model *m, size_t table, const struct sparse_batch *b)
{
    return lookups_in(m, m->layer_count, table, b);
}

size_t model_lookups_above(const struct model *m, size_t i, const struct sparse_batch *b)
{
    return lookups_in(m, i, m->layers[i].layer.table, b);
}

static uint64_t *add_keys(const struct layer *l, const struct sparse_batch *b, uint64_t *out)
{
    for (size_t k = 0; k < l->input_count; k++) {
        for (size_t i = 0; i < b->count; i++) {
            const struct lookup_list list = lookup_list(b, &l->inputs[k], i);
            lookup_table_keys(l->lookup, &l->inputs[k], &list, out);
            out += list.count;
        }
    }
    return out;
}

void model_table_keys(const struct model *m, size_t table, const struct sparse_batch *b,
                      uint64_t *out)
{
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct layer *l = &m->layers[i].layer;
        if (l->has_table && l->table == table) {
            out = add_keys(l, b, out);
        }
    }
}
