/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for programs: messages as they are, and what is no message: plans, small objects. */
#include "cli/output.h"

#include <stdarg.h>

#include "json/json_write.h"
#include "wire/wire_json.h"

void output_message_json(const ProtobufCMessage *message, struct buf *out)
{
    wire_json(message, out);
    buf_add_char(out, '\n');
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
    json_put(memory, "standby", json_integer((json_int_t)m->standby * 4));
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
