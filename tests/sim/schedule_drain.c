/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that clients empty, and servers that are told to end, while jobs run. */
#include "sim/schedule_maker.h"

static void drain(struct maker *m, uint64_t length_us)
{
    struct sim_schedule *s = m->s;
    const bool server = chance(m, 70);
    const uint32_t node =
        server ? maker_any_ps(m) : s->ps_count + (uint32_t)between(m, 1, s->worker_count);
    struct sim_fault *f = maker_fault(m, FAULT_DRAIN, node);
    f->number = (uint32_t)below(m, 2);
    f->at_us = 5 * SIM_MS + 4 * (uint64_t)s->knobs.load_us + below(m, length_us / 2 + 50 * SIM_MS);
    f->until_us = f->at_us + about(m, 100 * SIM_MS, 20 * SIM_S);
}

/* With draws of their own, so that all else of a seed is as it was. */
void maker_drain(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "drain");
    m.draws = 0;
    if (schedule_freezes(s) || !chance(&m, percent)) {
        return;
    }
    for (uint64_t i = between(&m, 1, 5); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        drain(&m, of->length_us);
    }
    if (s->mode != SIM_DRAIN) {
        return;
    }
    for (uint64_t i = below(&m, 4); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        struct sim_fault *f = maker_fault(&m, chance(&m, 50) ? FAULT_MIDSTEP : FAULT_CRASH, 0);
        f->number = (uint32_t)below(&m, 6);
        f->until_us = f->at_us + about(&m, 1 * SIM_MS, 1 * SIM_S);
    }
    if (chance(&m, 20)) {
        maker_fault(&m, FAULT_ROWS, 0);
    }
    if (s->knobs.ps_timeout_ms == 0) {
        s->knobs.ps_timeout_ms = 60000;
    }
}

/* A client takes a drain of it back, it is killed, or another one is to end, too. */
static void meanwhile(struct maker *m, const struct sim_fault *end)
{
    const uint64_t at_us = end->at_us + below(m, 300 * SIM_MS);
    if (chance(m, 30)) {
        struct sim_fault *f = maker_fault(m, FAULT_DRAIN, end->node);
        f->at_us = at_us - (end->at_us > 150 * SIM_MS ? 150 * SIM_MS : 0);
        f->until_us = f->at_us + about(m, 1 * SIM_MS, 3 * SIM_S);
    }
    if (chance(m, 15)) {
        struct sim_fault *f = maker_fault(m, FAULT_CRASH, end->node);
        f->at_us = end->at_us + about(m, 1 * SIM_MS, 5 * SIM_S);
        f->until_us = f->at_us + about(m, 1 * SIM_MS, 5 * SIM_S);
    }
    if (chance(m, 20)) {
        struct sim_fault *f = maker_fault(m, FAULT_CRASH, 0);
        f->at_us = end->at_us + about(m, 1 * SIM_MS, 5 * SIM_S);
        f->until_us = f->at_us + about(m, 1 * SIM_MS, 5 * SIM_S);
    }
}

/* Servers that are told to end: one, several at a time, or in turn, as in an update. Likewise. */
void maker_ends(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "ends");
    m.draws = 0;
    if (schedule_freezes(s) || !chance(&m, percent)) {
        return;
    }
    uint32_t node = maker_any_ps(&m);
    uint64_t most_us = 0;
    uint64_t at_us =
        5 * SIM_MS + 4 * (uint64_t)s->knobs.load_us + below(&m, of->length_us / 2 + 50 * SIM_MS);
    for (uint64_t i = between(&m, 1, 4); i > 0 && s->fault_count < SIM_FAULTS_MAX - 3; i--) {
        struct sim_fault *f = maker_fault(&m, FAULT_END, node);
        f->at_us = at_us;
        const bool patient = chance(&m, 30);
        f->until_us = at_us + about(&m, patient ? 50 * SIM_S : 300 * SIM_MS, 200 * SIM_S);
        most_us = f->until_us - at_us > most_us ? f->until_us - at_us : most_us;
        meanwhile(&m, f);
        at_us += chance(&m, 50) ? below(&m, 60 * SIM_MS) : about(&m, 60 * SIM_MS, 5 * SIM_S);
        node = 1 + node % s->ps_count;
    }
    s->live_us += most_us;
}
