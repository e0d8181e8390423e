#include "config/field.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define SHOWN_BYTES 64 /* of a wrong value in a message */

static void *at(const struct field *field, void *object)
{
    return (char *)object + field->offset;
}

static const void *at_const(const struct field *field, const void *object)
{
    return (const char *)object + field->offset;
}

static bool ranged(const struct field *field)
{
    return field->min != 0 || field->max != 0;
}

static bool in_range(const struct field *field, double v)
{
    return !ranged(field) || (v >= field->min && v <= field->max);
}

/* The shortest decimal number that reads back as the same double. An exponent gets a dot before it:
 * without one YAML 1.1 readers see a text. */
static void add_double(struct buf *out, double v)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) {
            break;
        }
    }
    size_t mantissa = strcspn(text, "e");
    buf_add(out, text, mantissa);
    if (text[mantissa] == 'e' && strchr(text, '.') == NULL) {
        buf_add_str(out, ".0");
    }
    buf_add_str(out, text + mantissa);
}

static void add_with_unit(struct buf *out, int64_t v, const int64_t *factors,
                          const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (v != 0 && v % factors[i] == 0) {
            buf_printf(out, "%" PRId64 "%s", v / factors[i], names[i]);
            return;
        }
    }
    buf_printf(out, "%" PRId64, v);
}

static void add_bytes(struct buf *out, int64_t v)
{
    static const int64_t factors[] = {INT64_C(1) << 30, INT64_C(1) << 20, INT64_C(1) << 10};
    static const char *const names[] = {" GiB", " MiB", " KiB"};
    add_with_unit(out, v, factors, names, 3);
}

static void add_ms(struct buf *out, int64_t v)
{
    static const int64_t factors[] = {3600000, 60000, 1000, 1};
    static const char *const names[] = {"h", "m", "s", "ms"};
    add_with_unit(out, v, factors, names, 4);
}

static void add_interval(struct buf *out, const struct field_interval *v)
{
    if (v->count == 0) {
        buf_add_str(out, "never");
        return;
    }
    buf_printf(out, "%" PRId64 " %s%s", v->count, v->epochs ? "epoch" : "step",
               v->count == 1 ? "" : "s");
}

static void add_range_value(struct buf *out, const struct field_range *v)
{
    buf_printf(out, "%" PRId64, v->min);
    if (v->max != v->min) {
        buf_printf(out, "..%" PRId64, v->max);
    }
}

static void add_ints(struct buf *out, const struct field_ints *v)
{
    buf_add_char(out, '[');
    for (size_t i = 0; i < v->count; i++) {
        buf_printf(out, "%s%" PRId64, i == 0 ? "" : ", ", v->values[i]);
    }
    buf_add_char(out, ']');
}

/* One end of a range, in the notation of the field's type. */
static void add_bound(const struct field *field, double v, struct buf *out)
{
    bool fits = fabs(v) < 9.0e18;
    bool whole = fabs(v) <= 1e9 && v == floor(v); /* 1000000 reads better than 1.0e+06 */
    if (field->type == FIELD_BYTES && fits) {
        add_bytes(out, (int64_t)v);
    } else if (field->type == FIELD_MS && fits) {
        add_ms(out, (int64_t)v);
    } else if (field->type == FIELD_FLOAT ? whole : fits) {
        buf_printf(out, "%" PRId64, (int64_t)v);
    } else {
        add_double(out, v);
    }
}

static void add_range(const struct field *field, struct buf *out)
{
    if (!ranged(field)) {
        return;
    }
    if (isinf(field->max)) {
        buf_add_str(out, " of at least ");
        add_bound(field, field->min, out);
        return;
    }
    buf_add_str(out, " from ");
    add_bound(field, field->min, out);
    buf_add_str(out, " to ");
    add_bound(field, field->max, out);
}

static bool empty_list_allowed(const struct field *field)
{
    return field->def != NULL && strcmp(field->def, "[]") == 0;
}

void field_allowed(const struct field *field, struct buf *out)
{
    switch (field->type) {
    case FIELD_BOOL:
        buf_add_str(out, "true or false");
        break;
    case FIELD_INT:
        buf_add_str(out, "whole number");
        add_range(field, out);
        break;
    case FIELD_FLOAT:
        buf_add_str(out, "number");
        add_range(field, out);
        break;
    case FIELD_STRING:
        buf_add_str(out, "text");
        break;
    case FIELD_ENUM:
        buf_add_str(out, "one of ");
        for (size_t i = 0; field->choices[i] != NULL; i++) {
            buf_printf(out, "%s%s", i == 0 ? "" : ", ", field->choices[i]);
        }
        break;
    case FIELD_BYTES:
        buf_add_str(out, "size such as 64 MiB");
        add_range(field, out);
        break;
    case FIELD_MS:
        buf_add_str(out, "time such as 250ms or 3s");
        add_range(field, out);
        break;
    case FIELD_INTERVAL:
        buf_add_str(out, "interval such as 500 steps, 2 epochs or never");
        break;
    case FIELD_RANGE:
        buf_add_str(out, "whole number, or a range such as 2..8");
        if (ranged(field)) {
            buf_add_str(out, ",");
            add_range(field, out);
        }
        break;
    case FIELD_INTS:
        buf_printf(out, "list of at most %d whole numbers", FIELD_INTS_MAX);
        if (ranged(field)) {
            buf_add_str(out, ", each");
            add_range(field, out);
        }
        break;
    }
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

void field_format(const struct field *field, const void *object, struct buf *out)
{
    const void *value = at_const(field, object);
    switch (field->type) {
    case FIELD_BOOL:
        buf_add_str(out, *(const bool *)value ? "true" : "false");
        break;
    case FIELD_INT:
        buf_printf(out, "%" PRId64, *(const int64_t *)value);
        break;
    case FIELD_FLOAT:
        add_double(out, *(const double *)value);
        break;
    case FIELD_STRING: {
        const char *text = *(char *const *)value;
        buf_add_str(out, text == NULL ? "" : text);
        break;
    }
    case FIELD_ENUM:
        buf_add_str(out, field->choices[*(const int *)value]);
        break;
    case FIELD_BYTES:
        add_bytes(out, *(const int64_t *)value);
        break;
    case FIELD_MS:
        add_ms(out, *(const int64_t *)value);
        break;
    case FIELD_INTERVAL:
        add_interval(out, value);
        break;
    case FIELD_RANGE:
        add_range_value(out, value);
        break;
    case FIELD_INTS:
        add_ints(out, value);
        break;
    }
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
        if (fields[i].type == FIELD_STRING) {
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
