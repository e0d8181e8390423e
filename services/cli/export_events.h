/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluations of a job, whether it runs or has ended, as event files of TensorBoard or as CSV.
 */
#ifndef GRADUS_CLI_EXPORT_EVENTS_H
#define GRADUS_CLI_EXPORT_EVENTS_H

#include "cli/cli.h"

enum export_events_what { EXPORT_CSV, EXPORT_TENSORBOARD, EXPORT_HISTOGRAMS };

/* Writes those that job @id has now below the directory @out (tensorboard.h), with histograms of
 * its checkpoints (parameters.h), or as CSV into the file @out (metrics_csv.h; "-": standard
 * output), and says so. Returns an exit code. */
int export_events(const struct cli_common *common, const char *id, enum export_events_what what,
                  const char *out);

#endif
