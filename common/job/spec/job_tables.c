/* SPDX-License-Identifier: Apache-2.0 */
/* model.tables: read, checked against each other and against what else the job asks for, and
 * written back. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"

static void read_table(const struct job_reader *r, const struct yaml_node *map, size_t number)
{
    struct model_spec *model = &r->spec->model;
    struct model_table *table = &model->tables[model->table_count++];
    bool *seen = mem_new(model_table_field_count, sizeof *seen);
    char *where = mem_printf("model.tables.%zu", number);
    const size_t before = r->diags->count;
    const struct binding b = {.fields = model_table_fields,
                              .count = model_table_field_count,
                              .object = table,
                              .seen = seen,
                              .where = where,
                              .file = r->file,
                              .diags = r->diags};
    field_defaults(model_table_fields, model_table_field_count, table);
    binding_read(&b, map);
    if (map->kind == YAML_MAPPING) {
        binding_require(&b, map);
    }
    struct err err = {0};
    if (r->diags->count == before && model_table_check(table, &err) != 0) {
        yaml_diag(r->diags, r->file, map, "%s.%s", where, err.msg);
    }
    for (size_t i = 0; i + 1 < model->table_count && r->diags->count == before; i++) {
        if (strcmp(model->tables[i].name, table->name) == 0) {
            yaml_diag(r->diags, r->file, map,
                      "%s.name: table %zu has the same name; allowed: a name that is used once",
                      where, i);
        }
    }
    free(seen);
    free(where);
}

void job_tables_read(struct job_reader *r)
{
    const struct yaml_entry *section = yaml_find(r->root, "model");
    const struct yaml_entry *entry = section == NULL || section->value->kind != YAML_MAPPING
                                         ? NULL
                                         : yaml_find(section->value, "tables");
    if (entry == NULL || yaml_is_null(entry->value)) {
        return;
    }
    const struct yaml_node *list = entry->value;
    if (list->kind != YAML_SEQUENCE || list->count == 0 || list->count > MODEL_TABLES_MAX) {
        yaml_diag(r->diags, r->file, list,
                  "model.tables: this is not a list of tables; allowed: a list of 1 to %d sections "
                  "with the keys name and dim",
                  MODEL_TABLES_MAX);
        return;
    }
    r->spec->model.tables = mem_new(list->count, sizeof *r->spec->model.tables);
    for (size_t i = 0; i < list->count; i++) {
        read_table(r, list->items[i].value, i);
    }
}

/* True if it has a penalty that its rule does not know of. */
static bool is_penalized(const struct update_spec *u, const struct update_pattern *p)
{
    static const char *const names[] = {"l1", "l2", "ridge", "weight_decay"};
    const double values[] = {p == NULL ? u->l1 : p->l1, p == NULL ? u->l2 : p->l2,
                             p == NULL ? u->ridge : p->ridge,
                             p == NULL ? u->weight_decay : p->weight_decay};
    bool penalized = false;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const bool of_rule = update_spec_field(u, names[i], FIELD_FLOAT) != NULL;
        penalized = penalized || (values[i] != 0 && !of_rule);
    }
    return penalized;
}

/* Rows are changed when they are touched: the patterns of dense variables hold, but for `frozen`.
 */
static void check_patterns(const struct job_reader *r)
{
    const struct update_spec *u = &r->spec->update;
    for (size_t i = 0; i < r->spec->model.table_count; i++) {
        const char *name = r->spec->model.tables[i].name;
        const size_t match = name == NULL ? u->pattern_count : update_spec_match(u, name);
        const struct update_pattern *p = match < u->pattern_count ? &u->patterns[match] : NULL;
        if (p != NULL && p->frozen) {
            job_report(r, "update.variables",
                       "update.variables.%zu: '%s' is table '%s' as well, which cannot be frozen; "
                       "allowed: another pattern before it",
                       match, p->match, name);
        }
        if (r->spec->model.tables[i].catch_up && is_penalized(u, p)) {
            job_report(
                r, "model.tables",
                "model.tables.%zu.catch_up: not possible with l1, l2, ridge or weight_decay, "
                "which rows have when they are touched alone; allowed: false",
                i);
        }
    }
}

/* Tells the update the names of tables, so that a pattern may match a table alone. */
static void name_tables(const struct job_reader *r)
{
    const struct model_spec *model = &r->spec->model;
    struct update_spec *u = &r->spec->update;
    u->tables = mem_resize(u->tables, model->table_count, sizeof *u->tables);
    u->table_count = 0;
    for (size_t i = 0; i < model->table_count; i++) {
        if (model->tables[i].name != NULL) {
            u->tables[u->table_count++] = model->tables[i].name;
        }
    }
}

/* Checks what updates of dense variables can do and those of rows cannot. */
void job_tables_check(const struct job_reader *r)
{
    const struct update_spec *u = &r->spec->update;
    const struct training_spec *t = &r->spec->training;
    if (r->spec->model.table_count == 0 || u->rule == NULL) {
        return;
    }
    const struct {
        const char *path;
        bool given;
        const char *allowed;
    } keys[] = {
        {"update.accumulate", u->accumulate > 1, "1"},
        {"update.average", u->average != 0, "0"},
        {"update.rule", u->rule->rounds > 0 || u->rule->base != RULE_BASE_NONE,
         "a rule without sums over whole variables, which does not ask what a worker read"},
        {"training.staleness_policy",
         t->mode != TRAINING_SYNC && t->staleness_policy == POLICY_DELAY_COMPENSATION,
         "none, max_staleness or scale_lr"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i].given) {
            job_report(r, keys[i].path, "%s: not possible with model.tables; allowed: %s",
                       keys[i].path, keys[i].allowed);
        }
    }
    name_tables(r);
    check_patterns(r);
    for (size_t i = 0; i < r->spec->model.table_count; i++) {
        if (r->spec->model.tables[i].catch_up && !u->rule->still && u->rule->catch_up == NULL) {
            job_report(r, "model.tables",
                       "model.tables.%zu.catch_up: rule %s has none; allowed: false", i,
                       u->rule->name);
        }
    }
}

struct yaml_node *job_tables_node(const struct model_spec *model)
{
    struct yaml_node *list = yaml_sequence();
    for (size_t i = 0; i < model->table_count; i++) {
        struct yaml_node *map = yaml_mapping();
        binding_write(model_table_fields, model_table_field_count, &model->tables[i], map);
        yaml_append(list, map);
    }
    return list;
}
