/* SPDX-License-Identifier: Apache-2.0 */
/* Speculation: replicas that are late are given to workers that have nothing left to do.
 *
 * A replica is late when it takes longer than `speculate` times the usual time, which is the median
 * over the replicas that came from their owners: of this step as soon as more than half of them are
 * in, else of the last one; in the first step, the time of the last one that is in. Bits do not
 * depend on who computes, so a wrong guess costs nothing but the time of somebody who had nothing
 * to do.
 *
 * Mostly it is the lead that is asked. The others are when it has all of a step and they do not: a
 * worker may stop between two pushes of the same gradient. So they do it where not all replicas are
 * waited for, too: then what a decision names is late after LATE_TIMES usual times. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ps/core/shard_internal.h"

/* An owner whose replica was given away gets it back when it comes within so many usual times. To
 * be just in time is not enough: then all would wait for it from now on. */
#define TIMELY 1.5
#define LATE_TIMES 3     /* usual times after which a replica is late without speculation */
#define LATE_MS_MIN 20   /* below it, what the network does is no sign of a slow worker */
#define WAIT_MS_MIN 5    /* so that idle workers do not ask in a loop, */
#define WAIT_MS_MAX 1000 /* and hear of it when the usual time turns out to be shorter */

static uint64_t since(uint64_t began_ms, uint64_t now_ms)
{
    return now_ms > began_ms ? now_ms - began_ms : 0;
}

static uint64_t before(uint64_t at_ms, uint64_t by_ms)
{
    return at_ms > by_ms ? at_ms - by_ms : 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void shard_spare_resize(struct shard *s)
{
    free(s->pacing.late);
    free(s->pacing.came_ms);
    s->pacing = (struct shard_pacing){0};
    if (s->replicas > 0 && consistency_is_nonblocking(&s->consistency)) {
        s->pacing.late = mem_new(s->replicas, sizeof *s->pacing.late);
        s->pacing.came_ms = mem_new(s->replicas, sizeof *s->pacing.came_ms);
    }
}

/* ---- the clock of a step ---- */

void shard_spare_begin(struct shard *s, uint64_t now_ms)
{
    struct shard_pacing *p = &s->pacing;
    for (uint32_t r = 0; p->late != NULL && r < s->replicas; r++) {
        p->late[r].came = false;
        p->late[r].given = 0;
    }
    p->came = 0;
    p->empty = 0;
    p->heard = false;
    p->made = true;
    p->made_ms = p->began_ms = now_ms;
}

/* A shard is opened without a clock: its first step begins when the first worker comes. */
void shard_spare_heard(struct shard *s, uint64_t now_ms)
{
    if (!s->pacing.made) {
        shard_spare_begin(s, now_ms);
    }
}

/* Takes the median time of the step as the usual time. Workers stand still at sync points, so a
 * step does not always begin when its version is made: it counts as begun at most twice the usual
 * time before its first replica came. Once the usual time would not do, for then it could never
 * grow. */
void shard_spare_end(struct shard *s)
{
    struct shard_pacing *p = &s->pacing;
    if (p->came == 0) {
        return;
    }
    uint64_t began = p->made_ms;
    if (p->usual) {
        began = later(began, before(p->came_ms[0], 2 * p->typical_ms + LATE_MS_MIN));
    }
    p->typical_ms = since(began, p->came_ms[(p->came - 1) / 2]);
    p->usual = true;
}

void shard_spare_forgive(struct shard *s)
{
    for (uint32_t r = 0; s->pacing.late != NULL && r < s->replicas; r++) {
        s->pacing.late[r].slow = false;
    }
}

/* @times the usual time, after the beginning of the step; false: nobody knows yet. */
static bool usual_times(const struct shard *s, double times, uint64_t *limit_ms)
{
    const struct shard_pacing *p = &s->pacing;
    uint64_t typical = p->typical_ms;
    if (p->came > (s->replicas - p->empty) / 2) {
        typical = since(p->began_ms, p->came_ms[(p->came - 1) / 2]);
    } else if (!p->usual && p->came > 0) {
        typical = since(p->began_ms, p->came_ms[p->came - 1]);
    } else if (!p->usual) {
        return false;
    }
    double limit = times * (double)typical;
    *limit_ms = limit < LATE_MS_MIN          ? LATE_MS_MIN
                : limit < (double)UINT32_MAX ? (uint64_t)limit
                                             : UINT32_MAX;
    return true;
}

static double late_times(const struct shard *s)
{
    return s->consistency.speculate > 0 ? s->consistency.speculate : LATE_TIMES;
}

void shard_spare_came(struct shard *s, const struct exchange_push *push, uint64_t now_ms)
{
    struct shard_pacing *p = &s->pacing;
    if (p->late == NULL || push->spare) {
        return;
    }
    if (p->came == 0 && p->usual && push->examples > 0) {
        p->began_ms = later(p->began_ms, before(now_ms, p->typical_ms));
    }
    uint64_t limit = 0;
    double times = late_times(s) < TIMELY ? late_times(s) : TIMELY;
    bool known = usual_times(s, times, &limit);
    bool in_time = !known || since(p->began_ms, now_ms) <= limit;
    for (uint32_t r = push->replica_first; r < push->replica_end; r++) {
        struct shard_late *l = &p->late[r];
        l->slow = l->slow && !in_time;
        if (l->came) {
            continue;
        }
        l->came = true;
        if (push->examples == 0) {
            p->empty++;
        } else {
            p->came_ms[p->came++] = now_ms;
        }
    }
}

/* ---- requests of idle workers ---- */

/* Does the step wait for replica @r? Before it is decided which ones it takes, for none. */
static bool lacks(const struct shard *s, uint32_t r)
{
    return !s->nodes[r].in &&
           (!consistency_is_partial(&s->consistency) || shard_decide_includes(s, r));
}

static bool has_all(const struct shard *s)
{
    bool decided = !consistency_is_partial(&s->consistency) || shard_decide_pending(s);
    return decided && shard_sync_ready(s);
}

/* Since when @l is late, if it is at @now_ms; else when it will be. */
static bool is_late(const struct shard *s, const struct shard_late *l, uint64_t limit_ms,
                    uint64_t now_ms, uint64_t *at_ms)
{
    if (l->given == 0 && l->slow) {
        return true;
    }
    *at_ms = (l->given > 0 ? l->given_ms : s->pacing.began_ms) + limit_ms + 1;
    return now_ms >= *at_ms;
}

/* Of the late replicas the one that was given away the fewest times, the last of several; NULL:
 * none, and @at_ms is when the first one will be late (UINT64_MAX: never). */
static struct shard_late *find_late(const struct shard *s, uint64_t limit_ms, uint64_t now_ms,
                                    uint64_t *at_ms)
{
    struct shard_late *best = NULL;
    *at_ms = UINT64_MAX;
    for (uint32_t r = s->replicas; r-- > 0;) {
        struct shard_late *l = &s->pacing.late[r];
        uint64_t at = 0;
        if (!lacks(s, r)) {
            continue;
        }
        if (!is_late(s, l, limit_ms, now_ms, &at)) {
            *at_ms = at < *at_ms ? at : *at_ms;
        } else if (best == NULL || l->given < best->given) {
            best = l;
        }
    }
    return best;
}

static uint32_t bounded_ms(uint64_t wait, uint32_t min)
{
    return wait < min ? min : wait > WAIT_MS_MAX ? WAIT_MS_MAX : (uint32_t)wait;
}

/* The time to wait while nobody knows how long a replica takes: the longer a step has taken, the
 * longer. */
static uint32_t unknown_ms(const struct shard_pacing *p, uint64_t now_ms)
{
    return bounded_ms(since(p->began_ms, now_ms) / 8, LATE_MS_MIN);
}

/* Notes that an idle worker asks at this step; before that no replica is late. */
static void ask(struct shard_pacing *p, uint64_t now_ms)
{
    if (!p->heard && p->came == 0) {
        p->began_ms = later(p->began_ms, now_ms);
    }
    p->heard = true;
}

static void give(struct shard *s, uint64_t now_ms, struct exchange_spare *out)
{
    if (has_all(s)) {
        return; /* the worker does not wait for a replica */
    }
    ask(&s->pacing, now_ms);
    uint64_t limit = 0;
    if (!usual_times(s, late_times(s), &limit)) {
        out->wait_ms = unknown_ms(&s->pacing, now_ms);
        return;
    }
    uint64_t at = 0;
    struct shard_late *l = find_late(s, limit, now_ms, &at);
    if (l == NULL) {
        out->wait_ms = bounded_ms(since(now_ms, at), WAIT_MS_MIN); /* undecided: the longest */
        return;
    }
    l->slow = true;
    l->given++;
    l->given_ms = now_ms;
    out->given = true;
    out->replica = (uint32_t)(l - s->pacing.late);
}

int shard_spare_give(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (s->pacing.late == NULL) {
        return err_set(&out->err, ERR_INVALID, "a request for a replica of step %" PRIu64 "; %s",
                       e->ask.spare_step,
                       s->lead ? "late ones are not given away in this job" : "ask the lead");
    }
    if (e->ask.spare_step > s->version) {
        return err_set(&out->err, ERR_RANGE,
                       "a request for a replica of step %" PRIu64
                       ", but the shard is at step %" PRIu64,
                       e->ask.spare_step, s->version);
    }
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = e->tag;
    a->version = s->version;
    a->generation = s->generation;
    a->answer.kind = EXCHANGE_SPARE;
    if (e->ask.spare_step == s->version) {
        give(s, e->now_ms, &a->answer.spare);
    }
    return 0;
}
