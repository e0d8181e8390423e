/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libgradus.so.1, which include/gradus/worker.h describes: keeps the order of the
 * conversation. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handle.h"
#include "os/chrono.h"

/* The worker's answer to a small batch is there sooner than a sleeping processor would be. */
#define SPIN_US 50
#define CUT "\n... (cut) ...\n"

static _Thread_local char open_error[ERR_MESSAGE_BYTES];
/* A process has one worker, so one handle. */
static struct gradus_worker *_Atomic the_worker;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* ---- errors ---- */

static int __attribute__((format(printf, 2, 3))) fail_open(int status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(open_error, sizeof open_error, fmt, args);
    va_end(args);
    return status;
}

const char *gradus_worker_error(const struct gradus_worker *w)
{
    return w != NULL ? w->err.msg : open_error;
}

uint32_t gradus_worker_abi(void)
{
    return GRADUS_WORKER_ABI;
}

/* ---- open and close ---- */

/* A child has the worker's socket no longer: it must not speak, and it must not keep it open. */
static void in_child(void)
{
    struct gradus_worker *w = atomic_load(&the_worker);
    if (w != NULL && w->socket >= 0) {
        (void)close(w->socket);
        w->socket = -1;
    }
    if (w != NULL) {
        handle_watch_forget(w->watch);
        w->watch = NULL;
    }
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* The socket's number; below 0: this process has none. */
static int find_socket(void)
{
    const char *text = getenv(PROGRAM_SOCKET_ENVIRONMENT);
    if (text == NULL || text[0] == '\0') {
        return -1;
    }
    int fd = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (!isdigit((unsigned char)*c) || fd > 100000000) {
            return -1;
        }
        fd = fd * 10 + (*c - '0');
    }
    int type = 0;
    socklen_t n = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0 || type != SOCK_SEQPACKET) {
        return -1;
    }
    return fd;
}

static int say_hello(struct gradus_worker *w, const char *name)
{
    struct program_message m;
    program_message_init(&m, PROGRAM_HELLO, 0);
    m.hello.abi = GRADUS_WORKER_ABI;
    if (name != NULL) {
        (void)snprintf(m.hello.name, sizeof m.hello.name, "%s", name);
    }
    if (program_send(w->socket, &m, -1, &w->err) != 0) {
        return fail_open(GRADUS_ERROR_LOST, "speak with the worker: %s", w->err.msg);
    }
    return GRADUS_OK;
}

static int open_at(int fd, const char *name, struct gradus_worker **out)
{
    struct gradus_worker *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return fail_open(GRADUS_ERROR_MEMORY, "no memory for a connection to the worker");
    }
    w->socket = fd;
    w->pid = getpid();
    w->kept_fd = -1;
    struct gradus_worker *none = NULL;
    if (!atomic_compare_exchange_strong(&the_worker, &none, w)) {
        free(w);
        return fail_open(GRADUS_ERROR_USE, "this process has opened its worker already");
    }
    (void)pthread_once(&fork_once, watch_forks);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC); /* processes that the program starts do not get it */
    int rc = say_hello(w, name);
    if (rc != GRADUS_OK) {
        gradus_worker_close(w);
        return rc;
    }
    w->watch = handle_watch_start(fd);
    *out = w;
    return GRADUS_OK;
}

int gradus_worker_open(const char *name, struct gradus_worker **out)
{
    open_error[0] = '\0';
    if (out == NULL) {
        return fail_open(GRADUS_ERROR_USE, "there is no place for the result");
    }
    *out = NULL;
    int fd = find_socket();
    if (fd < 0) {
        return fail_open(GRADUS_ERROR_NO_WORKER,
                         "this process was not started by a worker (%s %s); start it with "
                         "gradus-worker --program \"COMMAND\", or gradus run JOB.yaml --worker "
                         "\"COMMAND\"",
                         PROGRAM_SOCKET_ENVIRONMENT,
                         getenv(PROGRAM_SOCKET_ENVIRONMENT) == NULL ? "is not set"
                                                                    : "names no socket of one");
    }
    return open_at(fd, name, out);
}

static void drop_kept(struct gradus_worker *w)
{
    if (w->kept_fd >= 0) {
        (void)close(w->kept_fd);
    }
    w->kept_fd = -1;
    w->has_kept = false;
}

void gradus_worker_close(struct gradus_worker *w)
{
    if (w == NULL) {
        return;
    }
    struct gradus_worker *expected = w;
    (void)atomic_compare_exchange_strong(&the_worker, &expected, NULL);
    handle_watch_end(&w->watch);
    drop_kept(w);
    handle_job_release(&w->job);
    if (w->socket >= 0) {
        (void)close(w->socket);
    }
    free(w);
}

/* ---- answers ---- */

static int check_usable(struct gradus_worker *w)
{
    if (w->socket < 0 || w->pid != getpid()) {
        return handle_error(w, GRADUS_ERROR_USE,
                            "process %d opened the worker, and this is its child %d: only the one "
                            "that opened may speak",
                            (int)w->pid, (int)getpid());
    }
    return w->broken;
}

int gradus_worker_describe(struct gradus_worker *w, const struct gradus_description *description)
{
    if (w == NULL) {
        return GRADUS_ERROR_USE;
    }
    int rc = check_usable(w);
    if (rc != GRADUS_OK) {
        return rc;
    }
    if (w->asked != PROGRAM_JOB) {
        return handle_error(w, GRADUS_ERROR_USE, "no job waits for a description");
    }
    struct program_memory memory = {.fd = -1};
    rc = handle_describe(w, description, &memory);
    if (rc != GRADUS_OK) {
        return rc;
    }
    struct program_message m;
    program_message_init(&m, PROGRAM_DESCRIBE, w->number);
    m.description = (struct program_description){.variable_count = description->variable_count,
                                                 .table_count = w->job.said.table_count,
                                                 .memory_bytes = memory.size,
                                                 .train_records = description->train_records,
                                                 .test_records = description->test_records,
                                                 .fingerprint = description->fingerprint};
    rc = handle_answer(w, &m, memory.fd);
    program_memory_release(&memory);
    return rc;
}

int gradus_worker_keys(struct gradus_worker *w, const struct gradus_keys *keys, size_t table_count)
{
    if (w == NULL) {
        return GRADUS_ERROR_USE;
    }
    int rc = check_usable(w);
    if (rc != GRADUS_OK) {
        return rc;
    }
    if (w->asked != PROGRAM_KEYS) {
        return handle_error(w, GRADUS_ERROR_USE, "nobody waits for keys");
    }
    struct program_message m;
    int fd = -1;
    program_message_init(&m, PROGRAM_KEYS, w->number);
    rc = handle_put_keys(w, keys, table_count, &m.keys, &fd);
    return rc != GRADUS_OK ? rc : handle_answer(w, &m, fd);
}

int gradus_worker_done(struct gradus_worker *w, const struct gradus_result *result)
{
    if (w == NULL) {
        return GRADUS_ERROR_USE;
    }
    int rc = check_usable(w);
    if (rc != GRADUS_OK) {
        return rc;
    }
    if (w->asked != PROGRAM_GRADIENT && w->asked != PROGRAM_EVALUATION) {
        return handle_error(
            w, GRADUS_ERROR_USE, "%s",
            w->asked == PROGRAM_JOB    ? "a job is answered by gradus_worker_describe()"
            : w->asked == PROGRAM_KEYS ? "keys are asked for: gradus_worker_keys() answers that"
                                       : "no batch waits for an answer");
    }
    if (result == NULL || result->size < sizeof *result) {
        return handle_error(w, GRADUS_ERROR_USE, "%s",
                            result == NULL
                                ? "there is no result"
                                : "size of the result is not sizeof(struct gradus_result)");
    }
    struct program_message m;
    program_message_init(&m, PROGRAM_DONE, w->number);
    m.result = (struct program_result){.examples = result->examples,
                                       .loss_sum = result->loss_sum,
                                       .correct = result->correct,
                                       .squared_error_sum = result->squared_error_sum,
                                       .absolute_error_sum = result->absolute_error_sum};
    return handle_answer(w, &m, -1);
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* @text, or its beginning and its end: a traceback says in its last lines what is wrong. */
static void cut_in_the_middle(char *out, size_t bytes, const char *text)
{
    const size_t n = strlen(text);
    if (n < bytes) {
        memcpy(out, text, n + 1);
        return;
    }
    const size_t room = bytes - sizeof CUT; /* both have a NUL */
    size_t head = room / 3, tail = room - head;
    while (head > 0 && is_continuation(text[head])) {
        head--;
    }
    while (tail > 0 && is_continuation(text[n - tail])) {
        tail--;
    }
    memcpy(out, text, head);
    memcpy(out + head, CUT, sizeof CUT - 1);
    memcpy(out + head + sizeof CUT - 1, text + n - tail, tail + 1);
}

static int send_failed(struct gradus_worker *w, const char *message)
{
    struct program_message m;
    program_message_init(&m, PROGRAM_FAILED, w->number);
    cut_in_the_middle(m.failed.text, GRADUS_MESSAGE_BYTES_MAX + 1, message);
    return handle_answer(w, &m, -1);
}

int gradus_worker_fail(struct gradus_worker *w, const char *message)
{
    if (w == NULL) {
        return GRADUS_ERROR_USE;
    }
    int rc = check_usable(w);
    if (rc != GRADUS_OK) {
        return rc;
    }
    if (w->asked == 0) {
        return handle_error(w, GRADUS_ERROR_USE, "nothing waits for an answer");
    }
    return send_failed(w, message != NULL && message[0] != '\0' ? message : "no reason was given");
}

/* ---- next ---- */

static int receive(struct gradus_worker *w, struct program_message *m, int *fd)
{
    if (w->has_kept) {
        *m = w->kept;
        *fd = w->kept_fd;
        w->has_kept = false;
        w->kept_fd = -1;
        return 0;
    }
    const uint64_t begin_ns = chrono_now_ns();
    const unsigned spin_us = program_spin_us(&w->spin, SPIN_US);
    int rc = program_receive(w->socket, spin_us, -1, m, fd, &w->err);
    program_spin_end(&w->spin, SPIN_US, chrono_now_ns() - begin_ns);
    return rc;
}

int gradus_worker_next(struct gradus_worker *w, struct gradus_work *work)
{
    if (w == NULL || work == NULL) {
        return GRADUS_ERROR_USE;
    }
    memset(work, 0, sizeof *work);
    int rc = check_usable(w);
    if (rc != GRADUS_OK) {
        return rc;
    }
    if (w->asked != 0) {
        return handle_error(w, GRADUS_ERROR_USE, "the last work was not answered: %s comes first",
                            w->asked == PROGRAM_JOB    ? "gradus_worker_describe() or _fail()"
                            : w->asked == PROGRAM_KEYS ? "gradus_worker_keys() or _fail()"
                                                       : "gradus_worker_done() or _fail()");
    }
    bool shown = false;
    while (!shown && !w->stopped) {
        struct program_message m;
        int fd = -1;
        if (receive(w, &m, &fd) != 0) {
            if (w->err.code != ERR_ABORTED || w->has_job) {
                return handle_break_as(w, "wait for the worker");
            }
            w->stopped = true; /* between jobs: that is how it ends */
            handle_watch_end(&w->watch);
            break;
        }
        rc = handle_take(w, &m, fd, work, &shown);
        if (rc != GRADUS_OK) {
            memset(work, 0, sizeof *work);
            return rc;
        }
    }
    return GRADUS_OK;
}
