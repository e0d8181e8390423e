/* SPDX-License-Identifier: Apache-2.0 */
/* gradus version: print the version of this program. */
#include <stdio.h>

#include "base/release.h"
#include "cli/cli.h"
#include "cli/output.h"

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    if (o->json) {
        struct buf out = {0};
        output_object(&out, "version", release_version(), (const char *)NULL);
        (void)fputs(buf_str(&out), stdout);
        buf_release(&out);
    } else {
        (void)printf("gradus %s\n", release_version());
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
