/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a command: --help and --print-config. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/binding.h"
#include "config/config.h"
#include "config/yaml.h"

static void add_flag(struct buf *out, const char *flag, const char *help)
{
    buf_printf(out, "  %s\n      %s\n", flag, help);
}

static void add_row(struct buf *out, const struct field *row)
{
    struct buf flag = {0}, allowed = {0};
    buf_printf(&flag, "--%s%s", row->type == FIELD_BOOL ? "[no-]" : "", row->path);
    for (char *p = flag.data; *p != '\0'; p++) {
        if (*p == '.' || *p == '_') {
            *p = '-';
        }
    }
    add_flag(out, buf_str(&flag), row->help);
    field_allowed(row, &allowed);
    if (row->def == NULL) {
        buf_printf(out, "      %s; required\n", buf_str(&allowed));
    } else {
        buf_printf(out, "      %s; default %s\n", buf_str(&allowed),
                   row->def[0] == '\0' ? "empty" : row->def);
    }
    buf_release(&allowed);
    buf_release(&flag);
}

void config_help(const struct config_command *c, struct buf *out)
{
    buf_printf(out, "%s: %s\n\nUsage: %s [FLAGS]%s%s\n", c->program, c->summary, c->program,
               c->arguments[0] == '\0' ? "" : " ", c->arguments);
    for (size_t g = 0; g < c->group_count; g++) {
        buf_printf(out, "\n%s\n", c->groups[g].title);
        for (size_t i = 0; i < c->groups[g].count; i++) {
            add_row(out, &c->groups[g].fields[i]);
        }
    }
    buf_add_str(out, "\nOther flags\n");
    for (size_t i = 0; i < c->repeat_count; i++) {
        char *flag = mem_printf("--%s %s", c->repeats[i].name, c->repeats[i].value);
        add_flag(out, flag, c->repeats[i].help);
        free(flag);
    }
    if (c->file) {
        add_flag(out, "--config FILE.yaml", "Read settings from a file; flags go before it");
        add_flag(out, "--print-config", "Print the settings in force, as such a file, and end");
    }
    add_flag(out, "--version", "Print the version and end");
    add_flag(out, "-h, --help", "Print this text and end");
    if (c->notes != NULL) {
        buf_printf(out, "\n%s", c->notes);
    }
}

void config_print(const struct config_command *c, struct buf *out)
{
    struct yaml_node *map = yaml_mapping();
    for (size_t g = 0; g < c->group_count; g++) {
        binding_write(c->groups[g].fields, c->groups[g].count, c->groups[g].object, map);
    }
    yaml_write(map, out);
    yaml_node_free(map);
}
