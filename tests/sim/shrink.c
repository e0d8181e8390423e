/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule that fails, made as small as it can be while the same invariant fails. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

/* What went wrong: the invariant, and the beginning of the words about it, without numbers. */
struct failure {
    enum sim_invariant which;
    char words[120];
};

static void describe(const struct world *w, struct failure *f)
{
    size_t n = 0;
    memset(f, 0, sizeof *f);
    f->which = w->broken;
    for (const char *p = w->why; *p != '\0' && n + 1 < sizeof f->words; p++) {
        if (*p < '0' || *p > '9') {
            f->words[n++] = *p;
        }
    }
}

static bool still_fails(struct world *w, const struct sim_schedule *s, const struct failure *f)
{
    struct failure now;
    if (world_run(w, s, false)) {
        return false;
    }
    describe(w, &now);
    return memcmp(&now, f, sizeof now) == 0;
}

/* Keep @smaller when it still fails. */
static bool try_out(struct world *w, struct sim_schedule *s, const struct sim_schedule *smaller,
                    const struct failure *f)
{
    if (memcmp(s, smaller, sizeof *s) == 0 || !still_fails(w, smaller, f)) {
        return false;
    }
    *s = *smaller;
    return true;
}

static bool drop_faults(struct world *w, struct sim_schedule *s, const struct failure *f)
{
    bool better = false;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        struct sim_schedule smaller = *s;
        if (!smaller.faults[i].off) {
            smaller.faults[i].off = true;
            better = try_out(w, s, &smaller, f) || better;
        }
    }
    return better;
}

static bool calm_knobs(struct world *w, struct sim_schedule *s, const struct failure *f)
{
    bool better = false;
    for (uint32_t i = 0; i < 19; i++) {
        struct sim_schedule smaller = *s;
        struct sim_knobs *k = &smaller.knobs;
        uint32_t *parts[] = {&k->loss_part,           &k->twice_part,      &k->tail_part,
                             &k->break_part,          &k->late_part,       &k->reader_part,
                             &k->early_part,          &k->lost_part,       &k->full_part,
                             &k->room_workers,        &k->full_modes_part, &k->refused_part,
                             &k->memory_refused_part, &k->moved_part};
        if (i < 14) {
            *parts[i] = 0;
        } else if (i == 14) {
            k->skew = false;
        } else if (i == 15) {
            k->memory_tight = false;
        } else if (i == 16) {
            k->memory_more = 0;
        } else if (i == 17) {
            k->followers = k->followers > 1 ? 1 : 0;
        } else {
            k->readers_max = 8;
        }
        better = try_out(w, s, &smaller, f) || better;
    }
    return better;
}

/* Replace the number behind @key in the job's text. */
static bool set_number(struct sim_job_plan *job, const char *key, unsigned value)
{
    char *at = strstr(job->text, key);
    if (at == NULL) {
        return false;
    }
    at += strlen(key);
    size_t digits = strspn(at, "0123456789");
    char number[16];
    int n = snprintf(number, sizeof number, "%u", value);
    if (digits == 0 || (size_t)n > digits) {
        return false;
    }
    memmove(at + n, at + digits, strlen(at + digits) + 1);
    memcpy(at, number, (size_t)n);
    return true;
}

static bool smaller_jobs(struct world *w, struct sim_schedule *s, const struct failure *f)
{
    bool better = false;
    if (s->job_count == 2) {
        struct sim_schedule smaller = *s;
        smaller.job_count = 1;
        for (uint32_t i = 0; i < smaller.fault_count; i++) {
            smaller.faults[i].number =
                smaller.faults[i].kind >= FAULT_CANCEL ? 0 : smaller.faults[i].number;
        }
        better = try_out(w, s, &smaller, f);
    }
    struct sim_schedule smaller = *s;
    if (!schedule_stops(&smaller.jobs[0])) {
        smaller.jobs[0].test_records = 0;
    }
    better = try_out(w, s, &smaller, f) || better;
    smaller = *s;
    if (set_number(&smaller.jobs[0], "epochs: ", 1)) {
        better = try_out(w, s, &smaller, f) || better;
    }
    for (uint32_t records = s->jobs[0].records / 2; records > 0; records /= 2) {
        smaller = *s;
        smaller.jobs[0].records = records;
        better = try_out(w, s, &smaller, f) || better;
    }
    for (unsigned workers = 1; workers < 3; workers++) {
        smaller = *s;
        smaller.worker_count = workers < s->worker_count ? workers : s->worker_count;
        (void)set_number(&smaller.jobs[0], "workers: ", 1);
        better = try_out(w, s, &smaller, f) || better;
    }
    return better;
}

void shrink(struct world *w, struct sim_schedule *s)
{
    struct failure failure;
    const struct failure *f = &failure;
    describe(w, &failure);
    bool better = true;
    for (int rounds = 0; better && rounds < 6; rounds++) {
        better = drop_faults(w, s, f);
        better = calm_knobs(w, s, f) || better;
        /* A smaller job may need the worker that stops. */
        better = (!schedule_freezes(s) && smaller_jobs(w, s, f)) || better;
    }
}
