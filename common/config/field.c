/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the value of one setting from text, by its type and limits: for flags, job files and all
 * other places. A refusal says what is allowed and, for words, which is nearest. */
#include "config/field.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"

#define SHOWN_BYTES 64 /* of a wrong value in a message */

static void *at(const struct field *field, void *object)
{
    return (char *)object + field->offset;
}

static bool in_range(const struct field *field, double v)
{
    return !field_ranged(field) || (v >= field->min && v <= field->max);
}

static bool empty_list_allowed(const struct field *field)
{
    return field->def != NULL && strcmp(field->def, "[]") == 0;
}

/* "<what>; <what is allowed>" */
static int refuse(const struct field *field, const char *what, struct err *err)
{
    struct buf allowed = {0};
    field_allowed(field, &allowed);
    int code = err_set(err, ERR_INVALID, "%s; allowed: %s", what, buf_str(&allowed));
    buf_release(&allowed);
    return code;
}

static int refuse_value(const struct field *field, const char *text, const char *why,
                        struct err *err)
{
    char shown[SHOWN_BYTES], what[SHOWN_BYTES + 64];
    (void)snprintf(what, sizeof what, "'%s' %s", text_shown(text, shown, sizeof shown), why);
    return refuse(field, what, err);
}

static int set_bool(const struct field *field, bool *value, const char *text, struct err *err)
{
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return refuse_value(field, text, "is not a truth value", err);
    }
    *value = text[0] == 't';
    return 0;
}

static int set_float(const struct field *field, double *value, const char *text, struct err *err)
{
    double v;
    if (!text_to_double(text, &v)) {
        return refuse_value(field, text, "is not a number", err);
    }
    if (!in_range(field, v)) {
        return refuse_value(field, text, "is out of range", err);
    }
    *value = v;
    return 0;
}

/* Whole numbers in three notations; a bare number is always exact. */
static int set_int(const struct field *field, int64_t *value, const char *text, struct err *err)
{
    int64_t v;
    bool ok = text_to_int(text, &v);
    const char *why = "is not a whole number";
    if (field->type == FIELD_BYTES) {
        ok = (ok || text_to_bytes(text, &v)) && v >= 0;
        why = "is not a size";
    } else if (field->type == FIELD_MS) {
        ok = (ok || text_to_ms(text, &v)) && v >= 0;
        why = "is not a time";
    }
    if (!ok) {
        return refuse_value(field, text, why, err);
    }
    if (!in_range(field, (double)v)) {
        return refuse_value(field, text, "is out of range", err);
    }
    *value = v;
    return 0;
}

static int set_string(const struct field *field, char **value, const char *text, struct err *err)
{
    if (!text_is_utf8(text, strlen(text))) {
        return refuse(field, "the text is not valid UTF-8", err);
    }
    char *copy = mem_strdup(text);
    free(*value);
    *value = copy;
    return 0;
}

static int set_texts(const struct field *field, char **value, const char *text, struct err *err)
{
    struct field_texts texts = {0};
    if (!field_texts_read(text, &texts)) {
        return refuse_value(field, text, "is not a list of texts", err);
    }
    field_texts_release(&texts);
    return set_string(field, value, text, err);
}

static int set_enum(const struct field *field, int *value, const char *text, struct err *err)
{
    size_t count = 0;
    for (; field->choices[count] != NULL; count++) {
        if (strcmp(field->choices[count], text) == 0) {
            *value = (int)count;
            return 0;
        }
    }
    const char *near = text_nearest(text, field->choices, count);
    if (near == NULL) {
        return refuse_value(field, text, "is not known", err);
    }
    char shown[SHOWN_BYTES], what[SHOWN_BYTES + 128];
    (void)snprintf(what, sizeof what, "'%s' is not known (did you mean '%s'?)",
                   text_shown(text, shown, sizeof shown), near);
    return refuse(field, what, err);
}

static int set_interval(const struct field *field, struct field_interval *value, const char *text,
                        struct err *err)
{
    if (strcmp(text, "never") == 0) {
        *value = (struct field_interval){0};
        return 0;
    }
    char number[24];
    size_t n = strcspn(text, " ");
    const char *unit = text + n + strspn(text + n, " ");
    bool epochs = strcmp(unit, "epochs") == 0 || strcmp(unit, "epoch") == 0;
    bool steps = text[n] == '\0' || strcmp(unit, "steps") == 0 || strcmp(unit, "step") == 0;
    int64_t count = 0;
    bool ok = n < sizeof number && (epochs || steps);
    if (ok) {
        memcpy(number, text, n);
        number[n] = '\0';
        ok = text_to_int(number, &count);
    }
    if (!ok) {
        return refuse_value(field, text, "is not an interval", err);
    }
    if (count < 1 || !in_range(field, (double)count)) {
        return refuse_value(field, text, "is out of range", err);
    }
    *value = (struct field_interval){.count = count, .epochs = epochs};
    return 0;
}

/* Read "4" or "2..8". */
static int set_range(const struct field *field, struct field_range *value, const char *text,
                     struct err *err)
{
    struct field_range v = {0};
    const char *dots = strstr(text, "..");
    bool ok;
    if (dots == NULL) {
        ok = text_to_int(text, &v.min);
        v.max = v.min;
    } else {
        char first[24]; /* longer than any number that fits */
        size_t n = (size_t)(dots - text);
        ok = n < sizeof first;
        text_copy(first, sizeof first, text);
        first[ok ? n : 0] = '\0';
        ok = ok && text_to_int(first, &v.min) && text_to_int(dots + 2, &v.max);
    }
    if (!ok) {
        return refuse_value(field, text, "is not a whole number or a range", err);
    }
    if (v.min > v.max) {
        return refuse_value(field, text, "ends before it begins", err);
    }
    if (!in_range(field, (double)v.min) || !in_range(field, (double)v.max)) {
        return refuse_value(field, text, "is out of range", err);
    }
    *value = v;
    return 0;
}

/* Read "3", "3, 3" or "[3, 3]". */
static int set_ints(const struct field *field, struct field_ints *value, const char *text,
                    struct err *err)
{
    struct field_ints v = {0};
    const char *p = text;
    bool brackets = *p == '[';
    const char *end = text + strlen(text);
    if (brackets) {
        p++;
        if (end[-1] != ']') {
            return refuse_value(field, text, "is not a list of whole numbers", err);
        }
        end--;
    }
    p += strspn(p, " ");
    bool more = p < end;
    while (more) {
        char number[24];
        size_t n = strcspn(p, ", ]");
        if (n == 0 || n >= sizeof number) {
            return refuse_value(field, text, "is not a list of whole numbers", err);
        }
        memcpy(number, p, n);
        number[n] = '\0';
        int64_t item;
        if (!text_to_int(number, &item)) {
            return refuse_value(field, text, "is not a list of whole numbers", err);
        }
        if (v.count == FIELD_INTS_MAX) {
            return refuse_value(field, text, "is too long", err);
        }
        if (!in_range(field, (double)item)) {
            return refuse_value(field, text, "is out of range", err);
        }
        v.values[v.count++] = item;
        p += n;
        p += strspn(p, " ");
        more = *p == ',';
        p += more ? 1 : 0;
        p += strspn(p, " ");
    }
    if (p != end) {
        return refuse_value(field, text, "is not a list of whole numbers", err);
    }
    if (v.count == 0 && !empty_list_allowed(field)) {
        return refuse(field, "the list is empty", err);
    }
    *value = v;
    return 0;
}

int field_set(const struct field *field, void *object, const char *text, struct err *err)
{
    void *value = at(field, object);
    switch (field->type) {
    case FIELD_BOOL:
        return set_bool(field, value, text, err);
    case FIELD_INT:
    case FIELD_BYTES:
    case FIELD_MS:
        return set_int(field, value, text, err);
    case FIELD_FLOAT:
        return set_float(field, value, text, err);
    case FIELD_STRING:
        return set_string(field, value, text, err);
    case FIELD_TEXTS:
        return set_texts(field, value, text, err);
    case FIELD_ENUM:
        return set_enum(field, value, text, err);
    case FIELD_INTERVAL:
        return set_interval(field, value, text, err);
    case FIELD_RANGE:
        return set_range(field, value, text, err);
    case FIELD_INTS:
        return set_ints(field, value, text, err);
    }
    return err_set(err, ERR_INTERNAL, "field '%s' has no known type", field->path);
}

void field_defaults(const struct field *fields, size_t count, void *object)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].def != NULL) {
            struct err err = {0};
            int code = field_set(&fields[i], object, fields[i].def, &err);
            assert(code == 0 && "a default must be a value that its own row allows");
            (void)code;
        }
    }
}

void field_release(const struct field *fields, size_t count, void *object)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].type == FIELD_STRING || fields[i].type == FIELD_TEXTS) {
            char **text = at(&fields[i], object);
            free(*text);
            *text = NULL;
        }
    }
}

const struct field *field_find(const struct field *fields, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].path, path) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}
