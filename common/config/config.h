/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines and config files over field tables: defaults, then a YAML file, then flags.
 *
 * A row "store.path" is the key `path` below `store:` in the file and the flag --store-path. Flags
 * are --name VALUE, --name=VALUE, and for truth values --name, --no-name; -o VALUE is --out VALUE
 * where there is such a row. `--` ends the flags. The same
 * rows give --help and --print-config. Used by the services' one main and by each CLI command. */
#ifndef GRADUS_CONFIG_CONFIG_H
#define GRADUS_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "config/diag.h"
#include "config/field.h"

/* Rows and the struct they describe. The first words of paths are unique over all groups. */
struct config_group {
    const char *title; /* in --help */
    const struct field *fields;
    size_t count;
    void *object; /* zeroed memory */
};

/* A flag outside of the rows, which may be given again and again: --set KEY=VALUE. */
struct config_repeat {
    const char *name;  /* "set" */
    const char *value; /* "KEY=VALUE", in --help */
    const char *help;
};

/* All borrowed. */
struct config_command {
    const char *program;   /* "gradus-ps", "gradus run" */
    const char *summary;   /* one line */
    const char *arguments; /* "JOB.yaml" in the usage line; "" when there are none */
    size_t arguments_min, arguments_max;
    const struct config_group *groups;
    size_t group_count;
    const struct config_repeat *repeats;
    size_t repeat_count;
    bool file;         /* has --config FILE.yaml and --print-config */
    const char *notes; /* below the flags in --help, examples for instance; may be NULL */
};

enum config_ask { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_PRINT };

struct config_values {
    const char **items; /* borrowed words of argv */
    size_t count;
};

/* What a command line said besides the rows. */
struct config_line {
    enum config_ask ask;
    struct config_values arguments;
    struct config_values *repeats; /* [repeat_count], in the order of the command */
};

/* Read @argv, which begins behind the program's (or command's) name, and fill the objects.
 * Everything that is wrong goes to @diags: under file:line:column, the flag, or the program. With
 * --help or
 * --version nothing is wrong. In any case @line and the objects are released by config_release().
 * Errors: ERR_INVALID, with at least one diag. */
int config_read(const struct config_command *command, int argc, char *const *argv,
                struct config_line *line, struct diags *diags);
void config_release(const struct config_command *command, struct config_line *line);
void config_help(const struct config_command *command, struct buf *out);
/* The values in force, as a file that config_read() reads back to the same values. */
void config_print(const struct config_command *command, struct buf *out);

#endif
