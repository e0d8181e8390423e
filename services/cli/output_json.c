/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, nodes, plans and metrics as JSON. */
#include "cli/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/text_best.h"
#include "cli/text_changes.h"
#include "cli/text_metrics.h"
#include "job/progress/ledger.h"
#include "json/json_write.h"
#include "wire/wire.h"

static json_t *metric_values(Gradus__V1__MetricValue *const *values, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        json_put(object, values[i]->name, json_fraction(values[i]->value));
    }
    return object;
}

static json_t *strings(char *const *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_append(array, json_text(values[i]));
    }
    return array;
}

static json_t *result(const Gradus__V1__Job *job)
{
    json_t *o = json_object();
    json_put(o, "job", json_text(job->id));
    json_put(o, "state", json_text(wire_state_name(job->state)));
    json_put(o, "reason", json_text(job->reason));
    json_put(o, "activity", json_text(job->activity));
    json_put(o, "steps", json_integer((json_int_t)job->step));
    json_put(o, "epochs", json_number(job->epoch));
    json_t *metrics = json_object();
    json_put(metrics, "train", metric_values(job->train, job->n_train));
    json_t *test = metric_values(job->test, job->n_test);
    text_confusion_json(test, job->test_confusion, job->n_test_confusion);
    json_put(metrics, "test", test);
    json_put(o, "metrics", metrics);
    json_put(o, "examples_per_second", json_fraction(job->examples_per_second));
    json_put(o, "seconds", json_fraction(job->seconds));
    json_put(o, "checkpoint", json_text(job->checkpoint));
    if (job->started_from[0] != '\0') {
        json_put(o, "started_from", json_text(job->started_from));
    }
    if (job->best != NULL) {
        json_put(o, "best", text_best_json(job->best));
    }
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
        json_append(array, integer(values[i]));
    }
    return array;
}

static json_t *consistency(const Gradus__V1__Consistency *c)
{
    if (c == NULL) {
        return json_null();
    }
    json_t *o = json_object();
    json_put(o, "mode", json_text(wire_mode_name(c->mode)));
    json_put(o, "replicas", integer(c->replicas));
    json_put(o, "aggregate", integer(c->aggregate));
    json_put(o, "speculate", json_number(c->speculate));
    json_put(o, "staleness", integer(c->staleness));
    json_put(o, "policy", json_text(wire_policy_name(c->policy)));
    json_put(o, "max_staleness", integer(c->max_staleness));
    json_put(o, "lambda", json_number(c->lambda));
    json_put(o, "push_every", integer(c->push_every));
    json_put(o, "pull_every", integer(c->pull_every));
    json_put(o, "overlap", json_boolean(c->overlap));
    return o;
}

static json_t *ledger(const Gradus__V1__Ledger *in)
{
    struct ledger l = {0};
    if (in == NULL || wire_ledger_from_proto(in, &l, NULL) != 0) {
        return json_null();
    }
    json_t *o = json_object();
    json_put(o, "epoch", integer(l.epoch));
    json_put(o, "records", integer(l.shape.records));
    json_put(o, "batch_records", integer(l.shape.batch_records));
    json_put(o, "split_batches", integer(l.shape.split_batches));
    json_put(o, "records_applied", integer(ledger_records(&l)));
    json_t *done = json_array();
    for (uint32_t s = 0; s < l.split_count; s++) {
        json_append(done, integer(l.done[s]));
    }
    json_put(o, "done", done);
    ledger_release(&l);
    return o;
}

static json_t *shards(const Gradus__V1__Job *job)
{
    json_t *array = json_array();
    for (size_t i = 0; i < job->n_shards; i++) {
        const Gradus__V1__ShardProgress *s = job->shards[i];
        json_t *o = json_object();
        json_put(o, "shard", integer(s->shard));
        json_put(o, "ps", json_text(s->ps));
        json_put(o, "version", integer(s->version));
        json_put(o, "examples", integer(s->examples));
        json_put(o, "duplicates", integer(s->duplicates));
        json_put(o, "dropped", integer(s->dropped));
        json_put(o, "ledger", ledger(s->ledger));
        json_append(array, o);
    }
    return array;
}

/* Milliseconds of a step, by part. */
static json_t *step_times(const Gradus__V1__StepTimes *t)
{
    struct step_times times;
    wire_step_times_from_proto(t, &times);
    json_t *o = json_object();
    json_put(o, "steps", integer(times.steps));
    double steps = times.steps == 0 ? 1 : (double)times.steps;
    json_put(o, "step_ms", json_fraction((double)step_times_ns(&times) * 1e-6 / steps));
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        char key[32];
        (void)snprintf(key, sizeof key, "%s_ms", step_part_name((enum step_part)part));
        json_put(o, key, json_fraction((double)times.ns[part] * 1e-6 / steps));
    }
    return o;
}

static json_t *worker_times(const Gradus__V1__Job *job)
{
    json_t *array = json_array();
    for (size_t i = 0; i < job->n_worker_times; i++) {
        json_t *o = step_times(job->worker_times[i]->times);
        json_put(o, "worker", json_text(job->worker_times[i]->worker));
        json_append(array, o);
    }
    return array;
}

static json_t *evaluations(const Gradus__V1__Job *job)
{
    json_t *array = json_array();
    for (size_t i = 0; i < job->n_evaluations; i++) {
        const Gradus__V1__Evaluation *e = job->evaluations[i];
        json_t *row = json_object();
        json_put(row, "step", integer(e->step));
        json_put(row, "epoch", json_number(e->epoch));
        json_put(row, "train", metric_values(e->train, e->n_train));
        json_put(row, "test", metric_values(e->test, e->n_test));
        json_append(array, row);
    }
    return array;
}

/* The word for what a job waits for. */
static json_t *waiting(const Gradus__V1__Job *job)
{
    static const char *const WORDS[] = {"", "nodes", "turn", "quota", "resume", "retry", "reader"};
    size_t i = (size_t)job->waiting;
    return json_text(i < sizeof WORDS / sizeof *WORDS ? WORDS[i] : "unknown");
}

static json_t *status(const Gradus__V1__Job *job)
{
    json_t *o = result(job);
    json_put(o, "name", json_text(job->name));
    json_put(o, "mode", json_text(wire_mode_name(job->mode)));
    json_put(o, "generation", json_integer((json_int_t)job->generation));
    json_put(o, "steps_total", json_integer((json_int_t)job->steps_total));
    json_put(o, "epochs_total", json_number(job->epochs_total));
    json_put(o, "examples", json_integer((json_int_t)job->examples));
    json_put(o, "eta_seconds", json_fraction(job->eta_seconds));
    json_put(o, "submitted_ms", json_integer(job->submitted_ms));
    json_put(o, "started_ms", json_integer(job->started_ms));
    json_put(o, "finished_ms", json_integer(job->finished_ms));
    json_put(o, "workers", strings(job->workers, job->n_workers));
    json_put(o, "ps", strings(job->ps, job->n_ps));
    json_put(o, "consistency", consistency(job->consistency));
    json_put(o, "staleness", integers(job->staleness, job->n_staleness));
    json_put(o, "bad_records", integer(job->bad_records));
    json_put(o, "dropped", integer(job->dropped));
    json_put(o, "speculated", integer(job->speculated));
    json_put(o, "recoveries", integer(job->recoveries));
    json_put(o, "resumes", integer(job->resumes));
    json_put(o, "ended_before", json_text(job->ended_before));
    json_put(o, "changed", text_changes_json(job));
    json_put(o, "owner", json_text(job->owner));
    json_put(o, "priority", json_integer(job->priority));
    json_put(o, "queue_position", integer(job->queue_position));
    json_put(o, "waiting", waiting(job));
    json_put(o, "paused", json_boolean(job->paused));
    json_put(o, "preemptions", integer(job->preemptions));
    json_put(o, "ps_memory", integer(job->ps_memory));
    json_put(o, "shards", shards(job));
    json_put(o, "times", step_times(job->times));
    json_put(o, "worker_times", worker_times(job));
    json_put(o, "evaluations", evaluations(job));
    return o;
}

void output_result_json(const Gradus__V1__Job *job, struct buf *out)
{
    json_print(result(job), 9, true, out);
}

void output_status_json(const Gradus__V1__Job *job, struct buf *out)
{
    json_t *o = status(job);
    if (job->text[0] != '\0') {
        json_put(o, "text", json_text(job->text));
    }
    json_print(o, 9, true, out);
}

void output_change_json(const Gradus__V1__Job *job, const struct job_changes *changes,
                        struct buf *out)
{
    json_t *list = json_object();
    for (size_t i = 0; i < changes->count; i++) {
        json_t *change = json_object();
        json_put(change, "from", json_text(changes->items[i].from));
        json_put(change, "to", json_text(changes->items[i].to));
        json_put(list, changes->items[i].key, change);
    }
    json_t *o = json_object();
    json_put(o, "job", json_text(job->id));
    json_put(o, "state", json_text(wire_state_name(job->state)));
    json_put(o, "generation", integer(job->generation));
    json_put(o, "changes", list);
    json_put(o, "consistency", consistency(job->consistency));
    json_print(o, 9, true, out);
}

void output_jobs_json(Gradus__V1__Job *const *jobs, const struct output_place *places, size_t count,
                      struct buf *out)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *job = status(jobs[i]);
        if (places != NULL) {
            json_put(job, places[i].key, json_text(places[i].value));
        }
        json_append(array, job);
    }
    json_print(array, 9, true, out);
}

void output_nodes_json(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        const Gradus__V1__NodeInfo *n = nodes[i];
        json_t *o = json_object();
        json_put(o, "id", json_text(n->id));
        json_put(o, "role", json_text(wire_role_name(n->role)));
        json_put(o, "address", json_text(n->address));
        json_put(o, "http_address", json_text(n->http_address));
        json_put(o, "alive", json_boolean(n->alive));
        json_put(o, "jobs", strings(n->jobs, n->n_jobs));
        json_put(o, "heartbeat_age_ms", json_integer(n->heartbeat_age_ms));
        json_put(o, "version", json_text(n->version));
        json_put(o, "host", json_text(n->host));
        json_put(o, "pid", json_integer((json_int_t)n->pid));
        json_append(array, o);
    }
    json_print(array, 9, true, out);
}

static json_t *memory_of(const struct output_update *o, uint32_t shard)
{
    const struct plan_memory *m = &o->memory[shard];
    json_t *slots = json_object();
    for (size_t k = 0; k < o->slot_count; k++) {
        json_put(slots, o->slots[k].name, json_integer((json_int_t)m->slots[k] * 4));
    }
    json_t *memory = json_object();
    json_put(memory, "values", json_integer((json_int_t)m->values * 4));
    json_put(memory, "slots", slots);
    json_put(memory, "bases", json_integer((json_int_t)m->bases * 4));
    json_put(memory, "slot_copy", json_integer((json_int_t)m->pins * 4));
    json_put(memory, "tables", json_integer((json_int_t)m->tables * 4));
    json_put(memory, "gradients", json_integer((json_int_t)m->gradients * 4));
    json_put(memory, "total", json_integer((json_int_t)m->total * 4));
    return memory;
}

static json_t *patterns_of(const struct output_update *o)
{
    json_t *variables = json_array();
    for (size_t v = 0; v < o->plan->variable_count; v++) {
        const struct update_pattern *p = output_update_pattern(o, v);
        json_t *variable = json_object();
        json_put(variable, "name", json_text(o->plan->variables[v].name));
        json_put(variable, "statistic", json_boolean(o->plan->variables[v].statistic > 0));
        json_put(variable, "pattern", p == NULL ? json_null() : json_text(p->match));
        if (p != NULL) {
            json_put(variable, "frozen", json_boolean(p->frozen));
            json_put(variable, "learning_rate", json_fraction(p->learning_rate));
            json_put(variable, "weight_decay", json_fraction(p->weight_decay));
            json_put(variable, "l1", json_fraction(p->l1));
            json_put(variable, "l2", json_fraction(p->l2));
            json_put(variable, "ridge", json_fraction(p->ridge));
        }
        json_append(variables, variable);
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
            json_put(value, "update", json_integer((json_int_t)o->updates[k]));
            json_put(value, "value", json_fraction(output_update_value(o, i, o->updates[k])));
            json_append(values, value);
        }
        json_put(schedules, u->schedules[i].field->path, values);
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
        json_put(row, "who", json_text(WHO[r->who]));
        json_put(row, "what", json_text(r->what));
        json_put(row, "each", json_integer((json_int_t)r->bytes));
        json_put(row, "times", json_integer((json_int_t)r->places));
        json_put(row, "bytes", json_integer((json_int_t)r->total));
        json_append(rows, row);
    }
    json_t *o = json_object();
    json_put(o, "needs", rows);
    json_put(o, "total", json_integer((json_int_t)need->total));
    json_put(o, "host_total", json_integer((json_int_t)host->total));
    json_put(o, "host_available", json_integer((json_int_t)host->available));
    json_put(o, "fits", json_boolean(memory_need_fits(need, host)));
    return o;
}

/* @fields NULL: none. */
static json_t *fields_of(const struct sparse_fields *fields)
{
    json_t *all = json_array();
    for (size_t i = 0; fields != NULL && i < fields->count; i++) {
        json_t *o = json_object();
        json_put(o, "name", json_text(fields->fields[i].name));
        json_put(o, "keys", json_integer((json_int_t)sparse_fields_keys_of(fields, i)));
        json_put(o, "columns", json_integer(fields->fields[i].width));
        json_append(all, o);
    }
    return all;
}

void output_valid_json(const char *file, const char *job, const char *checked_against,
                       const struct sparse_fields *fields, struct buf *out)
{
    json_t *o = json_object();
    json_put(o, "file", json_text(file));
    json_put(o, "job", json_text(job));
    json_put(o, "status", json_text("valid"));
    json_put(o, "checked_against", json_text(checked_against));
    json_put(o, "sparse_fields", fields_of(fields));
    json_print(o, 9, true, out);
}

void output_plan_json(const struct plan *plan, const struct output_update *update,
                      const struct memory_need *need, const struct host_memory *host,
                      const struct plan_speed *speed, const struct sparse_fields *fields,
                      struct buf *out)
{
    json_t *shards = json_array();
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        size_t count;
        const struct partition *parts = plan_shard(plan, s, &count);
        json_t *partitions = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *p = json_object();
            json_put(p, "variable", json_text(plan->variables[parts[i].variable].name));
            json_put(p, "row_first", json_integer((json_int_t)parts[i].row_first));
            json_put(p, "row_count", json_integer((json_int_t)parts[i].row_count));
            json_put(p, "elements", json_integer((json_int_t)parts[i].count));
            json_append(partitions, p);
        }
        json_t *shard = json_object();
        json_put(shard, "shard", json_integer(s));
        json_put(shard, "elements", json_integer((json_int_t)plan->shard_elements[s]));
        json_put(shard, "bytes", json_integer((json_int_t)plan->shard_elements[s] * 4));
        json_put(shard, "partitions", partitions);
        json_put(shard, "memory", memory_of(update, s));
        json_append(shards, shard);
    }
    json_t *o = json_object();
    json_put(o, "shards", shards);
    json_put(o, "one_host", host_of(need, host));
    json_put(o, "predicted", plan_speed_json(speed));
    json_put(o, "rule", json_text(update->spec->update.rule->name));
    json_put(o, "sum_rounds", json_integer(update->rounds));
    json_put(o, "norms_with_pushes", json_boolean(update->sends_norms));
    json_put(o, "variables", patterns_of(update));
    json_put(o, "schedules", schedules_of(update));
    json_put(o, "sparse_fields", fields_of(fields));
    json_print(o, 9, true, out);
}

static json_t *position(unsigned number)
{
    return number == 0 ? json_null() : json_integer((json_int_t)number);
}

static json_t *file_or_null(const char *file)
{
    return file[0] == '\0' ? json_null() : json_text(file);
}

void output_diags_json(const char *file, const char *status, const struct diags *diags,
                       struct buf *out)
{
    json_t *object = json_object(), *errors = json_array();
    for (size_t i = 0; i < diags->count; i++) {
        const struct diag *d = &diags->items[i];
        json_t *error = json_object();
        struct buf key = {0};
        if (d->file[0] != '\0') { /* other texts are no keys of a job file */
            diag_key(d->message, &key);
        }
        json_put(error, "file", file_or_null(d->file));
        json_put(error, "line", position(d->line));
        json_put(error, "column", position(d->column));
        json_put(error, "key", json_text(buf_str(&key)));
        json_put(error, "message", json_text(d->message));
        json_append(errors, error);
        buf_release(&key);
    }
    json_put(object, "file", file_or_null(file));
    json_put(object, "status", json_text(status));
    json_put(object, "errors", errors);
    json_print(object, 9, true, out);
}

void output_object(struct buf *out, ...)
{
    json_t *o = json_object();
    va_list args;
    va_start(args, out);
    for (const char *key = va_arg(args, const char *); key != NULL;
         key = va_arg(args, const char *)) {
        json_put(o, key, json_text(va_arg(args, const char *)));
    }
    va_end(args);
    json_print(o, 9, true, out);
}
