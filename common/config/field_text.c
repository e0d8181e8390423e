/* SPDX-License-Identifier: Apache-2.0 */
/* Fields as text: their values, and what is allowed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/field.h"

bool field_ranged(const struct field *field)
{
    return field->min != 0 || field->max != 0;
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
    if (!field_ranged(field)) {
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
    case FIELD_TEXTS:
        buf_add_str(out, "text, or a list of texts");
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
        if (field_ranged(field)) {
            buf_add_str(out, ",");
            add_range(field, out);
        }
        break;
    case FIELD_INTS:
        buf_printf(out, "list of at most %d whole numbers", FIELD_INTS_MAX);
        if (field_ranged(field)) {
            buf_add_str(out, ", each");
            add_range(field, out);
        }
        break;
    }
}

static const void *at_const(const struct field *field, const void *object)
{
    return (const char *)object + field->offset;
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
    case FIELD_STRING:
    case FIELD_TEXTS: {
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
