/* SPDX-License-Identifier: Apache-2.0 */
/* Text and small messages that grow as they are written. The capacity doubles, so adding bit by
 * bit is cheap; formatted text is printed a second time only where the room was too short. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define PRINTF_BYTES 64 /* room for most texts, which are then printed once */

static void reserve(struct buf *b, size_t more)
{
    b->data = mem_grow(b->data, &b->capacity, b->len + more + 1, 1);
}

void buf_release(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data != NULL) {
        b->data[0] = '\0';
    }
}

void buf_add(struct buf *b, const void *data, size_t n)
{
    reserve(b, n);
    if (n > 0) {
        memcpy(b->data + b->len, data, n);
    }
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_add_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_add_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_add_spaces(struct buf *b, size_t n)
{
    reserve(b, n);
    memset(b->data + b->len, ' ', n);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    buf_vprintf(b, fmt, args);
    va_end(args);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    reserve(b, PRINTF_BYTES);
    size_t room = b->capacity - b->len;
    int n = vsnprintf(b->data + b->len, room, fmt, args);
    if (n > 0 && (size_t)n >= room) {
        reserve(b, (size_t)n);
        (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    }
    b->len += n > 0 ? (size_t)n : 0;
    b->data[b->len] = '\0';
    va_end(again);
}

const char *buf_str(const struct buf *b)
{
    return b->data == NULL ? "" : b->data;
}

char *buf_take(struct buf *b)
{
    char *s = b->data == NULL ? mem_strdup("") : b->data;
    *b = (struct buf){0};
    return s;
}
