/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a directory of checkpoints, or a job that runs, and serves the newest version. A
 * checkpoint that cannot be opened is tried again in the next round: it may have been pruned, or
 * not be complete yet. Meanwhile the old model is served. */
#include "serve/rpc/serve_follow.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/checkpoint_dir.h"
#include "os/chrono.h"
#include "os/log.h"
#include "os/thread.h"
#include "storage/storage.h"

#define LOGGED_BYTES 512

struct serve_follow {
    struct serve_follow_options options;
    char *path;        /* of the served checkpoint; NULL: none */
    uint64_t number;   /* of versions so far */
    char *failed;      /* the last failure, which was logged; NULL: the last look succeeded */
    uint64_t since_ms; /* the served version is the newest that was seen */
    struct meter *failures, *following, *age;
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
                                "Versions that could not be opened", NULL, 0);
    f->following = meter_gauge(options->meters, "serve_following",
                               "1 while the last look for a newer version succeeded", NULL, 0);
    f->age = meter_gauge(options->meters, "serve_version_age_seconds",
                         "Since the served version was last seen to be the newest", NULL, 0);
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&f->ending, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return f;
}

/* Serves what @given has, whose @texts are taken when it does, or (NULL) what is at @path. */
static int load(struct serve_follow *f, const char *path, const struct serve_live_version *given,
                struct err *err)
{
    const struct serve_follow_options *o = &f->options;
    const uint64_t begin = chrono_now_ms();
    struct serve_model *before = serve_current(o->serve), *m = NULL;
    const struct serve_model_request request = {.path = path,
                                                .given = given != NULL ? &given->given : NULL,
                                                .data_dir = o->data_dir,
                                                .cache_dir = o->cache_dir,
                                                .batch_max = o->batch_max,
                                                .slots = o->threads,
                                                .number = f->number + 1,
                                                .before = before,
                                                .texts = {given != NULL ? given->job : NULL,
                                                          given != NULL ? given->text : NULL,
                                                          given != NULL ? given->encoding : NULL}};
    int rc = serve_model_open(&request, &m, err);
    if (rc == 0) {
        char shown[LOGGED_BYTES];
        f->number++;
        serve_swap(o->serve, m);
        log_info("serving", "model=%s version=%s from=%s load_ms=%" PRIu64, serve_name(o->serve),
                 m->version, log_quote(path, shown, sizeof shown), chrono_now_ms() - begin);
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

/* Is this version served already? */
static bool is_served(struct serve_follow *f, uint64_t version)
{
    struct serve_model *m = serve_current(f->options.serve);
    const bool same = m != NULL && saved_model_about(m->saved)->version == version;
    serve_model_unref(m);
    return same;
}

static int look_live(struct serve_follow *f, struct err *err)
{
    struct serve_live *live = f->options.live;
    struct serve_live_version v;
    uint64_t version = 0;
    int rc = serve_live_begin(live, &version, err);
    if (rc != 0) {
        return rc;
    }
    if (!is_served(f, version)) {
        rc = serve_live_read(live, version, &v, err);
        if (rc == 0 && (rc = load(f, f->options.where, &v, err)) != 0) {
            free(v.job);
            free(v.text);
            free(v.encoding);
        }
    }
    serve_live_end(live);
    return rc;
}

static int look_for_checkpoint(struct serve_follow *f, struct err *err)
{
    char *path = NULL;
    int rc = find(f->options.where, &path, err);
    if (rc == 0 && f->path != NULL && strcmp(path, f->path) == 0) {
        free(path);
        return 0;
    }
    rc = rc != 0 ? rc : load(f, path, NULL, err);
    if (rc == 0) {
        free(f->path);
        f->path = path;
        path = NULL;
    }
    free(path);
    return rc;
}

int serve_follow_look(struct serve_follow *f, struct err *err)
{
    const uint64_t begin = chrono_now_ms();
    int rc = f->options.live != NULL ? look_live(f, err) : look_for_checkpoint(f, err);
    f->since_ms = rc == 0 ? begin : f->since_ms;
    meter_set(f->following, rc == 0);
    if (f->since_ms != 0) {
        meter_set(f->age, (double)(chrono_now_ms() - f->since_ms) / 1000);
    }
    return rc;
}

/* Once for each reason, not in every round. */
static void tell(struct serve_follow *f, int rc, const struct err *err)
{
    if (rc != 0 && (f->failed == NULL || !text_is_same_words(err->msg, f->failed))) {
        char shown[LOGGED_BYTES];
        log_warn(f->options.live != NULL ? "not_following" : "no_newer_checkpoint", "error=%s",
                 log_quote(err->msg, shown, sizeof shown));
    }
    if (rc != 0 && rc != ERR_NOT_FOUND) {
        meter_add(f->failures, 1);
    }
    free(f->failed);
    f->failed = rc == 0 ? NULL : mem_strdup(err->msg);
}

void serve_follow_round(struct serve_follow *f)
{
    struct err err = {0};
    const int rc = serve_follow_look(f, &err);
    pthread_mutex_lock(&f->lock);
    if (!f->end) {
        tell(f, rc, &err);
    }
    pthread_mutex_unlock(&f->lock);
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
        pthread_mutex_unlock(&f->lock);
        serve_follow_round(f);
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
        if (f->options.live != NULL) {
            serve_live_stop(f->options.live);
        }
        (void)pthread_join(f->thread, NULL);
    }
    pthread_cond_destroy(&f->ending);
    pthread_mutex_destroy(&f->lock);
    free(f->failed);
    free(f->path);
    free(f);
}
