/* SPDX-License-Identifier: Apache-2.0 */
/* Criteo's clicks: lines of 40 fields between tabs, the label, the counts I1 to I13 and the
 * categories C1 to C26, which are hexadecimal numbers. Any of them but the label may be empty, and
 * empty ones at the end may be cut (data.short_rows).
 *
 *   0\t1\t\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t68fd1e64\t80e26c9b\t…
 *
 * data.columns declares the fields by these names, or by numbers from 0. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/column_fields.h"
#include "data/csv_columns.h"
#include "data/decimal.h"
#include "data/labelled_lines.h"

#define FIELDS 40
#define COUNTS 13
#define HEX_DIGITS_MAX 16
#define LOOK_FIELDS_MIN 20 /* fewer are not taken for a line that was cut */
#define LOOK_HEX_DIGITS 8

/* A file on its way into records. */
struct criteo_load {
    struct labelled_lines lines;
    struct csv_columns columns;
    enum column_missing missing[FIELDS];
    /* of each field: its place among the numbers, or among the sparse fields */
    uint32_t places[FIELDS];
    bool sparse[FIELDS];
    uint64_t values_capacity;
    struct sparse_draft draft; /* of the record in hand */
};

/* The hexadecimal number of up to 16 digits at *@p, which is moved behind it. */
static bool read_hex(const char **p, uint64_t *value)
{
    const char *c = *p;
    uint64_t n = 0;
    for (; c - *p < HEX_DIGITS_MAX; c++) {
        unsigned digit = *c >= '0' && *c <= '9'   ? (unsigned)(*c - '0')
                         : *c >= 'a' && *c <= 'f' ? (unsigned)(*c - 'a') + 10
                         : *c >= 'A' && *c <= 'F' ? (unsigned)(*c - 'A') + 10
                                                  : 16;
        if (digit == 16) {
            break;
        }
        n = n << 4 | digit;
    }
    bool any = c > *p;
    *p = c;
    *value = n;
    return any;
}

/* A whole number, with or without a sign, as 64 bits. */
static bool read_count(const char **p, uint64_t *value)
{
    bool negative = **p == '-';
    *p += negative;
    bool read = labelled_lines_number(p, value) && *value <= (uint64_t)INT64_MAX;
    *value = negative ? 0 - *value : *value;
    return read;
}

static bool ends(const char *p)
{
    return *p == '\t' || *p == '\0';
}

/* Take the field @j at *@p, which is not empty and is moved behind it. */
static int add_value(struct criteo_load *l, size_t j, const char **p, struct err *err)
{
    struct records *r = &l->lines.out;
    const char *cell = *p;
    double number;
    uint64_t key;
    if (!l->sparse[j]) {
        if (!decimal_read(cell, &number, p) || !ends(*p) || fabs(number) > (double)FLT_MAX) {
            return labelled_lines_error(&l->lines, cell, "is no number", err);
        }
        r->values[r->count * r->numbers + l->places[j]] = (float)number;
        return 0;
    }
    bool read = j <= COUNTS ? read_count(p, &key) : read_hex(p, &key);
    if (!read || !ends(*p)) {
        return labelled_lines_error(&l->lines, cell,
                                    j <= COUNTS ? "is no whole number"
                                                : "is no category; expected a hexadecimal number "
                                                  "of up to 16 digits",
                                    err);
    }
    return sparse_draft_add(&l->draft, l->places[j], key, 1, err);
}

static int add_missing(struct criteo_load *l, size_t j, const char *p, struct err *err)
{
    struct records *r = &l->lines.out;
    if (l->missing[j] == COLUMN_MISSING_SKIP) {
        l->lines.skip = true;
    } else if (l->missing[j] == COLUMN_MISSING_ERROR) {
        return err_set(err, ERR_INVALID,
                       "%s:%" PRIu64 ":%zu: %s is missing; set missing of the column, or "
                       "data.missing",
                       l->lines.request->path, l->lines.line.number,
                       (size_t)(p - l->lines.line.text) + 1, l->columns.names[j]);
    } else if (!l->sparse[j]) {
        r->values[r->count * r->numbers + l->places[j]] = NAN;
    }
    return 0;
}

static int check_end(const struct criteo_load *l, size_t fields, size_t expected, const char *p,
                     struct err *err)
{
    bool padded = l->lines.request->spec->short_rows == DATA_SHORT_ROWS_MISSING;
    if (*p == '\0' && (fields == expected || padded)) {
        return 0;
    }
    return err_set(err, ERR_INVALID, "%s:%" PRIu64 ": %s%zu fields, expected %zu%s",
                   l->lines.request->path, l->lines.line.number, *p == '\0' ? "" : "more than ",
                   fields, expected,
                   *p == '\0' ? "; data.short_rows: missing takes those at the end as empty" : "");
}

/* The fields behind the label. */
static int add_fields(struct criteo_load *l, const char *p, struct err *err)
{
    int rc = 0;
    const bool unlabelled = l->lines.request->spec->unlabelled;
    size_t given = 1; /* the label, or the first count of a line without one */
    for (size_t j = 1; j < FIELDS && rc == 0; j++) {
        if (*p == '\t' && !(j == 1 && unlabelled)) {
            p++;
            given++;
        }
        bool used = l->columns.roles[j] != CSV_IGNORED;
        if (used && ends(p)) {
            rc = add_missing(l, j, p, err);
        } else if (used) {
            rc = add_value(l, j, &p, err);
        } else {
            p += strcspn(p, "\t");
        }
    }
    return rc != 0 ? rc : check_end(l, given, FIELDS - unlabelled, p, err);
}

/* A line that cannot be read and has a field less than all: it lacks the label, as those of
 * Criteo's test file do, and everything stands one place further left. */
static int say_unlabelled(const struct criteo_load *l, const char *label, int rc, struct err *err)
{
    size_t fields = 1;
    for (const char *p = label; (p = strchr(p, '\t')) != NULL; p++) {
        fields++;
    }
    return fields != FIELDS - 1 || l->lines.request->spec->unlabelled
               ? rc
               : err_set(err, ERR_INVALID,
                         "%s:%" PRIu64 ": %zu fields, expected %d: the label is missing, as in "
                         "Criteo's test file; such records can be predicted (--unlabelled), not "
                         "trained with or evaluated",
                         l->lines.request->path, l->lines.line.number, fields, FIELDS);
}

/* The line in hand as one more record. */
static int add_record(void *load, const char *p, struct err *err)
{
    struct criteo_load *l = load;
    struct records *r = &l->lines.out;
    const char *label = p;
    l->draft.count = 0;
    if (r->numbers > 0) {
        void *values = records_grow(r->values, &l->values_capacity, (r->count + 1) * r->numbers,
                                    sizeof *r->values, r->where, err);
        if (values == NULL) {
            return ERR_EXHAUSTED;
        }
        r->values = values;
    }
    int rc = labelled_lines_label(&l->lines, &p, err);
    if (rc == 0 && !ends(p) && !l->lines.request->spec->unlabelled) {
        rc = labelled_lines_error(&l->lines, label, "is followed by a blank; expected a tab", err);
    }
    rc = rc != 0 ? rc : add_fields(l, p, err);
    if (rc != 0 || l->lines.skip || r->fields.count == 0) {
        return rc == ERR_INVALID ? say_unlabelled(l, label, rc, err) : rc;
    }
    (void)sparse_draft_sort(&l->draft, true); /* a list of one key is sorted */
    return sparse_fields_add(&r->fields, &l->draft, r->where, err);
}

/* Checks what entry @c may say of field @j. */
static int check_field(const struct criteo_load *l, size_t j, const struct data_column *c,
                       struct err *err)
{
    const char *allowed = j == 0        ? "label"
                          : j <= COUNTS ? "number, sparse or ignore"
                                        : "sparse or ignore";
    bool fits = c->as == COLUMN_IGNORE ||
                (j == 0 ? c->as == COLUMN_LABEL
                        : c->as == COLUMN_SPARSE || (j <= COUNTS && c->as == COLUMN_NUMBER));
    if (!fits || (j == 0 && c->as == COLUMN_IGNORE)) {
        return err_set(err, ERR_INVALID,
                       "%s: data.columns.%u.as: this is not what %s of a Criteo file can be; "
                       "allowed: %s ('format: csv' with 'separator: tab' makes other features)",
                       l->lines.request->path, (unsigned)l->columns.declared[j],
                       l->columns.names[j], allowed);
    }
    return c->as != COLUMN_SPARSE
               ? 0
               : column_fields_check_numbers(c, l->columns.declared[j], l->lines.request->path,
                                             "Criteo", err);
}

/* Give each field its place. */
static int place_fields(struct criteo_load *l, struct err *err)
{
    const struct data_spec *spec = l->lines.request->spec;
    struct records *r = &l->lines.out;
    r->declared = mem_new(FIELDS, sizeof *r->declared);
    r->columns = mem_new(FIELDS, sizeof *r->columns);
    int rc = 0;
    for (size_t j = 0; j < FIELDS && rc == 0; j++) {
        if (l->columns.declared[j] == COLUMN_NOT_DECLARED) {
            continue;
        }
        const struct data_column *c = &spec->columns[l->columns.declared[j]];
        rc = check_field(l, j, c, err);
        l->missing[j] = csv_column_missing(&l->columns, spec, j);
        l->sparse[j] = c->as == COLUMN_SPARSE;
        if (rc == 0 && l->sparse[j]) {
            l->places[j] = (uint32_t)r->fields.count;
            rc = sparse_fields_declare(&r->fields, l->columns.names[j], (uint32_t)c->width,
                                       column_fields_fold(c), l->lines.request->path, err);
        } else if (rc == 0 && c->as == COLUMN_NUMBER) {
            l->places[j] = (uint32_t)r->numbers;
            r->declared[r->numbers] = l->columns.declared[j];
            r->columns[r->numbers++] = mem_strdup(l->columns.names[j]);
        }
    }
    r->shape = (struct shape){.rank = 1, .dims = {r->numbers}};
    return rc;
}

/* Applies data.columns, as to a CSV file with a header line. */
static int find_columns(struct criteo_load *l, struct err *err)
{
    const struct format_request *q = l->lines.request;
    if (q->spec->column_count == 0) {
        return err_set(err, ERR_INVALID,
                       "%s: a Criteo file has counts and sparse fields; declare in data.columns "
                       "what becomes of label, I1..I13 and C1..C26",
                       q->path);
    }
    char *names[FIELDS];
    names[0] = mem_strdup("label");
    for (int j = 1; j < FIELDS; j++) {
        names[j] = j <= COUNTS ? mem_printf("I%d", j) : mem_printf("C%d", j - COUNTS);
    }
    const struct csv_row header = {.fields = names, .count = FIELDS};
    int rc = csv_columns_init(&l->columns, q->path, &header, true, false, q->spec, err);
    for (int j = 0; j < FIELDS; j++) {
        free(names[j]);
    }
    return rc != 0 ? rc : place_fields(l, err);
}

static int criteo_read(const struct format_request *q, struct records *out, struct err *err)
{
    struct criteo_load load = {.lines = {.request = q}};
    int rc = labelled_lines_check(q, "Criteo", err);
    rc = rc != 0 ? rc : find_columns(&load, err);
    rc = rc != 0 ? rc : labelled_lines_read(&load.lines, add_record, &load, err);
    csv_columns_release(&load.columns);
    sparse_draft_release(&load.draft);
    if (rc != 0) {
        records_release(&load.lines.out);
        return rc;
    }
    *out = load.lines.out;
    return 0;
}

/* True if the line looks like a record: its categories have eight digits, and there is at least
 * one. */
static bool looks_like_record(const char *p)
{
    size_t fields = 0, categories = 0;
    uint64_t value;
    for (;; p++) {
        const char *begin = p;
        bool count = fields <= COUNTS, empty = ends(p);
        if (fields >= FIELDS || (empty && fields == 0) ||
            (!empty && !(count ? read_count(&p, &value) : read_hex(&p, &value)))) {
            return false;
        }
        if (!ends(p) || (!empty && !count && p - begin != LOOK_HEX_DIGITS)) {
            return false;
        }
        categories += !count && !empty;
        fields++;
        if (*p == '\0') {
            return fields >= LOOK_FIELDS_MIN && categories > 0;
        }
    }
}

static void criteo_look(const uint8_t *head, size_t n, struct format_look *look)
{
    char *text = mem_new(n + 1, 1);
    memcpy(text, head, n);
    bool cut = n == FORMAT_HEAD_BYTES;
    for (char *line = text; *line != '\0' && look->lines < FORMAT_LOOK_LINES;) {
        char *end = line + strcspn(line, "\n");
        bool last = *end == '\0';
        if (last && cut && look->lines > 0) {
            break;
        }
        *end = '\0';
        line[strcspn(line, "\r")] = '\0';
        look->fit += looks_like_record(line);
        look->lines++;
        line = last ? end : end + 1;
    }
    look->what = "are a label, 13 counts and 26 hexadecimal categories between tabs";
    free(text);
}

const struct format format_criteo = {
    .name = "criteo", .parts = true, .look = criteo_look, .read = criteo_read};
