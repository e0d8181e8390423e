/* SPDX-License-Identifier: Apache-2.0 */
/* The machines, the network and the disks of a schedule: how fast, how large, how bad. */
#include "sim/schedule_maker.h"

#include <stdio.h>
#include <string.h>

void maker_knobs(struct maker *m)
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

void maker_bad_network(struct maker *m)
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

void maker_bad_machines(struct maker *m)
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
void maker_early_answers(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "early")};
    struct sim_knobs *k = &s->knobs;
    if (chance(&m, 50)) {
        k->early_part = (uint32_t)about(&m, 50000, 1000000);
        k->early_us = (uint32_t)about(&m, 100, 30000);
        k->lost_part = chance(&m, 70) ? (uint32_t)about(&m, 1000, 300000) : 0;
    }
}

/* Disks that are full, gone or damaged, and memory that is short. With draws of their own, too. */
void maker_bad_storage(struct maker *of, struct sim_schedule *s)
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
        struct sim_fault *f = maker_fault(&m, KINDS[below(&m, sizeof KINDS / sizeof *KINDS)], 0);
        f->number = (uint32_t)below(&m, f->kind == FAULT_DAMAGE ? s->job_count : 2);
        if (f->kind == FAULT_DAMAGE ||
            f->kind == FAULT_GONE) { /* nobody looks until a server dies */
            struct sim_fault *crash = maker_fault(&m, FAULT_CRASH, maker_any_ps(&m));
            crash->at_us = f->at_us + about(&m, 1 * SIM_MS, 1 * SIM_S);
            crash->until_us = crash->at_us + about(&m, 1 * SIM_MS, 10 * SIM_S);
        }
    }
}

/* What somebody has given up, and made good since, comes all the same. With draws of their own,
 * too. */
void maker_late_messages(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "late")};
    bool often = s->mode == SIM_LATE;
    if (!schedule_freezes(s) && (chance(&m, 8) || often)) {
        s->knobs.late_part = (uint32_t)about(&m, often ? 50000 : 2000, often ? 400000 : 100000);
        s->knobs.late_us = (uint32_t)about(&m, 3 * SIM_MS, 6 * SIM_S);
    }
}

/* With draws of their own, too. */
void maker_short_memory(struct sim_schedule *s)
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
void maker_tight_memory(struct sim_schedule *s)
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

void maker_refused_connections(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "refused")};
    s->knobs.refused_part = chance(&m, 60) ? (uint32_t)about(&m, 100000, 1000000) : 0;
}

/* Shards that are elsewhere in a new generation: with draws of their own, too. */
void maker_moved_shards(struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "moved")};
    if (chance(&m, 15) && !schedule_freezes(s)) {
        s->knobs.moved_part = (uint32_t)about(&m, 100000, 1000000);
    }
}

/* A job that needs none of its workers goes on when one stops for good between any two pushes,
 * although the master never finds out. Nothing else goes wrong: what would, would end it. */
void maker_freeze(struct maker *of, struct sim_schedule *s)
{
    struct maker m = {.s = s, .key = rng_key(s->seed, "freeze")};
    uint32_t whole_steps = s->jobs[0].records / of->step_records;
    if (!of->goes_on || s->job_count > 1 || s->worker_count < 2 || s->ps_count < 2 ||
        whole_steps == 0 || !chance(&m, 35) || schedule_stops(&s->jobs[0])) {
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
void maker_slow_work(const struct maker *of, struct sim_schedule *s)
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
    k->beat_ms = 1000; /* for hours: nothing else would ever be done */
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

bool schedule_has_backups(const struct sim_schedule *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->job_count; i++) {
        any = any || s->jobs[i].standby;
    }
    return any;
}

/* One server after the other, so that backups that have joined take over. */
static void crash_in_turn(struct maker *m, struct sim_schedule *s)
{
    uint32_t node = maker_any_ps(m);
    uint64_t at_us = 0;
    for (uint64_t i = 0; i < 3 && s->fault_count < SIM_FAULTS_MAX; i++) {
        struct sim_fault *f = maker_fault(m, FAULT_CRASH, node);
        f->at_us = i == 0 ? f->at_us : at_us;
        f->until_us = f->at_us + about(m, 10 * SIM_MS, 2 * SIM_S);
        at_us = f->until_us + about(m, 50 * SIM_MS, 5 * SIM_S);
        node = 1 + node % s->ps_count;
    }
}

/* Backups of shards, where there can be some; servers end, for good or for a while, and cannot
 * reach each other. With draws of their own, too. */
void maker_standby(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "standby");
    m.draws = 0;
    for (uint32_t i = 0; i < s->job_count; i++) {
        struct sim_job_plan *job = &s->jobs[i];
        const size_t n = strlen(job->text);
        if (!chance(&m, percent) || job->ps < 2) {
            continue;
        }
        job->standby = true;
        (void)snprintf(job->text + n, sizeof job->text - n, "  standby: follower\n");
    }
    if (!schedule_has_backups(s) || schedule_freezes(s) || s->mode == SIM_STILL) {
        return;
    }
    for (uint64_t i = below(&m, 4); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        maker_crash(&m, maker_any_ps(&m));
    }
    if (chance(&m, 40)) {
        crash_in_turn(&m, s);
    }
    for (uint64_t i = below(&m, 3); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        struct sim_fault *f =
            maker_fault(&m, chance(&m, 50) ? FAULT_CUT : FAULT_SPLIT, maker_any_ps(&m));
        f->other = 1 + f->node % s->ps_count;
    }
}
