/* SPDX-License-Identifier: Apache-2.0 */
/* The list of problems that a parser found, sorted by position while it grows. diag_key() finds
 * the key that a message is about by the message's wording, so the two must change together. */
#include "config/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The place of a new entry: files keep the order in which they first appear, lines and columns
 * ascend within a file, and entries of one position keep the order in which they were added. */
static size_t place(const struct diags *d, const char *file, unsigned line, unsigned column)
{
    size_t end = d->count;
    while (end > 0 && strcmp(d->items[end - 1].file, file) != 0) {
        end--;
    }
    if (end == 0) {
        return d->count;
    }
    size_t at = end;
    while (at > 0 && strcmp(d->items[at - 1].file, file) == 0 &&
           (d->items[at - 1].line > line ||
            (d->items[at - 1].line == line && d->items[at - 1].column > column))) {
        at--;
    }
    return at;
}

void diags_add(struct diags *d, const char *file, unsigned line, unsigned column, const char *fmt,
               ...)
{
    if (d->count > DIAGS_MAX) {
        return;
    }
    if (d->count == DIAGS_MAX) {
        d->items = mem_grow(d->items, &d->capacity, d->count + 1, sizeof d->items[0]);
        d->items[d->count++] = (struct diag){
            .file = mem_strdup(file),
            .message = mem_printf("more than %d problems; the rest is not listed", DIAGS_MAX)};
        return;
    }
    struct buf message = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&message, fmt, args);
    va_end(args);

    size_t at = place(d, file, line, column);
    d->items = mem_grow(d->items, &d->capacity, d->count + 1, sizeof d->items[0]);
    memmove(&d->items[at + 1], &d->items[at], (d->count - at) * sizeof d->items[0]);
    d->items[at] = (struct diag){
        .file = mem_strdup(file), .line = line, .column = column, .message = buf_take(&message)};
    d->count++;
}

void diags_append(struct diags *d, const struct diags *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct diag *item = &from->items[i];
        diags_add(d, item->file, item->line, item->column, "%s", item->message);
    }
}

void diags_format(const struct diags *d, struct buf *out)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct diag *item = &d->items[i];
        buf_add_str(out, item->file);
        if (item->line > 0) {
            buf_printf(out, ":%u", item->line);
            if (item->column > 0) {
                buf_printf(out, ":%u", item->column);
            }
        }
        buf_printf(out, ": %s\n", item->message);
    }
}

/* Bytes of a key at @s: words of a job file with dots between them. */
static size_t key_bytes(const char *s)
{
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_.");
}

/* The word in quotes at the start of @s, as a length behind the first quote. */
static size_t quoted_bytes(const char *s)
{
    return s[0] == '\'' ? strcspn(s + 1, "'") : 0;
}

void diag_key(const char *message, struct buf *out)
{
    static const char unknown[] = "unknown key ", section[] = "the section ";
    size_t n = key_bytes(message);
    if (n > 0 && (strncmp(message + n, ": ", 2) == 0 ||
                  strncmp(message + n, " is missing", strlen(" is missing")) == 0)) {
        buf_printf(out, "%.*s", (int)n, message);
    } else if (strncmp(message, unknown, sizeof unknown - 1) == 0) {
        const char *word = message + sizeof unknown - 1;
        n = quoted_bytes(word);
        const char *rest = word + (n > 0 ? n + 2 : 0);
        size_t where = strncmp(rest, " in ", 4) == 0 ? key_bytes(rest + 4) : 0;
        buf_printf(out, "%.*s%s%.*s", (int)where, where > 0 ? rest + 4 : "", where > 0 ? "." : "",
                   (int)n, word + 1);
    } else if (strncmp(message, section, sizeof section - 1) == 0) {
        const char *word = message + sizeof section - 1;
        buf_printf(out, "%.*s", (int)quoted_bytes(word), word + 1);
    }
}

void diags_release(struct diags *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].file);
        free(d->items[i].message);
    }
    free(d->items);
    *d = (struct diags){0};
}
