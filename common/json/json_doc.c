/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON of files that may be damaged or hostile.
 *
 * jansson's whole numbers end at 2^63 - 1, ours at 2^64 - 1. Those between are handed to it as
 * texts that begin with LARGE_MARK, and read back from these. A text that looks like one of them is
 * the number; columns in errors behind one, on its line, are too high by what it was longer. */
#include "json/json_doc.h"

#include "json/json_write.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define LARGE_MARK '\x01'
#define LARGE_MARK_JSON "\\u0001"

/* Every value but the first of its array or object follows a comma, a key's value a colon. */
static bool too_many_values(const char *text, size_t n)
{
    size_t values = 0;
    for (size_t i = 0; i < n; i++) {
        values += text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == '{';
    }
    return values > JSON_DOC_VALUES_MAX;
}

/* True if the number of @n digits is above 2^63 - 1 and below 2^64. */
static bool is_large(const char *digits, size_t n)
{
    static const char least[] = "9223372036854775808", most[] = "18446744073709551615";
    return (n == sizeof least - 1 && memcmp(digits, least, n) >= 0) ||
           (n == sizeof most - 1 && digits[0] == '1' && memcmp(digits, most, n) <= 0);
}

static size_t digits_at(const char *text, size_t n, size_t i)
{
    size_t end = i;
    while (end < n && isdigit((unsigned char)text[end])) {
        end++;
    }
    return end - i;
}

/* Rewrites such numbers into @out; empty: there is none, as mostly. */
static void mark_large(const char *text, size_t n, struct buf *out)
{
    bool quoted = false;
    size_t copied = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text[i] == '\\') {
            i++;
        } else if (!quoted && isdigit((unsigned char)text[i])) {
            size_t digits = digits_at(text, n, i);
            bool begins = i == 0 || strchr("-+.eE", text[i - 1]) == NULL;
            bool ends = i + digits == n || strchr(".eE", text[i + digits]) == NULL;
            if (begins && ends && is_large(text + i, digits)) {
                buf_add(out, text + copied, i - copied);
                buf_printf(out, "\"" LARGE_MARK_JSON "%.*s\"", (int)digits, text + i);
                copied = i + digits;
            }
            i += digits - 1;
        }
    }
    if (copied > 0) {
        buf_add(out, text + copied, n - copied);
    }
}

static bool large(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    if (text == NULL || text[0] != LARGE_MARK || !is_large(text + 1, strlen(text + 1)) ||
        text[1 + strspn(text + 1, "0123456789")] != '\0') {
        return false;
    }
    *out = strtoull(text + 1, NULL, 10);
    return true;
}

/* False: it is no whole number from 0 on. */
static bool whole(const json_t *value, uint64_t *out)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    return large(value, out);
}

/* NULL: it is no text. */
static const char *text_of(const json_t *value)
{
    uint64_t number;
    return large(value, &number) ? NULL : json_string_value(value);
}

int json_doc_parse(const char *text, size_t n, struct json_t **root, struct err *err)
{
    if (too_many_values(text, n)) {
        return err_set(err, ERR_CORRUPT, "JSON of more than %u values", JSON_DOC_VALUES_MAX);
    }
    json_error_t why;
    struct buf marked = {0};
    mark_large(text, n, &marked);
    json_t *value = marked.len == 0
                        ? json_loadb(text, n, JSON_REJECT_DUPLICATES, &why)
                        : json_loadb(marked.data, marked.len, JSON_REJECT_DUPLICATES, &why);
    buf_release(&marked);
    if (value == NULL) {
        return err_set(err, ERR_CORRUPT, "JSON, line %d column %d: %s", why.line, why.column,
                       why.text);
    }
    if (!json_is_object(value)) {
        json_decref(value);
        return err_set(err, ERR_CORRUPT, "JSON: an object is expected");
    }
    *root = value;
    return 0;
}

void json_doc_free(struct json_t *root)
{
    json_decref(root);
}

static int member(const json_t *object, const char *key, json_type type, const char *expected,
                  const json_t **out, struct err *err)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return err_set(err, ERR_CORRUPT, "%s: missing", key);
    }
    if (json_typeof(value) != type) {
        return err_set(err, ERR_CORRUPT, "%s: %s is expected", key, expected);
    }
    *out = value;
    return 0;
}

int json_doc_u64(const struct json_t *object, const char *key, uint64_t max, uint64_t *out,
                 struct err *err)
{
    const json_t *value = json_object_get(object, key);
    uint64_t n = 0;
    if (value == NULL || (!json_is_integer(value) && !large(value, &n))) {
        return member(object, key, JSON_INTEGER, "a whole number", &value, err);
    }
    if (!whole(value, &n)) {
        return err_set(err, ERR_CORRUPT, "%s: %lld is out of range", key,
                       (long long)json_integer_value(value));
    }
    if (n > max) {
        return err_set(err, ERR_CORRUPT, "%s: %" PRIu64 " is out of range", key, n);
    }
    *out = n;
    return 0;
}

int json_doc_string(const struct json_t *object, const char *key, const char **out, struct err *err)
{
    const json_t *value = NULL;
    int rc = member(object, key, JSON_STRING, "text", &value, err);
    uint64_t number;
    if (rc == 0 && large(value, &number)) {
        rc = err_set(err, ERR_CORRUPT, "%s: text is expected", key);
    }
    if (rc == 0) {
        *out = json_string_value(value);
    }
    return rc;
}

int json_doc_object(const struct json_t *object, const char *key, const struct json_t **out,
                    struct err *err)
{
    return member(object, key, JSON_OBJECT, "an object", out, err);
}

int json_doc_array(const struct json_t *object, const char *key, size_t max,
                   const struct json_t **out, size_t *count, struct err *err)
{
    const json_t *value = NULL;
    int rc = member(object, key, JSON_ARRAY, "a list", &value, err);
    if (rc != 0) {
        return rc;
    }
    if (json_array_size(value) > max) {
        return err_set(err, ERR_CORRUPT, "%s: a list of %zu; at most %zu", key,
                       json_array_size(value), max);
    }
    *out = value;
    *count = json_array_size(value);
    return 0;
}

bool json_doc_item_u64(const struct json_t *array, size_t i, uint64_t *out)
{
    return whole(json_array_get(array, i), out);
}

bool json_doc_item_i64(const struct json_t *array, size_t i, int64_t *out)
{
    const json_t *value = json_array_get(array, i);
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
    }
    return json_is_integer(value);
}

bool json_doc_item_string(const struct json_t *array, size_t i, const char **out)
{
    const char *text = text_of(json_array_get(array, i));
    if (text != NULL) {
        *out = text;
    }
    return text != NULL;
}

const struct json_t *json_doc_item(const struct json_t *array, size_t i)
{
    return json_array_get(array, i);
}

size_t json_doc_count(const struct json_t *value)
{
    return json_is_array(value) ? json_array_size(value) : json_object_size(value);
}

/* jansson's iterators want an object that may be changed; these functions do not change it. */
static json_t *mutable_object(const struct json_t *object)
{
    union {
        const json_t *in;
        json_t *out;
    } cast = {.in = object};
    return cast.out;
}

const char *json_doc_next(const struct json_t *object, void **iterator, const struct json_t **value)
{
    json_t *o = mutable_object(object);
    *iterator = *iterator == NULL ? json_object_iter(o) : json_object_iter_next(o, *iterator);
    if (*iterator == NULL) {
        return NULL;
    }
    *value = json_object_iter_value(*iterator);
    return json_object_iter_key(*iterator);
}

const struct json_t *json_doc_member(const struct json_t *object, const char *key)
{
    return json_object_get(object, key);
}

bool json_doc_true(const struct json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

bool json_doc_is_object(const struct json_t *value)
{
    return json_is_object(value);
}

bool json_doc_is_array(const struct json_t *value)
{
    return json_is_array(value);
}

bool json_doc_is_null(const struct json_t *value)
{
    return json_is_null(value);
}

bool json_doc_bool(const struct json_t *value, bool *out)
{
    *out = json_is_true(value);
    return json_is_boolean(value);
}

const char *json_doc_text(const struct json_t *value)
{
    return text_of(value);
}

bool json_doc_number(const struct json_t *value, double *out)
{
    uint64_t n;
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    if (large(value, &n)) {
        *out = (double)n;
        return true;
    }
    return false;
}

bool json_doc_digits(const struct json_t *value, char out[JSON_DOC_DIGITS_BYTES])
{
    uint64_t n;
    if (json_is_integer(value)) {
        (void)snprintf(out, JSON_DOC_DIGITS_BYTES, "%" JSON_INTEGER_FORMAT,
                       json_integer_value(value));
        return true;
    }
    if (large(value, &n)) {
        (void)snprintf(out, JSON_DOC_DIGITS_BYTES, "%" PRIu64, n);
        return true;
    }
    return false;
}

void json_doc_print(const struct json_t *value, struct buf *out)
{
    char *text = json_dumps(value, JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);
    if (text == NULL) {
        abort(); /* no memory */
    }
    buf_add_str(out, text);
    free(text);
}
