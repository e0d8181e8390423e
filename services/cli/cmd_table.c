/* SPDX-License-Identifier: Apache-2.0 */
/* gradus table: what the tables of a running job hold on its servers. Servers that do not answer
 * are named in a warning, or in their `problem`; the rest is shown. */
#include "cli/output_tables.h"
#include "cli/query.h"

#define ANSWER_MS 30000 /* of which the master waits 20 s for servers */

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__TablesResponse *r = (const Gradus__V1__TablesResponse *)reply;
    for (size_t i = 0; i < r->n_shards; i++) {
        if (r->shards[i]->problem[0] != '\0') {
            cli_note("warning: %s is missing: %s", r->shards[i]->ps, r->shards[i]->problem);
        }
    }
    output_tables_text(r, out);
}

static int run(const struct cli_args *args)
{
    Gradus__V1__TablesRequest request = GRADUS__V1__TABLES_REQUEST__INIT;
    request.job = client_text(args->positional[0]);
    request.table = client_text(args->positional_count > 1 ? args->positional[1] : "");
    return query_job(args, &(struct query){.method = "Tables",
                                           .body = &request.base,
                                           .text = text,
                                           .timeout_ms = ANSWER_MS});
}

const struct cli_command cmd_table = {
    .name = "table",
    .summary = "Show what the tables of a running job hold",
    .usage = "JOB [TABLE]",
    .examples = "  gradus table clicks-1\n  gradus table clicks-1 factors --json\n",
    .notes =
        "With the name of a table its shards and the keys that were seen most often are shown, "
        "too, which servers look for among all its rows. Counts are of the time since the "
        "shards were opened. ADMITTED: keys that got rows; EVICTED: rows that went; DROPPED: "
        "rows of gradients whose key had no row; LOAD: rows updated and read on the busiest "
        "server, in times of the mean of all. M stands for a million.",
    .shares = CLI_MASTER | CLI_JSON,
    .positional_min = 1,
    .positional_max = 2,
    .run = run,
};
