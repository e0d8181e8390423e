/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of all commands together, once, for --help and for manual pages. */
#include "cli/manual.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"

#define NAME_COLUMNS 16 /* width of the longest command name, with the blanks around it */
#define ABOUT "Gradus trains models on a cluster of parameter servers and workers."
#define EXAMPLE                                                                                    \
    "  gradus generate digits --out digits\n"                                                      \
    "  gradus run examples/digits.yaml --set data.dir=digits\n"

static const char *const paragraphs[] = {
    "`gradus COMMAND --help` tells more of each. GRADUS_MASTER, GRADUS_STATE_DIR, "
    "GRADUS_RULES_DIR, GRADUS_TIMEOUT and GRADUS_TLS_CERT, _KEY, _CA, _NAME in the environment "
    "stand for the flags of these names.",
    "With --json commands about jobs, nodes and tables print the master's answer as protobuf's "
    "JSON, in one line (docs/operations.md).",
    "With --json a command that fails also prints one object on stdout: the result, for a job that "
    "has failed, else file (a job file, or null), status (invalid: arguments or job file; failed: "
    "anything else) and the list errors, each with file, line, column, key and message.",
};

static const struct man_entry exits[] = {
    {"0", "done, the job succeeded"},
    {"1", "failed"},
    {"2", "wrong arguments or job file"},
    {"3", "cancelled"},
    {"4", "the master cannot be reached, or does not answer"},
    {"5", "not found"},
    {"130", "stopped by Ctrl-C"},
    {0},
};

static const struct man_entry files[] = {
    {"~/.config/gradus/config.yaml",
     "Names of clusters, which `gradus config` writes; below $XDG_CONFIG_HOME where that is set."},
    {"~/.local/state/gradus",
     "Jobs and checkpoints of `gradus run`; below $XDG_STATE_HOME where that is set."},
    {0},
};

const struct man_about cli_manual_about = {
    .chapter = 1,
    .exits = exits,
    .files = files,
    .see_also = "gradus(1), gradus-job(5)",
};

void cli_manual_usage(struct buf *out)
{
    buf_add_str(out, ABOUT "\n\nUsage: gradus COMMAND [ARGUMENTS]\n\nCommands:\n");
    for (size_t i = 0; i < cli_command_count; i++) {
        struct buf summary = {0};
        text_wrap(cli_commands[i]->summary, NAME_COLUMNS, CONFIG_HELP_COLUMNS, &summary);
        buf_printf(out, "  %-*s%s", NAME_COLUMNS - 2, cli_commands[i]->name,
                   buf_str(&summary) + NAME_COLUMNS);
        buf_release(&summary);
    }
    buf_add_str(out, "\nA first job:\n" EXAMPLE "\n");
    for (size_t i = 0; i < sizeof paragraphs / sizeof paragraphs[0]; i++) {
        text_wrap(paragraphs[i], 0, CONFIG_HELP_COLUMNS, out);
    }
    man_exits_help(exits, out);
}

void cli_manual_page(struct buf *out)
{
    man_begin("gradus", cli_manual_about.chapter,
              "train models on a cluster of parameter servers and workers", out);
    man_section("synopsis", out);
    man_synopsis("gradus", "COMMAND [ARGUMENTS]", out);
    man_section("description", out);
    man_paragraph(ABOUT " Each command has a page of its own, gradus-COMMAND(1); job files are in "
                        "gradus-job(5), and the programs of a cluster in gradus-master(8), "
                        "gradus-ps(8), gradus-worker(8) and gradus-serve(8).",
                  out);
    for (size_t i = 0; i < sizeof paragraphs / sizeof paragraphs[0]; i++) {
        man_paragraph(paragraphs[i], out);
    }
    man_section("commands", out);
    for (size_t i = 0; i < cli_command_count; i++) {
        char *name = mem_printf("gradus-%s(1)", cli_commands[i]->name);
        man_item(name, NULL, cli_commands[i]->summary, out);
        free(name);
    }
    man_section("exit status", out);
    man_entries(exits, out);
    man_section("files", out);
    man_entries(files, out);
    man_section("examples", out);
    man_paragraph("A first job:", out);
    man_example(EXAMPLE, out);
    man_see_also("gradus-run(1), gradus-job(5), gradus-master(8), gradus-ps(8), gradus-worker(8), "
                 "gradus-serve(8)",
                 out);
}
