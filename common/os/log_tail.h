/* SPDX-License-Identifier: Apache-2.0 */
/* The newest lines that this process logged about jobs, and what a job's program printed, until
 * the master has them. Lines that look like secrets are kept as LOG_SECRET_SHOWN.
 *
 * Any thread. Limits: LOG_TAIL_LINES of LOG_TAIL_TEXT_BYTES; what comes when that is full takes the
 * place of the oldest. */
#ifndef GRADUS_OS_LOG_TAIL_H
#define GRADUS_OS_LOG_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/log.h"

#define LOG_TAIL_LINES 256
#define LOG_TAIL_TEXT_BYTES 1024
#define LOG_TAIL_EVENT_BYTES 64
#define LOG_TAIL_JOB_BYTES 160

struct log_tail_line {
    uint64_t number; /* 1, 2, 3 … in this process */
    int64_t time_ms; /* Unix time */
    enum log_level level;
    char *job, *event, *text; /* owned */
    uint64_t lost;            /* lines of this job that stood before it and are lost */
};

/* From now on lines are kept. */
void log_tail_begin(void);
/* Lines that name no job are about this one; NULL: about none, and not kept. */
void log_tail_job(const char *job);
/* Keeps a line of what a program printed, without its line end, of the job of log_tail_job(), or,
 * of a program that is started before it has work, of the next one. */
void log_tail_printed(const char *text);
/* Copies the oldest lines, at most @max, with no more than @bytes of text but for the first one.
 * Returns how many; log_tail_release() each. */
size_t log_tail_read(struct log_tail_line *out, size_t max, size_t bytes);
void log_tail_release(struct log_tail_line *line);
/* The lines up to this number are where they belong. */
void log_tail_told(uint64_t number);

/* The job that @text speaks of, "… job=digits-1 …", into @out; false: none. */
bool log_job_of(const char *text, char out[LOG_TAIL_JOB_BYTES]);

#endif
