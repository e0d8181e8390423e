/* SPDX-License-Identifier: Apache-2.0 */
/* The part of `gradus plan` about updates: exceptions for some variables, scheduled values such as
 * the learning rate, and the memory of each server. Schedules are shown only where they turn. */
#include "cli/output_update.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/plan/plan_update.h"

/* ---- what there is to say ---- */

static void add_update(struct output_update *o, uint64_t number)
{
    size_t at = 0;
    while (at < o->update_count && o->updates[at] < number) {
        at++;
    }
    bool there = at < o->update_count && o->updates[at] == number;
    if (there || o->update_count == OUTPUT_UPDATES_MAX) {
        return;
    }
    memmove(&o->updates[at + 1], &o->updates[at], (o->update_count - at) * sizeof o->updates[0]);
    o->updates[at] = number;
    o->update_count++;
}

/* Adds the updates at which a schedule begins, ends and turns. */
static void add_turns(struct output_update *o, const struct schedule *s)
{
    const uint64_t warm = (uint64_t)s->warmup;
    const bool listed = s->kind == SCHEDULE_MULTI_STEP || s->kind == SCHEDULE_PIECEWISE;
    const bool periodic = s->kind == SCHEDULE_STEP || s->kind == SCHEDULE_EXPONENTIAL ||
                          s->kind == SCHEDULE_INVERSE_TIME;
    add_update(o, 0);
    add_update(o, warm);
    for (size_t i = 0; listed && i < s->at.count; i++) {
        add_update(o, warm + (uint64_t)s->at.values[i]);
    }
    for (uint64_t k = 1; periodic && k <= 4; k++) {
        add_update(o, warm + k * (uint64_t)s->every);
    }
    for (uint64_t k = 1; !listed && !periodic && s->kind != SCHEDULE_CONSTANT && k <= 4; k++) {
        add_update(o, warm + (uint64_t)s->length * k / 4);
    }
}

static int measure_shard(struct output_update *o, uint32_t shard, const struct consistency *c,
                         struct err *err)
{
    const struct update_spec *spec = &o->spec->update;
    struct update *u = NULL;
    int rc = plan_update_shard(o->plan, spec, shard, &u, err);
    if (rc != 0) {
        return rc;
    }
    update_add_tables(u, o->spec->model.table_count, o->plan->shard_count == 1);
    o->rounds = c->mode == TRAINING_SYNC ? plan_update_rounds(o->plan, u) : 0;
    o->sends_norms = c->mode != TRAINING_SYNC && update_needs_norms(u);
    plan_memory_of(u, o->spec, c, o->plan, shard, o->workers, o->rounds, &o->memory[shard]);
    update_free(u);
    return 0;
}

/* Counts backups where they lie: each server has that of the shard before its own. */
static void place_backups(struct output_update *o)
{
    const uint32_t shards = o->plan->shard_count;
    if (o->memory[0].standby == 0) {
        return;
    }
    uint64_t before = o->memory[shards - 1].standby - o->plan->shard_elements[shards - 1];
    for (uint32_t s = 0; s < shards; s++) {
        struct plan_memory *m = &o->memory[s];
        const uint64_t sends = o->plan->shard_elements[s], own = m->standby - sends;
        m->total = m->total - m->standby + before + sends;
        m->standby = before + sends;
        before = own;
    }
}

int output_update_init(struct output_update *o, const struct plan *plan,
                       const struct job_spec *spec, struct err *err)
{
    struct consistency c;
    *o = (struct output_update){
        .plan = plan, .spec = spec, .workers = (size_t)spec->cluster.workers.max};
    consistency_of(spec, &c);
    o->slot_count = update_spec_slots(&spec->update, o->slots);
    o->memory = mem_new(plan->shard_count, sizeof *o->memory);
    for (size_t i = 0; i < spec->update.schedule_count; i++) {
        add_turns(o, &spec->update.schedules[i].schedule);
    }
    int rc = 0;
    for (uint32_t s = 0; s < plan->shard_count && rc == 0; s++) {
        rc = measure_shard(o, s, &c, err);
    }
    if (rc != 0) {
        output_update_release(o);
        return rc;
    }
    place_backups(o);
    return rc;
}

void output_update_release(struct output_update *o)
{
    free(o->memory);
    *o = (struct output_update){0};
}

double output_update_value(const struct output_update *o, size_t schedule, uint64_t number)
{
    const struct update_spec *u = &o->spec->update;
    double value;
    char *params = mem_new(1, u->rule->params_bytes + 1);
    rule_params_at(u->rule, u->params, u->schedules, u->schedule_count, number, params);
    memcpy(&value, params + u->schedules[schedule].field->offset, sizeof value);
    free(params);
    return value;
}

const struct update_pattern *output_update_pattern(const struct output_update *o, size_t v)
{
    const struct update_spec *u = &o->spec->update;
    size_t i = update_spec_match(u, o->plan->variables[v].name);
    return i < u->pattern_count ? &u->patterns[i] : NULL;
}

/* ---- in words ---- */

static void say_sums(const struct output_update *o, struct buf *out)
{
    buf_printf(out, "\nupdate by %s; ", o->spec->update.rule->name);
    if (o->rounds > 0) {
        buf_printf(out, "%" PRIu32 " round%s of sums between the servers in each step\n", o->rounds,
                   o->rounds == 1 ? "" : "s");
    } else if (o->sends_norms) {
        buf_printf(out, "each push carries the norms of its variables\n");
    } else {
        buf_printf(out, "the servers exchange no sums\n");
    }
}

static int widest_name(const struct plan *plan)
{
    size_t widest = strlen("VARIABLE");
    for (size_t v = 0; v < plan->variable_count; v++) {
        size_t n = strlen(plan->variables[v].name);
        widest = n > widest ? n : widest;
    }
    return (int)widest;
}

static void say_patterns(const struct output_update *o, struct buf *out)
{
    const int width = widest_name(o->plan);
    if (o->spec->update.pattern_count == 0) {
        return;
    }
    buf_printf(out, "\n%-*s  %-20s  %13s  %12s  %10s  %10s  %10s\n", width, "VARIABLE", "PATTERN",
               "LEARNING_RATE", "WEIGHT_DECAY", "L1", "L2", "RIDGE");
    for (size_t v = 0; v < o->plan->variable_count; v++) {
        const struct update_pattern *p = output_update_pattern(o, v);
        const char *name = o->plan->variables[v].name;
        if (o->plan->variables[v].statistic > 0) {
            buf_printf(out, "%-*s  %-20s  %13s\n", width, name, p == NULL ? "-" : p->match,
                       p != NULL && p->frozen ? "frozen" : "statistic");
        } else if (p == NULL) {
            buf_printf(out, "%-*s  -\n", width, name);
        } else if (p->frozen) {
            buf_printf(out, "%-*s  %-20s  %13s\n", width, name, p->match, "frozen");
        } else {
            char factor[32];
            (void)snprintf(factor, sizeof factor, "x %.6g", p->learning_rate);
            buf_printf(out, "%-*s  %-20s  %13s  %12.6g  %10.6g  %10.6g  %10.6g\n", width, name,
                       p->match, factor, p->weight_decay, p->l1, p->l2, p->ridge);
        }
    }
}

static void say_schedules(const struct output_update *o, struct buf *out)
{
    const struct update_spec *u = &o->spec->update;
    if (o->update_count == 0) {
        return;
    }
    buf_printf(out, "\n%12s", "UPDATE");
    for (size_t i = 0; i < u->schedule_count; i++) {
        buf_printf(out, "  %16s", u->schedules[i].field->path);
    }
    buf_add_char(out, '\n');
    for (size_t k = 0; k < o->update_count; k++) {
        buf_printf(out, "%12" PRIu64, o->updates[k]);
        for (size_t i = 0; i < u->schedule_count; i++) {
            buf_printf(out, "  %16.6g", output_update_value(o, i, o->updates[k]));
        }
        buf_add_char(out, '\n');
    }
    if (update_spec_accumulate(u) > 1) {
        buf_printf(out, "One update every %" PRIu64 " steps.\n", update_spec_accumulate(u));
    }
}

static void say_floats(uint32_t shard, const char *what, const char *name, uint64_t floats,
                       struct buf *out)
{
    char bytes[32];
    if (floats > 0) {
        buf_printf(out, "%-5" PRIu32 "  %s%-*s  %12s\n", shard, what, (int)(36 - strlen(what)),
                   name, text_bytes(floats * sizeof(float), bytes, sizeof bytes));
    }
}

static void say_memory(const struct output_update *o, struct buf *out)
{
    char bases[64];
    (void)snprintf(bases, sizeof bases, "what each of %zu workers read", o->workers);
    buf_printf(out, "\n%-5s  %-36s  %12s\n", "PS", "MEMORY FOR", "BYTES");
    for (uint32_t s = 0; s < o->plan->shard_count; s++) {
        const struct plan_memory *m = &o->memory[s];
        say_floats(s, "values, two versions", "", m->values, out);
        for (size_t k = 0; k < o->slot_count; k++) {
            say_floats(s, "slot ", o->slots[k].name, m->slots[k], out);
        }
        say_floats(s, "copy of the slots, for checkpoints", "", m->pins, out);
        say_floats(s, bases, "", m->bases, out);
        say_floats(s, "gradients, at least", "", m->gradients, out);
        say_floats(s, "tables, and copies of rows", "", m->tables, out);
        say_floats(s, "the backup of another one", "", m->standby, out);
        say_floats(s, "total", "", m->total, out);
    }
}

void output_update_text(const struct output_update *o, struct buf *out)
{
    say_sums(o, out);
    say_patterns(o, out);
    say_schedules(o, out);
    say_memory(o, out);
}
