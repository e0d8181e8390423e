/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the update of a shard: which part of which variable lies where, hyperparameters by
 * pattern, slots, and pieces for the threads. The steps themselves are in update_step.c. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rule/update/update_impl.h"

/* One piece of work of a thread: 1 MiB of each array, far more than it costs to hand it out. A
 * shard that one thread updates alone is cut into smaller pieces, which are still in the cache when
 * they are sent, and the first of which is ready sooner. */
#define PIECE_FLOATS (UINT64_C(1) << 18)
#define SMALL_PIECE_FLOATS (UINT64_C(1) << 14)
#define SMALL_FLOATS (UINT64_C(1) << 20) /* a shard below that has small ones */

/* ---- what lies where ---- */

static int check_part(const struct update *u, const struct update_part *p, size_t i,
                      uint64_t offset, struct err *err)
{
    if (p->variable >= u->variable_count) {
        return err_set(err, ERR_INVALID, "part %zu: there is no variable %" PRIu32, i, p->variable);
    }
    const struct update_variable *v = &u->variables[p->variable].spec;
    bool fits = p->count > 0 && p->count <= v->elements && p->first <= v->elements - p->count;
    if (!fits || p->first % v->width != 0 || p->count % v->width != 0) {
        return err_set(err, ERR_INVALID,
                       "part %zu: elements %" PRIu64 " to %" PRIu64 " are no rows of '%s'", i,
                       p->first, p->first + p->count, v->name);
    }
    if (p->offset != offset) {
        return err_set(err, ERR_INVALID,
                       "part %zu begins at %" PRIu64 " of the shard, not at %" PRIu64, i, p->offset,
                       offset);
    }
    return 0;
}

static int take_variables(struct update *u, const struct update_variable *variables,
                          struct err *err)
{
    for (size_t i = 0; i < u->variable_count; i++) {
        const struct update_variable *v = &variables[i];
        if (v->width == 0 || v->elements == 0 || v->elements % v->width != 0) {
            return err_set(err, ERR_INVALID, "variable '%s': %" PRIu64 " elements in rows of %zu",
                           v->name, v->elements, v->width);
        }
        u->variables[i] = (struct update_variable_state){
            .spec = *v,
            .number = rng_key(0, v->name),
            .group = update_spec_match(u->spec, v->name),
            .local = SIZE_MAX,
        };
        u->counted += !update_is_apart(u, (uint32_t)i);
        u->factors[i] = 1.0;
    }
    return 0;
}

/* Adds the shard's copy of the slots that exist once for each of its variables. */
static void add_local(struct update *u, struct update_variable_state *v, size_t part)
{
    u->locals[u->local_count] = (struct update_local){
        .variable = u->parts[part].part.variable,
        .part = part,
        .totals = {.elements = v->spec.elements, .width = v->spec.width},
    };
    v->local = u->local_count++;
}

static int take_parts(struct update *u, const struct update_part *parts, struct err *err)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < u->part_count; i++) {
        int rc = check_part(u, &parts[i], i, u->elements, err);
        if (rc != 0) {
            return rc;
        }
        struct update_variable_state *v = &u->variables[parts[i].variable];
        u->parts[i].part = parts[i];
        if (v->local == SIZE_MAX) {
            add_local(u, v, i);
        }
        u->parts[i].local = v->local;
        u->parts[i].group = v->group;
        u->parts[i].rows_before = rows;
        u->locals[v->local].elements_here += parts[i].count;
        rows += parts[i].count / v->spec.width;
        u->elements += parts[i].count;
    }
    u->is_whole = u->is_complete = true;
    for (size_t i = 0; i < u->variable_count; i++) {
        const struct update_variable_state *v = &u->variables[i];
        uint64_t here = v->local == SIZE_MAX ? 0 : u->locals[v->local].elements_here;
        if (!update_is_apart(u, (uint32_t)i)) {
            u->is_whole = u->is_whole && (here == 0 || here == v->spec.elements);
            u->is_complete = u->is_complete && here == v->spec.elements;
        }
    }
    return 0;
}

/* ---- groups ---- */

static void set_double(struct update_group *g, const struct field *field, double value)
{
    memcpy((char *)g->params + field->offset, &value, sizeof value);
}

/* Takes a value of a pattern: as a hyperparameter of the rule, where the rule has one of that name.
 */
static void take_value(const struct update_spec *spec, struct update_group *g, const char *name,
                       double value, double *own)
{
    const struct field *field = update_spec_field(spec, name, FIELD_FLOAT);
    if (field != NULL) {
        set_double(g, field, value);
    } else {
        *own = value;
    }
}

static void make_group(const struct update_spec *spec, size_t i, struct update_group *g)
{
    const size_t bytes = spec->rule->params_bytes;
    *g = (struct update_group){
        .lr_multiplier = 1,
        .params = mem_new(1, bytes + 1),
        .present = mem_new(1, bytes + 1),
        .past = mem_new(1, bytes + 1),
        .spec = spec,
        .l1 = spec->l1,
        .l2 = spec->l2,
        .weight_decay = spec->weight_decay,
    };
    double ridge = spec->ridge;
    memcpy(g->params, spec->params, bytes);
    if (i < spec->pattern_count) {
        const struct update_pattern *p = &spec->patterns[i];
        g->frozen = p->frozen;
        g->lr_multiplier = p->learning_rate;
        take_value(spec, g, "l1", p->l1, &g->l1);
        take_value(spec, g, "l2", p->l2, &g->l2);
        take_value(spec, g, "weight_decay", p->weight_decay, &g->weight_decay);
        ridge = p->ridge;
    }
    g->ridge = spec->records == 0 ? 0 : ridge / (double)spec->records;
}

/* ---- slots ---- */

static bool is_small(enum rule_slot_kind kind)
{
    return kind == RULE_SLOT_COLUMN || kind == RULE_SLOT_VARIABLE;
}

static void lay_out_slots(struct update *u)
{
    uint64_t columns = 0, rows = 0;
    for (size_t i = 0; i < u->local_count; i++) {
        u->column_offsets[i] = columns;
        columns += u->variables[u->locals[i].variable].spec.width;
    }
    for (size_t i = 0; i < u->part_count; i++) {
        const struct update_part *p = &u->parts[i].part;
        rows += p->count / u->variables[p->variable].spec.width;
    }
    u->slot_count = update_spec_slots(u->spec, u->slots);
    const bool accumulates = update_spec_accumulate(u->spec) > 1;
    u->accumulated = accumulates ? u->spec->rule->slot_count : SIZE_MAX;
    u->examples_in = accumulates ? u->spec->rule->slot_count + 1 : SIZE_MAX;
    u->average = u->spec->average > 0 ? u->slot_count - 1 : SIZE_MAX;
    const uint64_t floats[] = {
        [RULE_SLOT_PARAMETER] = u->elements,
        [RULE_SLOT_ROW] = rows,
        [RULE_SLOT_COLUMN] = columns,
        [RULE_SLOT_VARIABLE] = u->local_count,
    };
    for (size_t k = 0; k < u->slot_count; k++) {
        u->slot_floats[k] = floats[u->slots[k].kind];
    }
}

/* ---- pieces ---- */

static void add_piece(struct update *u, size_t *capacity, size_t part, uint64_t at, uint64_t n)
{
    u->pieces = mem_grow(u->pieces, capacity, u->piece_count + 1, sizeof *u->pieces);
    u->pieces[u->piece_count++] = (struct update_piece){part, at, n};
}

static bool is_statistic(const struct update *u, size_t part)
{
    return u->variables[u->parts[part].part.variable].spec.statistic > 0;
}

/* Where a run of parts ends that one call of the rule may cover. */
static size_t run_end(const struct update *u, size_t part)
{
    size_t end = part + 1;
    while (rule_is_elementwise(u->spec->rule) && u->spec->clip_norm == 0 && end < u->part_count &&
           u->parts[end].group == u->parts[part].group && !is_statistic(u, part) &&
           !is_statistic(u, end)) {
        end++;
    }
    return end;
}

static void cut_pieces(struct update *u)
{
    size_t capacity = 0;
    for (size_t i = 0, end; i < u->part_count; i = end) {
        end = run_end(u, i);
        const struct update_part *last = &u->parts[end - 1].part;
        const uint64_t stop = last->offset + last->count;
        const size_t width = u->variables[last->variable].spec.width;
        const uint64_t piece = u->elements < SMALL_FLOATS ? SMALL_PIECE_FLOATS : PIECE_FLOATS;
        uint64_t most = piece;
        if (u->by_rows) {
            most = width < piece ? piece / width * width : width;
        }
        size_t part = i;
        for (uint64_t at = u->parts[i].part.offset, n; at < stop; at += n) {
            n = stop - at < most ? stop - at : most;
            while (at - u->parts[part].part.offset >= u->parts[part].part.count) {
                part++;
            }
            add_piece(u, &capacity, part, at, n);
        }
    }
}

/* ---- one of them ---- */

static bool wants_rows(const struct rule *rule)
{
    bool rows = rule->columns;
    for (size_t k = 0; k < rule->slot_count; k++) {
        rows =
            rows || rule->slot_kinds[k] == RULE_SLOT_ROW || rule->slot_kinds[k] == RULE_SLOT_COLUMN;
    }
    return rows;
}

static int allocate(struct update *u, struct err *err)
{
    const struct rule *rule = u->spec->rule;
    for (size_t k = 0; k < rule->slot_count && u->rounds > 0; k++) {
        if (is_small(rule->slot_kinds[k])) {
            u->pending[k] =
                mem_try_aligned((size_t)u->slot_floats[k], sizeof(float), rule->slot_names[k], err);
            if (u->pending[k] == NULL) {
                return ERR_EXHAUSTED;
            }
        }
    }
    for (size_t i = 0; i < u->local_count && rule->columns; i++) {
        struct rule_totals *totals = &u->locals[i].totals;
        totals->columns =
            mem_try_aligned(totals->width + 1, sizeof(double), "sums of columns", err);
        if (totals->columns == NULL) {
            return ERR_EXHAUSTED;
        }
    }
    u->norms = mem_new(u->variable_count + 1, sizeof *u->norms);
    u->results = mem_new(u->piece_count, sizeof *u->results);
    return u->rounds == 0 ? 0 : update_sums_init(u, 1, err);
}

/* Stands in for a thread team until update_share() names one: the calling thread does all the work.
 */
static void run_alone(void *team, size_t count, void (*one)(void *ctx, size_t i),
                      void (*done)(void *ctx, size_t n), void *ctx)
{
    (void)team;
    for (size_t i = 0; i < count; i++) {
        one(ctx, i);
        if (done != NULL) {
            done(ctx, i + 1);
        }
    }
}

int update_share(struct update *u, const struct update_team *team, struct err *err)
{
    assert(team->threads > 0);
    u->team = *team;
    if (u->rounds == 0) {
        return 0;
    }
    update_sums_release(u);
    return update_sums_init(u, team->threads, err);
}

static int fill(struct update *u, const struct update_variable *variables,
                const struct update_part *parts, struct err *err)
{
    int rc = update_spec_check(u->spec, variables, u->variable_count, err);
    rc = rc != 0 ? rc : take_variables(u, variables, err);
    rc = rc != 0 ? rc : take_parts(u, parts, err);
    if (rc != 0) {
        return rc;
    }
    lay_out_slots(u);
    cut_pieces(u);
    return allocate(u, err);
}

int update_new(const struct update_spec *spec, const struct update_variable *variables,
               size_t variable_count, const struct update_part *parts, size_t part_count,
               struct update **out, struct err *err)
{
    struct update *u = mem_new(1, sizeof *u);
    u->spec = spec;
    u->team = (struct update_team){.run = run_alone, .threads = 1};
    u->variable_count = variable_count;
    u->part_count = part_count;
    u->variables = mem_new(variable_count + 1, sizeof *u->variables);
    u->factors = mem_new(variable_count + 1, sizeof *u->factors);
    u->parts = mem_new(part_count + 1, sizeof *u->parts);
    u->locals = mem_new(part_count + 1, sizeof *u->locals);
    u->column_offsets = mem_new(part_count + 1, sizeof *u->column_offsets);
    u->group_count = spec->pattern_count + 1;
    u->groups = mem_new(u->group_count, sizeof *u->groups);
    for (size_t i = 0; i < u->group_count; i++) {
        make_group(spec, i, &u->groups[i]);
    }
    u->by_rows = wants_rows(spec->rule);
    u->takes_norms = update_spec_takes_norms(spec);
    u->rounds = spec->rule->rounds + u->takes_norms;
    int rc = fill(u, variables, parts, err);
    if (rc != 0) {
        update_free(u);
        return err_wrap(err, "update");
    }
    *out = u;
    return 0;
}

void update_add_tables(struct update *u, size_t count, bool whole)
{
    if (u->spec->clip_norm > 0 || u->spec->clip_global_norm > 0) {
        u->table_count = count;
        u->table_factors = mem_new(count, sizeof *u->table_factors);
        u->norms = mem_resize(u->norms, u->variable_count + count + 1, sizeof *u->norms);
        u->is_complete = u->is_complete && (whole || count == 0);
    }
}

bool update_needs_tables(const struct update *u)
{
    return u->table_count > 0;
}

void update_free(struct update *u)
{
    if (u == NULL) {
        return;
    }
    for (size_t i = 0; i < u->local_count; i++) {
        free(u->locals[i].totals.columns);
    }
    for (size_t i = 0; i < u->group_count; i++) {
        free(u->groups[i].params);
        free(u->groups[i].present);
        free(u->groups[i].past);
    }
    for (size_t k = 0; k < RULE_SLOTS_MAX; k++) {
        free(u->pending[k]);
    }
    update_sums_release(u);
    buf_release(&u->mine);
    buf_release(&u->totals);
    for (struct update_past *p = u->pasts, *next; p != NULL; p = next) {
        next = p->next;
        free(p);
    }
    free(u->norms);
    free(u->table_factors);
    free(u->results);
    free(u->pieces);
    free(u->groups);
    free(u->column_offsets);
    free(u->locals);
    free(u->parts);
    free(u->factors);
    free(u->variables);
    free(u);
}

unsigned update_rounds(const struct update *u)
{
    return u->rounds;
}

bool update_needs_norms(const struct update *u)
{
    return u->takes_norms && !u->is_complete;
}

bool update_needs_gradient(const struct update *u)
{
    return u->accumulated != SIZE_MAX;
}

bool update_is_whole(const struct update *u)
{
    return u->spec->rule->rounds == 0 || u->is_whole;
}

bool update_is_in_place(const struct update *u)
{
    for (size_t i = 0; i < u->group_count; i++) {
        if (u->groups[i].weight_decay != 0) {
            return false;
        }
    }
    return true;
}
