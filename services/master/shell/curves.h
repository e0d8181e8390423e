/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of jobs: while a job trains, now and then a point of what is known of its training goes to
 * the store, in batches, and is thinned by age there. Points of the last seconds are in memory.
 *
 * Owner: the loop. Limits: CURVE_POINTS_MAX of a job, CURVES_PENDING_MAX in memory. What cannot be
 * stored is tried again, and forgotten when too much waits: a curve is no state of a job. */
#ifndef GRADUS_MASTER_SHELL_CURVES_H
#define GRADUS_MASTER_SHELL_CURVES_H

#include "master/shell/shell.h"

#define CURVES_PENDING_MAX 16384

void curves_changed(struct shell *s, const struct job_record *record);
void curves_flush(struct shell *s); /* store what is in memory */
void curves_forget(struct shell *s, const char *job);
void curves_release(struct shell *s);
void run_curve(struct request *r); /* answers a GetJobRequest with a gradus.v1.Curve */

#endif
