/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the labels of records, numbers or texts, into classes 0..k-1. The train records or the
 * job say which classes there are; any other label is an error that names its record. */
#include "data/classes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/cells.h"

#define CLASSES_SHOWN 5 /* names that a message lists */

/* A label of the train records; value is used when all labels are numbers. */
struct label {
    const char *text;
    double value;
};

static int label_error(const struct records *r, uint64_t record, struct err *err, const char *label,
                       const char *what)
{
    struct buf where = {0};
    records_where_label(r, record, &where);
    int rc = err_set(err, ERR_INVALID, "%s: label %s %s", buf_str(&where), label, what);
    buf_release(&where);
    return rc;
}

/* "is outside 0..9" */
static int outside(const struct records *r, uint64_t record, double value, int64_t classes,
                   struct err *err)
{
    char label[40], what[96];
    (void)snprintf(label, sizeof label, CELLS_BEGIN "%.17g" CELLS_END, value);
    if (value != floor(value)) {
        (void)snprintf(what, sizeof what,
                       "is not a whole number, so it is no class; "
                       "set data.label_kind: real to predict it");
    } else if (classes > 0) {
        (void)snprintf(what, sizeof what, "is outside 0..%" PRId64 ", the classes of the data",
                       classes - 1);
    } else {
        (void)snprintf(what, sizeof what, "is outside 0..%u", NAMES_MAX - 1);
    }
    return label_error(r, record, err, label, what);
}

static bool is_class(double value, int64_t classes)
{
    return value >= 0 && value < (double)classes && value == floor(value);
}

static int fit_numbers(struct classes *c, const struct records *train, int64_t expected,
                       struct err *err)
{
    double largest = 0;
    for (uint64_t i = 0; i < train->count; i++) {
        if (!is_class(train->labels[i], expected > 0 ? expected : NAMES_MAX)) {
            return outside(train, i, train->labels[i], expected, err);
        }
        largest = fmax(largest, train->labels[i]);
    }
    *c = (struct classes){.count = expected > 0 ? (uint32_t)expected : (uint32_t)largest + 1};
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

static int by_text(const void *a, const void *b)
{
    const struct label *x = a, *y = b;
    return strcmp(x->text, y->text);
}

/* The distinct labels that occur in @r, sorted, into @out [label_texts.count]; *numeric: all are
 * numbers. */
static size_t distinct_labels(const struct records *r, struct label *out, bool *numeric)
{
    bool *used = mem_new(r->label_texts.count, sizeof *used);
    for (uint64_t i = 0; i < r->count; i++) {
        used[r->label_cells[i]] = true;
    }
    size_t n = 0;
    *numeric = true;
    for (size_t i = 0; i < r->label_texts.count; i++) {
        if (used[i]) {
            out[n] = (struct label){.text = r->label_texts.texts[i]};
            *numeric = text_to_double(out[n].text, &out[n].value) && *numeric;
            n++;
        }
    }
    free(used);
    qsort(out, n, sizeof *out, *numeric ? by_value : by_text);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) { /* "1" and "1.0" are one label */
        if (kept == 0 || !*numeric || out[i].value > out[kept - 1].value) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

/* True when the sorted labels are whole numbers that can be used as they are. */
static bool are_plain(const struct label *labels, size_t count, int64_t expected)
{
    for (size_t i = 0; i < count; i++) {
        bool fits = expected > 0 ? is_class(labels[i].value, expected)
                                 : labels[i].value >= (double)i && labels[i].value <= (double)i;
        if (!fits) {
            return false;
        }
    }
    return true;
}

/* "a, b, c, …" */
static void list_labels(const struct label *labels, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count && i < CLASSES_SHOWN; i++) {
        char shown[64];
        buf_printf(out, "%s%s", i == 0 ? "" : ", ",
                   cells_mark(labels[i].text, 40, false, shown, sizeof shown));
    }
    buf_add_str(out, count > CLASSES_SHOWN ? ", …" : "");
}

static int fit_texts(struct classes *c, const struct records *train, int64_t expected,
                     struct err *err)
{
    struct label *labels = mem_new(train->label_texts.count, sizeof *labels);
    bool numeric;
    size_t count = distinct_labels(train, labels, &numeric);
    int rc = 0;
    if (numeric && are_plain(labels, count, expected)) {
        *c = (struct classes){.count = expected > 0 ? (uint32_t)expected : (uint32_t)count};
    } else if (expected > 0 && count != (uint64_t)expected) {
        struct buf list = {0};
        list_labels(labels, count, &list);
        rc = err_set(err, ERR_INVALID,
                     "%s: data.classes is %" PRId64 ", the train records have %zu labels: %s",
                     train->where, expected, count, buf_str(&list));
        buf_release(&list);
    } else {
        struct classes fitted = {.count = (uint32_t)count, .names = mem_new(count, sizeof(char *))};
        fitted.values = numeric ? mem_new(count, sizeof *fitted.values) : NULL;
        for (size_t i = 0; i < count; i++) {
            fitted.names[i] = mem_strdup(labels[i].text);
            if (numeric) {
                fitted.values[i] = labels[i].value;
            }
        }
        *c = fitted;
    }
    free(labels);
    return rc;
}

int classes_fit(struct classes *c, const struct records *train, int64_t expected, struct err *err)
{
    return train->labels != NULL ? fit_numbers(c, train, expected, err)
                                 : fit_texts(c, train, expected, err);
}

void classes_release(struct classes *c)
{
    for (size_t i = 0; c->names != NULL && i < c->count; i++) {
        free(c->names[i]);
    }
    free(c->names);
    free(c->values);
    *c = (struct classes){0};
}

static int apply_numbers(const struct classes *c, const struct records *r, int32_t *out,
                         struct err *err)
{
    for (uint64_t i = 0; i < r->count; i++) {
        if (!is_class(r->labels[i], c->count)) {
            return outside(r, i, r->labels[i], c->count, err);
        }
        out[i] = (int32_t)r->labels[i];
    }
    return 0;
}

/* The class of a label text, or -1. */
static int32_t class_of(const struct classes *c, const char *text)
{
    double value = 0;
    bool number = text_to_double(text, &value);
    if (c->names == NULL) {
        return number && is_class(value, c->count) ? (int32_t)value : -1;
    }
    if (c->values != NULL && !number) {
        return -1;
    }
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = c->values != NULL ? (value > c->values[middle]) - (value < c->values[middle])
                                      : strcmp(text, c->names[middle]);
        if (order == 0) {
            return (int32_t)middle;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return -1;
}

/* "a, b, c, …", or "0..9" */
static void list_classes(const struct classes *c, struct buf *out)
{
    if (c->names == NULL) {
        buf_printf(out, "0..%u", c->count - 1);
        return;
    }
    for (uint32_t i = 0; i < c->count && i < CLASSES_SHOWN; i++) {
        char shown[64];
        buf_printf(out, "%s%s", i == 0 ? "" : ", ",
                   cells_mark(c->names[i], 40, false, shown, sizeof shown));
    }
    buf_add_str(out, c->count > CLASSES_SHOWN ? ", …" : "");
}

static int unknown_label(const struct classes *c, const struct records *r, uint64_t record,
                         struct err *err)
{
    struct buf what = {0};
    buf_add_str(&what, c->names == NULL ? "is no class; the classes are "
                                        : "does not occur in the train records; the classes are ");
    list_classes(c, &what);
    buf_add_str(&what, c->values == NULL ? "" : "; data.label_kind: real predicts numbers");
    char label[64];
    (void)cells_mark(r->label_texts.texts[r->label_cells[record]], 50, true, label, sizeof label);
    int rc = label_error(r, record, err, label, buf_str(&what));
    buf_release(&what);
    return rc;
}

/* Class @i of @here among those of @c? */
static bool has_class(const struct classes *c, const struct classes *here, uint32_t i)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%u", i);
    return class_of(c, here->names == NULL ? number : here->names[i]) >= 0;
}

int classes_check(const struct classes *c, const struct records *train, int64_t expected,
                  struct err *err)
{
    struct classes here = {0};
    int rc = classes_fit(&here, train, expected, err);
    if (rc != 0) {
        return rc;
    }
    bool known = true;
    for (uint32_t i = 0; i < here.count && known; i++) {
        known = has_class(c, &here, i);
    }
    if (!known) {
        struct buf lists = {0};
        list_classes(&here, &lists);
        buf_add_str(&lists, "; the classes there are ");
        list_classes(c, &lists);
        rc = err_set(err, ERR_INVALID, "%s: the labels are %s", train->where, buf_str(&lists));
        buf_release(&lists);
    }
    classes_release(&here);
    return rc;
}

int classes_apply(const struct classes *c, const struct records *r, int32_t *out, struct err *err)
{
    if (r->labels != NULL) {
        return apply_numbers(c, r, out, err);
    }
    int32_t *numbers = mem_new(r->label_texts.count, sizeof *numbers);
    for (size_t i = 0; i < r->label_texts.count; i++) {
        numbers[i] = class_of(c, r->label_texts.texts[i]);
    }
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < r->count; i++) {
        out[i] = numbers[r->label_cells[i]];
        if (out[i] < 0) {
            rc = unknown_label(c, r, i, err);
        }
    }
    free(numbers);
    return rc;
}
