/* SPDX-License-Identifier: Apache-2.0 */
/* A job as the answer to a request: the core's record, and what the shell knows beside it. */
#include "master/shell/boards.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"

void request_reply_job(struct request *r, const struct job_record *record, unsigned parts)
{
    struct job_wire w;
    job_wire_init(&w, record, parts);
    struct buf problem = {0};
    w.job.bad_records = bad_records_read(r->shell, record->id);
    boards_problem(r->shell, record->id, &problem);
    if (problem.len > 0) {
        w.job.tensorboard = problem.data;
    }
    request_reply(r, &w.job.base);
    job_wire_release(&w);
    buf_release(&problem);
}
