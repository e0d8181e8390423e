/* SPDX-License-Identifier: Apache-2.0 */
/* From keys to rows. That a key is below the rows where it must be is seen when the data are read
 * (model_list_limits()); here one that is not has no row. */
#include "graph/lookup.h"

#include <inttypes.h>
#include <string.h>

#include "base/rng.h"

const char *const lookup_hashing_names[] = {"mixed", "none", NULL};
const char *const lookup_unknown_names[] = {"error", "own", "zero", NULL};

static int check_keys(const struct layer *l, const struct lookup_params *p, struct err *err)
{
    if (p->hashing == LOOKUP_HASHING_NONE && l->input_count > 1 && !p->shared) {
        return err_set(err, ERR_INVALID,
                       "with hashing: none a key is its row, so its %zu fields have the same rows; "
                       "shared: true, a layer for each field, or hashing: mixed would fit",
                       l->input_count);
    }
    if (p->hashing == LOOKUP_HASHING_MIXED && p->unknown != LOOKUP_UNKNOWN_ERROR) {
        return err_set(err, ERR_INVALID,
                       "unknown: %s is for keys that are rows, but with hashing: mixed every key "
                       "has one; hashing: none would fit",
                       lookup_unknown_names[p->unknown]);
    }
    return 0;
}

static int plan_variable(struct layer *l, const struct lookup_params *p,
                         const struct lookup_plan *plan, struct err *err)
{
    const uint64_t rows = (uint64_t)p->rows + (p->unknown == LOOKUP_UNKNOWN_OWN);
    const struct shape shape = {.rank = 2, .dims = {rows, plan->width}};
    if (p->rows == 0) {
        return err_set(err, ERR_INVALID,
                       "rows: it needs rows to look up; a number of them, or table: NAME, would "
                       "fit");
    }
    if (plan->width == 0) {
        return err_set(err, ERR_INVALID, "%s: a number from 1 on would fit", plan->width_key);
    }
    return layer_add_variable(l, plan->part, &shape, plan->init, plan->width, plan->width, err);
}

static bool begins_as_usual(const struct lookup_plan *plan)
{
    const struct init_params *a = plan->init, *b = plan->init_default;
    return a->kind == b->kind && memcmp(&a->mean, &b->mean, sizeof a->mean) == 0 &&
           memcmp(&a->spread, &b->spread, sizeof a->spread) == 0;
}

static int plan_table(struct layer *l, const struct lookup_params *p, const char *name,
                      struct lookup_plan *plan, struct err *err)
{
    size_t t = 0;
    while (t < l->tables.count && strcmp(l->tables.items[t].name, name) != 0) {
        t++;
    }
    if (t == l->tables.count) {
        return err_set(err, ERR_INVALID, "table: model.tables has none of the name '%.64s'", name);
    }
    const uint64_t dim = (uint64_t)l->tables.items[t].dim;
    if (p->rows > 0 || p->unknown != LOOKUP_UNKNOWN_ERROR) {
        return err_set(err, ERR_INVALID,
                       "%s: a table has a row for every key that comes; without it 'table: %.64s' "
                       "would fit",
                       p->rows > 0 ? "rows" : "unknown", name);
    }
    if (plan->width != 0 && plan->width != dim) {
        return err_set(err, ERR_INVALID,
                       "%s: %" PRIu64 ", but the rows of table '%.64s' have %" PRIu64
                       " numbers; that would fit",
                       plan->width_key, plan->width, name, dim);
    }
    if (!begins_as_usual(plan)) {
        return err_set(err, ERR_INVALID,
                       "%s_init: how a row of a table begins is said in model.tables (init, "
                       "init_mean, init_spread)",
                       plan->part);
    }
    plan->width = dim;
    l->has_table = true;
    l->table = t;
    l->lookup = p;
    return 0;
}

int lookup_plan(struct layer *l, struct lookup_params *p, struct lookup_plan *plan, struct err *err)
{
    const char *table = p->table;
    p->table = NULL; /* the job file's */
    int rc = check_keys(l, p, err);
    if (rc != 0) {
        return rc;
    }
    return table == NULL || table[0] == '\0' ? plan_variable(l, p, plan, err)
                                             : plan_table(l, p, table, plan, err);
}

uint64_t lookup_keys(const struct lookup_params *p)
{
    const bool limited =
        p->rows > 0 && p->hashing == LOOKUP_HASHING_NONE && p->unknown == LOOKUP_UNKNOWN_ERROR;
    return limited ? (uint64_t)p->rows : UINT64_MAX;
}

static uint64_t mixed(const struct lookup_params *p, const struct layer_input *in, uint64_t key)
{
    return rng_key_mix(p->shared ? 0 : in->field_seed, key);
}

uint64_t lookup_row(const struct lookup_params *p, const struct layer_input *in,
                    const struct lookup_list *list, size_t k)
{
    const uint64_t rows = (uint64_t)p->rows, key = list->keys[k];
    if (list->rows != NULL) {
        return list->rows[k];
    }
    if (p->hashing == LOOKUP_HASHING_MIXED) {
        return mixed(p, in, key) % rows;
    }
    return key < rows ? key : p->unknown == LOOKUP_UNKNOWN_OWN ? rows : LOOKUP_NO_ROW;
}

void lookup_table_keys(const struct lookup_params *p, const struct layer_input *in,
                       const struct lookup_list *list, uint64_t *out)
{
    for (size_t k = 0; k < list->count; k++) {
        out[k] = p->hashing == LOOKUP_HASHING_MIXED ? mixed(p, in, list->keys[k]) : list->keys[k];
    }
}

size_t lookup_variables(const struct layer *l)
{
    return l->has_table ? 0 : 1;
}

struct lookup_pass lookup_begin(const struct layer_run *r)
{
    if (!r->layer->has_table) {
        return (struct lookup_pass){.run = r,
                                    .values = r->values[0],
                                    .gradient = r->gradients == NULL ? NULL : r->gradients[0]};
    }
    return (struct lookup_pass){
        .run = r, .rows = r->rows, .values = r->table.values, .gradient = r->table.gradient};
}

void lookup_zero_gradient(const struct layer_run *r)
{
    if (!r->layer->has_table) {
        const uint64_t n = shape_count(&r->layer->variables[0].shape);
        memset(r->gradients[0], 0, (size_t)n * sizeof(float));
    }
}

struct lookup_list lookup_next(struct lookup_pass *pass, const struct layer_input *in,
                               size_t record)
{
    struct lookup_list list = lookup_list(pass->run->lists, in, record);
    list.rows = pass->rows;
    pass->rows = list.rows == NULL ? NULL : list.rows + list.count;
    return list;
}

struct lookup_list lookup_list(const struct sparse_batch *b, const struct layer_input *in,
                               size_t record)
{
    const uint64_t *offsets = b->offsets + in->field * (b->capacity + 1) + record;
    return (struct lookup_list){.keys = b->keys + offsets[0],
                                .weights = b->weights == NULL ? NULL : b->weights + offsets[0],
                                .count = (size_t)(offsets[1] - offsets[0])};
}
