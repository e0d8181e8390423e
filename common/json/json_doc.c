/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON of files that may be damaged or hostile. */
#include "json/json_doc.h"

#include "json/json_write.h"

#include <string.h>

/* Every value but the first of its array or object follows a comma, a key's value a colon. */
static bool too_many_values(const char *text, size_t n)
{
    size_t values = 0;
    for (size_t i = 0; i < n; i++) {
        values += text[i] == ',' || text[i] == ':' || text[i] == '[' || text[i] == '{';
    }
    return values > JSON_DOC_VALUES_MAX;
}

int json_doc_parse(const char *text, size_t n, struct json_t **root, struct err *err)
{
    if (too_many_values(text, n)) {
        return err_set(err, ERR_CORRUPT, "JSON of more than %u values", JSON_DOC_VALUES_MAX);
    }
    json_error_t why;
    json_t *value = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
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
    const json_t *value = NULL;
    int rc = member(object, key, JSON_INTEGER, "a whole number", &value, err);
    if (rc != 0) {
        return rc;
    }
    json_int_t n = json_integer_value(value);
    if (n < 0 || (uint64_t)n > max) {
        return err_set(err, ERR_CORRUPT, "%s: %lld is out of range", key, (long long)n);
    }
    *out = (uint64_t)n;
    return 0;
}

int json_doc_string(const struct json_t *object, const char *key, const char **out, struct err *err)
{
    const json_t *value = NULL;
    int rc = member(object, key, JSON_STRING, "text", &value, err);
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
    const json_t *value = json_array_get(array, i);
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

bool json_doc_item_string(const struct json_t *array, size_t i, const char **out)
{
    const char *text = json_string_value(json_array_get(array, i));
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

bool json_doc_is_object(const struct json_t *value)
{
    return json_is_object(value);
}

const char *json_doc_text(const struct json_t *value)
{
    return json_string_value(value);
}

bool json_doc_number(const struct json_t *value, double *out)
{
    if (json_is_number(value)) {
        *out = json_number_value(value);
    }
    return json_is_number(value);
}
