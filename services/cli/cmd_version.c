/* SPDX-License-Identifier: Apache-2.0 */
/* gradus version: print the version of this program. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/output.h"

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    if (o->json) {
        struct buf out = {0};
        output_object(&out, "version", GRADUS_VERSION, (const char *)NULL);
        (void)fputs(buf_str(&out), stdout);
        buf_release(&out);
    } else {
        (void)puts("gradus " GRADUS_VERSION);
    }
    return CLI_OK;
}

const struct cli_command cmd_version = {
    .name = "version",
    .summary = "Print the version",
    .usage = "",
    .examples = "  gradus version\n",
    .shares = CLI_JSON,
    .run = run,
};
