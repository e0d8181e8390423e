/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for line ends, and goes over the fields of CSV as csv.c reads them. */
#include "data/row_cut.h"

#include <string.h>

#include "data/csv.h"
#include "data/tfrecord.h"

static bool is_separator(const struct row_kind *k, char c)
{
    return c == k->separator || (k->separator == CSV_BLANKS && c == '\t');
}

static const char *skip_blanks(const struct row_kind *k, const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t') &&
           (k->separator == CSV_BLANKS || !is_separator(k, *p))) {
        p++;
    }
    return p;
}

/* The place behind the closing quote of the field whose text begins at @p; NULL: it is not there.
 */
static const char *close_quote(const char *p, const char *end)
{
    for (;;) {
        const char *quote = memchr(p, '"', (size_t)(end - p));
        if (quote == NULL || quote + 1 == end) {
            return NULL;
        }
        if (quote[1] != '"') {
            return quote + 1;
        }
        p = quote + 2;
    }
}

static const char *line_end(const char *p, const char *end)
{
    const char *c = memchr(p, '\n', (size_t)(end - p));
    return c == NULL ? NULL : c + 1;
}

/* The place behind the record at @p. A wrong record ends nowhere before @end, so that its reader
 * says what is wrong. */
static const char *frame_end(const char *p, const char *end)
{
    const uint8_t *head = (const uint8_t *)p;
    const size_t n = (size_t)(end - p);
    uint64_t bytes = 0;
    if (n < TFRECORD_HEAD_BYTES) {
        return NULL;
    }
    if (!tfrecord_begins(head, n)) {
        return end;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes |= (uint64_t)head[i] << (8 * i);
    }
    return bytes <= n && TFRECORD_AROUND_BYTES <= n - bytes ? p + TFRECORD_AROUND_BYTES + bytes
                                                            : NULL;
}

const char *row_step(const struct row_kind *k, const char *p, const char *end)
{
    return k->framed ? frame_end(p, end) : line_end(p, end);
}

const char *row_end(const struct row_kind *k, const char *p, const char *end)
{
    if (k->framed) {
        return frame_end(p, end);
    }
    const char *plain = line_end(p, end);
    if (!k->quoted || (plain != NULL && memchr(p, '"', (size_t)(plain - p)) == NULL)) {
        return plain;
    }
    for (;;) {
        p = skip_blanks(k, p, end);
        if (p < end && *p == '"') {
            p = close_quote(p + 1, end);
            p = p == NULL ? NULL : skip_blanks(k, p, end);
            if (p == NULL) {
                return NULL;
            }
            if (p < end && *p != '\r' && *p != '\n' && !is_separator(k, *p)) {
                return line_end(p, end); /* a bad row, which ends with its line */
            }
        }
        while (p < end && *p != '\n' && !is_separator(k, *p)) {
            p++;
        }
        if (p == end) {
            return NULL;
        }
        if (*p++ == '\n') {
            return p;
        }
    }
}

size_t row_cut(const struct row_kind *k, const char *text, size_t n, uint64_t rows_max, bool last,
               uint64_t *lines)
{
    const char *p = text, *end = text + n;
    *lines = 0;
    for (uint64_t rows = 0; p < end && rows < rows_max; rows++) {
        const char *next = row_end(k, p, end);
        if (next == NULL && !last) {
            break;
        }
        next = next == NULL ? end : next;
        for (const char *c = p; c != NULL && c < next;) {
            c = row_step(k, c, next);
            *lines += c != NULL;
        }
        p = next;
    }
    return (size_t)(p - text);
}

bool row_has_lone_cr(const char *text, size_t n)
{
    const char *end = text + n;
    for (const char *c = text; c < end && (c = memchr(c, '\r', (size_t)(end - c))) != NULL; c++) {
        if (c + 1 == end || c[1] != '\n') {
            return true;
        }
    }
    return false;
}
