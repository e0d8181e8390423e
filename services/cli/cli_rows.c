/* SPDX-License-Identifier: Apache-2.0 */
/* The options that several commands share, one row each. */
#include <stddef.h>

#include "base/mem.h"
#include "cli/cli.h"

#define AT(member) offsetof(struct cli_common, member)
#define TIMEOUT                                                                                    \
    {                                                                                              \
        .path = "timeout", .type = FIELD_MS, .offset = AT(timeout_ms), .def = "5s", .min = 100,    \
        .max = 3600000, .help = "How long to try to reach the master, and to wait for its answer"  \
    }

static const struct {
    unsigned shares;
    struct field row;
} own_rows[] = {
    {CLI_RUN,
     {.path = "state_dir",
      .type = FIELD_STRING,
      .offset = AT(state_dir),
      .def = "",
      .help = "Directory of jobs and checkpoints; empty: gradus in $XDG_STATE_HOME or "
              "~/.local/state; without HOME ./gradus-state; or one in it that no other run uses"}},
    {CLI_RULES_DIR,
     {.path = "rules_dir",
      .type = FIELD_STRING,
      .offset = AT(rules_dir),
      .def = "",
      .help = "Directory of update rules as shared objects, beside those built in"}},
    {CLI_RUN, TIMEOUT},
    {CLI_JSON,
     {.path = "json",
      .type = FIELD_BOOL,
      .offset = AT(json),
      .def = "false",
      .help = "Print JSON"}},
    {CLI_BEST,
     {.path = "best",
      .type = FIELD_BOOL,
      .offset = AT(best),
      .def = "false",
      .help = "The best version that is kept (training.checkpoints_keep.best of the job file), "
              "not the newest"}},
    {CLI_LOCAL,
     {.path = "overcommit",
      .type = FIELD_BOOL,
      .offset = AT(overcommit),
      .def = "false",
      .help = "Go on although the processes may need more memory than this host has left"}},
    {CLI_LOCAL,
     {.path = "worker",
      .type = FIELD_STRING,
      .offset = AT(worker),
      .def = "",
      .help = "Command that computes the model of a job with model.program, one for each worker"}},
    {CLI_TENSORBOARD,
     {.path = "tensorboard",
      .type = FIELD_STRING,
      .offset = AT(tensorboard),
      .def = "",
      .help = "Directory for TensorBoard: every evaluation is added to event files below it, "
              "JOB/train and JOB/test; JOB has the hyperparameters"}},
};

static const struct field master_rows[] = {
    {.path = "master",
     .type = FIELD_STRING,
     .offset = AT(master),
     .def = "",
     .help = "Address of the master, host:port, or host where the port is 7000; of several masters "
             "all, with commas; without it that "
             "of --state-dir, else " SERVICE_MASTER_ADDRESS
             ", else those of `gradus run` on this machine"},
    {.path = "cluster",
     .type = FIELD_STRING,
     .offset = AT(cluster),
     .def = "",
     .help = "Name of a cluster (gradus config), instead of the address; none: none of them"},
    TLS_SETTINGS_ROWS(struct cli_common, tls),
    TIMEOUT,
    {.path = "state_dir",
     .type = FIELD_STRING,
     .offset = AT(state_dir),
     .def = "",
     .help = "State directory of a master, on this machine (gradus run --state-dir)"},
};

#define OWN_COUNT (sizeof own_rows / sizeof own_rows[0])
#define MASTER_COUNT (sizeof master_rows / sizeof master_rows[0])

struct field *cli_rows(const struct cli_command *command, size_t *own, size_t *count)
{
    struct field *rows = mem_new(OWN_COUNT + command->field_count + MASTER_COUNT, sizeof *rows);
    size_t n = 0;
    for (size_t i = 0; i < OWN_COUNT; i++) {
        if ((command->shares & own_rows[i].shares) != 0) {
            rows[n++] = own_rows[i].row;
        }
    }
    for (size_t i = 0; i < command->field_count; i++) {
        rows[n++] = command->fields[i];
    }
    *own = n;
    for (size_t i = 0; (command->shares & CLI_MASTER) != 0 && i < MASTER_COUNT; i++) {
        rows[n++] = master_rows[i];
    }
    *count = n;
    return rows;
}
