/* SPDX-License-Identifier: Apache-2.0 */
/* The job files of a schedule. */
#include "sim/schedule_maker.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->at, t->left, fmt, args);
    va_end(args);
    size_t used = n < 0 || (size_t)n >= t->left ? t->left - 1 : (size_t)n;
    t->at += used;
    t->left -= used;
}

static void put_policy(struct maker *m, struct text *t)
{
    switch (below(m, 5)) {
    case 0:
    case 1:
        put(t, "  staleness_policy: max_staleness\n  max_staleness: %u\n", (unsigned)below(m, 4));
        break;
    case 2:
        put(t, "  staleness_policy: scale_lr\n");
        break;
    case 3:
        put(t, "  staleness_policy: delay_compensation\n");
        break;
    default:
        break;
    }
}

static void put_mode(struct maker *m, struct text *t, enum sim_mode mode, uint64_t replicas)
{
    static const enum sim_mode MODES[] = {SIM_SYNC, SIM_PARTIAL, SIM_SPECULATE, SIM_ASYNC,
                                          SIM_BOUNDED};
    if (mode == SIM_ANY || mode == SIM_CHANGE) {
        mode = MODES[below(m, 5)];
    } else if (mode == SIM_SUMS) {
        mode = MODES[below(m, 3)];
    }
    uint64_t staleness = between(m, 1, 5);
    put(t, "  replicas: %u\n", (unsigned)replicas);
    switch (mode) {
    case SIM_PARTIAL:
        if (replicas > 1) {
            uint64_t aggregate = between(m, 1, replicas - 1);
            put(t, "  replicas_to_aggregate: %u\n", (unsigned)aggregate);
            m->goes_on = aggregate <= replicas / 2;
        }
        break;
    case SIM_SPECULATE:
        put(t, "  speculate: true\n  speculate_after: %u\n", (unsigned)between(m, 1, 4));
        m->goes_on = true;
        break;
    case SIM_BOUNDED:
        put(t, "  mode: bounded\n  staleness: %u\n", (unsigned)staleness);
        break;
    case SIM_ASYNC:
        put(t, "  mode: async\n");
        break;
    default:
        break;
    }
    if (mode != SIM_ASYNC && mode != SIM_BOUNDED) {
        return;
    }
    if (chance(m, 20)) {
        put(t, "  overlap: true\n");
        return; /* which goes with little else */
    }
    put_policy(m, t);
    if (chance(m, 40)) {
        put(t, "  push_every: %u\n", (unsigned)between(m, 1, 4));
    }
    if (chance(m, 30)) {
        put(t, "  pull_every: %u\n", (unsigned)between(m, 1, 4));
    }
}

/* What counts of the rule is how many rounds of sums it takes. */
static void put_update(struct maker *m, struct text *t, enum sim_mode mode)
{
    if (mode != SIM_SUMS) {
        put(t, "  rule: momentum\n  learning_rate: 0.125\n");
        return;
    }
    uint64_t rounds = between(m, 1, 3);
    put(t, "  rule: %s\n  learning_rate: 0.125\n  clip_norm: 1\n",
        rounds == 1   ? "momentum"
        : rounds == 2 ? "lamb"
                      : "adafactor");
}

static void put_interval(struct maker *m, struct text *t, const char *key, uint32_t never)
{
    if (chance(m, never)) {
        put(t, "  %s: never\n", key);
    } else if (chance(m, 30)) {
        put(t, "  %s: 1 epochs\n", key);
    } else {
        put(t, "  %s: %u steps\n", key, (unsigned)between(m, 1, 12));
    }
}

/* A key of its own: what else is drawn stays. */
static bool stops(const struct maker *m, uint32_t index)
{
    return m->s->jobs[index].test_records > 0 &&
           rng_below(rng_key(m->s->seed, "stop"), index, 100) < 45;
}

bool schedule_stops(const struct sim_job_plan *job)
{
    return strstr(job->text, "  stop: {") != NULL || strstr(job->text, "best: accuracy") != NULL;
}

static uint64_t stop_key(const struct maker *m, uint32_t index)
{
    return rng_key_mix(rng_key(m->s->seed, "stop"), index);
}

static bool keeps_best(const struct maker *m, uint32_t index)
{
    return stops(m, index) && rng_below(stop_key(m, index), 3, 3) == 0;
}

static void put_stop(struct maker *m, struct text *t, uint32_t index)
{
    const uint64_t key = stop_key(m, index);
    if (rng_below(key, 4, 4) == 0) {
        put(t, "  evaluate_every: 1 epochs\n");
    } else {
        put(t, "  evaluate_every: %u steps\n", 1 + (unsigned)rng_below(key, 5, 6));
    }
    if (keeps_best(m, index) && rng_below(key, 6, 4) == 0) {
        return; /* the best version is kept, and training does not end for want of a better one */
    }
    put(t, "  stop: {metric: accuracy, patience: %u, min_delta: %s, restore_best: %s}\n",
        (unsigned)rng_below(key, 0, 5), rng_below(key, 1, 2) == 0 ? "0" : "0.07",
        rng_below(key, 2, 3) == 0 ? "true" : "false");
}

static void put_keep(struct maker *m, struct text *t, uint32_t index)
{
    const bool best = keeps_best(m, index);
    if (chance(m, 40)) {
        const unsigned last = (unsigned)between(m, 0, 2);
        if (best) {
            put(t, "  checkpoints_keep: {last: %u, best: accuracy}\n", last);
        } else {
            put(t, "  checkpoints_keep: %u\n", last);
        }
    } else if (best) {
        put(t, "  checkpoints_keep: {best: accuracy}\n");
    }
}

void maker_job(struct maker *m, uint32_t index, enum sim_mode mode)
{
    struct sim_job_plan *job = &m->s->jobs[index];
    struct text t = {job->text, sizeof job->text};
    uint64_t batch = between(m, 1, 6);
    uint64_t batches = chance(m, 70) ? between(m, 2, 16) : between(m, 5, SIM_BATCHES_MAX);
    uint64_t epochs = between(m, 1, SIM_EPOCHS_MAX);
    uint64_t workers = m->s->worker_count;
    uint64_t most = workers + m->s->spare_count;
    uint64_t least = between(m, 1, workers);
    most = between(m, least, most);
    uint64_t replicas = between(m, most, 8);
    job->records = (uint32_t)(batch * (batches - 1) + between(m, 1, batch));
    if (replicas > job->records) {
        job->records = (uint32_t)replicas;
    }
    const uint64_t whole = job->records / batch * batch;
    const uint64_t lasts = rng_key(m->s->seed, "lasts"); /* a key of its own: others stay */
    const bool drops = whole >= replicas && rng_below(lasts, index, 100) < 25;
    const uint64_t epoch = drops ? whole : job->records;
    m->records_min = epoch < m->records_min ? epoch : m->records_min;
    job->test_records = chance(m, 60) ? (uint32_t)between(m, 1, 3000) : 0;
    job->submit_us = index == 0 ? below(m, 20 * SIM_MS) : below(m, 1 * SIM_S);
    put(&t, "name: job%u\ndata:\n  train: {file: a.csv}\n%s", index,
        stops(m, index) ? "  test: {file: b.csv}\n" : "");
    put(&t, "%smodel:\n%s  metrics: [accuracy]\nupdate:\n", job->from ? GIVEN_FROM : "",
        given_models[job->given && !job->from]);
    put_update(m, &t, mode);
    put(&t, "training:\n");
    put(&t, "  batch_size: %u\n", (unsigned)batch);
    put(&t, "%s", drops ? "  drop_last: true\n" : "");
    if (chance(m, 15)) {
        put(&t, "  steps: %u\n", (unsigned)between(m, 1, batches * epochs));
    }
    put(&t, "  epochs: %u\n", (unsigned)epochs);
    put(&t, "  split_batches: %u\n", (unsigned)between(m, 1, 5));
    if (stops(m, index)) {
        put_stop(m, &t, index);
    } else {
        put_interval(m, &t, "evaluate_every", 40);
    }
    put_interval(m, &t, "checkpoint_every", 30);
    put_keep(m, &t, index);
    const uint64_t deltas = rng_key(m->s->seed, "deltas"); /* a key of its own: others stay */
    if (rng_below(deltas, index, 100) < (m->s->mode == SIM_STILL ? 80 : 40)) {
        put(&t, "  checkpoint_full_every: %u\n", 2 + (unsigned)rng_below(deltas, 100 + index, 4));
    }
    put_mode(m, &t, mode, replicas);
    m->goes_on = m->goes_on && most > 1;
    m->step_records = (uint32_t)(batch * replicas);
    job->least = (uint32_t)least;
    job->ps = (uint32_t)between(m, mode == SIM_SUMS ? 2 : 1, m->s->ps_count);
    put(&t, "cluster:\n  workers: %u..%u\n  ps: %u\n  partitioner: fixed\n  partitions: 3\n",
        (unsigned)least, (unsigned)most, (unsigned)job->ps);
    uint64_t steps = batches * epochs;
    m->length_us += steps * (m->s->knobs.compute_us + 2 * m->s->knobs.delay_us) / workers;
}
