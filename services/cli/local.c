/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, watches and stops the processes of `gradus run`. A worker or server that ends is started
 * again; one that keeps ending soon after its start, or the end of the master, ends the run. */
#include "cli/local.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "os/chrono.h"
#include "os/file.h"
#include "os/host_cpus.h"
#include "os/host_threads.h"

#define READY_MS 600000 /* a worker or server may read much data before it is ready */
#define READY_NOTE_MS 5000
#define READY_POLL_MS 200
#define GRACE_MS 5000
#define STABLE_MS 10000  /* a process that has run for so long did not fail at its start */
#define AGAIN_MS_MIN 250 /* pause between an end and the next start; the first start is at once */
#define AGAIN_MS_MAX 4000
#define FAILURES_MAX 20 /* ends in a row: a process that cannot live is not started for ever */
#define ARGUMENTS_MAX 32
#define PROBE_BYTES 65536
#define THREADS_OF_A_PROCESS                                                                       \
    24 /* about so many have a service and this program while they train                           \
        */

static int find_bin_dir(struct local *l, struct err *err)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) {
        return err_set(err, ERR_INTERNAL, "cannot find the directory of this program");
    }
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    l->bin_dir = mem_strdup(path);
    return 0;
}

static int make_dirs(struct local *l, const char *state_dir, struct err *err)
{
    int rc = file_make_dirs(state_dir, err);
    if (rc != 0) {
        return rc;
    }
    char *absolute = realpath(state_dir, NULL);
    if (absolute == NULL) {
        return err_set(err, ERR_INTERNAL, "resolve %s", state_dir);
    }
    l->state_dir = absolute;
    char stamp[32];
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    (void)strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
    l->log_dir = mem_printf("%s/logs/%s-%ld", l->state_dir, stamp, (long)getpid());
    return file_make_dirs(l->log_dir, err);
}

/* Settings that take TLS and tokens away: only this host reaches 127.0.0.1, and the certificates
 * and tokens of the environment belong to another cluster. */
static const char *const without_tls[] = {
    "--tls-cert=",   "--tls-key=", "--tls-ca=",  "--tls-name=",
    "--token-file=", "--tokens=",  "--jwt-keys="};
/* The processes of a run read data with the rights of the user who runs it, so every path is
 * allowed. */
#define ANY_DATA "--data-root="

#define ANY_EVENTS "--tensorboard-root=/" /* likewise */

static int start_one(struct local *l, struct spawn *s, const char *kind, size_t number,
                     const char *const *extra, struct err *err)
{
    char *argv[ARGUMENTS_MAX] = {0};
    size_t n = 0;
    argv[n++] = mem_printf("%s/gradus-%s", l->bin_dir, kind);
    argv[n++] = mem_strdup("--listen=127.0.0.1:0");
    argv[n++] = mem_strdup("--http-listen=127.0.0.1:0");
    argv[n++] = mem_strdup("--exit-with-parent");
    /* the variables of the environment are those of one service at most */
    argv[n++] = mem_strdup("--advertise=");
    for (size_t i = 0; i < sizeof without_tls / sizeof without_tls[0]; i++) {
        argv[n++] = mem_strdup(without_tls[i]);
    }
    if (l->rules_dir != NULL) {
        argv[n++] = mem_printf("--rules-dir=%s", l->rules_dir);
    }
    for (size_t i = 0; extra[i] != NULL && n + 1 < ARGUMENTS_MAX; i++) {
        argv[n++] = mem_strdup(extra[i]);
    }
    char *name = number == 0 ? mem_strdup(kind) : mem_printf("%s %zu", kind, number);
    char *log = number == 0 ? mem_printf("%s/%s.log", l->log_dir, kind)
                            : mem_printf("%s/%s-%zu.log", l->log_dir, kind, number);
    int rc = spawn_start(s, name, argv, log, err);
    for (size_t i = 0; i < n; i++) {
        free(argv[i]);
    }
    free(name);
    free(log);
    return rc;
}

/* Signals are blocked: a signal that came stays pending until this function takes it. */
static bool interrupted(void)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1 ||
            sigismember(&waiting, SIGHUP) == 1);
}

static int await_line(struct spawn *s, char line[SPAWN_LINE_BYTES_MAX], struct err *err)
{
    const uint64_t since_ms = chrono_now_ms();
    bool noted = false;
    int rc = ERR_TIMEOUT;
    while (rc == ERR_TIMEOUT) {
        rc = spawn_ready_line(s, line, READY_POLL_MS, err);
        const uint64_t waited_ms = chrono_now_ms() - since_ms;
        if (rc != ERR_TIMEOUT) {
            break;
        }
        if (interrupted()) {
            return err_set(err, ERR_CANCELLED, "stopped before %s was ready", s->name);
        }
        if (waited_ms >= READY_MS) {
            return err_set(err, ERR_TIMEOUT, "%s is not ready after %d s; its log is %s", s->name,
                           READY_MS / 1000, s->log_path);
        }
        if (waited_ms >= READY_NOTE_MS && !noted) {
            cli_note("waiting for %s, which is not ready yet; its log is %s", s->name, s->log_path);
            noted = true;
        }
    }
    return rc;
}

static int await_ready(struct spawn *s, struct err *err)
{
    char line[SPAWN_LINE_BYTES_MAX];
    return await_line(s, line, err);
}

static int await_master(struct local *l, struct err *err)
{
    char line[SPAWN_LINE_BYTES_MAX];
    int rc = await_line(&l->master, line, err);
    if (rc == 0 && !spawn_line_value(line, "grpc", l->master_address, sizeof l->master_address)) {
        rc = err_set(err, ERR_INTERNAL, "%s does not say where it listens: %s", l->master.name,
                     line);
    }
    if (rc == 0 && !spawn_line_value(line, "http", l->page_address, sizeof l->page_address)) {
        l->page_address[0] = '\0';
    }
    return rc;
}

static int start_master(struct local *l, bool hold, struct err *err)
{
    char *state = mem_printf("--state-dir=%s", l->state_dir);
    const char *extra[] = {state, "--checkpoint-dir=", ANY_EVENTS,
                           hold ? "--unfinished=hold" : "--unfinished=resume", NULL};
    int rc = start_one(l, &l->master, "master", 0, extra, err);
    free(state);
    return rc == 0 ? await_master(l, err) : rc;
}

static int start_child(struct local *l, struct local_child *c, const char *kind, size_t number,
                       const char *const *extra, struct err *err)
{
    c->started_ms = chrono_now_ms();
    c->again_ms = 0;
    return start_one(l, &c->process, kind, number, extra, err);
}

/* How the processes of a run are told not to poll. A node knows of some of the nodes on its host;
 * the run knows of all that it starts. Where these are more than the processors, a polling thread
 * takes time from another node. NULL: each node decides by itself, as it does where the environment
 * says something. */
static const char *no_polling(const struct local *l)
{
    const char *said = getenv("GRADUS_POLL_US");
    const bool crowded = (double)(l->ps_count + l->worker_count) > host_cpus("").time;
    return crowded && (said == NULL || said[0] == '\0') ? "--poll-us=0" : NULL;
}

static int start_ps(struct local *l, size_t i, struct err *err)
{
    char *master = mem_printf("--master=%s", l->master_address);
    char *checkpoints = mem_printf("--checkpoint-dir=%s/checkpoints", l->state_dir);
    const char *extra[] = {master, checkpoints, "--name=", no_polling(l), NULL};
    int rc = start_child(l, &l->ps[i], "ps", i + 1, extra, err);
    free(master);
    free(checkpoints);
    return rc;
}

static int start_worker(struct local *l, size_t i, struct err *err)
{
    char *master = mem_printf("--master=%s", l->master_address);
    char *program = mem_printf("--program=%s", l->program);
    char *slow = mem_printf("--slow-down=%g", l->slow_downs == NULL ? 1.0 : l->slow_downs[i]);
    const char *polling = no_polling(l);
    const char *extra[] = {
        master,  "--name=", ANY_DATA, program, l->slow_downs == NULL ? polling : slow,
        polling, NULL};
    int rc = start_child(l, &l->workers[i], "worker", i + 1, extra, err);
    free(slow);
    free(program);
    free(master);
    return rc;
}

/* Names a full disk of the logs as the reason of a failure: a log that could not be written does
 * not say why a process ended. */
static void add_disk(const struct local *l, struct err *err)
{
    static const char block[PROBE_BYTES];
    struct err local = {0};
    char *path = file_join(l->log_dir, "probe");
    if (file_write_atomic(path, block, sizeof block, &local) != 0) {
        char *all = mem_printf("%s; %s", err->msg, local.msg);
        (void)err_set(err, err->code, "%s", all);
        free(all);
    }
    (void)unlink(path);
    free(path);
}

/* Said before anything is started: who lacks one of them later waits for it, and so does all. */
static int look_for_threads(size_t processes, struct err *err)
{
    struct err told;
    int rc = host_threads_need("", processes * THREADS_OF_A_PROCESS, "this run", &told);
    if (rc != 0) {
        (void)err_set(err, rc,
                      "%s: allow more, or take fewer processes (--set cluster.workers=1 --set "
                      "cluster.ps=1)",
                      told.msg);
    }
    return rc;
}

int local_start(struct local *l, const char *state_dir, const char *rules_dir, const char *program,
                size_t ps, size_t workers, struct err *err)
{
    l->program = mem_strdup(program);
    l->rules_dir = rules_dir[0] == '\0' ? NULL : mem_strdup(rules_dir);
    l->ps = mem_new(ps, sizeof *l->ps);
    l->workers = mem_new(workers, sizeof *l->workers);
    l->ps_count = ps;
    l->worker_count = workers;
    (void)unsetenv("GRADUS_CONFIG"); /* a file of one service */
    int rc = look_for_threads(ps + workers + 2, err);
    if (rc == 0) {
        rc = find_bin_dir(l, err);
    }
    if (rc == 0) {
        rc = make_dirs(l, state_dir, err);
    }
    if (rc == 0) {
        rc = start_master(l, workers > 0, err);
    }
    for (size_t i = 0; i < ps && rc == 0; i++) {
        rc = start_ps(l, i, err);
    }
    for (size_t i = 0; i < workers && rc == 0; i++) {
        rc = start_worker(l, i, err);
    }
    for (size_t i = 0; i < ps && rc == 0; i++) {
        rc = await_ready(&l->ps[i].process, err);
    }
    for (size_t i = 0; i < workers && rc == 0; i++) {
        rc = await_ready(&l->workers[i].process, err);
    }
    if (rc != 0 && l->log_dir != NULL) {
        add_disk(l, err);
    }
    return rc;
}

/* How long to wait before a child starts again after its @failures-th end in a row. */
static uint64_t again_after_ms(unsigned failures)
{
    uint64_t ms = AGAIN_MS_MIN;
    for (unsigned i = 2; i < failures && ms < AGAIN_MS_MAX; i++) {
        ms *= 2;
    }
    return failures <= 1 ? 0 : ms;
}

static int child_ended(struct local_child *c, uint64_t now_ms, struct buf *notices, struct err *err)
{
    char how[128];
    struct spawn *p = &c->process;
    spawn_describe(p, how, sizeof how);
    c->failures = now_ms >= c->started_ms + STABLE_MS ? 1 : c->failures + 1;
    if (c->failures > FAILURES_MAX) {
        return err_set(err, ERR_ABORTED,
                       "%s ended %d times soon after its start: %s; its log is %s", p->name,
                       FAILURES_MAX, how, p->log_path);
    }
    buf_printf(notices, "%s ended: %s; it is started again\n", p->name, how);
    c->again_ms = now_ms + again_after_ms(c->failures);
    spawn_release(p);
    return 0;
}

static int look_after(struct local *l, struct local_child *children, size_t count,
                      int (*start)(struct local *l, size_t i, struct err *err), struct buf *notices,
                      struct err *err)
{
    uint64_t now_ms = chrono_now_ms();
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        struct local_child *c = &children[i];
        if (c->again_ms == 0 && spawn_ended(&c->process)) {
            rc = child_ended(c, now_ms, notices, err);
        }
        if (rc == 0 && c->again_ms != 0 && c->again_ms <= now_ms) {
            rc = start(l, i, err);
        }
    }
    return rc;
}

int local_tick(struct local *l, struct buf *notices, struct err *err)
{
    char how[128];
    if (spawn_ended(&l->master)) {
        return err_set(err, ERR_ABORTED, "the master ended: %s; its log is %s",
                       spawn_describe(&l->master, how, sizeof how), l->master.log_path);
    }
    int rc = look_after(l, l->workers, l->worker_count, start_worker, notices, err);
    return rc == 0 ? look_after(l, l->ps, l->ps_count, start_ps, notices, err) : rc;
}

static void ask(struct spawn *s)
{
    if (s->pid != 0) {
        spawn_ask_end(s);
    }
}

/* Called after the process was told to end: a second signal would end it without order. */
static void await_end(struct spawn *s)
{
    if (s->pid != 0 && spawn_wait(s, GRACE_MS, NULL) != 0) {
        spawn_kill(s);
    }
    spawn_release(s);
}

static void stop_children(struct local_child *children, size_t count, bool at_once)
{
    for (size_t i = 0; i < count && !at_once; i++) {
        ask(&children[i].process);
    }
    for (size_t i = 0; i < count; i++) {
        (at_once ? spawn_release : await_end)(&children[i].process);
    }
}

static void send(const struct spawn *s, int signal)
{
    if (s->pid != 0 && !s->ended) {
        (void)kill(s->pid, signal);
    }
}

void local_suspend(const struct local *l, bool stop)
{
    const int signal = stop ? SIGSTOP : SIGCONT;
    send(&l->master, signal);
    for (size_t i = 0; i < l->ps_count; i++) {
        send(&l->ps[i].process, signal);
    }
    for (size_t i = 0; i < l->worker_count; i++) {
        send(&l->workers[i].process, signal);
    }
}

void local_stop(struct local *l, bool at_once)
{
    stop_children(l->workers, l->worker_count, at_once);
    stop_children(l->ps, l->ps_count, at_once);
    /* The master ends last, so that nodes can leave it in order. */
    if (!at_once) {
        ask(&l->master);
        await_end(&l->master);
    }
    spawn_release(&l->master);
    free(l->ps);
    free(l->workers);
    free(l->bin_dir);
    free(l->state_dir);
    free(l->log_dir);
    free(l->rules_dir);
    free(l->program);
    *l = (struct local){0};
}
