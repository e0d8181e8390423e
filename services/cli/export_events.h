/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluations of a job, whether it runs or has ended, as event files of TensorBoard or as CSV.
 */
#ifndef GRADUS_CLI_EXPORT_EVENTS_H
#define GRADUS_CLI_EXPORT_EVENTS_H

#include "cli/cli.h"

/* Writes those that job @id has now below the directory @out (tensorboard.h), or, with @csv, into
 * the file @out (metrics_csv.h; "-": standard output), and says so. Returns an exit code. */
int export_events(const struct cli_common *common, const char *id, bool csv, const char *out);

#endif
