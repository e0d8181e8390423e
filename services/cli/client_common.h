/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the master that the arguments of a command name. */
#ifndef GRADUS_CLI_CLIENT_COMMON_H
#define GRADUS_CLI_CLIENT_COMMON_H

#include "cli/cli.h"
#include "client/master_client.h"

/* Connects to the master that --master or --state-dir names, or that of this host; with @local,
 * else to that of a `gradus run` that goes on. Errors: ERR_NOT_FOUND no master runs in the state
 * directory; ERR_UNAVAILABLE none was named, and none is here: what to type. */
int client_open_common(struct client *c, const struct cli_common *common, bool local,
                       struct err *err);

#endif
