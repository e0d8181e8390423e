/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that get no processor for a time, each alone or many at once, and then go on with what
 * has piled up. A parameter server with shards is waited for so long. */
#include "sim/schedule_maker.h"

#include <stdio.h>

#define BREAKS_US                                                                                  \
    (15 * SIM_S) /* so long nothing answers, and whoever waits resets the connection */
#define MARGIN_US (25 * SIM_S) /* until it is heard again, whatever is lost */
#define STOPS_MAX 5

static struct sim_fault *add(struct maker *m, enum sim_fault_kind kind, uint32_t node,
                             uint64_t at_us, uint64_t until_us)
{
    if (m->s->fault_count == SIM_FAULTS_MAX) {
        return NULL;
    }
    struct sim_fault *f = maker_fault(m, kind, node);
    f->at_us = at_us;
    f->until_us = until_us;
    return f;
}

/* Meanwhile its connections are reset, another process wants its name, and what somebody saw at its
 * address a moment before it spoke comes to the master. */
static void stops(struct maker *m, uint32_t node, uint64_t at_us, uint64_t lasts_us, bool copies)
{
    uint32_t nodes = 1 + m->s->ps_count + m->s->worker_count;
    add(m, FAULT_PAUSE, node, at_us, at_us + lasts_us);
    if (lasts_us > BREAKS_US && chance(m, 50)) {
        struct sim_fault *f = add(m, FAULT_BREAK, node, at_us + BREAKS_US, at_us + BREAKS_US);
        if (f != NULL) {
            f->other = (uint32_t)below(m, nodes);
        }
    }
    if (node != 0 && copies && chance(m, 40)) {
        uint64_t most = lasts_us < 5 * SIM_S ? lasts_us : 5 * SIM_S;
        uint64_t copy_us = at_us + below(m, most + 1);
        add(m, FAULT_COPY, node, copy_us, copy_us);
    }
    if (node != 0 && chance(m, 40)) {
        uint64_t probe_us = at_us + lasts_us + below(m, 3 * SIM_S);
        add(m, FAULT_PROBE, node, probe_us, probe_us);
    }
}

/* One of them, or half, or all. */
static void stand_still(struct maker *m, uint64_t most_us, bool copies)
{
    uint32_t nodes = 1 + m->s->ps_count + m->s->worker_count;
    uint64_t at_us = 5 * SIM_MS + below(m, m->length_us + 100 * SIM_MS);
    uint64_t lasts_us = chance(m, 40) ? most_us - below(m, most_us / 4) : about(m, SIM_MS, most_us);
    uint32_t part = chance(m, 50) ? 0 : chance(m, 70) ? 50 : 100;
    uint32_t one = chance(m, 60) ? maker_any_ps(m) : (uint32_t)below(m, nodes);
    for (uint32_t i = 0; i < nodes; i++) {
        if (part == 0 ? i == one : chance(m, part)) {
            uint64_t later_us = chance(m, 50) ? 0 : below(m, 2 * SIM_S);
            stops(m, i, at_us + later_us, lasts_us, copies);
        }
    }
}

/* Clients change a job's mode just before. */
static void changes(struct maker *m, uint64_t before_us)
{
    static const char *const MODES[] = {"sync", "async", "bounded"};
    const uint64_t at_us =
        before_us - below(m, before_us < 300 * SIM_MS ? before_us : 300 * SIM_MS);
    struct sim_fault *f = add(m, FAULT_SET, 0, at_us, at_us);
    if (f != NULL) {
        f->number = (uint32_t)below(m, m->s->job_count);
        snprintf(f->change[0], SIM_SET_BYTES, "training.mode=%s", MODES[below(m, 3)]);
    }
}

/* It is started again, perhaps while others stand still. With draws of their own, so that all else
 * of a seed is as it was. */
static void master_dies(const struct maker *of)
{
    struct maker m = *of;
    m.key = rng_key(m.s->seed, "master dies");
    m.draws = 0;
    if (chance(&m, 30)) {
        m.s->knobs.file_us = (uint32_t)about(&m, 50000, 300000);
    }
    for (uint64_t i = chance(&m, 60) ? between(&m, 1, 4) : 0; i > 0; i--) {
        const bool midstep = chance(&m, 50);
        const uint64_t at_us = 5 * SIM_MS + below(&m, m.length_us * 3 / 2 + 100 * SIM_MS);
        /* what it has asked for may still be under way when the next one asks */
        const uint64_t until_us =
            at_us + about(&m, 1 * SIM_MS, chance(&m, 50) ? 20 * SIM_MS : 10 * SIM_S);
        struct sim_fault *f = add(&m, midstep ? FAULT_MIDSTEP : FAULT_CRASH, 0, at_us, until_us);
        if (f != NULL) {
            f->number = (uint32_t)below(&m, 8);
        }
        if (chance(&m, 30)) {
            changes(&m, at_us);
        }
    }
}

/* What else there is would cost a server its memory or its shard. */
static void calm_down(struct maker *m, struct sim_knobs *k)
{
    k->full_part = k->room_workers = k->full_modes_part = k->late_part = 0;
    k->loss_part = k->loss_part < 10000 ? k->loss_part : 10000;
    k->tail_us = k->tail_us < 200000 ? k->tail_us : 200000;
    (void)m;
}

/* Any interval that the master takes, or the one that comes of itself. With draws of its own. */
void maker_beats(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "beats")};
    s->knobs.beat_ms = chance(&m, 50) ? 0 : (uint32_t)between(&m, 300, 1400);
    if (s->mode == SIM_LATE) { /* a worker that is lost is told anew when the old things come */
        s->knobs.beat_ms = 1000;
    }
}

void maker_still(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "still");
    m.draws = 0;
    bool only = s->mode == SIM_STILL;
    if (schedule_freezes(s) || !chance(&m, percent)) {
        return;
    }
    uint64_t times = between(&m, 1, STOPS_MAX);
    s->knobs.ps_timeout_ms = (uint32_t)about(&m, only ? 40000 : 4000, 130000);
    uint64_t timeout_us = s->knobs.ps_timeout_ms * SIM_MS;
    uint64_t most_us = timeout_us;
    if (only) {
        calm_down(&m, &s->knobs);
        times = chance(&m, 50) ? 1 : times;
        most_us = (timeout_us - MARGIN_US) / times;
        most_us = chance(&m, 15) ? timeout_us * 2 : most_us; /* that is too long for anybody */
    }
    bool copies = !only || chance(&m, 20);
    for (uint64_t i = 0; i < times; i++) {
        stand_still(&m, most_us, copies);
    }
    if (only) {
        master_dies(&m);
    }
    s->live_us += 4 * timeout_us;
}

/* ---- how long servers are not heard ---- */

/* Of what cannot cost anybody a shard, how long may it keep a server's heartbeats away? */
static bool is_harmless(const struct sim_schedule *s, const struct sim_fault *f, uint32_t server,
                        uint64_t *silent_us)
{
    bool of_it = f->node == server || f->other == server;
    bool with_master = f->node == 0 || f->other == 0;
    switch (f->kind) {
    case FAULT_PAUSE:
        *silent_us += f->node == server ? f->until_us - f->at_us : 0;
        return true;
    case FAULT_CUT:
    case FAULT_SPLIT:
        *silent_us += of_it && with_master ? f->until_us - f->at_us : 0;
        return true;
    case FAULT_CRASH:
    case FAULT_MIDSTEP: /* a master that is away hears nobody, and holds that against nobody */
    case FAULT_LEAVE:
        return f->node == 0 || f->node > s->ps_count; /* the master, or a worker */
    case FAULT_SLOW:
    case FAULT_BREAK:
    case FAULT_JOIN:
    case FAULT_CHECKPOINT:
    case FAULT_CANCEL:
    case FAULT_SET:
    case FAULT_TRACE:
    case FAULT_PROBE:
    case FAULT_DRAIN:
        return true;
    default:
        return false;
    }
}

bool schedule_is_steady(const struct sim_schedule *s)
{
    const struct sim_knobs *k = &s->knobs;
    bool room = k->full_part == 0 && k->room_workers == 0 && k->full_modes_part == 0;
    if (k->ps_timeout_ms == 0 || !room || k->late_part > 0 || s->fair.on) {
        return false;
    }
    for (uint32_t server = 1; server <= s->ps_count; server++) {
        uint64_t silent_us = MARGIN_US / 2;
        for (uint32_t i = 0; i < s->fault_count; i++) {
            if (!s->faults[i].off && !is_harmless(s, &s->faults[i], server, &silent_us)) {
                return false;
            }
        }
        if (silent_us > k->ps_timeout_ms * SIM_MS * 9 / 10) { /* clocks differ */
            return false;
        }
    }
    return true;
}
