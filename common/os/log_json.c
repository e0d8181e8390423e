/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a line as log_write() composes it, key by key, and writes it as JSON. Escapes of
 * log_quote() are JSON's own but for \xNN. */
#include "os/log_json.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

#define CLOSING 2 /* bytes that are kept for "} */

struct writer {
    char *out;
    size_t n, room;
    bool full;
    bool ascii; /* only ASCII is written as it is: the other bytes are no UTF-8 */
};

static void put(struct writer *w, const char *text, size_t n)
{
    w->full = w->full || w->n + n + CLOSING > w->room;
    if (!w->full) {
        memcpy(w->out + w->n, text, n);
        w->n += n;
    }
}

static void put_plain(struct writer *w, char c)
{
    bool other = (unsigned char)c >= 0x80 && w->ascii;
    if (other || (unsigned char)c < 0x20) {
        put(w, "?", 1);
    } else if (c == '"' || c == '\\') {
        const char escaped[2] = {'\\', c};
        put(w, escaped, sizeof escaped);
    } else {
        put(w, &c, 1);
    }
}

/* The escape at @s, which begins with a backslash; returns its bytes. */
static size_t put_escape(struct writer *w, const char *s, const char *end)
{
    if (end - s >= 4 && s[1] == 'x') {
        const char unicode[6] = {'\\', 'u', '0', '0', s[2], s[3]};
        put(w, unicode, sizeof unicode);
        return 4;
    }
    if (end - s >= 6 && s[1] == 'u') {
        put(w, s, 6);
        return 6;
    }
    if (end - s >= 2 && strchr("\"\\nrt", s[1]) != NULL) {
        put(w, s, 2);
        return 2;
    }
    put_plain(w, '\\');
    return 1;
}

/* Writes a value. Returns the place behind it. */
static const char *put_value(struct writer *w, const char *s, const char *end)
{
    if (s < end && *s == '"') {
        for (s++; s < end && *s != '"';) {
            if (*s == '\\') {
                s += put_escape(w, s, end);
            } else {
                put_plain(w, *s++);
            }
        }
        return s < end ? s + 1 : s;
    }
    while (s < end && *s != ' ') {
        put_plain(w, *s++);
    }
    return s;
}

/* Writes a key and its value. Returns the place behind them. */
static const char *put_field(struct writer *w, const char *s, const char *end)
{
    size_t before = w->n;
    put(w, w->n == 1 ? "\"" : ",\"", w->n == 1 ? 1 : 2);
    while (s < end && *s != '=' && *s != ' ') {
        put_plain(w, *s++);
    }
    put(w, "\":\"", 3);
    if (w->full) {
        w->n = before; /* no key without a value */
        return end;
    }
    if (s < end && *s == '=') {
        s = put_value(w, s + 1, end);
    }
    w->out[w->n++] = '"'; /* CLOSING has kept room */
    w->full = w->full || w->n + CLOSING > w->room;
    return s;
}

size_t log_json(const char *line, size_t n, char *out, size_t room)
{
    struct writer w = {.out = out, .room = room, .ascii = !text_is_utf8(line, n)};
    const char *end = line + n;
    w.out[w.n++] = '{';
    for (const char *s = line; s < end && !w.full;) {
        if (*s == ' ') {
            s++;
        } else {
            s = put_field(&w, s, end);
        }
    }
    w.out[w.n++] = '}';
    return w.n;
}
