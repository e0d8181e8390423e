/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/program/program_output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/log_secret.h"
#include "os/log_tail.h"
#include "os/thread.h"

#define READ_BYTES 4096
#define LAST_BYTES (1u << 20) /* of who goes on printing when its program has ended */

struct line {
    char text[PROGRAM_LINE_BYTES + 1];
    size_t n;
};

/* Leaves out the oldest lines for it; one that only underlines is none. */
static void keep(char last[PROGRAM_LAST_BYTES], const char *text)
{
    char line[PROGRAM_LAST_LINE_BYTES + sizeof "…"];
    size_t used = strlen(last);
    if (text[strspn(text, " \t~^")] == '\0') {
        return;
    }
    text = log_has_secret(text) ? LOG_SECRET_SHOWN : text;
    size_t n = strnlen(text, PROGRAM_LAST_LINE_BYTES);
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
        n--; /* between two characters */
    }
    (void)snprintf(line, sizeof line, "%.*s%s", (int)n, text, text[n] == '\0' ? "" : "…");
    while (used > 0 && used + 1 + strlen(line) >= PROGRAM_LAST_BYTES) {
        const size_t oldest = strcspn(last, "\n") + 1;
        used = oldest > used ? 0 : used - oldest;
        memmove(last, last + oldest, used);
        last[used] = '\0';
    }
    (void)snprintf(last + used, PROGRAM_LAST_BYTES - used, "%s%s", used > 0 ? "\n" : "", line);
}

static void tell(struct program_output *o, struct line *line)
{
    while (line->n > 0 && line->text[line->n - 1] == '\r') {
        line->n--;
    }
    line->text[line->n] = '\0';
    if (line->n > 0) {
        log_tail_printed(line->text);
        keep(o->last, line->text);
    }
    line->n = 0;
}

static void take(struct program_output *o, struct line *line, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n' || line->n == PROGRAM_LINE_BYTES) {
            tell(o, line);
        }
        if (bytes[i] != '\n') {
            line->text[line->n++] = bytes[i] == '\0' ? ' ' : bytes[i];
        }
    }
}

static void write_all(const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(STDERR_FILENO, bytes, n);
        if (written < 0 && errno != EINTR) {
            return; /* the log is gone: there is no place to report that */
        }
        bytes += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
}

/* Reads once; 0: there is nothing now, or never more. */
static size_t read_some(struct program_output *o, struct line *line)
{
    char bytes[READ_BYTES];
    ssize_t n = -1;
    do {
        n = read(o->from, bytes, sizeof bytes);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        write_all(bytes, (size_t)n);
        take(o, line, bytes, (size_t)n);
    }
    return n > 0 ? (size_t)n : 0;
}

static void *run(void *arg)
{
    struct program_output *o = arg;
    struct line line = {.n = 0};
    struct pollfd fds[2] = {{.fd = o->from, .events = POLLIN}, {.fd = o->stop, .events = POLLIN}};
    while (fds[1].revents == 0) {
        if (poll(fds, 2, -1) < 0) {
            fds[0].revents = fds[1].revents = 0; /* a signal */
        } else if (fds[0].revents != 0 && read_some(o, &line) == 0) {
            fds[0].fd = -1; /* all who had it are gone; it is waited for the end */
        }
    }
    size_t n = 1;
    for (size_t last = 0; n > 0 && last < LAST_BYTES; last += n) {
        n = read_some(o, &line);
    }
    tell(o, &line);
    return NULL;
}

int program_output_begin(struct program_output *o, int *to, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_errno(err, errno, "a pipe for what the program prints");
    }
    o->last[0] = '\0';
    o->from = ends[0];
    *to = ends[1];
    o->stop = eventfd(0, EFD_CLOEXEC);
    int rc = o->stop < 0 || fcntl(o->from, F_SETFL, O_NONBLOCK) != 0 ? errno : 0;
    rc = rc != 0 ? rc : thread_start(&o->thread, "program-output", run, o);
    if (rc != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        if (o->stop >= 0) {
            (void)close(o->stop);
        }
        return err_errno(err, rc, "read what the program prints");
    }
    o->runs = true;
    return 0;
}

void program_output_end(struct program_output *o)
{
    if (!o->runs) {
        return;
    }
    const uint64_t one = 1;
    const ssize_t written = write(o->stop, &one, sizeof one);
    (void)written; /* an eventfd with nothing in it takes it */
    (void)pthread_join(o->thread, NULL);
    (void)close(o->from);
    (void)close(o->stop);
    o->runs = false;
}
