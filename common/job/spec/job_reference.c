/* SPDX-License-Identifier: Apache-2.0 */
/* The reference of all keys for people: one walk over the tables, in two styles. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/man.h"
#include "job/spec/job_internal.h"

struct style {
    void (*section)(struct buf *out, const char *title, const char *help);
    /* @def: NULL for required. */
    void (*row)(struct buf *out, const char *path, const char *allowed, const char *def,
                const char *help);
};

static void text_section(struct buf *out, const char *title, const char *help)
{
    buf_printf(out, "%s%s: %s\n", out->len == 0 ? "" : "\n", title, help);
}

static void text_row(struct buf *out, const char *path, const char *allowed, const char *def,
                     const char *help)
{
    buf_printf(out, "  %s\n      %s\n      %s; ", path, help, allowed);
    if (def == NULL) {
        buf_add_str(out, "required\n");
    } else {
        buf_printf(out, "default %s\n", def[0] == '\0' ? "empty" : def);
    }
}

static void markdown_cell(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            buf_add_char(out, '\\');
        }
        buf_add_char(out, *text);
    }
}

static void markdown_section(struct buf *out, const char *title, const char *help)
{
    buf_printf(out, "%s## %s\n\n%s.\n\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n",
               out->len == 0 ? "" : "\n", title, help);
}

static void markdown_row(struct buf *out, const char *path, const char *allowed, const char *def,
                         const char *help)
{
    buf_printf(out, "| `%s` | ", path);
    markdown_cell(out, allowed);
    if (def == NULL) {
        buf_add_str(out, " | *required* | ");
    } else if (def[0] == '\0') {
        buf_add_str(out, " | *empty* | ");
    } else {
        buf_printf(out, " | `%s` | ", def);
    }
    markdown_cell(out, help);
    buf_add_str(out, " |\n");
}

static void manual_section(struct buf *out, const char *title, const char *help)
{
    char *text = mem_printf("%s.", help);
    man_subsection(title, out);
    man_paragraph(text, out);
    free(text);
}

static void manual_row(struct buf *out, const char *path, const char *allowed, const char *def,
                       const char *help)
{
    char *text = def == NULL
                     ? mem_printf("%s; required", allowed)
                     : mem_printf("%s; default %s", allowed, def[0] == '\0' ? "empty" : def);
    man_item(path, NULL, help, out);
    man_item_line(text, out);
    free(text);
}

static void add_rows(const struct style *style, const struct field *fields, size_t count,
                     const char *prefix, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        struct buf allowed = {0};
        field_allowed(&fields[i], &allowed);
        char *path = mem_printf("%s%s", prefix, fields[i].path);
        style->row(out, path, buf_str(&allowed), fields[i].def, fields[i].help);
        free(path);
        buf_release(&allowed);
    }
}

static void add_layers(const struct style *style, struct buf *out)
{
    for (size_t i = 0; layer_kind_at(i) != NULL; i++) {
        const struct layer_kind *kind = layer_kind_at(i);
        size_t count;
        const struct field *fields = layer_kind_fields(kind, &count);
        char *title = mem_printf("model.layers: %s", layer_kind_name(kind));
        style->section(out, title, layer_kind_help(kind));
        add_rows(style, fields, count, "", out);
        char *def = mem_printf("%s_N", layer_kind_name(kind));
        style->row(out, "name", "text", def, job_layer_name_help);
        style->row(out, "from", "text or list of texts", "the layer above", job_layer_from_help);
        free(def);
        free(title);
    }
}

static void add_rules(const struct style *style, struct buf *out)
{
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        const struct rule *rule = rule_at(i);
        char *title = mem_printf("update, rule: %s", rule->name);
        style->section(out, title, rule->help);
        add_rows(style, rule->fields, rule->field_count, "update.", out);
        free(title);
    }
}

/* Schedules and patterns. Some keys of a pattern have the default that the job says. */
static void add_update(const struct style *style, struct buf *out)
{
    style->section(out, "update.schedule",
                   "How a hyperparameter changes from update to update, as "
                   "factors of its value");
    add_rows(style, schedule_fields, schedule_field_count, "", out);
    style->section(out, "update.variables", "What the variables of a pattern get");
    for (size_t i = 0; i < job_pattern_field_count; i++) {
        struct field field = job_pattern_fields[i];
        field.def = job_pattern_inherits(&job_pattern_fields[i]) ? "of the job" : field.def;
        add_rows(style, &field, 1, "", out);
    }
}

static void add_all(const struct style *style, struct buf *out)
{
    for (int id = 0; id < JOB_SECTION_COUNT; id++) {
        const struct job_section *section = &job_sections[id];
        bool root = section->name[0] == '\0';
        char *prefix = root ? mem_strdup("") : mem_printf("%s.", section->name);
        style->section(out, root ? "job" : section->name, section->help);
        if (section->fields != NULL) {
            add_rows(style, section->fields, *section->count, prefix, out);
        }
        if (id == JOB_SECTION_UPDATE) {
            add_rows(style, job_penalty_fields, job_penalty_field_count, prefix, out);
            add_rows(style, job_update_fields, job_update_field_count, prefix, out);
        }
        for (const struct job_extra *e = section->extras; e != NULL && e->name != NULL; e++) {
            char *path = mem_printf("%s%s", prefix, e->name);
            style->row(out, path, e->allowed, e->def, e->help);
            free(path);
        }
        free(prefix);
        if (id == JOB_SECTION_DATA) {
            style->section(
                out, "data.columns",
                "What a column of a CSV file, a field of another format, or several, are");
            add_rows(style, data_column_fields, data_column_field_count, "", out);
        } else if (id == JOB_SECTION_MODEL) {
            style->section(out, "model.tables", "A sparse table on the parameter servers");
            add_rows(style, model_table_fields, model_table_field_count, "", out);
            add_layers(style, out);
        } else if (id == JOB_SECTION_UPDATE) {
            add_update(style, out);
            add_rules(style, out);
        } else if (id == JOB_SECTION_FROM) {
            style->section(out, "from.map", "What names of the source are called in the job");
            add_rows(style, job_from_map_fields, job_from_map_field_count, "", out);
        }
    }
}

void job_spec_reference_text(struct buf *out)
{
    static const struct style style = {text_section, text_row};
    add_all(&style, out);
}

void job_spec_reference_markdown(struct buf *out)
{
    static const struct style style = {markdown_section, markdown_row};
    struct buf tables = {0}; /* a section looks whether it is the first */
    add_all(&style, &tables);
    buf_add(out, buf_str(&tables), tables.len);
    buf_release(&tables);
}

void job_spec_reference_manual(struct buf *out)
{
    static const struct style style = {manual_section, manual_row};
    man_begin("gradus-job", 5, "the job files of Gradus", out);
    man_section("description", out);
    man_paragraph("A job is one training run: data, model, update rule, consistency and counts, in "
                  "one file of YAML. `gradus validate` checks it, `gradus run` and `gradus submit` "
                  "take it, and --set KEY=VALUE of these sets a key for once. A dot is one level: "
                  "data.train.file is the key file below train, below data.",
                  out);
    man_section("keys", out);
    add_all(&style, out);
    man_section("examples", out);
    man_example("  name: iris\n"
                "  data: {train: {file: iris.csv}, test_fraction: 0.2}\n"
                "  model:\n"
                "    layers:\n"
                "      - dense: {units: 16, activation: relu}\n"
                "      - dense: {units: 3}\n"
                "    loss: softmax_cross_entropy\n"
                "  update: {rule: adam, learning_rate: 0.01}\n"
                "  training: {batch_size: 16, epochs: 20}\n"
                "  cluster: {workers: 2, ps: 1}\n",
                out);
    man_see_also("gradus(1), gradus-run(1), gradus-validate(1), gradus-schema(1)", out);
}
