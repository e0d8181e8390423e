/* SPDX-License-Identifier: Apache-2.0 */
/* The shards of a server: found, inserted and removed. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "ps/rpc/ps_standby.h"

static struct ps_shard *find(const struct ps *ps, const char *job, uint32_t number)
{
    for (size_t i = 0; i < ps->shard_count; i++) {
        if (ps->shards[i]->number == number && strcmp(ps->shards[i]->job, job) == 0) {
            return ps->shards[i];
        }
    }
    return NULL;
}

static bool has_job(const struct ps *ps, const char *job, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(ps->shards[i]->job, job) == 0) {
            return true;
        }
    }
    return false;
}

/* The number of jobs that have shards here, with @job. */
static size_t jobs_with(const struct ps *ps, const char *job)
{
    size_t jobs = has_job(ps, job, ps->shard_count) ? 0 : 1;
    for (size_t i = 0; i < ps->shard_count; i++) {
        jobs += has_job(ps, ps->shards[i]->job, i) ? 0 : 1;
    }
    return jobs;
}

struct ps_shard *ps_find(struct ps *ps, const Gradus__V1__ShardRef *ref, struct err *err)
{
    if (ref == NULL) {
        (void)err_set(err, ERR_INVALID, "the request does not name a shard");
        return NULL;
    }
    pthread_mutex_lock(&ps->lock);
    struct ps_shard *s = find(ps, ref->job, ref->shard);
    if (s != NULL) {
        (void)ps_shard_ref(s);
    }
    pthread_mutex_unlock(&ps->lock);
    if (s == NULL) {
        char shown[64];
        (void)err_set(err, ERR_NOT_FOUND, "job %s shard %" PRIu32 ": not on this server",
                      text_shown(ref->job, shown, sizeof shown), ref->shard);
    }
    return s;
}

int ps_check_opening(struct ps *ps, const Gradus__V1__OpenShardRequest *r, struct err *err)
{
    pthread_mutex_lock(&ps->lock);
    int rc = shard_closed_check(&ps->closed, r->shard->opening, r->shard->shard, err);
    pthread_mutex_unlock(&ps->lock);
    return rc;
}

int ps_insert(struct ps *ps, struct ps_shard *s, struct err *err)
{
    pthread_mutex_lock(&ps->lock);
    int rc = shard_closed_check(&ps->closed, s->opening, s->number, err);
    if (rc != 0) {
        /* said */
    } else if (ps->drained) {
        rc = err_set(err, ERR_UNAVAILABLE, "the server is shutting down");
    } else if (find(ps, s->job, s->number) != NULL) {
        rc = err_set(err, ERR_EXISTS, "it is open already");
    } else if (jobs_with(ps, s->job) > ps->shards_max || ps->shard_count == PS_SHARDS_MAX) {
        rc = err_set(err, ERR_EXHAUSTED, "%zu jobs have shards here, which is shards_max",
                     jobs_with(ps, s->job) - 1);
    } else {
        ps->shards[ps->shard_count++] = ps_shard_ref(s);
        meter_set(ps->meters.shards, (double)ps->shard_count);
    }
    pthread_mutex_unlock(&ps->lock);
    return rc;
}

void ps_close_early(struct ps *ps, const Gradus__V1__ShardRef *ref)
{
    pthread_mutex_lock(&ps->lock);
    shard_closed_early(&ps->closed, ref->opening, ref->shard);
    pthread_mutex_unlock(&ps->lock);
}

/* Behind the task that has removed it. */
static void run_left(struct strand_task *task)
{
    struct ps_shard *s = (struct ps_shard *)((char *)task - offsetof(struct ps_shard, left));
    struct ps *ps = s->ps;
    pthread_mutex_lock(&ps->lock);
    ps->leaving--;
    pthread_cond_broadcast(&ps->left);
    pthread_mutex_unlock(&ps->lock);
    ps_shard_unref(s);
}

void ps_remove(struct ps *ps, struct ps_shard *s)
{
    bool found = false;
    pthread_mutex_lock(&ps->lock);
    for (size_t i = 0; i < ps->shard_count && !found; i++) {
        if (ps->shards[i] == s) {
            ps->shards[i] = ps->shards[--ps->shard_count];
            shard_closed_add(&ps->closed, s->opening, s->number);
            ps->leaving++;
            found = true;
        }
    }
    meter_set(ps->meters.shards, (double)ps->shard_count);
    pthread_mutex_unlock(&ps->lock);
    if (found) {
        (void)strand_post(&s->strand, &s->left, run_left);
    }
}

void ps_wait_removed(struct ps *ps)
{
    pthread_mutex_lock(&ps->lock);
    while (ps->shard_count > 0 || ps->leaving > 0) {
        pthread_cond_wait(&ps->left, &ps->lock);
    }
    pthread_mutex_unlock(&ps->lock);
}

void ps_thread_begins(struct ps *ps)
{
    pthread_mutex_lock(&ps->lock);
    ps->threads++;
    pthread_mutex_unlock(&ps->lock);
}

void ps_thread_ends(struct ps *ps)
{
    pthread_mutex_lock(&ps->lock);
    ps->threads--;
    pthread_cond_broadcast(&ps->left);
    pthread_mutex_unlock(&ps->lock);
}

void ps_wait_threads(struct ps *ps)
{
    pthread_mutex_lock(&ps->lock);
    while (ps->threads > 0) {
        pthread_cond_wait(&ps->left, &ps->lock);
    }
    pthread_mutex_unlock(&ps->lock);
}

bool ps_drained(struct ps *ps)
{
    pthread_mutex_lock(&ps->lock);
    bool drained = ps->drained;
    pthread_mutex_unlock(&ps->lock);
    return drained;
}

bool ps_lingers(struct ps *ps)
{
    pthread_mutex_lock(&ps->lock);
    bool lingers = atomic_load(&ps->refs) > 1 + ps->shard_count;
    pthread_mutex_unlock(&ps->lock);
    return lingers;
}

size_t ps_list(struct ps *ps, const char *job, struct ps_shard *out[PS_SHARDS_MAX])
{
    size_t n = 0;
    pthread_mutex_lock(&ps->lock);
    for (size_t i = 0; i < ps->shard_count; i++) {
        if (job == NULL || job[0] == 0 || strcmp(ps->shards[i]->job, job) == 0) {
            out[n++] = ps_shard_ref(ps->shards[i]);
        }
    }
    pthread_mutex_unlock(&ps->lock);
    return n;
}
