/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, nodes, plans and metrics as JSON. */
#include "cli/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "job/progress/ledger.h"
#include "wire/wire.h"

static void dump(json_t *json, struct buf *out)
{
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
    if (text != NULL) {
        buf_printf(out, "%s\n", text);
        free(text);
    }
    json_decref(json);
}

/* A number; null for what JSON cannot say. Whole numbers are written without a fraction. */
static json_t *number(double value)
{
    if (!isfinite(value)) {
        return json_null();
    }
    if (value == floor(value) && fabs(value) < 9e15) {
        return json_integer((json_int_t)value);
    }
    return json_real(value);
}

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text(const char *s)
{
    json_t *j = json_string(s); /* NULL for invalid UTF-8 */
    return j != NULL ? j : json_string("(not UTF-8)");
}

static json_t *metric_values(Gradus__V1__MetricValue *const *values, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(object, values[i]->name, real(values[i]->value));
    }
    return object;
}

static json_t *strings(char *const *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, text(values[i]));
    }
    return array;
}

static json_t *result(const Gradus__V1__Job *job)
{
    json_t *o = json_object();
    json_object_set_new(o, "job", text(job->id));
    json_object_set_new(o, "state", text(wire_state_name(job->state)));
    json_object_set_new(o, "reason", text(job->reason));
    json_object_set_new(o, "activity", text(job->activity));
    json_object_set_new(o, "steps", json_integer((json_int_t)job->step));
    json_object_set_new(o, "epochs", number(job->epoch));
    json_t *metrics = json_object();
    json_object_set_new(metrics, "train", metric_values(job->train, job->n_train));
    json_object_set_new(metrics, "test", metric_values(job->test, job->n_test));
    json_object_set_new(o, "metrics", metrics);
    json_object_set_new(o, "examples_per_second", real(job->examples_per_second));
    json_object_set_new(o, "seconds", real(job->seconds));
    json_object_set_new(o, "checkpoint", text(job->checkpoint));
    return o;
}

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *integers(const uint64_t *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, integer(values[i]));
    }
    return array;
}

static json_t *consistency(const Gradus__V1__Consistency *c)
{
    if (c == NULL) {
        return json_null();
    }
    json_t *o = json_object();
    json_object_set_new(o, "mode", text(wire_mode_name(c->mode)));
    json_object_set_new(o, "replicas", integer(c->replicas));
    json_object_set_new(o, "aggregate", integer(c->aggregate));
    json_object_set_new(o, "speculate", number(c->speculate));
    json_object_set_new(o, "staleness", integer(c->staleness));
    json_object_set_new(o, "policy", text(wire_policy_name(c->policy)));
    json_object_set_new(o, "max_staleness", integer(c->max_staleness));
    json_object_set_new(o, "lambda", number(c->lambda));
    json_object_set_new(o, "push_every", integer(c->push_every));
    json_object_set_new(o, "pull_every", integer(c->pull_every));
    json_object_set_new(o, "overlap", json_boolean(c->overlap));
    return o;
}

static json_t *ledger(const Gradus__V1__Ledger *in)
{
    struct ledger l = {0};
    if (in == NULL || wire_ledger_from_proto(in, &l, NULL) != 0) {
        return json_null();
    }
    json_t *o = json_object();
    json_object_set_new(o, "epoch", integer(l.epoch));
    json_object_set_new(o, "records", integer(l.shape.records));
    json_object_set_new(o, "batch_records", integer(l.shape.batch_records));
    json_object_set_new(o, "split_batches", integer(l.shape.split_batches));
    json_object_set_new(o, "records_applied", integer(ledger_records(&l)));
    json_t *done = json_array();
    for (uint32_t s = 0; s < l.split_count; s++) {
        json_array_append_new(done, integer(l.done[s]));
    }
    json_object_set_new(o, "done", done);
    ledger_release(&l);
    return o;
}

static json_t *shards(const Gradus__V1__Job *job)
{
    json_t *array = json_array();
    for (size_t i = 0; i < job->n_shards; i++) {
        const Gradus__V1__ShardProgress *s = job->shards[i];
        json_t *o = json_object();
        json_object_set_new(o, "shard", integer(s->shard));
        json_object_set_new(o, "ps", text(s->ps));
        json_object_set_new(o, "version", integer(s->version));
        json_object_set_new(o, "examples", integer(s->examples));
        json_object_set_new(o, "duplicates", integer(s->duplicates));
        json_object_set_new(o, "dropped", integer(s->dropped));
        json_object_set_new(o, "ledger", ledger(s->ledger));
        json_array_append_new(array, o);
    }
    return array;
}

/* Milliseconds of a step, by part. */
static json_t *step_times(const Gradus__V1__StepTimes *t)
{
    struct step_times times;
    wire_step_times_from_proto(t, &times);
    json_t *o = json_object();
    json_object_set_new(o, "steps", integer(times.steps));
    double steps = times.steps == 0 ? 1 : (double)times.steps;
    json_object_set_new(o, "step_ms", real((double)step_times_ns(&times) * 1e-6 / steps));
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        char key[32];
        (void)snprintf(key, sizeof key, "%s_ms", step_part_name((enum step_part)part));
        json_object_set_new(o, key, real((double)times.ns[part] * 1e-6 / steps));
    }
    return o;
}

static json_t *worker_times(const Gradus__V1__Job *job)
{
    json_t *array = json_array();
    for (size_t i = 0; i < job->n_worker_times; i++) {
        json_t *o = step_times(job->worker_times[i]->times);
        json_object_set_new(o, "worker", text(job->worker_times[i]->worker));
        json_array_append_new(array, o);
    }
    return array;
}

static json_t *evaluations(const Gradus__V1__Job *job)
{
    json_t *array = json_array();
    for (size_t i = 0; i < job->n_evaluations; i++) {
        const Gradus__V1__Evaluation *e = job->evaluations[i];
        json_t *row = json_object();
        json_object_set_new(row, "step", integer(e->step));
        json_object_set_new(row, "epoch", number(e->epoch));
        json_object_set_new(row, "train", metric_values(e->train, e->n_train));
        json_object_set_new(row, "test", metric_values(e->test, e->n_test));
        json_array_append_new(array, row);
    }
    return array;
}

static json_t *status(const Gradus__V1__Job *job)
{
    json_t *o = result(job);
    json_object_set_new(o, "name", text(job->name));
    json_object_set_new(o, "mode", text(wire_mode_name(job->mode)));
    json_object_set_new(o, "generation", json_integer((json_int_t)job->generation));
    json_object_set_new(o, "steps_total", json_integer((json_int_t)job->steps_total));
    json_object_set_new(o, "epochs_total", number(job->epochs_total));
    json_object_set_new(o, "examples", json_integer((json_int_t)job->examples));
    json_object_set_new(o, "eta_seconds", real(job->eta_seconds));
    json_object_set_new(o, "submitted_ms", json_integer(job->submitted_ms));
    json_object_set_new(o, "started_ms", json_integer(job->started_ms));
    json_object_set_new(o, "finished_ms", json_integer(job->finished_ms));
    json_object_set_new(o, "workers", strings(job->workers, job->n_workers));
    json_object_set_new(o, "ps", strings(job->ps, job->n_ps));
    json_object_set_new(o, "consistency", consistency(job->consistency));
    json_object_set_new(o, "staleness", integers(job->staleness, job->n_staleness));
    json_object_set_new(o, "dropped", integer(job->dropped));
    json_object_set_new(o, "speculated", integer(job->speculated));
    json_object_set_new(o, "recoveries", integer(job->recoveries));
    json_object_set_new(o, "shards", shards(job));
    json_object_set_new(o, "times", step_times(job->times));
    json_object_set_new(o, "worker_times", worker_times(job));
    json_object_set_new(o, "evaluations", evaluations(job));
    return o;
}

void output_result_json(const Gradus__V1__Job *job, struct buf *out)
{
    dump(result(job), out);
}

void output_status_json(const Gradus__V1__Job *job, struct buf *out)
{
    json_t *o = status(job);
    if (job->text[0] != '\0') {
        json_object_set_new(o, "text", text(job->text));
    }
    dump(o, out);
}

void output_change_json(const Gradus__V1__Job *job, const struct job_changes *changes,
                        struct buf *out)
{
    json_t *list = json_object();
    for (size_t i = 0; i < changes->count; i++) {
        json_t *change = json_object();
        json_object_set_new(change, "from", text(changes->items[i].from));
        json_object_set_new(change, "to", text(changes->items[i].to));
        json_object_set_new(list, changes->items[i].key, change);
    }
    json_t *o = json_object();
    json_object_set_new(o, "job", text(job->id));
    json_object_set_new(o, "state", text(wire_state_name(job->state)));
    json_object_set_new(o, "generation", integer(job->generation));
    json_object_set_new(o, "changes", list);
    json_object_set_new(o, "consistency", consistency(job->consistency));
    dump(o, out);
}

void output_jobs_json(Gradus__V1__Job *const *jobs, const struct output_place *places, size_t count,
                      struct buf *out)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *job = status(jobs[i]);
        if (places != NULL) {
            json_object_set_new(job, places[i].key, text(places[i].value));
        }
        json_array_append_new(array, job);
    }
    dump(array, out);
}

void output_nodes_json(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__NodeInfo *n = nodes[i];
        json_t *o = json_object();
        json_object_set_new(o, "id", text(n->id));
        json_object_set_new(o, "role", text(wire_role_name(n->role)));
        json_object_set_new(o, "address", text(n->address));
        json_object_set_new(o, "http_address", text(n->http_address));
        json_object_set_new(o, "alive", json_boolean(n->alive));
        json_object_set_new(o, "jobs", strings(n->jobs, n->n_jobs));
        json_object_set_new(o, "heartbeat_age_ms", json_integer(n->heartbeat_age_ms));
        json_object_set_new(o, "version", text(n->version));
        json_object_set_new(o, "host", text(n->host));
        json_object_set_new(o, "pid", json_integer((json_int_t)n->pid));
        json_array_append_new(array, o);
    }
    dump(array, out);
}

static json_t *memory_of(const struct output_update *o, uint32_t shard)
{
    const struct plan_memory *m = &o->memory[shard];
    json_t *slots = json_object();
    for (size_t k = 0; k < o->slot_count; k++) {
        json_object_set_new(slots, o->slots[k].name, json_integer((json_int_t)m->slots[k] * 4));
    }
    json_t *memory = json_object();
    json_object_set_new(memory, "values", json_integer((json_int_t)m->values * 4));
    json_object_set_new(memory, "slots", slots);
    json_object_set_new(memory, "bases", json_integer((json_int_t)m->bases * 4));
    json_object_set_new(memory, "slot_copy", json_integer((json_int_t)m->pins * 4));
    json_object_set_new(memory, "gradients", json_integer((json_int_t)m->gradients * 4));
    json_object_set_new(memory, "total", json_integer((json_int_t)m->total * 4));
    return memory;
}

static json_t *patterns_of(const struct output_update *o)
{
    json_t *variables = json_array();
    for (size_t v = 0; v < o->plan->variable_count; v++) {
        const struct update_pattern *p = output_update_pattern(o, v);
        json_t *variable = json_object();
        json_object_set_new(variable, "name", text(o->plan->variables[v].name));
        json_object_set_new(variable, "pattern", p == NULL ? json_null() : text(p->match));
        if (p != NULL) {
            json_object_set_new(variable, "frozen", json_boolean(p->frozen));
            json_object_set_new(variable, "learning_rate", real(p->learning_rate));
            json_object_set_new(variable, "weight_decay", real(p->weight_decay));
            json_object_set_new(variable, "l1", real(p->l1));
            json_object_set_new(variable, "l2", real(p->l2));
        }
        json_array_append_new(variables, variable);
    }
    return variables;
}

static json_t *schedules_of(const struct output_update *o)
{
    const struct update_spec *u = &o->spec->update;
    json_t *schedules = json_object();
    for (size_t i = 0; i < u->schedule_count; i++) {
        json_t *values = json_array();
        for (size_t k = 0; k < o->update_count; k++) {
            json_t *value = json_object();
            json_object_set_new(value, "update", json_integer((json_int_t)o->updates[k]));
            json_object_set_new(value, "value", real(output_update_value(o, i, o->updates[k])));
            json_array_append_new(values, value);
        }
        json_object_set_new(schedules, u->schedules[i].field->path, values);
    }
    return schedules;
}

static json_t *host_of(const struct memory_need *need, const struct host_memory *host)
{
    static const char *const WHO[MEMORY_WHO_COUNT] = {"master", "ps", "worker", "shared"};
    json_t *rows = json_array();
    for (size_t i = 0; i < need->row_count; i++) {
        const struct memory_row *r = &need->rows[i];
        json_t *row = json_object();
        json_object_set_new(row, "who", text(WHO[r->who]));
        json_object_set_new(row, "what", text(r->what));
        json_object_set_new(row, "each", json_integer((json_int_t)r->bytes));
        json_object_set_new(row, "times", json_integer((json_int_t)r->places));
        json_object_set_new(row, "bytes", json_integer((json_int_t)r->total));
        json_array_append_new(rows, row);
    }
    json_t *o = json_object();
    json_object_set_new(o, "needs", rows);
    json_object_set_new(o, "total", json_integer((json_int_t)need->total));
    json_object_set_new(o, "host_total", json_integer((json_int_t)host->total));
    json_object_set_new(o, "host_available", json_integer((json_int_t)host->available));
    json_object_set_new(o, "fits", json_boolean(memory_need_fits(need, host)));
    return o;
}

void output_plan_json(const struct plan *plan, const struct output_update *update,
                      const struct memory_need *need, const struct host_memory *host,
                      struct buf *out)
{
    json_t *shards = json_array();
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        size_t count;
        const struct partition *parts = plan_shard(plan, s, &count);
        json_t *partitions = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *p = json_object();
            json_object_set_new(p, "variable", text(plan->variables[parts[i].variable].name));
            json_object_set_new(p, "row_first", json_integer((json_int_t)parts[i].row_first));
            json_object_set_new(p, "row_count", json_integer((json_int_t)parts[i].row_count));
            json_object_set_new(p, "elements", json_integer((json_int_t)parts[i].count));
            json_array_append_new(partitions, p);
        }
        json_t *shard = json_object();
        json_object_set_new(shard, "shard", json_integer(s));
        json_object_set_new(shard, "elements", json_integer((json_int_t)plan->shard_elements[s]));
        json_object_set_new(shard, "bytes", json_integer((json_int_t)plan->shard_elements[s] * 4));
        json_object_set_new(shard, "partitions", partitions);
        json_object_set_new(shard, "memory", memory_of(update, s));
        json_array_append_new(shards, shard);
    }
    json_t *o = json_object();
    json_object_set_new(o, "shards", shards);
    json_object_set_new(o, "one_host", host_of(need, host));
    json_object_set_new(o, "rule", text(update->spec->update.rule->name));
    json_object_set_new(o, "sum_rounds", json_integer(update->rounds));
    json_object_set_new(o, "norms_with_pushes", json_boolean(update->sends_norms));
    json_object_set_new(o, "variables", patterns_of(update));
    json_object_set_new(o, "schedules", schedules_of(update));
    dump(o, out);
}

void output_metrics_json(const char *checkpoint, const char *data, const struct metrics *m,
                         double label_scale, struct buf *out)
{
    json_t *values = json_object();
    for (int k = 0; k < METRIC_KIND_COUNT; k++) {
        if (m->kinds & (1U << k)) {
            json_object_set_new(values, metric_kind_names[k],
                                real(metrics_value(m, (enum metric_kind)k, label_scale)));
        }
    }
    json_t *o = json_object();
    json_object_set_new(o, "checkpoint", text(checkpoint));
    json_object_set_new(o, "data", text(data));
    json_object_set_new(o, "examples", json_integer((json_int_t)m->examples));
    json_object_set_new(o, "metrics", values);
    dump(o, out);
}

static json_t *position(unsigned number)
{
    return number == 0 ? json_null() : json_integer((json_int_t)number);
}

void output_diags_json(const char *file, const struct diags *diags, struct buf *out)
{
    json_t *object = json_object(), *errors = json_array();
    for (size_t i = 0; i < diags->count; i++) {
        const struct diag *d = &diags->items[i];
        json_t *error = json_object();
        struct buf key = {0};
        diag_key(d->message, &key);
        json_object_set_new(error, "file", text(d->file));
        json_object_set_new(error, "line", position(d->line));
        json_object_set_new(error, "column", position(d->column));
        json_object_set_new(error, "key", text(buf_str(&key)));
        json_object_set_new(error, "message", text(d->message));
        json_array_append_new(errors, error);
        buf_release(&key);
    }
    json_object_set_new(object, "file", text(file));
    json_object_set_new(object, "status", text("invalid"));
    json_object_set_new(object, "errors", errors);
    dump(object, out);
}

void output_object(struct buf *out, ...)
{
    json_t *o = json_object();
    va_list args;
    va_start(args, out);
    for (const char *key = va_arg(args, const char *); key != NULL;
         key = va_arg(args, const char *)) {
        json_object_set_new(o, key, text(va_arg(args, const char *)));
    }
    va_end(args);
    dump(o, out);
}
