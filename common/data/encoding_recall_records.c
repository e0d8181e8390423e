/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from JSON which kind of records was measured. */
#include "data/encoding_recall.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/encoding_json.h"
#include "json/json_doc.h"

int encoding_lies(const char *what, struct err *err)
{
    return err_set(err, ERR_CORRUPT, "%s: it does not hold together", what);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A text, or its bytes in an object; owned, NULL: it is neither. */
char *encoding_text(const struct json_t *value)
{
    const char *s = json_doc_text(value);
    if (s != NULL) {
        return mem_strdup(s);
    }
    if (!json_doc_is_object(value) || json_doc_string(value, "hex", &s, NULL) != 0) {
        return NULL;
    }
    const size_t n = strlen(s);
    char *bytes = mem_new(n / 2 + 1, 1);
    for (size_t i = 0; i + 1 < n; i += 2) {
        const int high = digit_of(s[i]), low = digit_of(s[i + 1]);
        if (high < 0 || low < 0 || high + low == 0) {
            free(bytes);
            return NULL;
        }
        bytes[i / 2] = (char)(high * 16 + low);
    }
    return bytes;
}

static int shape_of(const struct json_t *o, struct records *r, struct err *err)
{
    const struct json_t *shape;
    size_t rank = 0;
    int rc = json_doc_array(o, "shape", SHAPE_RANK_MAX, &shape, &rank, err);
    uint64_t all = 1;
    for (size_t i = 0; i < rank && rc == 0; i++) {
        if (!json_doc_item_u64(shape, i, &r->shape.dims[i]) ||
            r->shape.dims[i] > ENCODING_NUMBERS_MAX ||
            (all *= r->shape.dims[i]) > ENCODING_NUMBERS_MAX) {
            rc = encoding_lies("shape", err);
        }
        r->shape.rank = i + 1;
    }
    r->numbers = rank > 0 ? (size_t)all : 0;
    return rc;
}

static int columns_of(const struct json_t *o, struct records *r, struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    int rc = json_doc_array(o, "categories", ENCODING_NUMBERS_MAX, &array, &count, err);
    r->categories = mem_new(count + 1, sizeof *r->categories);
    for (size_t i = 0; i < count && rc == 0; i++) {
        char *name = encoding_text(json_doc_item(array, i));
        rc = name == NULL ? encoding_lies("categories", err) : 0;
        if (rc == 0) {
            r->categories[r->category_count++] =
                (struct category_column){.name = name, .cells = mem_new(1, sizeof(uint32_t))};
        }
    }
    if (rc != 0 || json_doc_array(o, "columns", ENCODING_NUMBERS_MAX, &array, &count, NULL) != 0) {
        return rc;
    }
    if (count != r->numbers) {
        return encoding_lies("columns", err);
    }
    r->columns = mem_new(count + 1, sizeof *r->columns);
    for (size_t i = 0; i < count && rc == 0; i++) {
        r->columns[i] = encoding_text(json_doc_item(array, i));
        rc = r->columns[i] == NULL ? encoding_lies("columns", err) : 0;
    }
    return rc;
}

/* Finds the entry of data.columns for each column, which has to be there. */
static int declared_of(const struct json_t *o, const struct data_spec *spec, struct records *r,
                       struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    if (json_doc_array(o, "declared", ENCODING_NUMBERS_MAX, &array, &count, NULL) != 0) {
        return 0;
    }
    if (count != r->numbers + r->category_count) {
        return encoding_lies("declared", err);
    }
    r->declared = mem_new(count + 1, sizeof *r->declared);
    for (size_t i = 0; i < count; i++) {
        uint64_t entry;
        if (!json_doc_item_u64(array, i, &entry) || entry >= spec->column_count) {
            return encoding_lies("declared", err);
        }
        const int as = spec->columns[entry].as;
        if (i < r->numbers ? as != COLUMN_NUMBER
                           : as != COLUMN_CATEGORY && as != COLUMN_LIST && as != COLUMN_SPARSE) {
            return encoding_lies("declared", err);
        }
        r->declared[i] = (uint32_t)entry;
    }
    return 0;
}

static int field_of(const struct json_t *o, struct records *r, struct err *err)
{
    uint64_t width;
    const char *fold;
    const struct json_t *name = json_doc_member(o, "name");
    int kind = 0;
    int rc = json_doc_u64(o, "width", UINT32_MAX, &width, err);
    rc = rc != 0 ? rc : json_doc_string(o, "fold", &fold, err);
    if (rc != 0) {
        return rc;
    }
    while (encoding_json_folds[kind] != NULL && strcmp(encoding_json_folds[kind], fold) != 0) {
        kind++;
    }
    char *text = encoding_text(name);
    rc = text == NULL || encoding_json_folds[kind] == NULL
             ? encoding_lies("fields", err)
             : sparse_fields_declare(&r->fields, text, (uint32_t)width, (enum sparse_fold)kind,
                                     "fields", err);
    free(text);
    return rc;
}

static int fields_of(const struct json_t *o, struct records *r, struct err *err)
{
    const struct json_t *array;
    size_t count = 0;
    int rc = json_doc_array(o, "fields", SPARSE_FIELDS_MAX, &array, &count, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = field_of(json_doc_item(array, i), r, err);
    }
    r->fields.weighted = json_doc_true(o, "weighted");
    return rc;
}

int encoding_recall_records(const struct json_t *root, const struct data_spec *spec,
                            struct records *r, struct err *err)
{
    const struct json_t *o;
    const char *labels;
    int rc = json_doc_object(root, "records", &o, err);
    rc = rc != 0 ? rc : json_doc_string(o, "labels", &labels, err);
    rc = rc != 0 ? rc : shape_of(o, r, err);
    if (rc != 0) {
        return rc;
    }
    r->where = encoding_text(json_doc_member(o, "where"));
    if (r->where == NULL) {
        return encoding_lies("where", err);
    }
    r->named = json_doc_true(o, "named");
    if (json_doc_true(o, "bytes")) {
        r->bytes = mem_new(1, 1);
    } else {
        r->values = mem_new(1, sizeof *r->values);
    }
    if (strcmp(labels, "numbers") == 0) {
        r->labels = mem_new(1, sizeof *r->labels);
    } else {
        r->label_cells = mem_new(1, sizeof *r->label_cells);
    }
    rc = columns_of(o, r, err);
    rc = rc != 0 ? rc : declared_of(o, spec, r, err);
    return rc != 0 ? rc : fields_of(o, r, err);
}
