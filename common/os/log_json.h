/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines as JSON, for programs that collect logs. */
#ifndef GRADUS_OS_LOG_JSON_H
#define GRADUS_OS_LOG_JSON_H

#include <stddef.h>

/* Writes the line `key=value key="quoted value"` of @n bytes as one JSON object to @out of @room
 * bytes, at least 3; returns its bytes. All values are strings, so that a key has one type whatever
 * it is given; a word without '=' is a key with an empty value. Bytes that are no UTF-8 become '?'.
 * What does not fit is cut; the object is closed all the same. */
size_t log_json(const char *line, size_t n, char *out, size_t room);

#endif
