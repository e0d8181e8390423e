/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks lines that are wider than the user's terminal, between words, and indents what follows.
 * Text for a file or a pipe is left as it is. */
#include "cli/terminal.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

#define COLUMNS_DEFAULT 80 /* of a terminal that does not say its width */
#define COLUMNS_MIN 20     /* narrower ones are treated as if they had so many */
#define INDENT 4           /* blanks before the rest of a line without columns */

size_t terminal_columns(int fd)
{
    struct winsize size = {0};
    if (isatty(fd) == 0) {
        return TERMINAL_ANY;
    }
    size_t columns = ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    return columns == 0 ? COLUMNS_DEFAULT : columns < COLUMNS_MIN ? COLUMNS_MIN : columns;
}

/* Bytes of the first @columns characters of @line, or all of its @n. */
static size_t bytes_of(const char *line, size_t n, size_t columns)
{
    size_t i = 0;
    for (size_t column = 0; i < n; i++) {
        bool begins = ((unsigned char)line[i] & 0xC0) != 0x80;
        if (begins && column++ == columns) {
            break;
        }
    }
    return i;
}

/* The column in which the rest of @line goes on. */
static size_t indent_of(const char *line, size_t n, size_t columns)
{
    size_t indent = 0;
    while (indent < n && line[indent] == ' ') {
        indent++;
    }
    for (size_t i = 0; indent == 0 && i + 2 < n; i++) {
        if (line[i] == ' ' && line[i + 1] == ' ' && line[i + 2] != ' ') {
            indent = text_columns(line, i + 2);
        }
    }
    return indent == 0 || indent > columns / 2 ? INDENT : indent;
}

/* The place to break @line, of which the first @fits bytes fit: the blank that ends a word, behind
 * the first @least bytes. @n when there is none. */
static size_t break_of(const char *line, size_t n, size_t fits, size_t least)
{
    size_t single = 0;
    for (size_t i = fits; i > least; i--) {
        bool blank = line[i] == ' ' && line[i - 1] != ' ';
        if (blank && i + 1 < n && line[i + 1] == ' ') {
            return i;
        }
        single = blank && single == 0 ? i : single;
    }
    for (size_t i = single != 0 ? single : fits; i < n; i++) {
        if (line[i] == ' ' && i > least) {
            return i;
        }
    }
    return n;
}

static void wrap_line(const char *line, size_t n, size_t columns, struct buf *out)
{
    size_t indent = indent_of(line, n, columns);
    size_t room = columns, least = indent;
    while (n > 0) {
        size_t fits = bytes_of(line, n, room);
        size_t end = fits == n ? n : break_of(line, n, fits, least);
        buf_add(out, line, end);
        while (end < n && line[end] == ' ') {
            end++;
        }
        line += end;
        n -= end;
        if (n > 0) {
            buf_add_char(out, '\n');
            buf_add_spaces(out, indent);
        }
        room = columns - indent;
        least = 0;
    }
}

void terminal_wrap(const char *text, size_t columns, struct buf *out)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        if (columns == TERMINAL_ANY || text_columns(text, n) <= columns) {
            buf_add(out, text, n);
        } else {
            wrap_line(text, n, columns, out);
        }
        text += n;
        if (*text == '\n') {
            buf_add_char(out, '\n');
            text++;
        }
    }
}

void terminal_print(const struct buf *text)
{
    struct buf out = {0};
    terminal_wrap(buf_str(text), terminal_columns(STDOUT_FILENO), &out);
    (void)fputs(buf_str(&out), stdout);
    buf_release(&out);
}
