/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a directory of checkpoints and serves the newest. A checkpoint that cannot be opened is
 * tried again in the next round: it may have been pruned, or not be complete yet. Meanwhile the old
 * model is served. */
#include "serve/rpc/serve_follow.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/chrono.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "checkpoint/checkpoint_dir.h"
#include "storage/storage.h"

#define LOGGED_BYTES 512

struct serve_follow {
    struct serve_follow_options options;
    char *path;      /* of the served checkpoint; NULL: none */
    uint64_t number; /* of versions so far */
    int failed;      /* the code of the last failure, which was logged */
    struct meter *failures;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ending;
    bool end, started;
    pthread_t thread;
};

struct serve_follow *serve_follow_new(const struct serve_follow_options *options)
{
    struct serve_follow *f = mem_new(1, sizeof *f);
    pthread_condattr_t monotonic;
    f->options = *options;
    f->failures = meter_counter(options->meters, "serve_load_failures_total",
                                "Checkpoints that could not be opened", NULL, 0);
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&f->ending, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return f;
}

static int load(struct serve_follow *f, const char *path, struct err *err)
{
    const struct serve_follow_options *o = &f->options;
    const uint64_t begin = chrono_now_ms();
    struct serve_model *before = serve_current(o->serve), *m = NULL;
    const struct serve_model_request request = {.path = path,
                                                .data_dir = o->data_dir,
                                                .cache_dir = o->cache_dir,
                                                .batch_max = o->batch_max,
                                                .slots = o->threads,
                                                .number = f->number + 1,
                                                .before = before};
    int rc = serve_model_open(&request, &m, err);
    if (rc == 0) {
        char shown[LOGGED_BYTES];
        f->number++;
        serve_swap(o->serve, m);
        log_info("serving", "model=%s version=%s checkpoint=%s load_ms=%" PRIu64,
                 serve_name(o->serve), m->version, log_quote(path, shown, sizeof shown),
                 chrono_now_ms() - begin);
        if (saved_model_measured_anew(m->saved)) {
            log_warn("measured_anew",
                     "checkpoint=%s reason=\"it keeps nothing of what was measured on its train "
                     "data, which have to be those of before\"",
                     shown);
        }
    }
    if (rc == 0 && before == NULL && o->served != NULL) {
        o->served(o->ctx);
    }
    serve_model_unref(before);
    return rc;
}

/* A file is the model; of a directory the newest checkpoint is. */
static int find(const char *where, char **path, struct err *err)
{
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = storage_look(where, &thing, err);
    if (rc != 0 || thing != STORAGE_FILE) {
        return rc != 0 ? rc : checkpoint_resolve(where, path, NULL, err);
    }
    *path = mem_strdup(where);
    return 0;
}

int serve_follow_look(struct serve_follow *f, struct err *err)
{
    char *path = NULL;
    int rc = find(f->options.where, &path, err);
    if (rc == 0 && f->path != NULL && strcmp(path, f->path) == 0) {
        free(path);
        return 0;
    }
    rc = rc != 0 ? rc : load(f, path, err);
    if (rc == 0) {
        free(f->path);
        f->path = path;
        path = NULL;
    }
    free(path);
    return rc;
}

/* Once for each kind of failure, not in every round. */
static void tell(struct serve_follow *f, int rc, const struct err *err)
{
    if (rc != 0 && rc != f->failed) {
        char shown[LOGGED_BYTES];
        log_warn("no_newer_checkpoint", "error=%s", log_quote(err->msg, shown, sizeof shown));
    }
    if (rc != 0 && rc != ERR_NOT_FOUND) {
        meter_add(f->failures, 1);
    }
    f->failed = rc;
}

static void *run(void *arg)
{
    struct serve_follow *f = arg;
    pthread_mutex_lock(&f->lock);
    while (!f->end) {
        const uint64_t until_ms = chrono_now_ms() + (uint64_t)f->options.every_ms;
        const struct timespec until = {.tv_sec = (time_t)(until_ms / 1000),
                                       .tv_nsec = (long)(until_ms % 1000 * 1000000)};
        if (pthread_cond_timedwait(&f->ending, &f->lock, &until) == 0) {
            continue;
        }
        struct err err = {0};
        pthread_mutex_unlock(&f->lock);
        tell(f, serve_follow_look(f, &err), &err);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

int serve_follow_start(struct serve_follow *f, struct err *err)
{
    int rc = thread_start(&f->thread, "follow", run, f);
    if (rc != 0) {
        return err_errno(err, rc, "start a thread that looks for checkpoints");
    }
    f->started = true;
    return 0;
}

void serve_follow_free(struct serve_follow *f)
{
    if (f == NULL) {
        return;
    }
    if (f->started) {
        pthread_mutex_lock(&f->lock);
        f->end = true;
        pthread_cond_signal(&f->ending);
        pthread_mutex_unlock(&f->lock);
        (void)pthread_join(f->thread, NULL);
    }
    pthread_cond_destroy(&f->ending);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    free(f);
}
