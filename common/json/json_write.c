/* SPDX-License-Identifier: Apache-2.0 */
/* Building and printing JSON, without a check at every caller. */
#include "json/json_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define WHOLE_MAX 9.0e18 /* fits 64 bits */

static json_t *made(json_t *value)
{
    if (value == NULL) {
        abort(); /* no memory */
    }
    return value;
}

json_t *json_number(double value)
{
    if (isfinite(value) && value == floor(value) && fabs(value) < WHOLE_MAX) {
        return made(json_integer((json_int_t)value));
    }
    return json_fraction(value);
}

json_t *json_fraction(double value)
{
    return made(isfinite(value) ? json_real(value) : json_null());
}

/* @s with bytes that are no UTF-8 as \xNN; owned. */
static char *escape(const char *s)
{
    const size_t n = 4 * strlen(s) + 1;
    char *out = malloc(n);
    if (out == NULL) {
        abort();
    }
    text_utf8(s, out, n);
    return out;
}

json_t *json_text(const char *s)
{
    if (text_is_utf8(s, strlen(s))) {
        return made(json_string(s));
    }
    char *escaped = escape(s);
    json_t *text = made(json_string(escaped));
    free(escaped);
    return text;
}

void json_put(json_t *object, const char *key, json_t *value)
{
    char *escaped = text_is_utf8(key, strlen(key)) ? NULL : escape(key);
    if (json_object_set_new(object, escaped != NULL ? escaped : key, made(value)) != 0) {
        abort();
    }
    free(escaped);
}

void json_append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, made(value)) != 0) {
        abort();
    }
}

void json_print(json_t *value, unsigned digits, bool ascii, struct buf *out)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(digits) |
                                       (ascii ? JSON_ENSURE_ASCII : 0U));
    json_decref(value);
    if (text == NULL) {
        abort();
    }
    buf_add_str(out, text);
    buf_add_char(out, '\n');
    free(text);
}

void json_add_string(struct buf *out, const char *s)
{
    buf_add_char(out, '"');
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') {
            buf_add_char(out, '\\');
            buf_add_char(out, *s);
        } else if (c == '\n') {
            buf_add_str(out, "\\n");
        } else if (c < 0x20) {
            buf_printf(out, "\\u%04x", c);
        } else {
            buf_add_char(out, *s);
        }
    }
    buf_add_char(out, '"');
}

void json_add_text(struct buf *out, const char *s)
{
    char *shown = escape(s);
    json_add_string(out, shown);
    free(shown);
}
