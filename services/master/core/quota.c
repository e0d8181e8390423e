/* SPDX-License-Identifier: Apache-2.0 */
/* What one owner may have at a time: running jobs, workers, memory of parameter servers. A job that
 * would exceed it waits in the queue, and no other job waits for it. */
#include <string.h>

#include "base/mutant.h"
#include "job/plan/plan_memory.h"
#include "job/plan/plan_update.h"
#include "master/core/core.h"

/* Nodes serve it, or have just been chosen. */
bool job_holds_nodes(const struct job *j)
{
    return (!j->restartable || j->moves) && !job_state_is_final(j->record.state) &&
           (j->chosen || j->moves || j->phase != PHASE_NONE);
}

/* For the first time, to recover, or to go on where it yielded. */
bool job_waits_to_start(const struct job *j)
{
    return !j->restartable && !j->chosen && j->row_stored > 0 && j->has_spec &&
           (j->record.state == JOB_PENDING ||
            (j->record.state == JOB_RECOVERING && j->phase == PHASE_NONE));
}

struct usage { /* What an owner uses for all jobs but one. */
    size_t running, workers;
    uint64_t memory;
};

static bool same_owner(const struct job *a, const struct job *b)
{
    return strcmp(a->record.owner, b->record.owner) == 0;
}

static void quota_usage(const struct master *m, const struct job *j, struct usage *out)
{
    *out = (struct usage){0};
    for (size_t i = 0; i < m->live_count; i++) {
        const struct job *o = m->live[i];
        if (o == j || !same_owner(o, j)) {
            continue;
        }
        if (job_holds_nodes(o)) {
            out->running++;
            out->workers += o->worker_count + (o->moves ? resize_kept_all(m, o) : 0);
            out->memory += o->record.ps_memory;
        } else if (o->record.state == JOB_RECOVERING && j->record.state != JOB_RECOVERING) {
            out->running++; /* the job counts already */
        }
    }
}

static void say_quota(struct buf *words, const struct job *j, const char *what)
{
    buf_printf(words, "owner %s is at the quota of %s: ", j->record.owner, what);
}

static double megabytes(uint64_t bytes)
{
    return (double)bytes * 1e-6;
}

static bool is_beyond_memory(const struct master *m, const struct job *j, const struct usage *used)
{
    uint64_t most = m->config.owner_ps_memory_max;
    return most > 0 && used->memory + j->record.ps_memory > most && !MUTANT(quota_without_memory);
}

bool quota_memory_is_reached(const struct master *m, const struct job *j)
{
    struct usage used;
    if (j->record.owner[0] == '\0' || m->config.owner_ps_memory_max == 0) {
        return false;
    }
    quota_usage(m, j, &used);
    return is_beyond_memory(m, j, &used);
}

bool quota_is_reached(const struct master *m, const struct job *j, size_t workers,
                      struct buf *words)
{
    const struct master_config *c = &m->config;
    struct usage used;
    if (j->record.owner[0] == '\0' ||
        (c->owner_running_max == 0 && c->owner_workers_max == 0 && c->owner_ps_memory_max == 0)) {
        return false;
    }
    quota_usage(m, j, &used);
    size_t running = used.running - (MUTANT(quota_one_more) && used.running > 0);
    if (c->owner_running_max > 0 && running >= c->owner_running_max) {
        say_quota(words, j, "running jobs");
        buf_printf(words, "%zu of %zu", used.running, c->owner_running_max);
        return true;
    }
    if (c->owner_workers_max > 0 && used.workers + workers > c->owner_workers_max) {
        say_quota(words, j, "workers");
        buf_printf(words, "%zu of %zu, and it needs %zu", used.workers, c->owner_workers_max,
                   workers);
        return true;
    }
    if (is_beyond_memory(m, j, &used)) {
        say_quota(words, j, "memory of parameter servers");
        buf_printf(words, "%.1f of %.1f MB, and it needs %.1f MB", megabytes(used.memory),
                   megabytes(c->owner_ps_memory_max), megabytes(j->record.ps_memory));
        return true;
    }
    return false;
}

size_t quota_workers(const struct master *m, const struct job *j)
{
    size_t most = m->config.owner_workers_max;
    struct usage used;
    if (most == 0 || j->record.owner[0] == '\0' || MUTANT(quota_at_start_only)) {
        return SIZE_MAX;
    }
    quota_usage(m, j, &used);
    return used.workers < most ? most - used.workers : 0;
}

/* Measures with as many workers as the job may have: workers that come later need no more. */
void quota_measure(struct job *j)
{
    uint64_t floats = 0;
    for (uint32_t s = 0; s < j->plan.shard_count; s++) {
        struct update *u = NULL;
        struct plan_memory shard;
        if (plan_update_shard(&j->plan, &j->spec.update, s, &u, NULL) != 0) {
            return; /* opening the shard will tell */
        }
        uint32_t rounds = job_is_sync(j) ? plan_update_rounds(&j->plan, u) : 0;
        plan_memory_of(u, &j->spec, &j->record.consistency, &j->plan, s,
                       (size_t)j->spec.cluster.workers.max, rounds, &shard);
        floats += shard.total;
        update_free(u);
    }
    const uint64_t copies = j->spec.cluster.standby == STANDBY_FOLLOWER ? 2 : 1;
    j->record.ps_memory = copies * floats * sizeof(float);
}
