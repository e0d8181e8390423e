/* SPDX-License-Identifier: Apache-2.0 */
/* JSON that we write: values of jansson, which this header alone includes for those who build them,
 * and single strings. Where there is no memory for a value the process ends: no caller could do
 * better. */
#ifndef GRADUS_JSON_JSON_WRITE_H
#define GRADUS_JSON_JSON_WRITE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"

/* A whole number where it is one, so that 64 does not become 64.0; null for what JSON cannot say.
 */
json_t *json_number(double value);
/* A number with a fraction in any case; null for what JSON cannot say. */
json_t *json_fraction(double value);
json_t *json_text(const char *s); /* bytes that are no UTF-8 as \xNN */

/* Put @value into @object, or at the end of @array, which own it from then on. @key as json_text()
 * has it. */
void json_put(json_t *object, const char *key, json_t *value);
void json_append(json_t *array, json_t *value);

/* Append @value, indented and with a line end, to @out, and free it. @digits of a fraction; @ascii:
 * other characters are escaped. */
void json_print(json_t *value, unsigned digits, bool ascii, struct buf *out);

/* Append @s (UTF-8) in quotes, escaped. */
void json_add_string(struct buf *out, const char *s);
/* The same for any bytes, as json_text() has them. */
void json_add_text(struct buf *out, const char *s);

#endif
