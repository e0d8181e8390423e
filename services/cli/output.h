/* SPDX-License-Identifier: Apache-2.0 */
/* What people and programs see: jobs, nodes, plans and metrics as text and as JSON. */
#ifndef GRADUS_CLI_OUTPUT_H
#define GRADUS_CLI_OUTPUT_H

#include "base/buf.h"
#include "cli/job_changes.h"
#include "cli/output_update.h"
#include "gradus/v1/jobs.pb-c.h"
#include "graph/metric.h"
#include "job/plan.h"

/* The result object of run and watch: {job, state, reason, steps, epochs, metrics, …}. */
void output_result_json(const Gradus__V1__Job *job, struct buf *out);
void output_result_text(const Gradus__V1__Job *job, struct buf *out);
/* Everything that is known of one job. */
void output_status_json(const Gradus__V1__Job *job, struct buf *out);
void output_status_text(const Gradus__V1__Job *job, struct buf *out);
/* What `gradus set` has changed, and what the job is now. */
void output_change_json(const Gradus__V1__Job *job, const struct job_changes *changes,
                        struct buf *out);
void output_change_text(const Gradus__V1__Job *job, const struct job_changes *changes,
                        struct buf *out);
void output_cancel_text(const Gradus__V1__Job *job, struct buf *out);
void output_jobs_json(Gradus__V1__Job *const *jobs, size_t count, struct buf *out);
void output_jobs_text(Gradus__V1__Job *const *jobs, size_t count, struct buf *out);
void output_nodes_json(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out);
void output_nodes_text(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out);
void output_plan_json(const struct plan *plan, const struct output_update *update, struct buf *out);
void output_metrics_json(const char *checkpoint, const char *data, const struct metrics *m,
                         double label_scale, struct buf *out);
void output_metrics_text(const struct metrics *m, double label_scale, struct buf *out);
/* {"key": "value", …} from a NULL-terminated list of pairs. */
void output_object(struct buf *out, ...);
/* One line of progress: epoch, step, metrics, examples/s, time left, nodes, and what was stale,
 * dropped, speculated or recovered. */
void output_progress(const Gradus__V1__Job *job, struct buf *out);
/* One line of an evaluation. */
void output_evaluation(const Gradus__V1__Evaluation *e, struct buf *out);
/* @line cut to @columns of a terminal (to whole characters, "…" at the end), control bytes as
 * blanks; returns @out. */
const char *output_fit(const char *line, size_t columns, char *out, size_t n);
/* "1:02:03" or "4.2 s" */
const char *output_seconds(double seconds, char *text, size_t n);

#endif
