/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one struct of the job's keys about sync, async and bounded training, and checks it,
 * wherever it came from: a job file or a peer. */
#include "job/progress/consistency.h"

#include <math.h>

/* Parameters that the mode does not look at are neutral: code that reads one without asking for the
 * mode is right, and setting such a key on a running job changes nothing. */
void consistency_of(const struct job_spec *spec, struct consistency *out)
{
    const struct training_spec *t = &spec->training;
    bool sync = t->mode == TRAINING_SYNC;
    uint32_t replicas = (uint32_t)job_spec_replicas(spec);
    *out = (struct consistency){
        .mode = (enum training_mode)t->mode,
        .replicas = replicas,
        .aggregate = replicas,
        .push_every = 1,
        .pull_every = 1,
    };
    if (sync) {
        if (t->replicas_to_aggregate > 0) {
            out->aggregate = (uint32_t)t->replicas_to_aggregate;
        }
        out->speculate = t->speculate ? t->speculate_after : 0;
        return;
    }
    out->policy = (enum staleness_policy)t->staleness_policy;
    if (out->policy == POLICY_MAX_STALENESS) {
        out->max_staleness = (uint64_t)t->max_staleness;
    } else if (out->policy == POLICY_DELAY_COMPENSATION) {
        out->lambda = t->delay_lambda;
    }
    out->staleness = t->mode == TRAINING_BOUNDED ? (uint64_t)t->staleness : 0;
    out->push_every = (uint32_t)t->push_every;
    out->pull_every = (uint32_t)t->pull_every;
    out->overlap = t->overlap;
}

static int check_sync(const struct consistency *c, struct err *err)
{
    if (c->replicas == 0 || c->replicas > CONSISTENCY_REPLICAS_MAX) {
        return err_set(err, ERR_INVALID, "%u replicas; allowed: 1 to %u", c->replicas,
                       CONSISTENCY_REPLICAS_MAX);
    }
    if (c->aggregate == 0 || c->aggregate > c->replicas) {
        return err_set(err, ERR_INVALID, "%u of %u replicas to aggregate; allowed: 1 to all",
                       c->aggregate, c->replicas);
    }
    if (c->speculate != 0 && !(isfinite(c->speculate) && c->speculate >= 1)) {
        return err_set(err, ERR_INVALID, "speculation after %g usual times; allowed: at least 1",
                       c->speculate);
    }
    if (c->mode == TRAINING_SYNC && c->speculate > 0 && c->aggregate < c->replicas) {
        return err_set(err, ERR_INVALID, "speculation, and %u of %u replicas to aggregate",
                       c->aggregate, c->replicas);
    }
    return 0;
}

static int check_async(const struct consistency *c, struct err *err)
{
    if (!(isfinite(c->lambda) && c->lambda >= 0)) {
        return err_set(err, ERR_INVALID, "delay compensation with lambda %g; allowed: at least 0",
                       c->lambda);
    }
    if (c->push_every == 0 || c->pull_every == 0) {
        return err_set(err, ERR_INVALID, "a push every %u batches, a pull every %u; at least 1",
                       c->push_every, c->pull_every);
    }
    bool single = c->push_every == 1 && c->pull_every == 1 && c->policy != POLICY_MAX_STALENESS;
    if (c->mode != TRAINING_SYNC && c->overlap && !single) {
        return err_set(err, ERR_INVALID,
                       "overlap with push_every, pull_every or the policy max_staleness");
    }
    return 0;
}

int consistency_check(const struct consistency *c, struct err *err)
{
    if ((int)c->mode < TRAINING_SYNC || (int)c->mode > TRAINING_BOUNDED) {
        return err_set(err, ERR_INVALID, "mode %d", (int)c->mode);
    }
    if ((int)c->policy < POLICY_NONE || (int)c->policy > POLICY_DELAY_COMPENSATION) {
        return err_set(err, ERR_INVALID, "staleness policy %d", (int)c->policy);
    }
    int rc = check_sync(c, err);
    return rc != 0 ? rc : check_async(c, err);
}

bool consistency_equal(const struct consistency *a, const struct consistency *b)
{
    return a->mode == b->mode && a->replicas == b->replicas && a->aggregate == b->aggregate &&
           a->speculate == b->speculate && a->staleness == b->staleness && a->policy == b->policy &&
           a->max_staleness == b->max_staleness && a->lambda == b->lambda &&
           a->push_every == b->push_every && a->pull_every == b->pull_every &&
           a->overlap == b->overlap;
}
