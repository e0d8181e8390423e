/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plug-in in a forked child, so that a crash, an exit or an endless loop becomes an error
 * message. The child reports through shared memory; its end closes a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/chrono.h"
#include "rule/plugin/plugin_impl.h"

struct verdict { /* result of the trial, in memory that both processes see */
    volatile int stage;
    volatile bool given;
    struct err err;
};

static const char *const stages[] = {
    [PLUGIN_LOADING] = "while it was loaded",
    [PLUGIN_PREPARE] = "in prepare()",
    [PLUGIN_APPLY] = "in apply()",
};

/* Give up the program's signal handlers and standard streams: a crash must simply end the child,
 * without a core file, and what the plug-in prints must not mix with the program's output. */
static void go_alone(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL, SIGABRT, SIGTRAP,
                                  SIGSYS,  SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGPIPE};
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)signal(signals[i], SIG_DFL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; nothing >= 0 && fd <= 2; fd++) {
        (void)dup2(nothing, fd);
    }
}

static void run_child(const char *path, struct verdict *v)
{
    const struct gradus_rule *g = NULL;
    go_alone();
    int rc = plugin_open(path, &g, &v->err);
    rc = rc != 0 ? rc : plugin_trial(g, &v->stage, &v->err);
    if (rc == 0) {
        v->err.code = 0;
    }
    v->given = true;
    _exit(0);
}

/* The child's end of the pipe closes with the child. False: not within the time. */
static bool await_end(int fd, unsigned limit_ms)
{
    const uint64_t until_ms = chrono_now_ms() + limit_ms;
    for (;;) {
        const uint64_t now_ms = chrono_now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, now_ms < until_ms ? (int)(until_ms - now_ms) : 0);
        if (n > 0) {
            return true;
        }
        if (n == 0 && now_ms >= until_ms) {
            return false;
        }
    }
}

static int judge(const struct verdict *v, int status, struct err *err)
{
    const char *where = v->stage >= PLUGIN_LOADING && v->stage <= PLUGIN_APPLY
                            ? stages[v->stage]
                            : stages[PLUGIN_LOADING];
    if (WIFSIGNALED(status)) {
        return err_set(err, ERR_INVALID, "it crashed %s: signal %d (%s)", where, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    }
    if (!v->given) {
        return err_set(err, ERR_INVALID, "it ended the process %s: exit code %d", where,
                       WEXITSTATUS(status));
    }
    if (v->err.code == 0) {
        return 0;
    }
    struct err copy = v->err;
    copy.msg[sizeof copy.msg - 1] = '\0';
    return err_set(err, copy.code < 0 ? copy.code : ERR_INVALID, "%s", copy.msg);
}

static int watch(pid_t child, int fd, unsigned limit_ms, const struct verdict *v, struct err *err)
{
    const bool ended = await_end(fd, limit_ms);
    int status = 0;
    if (!ended) {
        (void)kill(child, SIGKILL);
    }
    (void)kill(-child, SIGKILL); /* with processes that it may have started */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!ended) {
        return err_set(
            err, ERR_TIMEOUT, "it was not done after %u ms, %s", limit_ms,
            stages[v->stage == PLUGIN_PREPARE || v->stage == PLUGIN_APPLY ? v->stage
                                                                          : PLUGIN_LOADING]);
    }
    return judge(v, status, err);
}

int plugin_try(const char *path, unsigned limit_ms, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_errno(err, errno, "make a pipe");
    }
    struct verdict *v =
        mmap(NULL, sizeof *v, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc = 0;
    pid_t child = -1;
    if (v == MAP_FAILED) {
        rc = err_errno(err, errno, "shared memory");
    } else {
        (void)fflush(NULL); /* nothing is written twice */
        child = fork();
        rc = child < 0 ? err_errno(err, errno, "start a process for the trial") : 0;
    }
    if (child == 0) {
        run_child(path, v);
    }
    (void)close(ends[1]);
    rc = rc != 0 ? rc : watch(child, ends[0], limit_ms, v, err);
    (void)close(ends[0]);
    if (v != MAP_FAILED) {
        (void)munmap(v, sizeof *v);
    }
    return rc;
}
