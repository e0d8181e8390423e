/* SPDX-License-Identifier: Apache-2.0 */
/* The order of things in one update. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rule/update/update_impl.h"

/* ---- begin ---- */

/* Hyperparameters as of this update, for the variables of each pattern. */
static void prepare_groups(struct update *u)
{
    const struct update_spec *spec = u->spec;
    const uint64_t number = u->step.version / update_spec_accumulate(spec);
    const struct field *rate = update_spec_field(spec, "learning_rate", FIELD_FLOAT);
    for (size_t i = 0; i < u->group_count; i++) {
        struct update_group *g = &u->groups[i];
        const double scale = u->step.lr_scale * g->lr_multiplier;
        rule_params_at(spec->rule, g->params, spec->schedules, spec->schedule_count, number,
                       g->present);
        spec->rule->prepare(g->present, number, scale, &g->scalars);
        double lr = 0;
        if (rate != NULL) {
            memcpy(&lr, (const char *)g->present + rate->offset, sizeof lr);
        }
        g->decay = (float)(lr * scale * g->weight_decay);
    }
}

/* Decides what this version is: an update, a part of a later one, or nothing. */
static void decide(struct update *u)
{
    const uint64_t every = update_spec_accumulate(u->spec);
    const bool due = (u->step.version + 1) % every == 0;
    float before = u->examples_in == SIZE_MAX ? 0.0F : u->step.slots[u->examples_in][0];
    u->examples = before + (float)u->step.examples;
    u->weight = u->step.then != NULL && every > 1 ? (float)u->step.examples : 1.0F;
    u->scale = u->step.then != NULL && every == 1 ? 1.0F : 1.0F / u->examples;
    u->kind = due ? UPDATE_DUE : UPDATE_COLLECTING;
    if (isnan(before)) {
        u->kind = due ? UPDATE_LEFT_OUT : UPDATE_COLLECTING;
    } else if (u->examples == 0.0F) {
        u->kind = UPDATE_NOTHING;
    }
}

/* Settling changes slots: of those that it does, the rule gets copies until the update is done. */
static void lend_slots(struct update *u)
{
    for (size_t k = 0; k < u->spec->rule->slot_count; k++) {
        u->rule_slots[k] = u->step.slots[k];
        if (u->pending[k] != NULL) {
            memcpy(u->pending[k], u->step.slots[k], u->slot_floats[k] * sizeof(float));
            u->rule_slots[k] = u->pending[k];
        }
    }
}

void update_begin(struct update *u, const struct update_step *step)
{
    assert(step->gradient != NULL || (step->examples == 0 && !update_needs_gradient(u)));
    u->step = *step;
    if (step->examples == 0) {
        u->step.then = NULL; /* there is nothing to compensate */
    }
    u->round = 0;
    u->gathered = u->shaped = u->poisoned = u->failed = false;
    u->bad_variable = UINT32_MAX;
    u->bad_element = UINT64_MAX;
    u->out = NULL;
    for (size_t v = 0; v < u->variable_count; v++) {
        u->factors[v] = 1.0;
    }
    for (size_t i = 0; i < u->table_count; i++) {
        u->table_factors[i] = 1.0;
    }
    decide(u);
    prepare_groups(u);
    lend_slots(u);
    if (u->rounds == 0 || u->kind != UPDATE_DUE) {
        return;
    }
    update_gather(u);
    if (u->spec->non_finite == UPDATE_NON_FINITE_FAIL && !u->takes_norms) {
        update_check(u); /* the sums of a rule need a gradient that is finite */
    }
    if (!u->takes_norms) {
        update_shape(u);
    }
}

/* ---- finish ---- */

/* The first variable with a value that is not finite, as far as this shard can tell. */
static void describe_left_out(struct update *u, struct update_result *result)
{
    result->outcome =
        u->spec->non_finite == UPDATE_NON_FINITE_FAIL ? UPDATE_FAILED : UPDATE_SKIPPED;
    update_gather(u);
    if (u->bad_variable == UINT32_MAX) { /* it came with an earlier push */
        update_check(u);
        u->failed = false;
    }
    if (u->bad_variable != UINT32_MAX) {
        result->variable = u->bad_variable;
        result->element = update_find_bad(u, u->bad_variable);
    }
}

static void finish_begin(struct update *u, float *out, struct update_result *result)
{
    assert(out != u->step.in || update_is_in_place(u));
    *result = (struct update_result){.outcome = UPDATE_KEPT, .element = UINT64_MAX};
    u->out = out;
    if (u->failed) {
        *result = (struct update_result){UPDATE_FAILED, u->bad_variable, u->bad_element};
    } else if (u->kind == UPDATE_LEFT_OUT) {
        describe_left_out(u, result);
    } else if (u->kind == UPDATE_DUE) {
        assert(u->round == u->rounds);
        result->outcome = UPDATE_APPLIED;
    }
}

/* Keeps the slots that exist once for a variable. */
static void keep_small_slots(struct update *u)
{
    for (size_t k = 0; k < u->spec->rule->slot_count && u->kind == UPDATE_DUE; k++) {
        if (u->pending[k] != NULL) {
            memcpy(u->step.slots[k], u->pending[k], u->slot_floats[k] * sizeof(float));
        }
    }
    if (u->examples_in == SIZE_MAX) {
        return;
    }
    float examples = u->kind == UPDATE_COLLECTING ? u->examples : 0.0F;
    for (size_t i = 0; i < u->local_count; i++) {
        u->step.slots[u->examples_in][i] = u->poisoned ? NAN : examples;
    }
}

static void finish_end(struct update *u, struct update_result *result)
{
    if (result->outcome != UPDATE_FAILED) {
        keep_small_slots(u);
    } else if (u->out != u->step.in) {
        memcpy(u->out, u->step.in, u->elements * sizeof(float));
    }
}

struct finish {
    struct update *u;
    struct update_result *result;
    size_t joined; /* number of pieces whose results are joined */
};

static void finish_piece(void *ctx, size_t i)
{
    const struct finish *f = ctx;
    update_finish_piece(f->u, i, &f->u->results[i]);
}

static void finished(void *ctx, size_t n)
{
    struct finish *f = ctx;
    const struct update_step *step = &f->u->step;
    const struct update_piece *last = &f->u->pieces[n - 1];
    while (f->joined < n) {
        update_result_join(f->result, &f->u->results[f->joined++]);
    }
    if (step->progress != NULL && f->result->outcome != UPDATE_FAILED) {
        step->progress(step->progress_ctx, last->at + last->n);
    }
}

void update_finish(struct update *u, float *out, struct update_result *result)
{
    struct finish f = {.u = u, .result = result};
    finish_begin(u, out, result);
    u->team.run(u->team.team, u->piece_count, finish_piece, finished, &f);
    finish_end(u, result);
}

/* ---- all of it ---- */

static int check_alone(const struct update *u, const struct update_step *step, struct err *err)
{
    const struct update_spec *spec = u->spec;
    if (!update_is_whole(u)) {
        return err_set(err, ERR_STATE, "%s needs sums over variables that lie on several shards",
                       spec->rule->name);
    }
    if (step->norms == NULL && update_needs_norms(u)) {
        return err_set(err, ERR_INVALID, "the push has no norms of its variables");
    }
    if (step->norms == NULL || !u->takes_norms) {
        return 0;
    }
    if (step->norm_count != u->variable_count + u->table_count) {
        return err_set(err, ERR_INVALID, "norms of %zu variables and tables instead of %zu",
                       step->norm_count, u->variable_count + u->table_count);
    }
    bool clips = spec->clip_norm > 0 || spec->clip_global_norm > 0;
    if (clips && update_needs_gradient(u)) {
        return err_set(err, ERR_INVALID, "the norms of one push say nothing of those accumulated");
    }
    return 0;
}

/* The next round, with the sums of this shard alone. */
static int run_round(struct update *u, struct err *err)
{
    const unsigned round = u->round;
    update_reduce(u, round, &u->mine);
    const void *mine[] = {u->mine.data};
    int rc = update_join(mine, &u->mine.len, 1, &u->totals, err);
    if (rc != 0) {
        return rc;
    }
    u->alone = true;
    rc = update_settle(u, round, u->totals.data, u->totals.len, err);
    u->alone = false;
    return rc;
}

int update_run(struct update *u, const struct update_step *step, float *out,
               struct update_result *result, struct err *err)
{
    int rc = check_alone(u, step, err);
    if (rc != 0) {
        return rc;
    }
    update_begin(u, step);
    if (u->takes_norms && step->norms != NULL) {
        update_take_norms(u, step->norms);
        update_round_done(u);
    }
    while (u->round < u->rounds && u->kind == UPDATE_DUE && !u->failed) {
        rc = run_round(u, err);
        if (rc != 0) {
            return rc;
        }
    }
    update_finish(u, out, result);
    return 0;
}

void update_scalars(const struct update *u, const char *name, struct rule_scalars *out)
{
    *out = u->groups[update_spec_match(u->spec, name)].scalars;
}

double update_table_factor(const struct update *u, size_t table)
{
    return table < u->table_count ? u->table_factors[table] : 1.0;
}

void update_penalties(const struct update *u, const char *name, struct update_penalties *out)
{
    const struct update_group *g = &u->groups[update_spec_match(u->spec, name)];
    *out = (struct update_penalties){
        .l1 = (float)g->l1, .l2 = (float)g->l2, .ridge = (float)g->ridge, .decay = g->decay};
}

void update_follows(struct update *u, const struct update *before, uint64_t version)
{
    u->before = before;
    u->since = version;
}

static void past_at(const void *context, uint64_t version, const void **params, double *lr_scale)
{
    const struct update_past *past = context;
    while (past->before != NULL && version < past->first) {
        past = past->before;
    }
    const struct update_group *g = past->group;
    const struct update_spec *spec = g->spec;
    rule_params_at(spec->rule, g->params, spec->schedules, spec->schedule_count, version, g->past);
    *params = g->past;
    *lr_scale = g->lr_multiplier;
}

/* Versions count pushes where they are accumulated, and @first the updates: the first one that ends
 * at a version from `since` on. */
static struct update_past *past_of(struct update *owner, const struct update *u, const char *name)
{
    struct update_past *p = mem_new(1, sizeof *p);
    p->group = &u->groups[update_spec_match(u->spec, name)];
    p->first = u->since / update_spec_accumulate(u->spec);
    p->next = owner->pasts;
    owner->pasts = p;
    p->before = u->before == NULL ? NULL : past_of(owner, u->before, name);
    return p;
}

void update_past(struct update *u, const char *name, struct rule_past *out)
{
    const struct update_past *p = past_of(u, u, name);
    const bool changes = u->spec->schedule_count > 0 || p->before != NULL;
    *out = (struct rule_past){
        .params = p->group->params,
        .lr_scale = p->group->lr_multiplier,
        .at = changes ? past_at : NULL,
        .context = p,
    };
}
