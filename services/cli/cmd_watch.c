/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/follow.h"

struct options {
    struct cli_common common;
};

static const struct field fields[] = {CLI_MASTER_ROWS(struct options),
                                      CLI_JSON_ROW(struct options)};

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    follow_block_signals();
    struct client client = {0};
    struct err err = {0};
    if (client_open_common(&client, &o->common, &err) != 0 ||
        rpc_channel_wait_ready(client.channel, CLIENT_TIMEOUT_MS, &err) != 0) {
        client_close(&client);
        return cli_fail(&err);
    }
    struct follow_options follow_options = {
        .job = args->positional[0], .json = o->common.json, .interrupt = FOLLOW_DETACH};
    return follow(&client, &follow_options);
}

const struct cli_command cmd_watch = {
    .name = "watch",
    .summary = "Follow a job to its end and print the result",
    .usage = "JOB",
    .examples = "  gradus watch digits-1\n"
                "  gradus watch digits-1 --state-dir build/demo/state\n",
    .notes = "Ctrl-C stops watching; the job goes on.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
