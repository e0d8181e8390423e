/* SPDX-License-Identifier: Apache-2.0 */
/* The list of jobs as text: a row for each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/output.h"
#include "cli/text_metrics.h"
#include "cli/text_queue.h"
#include "cli/text_reason.h"
#include "wire/wire.h"

/* What a job came to, where it stands in the queue, and its reason, else what it waits for. */
static void job_result(const Gradus__V1__Job *job, struct buf *out)
{
    text_metric_values(job->test, job->n_test, out);
    text_queue_brief(job, out);
    const char *space = out->len > 0 ? "  " : "";
    text_reason_line(job, space, out);
    if (job->reason[0] == '\0' && job->activity[0] != '\0') {
        buf_printf(out, "%s%s", space, job->activity);
    }
}

/* "45s", "3m", "2h", "5d" */
static const char *age_text(int64_t since_ms, int64_t now_ms, char out[16])
{
    static const struct {
        int64_t ms;
        char unit;
    } units[] = {{86400000, 'd'}, {3600000, 'h'}, {60000, 'm'}, {1000, 's'}};
    const int64_t ms = since_ms == 0 || now_ms < since_ms ? 0 : now_ms - since_ms;
    size_t u = 0;
    while (u < 3 && ms < units[u].ms) {
        u++;
    }
    (void)snprintf(out, 16, "%" PRId64 "%c", ms / units[u].ms, units[u].unit);
    return out;
}

static void job_row(const Gradus__V1__Job *job, size_t id_columns, const struct output_view *view,
                    struct buf *out)
{
    struct buf row = {0}, result = {0};
    char age[16], time[40] = "-";
    if (job->seconds > 0) {
        output_seconds(job->seconds, time, sizeof time);
    }
    buf_printf(&row, "%-*s %-10s %8" PRIu64 " %7.2f %4s %7s", (int)id_columns, job->id,
               wire_state_name(job->state), job->step, job->epoch,
               age_text(job->submitted_ms, view->now_ms, age), time);
    job_result(job, &result);
    buf_add_str(out, buf_str(&row));
    if (result.len == 0) {
        buf_add_char(out, '\n');
    } else if (text_columns(row.data, row.len) + 2 + text_columns(result.data, result.len) <=
               view->columns) {
        buf_printf(out, "  %s\n", buf_str(&result));
    } else {
        buf_add_char(out, '\n');
        text_wrap(buf_str(&result), 4, view->columns, out);
    }
    buf_release(&row);
    buf_release(&result);
}

void output_jobs_text(Gradus__V1__Job *const *jobs, size_t count, const struct output_view *view,
                      struct buf *out)
{
    size_t id_columns = 12;
    if (count == 0) {
        buf_add_str(out, "no jobs\n");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(jobs[i]->id);
        id_columns = n > id_columns ? n : id_columns;
    }
    buf_printf(out, "%-*s %-10s %8s %7s %4s %7s  %s\n", (int)id_columns, "JOB", "STATE", "STEP",
               "EPOCH", "AGE", "TIME", "RESULT");
    for (size_t i = 0; i < count; i++) {
        job_row(jobs[i], id_columns, view, out);
    }
}
