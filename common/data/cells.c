/* SPDX-License-Identifier: Apache-2.0 */
/* The marks are control characters, which no text between them has: it is shown with '?' there. */
#include "data/cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

const char *cells_mark(const char *text, size_t bytes_max, bool quoted, char *out, size_t n)
{
    const char *quote = quoted ? "\"" : "";
    size_t len = strlen(text), shown = len < bytes_max ? len : bytes_max;
    while (shown > 0 && shown < len && ((unsigned char)text[shown] & 0xC0U) == 0x80U) {
        shown--; /* do not cut a UTF-8 character */
    }
    (void)snprintf(out, n, CELLS_BEGIN "%s%.*s%s%s" CELLS_END, quote, (int)shown, text,
                   shown < len ? "…" : "", quote);
    for (char *p = out + 1; p[0] != '\0' && p[1] != '\0'; p++) {
        *p = (unsigned char)*p < 0x20 || *p == 0x7F ? '?' : *p;
    }
    return out;
}

char *cells_settle(const char *message, bool hide)
{
    if (message == NULL) {
        return NULL;
    }
    struct buf out = {0};
    while (*message != '\0') {
        size_t n = strcspn(message, CELLS_BEGIN);
        buf_add(&out, message, n);
        message += n;
        if (*message == CELLS_BEGIN[0]) { /* a message that was cut has no end mark */
            n = strcspn(++message, CELLS_END);
            buf_add(&out, hide ? CELLS_HIDDEN : message, hide ? sizeof CELLS_HIDDEN - 1 : n);
            message += n + (message[n] != '\0');
        }
    }
    return out.data != NULL ? buf_take(&out) : mem_strdup("");
}

void cells_settle_err(struct err *err, bool hide)
{
    if (err != NULL) {
        char *settled = cells_settle(err->msg, hide);
        text_copy(err->msg, sizeof err->msg, settled);
        free(settled);
    }
}
