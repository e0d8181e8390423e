/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a command: --help and --print-config. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/binding.h"
#include "config/config.h"
#include "config/yaml.h"

#define INDENT 6
#define DEPTH_MAX 8 /* of keys in a row's path */

static void add_flag(void *ctx, const char *flag, const char *help)
{
    struct buf *out = ctx;
    buf_printf(out, "  %s\n", flag);
    text_wrap(help, INDENT, CONFIG_HELP_COLUMNS, out);
}

void config_add_allowed(const struct config_command *c, const struct field *row, struct buf *out)
{
    char *variable = config_has_variable(c, row) ? config_variable_name(row->path) : NULL;
    field_allowed(row, out);
    if (row->def == NULL) {
        buf_add_str(out, "; required");
    } else {
        buf_printf(out, "; default %s", row->def[0] == '\0' ? "empty" : row->def);
    }
    if (config_is_secret(c, row)) {
        buf_add_str(out, "; a variable of the environment alone");
    } else if (variable != NULL) {
        buf_printf(out, "; %s", variable);
    }
    free(variable);
}

static void add_row(const struct config_command *c, const struct field *row, struct buf *out)
{
    char *name = config_flag_name(row->path);
    char *flag = config_is_secret(c, row)
                     ? config_variable_name(row->path)
                     : mem_printf("--%s%s", row->type == FIELD_BOOL ? "[no-]" : "", name);
    struct buf allowed = {0};
    add_flag(out, flag, row->help);
    config_add_allowed(c, row, &allowed);
    text_wrap(buf_str(&allowed), INDENT, CONFIG_HELP_COLUMNS, out);
    buf_release(&allowed);
    free(flag);
    free(name);
}

/* A paragraph of notes is one line and is wrapped as one; examples stay as they are. */
static void add_notes(const char *notes, struct buf *out)
{
    while (*notes != '\0') {
        size_t n = strcspn(notes, "\n");
        if (n <= CONFIG_HELP_COLUMNS) {
            buf_printf(out, "%.*s\n", (int)n, notes);
        } else {
            char *line = mem_printf("%.*s", (int)n, notes);
            text_wrap(line, strspn(line, " "), CONFIG_HELP_COLUMNS, out);
            free(line);
        }
        notes += n + (notes[n] == '\n');
    }
}

static void add_groups(const struct config_command *c, bool late, struct buf *out)
{
    for (size_t g = 0; g < c->group_count; g++) {
        if (c->groups[g].late != late || c->groups[g].count == 0) {
            continue;
        }
        buf_printf(out, "\n%s\n", c->groups[g].title);
        for (size_t i = 0; i < c->groups[g].count; i++) {
            add_row(c, &c->groups[g].fields[i], out);
        }
    }
}

void config_each_own_flag(const struct config_command *c,
                          void (*add)(void *ctx, const char *flag, const char *help), void *ctx)
{
    for (size_t i = 0; i < c->repeat_count; i++) {
        char *flag = mem_printf("--%s %s", c->repeats[i].name, c->repeats[i].value);
        add(ctx, flag, c->repeats[i].help);
        free(flag);
    }
    if (c->file) {
        add(ctx, "--config FILE.yaml",
            c->environment == NULL
                ? "Read settings from a file; flags go before it"
                : "Read settings from a file; flags go before variables of the environment, "
                  "and those before the file; " CONFIG_VARIABLE_PREFIX "CONFIG");
        add(ctx, "--print-config",
            "Print the settings in force and where each comes from, as such a file, and end");
    }
    add(ctx, "--version", "Print the version and end");
    add(ctx, "-h, --help", "Print this text and end");
}

void config_help(const struct config_command *c, struct buf *out)
{
    char *about = mem_printf("%s: %s", c->program, c->summary);
    text_wrap(about, 0, CONFIG_HELP_COLUMNS, out);
    free(about);
    buf_printf(out, "\nUsage: %s [FLAGS]%s%s\n", c->program, c->arguments[0] == '\0' ? "" : " ",
               c->arguments);
    add_groups(c, false, out);
    buf_add_str(out, "\nOther flags\n");
    config_each_own_flag(c, add_flag, out);
    if (c->notes != NULL) {
        buf_add_char(out, '\n');
        add_notes(c->notes, out);
    }
    if (c->examples != NULL) {
        buf_printf(out, "\nExamples:\n%s", c->examples);
    }
    add_groups(c, true, out);
}

/* ---- --print-config ---- */

static void add_origin(const struct config_command *c, const struct config_line *line,
                       const char *path, struct buf *out)
{
    char *name = NULL;
    switch (config_origin_of(c, line, path)) {
    case CONFIG_DEFAULT:
        buf_add_str(out, "  # default");
        break;
    case CONFIG_FILE:
        buf_add_str(out, "  # config file");
        break;
    case CONFIG_VARIABLE:
        name = config_variable_name(path);
        buf_printf(out, "  # %s", name);
        break;
    case CONFIG_FLAG:
        name = config_flag_name(path);
        buf_printf(out, "  # --%s", name);
        break;
    }
    free(name);
}

/* The path of the key of a line in canonical YAML, from those of the lines before: keys[depth]. */
static char *path_of(const char *text, size_t depth, char *keys[DEPTH_MAX])
{
    free(keys[depth]);
    keys[depth] = mem_printf("%.*s", (int)strcspn(text, ":"), text);
    char *path = mem_strdup(keys[0]);
    for (size_t i = 1; i <= depth; i++) {
        char *longer = mem_printf("%s.%s", path, keys[i]);
        free(path);
        path = longer;
    }
    return path;
}

void config_print(const struct config_command *c, const struct config_line *line, struct buf *out)
{
    struct yaml_node *map = yaml_mapping();
    struct buf text = {0};
    char *keys[DEPTH_MAX] = {0};
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = 0; i < c->groups[g].count; i++) {
            const struct field *row = &c->groups[g].fields[i];
            if (!config_is_secret(c, row)) {
                binding_write(row, 1, c->groups[g].object, map);
            }
        }
    }
    yaml_write(map, &text);
    for (const char *at = buf_str(&text); *at != '\0';) {
        size_t n = strcspn(at, "\n"), indent = strspn(at, " ");
        buf_printf(out, "%.*s", (int)n, at);
        if (at[n - 1] != ':' && indent / 2 < DEPTH_MAX) { /* it is not a key with keys below it */
            char *path = path_of(at + indent, indent / 2, keys);
            add_origin(c, line, path, out);
            free(path);
        } else if (indent / 2 < DEPTH_MAX) {
            free(path_of(at + indent, indent / 2, keys));
        }
        buf_add_char(out, '\n');
        at += n + (at[n] == '\n');
    }
    for (size_t i = 0; i < DEPTH_MAX; i++) {
        free(keys[i]);
    }
    buf_release(&text);
    yaml_node_free(map);
}
