/* SPDX-License-Identifier: Apache-2.0 */
/* A program's process: its start, questions and answers, its end. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/log.h"
#include "worker/program/worker_program_state.h"

#define PROGRAM_FD 3
#define BIN_ENVIRONMENT "GRADUS_BIN" /* the directory of Gradus's commands */
#define SLICE_MS 200                 /* an interruption is seen within this time */
#define SPIN_US 100                  /* awake, before the worker's thread sleeps */
#define HELLO_MS 120000              /* imports, page faults, a busy machine */
#define GRACE_MS 2000                /* time after its socket was closed, and after SIGTERM */
#define AGAIN_MS_MAX 10000           /* between two starts of a program that ends at once */
#define SHOWN_BYTES 512
#define TOLD_BYTES 600 /* of what a program says of a failure, in the reason of its job */
#define NEVER_OPENED                                                                               \
    " and never opened its worker (gradus.torch.worker(), gradus.Worker() or "                     \
    "gradus_worker_open())"
#define QUOTED_BYTES ((size_t)4 * PROGRAM_TEXT_BYTES)

extern char **environ;

/* ---- its process ---- */

/* Our environment, where the socket is, and @bin unless somebody named such a directory; owned
 * array of borrowed texts. */
static char **environment_with(char *socket, char *bin)
{
    size_t n = 0, to = 0;
    while (environ[n] != NULL) {
        n++;
    }
    char **out = mem_new(n + 3, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        if (strncmp(environ[i], PROGRAM_SOCKET_ENVIRONMENT "=",
                    sizeof PROGRAM_SOCKET_ENVIRONMENT) != 0) {
            out[to++] = environ[i];
        }
    }
    out[to++] = socket;
    if (getenv(BIN_ENVIRONMENT) == NULL && bin[0] != '\0') {
        out[to] = bin;
    }
    return out;
}

/* "GRADUS_BIN=" and the directory of this executable: a program finds libgradus.so.1 from there.
 * "": it has none. */
static void print_bin(char *out, size_t n)
{
    const int prefix = snprintf(out, n, "%s=", BIN_ENVIRONMENT);
    const ssize_t length = readlink("/proc/self/exe", out + prefix, n - (size_t)prefix - 1);
    out[length > 0 ? prefix + length : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
}

/* Returns 0 or an errno value. */
static int spawn_shell(pid_t *pid, const char *command, int socket, int output)
{
    char *line = mem_printf("exec %s", command);
    char shell[] = "/bin/sh", option[] = "-c";
    char *const argv[] = {shell, option, line, NULL};
    char number[sizeof PROGRAM_SOCKET_ENVIRONMENT + 16];
    (void)snprintf(number, sizeof number, "%s=%d", PROGRAM_SOCKET_ENVIRONMENT, PROGRAM_FD);
    char bin[PATH_MAX + sizeof BIN_ENVIRONMENT];
    print_bin(bin, sizeof bin);
    char **environment = environment_with(number, bin);
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawnattr_init(&attr);
    if (rc == 0 && (rc = posix_spawn_file_actions_init(&actions)) == 0) {
        (void)posix_spawnattr_setsigmask(&attr, &none);
        (void)posix_spawnattr_setsigdefault(&attr, &all);
        (void)posix_spawnattr_setpgroup(&attr, 0); /* Ctrl-C is the worker's to answer */
        rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
        rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
        rc = rc != 0 ? rc : posix_spawn_file_actions_adddup2(&actions, socket, PROGRAM_FD);
        rc = rc != 0 ? rc : posix_spawn_file_actions_addclosefrom_np(&actions, PROGRAM_FD + 1);
        rc = rc != 0 ? rc : posix_spawn(pid, shell, &actions, &attr, argv, environment);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)posix_spawnattr_destroy(&attr);
    free(environment);
    free(line);
    return rc;
}

int worker_program_start(struct worker_program *p, struct err *err)
{
    int ends[2], output = -1;
    int rc = program_channel_pair(ends, err);
    if (rc != 0) {
        return rc;
    }
    rc = program_output_begin(&p->output, &output, err);
    if (rc != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return rc;
    }
    /* dup2() onto itself would leave close-on-exec set. */
    rc = ends[1] == PROGRAM_FD ? EBUSY : spawn_shell(&p->pid, p->command, ends[1], output);
    (void)close(ends[1]);
    (void)close(output);
    if (rc != 0) {
        program_output_end(&p->output);
        (void)close(ends[0]);
        p->pid = 0;
        return err_errno(err, rc, "start the program '%s'", p->command);
    }
    p->socket = ends[0];
    p->started_ms = chrono_now_ms();
    p->starts++;
    char quoted[SHOWN_BYTES];
    log_info("program_started", "pid=%d command=%s", (int)p->pid,
             log_quote(p->command, quoted, sizeof quoted));
    return 0;
}

/* Says in @out how the process ended. False: it runs. */
static bool has_ended(struct worker_program *p, char *out, size_t n)
{
    int status = 0;
    pid_t pid = p->pid == 0 ? 0 : waitpid(p->pid, &status, WNOHANG);
    if (p->pid != 0 && pid == 0) {
        return false;
    }
    if (pid > 0 && WIFSIGNALED(status)) {
        (void)snprintf(out, n, "signal %d (%s)", WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
    } else {
        (void)snprintf(out, n, "exit code %d", pid > 0 ? WEXITSTATUS(status) : 0);
    }
    p->pid = 0;
    return true;
}

static bool wait_end(struct worker_program *p, unsigned ms, char *how, size_t n)
{
    const uint64_t deadline_ms = chrono_now_ms() + ms;
    while (!has_ended(p, how, n)) {
        if (chrono_now_ms() >= deadline_ms) {
            return false;
        }
        (void)usleep(2000);
    }
    return true;
}

/* Its socket is closed: a program that waits for work ends by itself. @grace_ms for that. */
static void end(struct worker_program *p, unsigned grace_ms, char *how, size_t n)
{
    if (p->socket >= 0) {
        (void)close(p->socket);
        p->socket = -1;
    }
    const pid_t pid = p->pid;
    if (pid != 0 && !wait_end(p, grace_ms, how, n)) {
        (void)kill(-pid, SIGTERM);
        if (grace_ms == 0 || !wait_end(p, grace_ms, how, n)) {
            (void)kill(-pid, SIGKILL);
            (void)wait_end(p, UINT32_MAX, how, n);
        }
    }
    if (pid != 0) {
        (void)kill(-pid, SIGKILL); /* processes that it started and did not end */
    }
    program_output_end(&p->output);
    p->greeted = p->described = p->begun = p->busy = false;
    program_memory_release(&p->keys);
    for (size_t i = 0; i < PROGRAM_ARRAYS_MAX; i++) {
        p->arrays[i].told = false;
    }
}

void worker_program_kill(struct worker_program *p, const char *why)
{
    char how[64] = "", quoted[SHOWN_BYTES];
    const pid_t pid = p->pid;
    end(p, 0, how, sizeof how);
    log_warn("program_ended", "pid=%d how=\"%s\" reason=%s", (int)pid, how,
             log_quote(why, quoted, sizeof quoted));
}

void worker_program_stop(struct worker_program *p)
{
    char how[64] = "";
    const pid_t pid = p->pid;
    end(p, GRACE_MS, how, sizeof how);
    if (pid != 0) {
        log_info("program_ended", "pid=%d how=\"%s\" reason=\"the worker ends\"", (int)pid, how);
    }
}

/* ---- questions ---- */

/* The next message, within @timeout_ms (0: for ever). Errors: ERR_CANCELLED, ERR_TIMEOUT, those of
 * program_receive(). */
static int receive(struct worker_program *p, uint64_t timeout_ms, struct program_message *m,
                   int *fd, struct err *err)
{
    const uint64_t begin_ms = chrono_now_ms(), begin_ns = chrono_now_ns();
    unsigned spin_us = program_spin_us(&p->spin, SPIN_US);
    for (;;) {
        if (atomic_load(&p->interrupted)) {
            return err_set(err, ERR_CANCELLED, "the job is over");
        }
        if (p->ending != NULL && p->ending(p->ending_ctx)) {
            return err_set(err, ERR_CANCELLED, "the worker ends");
        }
        int rc = program_receive(p->socket, spin_us, SLICE_MS, m, fd, err);
        if (rc != ERR_TIMEOUT) {
            program_spin_end(&p->spin, SPIN_US, chrono_now_ns() - begin_ns);
            return rc;
        }
        spin_us = 0;
        if (timeout_ms != 0 && chrono_now_ms() - begin_ms >= timeout_ms) {
            return err_set(err, ERR_TIMEOUT, "it did not answer within %llu ms",
                           (unsigned long long)timeout_ms);
        }
    }
}

static int pause_before(struct worker_program *p, struct err *err)
{
    uint64_t again_ms = 100;
    for (unsigned i = 1; i < p->starts && again_ms < AGAIN_MS_MAX; i++) {
        again_ms *= 2;
    }
    const uint64_t at_ms = p->started_ms + (p->starts == 0 ? 0 : again_ms);
    while (chrono_now_ms() < at_ms) {
        if (atomic_load(&p->interrupted)) {
            return err_set(err, ERR_CANCELLED, "the job is over");
        }
        (void)usleep(20000);
    }
    return 0;
}

/* Adds what it printed last, which mostly says why it ended. */
static int add_last(const struct worker_program *p, struct err *err)
{
    const struct err so_far = *err;
    return p->output.last[0] == '\0'
               ? so_far.code
               : err_set(err, so_far.code, "%s, and printed last:\n%s", so_far.msg, p->output.last);
}

static int greet(struct worker_program *p, struct err *err)
{
    struct program_message m;
    int fd;
    struct err why = {0};
    int rc = receive(p, HELLO_MS, &m, &fd, &why);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (rc == 0 && m.kind != PROGRAM_HELLO) {
        rc = err_set(&why, ERR_INVALID, "it began with something else than its name");
    }
    if (rc == ERR_CANCELLED) {
        return err_set(err, rc, "%s", why.msg);
    }
    if (rc != 0) {
        char how[64] = "";
        const bool ended = rc == ERR_ABORTED && wait_end(p, GRACE_MS, how, sizeof how);
        worker_program_kill(p, why.msg);
        (void)err_set(err, ERR_UNAVAILABLE, "the program '%s' did not report for work: %s%s%s",
                      p->command, ended ? "it ended with " : why.msg, ended ? how : "",
                      strcmp(how, "exit code 0") == 0 ? NEVER_OPENED : "");
        return ended ? add_last(p, err) : ERR_UNAVAILABLE;
    }
    memcpy(p->name, m.hello.name, sizeof p->name);
    p->greeted = true;
    return 0;
}

int worker_program_ready(struct worker_program *p, struct err *err)
{
    int rc = 0;
    if (p->socket < 0) {
        rc = pause_before(p, err);
        rc = rc != 0 ? rc : worker_program_start(p, err);
    }
    return rc != 0 || p->greeted ? rc : greet(p, err);
}

/* True if this answers another question, of a job that was interrupted. */
static bool is_late(const struct program_message *m, uint64_t number)
{
    return m->number < number && m->kind != PROGRAM_HELLO;
}

/* The error in the answer; NULL: none. */
static const char *problem_of(const struct program_message *m, uint64_t number,
                              enum program_kind answer)
{
    if (m->number != number) {
        return "it answered what nobody asked";
    }
    return m->kind == answer || m->kind == PROGRAM_FAILED ? NULL : "it answered something else";
}

/* As many whole lines from the end of @text as fit, at least the last. */
static const char *last_lines(const char *text)
{
    const char *end = text + strlen(text);
    while (end > text && (end[-1] == '\n' || end[-1] == ' ')) {
        end--;
    }
    const char *begin = end, *line = end;
    while (line > text) {
        line--;
        if ((line == text || line[-1] == '\n') && (begin == end || end - line <= TOLD_BYTES)) {
            begin = line;
        }
    }
    return begin;
}

/* Logs the whole text; the caller gets its end, which of a traceback says most. */
static int failed(const char *text, struct err *err)
{
    char *quoted = mem_new(QUOTED_BYTES, 1);
    log_warn("program_failed", "says=%s", log_quote(text, quoted, QUOTED_BYTES));
    free(quoted);
    const char *last = last_lines(text);
    size_t n = strnlen(last, TOLD_BYTES);
    while (n > 0 && ((unsigned char)last[n] & 0xc0) == 0x80) {
        n--; /* between two characters */
    }
    return err_set(err, ERR_STATE, "%s%.*s%s", last == text ? "" : "… ", (int)n, last,
                   last[n] == '\0' ? "" : "…");
}

int worker_program_ask(struct worker_program *p, struct program_message *question, int memory,
                       enum program_kind answer, struct program_message *out, int *fd,
                       struct err *err)
{
    struct err why = {0};
    question->number = ++p->number;
    int rc = program_send(p->socket, question, memory, &why);
    while (rc == 0) {
        rc = receive(p, p->answer_ms, out, fd, &why);
        if (rc != 0 || !is_late(out, question->number)) {
            break;
        }
        if (*fd >= 0) {
            (void)close(*fd);
        }
    }
    if (rc == ERR_CANCELLED) {
        p->busy = true;
        return err_set(err, rc, "%s", why.msg);
    }
    const char *problem = rc != 0 ? why.msg : problem_of(out, question->number, answer);
    if (problem != NULL) {
        char how[64] = "";
        if (rc == 0 && *fd >= 0) {
            (void)close(*fd);
        }
        const bool ended = rc == ERR_ABORTED && wait_end(p, GRACE_MS, how, sizeof how);
        if (ended) {
            (void)err_set(&why, ERR_ABORTED, "it ended with %s", how);
            problem = why.msg;
        }
        worker_program_kill(p, problem);
        (void)err_set(err, ERR_ABORTED, "%s", problem);
        return ended ? add_last(p, err) : ERR_ABORTED;
    }
    p->starts = 0;
    if (out->kind == PROGRAM_FAILED) {
        if (*fd >= 0) {
            (void)close(*fd);
        }
        return failed(out->failed.text, err);
    }
    return 0;
}

void worker_program_settle(struct worker_program *p)
{
    struct program_message m;
    struct err why = {0};
    int fd = -1;
    if (!p->busy || p->socket < 0) {
        p->busy = false;
        return;
    }
    p->busy = false;
    int rc = program_receive(p->socket, 0, GRACE_MS, &m, &fd, &why);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (rc != 0) {
        worker_program_kill(p, why.msg);
    }
}
