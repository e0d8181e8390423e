/* Command lines: options by rows, --set, positional arguments. */
#ifndef GRADUS_CLI_ARGS_H
#define GRADUS_CLI_ARGS_H

#include "base/buf.h"
#include "cli/cli.h"

/* Read what follows the command's name. @help is set when --help was asked for. @args is released
 * with cli_args_release() in any case. Errors: ERR_INVALID, with all that is wrong, one line each.
 */
int cli_args_parse(const struct cli_command *command, int argc, char **argv, struct cli_args *args,
                   bool *help, struct err *err);
void cli_args_release(const struct cli_command *command, struct cli_args *args);
/* The text of `gradus <name> --help`. */
void cli_args_help(const struct cli_command *command, struct buf *out);

#endif
