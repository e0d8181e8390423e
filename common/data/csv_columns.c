/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what each column of a CSV file is, by the `data` section of the job. Whether there is
 * a header is a guess unless the job says so: words in the first row above a column of numbers, or,
 * where all is words, words that no row below has in that column though their words repeat. */
#include "data/csv_columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"
#include "data/csv_declared.h"
#include "data/names.h"

#define CSV_HEADER_ROWS 100 /* rows that are compared with a possible header */

int csv_separator(const char *text, char *separator, struct err *err)
{
    static const struct {
        const char *name;
        char byte;
    } words[] = {{"tab", '\t'}, {"\\t", '\t'}, {"space", CSV_BLANKS}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i].name) == 0) {
            *separator = words[i].byte;
            return 0;
        }
    }
    unsigned char c = (unsigned char)text[0];
    if (strlen(text) != 1 || (c < 0x20 && c != '\t') || c >= 0x7F || strchr("\".+-0123456789", c)) {
        char shown[64];
        return err_set(err, ERR_INVALID,
                       "data.separator is %s; allowed are one ASCII character that no number "
                       "contains, \"tab\" and \"space\"",
                       csv_quote(text, shown, sizeof shown));
    }
    *separator = text[0];
    return 0;
}

/* What one column looks like, to find out whether there is a header. */
struct column_look {
    bool first_number, first_missing;
    bool rest_values, rest_words; /* below: some cell has a value; some cell is not a number */
    struct names texts;           /* the first, and those below that differ */
    bool first_again;             /* below, too */
    size_t cells;                 /* below, with a value */
};

/* The words of a column look like categories: each stands there twice on the average. */
static bool looks_repeat(const struct column_look *look)
{
    return look->cells >= 4 && (look->texts.count - 1) * 2 <= look->cells;
}

/* Is the first row a header above columns of words alone? Its words are none of theirs. */
static bool looks_named(const struct column_look *looks, size_t count)
{
    bool repeat = false;
    for (size_t j = 0; j < count; j++) {
        if (looks[j].first_again || looks[j].texts.count < 2) {
            return false;
        }
        repeat = repeat || looks_repeat(&looks[j]);
    }
    return repeat;
}

static bool is_column_number(const char *text)
{
    int64_t number;
    return text_to_int(text, &number);
}

static int look_below(struct csv *c, int decimal, struct column_look *looks, size_t count,
                      bool *header, struct err *err)
{
    size_t rows = 0;
    for (; rows < CSV_HEADER_ROWS; rows++) {
        const struct csv_row *row;
        struct err failure = {0};
        int rc = csv_next(c, &row, &failure);
        if (rc != 0 && csv_recover(c)) {
            continue; /* bad rows are not judged here: the reader of records reports them, or leaves
                         them out */
        }
        if (rc != 0) {
            return err_set(err, rc, "%s", failure.msg);
        }
        if (row == NULL) {
            break;
        }
        for (size_t j = 0; j < count && j < row->count; j++) {
            double value;
            const bool missing = csv_is_missing(row->fields[j]);
            const bool no_number = csv_is_missing_number(row->fields[j]);
            uint32_t number = 0;
            looks[j].rest_values |= !no_number;
            looks[j].cells += !missing;
            if (!missing && names_add(&looks[j].texts, row->fields[j], &number, NULL) == 0) {
                looks[j].first_again |= number == 0;
            }
            looks[j].rest_words |= !no_number && !csv_is_number(row->fields[j], decimal, &value);
        }
    }
    bool all_words = true;
    for (size_t j = 0; j < count; j++) {
        const struct column_look *k = &looks[j];
        bool word = !k->first_number && !k->first_missing;
        all_words = all_words && word;
        *header = *header || (word && k->rest_values && !k->rest_words);
    }
    *header = *header || (all_words && (rows == 0 || looks_named(looks, count)));
    return 0;
}

/* True if @name is the column of data.weight. */
static bool means_weight(const struct data_spec *spec, const char *name)
{
    const char *weight = spec->weight == NULL ? "" : spec->weight;
    return weight[0] != '\0' && !is_column_number(weight) && strcmp(name, weight) == 0;
}

int csv_has_header(const char *path, char separator, const struct data_spec *spec, bool *header,
                   struct err *err)
{
    if (spec->header != DATA_HEADER_AUTO) {
        *header = spec->header == DATA_HEADER_TRUE;
        return 0;
    }
    if (csv_declared_names(spec)) {
        *header = true;
        return 0;
    }
    struct csv *c = NULL;
    struct column_look *looks = NULL;
    const struct csv_row *row = NULL;
    int rc = csv_open(path, spec->roots, separator, &c, err);
    if (rc == 0) {
        rc = csv_next(c, &row, err);
    }
    bool found = false;
    if (rc == 0 && row != NULL) {
        size_t count = row->count;
        looks = mem_new(count, sizeof *looks);
        for (size_t j = 0; j < count; j++) {
            double value;
            uint32_t number;
            (void)names_add(&looks[j].texts, row->fields[j], &number, NULL);
            looks[j].first_number = csv_is_number(row->fields[j], spec->decimal, &value);
            looks[j].first_missing = csv_is_missing_number(row->fields[j]);
            found = found ||
                    (!is_column_number(spec->label) && strcmp(row->fields[j], spec->label) == 0) ||
                    means_weight(spec, row->fields[j]);
        }
        rc = look_below(c, spec->decimal, looks, count, &found, err);
        for (size_t j = 0; j < count; j++) {
            names_release(&looks[j].texts);
        }
    }
    free(looks);
    csv_close(c);
    if (rc == 0) {
        *header = found;
    }
    return rc;
}

static int assign(struct csv_columns *c, const char *path, const char *key, const char *item,
                  enum csv_role role, struct err *err)
{
    size_t column = 0;
    char shown[64];
    int rc = csv_columns_find(c, path, key, item, &column, err);
    if (rc == 0 && c->roles[column] != CSV_NUMBER && c->roles[column] != role) {
        rc = err_set(err, ERR_INVALID, "%s: %s names column %s, which is %s already", path, key,
                     csv_quote(item, shown, sizeof shown),
                     c->roles[column] == CSV_LABEL    ? "the label"
                     : c->roles[column] == CSV_WEIGHT ? "the weight"
                                                      : "categorical");
    }
    if (rc == 0) {
        c->roles[column] = role;
    }
    return rc;
}

/* Give every column of @list, the value of the key @key, the role. */
static int assign_list(struct csv_columns *c, const char *path, const char *key, const char *list,
                       enum csv_role role, struct err *err)
{
    struct field_texts items = {0};
    int rc = 0;
    if (!field_texts_read_commas(list == NULL ? "" : list, &items)) {
        return err_set(err, ERR_INVALID, "%s: this is no list of columns: %s", key, list);
    }
    for (size_t i = 0; i < items.count && rc == 0; i++) {
        rc = items.items[i][0] == '\0' ? 0 : assign(c, path, key, items.items[i], role, err);
    }
    field_texts_release(&items);
    return rc;
}

static bool is_among(const struct csv_columns *c, const char *name)
{
    for (size_t j = 0; c->header && j < c->count; j++) {
        if (strcmp(c->names[j], name) == 0) {
            return true;
        }
    }
    return false;
}

/* By data.weight; a name need not be among the columns where records need no weights. */
static int assign_weight(struct csv_columns *c, const char *path, enum data_weights weights,
                         const struct data_spec *spec, struct err *err)
{
    const char *text = spec->weight;
    size_t column = 0;
    char shown[64];
    if (text == NULL || text[0] == '\0' ||
        (weights != DATA_WEIGHTS_REQUIRED && !is_column_number(text) && !is_among(c, text))) {
        return 0;
    }
    int rc = csv_columns_find(c, path, "data.weight", text, &column, err);
    if (rc == 0 && c->roles[column] == CSV_LABEL) {
        return err_set(err, ERR_INVALID, "%s: data.weight names column %s, which is the label",
                       path, csv_quote(text, shown, sizeof shown));
    }
    if (rc == 0 && csv_is_declared(c, column)) {
        return err_set(err, ERR_INVALID,
                       "%s: data.weight names column %s, which data.columns.%u declares", path,
                       csv_quote(text, shown, sizeof shown), (unsigned)c->declared[column]);
    }
    if (rc == 0) {
        const bool read = weights != DATA_WEIGHTS_NONE;
        c->roles[column] = read ? CSV_WEIGHT : CSV_IGNORED;
        c->weight = read ? column : SIZE_MAX;
    }
    return rc;
}

/* By data.label, data.weight, data.categorical and data.ignore. */
static int assign_keys(struct csv_columns *c, const char *path, enum data_weights weights,
                       const struct data_spec *spec, struct err *err)
{
    int rc = csv_columns_find(c, path, "data.label", spec->label, &c->label, err);
    if (rc != 0 && spec->weightless && !spec->unlabelled) {
        return err_set(err, rc, "%s; if these records have no labels, give --unlabelled", err->msg);
    }
    if (rc != 0) {
        return rc;
    }
    c->roles[c->label] = CSV_LABEL;
    rc = assign_weight(c, path, weights, spec, err);
    if (rc != 0) {
        return rc;
    }
    rc = assign_list(c, path, "data.categorical", spec->categorical, CSV_CATEGORY, err);
    if (rc == 0) {
        rc = assign_list(c, path, "data.ignore", spec->ignore, CSV_IGNORED, err);
    }
    return rc;
}

/* Gives the column of ids its role; a column that the model does not know is no feature. */
static int assign_id(struct csv_columns *c, const char *path, const struct data_spec *spec,
                     struct err *err)
{
    int rc = csv_columns_find(c, path, "--id", spec->id, &c->id, err);
    if (rc == 0 && c->numbers + c->categories == spec->id_beside + 1 &&
        c->roles[c->id] == CSV_NUMBER) {
        c->roles[c->id] = CSV_IGNORED;
        c->numbers--;
    }
    return rc;
}

static int assign_roles(struct csv_columns *c, const char *path, enum data_weights weights,
                        const struct data_spec *spec, struct err *err)
{
    int rc = spec->column_count > 0 ? csv_declared_assign(c, path, spec, err)
                                    : assign_keys(c, path, weights, spec, err);
    rc = rc == 0 && spec->column_count > 0 ? assign_weight(c, path, weights, spec, err) : rc;
    if (rc != 0) {
        return rc;
    }
    for (size_t j = 0; j < c->count; j++) {
        c->numbers += c->roles[j] == CSV_NUMBER;
        c->categories += c->roles[j] == CSV_CATEGORY;
    }
    rc = spec->id == NULL ? 0 : assign_id(c, path, spec, err);
    if (rc != 0) {
        return rc;
    }
    if (c->numbers + c->categories == 0) {
        char advice[128];
        const size_t count = csv_columns_seen(c);
        csv_advise_separator(c, advice, sizeof advice);
        return err_set(err, ERR_INVALID,
                       "%s: no features are left: the file has %zu column%s with data.separator "
                       "\"%s\"%s",
                       path, count, count == 1 ? "" : "s", spec->separator,
                       advice[0] == '\0' ? "; is this the right separator?" : advice);
    }
    return 0;
}

int csv_columns_init(struct csv_columns *c, const char *path, const struct csv_row *first,
                     bool header, enum data_weights weights, const struct data_spec *spec,
                     struct err *err)
{
    struct csv_columns made = {
        .count = first->count,
        .header = header,
        .unlabelled = spec->unlabelled,
        .only = first->count == 1 + (size_t)spec->unlabelled ? first->fields[0] : NULL,
        .first_line = first->line,
        .weight = SIZE_MAX,
        .id = SIZE_MAX};
    made.roles = mem_new(made.count, sizeof *made.roles);
    made.names = mem_new(made.count, sizeof *made.names);
    for (size_t j = 0; j < made.count; j++) {
        made.names[j] = header ? mem_strdup(first->fields[j]) : mem_printf("#%zu", j);
    }
    int rc = assign_roles(&made, path, weights, spec, err);
    made.only = NULL;
    if (rc != 0) {
        csv_columns_release(&made);
        return rc;
    }
    *c = made;
    return 0;
}

void csv_columns_release(struct csv_columns *c)
{
    for (size_t j = 0; j < c->count; j++) {
        free(c->names[j]);
    }
    free(c->names);
    free(c->roles);
    free(c->declared);
    *c = (struct csv_columns){0};
}
