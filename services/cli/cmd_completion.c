/* SPDX-License-Identifier: Apache-2.0 */
/* gradus completion: what a shell needs to complete commands, flags, their words, and jobs. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "config/config.h"

/* Jobs that can be named now; a master that does not answer soon has none. */
#define JOBS                                                                                       \
    "gradus list --timeout 500ms 2>/dev/null | sed -n '/^JOB /d; s/^\\([A-Za-z0-9][^ ]*\\) "       \
    ".*/\\1/p'"

/* Does the first argument of @c name a job? */
static bool takes_job(const struct cli_command *c)
{
    const char *name = c->usage + (c->usage[0] == '[');
    return strncmp(name, "JOB", 3) == 0 && name[3] != '.'; /* JOB.yaml is a file */
}

static bool is_shown(const struct field *row)
{
    return strcmp(row->path, TLS_SETTINGS_SECRET) != 0;
}

/* Calls @add for each flag of @command, with its words (NULL: any), or NULL for truth values. */
struct flag {
    const char *name; /* "--learning-rate" without the dashes */
    const char *help;
    const char *const *words; /* NULL-terminated; NULL: any */
    bool valued;
};

static void each_flag(const struct cli_command *command,
                      void (*add)(struct buf *out, const struct cli_command *command,
                                  const struct flag *flag),
                      struct buf *out)
{
    size_t own = 0, count = 0;
    struct field *rows = cli_rows(command, &own, &count);
    for (size_t i = 0; i < count; i++) {
        if (is_shown(&rows[i])) {
            char *name = config_flag_name(rows[i].path);
            add(out, command,
                &(struct flag){.name = name,
                               .help = rows[i].help,
                               .words = rows[i].type == FIELD_ENUM ? rows[i].choices : NULL,
                               .valued = rows[i].type != FIELD_BOOL});
            free(name);
        }
    }
    free(rows);
    if (command->sets) {
        add(out, command,
            &(struct flag){.name = "set",
                           .help = "Override a key of the job file; may be repeated",
                           .valued = true});
    }
    add(out, command, &(struct flag){.name = "help", .help = "Print the help and end"});
}

/* In single quotes of a shell. */
static void add_quoted(struct buf *out, const char *text)
{
    buf_add_char(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            buf_add_str(out, "'\\''");
        } else {
            buf_add_char(out, *text);
        }
    }
    buf_add_char(out, '\'');
}

/* ---- bash ---- */

static void bash_flag(struct buf *out, const struct cli_command *command, const struct flag *flag)
{
    (void)command;
    buf_printf(out, " --%s", flag->name);
}

static void bash_words(struct buf *out, const struct cli_command *command, const struct flag *flag)
{
    if (flag->words != NULL) {
        buf_printf(out, "    %s/--%s) words='", command->name, flag->name);
        for (size_t i = 0; flag->words[i] != NULL; i++) {
            buf_printf(out, "%s%s", i > 0 ? " " : "", flag->words[i]);
        }
        buf_add_str(out, "' ;;\n");
    }
}

static void bash(struct buf *out)
{
    buf_add_str(out, "# source <(gradus completion bash)\n"
                     "_gradus() {\n"
                     "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} flags= "
                     "words= jobs=\n"
                     "    case $COMP_CWORD in\n"
                     "    1) words='help");
    for (size_t i = 0; i < cli_command_count; i++) {
        buf_printf(out, " %s", cli_commands[i]->name);
    }
    buf_add_str(out, "' ;;\n    esac\n    [ \"$COMP_CWORD\" = 1 ] || case $command in\n");
    for (size_t i = 0; i < cli_command_count; i++) {
        buf_printf(out, "    %s) flags='", cli_commands[i]->name);
        each_flag(cli_commands[i], bash_flag, out);
        buf_printf(out, "'%s ;;\n", takes_job(cli_commands[i]) ? " jobs=yes" : "");
    }
    buf_add_str(out, "    esac\n    case $command/${COMP_WORDS[COMP_CWORD-1]} in\n");
    for (size_t i = 0; i < cli_command_count; i++) {
        each_flag(cli_commands[i], bash_words, out);
    }
    buf_add_str(out, "    esac\n"
                     "    if [ -z \"$words\" ]; then\n"
                     "        case $word in\n"
                     "        -*) words=$flags ;;\n"
                     "        *) [ -z \"$jobs\" ] || words=$(" JOBS ") ;;\n"
                     "        esac\n"
                     "    fi\n"
                     "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
                     "}\n"
                     "complete -o default -F _gradus gradus\n");
}

/* ---- zsh ---- */

/* "name:what it does", with what the form gives a meaning in backslashes. */
static void add_described(struct buf *out, const char *name, const char *help)
{
    struct buf both = {0};
    buf_printf(&both, "%s:", name);
    for (const char *c = help; *c != '\0'; c++) {
        buf_printf(&both, "%s%c", *c == ':' || *c == '\\' ? "\\" : "", *c);
    }
    add_quoted(out, buf_str(&both));
    buf_release(&both);
}

static void zsh_flag(struct buf *out, const struct cli_command *command, const struct flag *flag)
{
    (void)command;
    char *name = mem_printf("--%s", flag->name);
    buf_add_char(out, ' ');
    add_described(out, name, flag->help);
    free(name);
}

static void zsh_words(struct buf *out, const struct cli_command *command, const struct flag *flag)
{
    if (flag->words != NULL) {
        buf_printf(out, "    %s/--%s) choices=(", command->name, flag->name);
        for (size_t i = 0; flag->words[i] != NULL; i++) {
            buf_printf(out, "%s%s", i > 0 ? " " : "", flag->words[i]);
        }
        buf_add_str(out, ") ;;\n");
    }
}

static void zsh(struct buf *out)
{
    buf_add_str(out, "#compdef gradus\n"
                     "# source <(gradus completion zsh), behind compinit; or a file _gradus in "
                     "$fpath\n"
                     "_gradus() {\n"
                     "    local -a commands flags choices\n"
                     "    local jobs=\n"
                     "    commands=(");
    for (size_t i = 0; i < cli_command_count; i++) {
        buf_add_char(out, ' ');
        add_described(out, cli_commands[i]->name, cli_commands[i]->summary);
    }
    buf_add_str(out, ")\n"
                     "    if (( CURRENT == 2 )); then\n"
                     "        _describe command commands\n"
                     "        return\n"
                     "    fi\n"
                     "    case $words[2] in\n");
    for (size_t i = 0; i < cli_command_count; i++) {
        buf_printf(out, "    %s) flags=(", cli_commands[i]->name);
        each_flag(cli_commands[i], zsh_flag, out);
        buf_printf(out, ")%s ;;\n", takes_job(cli_commands[i]) ? "; jobs=yes" : "");
    }
    buf_add_str(out, "    esac\n    case $words[2]/$words[CURRENT-1] in\n");
    for (size_t i = 0; i < cli_command_count; i++) {
        each_flag(cli_commands[i], zsh_words, out);
    }
    buf_add_str(out, "    esac\n"
                     "    if (( $#choices )); then\n"
                     "        compadd -a choices\n"
                     "    elif [[ $PREFIX == -* ]]; then\n"
                     "        _describe -o flag flags\n"
                     "    elif [[ -n $jobs ]]; then\n"
                     "        choices=(${(f)\"$(" JOBS ")\"})\n"
                     "        compadd -a choices || _files\n"
                     "    else\n"
                     "        _files\n"
                     "    fi\n"
                     "}\n"
                     "compdef _gradus gradus\n");
}

/* ---- fish ---- */

static void fish_flag(struct buf *out, const struct cli_command *command, const struct flag *flag)
{
    buf_printf(out, "complete -c gradus -n '__fish_seen_subcommand_from %s' -l %s%s", command->name,
               flag->name, flag->valued ? " -r" : "");
    if (flag->words != NULL) {
        buf_add_str(out, " -f -a '");
        for (size_t i = 0; flag->words[i] != NULL; i++) {
            buf_printf(out, "%s%s", i > 0 ? " " : "", flag->words[i]);
        }
        buf_add_char(out, '\'');
    }
    buf_add_str(out, " -d ");
    add_quoted(out, flag->help);
    buf_add_char(out, '\n');
}

static void fish(struct buf *out)
{
    buf_add_str(out, "# gradus completion fish | source\n");
    for (size_t i = 0; i < cli_command_count; i++) {
        const struct cli_command *c = cli_commands[i];
        buf_printf(out, "complete -c gradus -n __fish_use_subcommand -f -a %s -d ", c->name);
        add_quoted(out, c->summary);
        buf_add_char(out, '\n');
        each_flag(c, fish_flag, out);
        if (takes_job(c)) {
            buf_printf(out,
                       "complete -c gradus -n '__fish_seen_subcommand_from %s' -a \"(" JOBS ")\"\n",
                       c->name);
        }
    }
}

/* ---- the command ---- */

static int run(const struct cli_args *args)
{
    const struct {
        const char *shell;
        void (*write)(struct buf *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    struct buf out = {0};
    struct err err = {0};
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shells[i].shell, args->positional[0]) == 0) {
            shells[i].write(&out);
            (void)fputs(buf_str(&out), stdout);
            buf_release(&out);
            return CLI_OK;
        }
    }
    (void)err_set(&err, ERR_INVALID, "no words for the shell \"%.64s\"; allowed: bash, zsh, fish",
                  args->positional[0]);
    return cli_fail(&err);
}

const struct cli_command cmd_completion = {
    .name = "completion",
    .summary = "Print what a shell needs to complete commands, flags and jobs",
    .usage = "bash|zsh|fish",
    .examples = "  gradus completion bash > gradus.bash\n",
    .notes =
        "bash: `source <(gradus completion bash)` in ~/.bashrc. zsh: the same with zsh, behind "
        "compinit in ~/.zshrc. fish: `gradus completion fish | source` in config.fish.",
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
