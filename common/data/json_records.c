/* SPDX-License-Identifier: Apache-2.0 */
/* Members are taken by the names that the train records have. */
#include "data/json_records.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"
#include "json/json_doc.h"

#define FEATURES "features"
#define SHOWN_BYTES 64
#define DEPTH_MAX 16
#define NUMBER_BYTES 32 /* JSON_DOC_DIGITS_BYTES, or "%.17g" */

struct reading {
    const struct encoder *e;
    const struct records *like;
    const struct feed_text *text;
    const struct json_t *object; /* of the line in hand */
    struct records *out;
    struct sparse_draft draft;
    uint64_t values, cells, places; /* capacities */
};

/* ---- members ---- */

static int missing(const struct reading *r, size_t column, const char *name, struct err *err)
{
    char shown[SHOWN_BYTES];
    return encoder_takes_missing(r->e, column)
               ? 0
               : err_set(err, ERR_INVALID,
                         "\"%s\" is missing; the job does not say what a missing value becomes",
                         text_shown(name, shown, sizeof shown));
}

static int no_number(const char *name, struct err *err)
{
    char shown[SHOWN_BYTES];
    return err_set(err, ERR_INVALID, "\"%s\": a number that fits a float is expected, or null",
                   text_shown(name, shown, sizeof shown));
}

/* A number as text: whole ones with all digits, others with the fewest that read back. */
static bool number_text(const struct json_t *value, char out[NUMBER_BYTES])
{
    double number, back = 0;
    if (json_doc_digits(value, out)) {
        return true;
    }
    if (!json_doc_number(value, &number)) {
        return false;
    }
    for (int places = 15; places <= 17 && (places == 15 || back != number); places++) {
        (void)snprintf(out, NUMBER_BYTES, "%.*g", places, number);
        back = strtod(out, NULL);
    }
    return true;
}

/* @value NULL: it is not there. */
static int take_number(const struct reading *r, size_t column, const char *name,
                       const struct json_t *value, float *out, struct err *err)
{
    double number;
    if (value == NULL || json_doc_is_null(value)) {
        *out = NAN;
        return missing(r, column, name, err);
    }
    if (!json_doc_number(value, &number) || !isfinite((float)number)) {
        return no_number(name, err);
    }
    *out = (float)number;
    return 0;
}

/* The numbers of lists in lists, at most @n. */
static int take_list(const struct reading *r, const struct json_t *list, unsigned depth, size_t n,
                     size_t *count, float *out, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < json_doc_count(list) && rc == 0; i++) {
        const struct json_t *item = json_doc_item(list, i);
        if (json_doc_is_array(item) && depth < DEPTH_MAX) {
            rc = take_list(r, item, depth + 1, n, count, out, err);
        } else if (*count < n) {
            rc = take_number(r, *count, FEATURES, item, &out[*count], err);
            ++*count;
        } else {
            ++*count;
        }
    }
    return rc;
}

static int take_numbers(const struct reading *r, float *out, struct err *err)
{
    const struct json_t *all = json_doc_member(r->object, FEATURES);
    const size_t n = r->like->numbers;
    int rc = 0;
    if (all != NULL && json_doc_is_array(all)) {
        size_t count = 0;
        rc = take_list(r, all, 0, n, &count, out, err);
        return rc != 0 || count == n
                   ? rc
                   : err_set(err, ERR_INVALID, "\"" FEATURES "\": %zu numbers, expected %zu", count,
                             n);
    }
    if (n > 0 && r->like->columns == NULL) {
        return err_set(err, ERR_INVALID, "\"" FEATURES "\": a list of %zu numbers is expected", n);
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *name = r->like->columns[i];
        rc = take_number(r, i, name, json_doc_member(r->object, name), &out[i], err);
    }
    return rc;
}

static int take_category(struct reading *r, size_t i, struct err *err)
{
    struct category_column *c = &r->out->categories[i];
    const struct json_t *value = json_doc_member(r->object, c->name);
    uint32_t *cell = &c->cells[r->out->count];
    const char *text = value == NULL ? NULL : json_doc_text(value);
    char shown[SHOWN_BYTES], digits[NUMBER_BYTES];
    if (value == NULL || json_doc_is_null(value)) {
        *cell = RECORDS_CATEGORY_NONE;
        return missing(r, r->like->numbers + i, c->name, err);
    }
    if (text == NULL && number_text(value, digits)) {
        text = digits;
    }
    return text != NULL ? names_add(&c->values, text, cell, err)
                        : err_set(err, ERR_INVALID, "\"%s\": text is expected, or null",
                                  text_shown(c->name, shown, sizeof shown));
}

/* A key, or a list of a key and its weight. */
static bool take_key(const struct json_t *list, size_t i, uint64_t *key, float *weight)
{
    const struct json_t *item = json_doc_item(list, i);
    double number;
    *weight = 1;
    if (!json_doc_is_array(item)) {
        return json_doc_item_u64(list, i, key);
    }
    if (json_doc_count(item) != 2 || !json_doc_item_u64(item, 0, key) ||
        !json_doc_number(json_doc_item(item, 1), &number) || !isfinite((float)number)) {
        return false;
    }
    *weight = (float)number;
    return true;
}

static int take_field(struct reading *r, size_t f, struct err *err)
{
    const char *name = r->like->fields.fields[f].name;
    const struct json_t *list = json_doc_member(r->object, name);
    char shown[SHOWN_BYTES];
    uint64_t key;
    float weight;
    int rc = 0;
    if (list == NULL || json_doc_is_null(list)) {
        return 0;
    }
    bool well = json_doc_is_array(list);
    for (size_t i = 0; well && rc == 0 && i < json_doc_count(list); i++) {
        well = take_key(list, i, &key, &weight);
        rc = well ? sparse_draft_add(&r->draft, (uint32_t)f, key, weight, err) : 0;
    }
    return rc != 0 || well
               ? rc
               : err_set(err, ERR_INVALID,
                         "\"%s\": a list of keys, whole numbers from 0 on, is expected; a key may "
                         "be a list of itself and its weight",
                         text_shown(name, shown, sizeof shown));
}

static int take_id(struct reading *r, struct err *err)
{
    const char *name = r->text->spec->id;
    const struct json_t *value = json_doc_member(r->object, name);
    const char *text = value == NULL ? NULL : json_doc_text(value);
    char shown[SHOWN_BYTES], digits[NUMBER_BYTES];
    if (text == NULL && value != NULL && number_text(value, digits)) {
        text = digits;
    }
    if (text == NULL) {
        return err_set(err, ERR_INVALID, "\"%s\" (--id): text or a number is expected",
                       text_shown(name, shown, sizeof shown));
    }
    buf_add(&r->out->ids, text, strlen(text) + 1);
    return 0;
}

/* ---- members that are not the model's ---- */

static bool is_in_list(const char *list, const char *name)
{
    struct field_texts items = {0};
    bool found = false;
    (void)field_texts_read_commas(list == NULL ? "" : list, &items);
    for (size_t i = 0; i < items.count && !found; i++) {
        found = strcmp(items.items[i], name) == 0;
    }
    field_texts_release(&items);
    return found;
}

static bool is_known(const struct reading *r, const char *name)
{
    const struct data_spec *spec = encoder_spec(r->e);
    bool known =
        strcmp(name, FEATURES) == 0 || strcmp(name, spec->label) == 0 ||
        strcmp(name, "label") == 0 ||
        (spec->weight != NULL && spec->weight[0] != '\0' && strcmp(name, spec->weight) == 0) ||
        (r->text->spec->id != NULL && strcmp(name, r->text->spec->id) == 0);
    for (size_t i = 0; r->like->columns != NULL && i < r->like->numbers && !known; i++) {
        known = strcmp(name, r->like->columns[i]) == 0;
    }
    for (size_t i = 0; i < r->like->category_count && !known; i++) {
        known = strcmp(name, r->like->categories[i].name) == 0;
    }
    for (size_t i = 0; i < r->like->fields.count && !known; i++) {
        known = strcmp(name, r->like->fields.fields[i].name) == 0;
    }
    return known || is_in_list(spec->ignore, name);
}

/* A name that is misspelled would be a missing value. */
static int check_members(const struct reading *r, struct err *err)
{
    void *at = NULL;
    const struct json_t *value;
    char shown[SHOWN_BYTES];
    for (const char *name; (name = json_doc_next(r->object, &at, &value)) != NULL;) {
        if (encoder_spec(r->e)->column_count == 0 && !is_known(r, name)) {
            return err_set(err, ERR_INVALID,
                           "\"%s\": the model has no column of that name; columns that are to be "
                           "passed over are named in data.ignore",
                           text_shown(name, shown, sizeof shown));
        }
    }
    return 0;
}

/* ---- lines ---- */

/* Room for one more record. */
static int reserve(struct reading *r, struct err *err)
{
    struct records *out = r->out;
    const char *where = r->text->where;
    void *p = records_grow(out->values, &r->values, out->count + 1,
                           (out->numbers + 1) * sizeof *out->values, where, err);
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    out->values = p;
    p = records_grow(out->places, &r->places, out->count + 1, sizeof *out->places, where, err);
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    out->places = p;
    if (out->count < r->cells) {
        return 0;
    }
    r->cells = r->cells == 0 ? 256 : 2 * r->cells;
    for (size_t i = 0; i < out->category_count; i++) {
        p = records_resize(out->categories[i].cells, r->cells, sizeof(uint32_t), where, err);
        if (p == NULL) {
            return ERR_EXHAUSTED;
        }
        out->categories[i].cells = p;
    }
    return 0;
}

static int take_record(struct reading *r, uint64_t line, struct err *err)
{
    struct records *out = r->out;
    const size_t ids = out->ids.len;
    r->draft.count = 0;
    int rc = check_members(r, err);
    rc = rc != 0 ? rc : take_numbers(r, out->values + out->count * out->numbers, err);
    for (size_t i = 0; i < out->category_count && rc == 0; i++) {
        rc = take_category(r, i, err);
    }
    for (size_t f = 0; f < r->like->fields.count && rc == 0; f++) {
        rc = take_field(r, f, err);
    }
    rc = rc != 0 || r->text->spec->id == NULL ? rc : take_id(r, err);
    if (rc == 0 && r->like->fields.count > 0) {
        (void)sparse_draft_sort(&r->draft, true);
        rc = sparse_fields_add(&out->fields, &r->draft, r->text->where, err);
    }
    if (rc == 0) {
        out->places[out->count++] = (struct place){.number = (uint32_t)line};
    } else {
        out->ids.len = ids;
    }
    return rc;
}

static int take_line(struct reading *r, const char *bytes, size_t n, uint64_t line, struct err *err)
{
    struct err cause = {0};
    struct json_t *object = NULL;
    int rc = reserve(r, err);
    if (rc != 0) {
        return rc;
    }
    rc = json_doc_parse(bytes, n, &object, &cause);
    if (rc == 0) {
        r->object = object;
        rc = take_record(r, line, &cause);
        json_doc_free(object);
    }
    if (rc == 0) {
        return 0;
    }
    (void)err_wrap(&cause, "%s:%" PRIu64, r->text->where, line);
    cause.code = rc == ERR_CORRUPT ? ERR_INVALID : rc;
    return records_leave_out(r->out, r->text->had_bad, (uint64_t)r->text->spec->bad_records,
                             cause.code, &cause, err);
}

static bool is_blank(const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r')) {
        i++;
    }
    return i == n;
}

int json_records_read(const struct encoder *e, const struct feed_text *text, struct records *out,
                      struct err *err)
{
    struct reading r = {.e = e, .like = encoder_raw(e), .text = text, .out = out};
    int rc = encoder_begin(e, out, err);
    if (rc != 0) {
        return rc;
    }
    free(out->where);
    out->where = mem_strdup(text->where);
    out->by_line = true;
    uint64_t line = text->line;
    for (size_t at = 0; at < text->count && rc == 0; line++) {
        const char *end = memchr(text->bytes + at, '\n', text->count - at);
        const size_t n = end != NULL ? (size_t)(end - text->bytes) - at : text->count - at;
        if (!is_blank(text->bytes + at, n)) {
            rc = take_line(&r, text->bytes + at, n, line, err);
        }
        at += n + 1;
    }
    sparse_draft_release(&r.draft);
    return rc;
}
