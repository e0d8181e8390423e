/* SPDX-License-Identifier: Apache-2.0 */
/* What all commands share: lines for the user on stderr, exit codes of errors, loading of plug-ins,
 * and the directory in which `gradus run` keeps its jobs when none is named. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/output_diags.h"
#include "cli/terminal.h"
#include "os/file.h"
#include "rule/plugin/plugin.h"

void cli_say(const char *text)
{
    char *line = mem_printf("gradus: %s\n", text);
    const size_t n = 4 * strlen(line) + 1; /* \xNN for each byte */
    char *shown = mem_new(n, 1);
    struct buf out = {0};
    text_utf8(line, shown, n);
    terminal_wrap(shown, terminal_columns(STDERR_FILENO), &out);
    (void)fputs(buf_str(&out), stderr);
    buf_release(&out);
    free(shown);
    free(line);
}

void cli_note(const char *fmt, ...)
{
    struct buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    cli_say(buf_str(&text));
    buf_release(&text);
}

/* Owner: the main thread, the only one that tells users anything. */
static struct {
    char *file;
    struct diags errors;
} remembered;

void cli_remember(const char *file, const struct diags *diags)
{
    if (remembered.file == NULL || remembered.file[0] == '\0') {
        free(remembered.file);
        remembered.file = mem_strdup(file);
    }
    diags_append(&remembered.errors, diags);
}

void cli_remembered(int code, bool print)
{
    if (print && code != CLI_OK && remembered.errors.count > 0) {
        struct buf out = {0};
        bool invalid = remembered.file[0] != '\0' || code == CLI_USAGE;
        output_diags_json(remembered.file, invalid ? "invalid" : "failed", &remembered.errors,
                          &out);
        (void)fputs(buf_str(&out), stdout);
        buf_release(&out);
    }
    diags_release(&remembered.errors);
    free(remembered.file);
    remembered.file = NULL;
}

int cli_fail(const struct err *err)
{
    struct diags diags = {0};
    cli_say(err->msg);
    diags_add(&diags, "", 0, 0, "%s", err->msg);
    cli_remember("", &diags);
    diags_release(&diags);
    switch (err->code) {
    case ERR_INVALID:
        return CLI_USAGE;
    case ERR_NOT_FOUND:
        return CLI_NOT_FOUND;
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
        return CLI_UNAVAILABLE;
    default:
        return CLI_FAILED;
    }
}

static void tell_refused(void *ctx, const struct plugin_result *result)
{
    (void)ctx;
    if (result->reason != NULL) {
        cli_note("%s is left out: %s", result->path, result->reason);
    }
}

int cli_load_rules(const struct cli_common *common)
{
    struct err err = {0};
    if (common->rules_dir[0] == '\0' ||
        plugin_load_dir(common->rules_dir, tell_refused, NULL, &err) == 0) {
        return CLI_OK;
    }
    return cli_fail(&err);
}

void cli_add_word(const char *word, struct buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-:,+@%";
    if (word[strspn(word, plain)] == '\0') {
        buf_add_str(out, word);
        return;
    }
    buf_add_char(out, '\'');
    for (; *word != '\0'; word++) {
        buf_add_str(out, *word == '\'' ? "'\\'" : "");
        buf_add_char(out, *word);
        buf_add_str(out, *word == '\'' ? "'" : "");
    }
    buf_add_char(out, '\'');
}

const char *cli_output(const char *path, FILE **said)
{
    const bool standard = strcmp(path, "-") == 0 || strcmp(path, FILE_STDOUT) == 0;
    *said = standard ? stderr : stdout;
    return standard ? FILE_STDOUT : path;
}

char *cli_state_dir(const char *given)
{
    if (given != NULL && given[0] != '\0') {
        return mem_strdup(given);
    }
    const char *state = getenv("XDG_STATE_HOME");
    if (state != NULL && state[0] == '/') {
        return file_join(state, "gradus");
    }
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/') {
        return file_join(home, ".local/state/gradus");
    }
    return mem_strdup("gradus-state");
}
