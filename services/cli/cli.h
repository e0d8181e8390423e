/* SPDX-License-Identifier: Apache-2.0 */
/* The client's commands: one file cmd_<name>.c each, one row each in the list of commands.c.
 *
 * To add one: a file with its `const struct cli_command`, and a line in CLI_COMMANDS of commands.c.
 */
#ifndef GRADUS_CLI_CLI_H
#define GRADUS_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/diag.h"
#include "config/field.h"
#include "service/service.h"
#include "service/tls_settings.h"

/* Exit codes of every command; --help names them. */
enum cli_exit {
    CLI_OK = 0,          /* done; run, watch: the job succeeded */
    CLI_FAILED = 1,      /* the job failed, or the command did */
    CLI_USAGE = 2,       /* wrong arguments, or a job file with errors */
    CLI_CANCELLED = 3,   /* the job was cancelled */
    CLI_UNAVAILABLE = 4, /* the master cannot be reached, or does not answer */
    CLI_NOT_FOUND = 5,   /* no such job, file or checkpoint */
};

/* What a command line gave. Options are read into the command's struct by its rows. */
struct cli_args {
    const char **positional; /* borrowed from argv */
    size_t positional_count;
    const char **sets; /* every --set key=value, in order */
    size_t set_count;
    void *options;
    const char *where; /* " --master HOST:PORT" or so as it was typed, for commands to type next;
                          empty when they work without */
};

struct cli_command {
    const char *name;
    const char *summary;
    const char *usage;          /* after "gradus <name> " */
    const char *examples;       /* lines for --help */
    const char *notes;          /* more for --help, or NULL */
    unsigned shares;            /* enum cli_shares */
    const struct field *fields; /* rows of its own options: "batch_size" is --batch-size */
    size_t field_count;
    size_t options_bytes; /* 0: of struct cli_common alone */
    size_t positional_min, positional_max;
    bool sets;     /* takes --set key=value */
    bool computes; /* wants the best matrix kernels (blas_kernels.h) */
    int (*run)(const struct cli_args *args);
};

extern const struct cli_command *const cli_commands[]; /* in the order of --help */
extern const size_t cli_command_count;

/* Options that several commands share. Which of them a command has, its `shares` say; they are the
 * first member of its options, whose rows cli_rows() has. */
struct cli_common {
    char *master;
    char *cluster;   /* read before all others, client_config.h */
    char *state_dir; /* of a master on this machine; CLI_RUN: of this run */
    char *rules_dir;
    struct tls_settings tls;
    int64_t timeout_ms; /* 0: the command has no such option */
    char *worker, *tensorboard;
    bool json, best, overcommit;
};
enum cli_shares {
    CLI_MASTER = 1 << 0, /* how a master is found and spoken with */
    CLI_RUN = 1 << 1,    /* instead of that: where a run on this machine keeps its jobs */
    CLI_RULES_DIR = 1 << 2,
    CLI_JSON = 1 << 3,
    CLI_BEST = 1 << 4,
    CLI_LOCAL = 1 << 5, /* processes that it starts here */
    CLI_TENSORBOARD = 1 << 6,
};
/* All rows of @command: first those of the group of its own, *@own, then those of the master.
 * Returns owned; *@count of them. */
struct field *cli_rows(const struct cli_command *command, size_t *own, size_t *count);

#define CLI_PLACES_NOTE                                                                            \
    "Without --master and --state-dir (and GRADUS_MASTER, GRADUS_STATE_DIR) the job is looked "    \
    "for at the master of this machine and in the directories that `gradus run` has used, where "  \
    "no master need run; where several have one of that name, all are listed."

/* "gradus: " and the message on stderr; returns the exit code that goes with the error. With --json
 * stdout gets it, too, when the command ends with another code than CLI_OK. */
int cli_fail(const struct err *err);
/* For --json: keeps a copy of the errors of @file, or of the command line (""). */
void cli_remember(const char *file, const struct diags *diags);
/* Prints the kept errors as one object on stdout, with @print; nothing when there are none. Forgets
 * them. */
void cli_remembered(int code, bool print);
/* Append @word as one word for a shell. */
void cli_add_word(const char *word, struct buf *out);
/* Loads the plug-ins of --rules-dir; a plug-in that is refused is told on stderr, and is no error.
 * For commands with CLI_RULES_DIR, before anything else. Returns CLI_OK, or the exit code when
 * there is no such directory. */
int cli_load_rules(const struct cli_common *common);
/* "gradus: " and @text, wrapped for the terminal that stderr may be; bytes that are no UTF-8 as
 * \xNN. */
void cli_say(const char *text);
/* cli_say() of a message that printf makes. */
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The file for an output that is called @path: "-" is standard output, and then messages of the
 * command go to *@said, standard error. */
const char *cli_output(const char *path, FILE **said);
/* The state directory: @given, or the default. Returns owned. */
char *cli_state_dir(const char *given);

#endif
