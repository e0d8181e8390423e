/* SPDX-License-Identifier: Apache-2.0 */
/* Structured logs: one line of key=value on stderr, written with one write(2).
 * Programs log; libraries and cores return errors instead.
 *
 *     log_info("job_state", "job=%s from=%s to=%s", id, "PENDING", "STARTING");
 *     → time=2026-11-21T12:00:00.123Z level=info service=master event=job_state job=a-1
 * from=PENDING to=STARTING
 *
 * Values that may hold spaces or quotes go through log_quote(). Any thread may log. */
#ifndef GRADUS_OS_LOG_H
#define GRADUS_OS_LOG_H

#include "base/log_text.h"

enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* @service borrows and must outlive logging; call before other threads start. */
void log_init(const char *service, enum log_level level);
/* How lines are written from now on; call before other threads start. */
void log_set_format(enum log_format format);
/* Who is told of each line that is written, on the thread that logs, which holds no lock of ours:
 * the event, and the text behind it. NULL: nobody. Any thread. */
typedef void log_told_fn(enum log_level level, const char *event, const char *text);
void log_tell(log_told_fn *told);
void log_write(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warn(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)

#endif
