/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/plugin/plugin_host.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/compute.h"
#include "worker/program/worker_program.h"

#define SYMBOL "gradus_compute"

struct host {
    const char *dir;
    struct gradus_worker *worker;
    void *object; /* of the job's plug-in; NULL: none */
    const struct gradus_compute *compute;
    void *model;
    bool opened;              /* there is one, which may be NULL */
    struct gradus_keys *keys; /* [table_count] */
    size_t table_count;
    char why[GRADUS_MESSAGE_BYTES_MAX];
};

/* ---- the shared object ---- */

static int say(struct host *h, const char *what, const char *more)
{
    (void)snprintf(h->why, sizeof h->why, "%s%s", what, more);
    return -1;
}

/* Whoever may write it decides what the worker's user runs. */
static int check_file(struct host *h, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return say(h, "there is no such plug-in: ", path);
    }
    if (!S_ISREG(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) ||
        (st.st_mode & S_IWOTH) != 0) {
        return say(h, path,
                   ": a plug-in is a file of the user who runs the worker, or of root, that not "
                   "everybody may write");
    }
    return 0;
}

static int check_table(struct host *h, const char *path)
{
    const struct gradus_compute *c = h->compute;
    if (c == NULL) {
        return say(h, path, ": it does not define " SYMBOL);
    }
    if (c->abi != GRADUS_COMPUTE_ABI) {
        (void)snprintf(h->why, sizeof h->why, "%s: it has ABI version %u; this program knows %d",
                       path, (unsigned)c->abi, GRADUS_COMPUTE_ABI);
        return -1;
    }
    return c->open != NULL && c->compute != NULL ? 0
                                                 : say(h, path, ": it has no open() or compute()");
}

static int load(struct host *h, const char *name)
{
    if (!text_is_name(name, GRADUS_VARIABLE_NAME_BYTES_MAX)) {
        return say(h, "no name of a plug-in: ", name);
    }
    char *path = mem_printf("%s/%s.so", h->dir, name);
    int rc = check_file(h, path);
    if (rc == 0) {
        h->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        rc = h->object != NULL ? 0 : say(h, "it cannot be loaded: ", dlerror());
    }
    if (rc == 0) {
        h->compute = dlsym(h->object, SYMBOL);
        rc = check_table(h, path);
    }
    free(path);
    return rc;
}

static void forget(struct host *h)
{
    if (h->opened && h->compute->close != NULL) {
        h->compute->close(h->model);
    }
    if (h->object != NULL) {
        (void)dlclose(h->object);
    }
    free(h->keys);
    h->object = h->model = h->keys = NULL;
    h->compute = NULL;
    h->opened = false;
}

/* ---- works ---- */

/* The answer to a work that cannot be done. */
static int fail(struct host *h, const char *what)
{
    if (h->why[0] == '\0') {
        (void)snprintf(h->why, sizeof h->why, "the plug-in's %s() failed, and does not say why",
                       what);
    }
    return gradus_worker_fail(h->worker, h->why);
}

static int begin(struct host *h, const struct gradus_job *job)
{
    forget(h);
    struct gradus_description d = {.size = sizeof d};
    if (load(h, job->program) != 0 || h->compute->open(job, &h->model, &d, h->why) != 0) {
        h->model = NULL;
        return fail(h, "open");
    }
    h->opened = true;
    h->table_count = d.table_count;
    h->keys = mem_new(d.table_count + 1, sizeof *h->keys);
    int rc = gradus_worker_describe(h->worker, &d);
    return rc == GRADUS_ERROR_USE ? gradus_worker_fail(h->worker, gradus_worker_error(h->worker))
                                  : rc;
}

static int answer_keys(struct host *h, const struct gradus_work *work)
{
    memset(h->keys, 0, h->table_count * sizeof *h->keys);
    if (h->compute->keys == NULL) {
        (void)say(h, "the plug-in has tables, and no keys()", "");
        return fail(h, "keys");
    }
    if (h->compute->keys(h->model, work, h->keys, h->why) != 0) {
        return fail(h, "keys");
    }
    int rc = gradus_worker_keys(h->worker, h->keys, h->table_count);
    return rc == GRADUS_ERROR_USE ? gradus_worker_fail(h->worker, gradus_worker_error(h->worker))
                                  : rc;
}

static int answer(struct host *h, const struct gradus_work *work)
{
    struct gradus_result result = {.size = sizeof result, .examples = work->count};
    h->why[0] = '\0';
    switch (work->kind) {
    case GRADUS_WORK_JOB:
        return begin(h, work->job);
    case GRADUS_WORK_KEYS:
        return answer_keys(h, work);
    case GRADUS_WORK_JOB_END:
        forget(h);
        return GRADUS_OK;
    default:
        return h->compute->compute(h->model, work, &result, h->why) == 0
                   ? gradus_worker_done(h->worker, &result)
                   : fail(h, "compute");
    }
}

int plugin_host_run(const char *dir)
{
    struct host *h = mem_new(1, sizeof *h);
    struct gradus_work work;
    h->dir = dir;
    int rc = gradus_worker_open("gradus-worker " WORKER_PROGRAM_PLUGINS, &h->worker);
    if (rc != GRADUS_OK) {
        (void)fprintf(stderr, "gradus-worker: %s\n", gradus_worker_error(NULL));
        free(h);
        return EXIT_FAILURE;
    }
    rc = gradus_worker_next(h->worker, &work);
    while (rc == GRADUS_OK && work.kind != GRADUS_WORK_STOP) {
        rc = answer(h, &work);
        rc = rc == GRADUS_OK ? gradus_worker_next(h->worker, &work) : rc;
    }
    if (rc != GRADUS_OK) {
        (void)fprintf(stderr, "gradus-worker: %s\n", gradus_worker_error(h->worker));
    }
    forget(h);
    gradus_worker_close(h->worker);
    free(h);
    return rc == GRADUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
