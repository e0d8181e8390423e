/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schema (draft 2020-12) of job files, from the same tables as everything else. With it an
 * editor completes and checks job files while they are written. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "job/spec/job_internal.h"
#include "json/json_write.h"

#define SCHEMA_DRAFT "https://json-schema.org/draft/2020-12/schema"

static void set_range(json_t *schema, const struct field *field)
{
    if (!field_ranged(field)) {
        return;
    }
    json_put(schema, "minimum", json_number(field->min));
    if (isfinite(field->max)) {
        json_put(schema, "maximum", json_number(field->max));
    }
}

/* Two types that a value may have. */
static json_t *either(const char *one, const char *other)
{
    json_t *types = json_array();
    json_append(types, json_string(one));
    json_append(types, json_string(other));
    return types;
}

/* Numbers with a unit: written as text, or bare. */
static json_t *number_or_text(const struct field *field, const char *pattern)
{
    json_t *schema = json_object();
    json_put(schema, "type", either("integer", "string"));
    set_range(schema, field);
    json_put(schema, "pattern", json_string(pattern));
    return schema;
}

/* YAML reads a bare true as a truth value, so both forms of such a choice are allowed. */
static json_t *choices(const char *const *names)
{
    json_t *schema = json_object(), *list = json_array();
    for (size_t i = 0; names[i] != NULL; i++) {
        json_append(list, json_string(names[i]));
        if (strcmp(names[i], "true") == 0 || strcmp(names[i], "false") == 0) {
            json_append(list, json_boolean(names[i][0] == 't'));
        }
    }
    json_put(schema, "enum", list);
    return schema;
}

static json_t *typed(const char *type, const struct field *field)
{
    json_t *schema = json_object();
    json_put(schema, "type", json_string(type));
    set_range(schema, field);
    return schema;
}

static json_t *ints(const struct field *field)
{
    json_t *schema = json_object();
    json_put(schema, "type", either("integer", "array"));
    set_range(schema, field); /* of the one number */
    json_put(schema, "items", typed("integer", field));
    bool may_be_empty = field->def != NULL && strcmp(field->def, "[]") == 0;
    json_put(schema, "minItems", json_integer(may_be_empty ? 0 : 1));
    json_put(schema, "maxItems", json_integer(FIELD_INTS_MAX));
    return schema;
}

/* A bare number is a text, too: `label: 4`. */
static json_t *text(void)
{
    json_t *schema = json_object();
    json_put(schema, "type", either("string", "number"));
    return schema;
}

static json_t *texts(void)
{
    json_t *schema = text();
    json_append(json_object_get(schema, "type"), json_string("array"));
    json_put(schema, "items", text());
    return schema;
}

static json_t *value_schema(const struct field *field)
{
    switch (field->type) {
    case FIELD_BOOL:
        return typed("boolean", field);
    case FIELD_INT:
        return typed("integer", field);
    case FIELD_FLOAT:
        return typed("number", field);
    case FIELD_STRING:
        return text();
    case FIELD_TEXTS:
        return texts();
    case FIELD_ENUM:
        return choices(field->choices);
    case FIELD_BYTES:
        return number_or_text(field, "^[0-9.]+ *(B|[KMGT]iB|[kKMG]B)?$");
    case FIELD_MS:
        return number_or_text(field, "^[0-9.]+ *(ms|s|m|min|h)?$");
    case FIELD_INTERVAL:
        return number_or_text(field, "^(never|[0-9]+( +(steps?|epochs?))?)$");
    case FIELD_RANGE:
        return number_or_text(field, "^[0-9]+([.][.][0-9]+)?$");
    case FIELD_INTS:
        return ints(field);
    }
    abort();
}

/* The default as a value of its own type. */
static json_t *default_value(const struct field *field)
{
    int64_t whole;
    double real;
    switch (field->type) {
    case FIELD_BOOL:
        return json_boolean(field->def[0] == 't');
    case FIELD_INT:
    case FIELD_RANGE:
        return text_to_int(field->def, &whole) ? json_integer(whole) : json_string(field->def);
    case FIELD_FLOAT:
        return text_to_double(field->def, &real) ? json_number(real) : json_null();
    case FIELD_INTS: {
        struct field_ints parsed = {0};
        struct field row = *field;
        row.offset = 0;
        field_defaults(&row, 1, &parsed);
        json_t *list = json_array();
        for (size_t i = 0; i < parsed.count; i++) {
            json_append(list, json_integer(parsed.values[i]));
        }
        return list;
    }
    default:
        return json_string(field->def);
    }
}

static json_t *object_schema(const char *help)
{
    json_t *schema = json_object();
    json_put(schema, "type", json_string("object"));
    if (help != NULL) {
        json_put(schema, "description", json_string(help));
    }
    json_put(schema, "properties", json_object());
    json_put(schema, "additionalProperties", json_false());
    return schema;
}

/* Note that @key of @schema is required. */
static void require(json_t *schema, const char *key)
{
    json_t *list = json_object_get(schema, "required");
    if (list == NULL) {
        json_put(schema, "required", json_array());
        list = json_object_get(schema, "required");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(json_string_value(json_array_get(list, i)), key) == 0) {
            return;
        }
    }
    json_append(list, json_string(key));
}

/* One row as a property of @schema; the dots of its path become nested objects. */
static void add_row(json_t *schema, const struct field *field)
{
    const char *word = field->path;
    for (const char *dot = strchr(word, '.'); dot != NULL; dot = strchr(word, '.')) {
        char *key = mem_printf("%.*s", (int)(dot - word), word);
        json_t *properties = json_object_get(schema, "properties");
        if (json_object_get(properties, key) == NULL) {
            json_put(properties, key, object_schema(NULL));
        }
        if (field->def == NULL) {
            require(schema, key);
        }
        schema = json_object_get(properties, key);
        free(key);
        word = dot + 1;
    }
    json_t *value = value_schema(field);
    json_put(value, "description", json_string(field->help));
    if (field->def == NULL) {
        require(schema, word);
    } else {
        json_put(value, "default", default_value(field));
    }
    json_put(json_object_get(schema, "properties"), word, value);
}

static json_t *rows_schema(const struct field *fields, size_t count, const char *help)
{
    json_t *schema = object_schema(help);
    for (size_t i = 0; i < count; i++) {
        add_row(schema, &fields[i]);
    }
    return schema;
}

/* A reference to a schema under $defs, which stands there once. */
static json_t *reference(const char *name)
{
    json_t *schema = json_object();
    char *path = mem_printf("#/$defs/%s", name);
    json_put(schema, "$ref", json_string(path));
    free(path);
    return schema;
}

static bool any_required(const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].def == NULL) {
            return true;
        }
    }
    return false;
}

/* The schema of one name, or a list of names. */
static json_t *from_schema(void)
{
    json_t *schema = json_object(), *forms = json_array(), *name = json_object();
    json_t *list = json_object();
    json_put(name, "type", json_string("string"));
    json_put(list, "type", json_string("array"));
    json_put(list, "minItems", json_integer(1));
    json_put(list, "maxItems", json_integer(LAYER_INPUTS_MAX));
    json_put(list, "items", json_deep_copy(name));
    json_append(forms, name);
    json_append(forms, list);
    json_put(schema, "oneOf", forms);
    json_put(schema, "description", json_string(job_layer_from_help));
    return schema;
}

/* `dense: {units: 10}`, one form for each kind. */
static json_t *layer_schema(const struct layer_kind *kind)
{
    size_t count;
    const struct field *fields = layer_kind_fields(kind, &count);
    json_t *params = rows_schema(fields, count, layer_kind_help(kind));
    json_t *name = json_object();
    json_put(name, "type", json_string("string"));
    json_put(name, "pattern", json_string("^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$"));
    json_put(name, "description", json_string(job_layer_name_help));
    json_put(json_object_get(params, "properties"), "name", name);
    json_put(json_object_get(params, "properties"), "from", from_schema());
    if (!any_required(fields, count)) { /* `relu:` with nothing behind it */
        json_put(params, "type", either("object", "null"));
    }
    json_t *schema = object_schema(layer_kind_help(kind));
    json_put(json_object_get(schema, "properties"), layer_kind_name(kind), params);
    require(schema, layer_kind_name(kind));
    return schema;
}

static json_t *list_of(json_t *items, const char *help)
{
    json_t *schema = json_object();
    json_put(schema, "type", json_string("array"));
    json_put(schema, "description", json_string(help));
    json_put(schema, "items", items);
    return schema;
}

static json_t *layers_schema(const struct job_extra *extra)
{
    json_t *bare = json_array(), *forms = json_array();
    for (size_t i = 0; layer_kind_at(i) != NULL; i++) {
        size_t count;
        const struct field *fields = layer_kind_fields(layer_kind_at(i), &count);
        if (!any_required(fields, count)) {
            json_append(bare, json_string(layer_kind_name(layer_kind_at(i))));
        }
    }
    json_t *word = json_object();
    json_put(word, "enum", bare);
    json_put(word, "description", json_string("A layer without parameters"));
    json_append(forms, word);
    for (size_t i = 0; layer_kind_at(i) != NULL; i++) {
        json_append(forms, layer_schema(layer_kind_at(i)));
    }
    json_t *items = json_object();
    json_put(items, "oneOf", forms);
    json_t *schema = list_of(items, extra->help);
    json_put(schema, "minItems", json_integer(1));
    json_put(schema, "maxItems", json_integer(JOB_LAYERS_MAX));
    return schema;
}

static json_t *model_schema(const struct job_section *section)
{
    json_t *schema = rows_schema(section->fields, *section->count, section->help);
    json_t *properties = json_object_get(schema, "properties");
    for (const struct job_extra *e = section->extras; e->name != NULL; e++) {
        bool layers = strcmp(e->name, "layers") == 0;
        bool tables = strcmp(e->name, "tables") == 0;
        json_put(properties, e->name,
                 layers   ? layers_schema(e)
                 : tables ? list_of(reference("table"), e->help)
                          : list_of(choices(metric_kind_names), e->help));
    }
    /* Either layers or a file with a loss, or a program. */
    json_t *forms = json_array(), *layers = json_object(), *program = json_object();
    json_t *onnx = json_object();
    require(layers, "layers");
    require(layers, "loss");
    require(program, "program");
    json_append(forms, layers);
    json_append(forms, program);
    require(onnx, "onnx");
    require(onnx, "loss");
    json_append(forms, onnx);
    json_put(schema, "anyOf", forms);
    (void)json_object_del(schema, "required");
    return schema;
}

/* Makes @section not required where the model is a program. */
static void excuse_programs(json_t *schema, const char *section)
{
    json_t *forms = json_array(), *with = json_object(), *without = json_object();
    require(with, section);
    json_t *model = json_object(), *properties = json_object();
    require(model, "program");
    json_put(properties, "model", model);
    json_put(without, "properties", properties);
    json_append(forms, with);
    json_append(forms, without);
    json_put(schema, "anyOf", forms);
}

/* The schema with one schedule for each hyperparameter that may have one. */
static json_t *schedules_schema(const struct rule *rule, const char *help)
{
    json_t *schema = object_schema(help);
    for (size_t i = 0; i < rule->field_count; i++) {
        if (rule->fields[i].type == FIELD_FLOAT) {
            json_put(json_object_get(schema, "properties"), rule->fields[i].path,
                     reference("schedule"));
        }
    }
    return schema;
}

static json_t *pattern_schema(void)
{
    json_t *schema =
        rows_schema(job_pattern_fields, job_pattern_field_count, "The variables of a pattern");
    for (size_t i = 0; i < job_pattern_field_count; i++) {
        if (job_pattern_inherits(&job_pattern_fields[i])) {
            json_t *row =
                json_object_get(json_object_get(schema, "properties"), job_pattern_fields[i].path);
            (void)json_object_del(row, "default"); /* what the job says */
        }
    }
    return schema;
}

/* The schema of a section with rows and one list, whose entries are $defs/@entry. */
static json_t *listing_schema(const struct job_section *section, const char *entry)
{
    json_t *schema = rows_schema(section->fields, *section->count, section->help);
    json_put(json_object_get(schema, "properties"), section->extras[0].name,
             list_of(reference(entry), section->extras[0].help));
    return schema;
}

/* The keys beside a rule's own. */
static void add_update_keys(json_t *form, const struct rule *rule, const struct job_extra *extras)
{
    json_t *properties = json_object_get(form, "properties");
    for (size_t i = 0; i < job_penalty_field_count; i++) {
        if (!job_rule_has(rule, job_penalty_fields[i].path)) {
            add_row(form, &job_penalty_fields[i]);
        }
    }
    for (size_t i = 0; i < job_update_field_count; i++) {
        add_row(form, &job_update_fields[i]);
    }
    for (const struct job_extra *e = extras; e->name != NULL; e++) {
        if (strcmp(e->name, "rule") == 0) {
            json_t *name = json_object();
            json_put(name, "const", json_string(rule->name));
            json_put(name, "description", json_string(e->help));
            json_put(properties, e->name, name);
            require(form, e->name);
        } else if (strcmp(e->name, "schedules") == 0) {
            json_put(properties, e->name, schedules_schema(rule, e->help));
        } else if (strcmp(e->name, "variables") == 0) {
            json_put(properties, e->name, list_of(reference("pattern"), e->help));
        } else if (job_rule_has(rule, "learning_rate")) {
            json_put(properties, e->name, reference("schedule"));
        }
    }
}

/* The schema with one form for each rule; `rule` tells them apart. */
static json_t *update_schema(const struct job_section *section)
{
    json_t *forms = json_array();
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        const struct rule *rule = rule_at(i);
        json_t *form = rows_schema(rule->fields, rule->field_count, rule->help);
        add_update_keys(form, rule, section->extras);
        json_append(forms, form);
    }
    json_t *schema = json_object();
    json_put(schema, "description", json_string(section->help));
    json_put(schema, "oneOf", forms);
    return schema;
}

/* The schema with checkpoints_keep as a section, or as the number of its key `last` alone. */
static json_t *training_schema(const struct job_section *section)
{
    json_t *schema = rows_schema(section->fields, *section->count, section->help);
    json_t *keep = json_object_get(json_object_get(schema, "properties"), "checkpoints_keep");
    json_put(keep, "type", either("integer", "object"));
    set_range(keep, field_find(section->fields, *section->count, "checkpoints_keep.last"));
    return schema;
}

static json_t *section_schema(enum job_section_id id)
{
    const struct job_section *section = &job_sections[id];
    return id == JOB_SECTION_DATA     ? listing_schema(section, "column")
           : id == JOB_SECTION_MODEL  ? model_schema(section)
           : id == JOB_SECTION_UPDATE ? update_schema(section)
           : id == JOB_SECTION_FROM   ? listing_schema(section, "renamed")
           : id == JOB_SECTION_TRAINING
               ? training_schema(section)
               : rows_schema(section->fields, *section->count, section->help);
}

static json_t *job_schema(void)
{
    const struct job_section *root = &job_sections[JOB_SECTION_ROOT];
    json_t *rows = rows_schema(root->fields, *root->count, NULL);
    json_t *properties = json_object_get(rows, "properties");
    json_put(json_object_get(properties, "name"), "pattern",
             json_string("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"));
    for (int id = JOB_SECTION_ROOT + 1; id < JOB_SECTION_COUNT; id++) {
        json_put(properties, job_sections[id].name, section_schema((enum job_section_id)id));
        if (id == JOB_SECTION_DATA) {
            excuse_programs(rows, job_sections[id].name);
        } else if (job_sections[id].required) {
            require(rows, job_sections[id].name);
        }
    }
    json_t *schema = json_object();
    json_put(schema, "$schema", json_string(SCHEMA_DRAFT));
    json_put(schema, "title", json_string("Gradus job"));
    if (json_object_update_new(schema, rows) != 0) {
        abort();
    }
    json_t *shared = json_object();
    json_put(shared, "schedule",
             rows_schema(schedule_fields, schedule_field_count,
                         "How a hyperparameter changes from update to update"));
    json_put(shared, "pattern", pattern_schema());
    json_put(shared, "table",
             rows_schema(model_table_fields, model_table_field_count,
                         "A sparse table on the parameter servers"));
    json_put(shared, "column",
             rows_schema(data_column_fields, data_column_field_count,
                         "A column of a CSV file, or a field of another format"));
    json_put(shared, "renamed",
             rows_schema(job_from_map_fields, job_from_map_field_count,
                         "What names of the source are called in the job"));
    json_put(schema, "$defs", shared);
    return schema;
}

void job_spec_schema_json(struct buf *out)
{
    json_print(job_schema(), 15, false, out);
}
