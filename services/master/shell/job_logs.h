/* SPDX-License-Identifier: Apache-2.0 */
/* The newest log lines about each job, of the master and of the job's nodes, whose heartbeats bring
 * them. They are in memory alone: a job that is removed takes its own with it, and where there is
 * no room for all, the job goes that was silent longest.
 *
 * Owner: the loop. Limits: JOB_LOG_LINES and JOB_LOG_BYTES of a job, JOB_LOGS_BYTES of all; lines
 * of LOG_TAIL_TEXT_BYTES. */
#ifndef GRADUS_MASTER_SHELL_JOB_LOGS_H
#define GRADUS_MASTER_SHELL_JOB_LOGS_H

#include "gradus/v1/cluster.pb-c.h"
#include "master/shell/shell.h"

#define JOB_LOG_LINES 1000
#define JOB_LOG_BYTES (256u << 10)
#define JOB_LOGS_BYTES (16u << 20)
#define JOB_LOG_OWN "master" /* the node of the master's lines */

struct job_log_line {
    struct job_log_line *prev, *next;
    uint64_t number;      /* rises; of another master's life it means nothing, and is higher */
    uint64_t incarnation; /* of the node, and the line's number there; 0: the master's */
    uint64_t told;
    int64_t time_ms;
    int level;                 /* enum log_level */
    char *node, *event, *text; /* owned */
    uint64_t lost;             /* lines of the node before it */
    size_t bytes;
};

struct job_log {
    char *job;
    struct job_log_line *oldest, *newest;
    size_t count, bytes;
    uint64_t forgotten; /* the number of the last line that went; 0: none did */
};

/* What the master wrote to its log; of no job: nothing happens. */
void job_logs_add_own(struct shell *s, const struct master_log *line);
/* Lines of a node that the core knows; of jobs that it does not, they are left out. */
void job_logs_heard(struct shell *s, const Gradus__V1__NodeRef *node,
                    Gradus__V1__NodeLine *const *lines, size_t count);
const struct job_log *job_logs_find(const struct shell *s, const char *job); /* NULL: none */
void job_logs_forget(struct shell *s, const char *job);
void job_logs_release(struct shell *s);

#endif
