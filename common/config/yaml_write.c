/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a tree as YAML in the one form that we use: lists of plain values on one line, all else
 * in blocks, text in quotes unless no reader can take it for a number, a truth value or syntax. */
#include "config/yaml.h"

#include <string.h>
#include <strings.h>

/* Words and shapes that a YAML reader takes for something else than text. */
static bool looks_like_text(const char *s)
{
    static const char *const words[] = {"true", "false", "yes", "no",  "on",
                                        "off",  "y",     "n",   "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(s, words[i]) == 0) {
            return false;
        }
    }
    return strchr("+-.0123456789", s[0]) == NULL;
}

/* Whether @s can stand without quotes: a careful subset of what YAML allows. */
static bool plain(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
    static const char digits[] = "0123456789";
    size_t n = strlen(s);
    if (n == 0 || s[n - 1] == ' ' || strncmp(s, "...", 3) == 0) {
        return false;
    }
    bool starts = strchr(letters, s[0]) != NULL || strchr(digits, s[0]) != NULL || s[0] == '.' ||
                  ((s[0] == '-' || s[0] == '+') && n > 1 && strchr(digits, s[1]) != NULL);
    for (size_t i = 0; i < n && starts; i++) {
        starts = strchr(letters, s[i]) != NULL || strchr(digits, s[i]) != NULL ||
                 strchr(" .+-", s[i]) != NULL;
    }
    return starts;
}

/* The code point at @s (valid UTF-8, not ASCII) and its length in bytes. */
static unsigned code_point(const unsigned char *s, size_t *bytes)
{
    *bytes = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    unsigned c = s[0] & (0x7FU >> *bytes);
    for (size_t i = 1; i < *bytes; i++) {
        c = c << 6 | (s[i] & 0x3FU);
    }
    return c;
}

/* Line breaks, marks and controls beyond ASCII, which a reader folds or refuses. */
static bool special(unsigned c)
{
    return c < 0xA0 || c == 0x2028 || c == 0x2029 || c == 0xFEFF || c == 0xFFFE || c == 0xFFFF;
}

static void add_quoted(struct buf *out, const char *text)
{
    buf_add_char(out, '"');
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        size_t bytes = 1;
        unsigned c = *p;
        if (c >= 0x80) {
            c = code_point(p, &bytes);
        }
        if (c == '"' || c == '\\') {
            buf_printf(out, "\\%c", (int)c);
        } else if (c == '\n') {
            buf_add_str(out, "\\n");
        } else if (c == '\t') {
            buf_add_str(out, "\\t");
        } else if (c < 0x20 || c == 0x7F || (bytes > 1 && special(c))) {
            buf_printf(out, "\\u%04X", c);
        } else {
            buf_add(out, p, bytes);
        }
        p += bytes;
    }
    buf_add_char(out, '"');
}

static void write_scalar(const struct yaml_node *node, struct buf *out)
{
    bool bare = plain(node->text) && (node->style != YAML_QUOTED || looks_like_text(node->text));
    if (bare) {
        buf_add_str(out, node->text);
    } else {
        add_quoted(out, node->text);
    }
}

static bool on_one_line(const struct yaml_node *node)
{
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == YAML_MAPPING || node->items[i].value->kind != YAML_SCALAR) {
            return false;
        }
    }
    return true;
}

static void write_one_line(const struct yaml_node *node, struct buf *out)
{
    if (node->kind == YAML_SCALAR) {
        write_scalar(node, out);
        return;
    }
    buf_add_char(out, node->kind == YAML_SEQUENCE ? '[' : '{');
    for (size_t i = 0; i < node->count; i++) {
        buf_add_str(out, i == 0 ? "" : ", ");
        write_scalar(node->items[i].value, out);
    }
    buf_add_char(out, node->kind == YAML_SEQUENCE ? ']' : '}');
}

static void write_block(const struct yaml_node *node, size_t indent, bool indent_first,
                        struct buf *out)
{
    for (size_t i = 0; i < node->count; i++) {
        const struct yaml_entry *entry = &node->items[i];
        if (i > 0 || indent_first) {
            buf_add_spaces(out, indent);
        }
        if (node->kind == YAML_MAPPING) {
            struct yaml_node key = {.text = entry->key, .style = YAML_QUOTED};
            write_scalar(&key, out);
            buf_add_char(out, ':');
        } else {
            buf_add_char(out, '-');
        }
        bool inline_value = on_one_line(entry->value);
        bool same_line = inline_value || node->kind == YAML_SEQUENCE;
        buf_add_char(out, same_line ? ' ' : '\n');
        if (inline_value) {
            write_one_line(entry->value, out);
            buf_add_char(out, '\n');
        } else {
            write_block(entry->value, indent + 2, !same_line, out);
        }
    }
}

void yaml_write(const struct yaml_node *node, struct buf *out)
{
    if (on_one_line(node)) {
        write_one_line(node, out);
        buf_add_char(out, '\n');
    } else {
        write_block(node, 0, true, out);
    }
}
