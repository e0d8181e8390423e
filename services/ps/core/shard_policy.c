/* SPDX-License-Identifier: Apache-2.0 */
/* Staleness policies: what becomes of a gradient of parameters that have changed meanwhile.
 *
 * Delay compensation needs the parameters that the gradient is of. So the shard keeps the version
 * that it sent to a worker until it sends that worker the next one. */
#include <inttypes.h>

#include "base/mutant.h"
#include "ps/core/shard_internal.h"

int shard_policy_check(const struct shard *s, const struct exchange_push *p, struct err *err)
{
    if (s->consistency.policy != POLICY_MAX_STALENESS || s->lead || p->decided) {
        return 0;
    }
    return err_set(err, ERR_STATE,
                   "a push of batch %" PRIu32 " of split %" PRIu32 " of epoch %" PRIu64
                   " that the lead did not take: it decides what is too stale",
                   p->batch, p->split, p->epoch);
}

bool shard_policy_drops(const struct shard *s, uint64_t staleness)
{
    bool decides = s->lead || MUTANT(stale_everywhere);
    return s->consistency.policy == POLICY_MAX_STALENESS && decides &&
           staleness > s->consistency.max_staleness;
}

/* True if the version that a worker read is kept until it is sent the next one. */
static bool keeps(const struct shard *s, uint32_t worker)
{
    bool wanted = s->keeps_bases || s->consistency.policy == POLICY_DELAY_COMPENSATION;
    return wanted && worker != SHARD_WORKER_NONE && s->consistency.mode != TRAINING_SYNC;
}

void shard_policy_correct(const struct shard *s, const struct shard_queued *q,
                          struct shard_action *a)
{
    a->lr_scale = 1;
    if (s->consistency.policy == POLICY_SCALE_LR && a->staleness > 1) {
        a->lr_scale = 1.0F / (float)a->staleness;
    }
    if (!keeps(s, q->worker)) {
        return;
    }
    const struct shard_worker *w = &s->workers[q->worker];
    a->has_base = w->has_base && w->base == q->base_version && a->staleness > 0;
    a->base_version = a->has_base ? w->base : 0;
    bool compensates = a->has_base && s->consistency.policy == POLICY_DELAY_COMPENSATION;
    a->lambda = compensates ? (float)s->consistency.lambda : 0;
}

/* Forgets the version that is kept for @worker. */
static void shard_policy_forget(struct shard_worker *worker, struct shard_actions *out)
{
    if (worker->has_base) {
        struct shard_action *a = shard_act(out, SHARD_FORGET);
        a->version = worker->base;
        a->has_base = true;
        worker->has_base = false;
    }
}

void shard_policy_forget_all(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < s->worker_count; i++) {
        shard_policy_forget(&s->workers[i], out);
    }
}

void shard_policy_sent(struct shard *s, uint32_t worker, struct shard_actions *out)
{
    if (!keeps(s, worker)) {
        return;
    }
    struct shard_worker *w = &s->workers[worker];
    if (w->has_base && w->base == s->version) {
        return;
    }
    if (!MUTANT(base_forgotten)) {
        struct shard_action *a = shard_act(out, SHARD_KEEP);
        a->version = s->version;
        a->has_base = true;
        shard_policy_forget(w, out);
    }
    w->has_base = true;
    w->base = s->version;
}
