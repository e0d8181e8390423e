/* SPDX-License-Identifier: Apache-2.0 */
/* CSV: one record per row, the label in one of the columns. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/cells.h"
#include "data/csv.h"
#include "data/csv_columns.h"
#include "data/format.h"

#define CSV_TEXT_PER_CONTROL 100 /* more control characters than that are no damaged text */
#define CSV_FIRST_RECORDS 256    /* then the arrays double */

/* Text of any encoding that keeps ASCII: hardly any control characters but tab and line ends. */
static void csv_look(const uint8_t *head, size_t n, struct format_look *look)
{
    size_t controls = 0;
    for (size_t i = 0; i < n; i++) {
        controls += head[i] < 0x20 && head[i] != '\t' && head[i] != '\n' && head[i] != '\r';
    }
    look->lines = 1;
    look->fit = controls * CSV_TEXT_PER_CONTROL <= n;
    look->what = "it is text, and not LIBSVM";
}

/* A file on its way into records. */
struct csv_load {
    const struct format_request *request;
    struct csv_columns columns;
    struct records out;
    uint64_t capacity; /* records that fit */
    /* [columns.count] what becomes of missing values; of ignored columns nothing */
    enum column_missing *missing;
    /* Of files without labels: what stands in the place of the label's column. */
    char *label_name, label_cell[2];
    size_t label_at; /* SIZE_MAX: behind all others */
};

/* "iris.csv:3: column 4 ("species"): …", with the cell between the two texts. */
static int cell_error(const struct csv_load *l, const struct csv_row *row, size_t column,
                      const char *before, const char *after, struct err *err)
{
    char cell[64], name[64];
    bool header = l->columns.header;
    (void)cells_mark(row->fields[column], CSV_SHOWN_BYTES, true, cell, sizeof cell);
    (void)cells_mark(l->columns.names[column], CSV_SHOWN_BYTES, true, name, sizeof name);
    return err_set(err, ERR_INVALID, "%s:%" PRIu64 ": column %zu%s%s%s: %s%s%s", l->request->path,
                   row->line, column, header ? " (" : "", header ? name : "", header ? ")" : "",
                   before, cell, after);
}

static int reserve(struct csv_load *l, struct err *err)
{
    struct records *r = &l->out;
    if (r->count < l->capacity) {
        return 0;
    }
    uint64_t n = l->capacity == 0 ? CSV_FIRST_RECORDS : l->capacity * 2;
    const char *where = r->where;
    void *p = records_resize(r->values, n, r->numbers * sizeof *r->values, where, err);
    if (p != NULL) {
        r->values = p;
        p = records_resize(r->places, n, sizeof *r->places, where, err);
    }
    if (p != NULL) {
        r->places = p;
        p = l->request->label_is_class
                ? records_resize(r->label_cells, n, sizeof *r->label_cells, where, err)
                : records_resize(r->labels, n, sizeof *r->labels, where, err);
    }
    if (p != NULL && l->request->label_is_class) {
        r->label_cells = p;
    } else if (p != NULL) {
        r->labels = p;
    }
    if (p != NULL && l->columns.weight != SIZE_MAX) {
        p = records_resize(r->weights, n, sizeof *r->weights, where, err);
        r->weights = p != NULL ? p : r->weights;
    }
    for (size_t k = 0; p != NULL && k < r->category_count; k++) {
        p = records_resize(r->categories[k].cells, n, sizeof(uint32_t), where, err);
        if (p != NULL) {
            r->categories[k].cells = p;
        }
    }
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    l->capacity = n;
    return 0;
}

static int add_label(struct csv_load *l, const struct csv_row *row, size_t column, struct err *err)
{
    struct records *r = &l->out;
    const char *text = row->fields[column];
    if (csv_is_missing_as(CSV_LABEL, l->request->label_is_class, text)) {
        return cell_error(l, row, column, "the label is missing (",
                          "); data.missing: skip leaves such records out", err);
    }
    if (l->request->label_is_class) {
        struct err cause;
        int rc = names_add(&r->label_texts, text, &r->label_cells[r->count], &cause);
        return rc == 0 ? 0
                       : cell_error(l, row, column, "with the label ",
                                    " there are more than 100000 different ones; for real labels "
                                    "set data.label_kind: real",
                                    err);
    }
    double value;
    if (!csv_is_number(text, l->request->spec->decimal, &value)) {
        return cell_error(l, row, column, "the label ",
                          " is not a number; for classes set data.label_kind: class", err);
    }
    r->labels[r->count] = value;
    return 0;
}

static int add_weight(struct csv_load *l, const struct csv_row *row, size_t column, struct err *err)
{
    const char *text = row->fields[column];
    double value;
    if (csv_is_missing_number(text)) {
        return cell_error(l, row, column, "the weight is missing (",
                          "); data.missing: skip leaves such records out", err);
    }
    if (!csv_is_number(text, l->request->spec->decimal, &value) || !records_is_weight(value)) {
        return cell_error(l, row, column, "the weight ", " is no finite number from 0 on", err);
    }
    l->out.weights[l->out.count] = (float)value;
    return 0;
}

/* What is wrong with @text, which is no number. */
static const char *advise_number(const char *text, int decimal)
{
    double value;
    if (decimal == DATA_DECIMAL_POINT && csv_is_number(text, DATA_DECIMAL_COMMA, &value)) {
        return " is not a number; where decimals stand behind a comma, set data.decimal: comma";
    }
    if (decimal == DATA_DECIMAL_COMMA && csv_is_number(text, DATA_DECIMAL_POINT, &value)) {
        return " is not a number, as data.decimal is comma; a point is read with data.decimal: "
               "point";
    }
    return " is not a number; name the column in data.categorical or data.ignore, or as "
           "data.label";
}

static int add_number(struct csv_load *l, const struct csv_row *row, size_t column, float *out,
                      struct err *err)
{
    const int decimal = l->request->spec->decimal;
    double value;
    if (csv_is_number(row->fields[column], decimal, &value)) {
        *out = (float)value;
        return 0;
    }
    if (!csv_is_missing_number(row->fields[column])) {
        return cell_error(l, row, column, "", advise_number(row->fields[column], decimal), err);
    }
    *out = NAN;
    return 0;
}

static int add_category(struct csv_load *l, const struct csv_row *row, size_t column,
                        struct category_column *c, struct err *err)
{
    uint32_t *cell = &c->cells[l->out.count];
    if (csv_is_missing(row->fields[column])) {
        *cell = RECORDS_CATEGORY_NONE;
        return 0;
    }
    struct err cause;
    int rc = names_add(&c->values, row->fields[column], cell, &cause);
    return rc == 0 ? 0
                   : cell_error(l, row, column, "with ",
                                " there are more than 100000 different categories; name the column "
                                "in data.ignore",
                                err);
}

/* Look for missing values that cannot stay: *@skip: the record is to be left out. */
static int check_missing(const struct csv_load *l, const struct csv_row *row, bool *skip,
                         struct err *err)
{
    for (size_t j = 0; j < row->count; j++) {
        enum column_missing policy = l->missing[j];
        if (policy > COLUMN_MISSING_SKIP ||
            !csv_is_missing_as(l->columns.roles[j], l->request->label_is_class, row->fields[j])) {
            continue;
        }
        if (policy == COLUMN_MISSING_SKIP) {
            *skip = true;
            return 0;
        }
        if (j != l->columns.label && j != l->columns.weight) {
            /* the code that adds labels and weights says more when they are missing */
            return cell_error(l, row, j, "the value is missing (",
                              l->columns.declared == NULL
                                  ? "); set data.missing to mean, median, zero or skip"
                                  : "); set missing of the column, or data.missing",
                              err);
        }
    }
    return 0;
}

static int add_cells(struct csv_load *l, const struct csv_row *row, struct err *err)
{
    struct records *r = &l->out;
    float *number = r->values + r->count * r->numbers;
    struct category_column *category = r->categories;
    int rc = 0;
    for (size_t j = 0; rc == 0 && j < row->count; j++) {
        switch (l->columns.roles[j]) {
        case CSV_NUMBER:
            rc = add_number(l, row, j, number++, err);
            break;
        case CSV_CATEGORY:
            rc = add_category(l, row, j, category++, err);
            break;
        case CSV_LABEL:
            rc = add_label(l, row, j, err);
            break;
        case CSV_WEIGHT:
            rc = add_weight(l, row, j, err);
            break;
        case CSV_IGNORED:
            break;
        }
    }
    return rc;
}

static int add_row(struct csv_load *l, const struct csv_row *row, struct err *err)
{
    if (row->count != l->columns.count) {
        return err_set(err, ERR_CORRUPT,
                       "%s:%" PRIu64 ": %zu field%s, expected %zu as in line %" PRIu64,
                       l->request->path, row->line, row->count, row->count == 1 ? "" : "s",
                       l->columns.count, l->columns.first_line);
    }
    bool skip = false;
    int rc = check_missing(l, row, &skip, err);
    if (skip) {
        l->out.skipped++;
        return 0;
    }
    rc = rc != 0 ? rc : reserve(l, err);
    if (rc == 0) {
        rc = add_cells(l, row, err);
    }
    if (rc == 0 && l->columns.id != SIZE_MAX) {
        const char *id = row->fields[l->columns.id];
        buf_add(&l->out.ids, id, strlen(id) + 1);
    }
    if (rc == 0) {
        l->out.places[l->out.count++] = (struct place){.number = (uint32_t)row->line};
    }
    return rc;
}

/* Prepare empty records for the columns. */
static void begin(struct csv_load *l)
{
    const struct csv_columns *c = &l->columns;
    struct records *r = &l->out;
    r->where = mem_strdup(l->request->path);
    r->numbers = c->numbers;
    r->shape = (struct shape){.rank = 1, .dims = {c->numbers}};
    r->named = c->header;
    r->by_line = true;
    r->columns = mem_new(c->numbers, sizeof *r->columns);
    r->categories = mem_new(c->categories, sizeof *r->categories);
    r->declared =
        c->declared == NULL ? NULL : mem_new(c->numbers + c->categories, sizeof(uint32_t));
    l->missing = mem_new(c->count, sizeof *l->missing);
    size_t number = 0;
    for (size_t j = 0; j < c->count; j++) {
        l->missing[j] = c->roles[j] == CSV_IGNORED ? COLUMN_MISSING_OWN
                                                   : csv_column_missing(c, l->request->spec, j);
        size_t entry = c->numbers + r->category_count;
        if (c->roles[j] == CSV_NUMBER) {
            entry = number;
            r->columns[number++] = mem_strdup(c->names[j]);
        } else if (c->roles[j] == CSV_CATEGORY) {
            struct category_column *category = &r->categories[r->category_count++];
            category->name = mem_strdup(c->names[j]);
            category->values.limit = c->declared == NULL ? 0 : RECORDS_CELLS_MAX;
        } else {
            continue;
        }
        if (c->declared != NULL) {
            r->declared[entry] = c->declared[j];
        }
    }
}

static int leave_out(struct csv_load *l, bool possible, int rc, const struct err *cause,
                     struct err *err)
{
    uint64_t allowed = possible ? (uint64_t)l->request->spec->bad_records : 0;
    return records_leave_out(&l->out, l->request->bad_had, allowed, rc, cause, err);
}

/* Checks whether a file that should have no labels has the column all the same. */
static int check_unlabelled(const struct csv_load *l, const struct csv_row *row, const char *label,
                            struct err *err)
{
    for (size_t j = 0; j < row->count; j++) {
        if (strcmp(row->fields[j], label) == 0) {
            char shown[64];
            return err_set(err, ERR_INVALID,
                           "%s: column %zu is %s, the label, but the file is said to have none",
                           l->request->path, j, csv_quote(label, shown, sizeof shown));
        }
    }
    return 0;
}

/* Of a file without labels: where its column would be. A name is behind all others. */
static int place_label(struct csv_load *l, const struct csv_row *row, bool header, struct err *err)
{
    const struct data_spec *spec = l->request->spec;
    const char *label = spec->label;
    int64_t number;
    for (size_t i = 0; i < spec->column_count; i++) {
        label = spec->columns[i].as == COLUMN_LABEL ? spec->columns[i].column : label;
    }
    l->label_at = SIZE_MAX;
    l->label_cell[0] = '0';
    if (text_to_int(label, &number)) {
        l->label_name = mem_strdup("label");
        const int64_t all = (int64_t)row->count + 1;
        number = number < 0 ? number + all : number;
        l->label_at = number >= 0 && number < all ? (size_t)number : SIZE_MAX;
        return 0;
    }
    l->label_name = mem_strdup(label);
    return header ? check_unlabelled(l, row, label, err) : 0;
}

/* The next row that can be read, without those that are left out. */
static int next_row(struct csv_load *l, struct csv *file, const struct csv_row **row,
                    struct err *err)
{
    for (;;) {
        struct err cause = {0};
        int rc = csv_next(file, row, &cause);
        const bool unlabelled = l->request->spec->unlabelled;
        if (rc == 0 && *row != NULL && l->request->spec->short_rows == DATA_SHORT_ROWS_MISSING) {
            csv_pad(file, l->columns.count - unlabelled);
        }
        if (rc == 0) {
            if (*row != NULL && unlabelled) {
                csv_insert(file, l->label_at, l->label_cell);
            }
            return 0;
        }
        rc = leave_out(l, csv_recover(file), rc, &cause, err);
        if (rc != 0) {
            return rc;
        }
    }
}

static int add_rows(struct csv_load *l, struct csv *file, const struct csv_row *row,
                    struct err *err)
{
    uint64_t limit = l->request->limit;
    int rc = 0;
    while (rc == 0 && row != NULL && (limit == 0 || l->out.count < limit)) {
        struct err cause = {0};
        rc = add_row(l, row, &cause);
        if (rc != 0) {
            rc = leave_out(l, true, rc, &cause, err);
        }
        if (rc == 0) {
            rc = next_row(l, file, &row, err);
        }
    }
    const bool nothing = l->out.bad_count == 0 && l->out.skipped == 0;
    if (l->request->part != NULL || (nothing && l->request->may_be_empty)) {
        return rc;
    }
    if (rc == 0 && l->out.count == 0 && l->out.bad_count > 0) {
        rc = err_set(err, ERR_INVALID, "%s: no records: all %" PRIu64 " lines are bad, such as %s",
                     l->request->path, l->out.bad_count, l->out.bad_first);
    } else if (rc == 0 && l->out.count == 0) {
        rc = l->out.skipped > 0
                 ? err_set(err, ERR_INVALID,
                           "%s: no records: all %" PRIu64 " lack a value and data.missing is skip",
                           l->request->path, l->out.skipped)
                 : err_set(err, ERR_INVALID, "%s: a header line and no records", l->request->path);
    }
    return rc;
}

/* Learn the columns from the first row of @file, which is NULL of an empty file that may be one. */
static int read_columns(struct csv_load *l, struct csv *file, bool header,
                        const struct csv_row **first, struct err *err)
{
    const struct csv_row *row;
    int rc = csv_next(file, &row, err);
    *first = row;
    if (rc == 0 && row == NULL) {
        return l->request->may_be_empty
                   ? 0
                   : err_set(err, ERR_INVALID, "%s: the file is empty", l->request->path);
    }
    const bool unlabelled = l->request->spec->unlabelled;
    if (rc == 0 && !header && l->request->spec->short_rows == DATA_SHORT_ROWS_MISSING) {
        const size_t least = csv_columns_least(l->request->spec);
        csv_pad(file, least - (least > 0 && unlabelled));
    }
    rc = rc == 0 && unlabelled ? place_label(l, row, header, err) : rc;
    if (rc == 0 && unlabelled) {
        csv_insert(file, l->label_at, header ? l->label_name : l->label_cell);
    }
    if (rc == 0) {
        rc = csv_columns_init(&l->columns, l->request->path, row, header,
                              data_spec_weights(l->request->spec, l->request->key),
                              l->request->spec, err);
    }
    if (rc == 0) {
        begin(l);
    }
    return rc;
}

static int read_file(struct csv_load *l, char separator, bool header, struct err *err)
{
    struct csv *file = NULL;
    const struct csv_row *row;
    int rc = csv_open(l->request->path, l->request->spec->roots, separator, &file, err);
    rc = rc != 0 ? rc : read_columns(l, file, header, &row, err);
    const bool empty = rc == 0 && row == NULL;
    if (rc == 0 && header && !empty) {
        rc = next_row(l, file, &row, err);
    }
    rc = rc != 0 || empty ? rc : add_rows(l, file, row, err);
    csv_close(file);
    return rc;
}

/* Reads all rows of a part, whose columns the first row of the file says. */
static int read_part(struct csv_load *l, char separator, bool header, struct err *err)
{
    const struct format_part *part = l->request->part;
    struct csv *first = NULL, *file = NULL;
    const struct csv_row *row;
    csv_of_bytes(l->request->path, part->first_row, part->first_row_bytes, part->first_row_line,
                 separator, &first);
    csv_of_bytes(l->request->path, part->bytes, part->count, part->line, separator, &file);
    int rc = read_columns(l, first, header, &row, err);
    rc = rc != 0 ? rc : next_row(l, file, &row, err);
    rc = rc != 0 ? rc : add_rows(l, file, row, err);
    csv_close(first);
    csv_close(file);
    return rc;
}

static int csv_read(const struct format_request *q, struct records *out, struct err *err)
{
    if (q->labels_path[0] != '\0') {
        return err_set(
            err, ERR_INVALID,
            "data.%s.labels is set, but a CSV file has its labels in a column (data.label)",
            q->key);
    }
    char separator = ',';
    bool header = false;
    int rc = csv_separator(q->spec->separator, &separator, err);
    if (rc == 0) {
        rc = csv_has_header(q->path, separator, q->spec, &header, err);
    }
    if (rc != 0) {
        return rc;
    }
    struct csv_load load = {.request = q};
    rc = q->part != NULL ? read_part(&load, separator, header, err)
                         : read_file(&load, separator, header, err);
    csv_columns_release(&load.columns);
    free(load.missing);
    free(load.label_name);
    if (rc == 0) {
        *out = load.out;
    } else {
        records_release(&load.out);
    }
    return rc;
}

const struct format format_csv = {
    .name = "csv", .parts = true, .weights = true, .look = csv_look, .read = csv_read};
