/* SPDX-License-Identifier: Apache-2.0 */
/* The update section: the rule with its hyperparameters, their schedules, what else is done to
 * gradients and parameters, and settings of single variables. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"

#define PATTERNS_MAX 256    /* patterns are written by hand */
#define MATCH_BYTES_MAX 255 /* longer than any variable's name */

/* ---- the rule and the rows beside it ---- */

static struct binding bind(const struct job_reader *r, const struct field *fields, size_t count,
                           void *object, const char *where)
{
    return (struct binding){.fields = fields,
                            .count = count,
                            .object = object,
                            .where = where,
                            .file = r->file,
                            .diags = r->diags};
}

/* Rows that do not know all keys of their mapping; those of others are no mistake. */
static void read_rows(const struct job_reader *r, const struct yaml_node *section,
                      const struct field *fields, size_t count)
{
    const struct binding b = bind(r, fields, count, &r->spec->update, "update");
    for (size_t i = 0; i < count; i++) {
        const struct yaml_entry *entry = yaml_find(section, fields[i].path);
        if (entry != NULL) {
            char *name = mem_printf("update.%s", fields[i].path);
            (void)binding_set(&b, &fields[i], name, entry->value);
            free(name);
        }
    }
}

/* Reads the hyperparameters; also reports unknown keys. */
static void read_rule(struct job_reader *r, const struct yaml_node *section)
{
    const struct rule *rule = r->spec->update.rule;
    const char *extra[16] = {"rule", "schedule", "schedules", "variables"};
    size_t n = 4;
    for (size_t i = 0; i < job_penalty_field_count; i++) {
        if (!job_rule_has(rule, job_penalty_fields[i].path)) {
            extra[n++] = job_penalty_fields[i].path;
            read_rows(r, section, &job_penalty_fields[i], 1);
        }
    }
    for (size_t i = 0; i < job_update_field_count; i++) {
        extra[n++] = job_update_fields[i].path;
    }
    read_rows(r, section, job_update_fields, job_update_field_count);
    bool *seen = mem_new(rule->field_count + 1, sizeof *seen);
    struct binding b = bind(r, rule->fields, rule->field_count, r->spec->update.params, "update");
    b.seen = seen;
    b.extra = extra;
    b.elsewhere = job_elsewhere;
    binding_read(&b, section);
    binding_require(&b, section);
    free(seen);
}

/* ---- schedules ---- */

static void read_schedule(struct job_reader *r, const struct field *field, const char *where,
                          const struct yaml_node *map)
{
    struct update_spec *u = &r->spec->update;
    u->schedules = mem_resize(u->schedules, u->schedule_count + 1, sizeof *u->schedules);
    struct rule_schedule *s = &u->schedules[u->schedule_count++];
    *s = (struct rule_schedule){.field = field};
    field_defaults(schedule_fields, schedule_field_count, &s->schedule);
    const size_t before = r->diags->count;
    const struct binding b = bind(r, schedule_fields, schedule_field_count, &s->schedule, where);
    binding_read(&b, map);
    struct err err = {0};
    if (r->diags->count == before && schedule_check(&s->schedule, &err) != 0) {
        char *path = mem_printf("%s.%.*s", where, (int)strcspn(err.msg, ":"), err.msg);
        job_report(r, path, "%s.%s", where, err.msg);
        free(path);
    }
}

/* Names of the hyperparameters that a schedule may change; owned array of borrowed words. */
static const char **float_names(const struct rule *rule, size_t *count)
{
    const char **names = mem_new(rule->field_count + 1, sizeof *names);
    *count = 0;
    for (size_t i = 0; i < rule->field_count; i++) {
        if (rule->fields[i].type == FIELD_FLOAT) {
            names[(*count)++] = rule->fields[i].path;
        }
    }
    return names;
}

static void read_schedules(struct job_reader *r, const struct yaml_node *map)
{
    const struct update_spec *u = &r->spec->update;
    if (map->kind != YAML_MAPPING) {
        const struct binding b = bind(r, NULL, 0, NULL, "update.schedules");
        if (!yaml_is_null(map)) {
            binding_read(&b, map); /* reports that it is no mapping */
        }
        return;
    }
    size_t count;
    const char **names = float_names(u->rule, &count);
    for (size_t i = 0; i < map->count; i++) {
        const struct yaml_entry *entry = &map->items[i];
        const struct field *field = update_spec_field(u, entry->key, FIELD_FLOAT);
        if (field == NULL) {
            binding_unknown(r->diags, r->file, entry, "update.schedules", names, count);
            continue;
        }
        char *where = mem_printf("update.schedules.%s", entry->key);
        read_schedule(r, field, where, entry->value);
        free(where);
    }
    free(names);
}

static void read_all_schedules(struct job_reader *r, const struct yaml_node *section)
{
    const struct yaml_entry *one = yaml_find(section, "schedule");
    const struct yaml_entry *many = yaml_find(section, "schedules");
    const struct field *rate = update_spec_field(&r->spec->update, "learning_rate", FIELD_FLOAT);
    if (many != NULL) {
        read_schedules(r, many->value);
    }
    if (one == NULL || yaml_is_null(one->value)) {
        return;
    }
    if (rate == NULL) {
        job_report(r, "update.schedule",
                   "update.schedule: %s has no learning_rate; allowed: none, or update.schedules "
                   "of another hyperparameter",
                   r->spec->update.rule->name);
    } else if (many != NULL && yaml_find(many->value, "learning_rate") != NULL) {
        job_report(r, "update.schedule",
                   "update.schedule: update.schedules has one of learning_rate, too; allowed: only "
                   "one of the two");
    } else {
        read_schedule(r, rate, "update.schedule", one->value);
    }
}

/* ---- variables ---- */

/* What the job says of l1, l2, ridge or weight_decay: the rule's hyperparameter, or the update's
 * own. */
static double job_value(const struct update_spec *u, const char *name)
{
    const struct field *field = update_spec_field(u, name, FIELD_FLOAT);
    const void *object = u->params;
    if (field == NULL) {
        field = field_find(job_penalty_fields, job_penalty_field_count, name);
        object = u;
    }
    double value;
    memcpy(&value, (const char *)object + field->offset, sizeof value);
    return value;
}

/* A value of a pattern: the job's when it was not given; else it must suit the rule, too. */
static void settle_value(struct job_reader *r, struct update_pattern *p, const struct field *field,
                         const struct yaml_node *given, const char *where)
{
    const struct update_spec *u = &r->spec->update;
    double *value = (double *)(void *)((char *)p + field->offset);
    const struct field *own = update_spec_field(u, field->path, FIELD_FLOAT);
    if (given == NULL) {
        *value = job_value(u, field->path);
    } else if (own != NULL && field_ranged(own) && (*value < own->min || *value > own->max)) {
        struct buf allowed = {0};
        field_allowed(own, &allowed);
        yaml_diag(r->diags, r->file, given, "%s.%s: not for %s; allowed: %s", where, field->path,
                  u->rule->name, buf_str(&allowed));
        buf_release(&allowed);
    }
}

static void check_pattern(const struct job_reader *r, const struct update_pattern *p,
                          const struct yaml_node *map, const char *where)
{
    const struct rule *rule = r->spec->update.rule;
    size_t n = p->match == NULL ? 1 : strlen(p->match);
    if (n == 0 || n > MATCH_BYTES_MAX) {
        yaml_diag(r->diags, r->file, yaml_find(map, "match")->value,
                  "%s.match: not a pattern; allowed: 1 to %d characters", where, MATCH_BYTES_MAX);
    }
    if (p->learning_rate != 1 && !job_rule_has(rule, "learning_rate")) {
        yaml_diag(r->diags, r->file, yaml_find(map, "learning_rate")->value,
                  "%s.learning_rate: %s has no learning_rate; allowed: 1", where, rule->name);
    }
}

static void read_pattern(struct job_reader *r, const struct yaml_node *map, size_t number)
{
    struct update_spec *u = &r->spec->update;
    struct update_pattern *p = &u->patterns[u->pattern_count++];
    bool *seen = mem_new(job_pattern_field_count + 1, sizeof *seen);
    char *where = mem_printf("update.variables.%zu", number);
    struct binding b = bind(r, job_pattern_fields, job_pattern_field_count, p, where);
    b.seen = seen;
    const size_t before = r->diags->count;
    field_defaults(job_pattern_fields, job_pattern_field_count, p);
    binding_read(&b, map);
    if (map->kind == YAML_MAPPING) {
        binding_require(&b, map);
    }
    for (size_t i = 0; i < job_pattern_field_count; i++) {
        const struct field *field = &job_pattern_fields[i];
        if (job_pattern_inherits(field)) {
            settle_value(r, p, field, seen[i] ? yaml_find(map, field->path)->value : NULL, where);
        }
    }
    if (r->diags->count == before) {
        check_pattern(r, p, map, where);
    }
    free(seen);
    free(where);
}

static void read_variables(struct job_reader *r, const struct yaml_node *section)
{
    const struct yaml_entry *entry = yaml_find(section, "variables");
    if (entry == NULL || yaml_is_null(entry->value)) {
        return;
    }
    const struct yaml_node *list = entry->value;
    if (list->kind != YAML_SEQUENCE || list->count > PATTERNS_MAX) {
        yaml_diag(r->diags, r->file, list,
                  "update.variables: this is not a list of patterns; allowed: a list of up to %d "
                  "sections with the key match",
                  PATTERNS_MAX);
        return;
    }
    r->spec->update.patterns = mem_new(list->count + 1, sizeof *r->spec->update.patterns);
    for (size_t i = 0; i < list->count; i++) {
        read_pattern(r, list->items[i].value, i);
    }
}

/* ---- all of it ---- */

/* The name of the rule; false after a report. */
static bool read_name(struct job_reader *r, const struct yaml_node *section)
{
    const char **names = job_rule_names();
    const struct field field = {.path = "rule", .type = FIELD_ENUM, .choices = names};
    const struct yaml_entry *entry = yaml_find(section, "rule");
    int choice = -1;
    bool ok = false, seen = false;
    if (entry == NULL) {
        struct binding b = bind(r, &field, 1, NULL, "update");
        b.seen = &seen;
        binding_require(&b, section);
    } else if (job_choice(r, names, "update.rule", entry->value, &choice)) {
        r->spec->update.rule = rule_at((size_t)choice);
        ok = true;
    }
    free(names);
    return ok;
}

void job_update_read(struct job_reader *r)
{
    const size_t before = r->diags->count;
    const struct yaml_entry *section = yaml_find(r->root, "update");
    struct update_spec *u = &r->spec->update;
    r->sound[JOB_SECTION_UPDATE] = false;
    if (section == NULL) {
        return;
    }
    if (section->value->kind != YAML_MAPPING && !yaml_is_null(section->value)) {
        const struct binding b = bind(r, NULL, 0, NULL, "update");
        binding_read(&b, section->value); /* reports that it is no mapping */
        return;
    }
    if (!read_name(r, section->value)) {
        return;
    }
    u->params = mem_new(1, u->rule->params_bytes + 1);
    field_defaults(u->rule->fields, u->rule->field_count, u->params);
    field_defaults(job_update_fields, job_update_field_count, u);
    read_rule(r, section->value);
    read_all_schedules(r, section->value);
    read_variables(r, section->value);
    r->sound[JOB_SECTION_UPDATE] = r->diags->count == before;
}

/* ---- and back ---- */

static struct yaml_node *schedule_node(const struct schedule *s)
{
    struct yaml_node *map = yaml_mapping();
    binding_write(schedule_fields, schedule_field_count, s, map);
    return map;
}

struct yaml_node *job_update_node(const struct update_spec *u)
{
    struct yaml_node *map = yaml_mapping(), *schedules = yaml_mapping(), *list = yaml_sequence();
    (void)yaml_put(map, "rule", yaml_scalar(u->rule->name, YAML_PLAIN));
    binding_write(u->rule->fields, u->rule->field_count, u->params, map);
    for (size_t i = 0; i < job_penalty_field_count; i++) {
        if (!job_rule_has(u->rule, job_penalty_fields[i].path)) {
            binding_write(&job_penalty_fields[i], 1, u, map);
        }
    }
    binding_write(job_update_fields, job_update_field_count, u, map);
    for (size_t i = 0; i < u->schedule_count; i++) {
        const struct rule_schedule *s = &u->schedules[i];
        (void)yaml_put(schedules, s->field->path, schedule_node(&s->schedule));
    }
    for (size_t i = 0; i < u->pattern_count; i++) {
        struct yaml_node *pattern = yaml_mapping();
        binding_write(job_pattern_fields, job_pattern_field_count, &u->patterns[i], pattern);
        yaml_append(list, pattern);
    }
    if (u->schedule_count > 0) {
        (void)yaml_put(map, "schedules", schedules);
    } else {
        yaml_node_free(schedules);
    }
    if (u->pattern_count > 0) {
        (void)yaml_put(map, "variables", list);
    } else {
        yaml_node_free(list);
    }
    return map;
}
