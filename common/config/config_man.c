/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page of a command or service, from the rows that --help shows. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/man.h"

/* "gradus run" → "gradus-run", owned. */
static char *page_name(const char *program)
{
    char *name = mem_strdup(program);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
    return name;
}

/* What stands behind a flag; NULL: nothing. */
static const char *value_name(const struct field *row)
{
    switch (row->type) {
    case FIELD_BOOL:
        return NULL;
    case FIELD_INT:
    case FIELD_FLOAT:
        return "NUMBER";
    case FIELD_BYTES:
        return "SIZE";
    case FIELD_MS:
        return "TIME";
    case FIELD_ENUM:
        return "WORD";
    case FIELD_INTERVAL:
    case FIELD_RANGE:
    case FIELD_INTS:
    case FIELD_STRING:
    case FIELD_TEXTS:
        break;
    }
    return "TEXT";
}

static void add_row(const struct config_command *c, const struct field *row, struct buf *out)
{
    if (config_is_secret(c, row)) {
        return; /* it has no flag; ENVIRONMENT has it */
    }
    char *name = config_flag_name(row->path);
    char *flag = mem_printf("--%s%s", row->type == FIELD_BOOL ? "[no-]" : "", name);
    struct buf allowed = {0};
    man_item(flag, value_name(row), row->help, out);
    config_add_allowed(c, row, &allowed);
    man_item_line(buf_str(&allowed), out);
    buf_release(&allowed);
    free(flag);
    free(name);
}

static void add_groups(const struct config_command *c, struct buf *out)
{
    for (size_t g = 0; g < c->group_count; g++) {
        if (c->groups[g].count > 0) {
            man_section(c->groups[g].title, out);
        }
        for (size_t i = 0; i < c->groups[g].count; i++) {
            add_row(c, &c->groups[g].fields[i], out);
        }
    }
}

static void add_own_flag(void *out, const char *flag, const char *help)
{
    const char *blank = strchr(flag[0] == '-' && flag[1] != '-' ? "" : flag, ' ');
    char *name = mem_printf("%.*s", blank == NULL ? (int)strlen(flag) : (int)(blank - flag), flag);
    man_item(name, blank == NULL ? NULL : blank + 1, help, out);
    free(name);
}

/* The variables that stand for flags, and those that stand for nothing else. */
static void add_environment(const struct config_command *c, const struct man_about *about,
                            struct buf *out)
{
    struct buf names = {0};
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            const struct field *row = &c->groups[g].fields[i];
            if (config_has_variable(c, row) && !config_is_secret(c, row)) {
                char *name = config_variable_name(row->path);
                buf_printf(&names, "%s%s", names.len > 0 ? ", " : "", name);
                free(name);
            }
        }
    }
    if (names.len == 0 && about->environment == NULL) {
        buf_release(&names);
        return;
    }
    man_section("environment", out);
    if (names.len > 0) {
        man_item(buf_str(&names), NULL,
                 "Values of the flags of these names, where they are not given.", out);
    }
    if (c->file) {
        man_item(CONFIG_VARIABLE_PREFIX "CONFIG", NULL, "The file of --config.", out);
    }
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            const struct field *row = &c->groups[g].fields[i];
            if (config_is_secret(c, row)) {
                char *name = config_variable_name(row->path);
                man_item(name, NULL, row->help, out);
                free(name);
            }
        }
    }
    man_entries(about->environment, out);
    buf_release(&names);
}

void man_exits_help(const struct man_entry *exits, struct buf *out)
{
    struct buf line = {0};
    for (const struct man_entry *e = exits; e->term != NULL; e++) {
        buf_printf(&line, "%s %s %s", e == exits ? "Exit codes:" : ";", e->term, e->text);
    }
    buf_add_char(&line, '.');
    text_wrap(buf_str(&line), 0, CONFIG_HELP_COLUMNS, out);
    buf_release(&line);
}

void config_man(const struct config_command *c, const struct man_about *about, struct buf *out)
{
    char *name = page_name(c->program);
    char *usage = mem_printf("[FLAGS]%s%s", c->arguments[0] == '\0' ? "" : " ", c->arguments);
    man_begin(name, about->chapter, c->summary, out);
    man_section("synopsis", out);
    man_synopsis(c->program, usage, out);
    man_section("description", out);
    char *summary = mem_printf("%s.", c->summary);
    man_paragraph(summary, out);
    if (c->notes != NULL) {
        man_notes(c->notes, out);
    }
    add_groups(c, out);
    man_section("other flags", out);
    config_each_own_flag(c, add_own_flag, out);
    if (about->exits != NULL) {
        man_section("exit status", out);
        man_entries(about->exits, out);
    }
    add_environment(c, about, out);
    if (about->files != NULL) {
        man_section("files", out);
        man_entries(about->files, out);
    }
    if (c->examples != NULL) {
        man_section("examples", out);
        man_example(c->examples, out);
    }
    man_see_also(about->see_also, out);
    free(summary);
    free(usage);
    free(name);
}
