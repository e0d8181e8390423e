/* SPDX-License-Identifier: Apache-2.0 */
/* From a seed to a schedule: which jobs, which machines, what goes wrong when. */
#include "sim/sim.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

const char *const sim_mode_names[SIM_MODE_COUNT] = {
#define X(NAME, name) #name,
    SIM_MODES(X)
#undef X
};

#define LIVE_US (300 * SIM_S)

struct maker {
    struct sim_schedule *s;
    uint64_t key, draws;
    uint64_t length_us; /* about how long the jobs take when nothing goes wrong */
    uint64_t records_min;
    /* The job needs none of its workers, if it has two: steps of so many records. */
    bool goes_on;
    uint32_t step_records;
};

static uint64_t below(struct maker *m, uint64_t n)
{
    return rng_below(m->key, m->draws++, n);
}

static uint64_t between(struct maker *m, uint64_t low, uint64_t high)
{
    return low + below(m, high - low + 1);
}

static bool chance(struct maker *m, uint32_t percent)
{
    return below(m, 100) < percent;
}

/* As likely between 1 and 10 as between 10 and 100. */
static uint64_t about(struct maker *m, uint64_t low, uint64_t high)
{
    double u = rng_uniform(m->key, m->draws++);
    return (uint64_t)((double)low * exp(u * log((double)high / (double)low)));
}

/* ---- jobs ---- */

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
        put(t, "  rule: momentum\n");
        return;
    }
    uint64_t rounds = between(m, 1, 3);
    put(t, "  rule: %s\n  clip_norm: 1\n",
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

static void make_job(struct maker *m, uint32_t index, enum sim_mode mode)
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
    m->records_min = job->records < m->records_min ? job->records : m->records_min;
    job->test_records = chance(m, 60) ? (uint32_t)between(m, 1, 3000) : 0;
    job->submit_us = index == 0 ? below(m, 20 * SIM_MS) : below(m, 1 * SIM_S);
    put(&t, "name: job%u\ndata:\n  train: {file: a.csv}\n", index);
    put(&t, "model:\n  layers:\n    - dense: {units: 3}\n  loss: softmax_cross_entropy\n"
            "  metrics: [accuracy]\nupdate:\n");
    put_update(m, &t, mode);
    put(&t, "training:\n");
    put(&t, "  batch_size: %u\n", (unsigned)batch);
    if (chance(m, 15)) {
        put(&t, "  steps: %u\n", (unsigned)between(m, 1, batches * epochs));
    }
    put(&t, "  epochs: %u\n", (unsigned)epochs);
    put(&t, "  split_batches: %u\n", (unsigned)between(m, 1, 5));
    put_interval(m, &t, "evaluate_every", 40);
    put_interval(m, &t, "checkpoint_every", 30);
    if (chance(m, 40)) {
        put(&t, "  checkpoints_keep: %u\n", (unsigned)between(m, 0, 2));
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

/* ---- machines and network ---- */

static void make_knobs(struct maker *m)
{
    struct sim_knobs *k = &m->s->knobs;
    *k = (struct sim_knobs){
        .delay_us = (uint32_t)about(m, 100, 4000),
        .compute_us = (uint32_t)about(m, 300, 30000),
        .load_us = (uint32_t)about(m, 1000, 100000),
        .file_us = (uint32_t)about(m, 1000, 300000),
        .readers_max = 8,
        .reader_us = 1,
        .tail_us = 1,
    };
}

static void bad_network(struct maker *m)
{
    struct sim_knobs *k = &m->s->knobs;
    if (chance(m, 70)) {
        k->tail_part = (uint32_t)about(m, 5000, 300000);
        k->tail_us = (uint32_t)about(m, 5000, 10000000);
    }
    if (chance(m, 60)) {
        k->loss_part = (uint32_t)about(m, 1000, 150000);
    }
    if (chance(m, 60)) {
        k->twice_part = (uint32_t)about(m, 10000, 400000);
    }
    if (chance(m, 60)) {
        k->break_part = (uint32_t)about(m, 500, 30000);
    }
}

static void bad_machines(struct maker *m)
{
    struct sim_knobs *k = &m->s->knobs;
    k->skew = chance(m, 70);
    if (chance(m, 60)) {
        k->reader_part = (uint32_t)about(m, 20000, 900000);
        k->reader_us = (uint32_t)about(m, 1000, 500000);
        k->readers_max = (uint32_t)between(m, 1, 3);
    }
    if (chance(m, 30)) {
        k->file_us = (uint32_t)about(m, 100000, 1000000);
    }
}

/* On a calm day, too. With draws of their own, so that everything else of a seed is as it was. */
static void early_answers(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "early")};
    struct sim_knobs *k = &s->knobs;
    if (chance(&m, 50)) {
        k->early_part = (uint32_t)about(&m, 50000, 1000000);
        k->early_us = (uint32_t)about(&m, 100, 30000);
        k->lost_part = chance(&m, 70) ? (uint32_t)about(&m, 1000, 300000) : 0;
    }
}

static struct sim_fault *add_fault(struct maker *m, enum sim_fault_kind kind, uint32_t node);

static uint32_t any_ps(struct maker *m);

/* Disks that are full, gone or damaged, and memory that is short. With draws of their own, too. */
static void bad_storage(struct maker *of, struct sim_schedule *s)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "storage");
    m.draws = 0;
    if (!chance(&m, 30) || schedule_freezes(s)) {
        return;
    }
    static const enum sim_fault_kind KINDS[] = {FAULT_ROWS,   FAULT_FULL, FAULT_GONE,
                                                FAULT_DAMAGE, FAULT_PINS, FAULT_TESTS};
    for (uint64_t i = between(&m, 1, 4); i > 0; i--) {
        struct sim_fault *f = add_fault(&m, KINDS[below(&m, sizeof KINDS / sizeof *KINDS)], 0);
        f->number = (uint32_t)below(&m, f->kind == FAULT_DAMAGE ? s->job_count : 2);
        if (f->kind == FAULT_DAMAGE ||
            f->kind == FAULT_GONE) { /* nobody looks until a server dies */
            struct sim_fault *crash = add_fault(&m, FAULT_CRASH, any_ps(&m));
            crash->at_us = f->at_us + about(&m, 1 * SIM_MS, 1 * SIM_S);
            crash->until_us = crash->at_us + about(&m, 1 * SIM_MS, 10 * SIM_S);
        }
    }
}

/* What somebody has given up, and made good since, comes all the same. With draws of their own,
 * too. */
static void late_messages(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "late")};
    bool often = s->mode == SIM_LATE;
    if (!schedule_freezes(s) && (chance(&m, 8) || often)) {
        s->knobs.late_part = (uint32_t)about(&m, often ? 50000 : 2000, often ? 400000 : 100000);
        s->knobs.late_us = (uint32_t)about(&m, 3 * SIM_MS, 6 * SIM_S);
    }
}

/* With draws of their own, too. */
static void short_memory(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "memory")};
    struct sim_knobs *k = &s->knobs;
    if (!chance(&m, 40)) {
        return;
    }
    k->full_part = chance(&m, 50) ? (uint32_t)about(&m, 20000, 700000) : 0;
    k->room_workers = chance(&m, 60) ? (uint32_t)between(&m, 1, 3) : 0;
    k->full_modes_part = chance(&m, 60) ? (uint32_t)about(&m, 100000, 1000000) : 0;
}

/* Memory for gradients that is just enough, and readers who take some of it. With draws of their
 * own, too. */
static void tight_memory(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "gradients")};
    struct sim_knobs *k = &s->knobs;
    if (!chance(&m, 8) && s->mode != SIM_MEMORY) {
        return;
    }
    k->memory_tight = true;
    k->memory_more = chance(&m, 50) ? 0 : (uint32_t)between(&m, 1, 3);
    k->memory_us = (uint32_t)about(&m, 200, 50000);
    k->memory_refused_part = chance(&m, 30) ? (uint32_t)about(&m, 10000, 500000) : 0;
    if (k->reader_part == 0 && chance(&m, 25)) {
        k->reader_part = (uint32_t)about(&m, 20000, 900000);
        k->reader_us = (uint32_t)about(&m, 1000, 500000);
        k->readers_max = (uint32_t)between(&m, 1, 8);
    }
    if (k->break_part == 0 && s->mode == SIM_MEMORY && chance(&m, 40)) {
        k->break_part = (uint32_t)about(&m, 500, 30000);
    }
}

static void refused_connections(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "refused")};
    s->knobs.refused_part = chance(&m, 60) ? (uint32_t)about(&m, 100000, 1000000) : 0;
}

/* Shards that are elsewhere in a new generation: with draws of their own, too. */
static void moved_shards(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "moved")};
    if (chance(&m, 15) && !schedule_freezes(s)) {
        s->knobs.moved_part = (uint32_t)about(&m, 100000, 1000000);
    }
}

/* A job that needs none of its workers goes on when one stops for good between any two pushes,
 * although the master never finds out. Nothing else goes wrong: what would, would end it. */
static void freeze(struct maker *of, struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "freeze")};
    uint32_t whole_steps = s->jobs[0].records / of->step_records;
    if (!of->goes_on || s->job_count > 1 || s->worker_count < 2 || s->ps_count < 2 ||
        whole_steps == 0 || !chance(&m, 35)) {
        return;
    }
    /* At the end of an epoch there may be less than a step, all of it of the one that stops. */
    s->jobs[0].records = whole_steps * of->step_records;
    struct sim_knobs *k = &s->knobs;
    k->tail_part = k->loss_part = k->twice_part = k->break_part = 0;
    /* A server without room for the other workers would leave only the one that stops. */
    k->full_part = k->room_workers = k->full_modes_part = 0;
    s->jobs[0].test_records = 0; /* an evaluation has a chunk for every worker */
    s->fault_count = 0;
    s->spare_count = 0;
    struct sim_fault *f = &s->faults[s->fault_count++];
    uint32_t node = s->ps_count + (uint32_t)between(&m, 1, s->worker_count);
    *f = (struct sim_fault){
        .kind = FAULT_FREEZE, .node = node, .number = (uint32_t)about(&m, 1, 100)};
    if (chance(&m, 80)) { /* the others are steps behind then */
        uint32_t slow = node;
        while (slow == node) {
            slow = s->ps_count + (uint32_t)between(&m, 1, s->worker_count);
        }
        s->faults[s->fault_count++] = (struct sim_fault){.kind = FAULT_SLOW,
                                                         .node = slow,
                                                         .until_us = of->length_us * 2,
                                                         .number = (uint32_t)about(&m, 2, 20)};
    }
    if (chance(&m, 50)) { /* one server lacks more of what it has sent than the last push */
        uint64_t at_us = 5 * SIM_MS + below(&m, of->length_us + 50 * SIM_MS);
        s->faults[s->fault_count++] =
            (struct sim_fault){.kind = FAULT_CUT,
                               .node = node,
                               .other = (uint32_t)between(&m, 1, s->ps_count),
                               .at_us = at_us,
                               .until_us = at_us + 30 * SIM_S};
    }
}

/* Work that lasts longer than every deadline: computations, loads, copies and files of a minute and
 * more. The faults come as they would, at later times. */
static void slow_work(const struct maker *of, struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "slow work")};
    struct sim_knobs *k = &s->knobs;
    uint64_t before = of->length_us * 2 + 1 * SIM_S;
    if (s->job_count > 1 || schedule_freezes(s) || !chance(&m, 4)) {
        return;
    }
    uint64_t steps = of->length_us * s->worker_count / (k->compute_us + 2 * k->delay_us) + 1;
    uint64_t most = 600 * SIM_S / steps; /* or it takes us too long */
    uint64_t compute_us = about(&m, 2 * SIM_S, 90 * SIM_S);
    k->compute_us = (uint32_t)(compute_us < most ? compute_us : most);
    k->load_us = chance(&m, 60) ? (uint32_t)about(&m, 5 * SIM_S, 150 * SIM_S) : k->load_us;
    k->copy_us = chance(&m, 60) ? (uint32_t)about(&m, 1 * SIM_S, 100 * SIM_S) : 0;
    if (chance(&m, 30)) { /* there may be a checkpoint at every step */
        uint64_t file_us = about(&m, 1 * SIM_S, 100 * SIM_S);
        k->file_us = (uint32_t)(file_us < most ? file_us : most);
    }
    k->tail_us =
        k->tail_us < 500000 ? k->tail_us : 500000; /* for minutes: nobody would ever be known */
    k->loss_part = k->loss_part < 2000 ? k->loss_part : 2000;
    uint64_t length = steps * k->compute_us / s->worker_count + 2 * k->load_us + k->copy_us;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        struct sim_fault *f = &s->faults[i];
        uint64_t lasts = f->until_us - f->at_us;
        f->at_us = f->at_us * (length / 1000 + 1) / (before / 1000 + 1);
        f->until_us = f->at_us + lasts;
        f->number = f->kind == FAULT_SLOW ? 2 : f->number;
    }
    /* Each fault may cost all that was computed since the last checkpoint. */
    s->live_us += 4 * (2 * steps * k->compute_us + 10 * (uint64_t)k->load_us +
                       20 * ((uint64_t)k->copy_us + k->file_us));
}

bool schedule_freezes(const struct sim_schedule *s)
{
    for (uint32_t i = 0; i < s->fault_count; i++) {
        if (s->faults[i].kind == FAULT_FREEZE && !s->faults[i].off) {
            return true;
        }
    }
    return false;
}

/* ---- faults ---- */

static uint64_t when(struct maker *m)
{
    uint64_t begin = 5 * SIM_MS;
    if (chance(m, 15)) { /* while it starts */
        return begin + below(m, 4 * (uint64_t)m->s->knobs.load_us + 20 * SIM_MS);
    }
    if (chance(m, 75)) {
        return begin + below(m, m->length_us * 3 / 2 + 100 * SIM_MS);
    }
    return begin + about(m, 10 * SIM_MS, 20 * SIM_S);
}

static struct sim_fault *add_fault(struct maker *m, enum sim_fault_kind kind, uint32_t node)
{
    struct sim_schedule *s = m->s;
    static struct sim_fault spill;
    struct sim_fault *f = s->fault_count < SIM_FAULTS_MAX ? &s->faults[s->fault_count++] : &spill;
    *f = (struct sim_fault){.kind = kind, .node = node, .at_us = when(m)};
    f->until_us = f->at_us + about(m, 1 * SIM_MS, 10 * SIM_S);
    return f;
}

static uint32_t any_ps(struct maker *m)
{
    return (uint32_t)between(m, 1, m->s->ps_count);
}

static uint32_t any_worker(struct maker *m)
{
    return m->s->ps_count + (uint32_t)between(m, 1, m->s->worker_count);
}

static uint32_t any_node(struct maker *m)
{
    return (uint32_t)below(m, 1 + m->s->ps_count + m->s->worker_count);
}

static void crash(struct maker *m, uint32_t node)
{
    if (chance(m, 40)) {
        struct sim_fault *f = add_fault(m, FAULT_MIDSTEP, node);
        f->number = (uint32_t)below(m, 6);
    } else {
        add_fault(m, chance(m, 85) ? FAULT_CRASH : FAULT_LEAVE, node);
    }
}

static void partition(struct maker *m)
{
    struct sim_fault *f = add_fault(m, chance(m, 50) ? FAULT_CUT : FAULT_SPLIT, any_node(m));
    do {
        f->other = any_node(m);
    } while (f->other == f->node);
}

static void slowness(struct maker *m)
{
    if (chance(m, 50)) {
        add_fault(m, FAULT_PAUSE, any_node(m));
    } else {
        struct sim_fault *f = add_fault(m, FAULT_SLOW, any_worker(m));
        f->number = (uint32_t)about(m, 2, 20);
    }
}

static void set(struct maker *m)
{
    static const char *const MODES[] = {"sync", "async", "bounded"};
    struct sim_fault *f = add_fault(m, FAULT_SET, 0);
    uint32_t n = 0;
    f->number = (uint32_t)below(m, m->s->job_count);
    if (chance(m, 75)) {
        snprintf(f->change[n++], SIM_SET_BYTES, "training.mode=%s", MODES[below(m, 3)]);
    }
    if (chance(m, 30)) {
        uint64_t most = m->records_min < 8 ? m->records_min : 8;
        snprintf(f->change[n++], SIM_SET_BYTES, "training.replicas=%u",
                 (unsigned)between(m, 1, most));
    }
    switch (below(m, 8)) {
    case 0:
        snprintf(f->change[n++], SIM_SET_BYTES, "training.staleness=%u",
                 (unsigned)between(m, 1, 4));
        break;
    case 1:
        snprintf(f->change[n++], SIM_SET_BYTES, "training.replicas_to_aggregate=%u",
                 (unsigned)below(m, 4));
        break;
    case 2:
        snprintf(f->change[n++], SIM_SET_BYTES, "training.speculate=%s",
                 chance(m, 60) ? "true" : "false");
        break;
    case 3:
        snprintf(f->change[n++], SIM_SET_BYTES, "training.push_every=%u",
                 (unsigned)between(m, 1, 3));
        break;
    case 4:
        snprintf(f->change[n++], SIM_SET_BYTES, "training.staleness_policy=max_staleness");
        break;
    case 5:
        snprintf(f->change[n++], SIM_SET_BYTES, "training.staleness_policy=none");
        break;
    default:
        if (n == 0) {
            snprintf(f->change[n++], SIM_SET_BYTES, "training.pull_every=%u",
                     (unsigned)between(m, 1, 3));
        }
        break;
    }
}

static void client(struct maker *m)
{
    if (chance(m, 15)) {
        struct sim_fault *f = add_fault(m, FAULT_CANCEL, 0);
        f->number = (uint32_t)below(m, m->s->job_count);
        f->other = (uint32_t)below(m, 2);
    } else if (chance(m, 60)) {
        struct sim_fault *f = add_fault(m, FAULT_CHECKPOINT, 0);
        f->number = (uint32_t)below(m, m->s->job_count);
    } else {
        set(m);
    }
}

/* Drawn last, so that all else of a seed is as it was. */
static void strangers(struct maker *m)
{
    for (uint64_t i = chance(m, 25) ? between(m, 1, 6) : 0; i > 0; i--) {
        struct sim_fault *f =
            add_fault(m, FAULT_STRANGER, chance(m, 50) ? any_ps(m) : any_worker(m));
        f->number = (uint32_t)below(m, 16);
    }
}

/* A worker goes for good, and then a server for a while: the job goes on with who is left. */
static void goes_for_good(const struct maker *of, struct sim_schedule *s)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "gone");
    m.draws = 0;
    if (s->job_count > 1 || s->worker_count < 2 || schedule_freezes(s) ||
        s->fault_count + 2 > SIM_FAULTS_MAX || !chance(&m, 6)) {
        return;
    }
    uint64_t at_us = add_fault(&m, FAULT_LOST, any_worker(&m))->at_us;
    struct sim_fault *crash = add_fault(&m, FAULT_CRASH, any_ps(&m));
    crash->at_us = at_us + about(&m, 1 * SIM_MS, 5 * SIM_S);
    crash->until_us = crash->at_us + about(&m, 1 * SIM_MS, 5 * SIM_S);
}

/* The master hears nothing of a node until just before it would give it up, or just after, and is
 * not given a processor for a moment just then: what it judges may lie in its sockets. */
static void heard_late(const struct maker *of, struct sim_schedule *s)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "heard late");
    m.draws = 0;
    if (schedule_freezes(s) || s->fault_count + 4 > SIM_FAULTS_MAX || !chance(&m, 4)) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        struct sim_fault *cut =
            add_fault(&m, FAULT_CUT, chance(&m, 50) ? any_ps(&m) : any_worker(&m));
        cut->other = 0;
        cut->until_us = cut->at_us + between(&m, 2000, 3100) * SIM_MS;
        uint64_t until_us = cut->until_us;
        struct sim_fault *pause = add_fault(&m, FAULT_PAUSE, 0);
        pause->at_us = until_us + below(&m, 400 * SIM_MS) - 200 * SIM_MS;
        pause->until_us = pause->at_us + about(&m, 5 * SIM_MS, 300 * SIM_MS);
    }
}

/* A worker is lost to the master time and again, and comes back: the same process, with another
 * name and perhaps with what it had. What each said to the other before comes late. With draws of
 * their own, too. */
static void comes_back(const struct maker *of, struct sim_schedule *s)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "comes back");
    m.draws = 0;
    if (s->mode != SIM_LATE || schedule_freezes(s) || s->fault_count + 6 > SIM_FAULTS_MAX ||
        !chance(&m, 60)) {
        return;
    }
    uint32_t worker = any_worker(&m);
    uint64_t at_us = 5 * SIM_MS + below(&m, of->length_us + 100 * SIM_MS);
    for (uint64_t i = between(&m, 2, 6); i > 0; i--) {
        struct sim_fault *cut = add_fault(&m, FAULT_CUT, worker);
        cut->other = 0;
        cut->at_us = at_us;
        cut->until_us = at_us + between(&m, 300, 4500) * SIM_MS;
        at_us = cut->until_us + about(&m, 5 * SIM_MS, 2 * SIM_S);
    }
    s->knobs.late_us = (uint32_t)between(&m, 1 * SIM_S, 6 * SIM_S);
}

/* Clients that ask for traces, several at once, and some go away. With draws of their own, so that
 * all else of a seed is as it was. What `number` says, rounds.c reads. */
static void traces(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "traces");
    m.draws = 0;
    if (!chance(&m, percent)) {
        return;
    }
    uint64_t before_us = 0;
    for (uint64_t i = between(&m, 1, 9); i > 0; i--) {
        struct sim_fault *f = add_fault(&m, FAULT_TRACE, 0);
        uint32_t job = (uint32_t)below(&m, s->job_count);
        uint32_t steps = (uint32_t)about(&m, 1, 33);
        uint32_t tenths = (uint32_t)about(&m, 1, 200); /* of a second */
        f->number = tenths << 6 | (steps - 1) << 1 | job;
        if (before_us > 0 && chance(&m, 25)) {
            f->at_us = before_us + below(&m, 4 * (uint64_t)s->knobs.delay_us);
        }
        before_us = f->at_us;
        f->until_us = f->at_us + (chance(&m, 30) ? about(&m, 1 * SIM_MS, 2 * SIM_S) : 0);
    }
}

static uint32_t most_of_least(const struct sim_schedule *s)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < s->job_count; i++) {
        most = s->jobs[i].least > most ? s->jobs[i].least : most;
    }
    return most;
}

static void put_priority(struct sim_job_plan *job)
{
    size_t n = strlen(job->text);
    (void)snprintf(job->text + n, sizeof job->text - n, "priority: %d\n", (int)job->priority);
}

/* Owners, priorities, quotas, preemption, and clients who pause jobs. With draws of their own, so
 * that all else of a seed is as it was. */
static void fair_use(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    struct sim_fair *f = &s->fair;
    m.key = rng_key(s->seed, "fair");
    m.draws = 0;
    if (schedule_freezes(s) || !chance(&m, percent)) {
        return;
    }
    f->on = true;
    bool priorities = chance(&m, 70);
    bool one_owner = chance(&m, 60);
    for (uint32_t i = 0; i < s->job_count; i++) {
        s->jobs[i].owner = one_owner ? 1 : 1 + (uint32_t)below(&m, 2);
        s->jobs[i].priority = priorities ? (int32_t)between(&m, 0, 4) - 2 : 0;
        if (s->jobs[i].priority != 0) {
            put_priority(&s->jobs[i]);
        }
    }
    f->running_max = chance(&m, 30) ? (uint32_t)between(&m, 1, 2) : 0;
    uint32_t nodes = s->worker_count + s->spare_count;
    f->workers_max = chance(&m, 30) ? (uint32_t)between(&m, most_of_least(s), nodes) : 0;
    /* What the largest job takes alone, and a little more. */
    f->memory_max = chance(&m, 30) ? (uint32_t)between(&m, 1320, 1500) : 0;
    f->preemption = chance(&m, 60);
    f->preempt_after_ms = chance(&m, 30) ? 0 : (uint32_t)about(&m, 20, 3000);
    for (uint64_t i = below(&m, 5); i > 0; i--) {
        struct sim_fault *pause = add_fault(&m, FAULT_SUSPEND, 0);
        pause->number = (uint32_t)below(&m, s->job_count);
        pause->other = chance(&m, 15);
    }
}

/* With draws of their own, so that all else of a seed is as it was. */
static void some_tables(struct sim_schedule *s, uint32_t percent)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "tables")};
    for (uint32_t i = 0; i < s->job_count; i++) {
        s->jobs[i].tables = chance(&m, percent);
    }
}

enum trouble {
    BAD_NETWORK,
    BAD_MACHINES,
    WORKERS_DIE,
    SERVERS_DIE,
    MASTER_DIES,
    SLOWNESS,
    PARTITIONS,
    CLIENTS,
    TROUBLE_COUNT
};

static void make_trouble(struct maker *m, enum trouble kind, uint64_t times)
{
    if (kind == BAD_NETWORK) {
        bad_network(m);
        return;
    }
    if (kind == BAD_MACHINES) {
        bad_machines(m);
        return;
    }
    for (uint64_t i = 0; i < times; i++) {
        switch (kind) {
        case WORKERS_DIE:
            crash(m, any_worker(m));
            break;
        case SERVERS_DIE:
            crash(m, any_ps(m));
            break;
        case MASTER_DIES:
            crash(m, 0);
            break;
        case SLOWNESS:
            slowness(m);
            break;
        case PARTITIONS:
            if (chance(m, 20)) {
                struct sim_fault *f = add_fault(m, FAULT_BREAK, any_ps(m));
                f->other = any_worker(m);
            } else {
                partition(m);
            }
            break;
        default:
            client(m);
            break;
        }
    }
}

static void make_faults(struct maker *m)
{
    uint64_t kind = below(m, 20);
    if (kind == 0) {
        return; /* a calm day */
    }
    if (kind < 11) { /* one kind of trouble, and perhaps a second one */
        make_trouble(m, (enum trouble)below(m, TROUBLE_COUNT), between(m, 1, 5));
        if (chance(m, 50)) {
            make_trouble(m, (enum trouble)below(m, TROUBLE_COUNT), between(m, 1, 2));
        }
        return;
    }
    for (uint32_t i = 0; i < TROUBLE_COUNT; i++) {
        if (chance(m, 45)) {
            make_trouble(m, (enum trouble)i, between(m, 1, 4));
        }
    }
}

/* What a seed of all modes is, for ever. Half of them are of any mode, as they come. */
static enum sim_mode mode_of(uint64_t seed)
{
    static const enum sim_mode MODES[] = {SIM_ANY,       SIM_SUMS,  SIM_ANY,     SIM_SYNC,
                                          SIM_PARTIAL,   SIM_SUMS,  SIM_ANY,     SIM_ANY,
                                          SIM_SPECULATE, SIM_ASYNC, SIM_BOUNDED, SIM_CHANGE};
    return MODES[seed % (sizeof MODES / sizeof *MODES)];
}

void schedule_make(uint64_t seed, enum sim_mode mode, struct sim_schedule *s)
{
    const uint32_t traced_percent = mode == SIM_TRACED ? 100 : mode == SIM_ALL ? 8 : 0;
    const uint32_t tables_percent = mode == SIM_TABLES ? 100 : mode == SIM_ALL ? 12 : 0;
    const uint32_t fair_percent = mode == SIM_FAIR ? 100 : mode == SIM_ALL ? 12 : 0;
    mode = mode == SIM_ALL ? mode_of(seed) : mode;
    struct maker m = {.s = s, .key = rng_key(seed, "schedule"), .records_min = UINT64_MAX};
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->mode = mode;
    if (mode == SIM_TRACED) {
        mode = mode_of(seed);
    }
    if (mode == SIM_LATE) {
        mode = chance(&m, 50) ? SIM_BOUNDED : SIM_ANY;
    } else if (mode == SIM_MEMORY || mode == SIM_FAIR || mode == SIM_TABLES) {
        mode = mode_of(seed);
    }
    s->ps_count = (uint32_t)between(&m, mode == SIM_SUMS ? 2 : 1, SIM_SHARDS_MAX);
    s->worker_count = (uint32_t)between(&m, 1, 4);
    s->spare_count = chance(&m, 30) ? (uint32_t)between(&m, 1, 2) : 0;
    uint32_t two_jobs = s->mode == SIM_FAIR ? 85 : s->mode == SIM_MEMORY ? 40 : 10;
    s->job_count = chance(&m, two_jobs) && s->worker_count > 1 ? 2 : 1;
    if (s->mode == SIM_FAIR && s->job_count == 2 && chance(&m, 50)) {
        s->job_count = 3;
    }
    if (mode == SIM_ANY && chance(&m, 15)) {
        mode = SIM_CHANGE;
    }
    make_knobs(&m);
    for (uint32_t i = 0; i < s->job_count; i++) {
        make_job(&m, i, mode);
    }
    make_faults(&m);
    if (s->mode == SIM_LATE) {
        crash(&m, 0);
    }
    early_answers(s);
    short_memory(s);
    tight_memory(s);
    refused_connections(s);
    for (uint32_t i = 0; i < s->spare_count; i++) {
        add_fault(&m, FAULT_JOIN, 1 + s->ps_count + s->worker_count + i);
    }
    if (mode == SIM_CHANGE) {
        for (uint64_t i = between(&m, 1, 4); i > 0; i--) {
            set(&m);
        }
    }
    freeze(&m, s);
    bad_storage(&m, s);
    if (!schedule_freezes(s)) {
        strangers(&m);
    }
    late_messages(s);
    moved_shards(s);
    goes_for_good(&m, s);
    heard_late(&m, s);
    comes_back(&m, s);
    traces(&m, s, traced_percent);
    fair_use(&m, s, fair_percent);
    some_tables(s, tables_percent);
    uint64_t steps = m.length_us * s->worker_count / s->knobs.compute_us + 1;
    s->live_us = LIVE_US + 4 * steps * s->knobs.file_us; /* there may be a checkpoint at each */
    s->live_us *= s->fair.on ? 2 : 1; /* jobs run one after the other, and stop for others */
    slow_work(&m, s);
    s->quiet_us = m.length_us * 2 + 1 * SIM_S;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        uint64_t until =
            s->faults[i].kind == FAULT_JOIN ? s->faults[i].at_us : s->faults[i].until_us;
        s->quiet_us = until > s->quiet_us ? until : s->quiet_us;
    }
}
