/* SPDX-License-Identifier: Apache-2.0 */
/* The list of all commands, in the order of --help. */
#include "cli/cli.h"

#define CLI_COMMANDS(X)                                                                            \
    X(run)                                                                                         \
    X(submit)                                                                                      \
    X(list)                                                                                        \
    X(status)                                                                                      \
    X(watch)                                                                                       \
    X(logs)                                                                                        \
    X(cancel)                                                                                      \
    X(pause)                                                                                       \
    X(resume)                                                                                      \
    X(rm)                                                                                          \
    X(set)                                                                                         \
    X(checkpoint)                                                                                  \
    X(table)                                                                                       \
    X(trace)                                                                                       \
    X(timeline)                                                                                    \
    X(compare)                                                                                     \
    X(validate)                                                                                    \
    X(schema)                                                                                      \
    X(rules)                                                                                       \
    X(plan)                                                                                        \
    X(nodes)                                                                                       \
    X(drain)                                                                                       \
    X(drop)                                                                                        \
    X(generate)                                                                                    \
    X(convert)                                                                                     \
    X(export)                                                                                      \
    X(evaluate)                                                                                    \
    X(predict)                                                                                     \
    X(certificates)                                                                                \
    X(token)                                                                                       \
    X(roles)                                                                                       \
    X(config)                                                                                      \
    X(completion)                                                                                  \
    X(version)

#define X(name) extern const struct cli_command cmd_##name;
CLI_COMMANDS(X)
#undef X

#define X(name) &cmd_##name,
const struct cli_command *const cli_commands[] = {CLI_COMMANDS(X)};
#undef X
const size_t cli_command_count = sizeof cli_commands / sizeof cli_commands[0];
