/* SPDX-License-Identifier: Apache-2.0 */
/* From a seed to a schedule: what goes wrong when, on which machines, with which jobs. */
#include "sim/schedule_maker.h"

#include <stdio.h>
#include <string.h>

const char *const sim_mode_names[SIM_MODE_COUNT] = {
#define X(NAME, name) #name,
    SIM_MODES(X)
#undef X
};

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

struct sim_fault *maker_fault(struct maker *m, enum sim_fault_kind kind, uint32_t node)
{
    struct sim_schedule *s = m->s;
    static struct sim_fault spill;
    struct sim_fault *f = s->fault_count < SIM_FAULTS_MAX ? &s->faults[s->fault_count++] : &spill;
    *f = (struct sim_fault){.kind = kind, .node = node, .at_us = when(m)};
    f->until_us = f->at_us + about(m, 1 * SIM_MS, 10 * SIM_S);
    return f;
}

uint32_t maker_any_ps(struct maker *m)
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

void maker_crash(struct maker *m, uint32_t node)
{
    if (chance(m, 40)) {
        struct sim_fault *f = maker_fault(m, FAULT_MIDSTEP, node);
        f->number = (uint32_t)below(m, 6);
    } else {
        maker_fault(m, chance(m, 85) ? FAULT_CRASH : FAULT_LEAVE, node);
    }
}

static void partition(struct maker *m)
{
    struct sim_fault *f = maker_fault(m, chance(m, 50) ? FAULT_CUT : FAULT_SPLIT, any_node(m));
    do {
        f->other = any_node(m);
    } while (f->other == f->node);
}

static void slowness(struct maker *m)
{
    if (chance(m, 50)) {
        maker_fault(m, FAULT_PAUSE, any_node(m));
    } else {
        struct sim_fault *f = maker_fault(m, FAULT_SLOW, any_worker(m));
        f->number = (uint32_t)about(m, 2, 20);
    }
}

static void set(struct maker *m)
{
    static const char *const MODES[] = {"sync", "async", "bounded"};
    struct sim_fault *f = maker_fault(m, FAULT_SET, 0);
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
        struct sim_fault *f = maker_fault(m, FAULT_CANCEL, 0);
        f->number = (uint32_t)below(m, m->s->job_count);
        f->other = (uint32_t)below(m, 2);
    } else if (chance(m, 60)) {
        struct sim_fault *f = maker_fault(m, FAULT_CHECKPOINT, 0);
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
            maker_fault(m, FAULT_STRANGER, chance(m, 50) ? maker_any_ps(m) : any_worker(m));
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
    uint64_t at_us = maker_fault(&m, FAULT_LOST, any_worker(&m))->at_us;
    struct sim_fault *crash = maker_fault(&m, FAULT_CRASH, maker_any_ps(&m));
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
            maker_fault(&m, FAULT_CUT, chance(&m, 50) ? maker_any_ps(&m) : any_worker(&m));
        cut->other = 0;
        cut->until_us = cut->at_us + between(&m, 2000, 3100) * SIM_MS;
        uint64_t until_us = cut->until_us;
        struct sim_fault *pause = maker_fault(&m, FAULT_PAUSE, 0);
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
        struct sim_fault *cut = maker_fault(&m, FAULT_CUT, worker);
        cut->other = 0;
        cut->at_us = at_us;
        cut->until_us = at_us + between(&m, 300, 4500) * SIM_MS;
        at_us = cut->until_us + about(&m, 5 * SIM_MS, 2 * SIM_S);
    }
    s->knobs.late_us = (uint32_t)between(&m, 1 * SIM_S, 6 * SIM_S);
}

/* A server ends for a while: all start again, and what was said of the start before comes late.
 * With draws of their own, too. */
static void lose_server(const struct maker *of, struct sim_schedule *s)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "lose server");
    m.draws = 0;
    if (s->mode != SIM_LATE || schedule_freezes(s)) {
        return;
    }
    for (uint64_t i = chance(&m, 50) ? between(&m, 1, 3) : 0; i > 0; i--) {
        struct sim_fault *f = maker_fault(&m, FAULT_CRASH, maker_any_ps(&m));
        f->at_us = 5 * SIM_MS + below(&m, of->length_us + 100 * SIM_MS);
        f->until_us = f->at_us + about(&m, 1 * SIM_MS, 5 * SIM_S);
    }
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
        struct sim_fault *f = maker_fault(&m, FAULT_TRACE, 0);
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

/* Readers of running jobs. With draws of their own, too. */
static void followers(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "followers");
    m.draws = 0;
    s->knobs.followers = chance(&m, percent) ? (uint32_t)between(&m, 1, SIM_FOLLOWERS_MAX) : 0;
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
    f->memory_max *= schedule_has_backups(s) ? 3 : 1; /* with what their primaries say */
    f->preemption = chance(&m, 60);
    f->preempt_after_ms = chance(&m, 30) ? 0 : (uint32_t)about(&m, 20, 3000);
    for (uint64_t i = below(&m, 5); i > 0; i--) {
        struct sim_fault *pause = maker_fault(&m, FAULT_SUSPEND, 0);
        pause->number = (uint32_t)below(&m, s->job_count);
        pause->other = chance(&m, 15);
    }
}

/* Jobs that end for something, and clients that resume them, also those that have succeeded. With
 * draws of their own, too. */
static void resumed(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "resumed");
    m.draws = 0;
    if (schedule_freezes(s) || !chance(&m, percent)) {
        return;
    }
    for (uint32_t i = 0; i < s->job_count; i++) {
        s->jobs[i].again = (uint32_t)between(&m, 0, 3);
        s->jobs[i].more = chance(&m, 50) ? (uint32_t)between(&m, 1, 2) : 0;
    }
    for (uint64_t i = below(&m, 4); i > 0; i--) {
        bool raises = chance(&m, 40);
        struct sim_fault *f = maker_fault(&m, raises ? FAULT_RAISE : FAULT_CANCEL, 0);
        f->number = (uint32_t)below(&m, s->job_count);
        f->other = raises ? 0 : (uint32_t)below(&m, 2);
    }
    for (uint64_t i = below(&m, 3); i > 0; i--) {
        maker_crash(&m, chance(&m, 50) ? 0 : any_node(&m));
    }
}

/* Clients that change what counts for later versions: while it trains, waits, or has ended; beside
 * crashes. With draws of their own, too. */
static void updates(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    static const char *const RATES[] = {"0.5", "0.25", "0.125", "0.0625", "0.03125"};
    struct maker m = *of;
    m.key = rng_key(s->seed, "updates");
    m.draws = 0;
    if (!chance(&m, percent)) {
        return;
    }
    s->updates = true;
    for (uint64_t i = between(&m, 1, 6); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        struct sim_fault *f = maker_fault(&m, FAULT_SET, 0);
        uint32_t n = 0;
        f->number = (uint32_t)below(&m, s->job_count);
        if (chance(&m, 80)) {
            snprintf(f->change[n++], SIM_SET_BYTES, "update.learning_rate=%s", RATES[below(&m, 5)]);
        }
        if (n == 0 || chance(&m, 30)) {
            snprintf(f->change[n++], SIM_SET_BYTES, "update.clip_norm=%u", (unsigned)below(&m, 3));
        }
        if (chance(&m, 10)) {
            snprintf(f->change[n++], SIM_SET_BYTES, "training.checkpoints_keep.last=%u",
                     (unsigned)between(&m, 1, 4));
        }
    }
    if (schedule_freezes(s) || s->mode == SIM_STILL) {
        return;
    }
    for (uint64_t i = below(&m, 4); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        maker_crash(&m, any_node(&m));
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

/* Likewise; the jobs are made after it. */
static void some_given(struct sim_schedule *s, uint32_t percent)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "given")};
    for (uint32_t i = 0; i < s->job_count; i++) {
        s->jobs[i].given = chance(&m, percent);
        s->jobs[i].from = s->jobs[i].given && chance(&m, 50);
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
        maker_bad_network(m);
        return;
    }
    if (kind == BAD_MACHINES) {
        maker_bad_machines(m);
        return;
    }
    for (uint64_t i = 0; i < times; i++) {
        switch (kind) {
        case WORKERS_DIE:
            maker_crash(m, any_worker(m));
            break;
        case SERVERS_DIE:
            maker_crash(m, maker_any_ps(m));
            break;
        case MASTER_DIES:
            maker_crash(m, 0);
            break;
        case SLOWNESS:
            slowness(m);
            break;
        case PARTITIONS:
            if (chance(m, 20)) {
                struct sim_fault *f = maker_fault(m, FAULT_BREAK, maker_any_ps(m));
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
    const bool all = mode == SIM_ALL;
    const uint32_t some = all || mode == SIM_STANDBY ? 12 : 0;
    const uint32_t traced_percent = mode == SIM_TRACED ? 100 : all ? 8 : 0;
    const uint32_t tables_percent = mode == SIM_TABLES    ? 100
                                    : mode == SIM_STILL   ? 50
                                    : mode == SIM_STANDBY ? 30
                                    : all                 ? 12
                                                          : 0;
    const uint32_t given_percent = mode == SIM_GIVEN ? 100 : some;
    const uint32_t fair_percent = mode == SIM_FAIR ? 100 : some;
    const uint32_t still_percent = mode == SIM_STILL ? 100 : all ? 12 : 0;
    const uint32_t updates_percent = mode == SIM_UPDATES ? 100 : some;
    const uint32_t standby_percent = mode == SIM_STANDBY ? 100 : mode == SIM_DRAIN ? 40 : some;
    const uint32_t drain_percent = mode == SIM_DRAIN     ? 100
                                   : mode == SIM_STANDBY ? 40
                                   : mode == SIM_ANY     ? 6
                                                         : some;
    const uint32_t ends_percent = mode == SIM_DRAIN     ? 60
                                  : mode == SIM_STANDBY ? 30
                                  : mode == SIM_ANY     ? 6
                                                        : some;
    const uint32_t again_percent = mode == SIM_RESUMED ? 100 : some;
    const uint32_t servers_percent = mode == SIM_CHANGE ? 60 : all || mode == SIM_STILL ? 12 : 30;
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
    } else if (mode == SIM_MEMORY || mode == SIM_FAIR || mode == SIM_TABLES || mode == SIM_GIVEN ||
               mode == SIM_RESUMED || mode == SIM_UPDATES || mode == SIM_STILL ||
               mode == SIM_STANDBY || mode == SIM_DRAIN) {
        mode = mode_of(seed);
    }
    const bool several = mode == SIM_SUMS || s->mode == SIM_STANDBY || s->mode == SIM_DRAIN;
    s->ps_count = (uint32_t)between(&m, several ? 2 : 1, SIM_SHARDS_MAX);
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
    maker_knobs(&m);
    s->knobs.compute_us *= s->mode == SIM_DRAIN ? 8 : 1; /* jobs are to last */
    const bool lasts = s->mode == SIM_DRAIN && seed % 8 == 3;
    if (lasts) {
        s->knobs.compute_us = 1 * SIM_S; /* longer than a server may wait */
    }
    some_given(s, given_percent);
    for (uint32_t i = 0; i < s->job_count; i++) {
        maker_job(&m, i, mode);
    }
    if (s->mode == SIM_STILL || (s->mode == SIM_DRAIN && seed % 3 != 0)) {
        static const enum trouble HARMLESS[] = {SLOWNESS, CLIENTS, WORKERS_DIE};
        make_trouble(&m, HARMLESS[below(&m, 3)], below(&m, 3));
    } else {
        make_faults(&m);
    }
    if (s->mode == SIM_LATE) {
        maker_crash(&m, 0);
    }
    maker_early_answers(s);
    maker_short_memory(s);
    maker_tight_memory(s);
    maker_refused_connections(s);
    maker_beats(s);
    for (uint32_t i = 0; i < s->spare_count; i++) {
        maker_fault(&m, FAULT_JOIN, 1 + s->ps_count + s->worker_count + i);
    }
    if (mode == SIM_CHANGE) {
        for (uint64_t i = between(&m, 1, 4); i > 0; i--) {
            set(&m);
        }
    }
    if (s->mode != SIM_STILL && !lasts) { /* a job that is to stand waits for all its workers */
        maker_freeze(&m, s);
    }
    if (s->mode != SIM_STILL) {
        maker_bad_storage(&m, s);
    }
    if (s->mode != SIM_STILL && !schedule_freezes(s)) {
        strangers(&m);
    }
    maker_late_messages(s);
    maker_moved_shards(s);
    if (s->mode != SIM_STILL) {
        goes_for_good(&m, s);
    }
    heard_late(&m, s);
    comes_back(&m, s);
    lose_server(&m, s);
    traces(&m, s, traced_percent);
    followers(&m, s, s->mode == SIM_TABLES ? 60 : 25);
    some_tables(s, tables_percent);
    maker_standby(&m, s, standby_percent);
    fair_use(&m, s, fair_percent);
    resumed(&m, s, again_percent);
    updates(&m, s, updates_percent);
    maker_servers(&m, s, servers_percent);
    uint64_t steps = m.length_us * s->worker_count / s->knobs.compute_us + 1;
    s->live_us = LIVE_US + 4 * steps * s->knobs.file_us; /* there may be a checkpoint at each */
    s->live_us *= s->fair.on ? 2 : 1; /* jobs run one after the other, and stop for others */
    maker_slow_work(&m, s);
    maker_still(&m, s, still_percent); /* minutes are minutes, however slow the work is */
    maker_drain(&m, s, drain_percent);
    maker_ends(&m, s, ends_percent);
    s->quiet_us = m.length_us * 2 + 1 * SIM_S;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        const bool at_once = s->faults[i].kind == FAULT_JOIN || s->faults[i].kind == FAULT_END;
        uint64_t until = at_once ? s->faults[i].at_us : s->faults[i].until_us;
        s->quiet_us = until > s->quiet_us ? until : s->quiet_us;
    }
}
