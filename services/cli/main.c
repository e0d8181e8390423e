/* SPDX-License-Identifier: Apache-2.0 */
/* gradus: the client. Commands are rows; everything else is in their files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/client_config.h"
#include "cli/manual.h"
#include "client/master_client.h"
#include "config/config.h"
#include "os/log.h"
#include "tensor/blas_kernels.h"
#include "tls/tls_exit.h"

extern char **environ;

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < cli_command_count; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            return cli_commands[i];
        }
    }
    return NULL;
}

/* Words of other programs, and what does it here. */
static const struct {
    const char *word, *hint;
} OTHERS[] = {
    {"train", "`gradus run JOB.yaml` trains on this machine, `gradus submit` on a cluster"},
    {"fit", "`gradus run JOB.yaml` trains on this machine, `gradus submit` on a cluster"},
    {"start", "`gradus run JOB.yaml` trains on this machine, `gradus submit` on a cluster"},
    {"ls", "`gradus list` lists jobs"},
    {"jobs", "`gradus list` lists jobs"},
    {"ps", "`gradus list` lists jobs, `gradus nodes` workers and parameter servers"},
    {"workers", "`gradus nodes` lists workers and parameter servers"},
    {"log", "`gradus watch JOB` follows a job, `gradus status JOB` tells about it; `gradus run` "
            "says where the logs of its processes are"},
    {"tail", "`gradus watch JOB` follows a job"},
    {"follow", "`gradus watch JOB` follows a job"},
    {"show", "`gradus status JOB` tells about a job"},
    {"describe", "`gradus status JOB` tells about a job"},
    {"info", "`gradus status JOB` tells about a job"},
    {"stop", "`gradus cancel JOB` ends a job with a checkpoint, `gradus pause JOB` lets it wait"},
    {"kill", "`gradus cancel JOB` ends a job with a checkpoint, with --now at once"},
    {"delete", "`gradus rm JOB` forgets a job that has ended"},
    {"remove", "`gradus rm JOB` forgets a job that has ended"},
    {"test", "`gradus evaluate JOB` measures a model"},
    {"infer", "`gradus predict JOB` tells what a model says of records; gradus-serve answers "
              "requests"},
    {"serve", "`gradus-serve --checkpoint JOB` answers requests"},
    {"check", "`gradus validate JOB.yaml` checks a job file"},
    {"lint", "`gradus validate JOB.yaml` checks a job file"},
};

static int unknown_command(const char *name)
{
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        if (strcmp(OTHERS[i].word, name) == 0) {
            cli_note("unknown command %s; %s", name, OTHERS[i].hint);
            return CLI_USAGE;
        }
    }
    const char **names = mem_new(cli_command_count, sizeof *names);
    for (size_t i = 0; i < cli_command_count; i++) {
        names[i] = cli_commands[i]->name;
    }
    const char *nearest = text_nearest(name, names, cli_command_count);
    if (nearest != NULL) {
        cli_note("unknown command %s; did you mean `gradus %s`?", name, nearest);
    } else {
        cli_note("unknown command %s; `gradus --help` lists them", name);
    }
    free(names);
    return CLI_USAGE;
}

/* The row of the option @path; NULL: the command has none. */
static const struct field *row_of(const struct config_command *c, const char *path)
{
    const struct field *row = NULL;
    for (size_t g = 0; g < c->group_count && row == NULL; g++) {
        row = field_find(c->groups[g].fields, c->groups[g].count, path);
    }
    return row;
}

/* Where its value is: all groups are of one object. */
static const void *value_of(const struct config_command *c, const struct field *row)
{
    return (const char *)c->groups[0].object + row->offset;
}

/* The value of the option @path, when it was typed and not taken from the environment; else NULL.
 */
static const char *typed(const struct config_command *c, const struct config_line *line,
                         const char *path)
{
    const struct field *row = row_of(c, path);
    if (row == NULL || config_origin_of(c, line, path) != CONFIG_FLAG) {
        return NULL;
    }
    const char *value = *(char *const *)value_of(c, row);
    return value[0] == '\0' ? NULL : value;
}

/* Lets typed options go before those of the environment, also where --state-dir is typed and
 * GRADUS_MASTER is set. */
static void prefer_typed(const struct config_command *c, const struct config_line *line)
{
    const struct field *master = row_of(c, "master");
    if (master != NULL && typed(c, line, "master") == NULL && typed(c, line, "state_dir") != NULL) {
        (void)field_set(master, c->groups[0].object, "", NULL);
    }
}

/* How long calls to a master may take, where the command makes any. */
static void take_timeout(const struct config_command *c)
{
    const struct field *row = row_of(c, "timeout");
    if (row != NULL) {
        client_set_timeout((unsigned)*(const int64_t *)value_of(c, row));
    }
}

static int take_line(const struct cli_command *command, const struct config_command *c,
                     const struct config_line *line, void *options)
{
    if (line->ask == CONFIG_HELP || line->ask == CONFIG_MAN) {
        struct buf text = {0};
        if (line->ask == CONFIG_HELP) {
            config_help(c, &text);
        } else {
            config_man(c, &cli_manual_about, &text);
        }
        (void)fputs(buf_str(&text), stdout);
        buf_release(&text);
        return CLI_OK;
    }
    struct buf where = {0};
    static const char *const flags[][2] = {
        {"master", " --master "}, {"state_dir", " --state-dir "}, {"cluster", " --cluster "}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && where.len == 0; i++) {
        if (typed(c, line, flags[i][0]) != NULL) {
            buf_add_str(&where, flags[i][1]);
            cli_add_word(typed(c, line, flags[i][0]), &where);
        }
    }
    prefer_typed(c, line);
    take_timeout(c);
    const struct cli_args args = {
        .positional = line->arguments.items,
        .positional_count = line->arguments.count,
        .sets = command->sets ? line->repeats[0].items : NULL,
        .set_count = command->sets ? line->repeats[0].count : 0,
        .options = options,
        .where = buf_str(&where),
    };
    int code = command->run(&args);
    buf_release(&where);
    return code;
}

static bool wants_json(const struct config_command *c)
{
    const struct field *row = row_of(c, "json");
    return row != NULL && *(const bool *)value_of(c, row);
}

/* The words of the command line are no file. */
static void remember_wrong(const struct diags *wrong)
{
    struct diags diags = {0};
    for (size_t i = 0; i < wrong->count; i++) {
        diags_add(&diags, "", 0, 0, "%s: %s", wrong->items[i].file, wrong->items[i].message);
    }
    cli_remember("", &diags);
    diags_release(&diags);
}

/* Returns @code, or CLI_FAILED where the output did not arrive. */
static int printed(int code)
{
    /* When the output is longer than its buffer, only an error of the last part would be seen. */
    const bool lost = ferror(stdout) != 0;
    if ((fflush(stdout) != 0 || lost) && code == CLI_OK) {
        (void)fputs("gradus: cannot write to stdout\n", stderr);
        return CLI_FAILED;
    }
    return code;
}

/* What the command takes for its environment: that of the process, and the user's cluster. */
static int environment_of(const struct cli_command *command, int argc, char **argv, char ***out)
{
    struct err err = {0};
    char **words = mem_new((size_t)argc + 2, sizeof *words);
    memcpy(words, argv, (size_t)argc * sizeof *words);
    if ((command->shares & CLI_MASTER) == 0) {
        words[0] = "--master"; /* it is for no cluster of the file */
        words[1] = NULL;
    }
    *out = client_config_environment(words, environ, &err);
    free(words);
    return *out != NULL ? CLI_OK : cli_fail(&err);
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    static const struct config_repeat set = {"set", "KEY=VALUE",
                                             "Override a key of the job file; may be repeated"};
    static const char *const settings[] = {
        "master", "cluster",  "state_dir",  "rules_dir",         "tls_cert", "tls_key",
        "tls_ca", "tls_name", "token_file", TLS_SETTINGS_SECRET, "timeout",  NULL};
    static const char *const secrets[] = {TLS_SETTINGS_SECRET, NULL};
    const size_t bytes = command->options_bytes;
    void *options = mem_new(1, bytes > 0 ? bytes : sizeof(struct cli_common));
    size_t own, count;
    struct field *rows = cli_rows(command, &own, &count);
    const struct config_group groups[] = {
        {"Options", rows, own, options, false},
        {"Where the master is, and who asks", rows + own, count - own, options, true}};
    char *program = mem_printf("gradus %s", command->name);
    char **environment = NULL;
    int code = environment_of(command, argc, argv, &environment);
    if (code != CLI_OK) {
        free(options);
        free(rows);
        free(program);
        return code;
    }
    const struct config_command c = {
        .program = program,
        .summary = command->summary,
        .arguments = command->usage,
        .arguments_min = command->positional_min,
        .arguments_max = command->positional_max,
        .groups = groups,
        .group_count = sizeof groups / sizeof groups[0],
        .repeats = &set,
        .repeat_count = command->sets ? 1 : 0,
        .environment = environment,
        .settings = settings,
        .secrets = secrets,
        .notes = command->notes,
        .examples = command->examples,
    };
    struct config_line line = {0};
    struct diags diags = {0};
    struct buf text = {0};
    int wrong = config_read(&c, argc, argv, &line, &diags);
    diags_format(&line.warnings, &text);
    diags_format(&diags, &text);
    (void)fputs(buf_str(&text), stderr);
    buf_release(&text);
    if (wrong != 0) {
        (void)fprintf(stderr, "`%s --help` tells more.\n", program);
        remember_wrong(&diags);
        code = CLI_USAGE;
    } else if (line.ask == CONFIG_VERSION) {
        char *none[] = {NULL};
        code = run_command(find("version"), 0, none);
    } else {
        code = take_line(command, &c, &line, options);
    }
    cli_remembered(code, wants_json(&c));
    diags_release(&diags);
    config_release(&c, &line);
    free(options);
    free(rows);
    free(program);
    client_config_environment_free(environment);
    return printed(code);
}

static int show(void (*text)(struct buf *out), FILE *to)
{
    struct buf out = {0};
    text(&out);
    (void)fputs(buf_str(&out), to);
    buf_release(&out);
    return printed(CLI_OK);
}

int main(int argc, char **argv)
{
    float_mode_flush();
    tls_keep_at_exit();
    log_init("cli", LOG_LEVEL_WARN);
    if (argc < 2) {
        (void)show(cli_manual_usage, stderr);
        return CLI_USAGE;
    }
    if (argc == 2 && strcmp(argv[1], "--man-page") == 0) {
        return show(cli_manual_page, stdout);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        if (argc == 2) {
            return show(cli_manual_usage, stdout);
        }
        const struct cli_command *about = find(argv[2]);
        char *arguments[] = {"--help"};
        return about == NULL ? unknown_command(argv[2]) : run_command(about, 1, arguments);
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    const struct cli_command *command = find(name);
    if (command == NULL) {
        return unknown_command(name);
    }
    if (command->computes) {
        blas_kernels_choose(argv);
    }
    return run_command(command, argc - 2, argv + 2);
}
