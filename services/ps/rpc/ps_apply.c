/* SPDX-License-Identifier: Apache-2.0 */
/* Actions on floats. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"
#include "ps/rpc/ps_rows.h"
#include "ps/rpc/ps_standby.h"

void ps_load(struct ps_shard *s, const struct shard_action *a)
{
    const struct shard_event *e = s->stepped;
    const struct ps_request *r = e->tag;
    struct snapshot *present = s->snapshots.present;
    struct buffer *values = e->gradient, *slots = e->slots_buffer;
    uint64_t at = 0;
    if (values != NULL) {
        ps_copy_floats(s, present->values.data, values->floats.data, s->elements);
    }
    for (size_t i = 0; slots != NULL && i < update_slot_count(s->slots_of); i++) {
        const uint64_t n = update_slot_floats(s->slots_of, i);
        ps_copy_floats(s, s->slot_data[i], slots->floats.data + at, n);
        at += n;
    }
    buffer_put(values);
    buffer_put(slots);
    present->version = a->version;
    assert(s->tables == NULL || s->tables->version == a->version); /* they came before */
    s->updates_skipped = r->change->skipped;
}

void ps_put(struct ps_shard *s, const struct shard_action *a)
{
    struct snapshot *present = s->snapshots.present;
    memcpy(present->values.data + a->first, (const float *)a->given + a->skip,
           a->count * sizeof(float));
    if (a->whole && !s->slots_taken) {
        update_slots_fill(s->update, present->values.data, s->slot_data);
    }
}

/* Every element has its own sum, so the bits do not depend on how wide the loop runs. */
static void add(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

#define ADD_FLOATS (UINT64_C(1) << 18) /* floats that a thread adds at once */

struct addition {
    float *to;
    const float *from;
    uint64_t floats;
};

static void add_some(void *ctx, size_t i)
{
    const struct addition *a = ctx;
    const uint64_t at = i * ADD_FLOATS;
    add(a->to + at, a->from + at, ADD_FLOATS < a->floats - at ? ADD_FLOATS : a->floats - at);
}

void ps_add(struct ps_shard *s, struct buffer *to, struct buffer *from)
{
    if (s->tables != NULL) {
        ps_tables_add(s, to, from);
    }
    struct addition a = {to->floats.data, from->floats.data, to->pool->floats};
    if (a.floats < PS_SHARED_FLOATS_MIN) {
        add(a.to, a.from, a.floats);
        return;
    }
    parallel_for(s->ps->team, (a.floats + ADD_FLOATS - 1) / ADD_FLOATS, add_some, NULL, &a);
}

/* ---- the update ---- */

/* A step without records is an update all the same where gradients are accumulated. */
static float *gradient_of(struct ps_shard *s, const struct buffer *gradient)
{
    if (gradient != NULL) {
        return gradient->floats.data;
    }
    if (s->nothing.data != NULL) {
        memset(s->nothing.data, 0, s->elements * sizeof(float));
    }
    return s->nothing.data;
}

static const float *values_of(struct ps_shard *s, uint64_t version)
{
    const struct snapshot *snapshot = snapshots_find(&s->snapshots, version);
    assert(snapshot != NULL); /* the core keeps it */
    return snapshot->values.data;
}

static struct ps_base *find_base(struct ps_shard *s, uint64_t version)
{
    for (size_t i = 0; i < s->base_count; i++) {
        if (s->base_slots[i].version == version) {
            return &s->base_slots[i];
        }
    }
    return NULL;
}

/* The version that the worker read, for a rule that wants it. */
static const float *base_of(struct ps_shard *s, uint64_t version)
{
    const struct ps_base *base = find_base(s, version);
    switch (s->spec.update.rule->base) {
    case RULE_BASE_VALUES:
        return values_of(s, version);
    case RULE_BASE_SLOT:
        /* without one the rule treats the gradient as not late */
        return base == NULL ? NULL : base->slot->floats.data;
    case RULE_BASE_NONE:
        break;
    }
    return NULL;
}

/* @a: SHARD_REDUCE or SHARD_APPLY. */
static struct update_step step_of(struct ps_shard *s, const struct shard_action *a)
{
    const struct buffer *gradient = a->buffer;
    const struct buffer *more = a->source;
    struct update_step step = {
        .version = a->version - 1,
        .lr_scale = (double)a->lr_scale,
        .in = s->snapshots.present->values.data,
        .gradient = gradient_of(s, gradient),
        .more = more == NULL ? NULL : more->floats.data,
        .examples = a->examples,
        .lambda = a->lambda,
        .slots = s->slot_data,
    };
    if (a->has_base && a->lambda > 0) {
        step.then = values_of(s, a->base_version);
    }
    if (a->has_base) {
        step.base = base_of(s, a->base_version);
    }
    if (gradient != NULL && gradient->has_norms) {
        const size_t tables = update_needs_tables(s->update) ? s->spec.model.table_count : 0;
        const size_t wanted = s->plan.variable_count + tables;
        step.norms = gradient->norms;
        step.norm_count = gradient->norm_count < wanted ? gradient->norm_count : wanted;
    } else if (update_needs_tables(s->update)) {
        step.tables = ps_tables_squares(s, a);
    }
    return step;
}

static void begin_update(struct ps_shard *s, const struct shard_action *a)
{
    ps_era_of(s, a->era);
    ps_last_gradient_note(s, a);
    s->step = step_of(s, a);
    update_begin(s->update, &s->step);
    s->update_begun = true;
}

void ps_reduce(struct ps_shard *s, const struct shard_action *a)
{
    if (a->round.round == 0) {
        begin_update(s, a);
    }
    update_reduce(s->update, a->round.round, &s->sums.mine);
}

/* What may have made a gradient that is not finite. */
static const char *advice(const struct ps_shard *s)
{
    const bool graph = s->spec.model.onnx != NULL && s->spec.model.onnx[0] != '\0';
    return graph ? "a number of a row that a Gather of model.onnx does not have gives one; a lower "
                   "update.learning_rate or update.clip_norm may help"
                 : "a lower update.learning_rate, scaled inputs (data.scale) or update.clip_norm "
                   "may help";
}

/* Acts on the result of an update: a job may have to fail. */
static void heed(struct ps_shard *s, uint64_t step, const struct update_result *r)
{
    char shown[64];
    if (r->outcome == UPDATE_SKIPPED) {
        s->updates_skipped++;
        meter_add(s->ps->meters.updates_skipped, 1);
    }
    if (r->outcome != UPDATE_FAILED) {
        return;
    }
    const size_t variables = s->plan.variable_count;
    const bool table = r->variable >= variables;
    const char *kind = table ? "table" : "variable";
    const char *name = text_shown(table ? s->spec.model.tables[r->variable - variables].name
                                        : s->plan.variables[r->variable].name,
                                  shown, sizeof shown);
    if (r->element == UINT64_MAX) {
        (void)err_set(&s->failed, ERR_INVALID,
                      "the gradient of %s %s has a value that is not finite, at step %" PRIu64
                      " (update.non_finite: fail); %s",
                      kind, name, step, advice(s));
    } else {
        (void)err_set(&s->failed, ERR_INVALID,
                      "element %" PRIu64 " of the gradient of variable %s is not finite, at step "
                      "%" PRIu64 " (update.non_finite: fail); %s",
                      r->element, name, step, advice(s));
    }
    (void)ps_shard_wrap(s, &s->failed);
}

/* Requests that get the next version while it is computed. */
struct early {
    struct snapshot *next;
    const struct shard_action *replies;
    size_t count;
};

static void send_early(void *ctx, uint64_t end)
{
    const struct early *e = ctx;
    for (size_t i = 0; i < e->count; i++) {
        const struct shard_action *a = &e->replies[i];
        if (a->kind == SHARD_REPLY && a->tag != NULL && a->code == 0 && a->values &&
            a->version == e->next->version) {
            ps_exchange_begin_answer(a->tag, a, e->next, end);
        }
    }
}

static void run(struct ps_shard *s, const struct shard_action *a, struct early *early,
                struct update_result *result)
{
    float *out = early->next->values.data;
    if (s->update_begun) {
        update_finish(s->update, out, result);
        s->update_begun = false;
        ps_sums_applied(s);
        return;
    }
    ps_era_of(s, a->era);
    ps_last_gradient_note(s, a);
    struct update_step step = step_of(s, a);
    struct err err;
    step.progress = send_early;
    step.progress_ctx = early;
    if (update_run(s->update, &step, out, result, &err) != 0) {
        memcpy(out, step.in, s->elements * sizeof(float));
        *result = (struct update_result){.outcome = UPDATE_KEPT};
        s->failed = err;
        (void)err_wrap(&s->failed, "step %" PRIu64, step.version);
        (void)ps_shard_wrap(s, &s->failed);
    }
}

void ps_apply(struct ps_shard *s, const struct shard_action *a, const struct shard_action *replies,
              size_t count)
{
    uint64_t began_ns = chrono_now_ns();
    s->update_time = (struct ps_update_time){.began_ns = began_ns};
    struct update_result result = {.outcome = UPDATE_KEPT};
    struct snapshot *next = snapshots_begin(&s->snapshots);
    struct early early = {next, replies, count};
    if (s->tables != NULL && a->source != NULL) {
        ps_tables_add(s, a->buffer, a->source);
    }
    run(s, a, &early, &result);
    if (s->tables != NULL) {
        ps_tables_apply(s, a, &result);
    }
    heed(s, a->version - 1, &result);
    snapshots_commit(&s->snapshots, next);
    s->update_time.ended_ns = chrono_now_ns();
    meter_observe(s->ps->meters.apply_seconds, (double)(s->update_time.ended_ns - began_ns) * 1e-9);
    if (trace_on(&s->ps->trace)) {
        ps_trace_shard(s, TRACE_APPLY, began_ns, a->version);
    }
    meter_add(s->ps->meters.updates, 1);
    if (s->consistency.mode != TRAINING_SYNC) {
        meter_observe(s->ps->meters.staleness, (double)a->staleness);
    }
}

void ps_base_keep(struct ps_shard *s, uint64_t version)
{
    if (s->spec.update.rule->base != RULE_BASE_SLOT) {
        return;
    }
    struct ps_base *base = find_base(s, version);
    if (base == NULL) {
        struct buffer *slot = buffer_get(&s->base_pool, NULL);
        if (slot == NULL) {
            return; /* no memory: updates from that worker count as not stale */
        }
        memcpy(slot->floats.data, s->slot_data[0], s->base_pool.floats * sizeof(float));
        s->base_slots =
            mem_grow(s->base_slots, &s->base_capacity, s->base_count + 1, sizeof *s->base_slots);
        base = &s->base_slots[s->base_count++];
        *base = (struct ps_base){.version = version, .slot = slot};
    }
    base->kept++;
}

void ps_base_forget(struct ps_shard *s, uint64_t version)
{
    struct ps_base *base = find_base(s, version);
    if (base != NULL && --base->kept == 0) {
        buffer_put(base->slot);
        *base = s->base_slots[--s->base_count];
    }
}

/* ---- copies of slots ---- */

#define COPY_FLOATS (UINT64_C(1) << 22) /* between two looks at how far it is */

static void copy_slots(struct ps_shard *s)
{
    float *to = s->slots_to->floats.data;
    uint64_t done = 0;
    for (size_t i = 0; i < update_slot_count(s->slots_of); i++) {
        uint64_t n = update_slot_floats(s->slots_of, i);
        for (uint64_t at = 0; at < n; at += COPY_FLOATS) {
            uint64_t part = n - at < COPY_FLOATS ? n - at : COPY_FLOATS;
            ps_copy_floats(s, to + at, s->slot_data[i] + at, part);
            done += part;
            work_advance(&s->work, done * sizeof(float));
        }
        to += n;
    }
    buffer_put(s->slots_to);
    s->slots_to = NULL;
    ps_standby_copied(s);
}

static void run_copy(void *ctx)
{
    struct ps_shard *s = ctx;
    copy_slots(s);
    work_end(&s->work);
    ps_shard_wake(s); /* updates may have waited for it */
    strand_resume(&s->strand);
    ps_shard_unref(s);
}

void ps_keep_slots(struct ps_shard *s)
{
    uint64_t floats = s->slots_to->pool->floats;
    if (floats < PS_SHARED_FLOATS_MIN) {
        copy_slots(s);
        work_end(&s->work);
        return;
    }
    work_begin(&s->work, "Pin", floats * sizeof(float), "bytes");
    if (pool_post(s->ps->copies, run_copy, ps_shard_ref(s), NULL) == 0) {
        strand_suspend(&s->strand);
        return;
    }
    ps_shard_unref(s); /* the server ends */
    copy_slots(s);
    work_end(&s->work);
}
