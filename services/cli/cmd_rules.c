/* SPDX-License-Identifier: Apache-2.0 */
/* gradus rules: the table of update rules, for people, for programs and as a page of docs/. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "json/json_write.h"
#include "rule/rules/rows.h"
#include "rule/rules/rule.h"
#include "rule/rules/schedule.h"

struct options {
    struct cli_common common;
    bool markdown;
};

static const struct field fields[] = {
    {.path = "markdown",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, markdown),
     .def = "false",
     .help = "Print the reference as Markdown (docs/rules.md)"},
};

static const char *const slot_owners[] = {
    [RULE_SLOT_PARAMETER] = "parameter",
    [RULE_SLOT_ROW] = "row",
    [RULE_SLOT_COLUMN] = "column",
    [RULE_SLOT_VARIABLE] = "variable",
};

/* The ways in which rows of tables can be updated, NULL-terminated. */
static const char *const *row_ways(const struct rule *rule)
{
    static const char *const exact[] = {"exact", NULL};
    static const char *const all[] = {"lazy", "catch_up", "dense", NULL};
    static const char *const two[] = {"lazy", "dense", NULL};
    static const char *const none[] = {NULL};
    if (!rule_takes_rows(rule)) {
        return none;
    }
    if (rule->still) {
        return exact;
    }
    return rule->catch_up != NULL ? all : two;
}

static json_t *number(const struct field *field, double v)
{
    if (!isfinite(v)) {
        return json_null(); /* no bound */
    }
    return field->type == FIELD_INT ? json_integer((json_int_t)v) : json_real(v);
}

static json_t *default_value(const struct field *field)
{
    int64_t whole;
    double real;
    if (field->type == FIELD_BOOL) {
        return json_boolean(strcmp(field->def, "true") == 0);
    }
    if (field->type == FIELD_INT && text_to_int(field->def, &whole)) {
        return json_integer(whole);
    }
    if (field->type == FIELD_FLOAT && text_to_double(field->def, &real)) {
        return json_real(real);
    }
    return json_string(field->def);
}

static json_t *hyperparameter_json(const struct field *field)
{
    bool ranged = field->min != 0 || field->max != 0;
    json_t *object = json_object();
    json_put(object, "name", json_string(field->path));
    json_put(object, "default", default_value(field));
    json_put(object, "min", ranged ? number(field, field->min) : json_null());
    json_put(object, "max", ranged ? number(field, field->max) : json_null());
    if (field->type == FIELD_ENUM) {
        json_t *choices = json_array();
        for (size_t i = 0; field->choices[i] != NULL; i++) {
            json_append(choices, json_string(field->choices[i]));
        }
        json_put(object, "choices", choices);
    }
    json_put(object, "help", json_string(field->help));
    return object;
}

static json_t *rule_json(const struct rule *rule)
{
    json_t *object = json_object(), *slots = json_array(), *owners = json_array();
    json_t *hyperparameters = json_array(), *rows = json_array();
    for (size_t i = 0; i < rule->slot_count; i++) {
        json_append(slots, json_string(rule->slot_names[i]));
        json_append(owners, json_string(slot_owners[rule->slot_kinds[i]]));
    }
    for (size_t i = 0; i < rule->field_count; i++) {
        json_append(hyperparameters, hyperparameter_json(&rule->fields[i]));
    }
    for (const char *const *way = row_ways(rule); *way != NULL; way++) {
        json_append(rows, json_string(*way));
    }
    json_put(object, "name", json_string(rule->name));
    json_put(object, "help", json_string(rule->help));
    json_put(object, "slots", slots);
    json_put(object, "slots_per", owners);
    json_put(object, "hyperparameters", hyperparameters);
    json_put(object, "bytes_per_parameter",
             json_integer((json_int_t)rule_bytes_per_parameter(rule)));
    json_put(object, "table_rows", rows);
    if (rule_file(rule) != NULL) {
        json_put(object, "file", json_string(rule_file(rule)));
    }
    return object;
}

static int print_json(const struct rule *only)
{
    json_t *list = json_array();
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        if (only == NULL || only == rule_at(i)) {
            json_append(list, rule_json(rule_at(i)));
        }
    }
    struct buf out = {0};
    json_print(list, 15, false, &out);
    (void)fputs(buf_str(&out), stdout);
    buf_release(&out);
    return CLI_OK;
}

/* "m, v; row (one per row)" */
static void add_slots(const struct rule *rule, const char *mark, struct buf *out)
{
    for (size_t i = 0; i < rule->slot_count; i++) {
        buf_printf(out, "%s%s%s%s", i == 0 ? "" : ", ", mark, rule->slot_names[i], mark);
        if (rule->slot_kinds[i] != RULE_SLOT_PARAMETER) {
            buf_printf(out, " (per %s)", slot_owners[rule->slot_kinds[i]]);
        }
    }
    if (rule->slot_count == 0) {
        buf_add_str(out, "none");
    }
}

static void add_ways(const struct rule *rule, struct buf *out)
{
    const char *const *ways = row_ways(rule);
    for (size_t i = 0; ways[i] != NULL; i++) {
        buf_printf(out, "%s%s", i == 0 ? "" : ", ", ways[i]);
    }
    if (ways[0] == NULL) {
        buf_add_str(out, "none");
    }
}

static void text_of_rule(const struct rule *rule, struct buf *out)
{
    buf_printf(out, "%s: %s\n  slots: ", rule->name, rule->help);
    add_slots(rule, "", out);
    buf_printf(out, "\n  bytes per parameter: %zu\n  table rows: ", rule_bytes_per_parameter(rule));
    add_ways(rule, out);
    if (rule_file(rule) != NULL) {
        buf_printf(out, "\n  plug-in: %s", rule_file(rule));
    }
    buf_add_str(out, "\n\n");
    for (size_t i = 0; i < rule->field_count; i++) {
        const struct field *f = &rule->fields[i];
        buf_printf(out, "  %s\n      %s\n      ", f->path, f->help);
        field_allowed(f, out);
        buf_printf(out, "; default %s\n", f->def);
    }
}

#define WHAT_COLUMN 26 /* column in which the text about a rule begins */

static void text_of_all(size_t columns, struct buf *out)
{
    buf_printf(out, "%-18s %5s  %s\n", "RULE", "BYTES", "WHAT IT DOES; SLOTS");
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        const struct rule *rule = rule_at(i);
        struct buf what = {0}, lines = {0};
        buf_printf(&what, "%s; ", rule->help);
        add_slots(rule, "", &what);
        text_wrap(buf_str(&what), WHAT_COLUMN, columns, &lines);
        buf_printf(out, "%-18s %5zu  %s", rule->name, rule_bytes_per_parameter(rule),
                   buf_str(&lines) + WHAT_COLUMN);
        if (rule_file(rule) != NULL) {
            buf_printf(out, "%*splug-in: %s\n", WHAT_COLUMN, "", rule_file(rule));
        }
        buf_release(&what);
        buf_release(&lines);
    }
    buf_add_str(out, "\nBYTES are those of a parameter and its slots. `gradus rules RULE` lists "
                     "the\nhyperparameters.\n");
}

static void markdown_rows(const struct field *rows, size_t count, struct buf *out)
{
    buf_add_str(out, "\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "| `%s` | ", rows[i].path);
        field_allowed(&rows[i], out);
        if (rows[i].def[0] == '\0') {
            buf_printf(out, " | *empty* | %s |\n", rows[i].help);
        } else {
            buf_printf(out, " | `%s` | %s |\n", rows[i].def, rows[i].help);
        }
    }
}

static void markdown_of_all(struct buf *out)
{
    buf_add_str(
        out,
        "# Update rules\n\n"
        "Generated by `script/docs` from the table of rules; `gradus rules` prints the same. The "
        "formula of each rule, the paper it comes from and where other frameworks differ stand at "
        "the top of `common/rule/rules/rule_<name>.c`.\n\n"
        "*Bytes* are those of a parameter and its slots. *Rows* says what an update of some rows "
        "of a table can mean: *lazy*, only touched rows change; *catch_up*, a row that is touched "
        "again first gets what it missed, as if all rows had been updated every time; *dense*, all "
        "rows change; *exact*, the three are the same; *none*, the rule needs the whole "
        "variable.\n\n"
        "| Rule | Bytes | Slots | Rows | What it does |\n|---|---|---|---|---|\n");
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        const struct rule *rule = rule_at(i);
        buf_printf(out, "| [%s](#%s) | %zu | ", rule->name, rule->name,
                   rule_bytes_per_parameter(rule));
        add_slots(rule, "`", out);
        buf_add_str(out, " | ");
        add_ways(rule, out);
        buf_printf(out, " | %s |\n", rule->help);
    }
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        const struct rule *rule = rule_at(i);
        buf_printf(out, "\n## %s\n\n%s.\n", rule->name, rule->help);
        markdown_rows(rule->fields, rule->field_count, out);
    }
    buf_add_str(out,
                "\n## Schedules\n\nWhat a hyperparameter is at each update, as a factor of its "
                "value; the formulas stand in `common/rule/rules/schedule.h`.\n");
    markdown_rows(schedule_fields, schedule_field_count, out);
}

static int find_rule(const char *name, const struct rule **rule)
{
    *rule = rule_find(name);
    if (*rule != NULL) {
        return 0;
    }
    const char *names[128];
    size_t count = 0;
    while (count < sizeof names / sizeof names[0] && rule_at(count) != NULL) {
        names[count] = rule_at(count)->name;
        count++;
    }
    char shown[64];
    const char *nearest = text_nearest(name, names, count);
    struct err err = {0};
    (void)err_set(&err, ERR_NOT_FOUND, "no rule %s; %s%s%s", text_shown(name, shown, sizeof shown),
                  nearest != NULL ? "did you mean " : "`gradus rules` lists them",
                  nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
    return cli_fail(&err);
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    const struct rule *only = NULL;
    int loaded = cli_load_rules(&o->common);
    if (loaded != CLI_OK) {
        return loaded;
    }
    if (args->positional_count > 0) {
        int code = find_rule(args->positional[0], &only);
        if (code != 0) {
            return code;
        }
    }
    if (o->common.json) {
        return print_json(only);
    }
    struct buf out = {0};
    if (o->markdown) {
        markdown_of_all(&out);
    } else if (only != NULL) {
        text_of_rule(only, &out);
    } else {
        text_of_all(terminal_columns(STDOUT_FILENO), &out);
    }
    if (o->markdown) {
        (void)fputs(buf_str(&out), stdout);
    } else {
        terminal_print(&out);
    }
    buf_release(&out);
    return CLI_OK;
}

const struct cli_command cmd_rules = {
    .name = "rules",
    .summary = "List the update rules, or one with its hyperparameters",
    .usage = "[RULE]",
    .examples = "  gradus rules\n"
                "  gradus rules adam\n"
                "  gradus rules --json\n"
                "  gradus rules --rules-dir=plugins   # and those of shared objects\n",
    .shares = CLI_RULES_DIR | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 0,
    .positional_max = 1,
    .run = run,
};
