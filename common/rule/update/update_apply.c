/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over memory of an update. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/vector.h"
#include "rule/rules/elements.h"
#include "rule/update/update_impl.h"

/* ---- loops; every element for itself, so the bits do not depend on how they are cut ---- */

static void add(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

/* Delay compensation: the gradient as it would be at the present parameters, to first order, with
 * the diagonal λ·g·g in place of the Hessian (Zheng et al., "Asynchronous stochastic gradient
 * descent with delay compensation", ICML 2017, equation 10). In: sums, whose mean is × @scale; out:
 * means. */
VECTOR_CLONES
static void compensate(float *restrict gradient, const float *now, const float *then, float scale,
                       float lambda, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        float g = gradient[i] * scale;
        gradient[i] = g + lambda * g * g * (now[i] - then[i]);
    }
}

VECTOR_CLONES
static void accumulate(float *to, const float *sum, const float *gradient, float weight, size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        to[i] = sum[i] + gradient[i] * weight;
    }
}

VECTOR_CLONES
static void follow(float *restrict average, const float *restrict values, float kept, float fresh,
                   size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        average[i] = kept * average[i] + fresh * values[i];
    }
}

/* Moves a running statistic towards the batch's mean, by @share of the way. */
VECTOR_CLONES
static void approach(float *out, const float *in, const float *gradient, float scale, float share,
                     size_t n)
{
    VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        const float moved = in[i] + share * (gradient[i] * scale - in[i]);
        out[i] = fabsf(moved) <= FLT_MAX ? moved : in[i];
    }
}

/* ---- the mean, the clips and the penalties of a gradient ---- */

static float statistic_of(const struct update *u, size_t part)
{
    return u->variables[u->parts[part].part.variable].spec.statistic;
}

static void gather(const struct update *u, size_t part, uint64_t at, size_t n)
{
    const struct update_step *step = &u->step;
    const float lambda = statistic_of(u, part) > 0 ? 0.0F : step->lambda;
    float *gradient = step->gradient + at;
    if (step->more != NULL) {
        add(gradient, step->more + at, n);
    }
    if (step->then != NULL) {
        compensate(gradient, step->in + at, step->then + at, 1.0F / (float)step->examples, lambda,
                   n);
    }
    if (u->accumulated != SIZE_MAX && u->kind != UPDATE_COLLECTING) {
        accumulate(gradient, step->slots[u->accumulated] + at, gradient, u->weight, n);
    }
}

static bool has_to_gather(const struct update *u)
{
    return !u->gathered &&
           (u->step.more != NULL || u->step.then != NULL || u->accumulated != SIZE_MAX);
}

static void gather_piece(void *ctx, size_t i)
{
    const struct update *u = ctx;
    gather(u, u->pieces[i].part, u->pieces[i].at, (size_t)u->pieces[i].n);
}

void update_gather(struct update *u)
{
    if (has_to_gather(u)) {
        u->team.run(u->team.team, u->piece_count, gather_piece, NULL, u);
    }
    u->gathered = true;
}

static bool has_to_shape(const struct update *u, size_t part)
{
    const struct update_group *g = &u->groups[u->parts[part].group];
    if (statistic_of(u, part) > 0) {
        return false;
    }
    return u->spec->clip_value > 0 || u->factors[u->parts[part].part.variable] != 1.0 ||
           g->l1 != 0 || g->l2 + g->ridge != 0;
}

static void shape(const struct update *u, size_t part, uint64_t at, size_t n)
{
    const struct update_group *g = &u->groups[u->parts[part].group];
    float limit = u->spec->clip_value > 0 ? (float)u->spec->clip_value : INFINITY;
    float factor = (float)u->factors[u->parts[part].part.variable];
    if (statistic_of(u, part) > 0) {
        /* a statistic is divided by the number of records, and nothing else */
        elements_clip(u->step.gradient + at, u->scale, INFINITY, 1.0F, n);
        return;
    }
    elements_clip(u->step.gradient + at, u->scale, limit, factor, n);
    const double l2 = g->l2 + g->ridge;
    if (g->l1 != 0 || l2 != 0) {
        elements_penalize(u->step.gradient + at, u->step.in + at, (float)g->l1, (float)l2, n);
    }
}

static bool is_frozen(const struct update *u, const struct update_piece *piece)
{
    return u->groups[u->parts[piece->part].group].frozen;
}

/* Shapes a piece; all variables of a piece are treated alike. */
static void shape_piece(void *ctx, size_t i)
{
    const struct update *u = ctx;
    const struct update_piece *p = &u->pieces[i];
    if (!is_frozen(u, p)) {
        shape(u, p->part, p->at, (size_t)p->n);
    }
}

void update_shape(struct update *u)
{
    bool any = false;
    for (size_t i = 0; i < u->piece_count; i++) {
        any = any || (!is_frozen(u, &u->pieces[i]) && has_to_shape(u, u->pieces[i].part));
    }
    if (!any) {
        return; /* the rule takes the mean itself */
    }
    u->team.run(u->team.team, u->piece_count, shape_piece, NULL, u);
    u->shaped = true;
    u->scale = 1.0F;
}

/* ---- what is not finite ---- */

static uint64_t first_bad(const float *x, uint64_t n)
{
    uint64_t i = 0;
    while (i < n && isfinite(x[i])) {
        i++;
    }
    return i;
}

uint64_t update_find_bad(const struct update *u, uint32_t variable)
{
    uint64_t element = UINT64_MAX;
    for (size_t i = 0; i < u->part_count; i++) {
        const struct update_part *p = &u->parts[i].part;
        if (p->variable == variable &&
            !elements_all_finite(u->step.gradient + p->offset, p->count)) {
            uint64_t here = p->first + first_bad(u->step.gradient + p->offset, p->count);
            element = here < element ? here : element;
        }
    }
    return element;
}

/* Say in @result that @x, @n elements of the shard from @at on, is not finite. */
static void report_bad(const struct update *u, size_t part, const float *x, uint64_t at, size_t n,
                       struct update_result *result)
{
    at += first_bad(x, n);
    while (at - u->parts[part].part.offset >= u->parts[part].part.count) {
        part++;
    }
    const struct update_part *p = &u->parts[part].part;
    const struct update_result bad = {UPDATE_FAILED, p->variable, p->first + (at - p->offset)};
    update_result_join(result, &bad);
}

void update_result_join(struct update_result *all, const struct update_result *piece)
{
    bool bad = piece->outcome == UPDATE_FAILED;
    bool first = all->outcome != UPDATE_FAILED || piece->variable < all->variable ||
                 (piece->variable == all->variable && piece->element < all->element);
    if (bad && first) {
        *all = *piece;
    }
}

static void check_piece(void *ctx, size_t i)
{
    const struct update *u = ctx;
    const struct update_piece *p = &u->pieces[i];
    const float *x = u->step.gradient + p->at;
    u->results[i] = (struct update_result){.outcome = UPDATE_KEPT, .element = UINT64_MAX};
    if (!is_frozen(u, p) && !elements_all_finite(x, (size_t)p->n)) {
        report_bad(u, p->part, x, p->at, (size_t)p->n, &u->results[i]);
    }
}

void update_check(struct update *u)
{
    struct update_result all = {.outcome = UPDATE_KEPT};
    u->team.run(u->team.team, u->piece_count, check_piece, NULL, u);
    for (size_t i = 0; i < u->piece_count; i++) {
        update_result_join(&all, &u->results[i]);
    }
    if (all.outcome == UPDATE_FAILED) {
        u->failed = true;
        u->bad_variable = all.variable;
        u->bad_element = all.element;
    }
}

/* ---- the rule ---- */

struct rule_span update_span(const struct update *u, size_t part, uint64_t at, uint64_t n,
                             float **slots)
{
    const struct rule *rule = u->spec->rule;
    const struct update_part_state *p = &u->parts[part];
    const struct update_variable_state *v = &u->variables[p->part.variable];
    const uint64_t inside = at - p->part.offset;
    for (size_t k = 0; k < rule->slot_count; k++) {
        uint64_t begin = at;
        if (rule->slot_kinds[k] == RULE_SLOT_ROW) {
            begin = p->rows_before + inside / v->spec.width;
        } else if (rule->slot_kinds[k] == RULE_SLOT_COLUMN) {
            begin = u->column_offsets[p->local];
        } else if (rule->slot_kinds[k] == RULE_SLOT_VARIABLE) {
            begin = p->local;
        }
        slots[k] = u->rule_slots[k] + begin;
    }
    return (struct rule_span){
        .out = u->out == NULL ? NULL : u->out + at,
        .in = u->step.in + at,
        .slots = slots,
        .gradient = u->step.gradient + at,
        .gradient_scale = u->scale,
        .n = (size_t)n,
        .first = p->part.first + inside,
        .variable = v->number,
        .width = v->spec.width,
        .base = u->step.base == NULL ? NULL : u->step.base + at,
        .totals = &u->locals[p->local].totals,
    };
}

static void run_rule(const struct update *u, size_t part, uint64_t at, size_t n, float scale)
{
    const struct rule *rule = u->spec->rule;
    const struct rule_scalars *scalars = &u->groups[u->parts[part].group].scalars;
    float *slots[RULE_SLOTS_MAX] = {NULL};
    struct rule_span span = update_span(u, part, at, n, slots);
    span.gradient_scale = scale;
    rule_apply_span(rule, scalars, &span);
}

/* ---- pieces ---- */

/* The passes that a block of a piece goes through besides the rule. */
struct passes {
    bool gather, check, shape;
    const struct update_group *group;
    float *accumulated, *average; /* of the shard; NULL: none */
};

static struct passes passes_of(const struct update *u, size_t part)
{
    return (struct passes){
        .gather = has_to_gather(u),
        .check = u->spec->non_finite == UPDATE_NON_FINITE_FAIL && !u->takes_norms && u->rounds == 0,
        .shape = !u->shaped && has_to_shape(u, part),
        .group = &u->groups[u->parts[part].group],
        .accumulated = u->accumulated == SIZE_MAX ? NULL : u->step.slots[u->accumulated],
        .average = u->average == SIZE_MAX ? NULL : u->step.slots[u->average],
    };
}

static uint64_t block_of(const struct update *u, const struct update_piece *piece,
                         const struct passes *p)
{
    bool plain = !p->gather && !p->check && !p->shape && p->group->decay == 0 &&
                 p->accumulated == NULL && p->average == NULL;
    const uint64_t width = u->variables[u->parts[piece->part].part.variable].spec.width;
    if (plain || (u->by_rows && width > UPDATE_BLOCK_FLOATS)) {
        return plain ? piece->n : width;
    }
    return u->by_rows ? UPDATE_BLOCK_FLOATS / width * width : UPDATE_BLOCK_FLOATS;
}

/* All passes over a block, then the next block: each pass finds in the cache what the pass before
 * it read or wrote. */
static void run_piece(const struct update *u, const struct update_piece *piece,
                      struct update_result *result)
{
    const struct update_step *step = &u->step;
    const struct passes p = passes_of(u, piece->part);
    const uint64_t block = block_of(u, piece, &p), end = piece->at + piece->n;
    const float decay = (float)u->spec->average, statistic = statistic_of(u, piece->part);
    const float fresh = (float)(1.0 - u->spec->average);
    for (uint64_t at = piece->at; at < end; at += block) {
        size_t n = (size_t)(end - at < block ? end - at : block);
        if (p.gather) {
            gather(u, piece->part, at, n);
        }
        if (p.check && !elements_all_finite(step->gradient + at, n)) {
            report_bad(u, piece->part, step->gradient + at, at, n, result);
            return;
        }
        if (p.shape) {
            shape(u, piece->part, at, n);
        }
        if (statistic > 0) {
            approach(u->out + at, step->in + at, step->gradient + at, u->scale, statistic, n);
        } else {
            run_rule(u, piece->part, at, n, p.shape ? 1.0F : u->scale);
        }
        if (p.group->decay != 0 && statistic == 0) {
            elements_shrink(u->out + at, step->in + at, p.group->decay, n);
        }
        if (p.average != NULL) {
            follow(p.average + at, u->out + at, decay, fresh, n);
        }
        if (p.accumulated != NULL) {
            memset(p.accumulated + at, 0, n * sizeof(float));
        }
    }
}

static void collect_piece(const struct update *u, const struct update_piece *piece,
                          struct update_result *result)
{
    const bool gathers = u->step.more != NULL || u->step.then != NULL;
    const uint64_t end = piece->at + piece->n;
    for (uint64_t at = piece->at, n; at < end; at += n) {
        n = end - at < UPDATE_BLOCK_FLOATS ? end - at : UPDATE_BLOCK_FLOATS;
        float *sum = u->step.slots[u->accumulated] + at;
        if (gathers) {
            gather(u, piece->part, at, n);
        }
        accumulate(sum, sum, u->step.gradient + at, u->weight, n);
        if (u->spec->non_finite == UPDATE_NON_FINITE_FAIL && !elements_all_finite(sum, n)) {
            report_bad(u, piece->part, sum, at, n, result);
            return;
        }
    }
}

void update_finish_piece(const struct update *u, size_t piece, struct update_result *result)
{
    const struct update_piece *p = &u->pieces[piece];
    const bool frozen = is_frozen(u, p);
    *result = (struct update_result){.outcome = UPDATE_KEPT, .element = UINT64_MAX};
    if (u->failed) {
        return;
    }
    if (u->kind == UPDATE_DUE && !frozen) {
        run_piece(u, p, result);
        return;
    }
    if (u->kind == UPDATE_COLLECTING && !frozen) {
        collect_piece(u, p, result);
    } else if (u->kind == UPDATE_LEFT_OUT && u->accumulated != SIZE_MAX) {
        memset(u->step.slots[u->accumulated] + p->at, 0, p->n * sizeof(float));
    }
    if (u->out != u->step.in) {
        memcpy(u->out + p->at, u->step.in + p->at, p->n * sizeof(float));
    }
}
