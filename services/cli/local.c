#include "cli/local.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define READY_MS 30000
#define GRACE_MS 5000
#define RESTARTS_MAX 1000 /* a worker that cannot live must not be started for ever */
#define ARGUMENTS_MAX 16

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

static int start_one(struct local *l, struct spawn *s, const char *kind, size_t number,
                     const char *const *extra, struct err *err)
{
    char *argv[ARGUMENTS_MAX] = {0};
    size_t n = 0;
    argv[n++] = mem_printf("%s/gradus-%s", l->bin_dir, kind);
    argv[n++] = mem_strdup("--listen=127.0.0.1:0");
    argv[n++] = mem_strdup("--http-listen=127.0.0.1:0");
    argv[n++] = mem_strdup("--exit-with-parent");
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

static int await_ready(struct spawn *s, char *address, size_t address_bytes, struct err *err)
{
    char line[SPAWN_LINE_BYTES_MAX];
    int rc = spawn_ready_line(s, line, READY_MS, err);
    if (rc == 0 && address != NULL && !spawn_line_value(line, "grpc", address, address_bytes)) {
        rc = err_set(err, ERR_INTERNAL, "%s does not say where it listens: %s", s->name, line);
    }
    return rc;
}

static int start_master(struct local *l, struct err *err)
{
    char *state = mem_printf("--state-dir=%s", l->state_dir);
    const char *extra[] = {state, NULL};
    int rc = start_one(l, &l->master, "master", 0, extra, err);
    free(state);
    return rc == 0 ? await_ready(&l->master, l->master_address, sizeof l->master_address, err) : rc;
}

static int start_ps(struct local *l, size_t i, struct err *err)
{
    char *master = mem_printf("--master=%s", l->master_address);
    char *checkpoints = mem_printf("--checkpoint-dir=%s/checkpoints", l->state_dir);
    const char *extra[] = {master, checkpoints, NULL};
    int rc = start_one(l, &l->ps[i], "ps", i + 1, extra, err);
    free(master);
    free(checkpoints);
    return rc;
}

static int start_worker(struct local *l, size_t i, struct err *err)
{
    char *master = mem_printf("--master=%s", l->master_address);
    const char *extra[] = {master, NULL};
    int rc = start_one(l, &l->workers[i], "worker", i + 1, extra, err);
    free(master);
    return rc;
}

int local_start(struct local *l, const char *state_dir, size_t ps, size_t workers, struct err *err)
{
    l->ps = mem_new(ps, sizeof *l->ps);
    l->workers = mem_new(workers, sizeof *l->workers);
    l->ps_count = ps;
    l->worker_count = workers;
    int rc = find_bin_dir(l, err);
    if (rc == 0) {
        rc = make_dirs(l, state_dir, err);
    }
    if (rc == 0) {
        rc = start_master(l, err);
    }
    for (size_t i = 0; i < ps && rc == 0; i++) {
        rc = start_ps(l, i, err);
    }
    for (size_t i = 0; i < workers && rc == 0; i++) {
        rc = start_worker(l, i, err);
    }
    for (size_t i = 0; i < ps && rc == 0; i++) {
        rc = await_ready(&l->ps[i], NULL, 0, err);
    }
    for (size_t i = 0; i < workers && rc == 0; i++) {
        rc = await_ready(&l->workers[i], NULL, 0, err);
    }
    return rc;
}

int local_tick(struct local *l, struct err *err)
{
    char how[128];
    if (spawn_ended(&l->master)) {
        return err_set(err, ERR_ABORTED, "the master ended: %s; its log is %s",
                       spawn_describe(&l->master, how, sizeof how), l->master.log_path);
    }
    for (size_t i = 0; i < l->worker_count; i++) {
        struct spawn *s = &l->workers[i];
        if (!spawn_ended(s)) {
            continue;
        }
        (void)fprintf(stderr, "gradus: worker %zu ended: %s; starting it again\n", i + 1,
                      spawn_describe(s, how, sizeof how));
        spawn_release(s);
        if (++l->restarts > RESTARTS_MAX) {
            return err_set(err, ERR_ABORTED, "workers ended %d times; the logs are in %s",
                           RESTARTS_MAX, l->log_dir);
        }
        int rc = start_worker(l, i, err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static void ask(struct spawn *s)
{
    if (s->pid != 0) {
        spawn_ask_end(s);
    }
}

/* Was asked before: a second signal would end it without order. */
static void await_end(struct spawn *s)
{
    if (s->pid != 0 && spawn_wait(s, GRACE_MS, NULL) != 0) {
        spawn_kill(s);
    }
    spawn_release(s);
}

void local_stop(struct local *l, bool at_once)
{
    for (size_t i = 0; i < l->worker_count && !at_once; i++) {
        ask(&l->workers[i]);
    }
    for (size_t i = 0; i < l->worker_count; i++) {
        (at_once ? spawn_release : await_end)(&l->workers[i]);
    }
    for (size_t i = 0; i < l->ps_count && !at_once; i++) {
        ask(&l->ps[i]);
    }
    for (size_t i = 0; i < l->ps_count; i++) {
        (at_once ? spawn_release : await_end)(&l->ps[i]);
    }
    /* The master last, so that the others can say good-bye to it. */
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
    *l = (struct local){0};
}
