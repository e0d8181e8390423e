/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer that is always NUL-terminated, for text and for small messages.
 * A zeroed struct is a valid empty buffer. Not for tensors. */
#ifndef GRADUS_BASE_BUF_H
#define GRADUS_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
    char *data; /* NULL until something was added */
    size_t len;
    size_t capacity;
};

void buf_release(struct buf *b); /* frees; @b is empty again */
void buf_reset(struct buf *b);   /* keeps the memory */
void buf_add(struct buf *b, const void *data, size_t n);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_add_spaces(struct buf *b, size_t n);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));
const char *buf_str(const struct buf *b); /* never NULL; borrows */
char *buf_take(struct buf *b);            /* returns owned; @b is empty again */

#endif
