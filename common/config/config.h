/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines, environment and config files over field tables: defaults, then a YAML file, then
 * variables of the environment, then flags.
 *
 * A row "store.path" is the key `path` below `store:` in the file, the variable GRADUS_STORE_PATH
 * and the flag --store-path. An empty variable counts as not set. Flags are --name VALUE,
 * --name=VALUE, and for truth values --name, --no-name; -o VALUE is --out VALUE where there is such
 * a row. `--` ends the flags. The same rows give --help and --print-config. Used by the services'
 * one main and by each CLI command. */
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
    bool late;    /* in --help behind the notes */
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
    bool file;                /* the command has --config FILE.yaml and --print-config */
    char *const *environment; /* "NAME=VALUE", NULL-terminated; NULL: nothing is taken from there */
    const char *const *settings; /* rows that have a variable, NULL-terminated; NULL: all */
    /* Rows that come from their variables alone, NULL-terminated; NULL: none. Words of a command
     * line and files that are shown are read by others; --print-config leaves them out. */
    const char *const *secrets;
    const char *notes;    /* below the flags in --help: a paragraph is one line; may be NULL */
    const char *examples; /* below the notes, lines as they are; may be NULL */
};

#define CONFIG_VARIABLE_PREFIX "GRADUS_"

/* CONFIG_MAN: --man-page, which --help does not name: the build asks for the pages that are
 * installed (man.h). */
enum config_ask { CONFIG_RUN, CONFIG_HELP, CONFIG_MAN, CONFIG_VERSION, CONFIG_PRINT };

struct config_values {
    const char **items; /* borrowed words of argv */
    size_t count;
};

/* Where the value of a row comes from. */
enum config_origin { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_VARIABLE, CONFIG_FLAG };

/* What a command line says besides the rows. */
struct config_line {
    enum config_ask ask;
    const char *config_path;      /* path of --config or GRADUS_CONFIG, borrowed; NULL: none */
    enum config_origin **origins; /* [group][row] */
    struct diags warnings;        /* about input that is ignored, but looks like an oversight */
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
/* Where the value of the row @path comes from; CONFIG_DEFAULT when there is no such row. */
enum config_origin config_origin_of(const struct config_command *command,
                                    const struct config_line *line, const char *path);
/* No line is longer than CONFIG_HELP_COLUMNS, but for words that are. */
#define CONFIG_HELP_COLUMNS 80
void config_help(const struct config_command *command, struct buf *out);
/* The values in force, as a file that config_read() reads back to the same values; a comment behind
 * each says where it comes from. */
void config_print(const struct config_command *command, const struct config_line *line,
                  struct buf *out);

/* ---- shared by the sources of this module ---- */

/* "store.path_name" → "store-path-name", owned. */
char *config_flag_name(const char *path);
/* "store.path_name" → "GRADUS_STORE_PATH_NAME", owned. */
char *config_variable_name(const char *path);
/* Appends what is allowed for @row, its default and its variable. */
void config_add_allowed(const struct config_command *command, const struct field *row,
                        struct buf *out);
/* Calls @add for each flag that no row describes, as "--set KEY=VALUE", in the order of --help. */
void config_each_own_flag(const struct config_command *command,
                          void (*add)(void *ctx, const char *flag, const char *help), void *ctx);
bool config_has_variable(const struct config_command *command, const struct field *row);
bool config_is_secret(const struct config_command *command, const struct field *row);
/* The value of the variable that belongs to @path; NULL: not set, or empty. Borrows. */
const char *config_variable(const struct config_command *command, const char *path);
/* Sets the rows whose variables are set; errors go to @diags under the variable's name, names that
 * resemble a variable's to line->warnings. */
void config_read_environment(const struct config_command *command, struct config_line *line,
                             struct diags *diags);

#endif
