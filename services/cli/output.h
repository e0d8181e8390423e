/* SPDX-License-Identifier: Apache-2.0 */
/* What people and programs see: jobs, nodes, plans and metrics as text and as JSON.
 *
 * @columns: of the reader's terminal, or TERMINAL_ANY (terminal.h). Texts without it are printed by
 * terminal_print(), which breaks lines that are too long. */
#ifndef GRADUS_CLI_OUTPUT_H
#define GRADUS_CLI_OUTPUT_H

#include "base/buf.h"
#include "cli/job_changes.h"
#include "cli/job_events.h"
#include "cli/memory_need.h"
#include "cli/output_update.h"
#include "cli/plan_speed.h"
#include "data/sparse_fields.h"
#include "gradus/v1/jobs.pb-c.h"
#include "graph/metric.h"
#include "job/plan/plan.h"

/* Writes @message as the master's /api/v1 shows it (wire_json.h): one object, in one line. */
void output_message_json(const ProtobufCMessage *message, struct buf *out);
/* Writes how a job ended, or how far it is. */
void output_result_text(const Gradus__V1__Job *job, struct buf *out);
/* Writes everything that is known of one job. */
void output_status_text(const Gradus__V1__Job *job, size_t columns, struct buf *out);
/* Writes the changes that `gradus set` made, and the job as it is now. */
void output_change_text(const Gradus__V1__Job *job, const struct job_changes *changes,
                        struct buf *out);
void output_state_text(const Gradus__V1__Job *job, struct buf *out);
/* A row for each, with how long ago it was submitted and how long it has trained; the reason of a
 * job below it when it does not fit. */
struct output_view {
    size_t columns;
    int64_t now_ms; /* Unix time */
};
void output_jobs_text(Gradus__V1__Job *const *jobs, size_t count, const struct output_view *view,
                      struct buf *out);
void output_nodes_text(Gradus__V1__NodeInfo *const *nodes, size_t count, struct buf *out);
void output_plan_json(const struct plan *plan, const struct output_update *update,
                      const struct memory_need *need, const struct host_memory *host,
                      const struct plan_speed *speed, const struct sparse_fields *fields,
                      struct buf *out);
/* {"file", "job", "status": "valid", "checked_against", "sparse_fields"}; @fields NULL: none. */
void output_valid_json(const char *file, const char *job, const char *checked_against,
                       const struct sparse_fields *fields, struct buf *out);
/* {"key": "value", …} from a NULL-terminated list of pairs. */
void output_object(struct buf *out, ...);
/* One line of progress: epoch, step, metrics, examples/s, time left, nodes, and how much was stale,
 * dropped, speculated or recovered. Where it does not fit, whole parts are left out: the epoch, the
 * step, the speed and the time left stay. */
void output_progress(const Gradus__V1__Job *job, const struct job_events *events, size_t columns,
                     struct buf *out);
/* An evaluation: one line, or one each for the training and the test data. */
void output_evaluation(const Gradus__V1__Evaluation *e, size_t columns, struct buf *out);
/* @line cut to @columns of a terminal (to whole characters, "…" at the end), control bytes as
 * blanks; returns @out. */
const char *output_fit(const char *line, size_t columns, char *out, size_t n);
/* "1:02:03" or "4.2 s" */
const char *output_seconds(double seconds, char *text, size_t n);

#endif
