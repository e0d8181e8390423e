/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *log_service = "gradus";
static enum log_level log_least = LOG_LEVEL_INFO;
static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *service, enum log_level level)
{
    log_service = service;
    log_least = level;
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
    if (level < log_least) {
        return;
    }
    char line[4096];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm tm;
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(line, sizeof line, "time=%Y-%m-%dT%H:%M:%S", &tm);
    int k = snprintf(line + n, sizeof line - n, ".%03ldZ level=%s service=%s event=%s ",
                     now.tv_nsec / 1000000, level_names[level], log_service, event);
    n += k > 0 ? (size_t)k : 0;
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
    for (size_t i = 0; i < n; i++) {
        if (line[i] == '\n') {
            line[i] = ' ';
        }
    }
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, n);
    (void)written; /* nowhere to report that stderr is gone */
}

const char *log_quote(const char *s, char *out, size_t n)
{
    if (n < 4) {
        return "";
    }
    if (s[0] != '\0' && strpbrk(s, " \"=\n\t\\") == NULL) {
        (void)snprintf(out, n, "%s", s);
        return out;
    }
    size_t k = 0;
    out[k++] = '"';
    for (; *s != '\0' && k + 3 < n; s++) {
        if (*s == '"' || *s == '\\') {
            out[k++] = '\\';
            out[k++] = *s;
        } else if (*s == '\n') {
            out[k++] = '\\';
            out[k++] = 'n';
        } else {
            out[k++] = *s;
        }
    }
    out[k++] = '"';
    out[k] = '\0';
    return out;
}
