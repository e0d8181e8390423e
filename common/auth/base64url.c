/* SPDX-License-Identifier: Apache-2.0 */
/* Six bits a character, the first ones first. */
#include "auth/base64url.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_encode(const void *data, size_t n, struct buf *out)
{
    const unsigned char *in = data;
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | in[i];
        for (count += 8; count >= 6; count -= 6) {
            buf_add_char(out, alphabet[bits >> (count - 6) & 63]);
        }
    }
    if (count > 0) {
        buf_add_char(out, alphabet[bits << (6 - count) & 63]);
    }
}

bool base64url_decode(const char *text, size_t n, struct buf *out)
{
    struct buf read = {0};
    uint32_t bits = 0;
    unsigned count = 0;
    bool good = n % 4 != 1;
    for (size_t i = 0; i < n && good; i++) {
        const char *at = text[i] != '\0' ? strchr(alphabet, text[i]) : NULL;
        good = at != NULL;
        bits = good ? bits << 6 | (uint32_t)(at - alphabet) : 0;
        count += 6;
        if (good && count >= 8) {
            count -= 8;
            buf_add_char(&read, (char)(unsigned char)(bits >> count & 255));
        }
    }
    good = good && (bits & ((1U << count) - 1)) == 0;
    if (good) {
        buf_add(out, read.data, read.len);
    }
    buf_release(&read);
    return good;
}
