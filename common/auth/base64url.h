/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 with the alphabet for URLs and without padding (RFC 4648, section 5), as JSON web tokens
 * have it. */
#ifndef GRADUS_AUTH_BASE64URL_H
#define GRADUS_AUTH_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

void base64url_encode(const void *data, size_t n, struct buf *out); /* appends */
/* Appends the bytes that the @n characters encode; false, and nothing appended, when they encode
 * none: padding, blanks and left-over bits are refused, so each value has one form. */
bool base64url_decode(const char *text, size_t n, struct buf *out);

#endif
