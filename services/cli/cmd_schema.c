/* SPDX-License-Identifier: Apache-2.0 */
/* gradus schema: print all keys of the job file, as a reference for people or as a JSON Schema for
 * editors. Both come from the tables that check job files, so they are never out of date. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/terminal.h"
#include "job/spec/job_spec.h"

struct options {
    struct cli_common common;
    bool markdown, manual;
};

static const struct field fields[] = {
    {.path = "markdown",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, markdown),
     .def = "false",
     .help = "Print the reference as Markdown (docs/job-file.md)"},
    {.path = "manual",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, manual),
     .def = "false",
     .help = "Print the reference as a manual page, gradus-job(5)"},
};

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct buf out = {0};
    int code = cli_load_rules(&o->common);
    if (code != CLI_OK) {
        return code;
    }
    if (o->common.json) {
        job_spec_schema_json(&out);
    } else if (o->markdown) {
        job_spec_reference_markdown(&out);
    } else if (o->manual) {
        job_spec_reference_manual(&out);
    } else {
        job_spec_reference_text(&out);
        terminal_print(&out);
        buf_reset(&out);
    }
    (void)fputs(buf_str(&out), stdout);
    buf_release(&out);
    return CLI_OK;
}

const struct cli_command cmd_schema = {
    .name = "schema",
    .summary = "Print the reference of the job file, or its JSON Schema",
    .usage = "",
    .examples = "  gradus schema | less\n"
                "  gradus schema --json > gradus.schema.json   # for editors\n",
    .shares = CLI_RULES_DIR | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .run = run,
};
