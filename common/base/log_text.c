/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* How @c is written between quotes into @out, which has room for 7 bytes; NULL: as it is. @next is
 * the byte behind it. */
static const char *escape(unsigned char c, unsigned char next, char *out)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        break;
    }
    if (text_is_control(c, next)) {
        (void)snprintf(out, 7, c == 0xC2 ? "\\u00%02x" : "\\x%02x", c == 0xC2 ? next : c);
        return out;
    }
    return NULL;
}

static bool is_plain(const char *s)
{
    if (s[0] == '\0') {
        return false;
    }
    for (; *s != '\0'; s++) {
        if (strchr(" \"=\\", *s) != NULL ||
            text_is_control((unsigned char)s[0], (unsigned char)s[1])) {
            return false;
        }
    }
    return true;
}

const char *log_quote(const char *s, char *out, size_t n)
{
    if (n < 4) {
        return "";
    }
    if (is_plain(s)) {
        (void)snprintf(out, n, "%s", s);
        return out;
    }
    size_t k = 0;
    out[k++] = '"';
    for (; *s != '\0'; s++) {
        char room[8];
        const char *escaped = escape((unsigned char)s[0], (unsigned char)s[1], room);
        size_t bytes = escaped == NULL ? 1 : strlen(escaped);
        if (k + bytes + 2 > n) { /* room for the closing quote and the end, too */
            break;
        }
        memcpy(out + k, escaped == NULL ? s : escaped, bytes);
        k += bytes;
        /* skips the second byte of the escaped character */
        s += escaped != NULL && (unsigned char)*s == 0xC2;
    }
    out[k++] = '"';
    out[k] = '\0';
    return out;
}
