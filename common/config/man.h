/* SPDX-License-Identifier: Apache-2.0 */
/* Manual pages, as the macro package `man` of groff and mandoc reads them: of commands and services
 * by their tables (config_man()), and of anything else piece by piece.
 *
 * Texts are those of --help: words in backquotes become bold, all else stands as it is. */
#ifndef GRADUS_CONFIG_MAN_H
#define GRADUS_CONFIG_MAN_H

#include "base/buf.h"
#include "config/config.h"

/* An entry of a list; the last of a list has no term. */
struct man_entry {
    const char *term, *text;
};

/* What a page says beside the tables. All borrowed. */
struct man_about {
    int chapter;                         /* 1: commands, 5: files, 8: services */
    const struct man_entry *exits;       /* EXIT STATUS */
    const struct man_entry *environment; /* ENVIRONMENT, below the variables of flags; or NULL */
    const struct man_entry *files;       /* FILES; or NULL */
    const char *see_also;                /* "gradus(1), gradus-job(5)" */
};

/* The page of a command or service: gradus-run(1). */
void config_man(const struct config_command *command, const struct man_about *about,
                struct buf *out);

/* "Exit codes: 0 done; 1 failed." for --help. */
void man_exits_help(const struct man_entry *exits, struct buf *out);

/* ---- pieces ---- */

/* The head of the page, with its section NAME. */
void man_begin(const char *name, int chapter, const char *summary, struct buf *out);
/* What is typed: @program in bold, and its arguments. */
void man_synopsis(const char *program, const char *arguments, struct buf *out);
void man_section(const char *title, struct buf *out);
void man_subsection(const char *title, struct buf *out);
/* A paragraph. */
void man_paragraph(const char *text, struct buf *out);
/* An entry of a list: @term in bold, with @value behind it in italics (NULL: none). */
void man_item(const char *term, const char *value, const char *text, struct buf *out);
/* A further line of the entry. */
void man_item_line(const char *text, struct buf *out);
void man_entries(const struct man_entry *entries, struct buf *out);
/* Lines that stay as they are. */
void man_example(const char *lines, struct buf *out);
/* A paragraph for each line of @text; lines that begin with a blank stay as they are. */
void man_notes(const char *text, struct buf *out);
/* The section SEE ALSO: "gradus(1), gradus-job(5)", and where docs/ is. */
void man_see_also(const char *pages, struct buf *out);

#endif
