/* SPDX-License-Identifier: Apache-2.0 */
/* Lets the nodes of a running job record what they do in the next steps, for `gradus trace` and
 * `gradus timeline`, which make a file of that. */
#ifndef GRADUS_CLI_TRACE_RECORD_H
#define GRADUS_CLI_TRACE_RECORD_H

#include "cli/cli.h"
#include "gradus/v1/jobs.pb-c.h"
#include "rpc/rpc.h"

struct trace_options {
    struct cli_common common;
    int64_t steps, within; /* of every worker; ms, after which what there is is taken */
    int64_t last;          /* ms; above 0: so long, in place of both */
    char *out;
};
#define TRACE_STEPS_MAX 1000

/* @steps: as many as are taken without --steps; @ending of a file that is not named. */
#define TRACE_ROWS(default_steps, ending)                                                          \
    {.path = "steps",                                                                              \
     .type = FIELD_INT,                                                                            \
     .offset = offsetof(struct trace_options, steps),                                              \
     .def = (default_steps),                                                                       \
     .min = 1,                                                                                     \
     .max = TRACE_STEPS_MAX,                                                                       \
     .help = "Steps of every worker"},                                                             \
        {.path = "out",                                                                            \
         .type = FIELD_STRING,                                                                     \
         .offset = offsetof(struct trace_options, out),                                            \
         .def = "",                                                                                \
         .help = "File to write, also -o; empty: JOB" ending},                                     \
    {                                                                                              \
        .path = "within", .type = FIELD_MS, .offset = offsetof(struct trace_options, within),      \
        .def = "10s", .min = 1, .max = 600000, .help = "Take what there is after this time"        \
    }

/* Makes the call. @reply is a TraceJobResponse, the caller's to unref; NULL when @stopped by
 * Ctrl-C, which it has said then. Errors: those of the master. */
int trace_record(const struct trace_options *o, const char *job, struct rpc_msg **reply,
                 bool *stopped, struct err *err);
/* Writes @content as the file that is wanted, else as one with @ending; tells what is missing of
 * @r, a line each, and what is there. @use: what the file is for. */
int trace_write(const struct trace_options *o, const Gradus__V1__TraceJobResponse *r,
                const struct buf *content, const char *ending, const char *use, struct err *err);

#endif
