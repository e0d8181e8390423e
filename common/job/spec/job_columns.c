/* SPDX-License-Identifier: Apache-2.0 */
/* data.columns, the declared columns of CSV data: read, checked against each other and against the
 * keys that they replace, and written back. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/field_texts.h"
#include "job/spec/job_internal.h"

/* Report what data_column_check() says, at the value of the key that its message begins with. */
static void report_entry(const struct job_reader *r, const struct yaml_node *map, const char *where,
                         const char *message)
{
    char *key = mem_printf("%.*s", (int)strcspn(message, ":"), message);
    const struct yaml_entry *entry = yaml_find(map, key);
    yaml_diag(r->diags, r->file, entry == NULL ? map : entry->value, "%s.%s", where, message);
    free(key);
}

/* The @item-th of the columns that an entry names; returns how many these are. */
static size_t choose(struct data_column *column, size_t item)
{
    struct field_texts items = {0};
    size_t count = 1;
    if (column->column != NULL && field_texts_is_list(column->column) &&
        field_texts_read(column->column, &items) && item < items.count) {
        free(column->column);
        column->column = mem_strdup(items.items[item]);
        count = items.count;
    }
    field_texts_release(&items);
    return count;
}

/* Returns how many columns the entry names; this is the @item-th of them. */
static size_t read_column(struct job_reader *r, const struct yaml_node *map, size_t number,
                          size_t item)
{
    struct data_spec *data = &r->spec->data;
    data->columns =
        mem_grow(data->columns, &r->column_capacity, data->column_count + 1, sizeof *data->columns);
    struct data_column *column = &data->columns[data->column_count++];
    *column = (struct data_column){0};
    bool *seen = mem_new(data_column_field_count, sizeof *seen);
    char *where = mem_printf("data.columns.%zu", number);
    const size_t before = r->diags->count;
    const struct binding b = {.fields = data_column_fields,
                              .count = data_column_field_count,
                              .object = column,
                              .seen = seen,
                              .where = where,
                              .file = r->file,
                              .diags = r->diags};
    field_defaults(data_column_fields, data_column_field_count, column);
    binding_read(&b, map);
    if (map->kind == YAML_MAPPING) {
        binding_require(&b, map);
    }
    const size_t count = choose(column, item);
    struct err err = {0};
    if (r->diags->count == before && data_column_check(column, seen, &err) != 0) {
        report_entry(r, map, where, err.msg);
    }
    free(seen);
    free(where);
    return count;
}

/* Keys that say the same in another way. */
static void check_keys(const struct job_reader *r)
{
    static const char *const replaced[] = {"label", "categorical", "ignore"};
    for (size_t i = 0; i < sizeof replaced / sizeof replaced[0]; i++) {
        const struct field *field = field_find(data_fields, data_field_count, replaced[i]);
        struct buf value = {0};
        field_format(field, &r->spec->data, &value);
        bool differs = strcmp(buf_str(&value), field->def) != 0;
        buf_release(&value);
        if (differs) {
            char *path = mem_printf("data.%s", replaced[i]);
            job_report(r, path,
                       "%s: data.columns says which column is what; allowed: one of the "
                       "two",
                       path);
            free(path);
        }
    }
    if (r->spec->data.format == DATA_FORMAT_IDX) {
        job_report(r, "data.format",
                   "data.format: IDX has no columns to declare (data.columns); allowed: another "
                   "format, or auto");
    }
}

/* Lines of these formats begin with the label, which has no name. */
static bool has_label(int format)
{
    return format == DATA_FORMAT_LIBSVM || format == DATA_FORMAT_LIBFFM;
}

/* Checks that there is one label, and something to learn it from. */
static void check_all(const struct job_reader *r, const struct yaml_node *list)
{
    const struct data_spec *data = &r->spec->data;
    size_t labels = 0, features = 0, sparse = 0;
    for (size_t i = 0; i < data->column_count; i++) {
        labels += data->columns[i].as == COLUMN_LABEL;
        features += data->columns[i].as <= COLUMN_LIST;
        sparse += data->columns[i].as == COLUMN_SPARSE;
    }
    const bool own = has_label(data->format);
    const bool open = own || (data->format == DATA_FORMAT_AUTO && features == 0 && sparse > 0);
    if (own && labels > 0) {
        yaml_diag(r->diags, r->file, list,
                  "data.columns: the label stands at the beginning of each line; allowed: no entry "
                  "with 'as: label'");
    } else if (labels > 1 || (labels == 0 && !open)) {
        yaml_diag(r->diags, r->file, list,
                  "data.columns: %zu columns are the label; allowed: one entry with 'as: label'",
                  labels);
    } else if (own && features > 0) {
        yaml_diag(r->diags, r->file, list,
                  "data.columns: what stands behind the label are keys; allowed: entries with 'as: "
                  "sparse' or 'as: ignore'");
    } else if (features + sparse == 0) {
        yaml_diag(r->diags, r->file, list,
                  "data.columns: no column is a number, a category, a list of categories or "
                  "sparse, so there are no features; allowed: at least one");
    }
}

void job_columns_read(struct job_reader *r)
{
    const struct yaml_entry *section = yaml_find(r->root, "data");
    const struct yaml_entry *entry = section == NULL || section->value->kind != YAML_MAPPING
                                         ? NULL
                                         : yaml_find(section->value, "columns");
    if (entry == NULL || yaml_is_null(entry->value)) {
        return;
    }
    const struct yaml_node *list = entry->value;
    if (list->kind != YAML_SEQUENCE || list->count == 0 || list->count > COLUMNS_DECLARED_MAX) {
        yaml_diag(r->diags, r->file, list,
                  "data.columns: this is not a list of columns; allowed: a list of 1 to %d "
                  "sections with the key column",
                  COLUMNS_DECLARED_MAX);
        return;
    }
    const size_t before = r->diags->count;
    const struct data_spec *data = &r->spec->data;
    for (size_t i = 0; i < list->count; i++) {
        const struct yaml_node *map = list->items[i].value;
        const size_t count = read_column(r, map, i, 0);
        for (size_t k = 1; k < count && r->diags->count == before; k++) {
            (void)read_column(r, map, i, k);
        }
    }
    if (data->column_count > COLUMNS_DECLARED_MAX) {
        yaml_diag(r->diags, r->file, list, "data.columns: %zu columns are declared; allowed: %d",
                  data->column_count, COLUMNS_DECLARED_MAX);
    }
    check_keys(r);
    if (r->diags->count == before) {
        check_all(r, list);
    }
    r->sound[JOB_SECTION_DATA] = r->sound[JOB_SECTION_DATA] && r->diags->count == before;
}

struct yaml_node *job_columns_node(const struct data_spec *data)
{
    struct yaml_node *list = yaml_sequence();
    for (size_t i = 0; i < data->column_count; i++) {
        struct yaml_node *map = yaml_mapping();
        for (size_t k = 0; k < data_column_field_count; k++) {
            if (data_column_has(&data->columns[i], &data_column_fields[k])) {
                binding_write(&data_column_fields[k], 1, &data->columns[i], map);
            }
        }
        yaml_append(list, map);
    }
    return list;
}
