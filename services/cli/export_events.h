/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluations of a job, whether it runs or has ended, as event files of TensorBoard. */
#ifndef GRADUS_CLI_EXPORT_EVENTS_H
#define GRADUS_CLI_EXPORT_EVENTS_H

#include "cli/cli.h"

/* Writes those that job @id has now below @dir (tensorboard.h), and says so. Returns an exit code.
 */
int export_events(const struct cli_common *common, const char *id, const char *dir);

#endif
