/* SPDX-License-Identifier: Apache-2.0 */
/* Composes a log line on the stack (4 KiB at most) and writes it with one system call, so lines
 * of several threads do not mix. Control characters in values are escaped or replaced. */
#include "os/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "os/log_json.h"

#define LINE_BYTES 4096

static const char *log_service = "gradus";
static enum log_level log_least = LOG_LEVEL_INFO;
static enum log_format log_as = LOG_FORMAT_TEXT;
static _Atomic(log_told_fn *) log_told;
static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *service, enum log_level level)
{
    log_service = service;
    log_least = level;
}

void log_set_format(enum log_format format)
{
    log_as = format;
}

void log_tell(log_told_fn *told)
{
    log_told = told;
}

static void write_line(char *line, size_t n)
{
    char json[LINE_BYTES * 3];
    char *out = line;
    if (log_as == LOG_FORMAT_JSON) {
        n = log_json(line, n, json, sizeof json - 1);
        out = json;
    }
    out[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, out, n);
    (void)written; /* stderr is gone: there is no place to report that */
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
    if (level < log_least) {
        return;
    }
    char line[LINE_BYTES];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm tm;
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "time=%Y-%m-%dT%H:%M:%S", &tm);
    int k = snprintf(line + n, sizeof line - n, ".%03ldZ level=%s service=%s event=%s ",
                     now.tv_nsec / 1000000, level_names[level], log_service, event);
    n += k > 0 ? (size_t)k : 0;
    const size_t head = n < sizeof line - 1 ? n : sizeof line - 1;
    va_list args;
    va_start(args, fmt);
    k = vsnprintf(line + n, sizeof line - n, fmt, args);
    va_end(args);
    n += k > 0 ? (size_t)k : 0;
    if (n > sizeof line - 1) {
        n = sizeof line - 1;
    }
    while (n > 0 && line[n - 1] == ' ') {
        n--;
    }
    line[n] = '\0';
    text_plain(line, n); /* one line, and nothing that a terminal obeys */
    log_told_fn *told = log_told;
    if (told != NULL) {
        told(level, event, n > head ? line + head : "");
    }
    write_line(line, n);
}
