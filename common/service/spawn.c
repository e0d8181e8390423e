/* SPDX-License-Identifier: Apache-2.0 */
/* Starts services as child processes, for `gradus run` and for tests. A child that ends before
 * its ready line is explained by the last line of its log. */
#include "service/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/chrono.h"

extern char **environ;

/* Bytes at the end of a log that are read to find its last line. */
#define SPAWN_LOG_TAIL_BYTES 2048

/* ---- start ---- */

static int set_attributes(posix_spawnattr_t *attr)
{
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawnattr_setsigmask(attr, &none);
    rc = rc != 0 ? rc : posix_spawnattr_setsigdefault(attr, &all);
    rc = rc != 0 ? rc : posix_spawnattr_setpgroup(attr, 0);
    return rc != 0 ? rc
                   : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETPGROUP);
}

static int set_actions(posix_spawn_file_actions_t *actions, int stdout_fd, const char *log_path)
{
    int rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(actions, stdout_fd, STDOUT_FILENO);
    if (rc == 0 && log_path != NULL) {
        rc = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, log_path,
                                              O_WRONLY | O_CREAT | O_APPEND, 0644);
    }
    return rc != 0 ? rc : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

/* Returns 0 or an errno value. */
static int spawn_with(pid_t *pid, char *const argv[], int stdout_fd, const char *log_path)
{
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    int rc = posix_spawnattr_init(&attr);
    if (rc != 0) {
        return rc;
    }
    rc = posix_spawn_file_actions_init(&actions);
    if (rc == 0) {
        rc = set_attributes(&attr);
        rc = rc != 0 ? rc : set_actions(&actions, stdout_fd, log_path);
        rc = rc != 0 ? rc : posix_spawn(pid, argv[0], &actions, &attr, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attr);
    return rc;
}

int spawn_start(struct spawn *s, const char *name, char *const argv[], const char *log_path,
                struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_errno(err, errno, "start %s: pipe", name);
    }
    pid_t pid = 0;
    int rc = spawn_with(&pid, argv, ends[1], log_path);
    (void)close(ends[1]);
    if (rc != 0) {
        (void)close(ends[0]);
        return err_errno(err, rc, "start %s: %s", name, argv[0]);
    }
    *s = (struct spawn){.pid = pid,
                        .name = mem_strdup(name),
                        .log_path = mem_strdup(log_path),
                        .stdout_fd = ends[0]};
    return 0;
}

/* ---- how it ended ---- */

bool spawn_ended(struct spawn *s)
{
    if (s->pid != 0 && !s->ended) {
        int status = 0;
        pid_t pid = waitpid(s->pid, &status, WNOHANG);
        if (pid != 0) {
            /* with an error it is not our child any more: it ended, and nobody knows how */
            s->ended = true;
            s->status = status;
        }
    }
    return s->pid == 0 || s->ended;
}

/* Milliseconds for poll() until @deadline_ms. */
static int left_ms(uint64_t deadline_ms)
{
    uint64_t now_ms = chrono_now_ms();
    return now_ms >= deadline_ms ? 0 : (int)(deadline_ms - now_ms);
}

int spawn_wait(struct spawn *s, unsigned timeout_ms, struct err *err)
{
    if (spawn_ended(s)) {
        return 0;
    }
    int fd = pidfd_open(s->pid, 0);
    if (fd < 0) {
        return err_errno(err, errno, "wait for %s", s->name);
    }
    uint64_t deadline_ms = chrono_now_ms() + timeout_ms;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int rc = poll(&p, 1, left_ms(deadline_ms));
    while (rc < 0 && errno == EINTR) {
        rc = poll(&p, 1, left_ms(deadline_ms));
    }
    (void)close(fd);
    if (!spawn_ended(s)) {
        return err_set(err, ERR_TIMEOUT, "%s (pid %d) has not ended within %u ms", s->name,
                       (int)s->pid, timeout_ms);
    }
    return 0;
}

const char *spawn_describe(const struct spawn *s, char *out, size_t n)
{
    if (!s->ended) {
        (void)snprintf(out, n, "%s", s->pid == 0 ? "not started" : "running");
    } else if (WIFSIGNALED(s->status)) {
        (void)snprintf(out, n, "signal %d (%s)", WTERMSIG(s->status),
                       sigdescr_np(WTERMSIG(s->status)));
    } else {
        (void)snprintf(out, n, "exit code %d", WEXITSTATUS(s->status));
    }
    return out;
}

/* The last line of the log into @line; empty when there is none. */
static void last_log_line(const char *path, char line[SPAWN_LOG_TAIL_BYTES])
{
    line[0] = '\0';
    FILE *f = path != NULL ? fopen(path, "re") : NULL;
    if (f == NULL) {
        return;
    }
    char tail[SPAWN_LOG_TAIL_BYTES];
    if (fseek(f, 1 - SPAWN_LOG_TAIL_BYTES, SEEK_END) != 0) {
        rewind(f); /* shorter than that */
    }
    size_t k = fread(tail, 1, sizeof tail - 1, f);
    (void)fclose(f);
    while (k > 0 && tail[k - 1] == '\n') {
        k--;
    }
    tail[k] = '\0';
    const char *newline = strrchr(tail, '\n');
    (void)snprintf(line, SPAWN_LOG_TAIL_BYTES, "%s", newline != NULL ? newline + 1 : tail);
}

/* What stands behind the key `reason` of a log line, text or JSON; NULL: nothing does. */
static const char *find_reason(const char *line)
{
    static const struct {
        const char *begin, *key;
    } FORMATS[] = {{"time=", " reason=\""}, {"{\"time\":", ",\"reason\":\""}};
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; i++) {
        if (strncmp(line, FORMATS[i].begin, strlen(FORMATS[i].begin)) == 0) {
            const char *found = strstr(line, FORMATS[i].key);
            return found == NULL ? NULL : found + strlen(FORMATS[i].key);
        }
    }
    return NULL;
}

/* Cuts a log line down to its reason, without quotes, if it has one. In place. */
static void keep_reason(char *line)
{
    const char *in = find_reason(line);
    if (in == NULL) {
        return;
    }
    char *out = line;
    for (; *in != '\0' && *in != '"'; in++) {
        bool escaped = in[0] == '\\' && in[1] != '\0';
        in += escaped;
        *out++ = escaped && *in == 'n' ? '\n' : *in;
    }
    *out = '\0';
}

/* ---- ready line ---- */

static int ended_before_ready(struct spawn *s, struct err *err)
{
    /* Its stdout is closed. That is its end, or will be in a moment; one that lives on is no use.
     */
    if (spawn_wait(s, 1000, NULL) != 0) {
        return err_set(err, ERR_ABORTED, "%s closed its output before it was ready", s->name);
    }
    char how[64];
    char line[SPAWN_LOG_TAIL_BYTES];
    spawn_describe(s, how, sizeof how);
    last_log_line(s->log_path, line);
    keep_reason(line);
    const char *its = strchr(line, '\n') != NULL ? "\nits log is " : "; its log is ";
    return err_set(err, ERR_ABORTED, "%s ended before it was ready: %s%s%s%s%s", s->name, how,
                   line[0] != '\0' ? ": " : "", line, s->log_path != NULL ? its : "",
                   s->log_path != NULL ? s->log_path : "");
}

/* More of the first line; 1 when it is whole, and its length in @length. */
static int read_first(struct spawn *s, size_t *length, struct err *err)
{
    char *into = s->first + s->first_bytes;
    ssize_t k = read(s->stdout_fd, into, sizeof s->first - s->first_bytes);
    if (k < 0) {
        return errno == EINTR ? 0 : err_errno(err, errno, "read the output of %s", s->name);
    }
    if (k == 0) {
        return ended_before_ready(s, err);
    }
    s->first_bytes += (size_t)k;
    const char *newline = memchr(into, '\n', (size_t)k);
    if (newline != NULL) {
        *length = (size_t)(newline - s->first);
        return 1;
    }
    return s->first_bytes < sizeof s->first
               ? 0
               : err_set(err, ERR_INVALID, "%s: the first line it printed is longer than %zu bytes",
                         s->name, sizeof s->first - 1);
}

int spawn_ready_line(struct spawn *s, char line[SPAWN_LINE_BYTES_MAX], unsigned timeout_ms,
                     struct err *err)
{
    uint64_t deadline_ms = chrono_now_ms() + timeout_ms;
    size_t length = 0;
    int rc = 0;
    while (rc == 0) {
        struct pollfd p = {.fd = s->stdout_fd, .events = POLLIN};
        int n = poll(&p, 1, left_ms(deadline_ms));
        if (n == 0) {
            return err_set(err, ERR_TIMEOUT, "%s is not ready after %u ms%s%s", s->name, timeout_ms,
                           s->log_path != NULL ? "; its log is " : "",
                           s->log_path != NULL ? s->log_path : "");
        }
        if (n > 0) {
            rc = read_first(s, &length, err);
        }
    }
    if (rc < 0) {
        return rc;
    }
    memcpy(line, s->first, length);
    line[length] = '\0';
    return 0;
}

bool spawn_line_value(const char *line, const char *key, char *out, size_t n)
{
    size_t key_length = strlen(key);
    for (const char *word = line; *word != '\0';) {
        size_t length = strcspn(word, " ");
        if (length > key_length && memcmp(word, key, key_length) == 0 && word[key_length] == '=') {
            size_t value_length = length - key_length - 1;
            if (value_length >= n) {
                return false;
            }
            memcpy(out, word + key_length + 1, value_length);
            out[value_length] = '\0';
            return true;
        }
        word += length;
        word += strspn(word, " ");
    }
    return false;
}

/* ---- end ---- */

static void send_signal(struct spawn *s, int signal)
{
    if (!spawn_ended(s)) { /* so the pid is still that of our child, a zombie at worst */
        (void)kill(s->pid, signal);
    }
}

void spawn_ask_end(struct spawn *s)
{
    send_signal(s, SIGTERM);
}

void spawn_kill(struct spawn *s)
{
    send_signal(s, SIGKILL);
}

bool spawn_end(struct spawn *s, unsigned grace_ms)
{
    spawn_ask_end(s);
    if (spawn_wait(s, grace_ms, NULL) != 0) {
        spawn_kill(s);
        int status = 0;
        while (!s->ended) {
            pid_t pid = waitpid(s->pid, &status, 0);
            s->ended = pid == s->pid || errno == ECHILD;
            s->status = status;
        }
    }
    return s->pid != 0 && WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0;
}

void spawn_release(struct spawn *s)
{
    if (s->pid != 0) {
        (void)spawn_end(s, 0);
        (void)close(s->stdout_fd);
    }
    free(s->name);
    free(s->log_path);
    *s = (struct spawn){0};
}
