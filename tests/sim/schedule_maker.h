/* SPDX-License-Identifier: Apache-2.0 */
/* How schedules are drawn: what the files schedule*.c share. */
#ifndef GRADUS_SIM_SCHEDULE_MAKER_H
#define GRADUS_SIM_SCHEDULE_MAKER_H

#include <math.h>

#include "base/rng.h"
#include "sim/sim.h"

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

static inline uint64_t below(struct maker *m, uint64_t n)
{
    return rng_below(m->key, m->draws++, n);
}

static inline uint64_t between(struct maker *m, uint64_t low, uint64_t high)
{
    return low + below(m, high - low + 1);
}

static inline bool chance(struct maker *m, uint32_t percent)
{
    return below(m, 100) < percent;
}

/* As likely between 1 and 10 as between 10 and 100. */
static inline uint64_t about(struct maker *m, uint64_t low, uint64_t high)
{
    double u = rng_uniform(m->key, m->draws++);
    return (uint64_t)((double)low * exp(u * log((double)high / (double)low)));
}

/* schedule_jobs.c */
void maker_job(struct maker *m, uint32_t index, enum sim_mode mode);

/* schedule_machines.c */
void maker_knobs(struct maker *m);
void maker_bad_network(struct maker *m);
void maker_bad_machines(struct maker *m);
void maker_early_answers(struct sim_schedule *s);
void maker_bad_storage(struct maker *of, struct sim_schedule *s);
void maker_late_messages(struct sim_schedule *s);
void maker_short_memory(struct sim_schedule *s);
void maker_tight_memory(struct sim_schedule *s);
void maker_refused_connections(struct sim_schedule *s);
void maker_moved_shards(struct sim_schedule *s);
void maker_freeze(struct maker *of, struct sim_schedule *s);
void maker_standby(const struct maker *of, struct sim_schedule *s, uint32_t percent);
bool schedule_has_backups(const struct sim_schedule *s);
void maker_drain(const struct maker *of, struct sim_schedule *s, uint32_t percent);
void maker_ends(const struct maker *of, struct sim_schedule *s, uint32_t percent);
void maker_slow_work(const struct maker *of, struct sim_schedule *s);

/* schedule_servers.c */
void maker_servers(const struct maker *of, struct sim_schedule *s, uint32_t percent);

/* schedule_still.c */
void maker_beats(struct sim_schedule *s);
void maker_still(const struct maker *of, struct sim_schedule *s, uint32_t percent);

/* schedule.c */
struct sim_fault *maker_fault(struct maker *m, enum sim_fault_kind kind, uint32_t node);
uint32_t maker_any_ps(struct maker *m);
void maker_crash(struct maker *m, uint32_t node);

#endif
