/* SPDX-License-Identifier: Apache-2.0 */
/* training.tensorboard: evaluations and hyperparameters of jobs that run, as event files below a
 * directory of this host, a moment after each evaluation, and all when a job ends. The files say
 * themselves what they have (tensorboard.h), so a master that starts again goes on where it was.
 * What cannot be written is told, tried again with the next evaluation, and ends no job.
 *
 * Owner: the loop; files are written by a thread of its own, for one job at a time. */
#ifndef GRADUS_MASTER_SHELL_BOARDS_H
#define GRADUS_MASTER_SHELL_BOARDS_H

#include "master/shell/shell.h"

/* May a job name @dir? An absolute path without "..": what is relative means nothing here. */
bool boards_is_path(const char *dir);
void boards_changed(struct shell *s, const struct job_record *record);
/* Does @job want histograms, by what its file says since its last evaluation? */
bool boards_has_histograms(const struct shell *s, const char *job);
/* Appends why the files of @job are not written; nothing: they are, or none are wanted. */
void boards_problem(struct shell *s, const char *job, struct buf *out);
void boards_release(struct shell *s);

#endif
