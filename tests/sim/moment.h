/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a scenario: what goes wrong, or is looked at, when something else has happened.
 *
 *     at 60 check state RUNNING          at this time, in ms
 *     when PIN crash worker1 for 2000    as soon as the job is there: a state, a phase, or the work
 *                                        on a sync point (docs/protocol.md), as the master sees it
 *     when "SetMembership" crash ps1     as soon as a line of the trace has these words
 *     after 500 check workers 1          so long after the moment before
 *     check step 16                      in the end, when nothing is left of the job
 *
 * Moments come one after another: each waits for the one before it. All of them must come.
 *
 * What can be checked, of the first job:
 *
 *     state, mode, phase, checkpoint WORD            is WORD; no WORD: is empty
 *     reason, activity TEXT                          has TEXT in it; no TEXT: is empty
 *     step, examples, epoch, evaluations, recoveries, adoptions, generation, workers, servers,
 *     replicas, left, saved, unsaved                 N, or OP N with an OP of < <= > >= !=; the
 * last three are steps: to do, of the newest checkpoint, done since then ms N likewise, the time
 *     trace TEXT                                     a line has it; `no TEXT`: none has
 *     count N TEXT                                   so many lines have it */
#ifndef GRADUS_SIM_MOMENT_H
#define GRADUS_SIM_MOMENT_H

#include "base/buf.h"
#include "sim/sim.h"

#define MOMENTS_MAX 48
#define MOMENT_TEXT_BYTES 160

enum moment_kind { MOMENT_AT, MOMENT_AFTER, MOMENT_WHEN, MOMENT_SAID };

struct moment {
    enum moment_kind kind;
    uint64_t us;    /* AT, AFTER */
    char place[64]; /* WHEN, SAID */
    uint32_t fault; /* of the schedule; SIM_NONE: it is a check */
    char check[MOMENT_TEXT_BYTES];
    unsigned line;
};

struct moments {
    struct moment items[MOMENTS_MAX];
    size_t count, next;
    uint64_t last_us; /* of the moment before */
    struct sim_schedule *schedule;
    const struct buf *trace;
    unsigned line; /* of the check that did not hold; 0: all held */
    char why[512];
};

/* Wait for the first of them. They are looked at after every event of @w until the next run. */
void moments_begin(struct moments *m, struct world *w);
/* The run is over: every moment must have come. */
void moments_end(struct moments *m, struct world *w);
/* Does @check hold now? Else m->why says why not, unless it is said already. */
void moments_check(struct moments *m, struct world *w, const char *check, unsigned line);

#endif
