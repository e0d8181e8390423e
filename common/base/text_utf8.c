/* SPDX-License-Identifier: Apache-2.0 */
/* What UTF-8 is, by RFC 3629: no surrogates, nothing above U+10FFFF, no character longer than it
 * has to be. */
#include "base/text.h"

#include <stdint.h>
#include <string.h>

/* Number of bytes of the valid character at @p, which has @n bytes left; 0: no valid character, or
 * NUL. */
static size_t utf8_character(const unsigned char *p, size_t n)
{
    size_t more;
    uint32_t c;
    if (p[0] < 0x80) {
        return p[0] != 0;
    }
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        more = 1;
        c = p[0] & 0x1FU;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        more = 2;
        c = p[0] & 0x0FU;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        more = 3;
        c = p[0] & 0x07U;
    } else {
        return 0;
    }
    if (more >= n) {
        return 0;
    }
    for (size_t k = 1; k <= more; k++) {
        if ((p[k] & 0xC0U) != 0x80U) {
            return 0;
        }
        c = c << 6 | (p[k] & 0x3FU);
    }
    if ((more == 2 && (c < 0x800 || (c >= 0xD800 && c <= 0xDFFF))) ||
        (more == 3 && (c < 0x10000 || c > 0x10FFFF))) {
        return 0;
    }
    return more + 1;
}

bool text_is_utf8(const char *s, size_t n)
{
    size_t bytes = 1;
    for (size_t i = 0; i < n && bytes > 0; i += bytes) {
        bytes = utf8_character((const unsigned char *)s + i, n - i);
    }
    return bytes > 0;
}

void text_utf8(const char *s, char *out, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t left = strlen(s), at = 0;
    while (left > 0) {
        size_t bytes = utf8_character((const unsigned char *)s, left);
        const unsigned char byte = (unsigned char)s[0];
        const char escape[] = {'\\', 'x', digits[byte >> 4], digits[byte & 15U]};
        const char *from = bytes > 0 ? s : escape;
        const size_t shown = bytes > 0 ? bytes : sizeof escape;
        if (at + shown >= n) {
            break;
        }
        memcpy(out + at, from, shown);
        at += shown;
        s += bytes > 0 ? bytes : 1;
        left -= bytes > 0 ? bytes : 1;
    }
    out[at] = '\0';
}
