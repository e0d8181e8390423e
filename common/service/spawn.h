/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: start one and read its ready line, wait for it, end it.
 *
 * Not for several threads on one struct spawn. A child is always waited for: spawn_release() ends
 * one that is still running, so no process and no zombie is left. */
#ifndef GRADUS_SERVICE_SPAWN_H
#define GRADUS_SERVICE_SPAWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define SPAWN_LINE_BYTES_MAX 1024 /* of the ready line */

/* A zeroed struct is valid and has no process. */
struct spawn {
    pid_t pid; /* 0: none */
    bool ended;
    int status; /* of waitpid, when it has ended */
    char *name; /* for messages */
    char *log_path;
    int stdout_fd;                    /* -1 or, with pid 0, anything */
    char first[SPAWN_LINE_BYTES_MAX]; /* the first line, as far as it has come */
    size_t first_bytes;
};

/* Start @argv[0] (a path) with the NULL-terminated @argv and the environment of this process. Its
 * stdin is empty, its stderr is appended to @log_path (NULL: ours). It starts with no signal
 * blocked and in a process group of its own, so that Ctrl-C at a terminal reaches only us. A
 * service with --exit-with-parent ends with the thread that started it: start it from one that
 * stays. Errors: ERR_NOT_FOUND, ERR_PERMISSION, ERR_EXHAUSTED, naming the program. */
int spawn_start(struct spawn *s, const char *name, char *const argv[], const char *log_path,
                struct err *err);
/* The first line that it prints, without the newline, into @line. Errors: ERR_TIMEOUT, and it may
 * be waited for again; ERR_ABORTED it ended before (how, the last line of its log, and where that
 * is); ERR_INVALID the line is too long. */
int spawn_ready_line(struct spawn *s, char line[SPAWN_LINE_BYTES_MAX], unsigned timeout_ms,
                     struct err *err);
/* The value of @key in a ready line "… key=value …" into @out; false when absent or too long. */
bool spawn_line_value(const char *line, const char *key, char *out, size_t n);

/* True if it has ended. Does not wait. */
bool spawn_ended(struct spawn *s);
/* Wait for its end. Errors: ERR_TIMEOUT. */
int spawn_wait(struct spawn *s, unsigned timeout_ms, struct err *err);
/* Ask it to end (SIGTERM); it may have ended already. */
void spawn_ask_end(struct spawn *s);
void spawn_kill(struct spawn *s); /* SIGKILL */
/* Ask, wait @grace_ms, kill, wait. True when it ended by itself with exit code 0. */
bool spawn_end(struct spawn *s, unsigned grace_ms);
/* "exit code 1", "signal 9 (Killed)", "running" into @out; returns @out. */
const char *spawn_describe(const struct spawn *s, char *out, size_t n);
void spawn_release(struct spawn *s); /* kills when still running; @s is empty again */

#endif
