/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of manual pages. A line that begins with a full stop is a macro, and a backslash begins an
 * escape: all that comes from texts goes through add_text(). */
#include "config/man.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/release.h"

static void add_char(char c, struct buf *out)
{
    switch (c) {
    case '\\':
        buf_add_str(out, "\\e");
        break;
    case '-': /* not a hyphen: readers copy flags */
        buf_add_str(out, "\\-");
        break;
    case '\'':
        buf_add_str(out, "\\(aq");
        break;
    case '`':
        buf_add_str(out, "\\(ga");
        break;
    case '^':
        buf_add_str(out, "\\(ha");
        break;
    case '~':
        buf_add_str(out, "\\(ti");
        break;
    default:
        buf_add_char(out, c);
    }
}

static void add_plain(const char *text, size_t n, struct buf *out)
{
    if (n > 0 && text[0] == '.') {
        buf_add_str(out, "\\&");
    }
    for (size_t i = 0; i < n; i++) {
        add_char(text[i], out);
    }
}

/* @text with what stands in backquotes in bold. */
static void add_text(const char *text, size_t n, struct buf *out)
{
    while (n > 0) {
        const char *open = memchr(text, '`', n);
        const char *close =
            open == NULL ? NULL : memchr(open + 1, '`', n - (size_t)(open + 1 - text));
        if (close == NULL) {
            add_plain(text, n, out);
            return;
        }
        add_plain(text, (size_t)(open - text), out);
        buf_add_str(out, "\\fB");
        add_plain(open + 1, (size_t)(close - open - 1), out);
        buf_add_str(out, "\\fR");
        n -= (size_t)(close + 1 - text);
        text = close + 1;
    }
}

static void add_upper(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        add_char((char)toupper((unsigned char)*text), out);
    }
}

/* Begins a paragraph; below a heading there is one already. */
static void begin_paragraph(struct buf *out)
{
    const char *text = buf_str(out), *line = text + out->len - (out->len > 0);
    while (line > text && line[-1] != '\n') {
        line--;
    }
    if (strncmp(line, ".SH", 3) != 0 && strncmp(line, ".SS", 3) != 0) {
        buf_add_str(out, ".PP\n");
    }
}

void man_begin(const char *name, int chapter, const char *summary, struct buf *out)
{
    buf_add_str(out, ".TH ");
    add_upper(name, out);
    buf_printf(out, " %d \"\" \"Gradus %s\" \"Gradus\"\n.nh\n.ad l\n.SH NAME\n", chapter,
               release_version());
    add_plain(name, strlen(name), out);
    buf_add_str(out, " \\- ");
    add_text(summary, strlen(summary), out);
    buf_add_char(out, '\n');
}

void man_synopsis(const char *program, const char *arguments, struct buf *out)
{
    begin_paragraph(out);
    buf_add_str(out, "\\fB");
    add_plain(program, strlen(program), out);
    buf_add_str(out, "\\fR ");
    add_plain(arguments, strlen(arguments), out);
    buf_add_char(out, '\n');
}

void man_section(const char *title, struct buf *out)
{
    buf_add_str(out, ".SH \"");
    add_upper(title, out);
    buf_add_str(out, "\"\n");
}

void man_subsection(const char *title, struct buf *out)
{
    buf_add_str(out, ".SS \"");
    add_plain(title, strlen(title), out);
    buf_add_str(out, "\"\n");
}

void man_paragraph(const char *text, struct buf *out)
{
    begin_paragraph(out);
    add_text(text, strlen(text), out);
    buf_add_char(out, '\n');
}

void man_item(const char *term, const char *value, const char *text, struct buf *out)
{
    buf_add_str(out, ".TP\n\\fB");
    add_plain(term, strlen(term), out);
    buf_add_str(out, "\\fR");
    if (value != NULL) {
        buf_add_str(out, " \\fI");
        add_plain(value, strlen(value), out);
        buf_add_str(out, "\\fR");
    }
    buf_add_char(out, '\n');
    add_text(text, strlen(text), out);
    buf_add_char(out, '\n');
}

void man_item_line(const char *text, struct buf *out)
{
    buf_add_str(out, ".br\n");
    add_text(text, strlen(text), out);
    buf_add_char(out, '\n');
}

void man_entries(const struct man_entry *entries, struct buf *out)
{
    for (; entries != NULL && entries->term != NULL; entries++) {
        man_item(entries->term, NULL, entries->text, out);
    }
}

/* The number of bytes of the line at @text, and where the next one begins. */
static size_t line_of(const char *text, const char **next)
{
    size_t n = strcspn(text, "\n");
    *next = text + n + (text[n] == '\n');
    return n;
}

void man_example(const char *lines, struct buf *out)
{
    begin_paragraph(out);
    buf_add_str(out, ".nf\n");
    while (*lines != '\0') {
        const char *next;
        size_t n = line_of(lines, &next);
        add_plain(lines, n, out);
        buf_add_char(out, '\n');
        lines = next;
    }
    buf_add_str(out, ".fi\n");
}

void man_notes(const char *text, struct buf *out)
{
    while (*text != '\0') {
        const char *next;
        size_t n = line_of(text, &next);
        bool kept = text[0] == ' ';
        while (kept && next[0] == ' ') {
            n = (size_t)(next - text) + line_of(next, &next);
        }
        char *part = mem_printf("%.*s", (int)n, text);
        if (kept) {
            man_example(part, out);
        } else if (n > 0) {
            man_paragraph(part, out);
        }
        free(part);
        text = next;
    }
}

void man_see_also(const char *pages, struct buf *out)
{
    man_section("see also", out);
    while (*pages != '\0') {
        size_t name = strcspn(pages, "("), n = strcspn(pages, " ");
        buf_add_str(out, ".BR ");
        add_plain(pages, name, out);
        buf_add_char(out, ' ');
        add_plain(pages + name, n - name, out);
        buf_add_char(out, '\n');
        pages += n + strspn(pages + n, " ");
    }
    man_paragraph("Pages that are named as docs/NAME.md are installed with the programs, in the "
                  "directory of their documentation.",
                  out);
}
