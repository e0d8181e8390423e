/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the columns of a CSV file the roles that data.columns declares: finds each entry's columns
 * by name, number or range, and sees that no column has two entries. */
#include "data/csv_declared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/cells.h"

#define NOT_DECLARED UINT32_MAX

/* Cut "A..B" in two, in place; false: it is no range. */
static bool cut_range(char *text, char **last)
{
    char *dots = strstr(text, "..");
    if (dots == NULL || dots == text || dots[2] == '\0') {
        return false;
    }
    *dots = '\0';
    *last = dots + 2;
    return true;
}

static bool is_index(const char *text)
{
    int64_t number;
    return text_to_int(text, &number);
}

bool csv_declared_names(const struct data_spec *spec)
{
    for (size_t i = 0; i < spec->column_count; i++) {
        char *copy = mem_strdup(spec->columns[i].column), *last = copy;
        bool range = cut_range(copy, &last), names = !is_index(copy);
        names = names || (range && !is_index(last));
        free(copy);
        if (names) {
            return true;
        }
    }
    return false;
}

size_t csv_columns_least(const struct data_spec *spec)
{
    size_t least = 0;
    for (size_t i = 0; i < spec->column_count; i++) {
        char *copy = mem_strdup(spec->columns[i].column), *last = copy;
        (void)cut_range(copy, &last);
        int64_t number;
        if (text_to_int(last, &number) && number >= 0 && number < CSV_COLUMNS_MAX) {
            least = (size_t)number + 1 > least ? (size_t)number + 1 : least;
        }
        free(copy);
    }
    return least;
}

/* The columns of entry @i: from *@first to *@last. */
static int find_columns(const struct csv_columns *c, const char *path, const char *key,
                        const char *text, size_t *first, size_t *last, struct err *err)
{
    struct err plain = {0};
    int rc = csv_columns_find(c, path, key, text, first, &plain);
    *last = *first;
    if (rc == 0) {
        return 0;
    }
    char *from = mem_strdup(text), *to = from;
    if (!cut_range(from, &to)) {
        free(from);
        return err_set(err, rc, "%s", plain.msg);
    }
    rc = csv_columns_find(c, path, key, from, first, err);
    rc = rc != 0 ? rc : csv_columns_find(c, path, key, to, last, err);
    free(from);
    if (rc == 0 && *last < *first) {
        return err_set(err, ERR_INVALID, "%s: %s is \"%s\", but column %zu comes before column %zu",
                       path, key, text, *last, *first);
    }
    return rc;
}

static int assign_entry(struct csv_columns *c, const char *path, const struct data_spec *spec,
                        uint32_t entry, struct err *err)
{
    static const enum csv_role roles[] = {
        [COLUMN_NUMBER] = CSV_NUMBER, [COLUMN_CATEGORY] = CSV_CATEGORY,
        [COLUMN_LIST] = CSV_CATEGORY, [COLUMN_SPARSE] = CSV_CATEGORY,
        [COLUMN_LABEL] = CSV_LABEL,   [COLUMN_IGNORE] = CSV_IGNORED};
    const struct data_column *column = &spec->columns[entry];
    char key[64];
    (void)snprintf(key, sizeof key, "data.columns.%u.column", (unsigned)entry);
    size_t first = 0, last = 0;
    int rc = find_columns(c, path, key, column->column, &first, &last, err);
    if (rc == 0 && column->length > 1) {
        rc = err_set(err, ERR_INVALID,
                     "%s: data.columns.%u.length: a cell is one number; only features of TFRecord "
                     "are lists of them",
                     path, (unsigned)entry);
    }
    for (size_t j = first; rc == 0 && j <= last; j++) {
        if (c->declared[j] != NOT_DECLARED) {
            char shown[64];
            return err_set(err, ERR_INVALID,
                           "%s: %s means column %zu (%s), which data.columns.%u declares already",
                           path, key, j,
                           cells_mark(c->names[j], CSV_SHOWN_BYTES, true, shown, sizeof shown),
                           (unsigned)c->declared[j]);
        }
        c->declared[j] = entry;
        c->roles[j] = roles[column->as];
        if (column->as == COLUMN_LABEL && last > first) {
            return err_set(err, ERR_INVALID, "%s: %s means %zu columns, but there is one label",
                           path, key, last - first + 1);
        }
        c->label = column->as == COLUMN_LABEL ? j : c->label;
    }
    return rc;
}

int csv_declared_assign(struct csv_columns *c, const char *path, const struct data_spec *spec,
                        struct err *err)
{
    c->declared = mem_new(c->count, sizeof *c->declared);
    for (size_t j = 0; j < c->count; j++) {
        c->declared[j] = NOT_DECLARED;
        c->roles[j] = CSV_IGNORED;
    }
    int rc = 0;
    for (size_t i = 0; i < spec->column_count && rc == 0; i++) {
        rc = assign_entry(c, path, spec, (uint32_t)i, err);
    }
    bool label = false;
    for (size_t j = 0; j < c->count; j++) {
        label = label || c->roles[j] == CSV_LABEL;
    }
    return rc != 0 || label
               ? rc
               : err_set(err, ERR_INVALID,
                         "%s: no entry of data.columns is the label; give one 'as: label'", path);
}

bool csv_is_declared(const struct csv_columns *c, size_t j)
{
    return c->declared != NULL && c->declared[j] != NOT_DECLARED;
}

enum column_missing csv_column_missing(const struct csv_columns *c, const struct data_spec *spec,
                                       size_t j)
{
    return data_spec_missing(spec, csv_is_declared(c, j) ? &spec->columns[c->declared[j]] : NULL);
}
