/* SPDX-License-Identifier: Apache-2.0 */
/* Reads ranges of names, and declares a sparse field for each name. */
#include "data/column_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/csv_columns.h"
#include "data/labelled_lines.h"

/* The place in the @n bytes where the digits at their end begin. */
static size_t digits_begin(const char *text, size_t n)
{
    while (n > 0 && text[n - 1] >= '0' && text[n - 1] <= '9') {
        n--;
    }
    return n;
}

int column_range_read(const char *text, struct column_range *out, struct err *err)
{
    const char *dots = strstr(text, "..");
    *out = (struct column_range){.first = 0};
    if (dots == NULL) {
        out->prefix = mem_strdup(text);
        return 0;
    }
    const size_t from = (size_t)(dots - text), a = digits_begin(text, from);
    const char *to = dots + 2;
    const size_t b = digits_begin(to, strlen(to));
    const char *p = text + a, *q = to + b;
    char shown[64];
    if (a != b || memcmp(text, to, a) != 0 || !labelled_lines_number(&p, &out->first) ||
        !labelled_lines_number(&q, &out->last)) {
        return err_set(err, ERR_INVALID, "%s is no range; expected one such as C1..C26 or 0..38",
                       csv_quote(text, shown, sizeof shown));
    }
    if (out->last < out->first || out->last - out->first >= COLUMN_RANGE_MAX) {
        return err_set(err, ERR_INVALID, "%s is no range of 1 to %u names",
                       csv_quote(text, shown, sizeof shown), COLUMN_RANGE_MAX);
    }
    out->prefix = mem_printf("%.*s", (int)a, text);
    out->several = true;
    return 0;
}

char *column_range_name(const struct column_range *r, uint64_t number)
{
    return r->several ? mem_printf("%s%" PRIu64, r->prefix, number) : mem_strdup(r->prefix);
}

void column_range_release(struct column_range *r)
{
    free(r->prefix);
    *r = (struct column_range){0};
}

enum sparse_fold column_fields_fold(const struct data_column *c)
{
    return c->hash == COLUMN_HASH_NONE    ? SPARSE_FOLD_NONE
           : c->hash == COLUMN_HASH_FNV1A ? SPARSE_FOLD_FNV1A
                                          : SPARSE_FOLD_XXH3;
}

int column_fields_check_numbers(const struct data_column *c, size_t entry, const char *path,
                                const char *format, struct err *err)
{
    if ((c->vocabulary == NULL || c->vocabulary[0] == '\0') &&
        (c->vocabulary_file == NULL || c->vocabulary_file[0] == '\0')) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "%s: data.columns.%zu: the keys of a %s file are numbers already; allowed: "
                   "no vocabulary",
                   path, entry, format);
}

static int check_entry(const struct data_column *c, size_t entry, const char *path,
                       const char *format, struct err *err)
{
    if (c->as != COLUMN_SPARSE && c->as != COLUMN_IGNORE) {
        return err_set(err, ERR_INVALID,
                       "%s: data.columns.%zu.as: what a %s file has beside the label are keys; "
                       "allowed: sparse or ignore",
                       path, entry, format);
    }
    return column_fields_check_numbers(c, entry, path, format, err);
}

int column_fields_only(const struct format_request *q, const char *format,
                       struct sparse_fields *out, struct err *err)
{
    const struct data_column *c = q->spec->columns;
    if (q->spec->column_count != 1 || c->as != COLUMN_SPARSE) {
        return err_set(err, ERR_INVALID,
                       "%s: a %s file has no columns to declare; data.columns may have one entry "
                       "with 'as: sparse', a name for all of its features as one field of keys",
                       q->path, format);
    }
    int rc = check_entry(c, 0, q->path, format, err);
    out->weighted = true;
    return rc != 0 ? rc
                   : sparse_fields_declare(out, c->column, (uint32_t)c->width,
                                           column_fields_fold(c), q->path, err);
}

static int declare_number(const struct format_request *q, size_t entry, uint64_t number,
                          struct sparse_fields *out, struct column_numbers *numbers,
                          struct err *err)
{
    const struct data_column *c = &q->spec->columns[entry];
    while (numbers->count <= number) {
        numbers->fields = mem_resize(numbers->fields, numbers->count + 1, sizeof *numbers->fields);
        numbers->fields[numbers->count++] = COLUMN_NOT_DECLARED;
    }
    uint32_t *field = &numbers->fields[number];
    if (*field != COLUMN_NOT_DECLARED) {
        return err_set(err, ERR_INVALID,
                       "%s: data.columns.%zu.column means field %" PRIu64
                       ", which an entry before declares already",
                       q->path, entry, number);
    }
    if (c->as == COLUMN_IGNORE) {
        return 0;
    }
    char name[24];
    *field = (uint32_t)out->count;
    (void)snprintf(name, sizeof name, "%" PRIu64, number);
    return sparse_fields_declare(out, name, (uint32_t)c->width, column_fields_fold(c), q->path,
                                 err);
}

static int declare_numbers(const struct format_request *q, const char *format, size_t entry,
                           struct sparse_fields *out, struct column_numbers *numbers,
                           struct err *err)
{
    const struct data_column *c = &q->spec->columns[entry];
    struct column_range range = {0};
    struct err cause = {0};
    int rc = check_entry(c, entry, q->path, format, err);
    if (rc != 0) {
        return rc;
    }
    rc = column_range_read(c->column, &range, &cause);
    const char *p = range.prefix;
    if (rc == 0 && !range.several && labelled_lines_number(&p, &range.first) && *p == '\0') {
        range.prefix[0] = '\0';
        range.last = range.first;
    }
    if (rc == 0 && (range.prefix[0] != '\0' || range.last >= COLUMN_RANGE_MAX)) {
        char shown[64];
        rc = err_set(&cause, ERR_INVALID, "%s is no field; fields of %s are numbers below %u",
                     csv_quote(c->column, shown, sizeof shown), format, COLUMN_RANGE_MAX);
    }
    if (rc != 0) {
        rc = err_set(err, rc, "%s: data.columns.%zu.column: %s", q->path, entry, cause.msg);
    }
    for (uint64_t i = range.first; i <= range.last && rc == 0; i++) {
        rc = declare_number(q, entry, i, out, numbers, err);
    }
    column_range_release(&range);
    return rc;
}

int column_fields_numbered(const struct format_request *q, const char *format,
                           struct sparse_fields *out, struct column_numbers *numbers,
                           struct err *err)
{
    int rc = 0;
    out->weighted = true;
    for (size_t i = 0; i < q->spec->column_count && rc == 0; i++) {
        rc = declare_numbers(q, format, i, out, numbers, err);
    }
    if (rc == 0 && out->count == 0) {
        rc = err_set(err, ERR_INVALID,
                     "%s: a %s file has sparse fields; declare them in data.columns, such as "
                     "{column: 0..38, as: sparse, width: 100}",
                     q->path, format);
    }
    return rc;
}
