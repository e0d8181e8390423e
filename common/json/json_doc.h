/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that a file holds, read with checks. Messages begin with the key, so a caller wraps them
 * with the file. */
#ifndef GRADUS_JSON_JSON_DOC_H
#define GRADUS_JSON_JSON_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Limits the memory that a hostile text costs once parsed (about 64 bytes a value). */
#define JSON_DOC_VALUES_MAX (4U << 20)

struct json_t; /* jansson's value */

/* Parse an object. Whole numbers go to 2^64 - 1. Duplicate keys and anything after it but blanks
 * are errors. @root: json_doc_free(). Errors: ERR_CORRUPT with line and column. */
int json_doc_parse(const char *text, size_t n, struct json_t **root, struct err *err);
void json_doc_free(struct json_t *root); /* NULL is fine */

/* Members of @object, borrowed. Errors: ERR_CORRUPT missing, of another type or above @max. */
int json_doc_u64(const struct json_t *object, const char *key, uint64_t max, uint64_t *out,
                 struct err *err);
int json_doc_string(const struct json_t *object, const char *key, const char **out,
                    struct err *err);
int json_doc_object(const struct json_t *object, const char *key, const struct json_t **out,
                    struct err *err);
int json_doc_array(const struct json_t *object, const char *key, size_t max,
                   const struct json_t **out, size_t *count, struct err *err);
/* Element @i of an array, as a whole number from 0 or as text; false when it is neither. */
bool json_doc_item_u64(const struct json_t *array, size_t i, uint64_t *out);
bool json_doc_item_i64(const struct json_t *array, size_t i, int64_t *out); /* also negative */
bool json_doc_item_string(const struct json_t *array, size_t i, const char **out);
const struct json_t *json_doc_item(const struct json_t *array, size_t i); /* NULL past the end */
size_t json_doc_count(const struct json_t *value); /* entries of an array or object, else 0 */

/* Members in the order of the text: @iterator begins NULL; returns the key or NULL at the end. */
const char *json_doc_next(const struct json_t *object, void **iterator,
                          const struct json_t **value);
/* NULL: it is not there, or @object is none. */
const struct json_t *json_doc_member(const struct json_t *object, const char *key);
/* true if it is there, and true */
bool json_doc_true(const struct json_t *object, const char *key);
bool json_doc_is_object(const struct json_t *value);
bool json_doc_is_array(const struct json_t *value);
bool json_doc_is_null(const struct json_t *value);
/* False when it is neither true nor false. */
bool json_doc_bool(const struct json_t *value, bool *out);
/* False when it is no number. */
bool json_doc_number(const struct json_t *value, double *out);
/* The digits of a whole number, with its sign; false when it is none. */
#define JSON_DOC_DIGITS_BYTES 24
bool json_doc_digits(const struct json_t *value, char out[JSON_DOC_DIGITS_BYTES]);
const char *json_doc_text(const struct json_t *value); /* NULL when it is not a string */
/* Append @value on one line; numbers read back as they were. */
void json_doc_print(const struct json_t *value, struct buf *out);

#endif
