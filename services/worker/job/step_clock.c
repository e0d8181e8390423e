/* SPDX-License-Identifier: Apache-2.0 */
/* Divides the time of training steps into loading, computing, network, applying and waiting. Each
 * moment counts once, so the parts add up; what shards say is cut to the time seen here. */
#include "worker/job/step_clock.h"

void step_clock_begin(struct step_clock *c, uint64_t step, uint64_t now_ns)
{
    if (!c->begun) {
        c->begun = true;
        c->until_ns = now_ns;
        c->times.steps++;
    } else if (c->step != step) {
        c->times.steps++;
    }
    c->step = step;
}

static void give(struct step_clock *c, enum step_part part, uint64_t until_ns)
{
    if (until_ns > c->until_ns) {
        c->times.ns[part] += until_ns - c->until_ns;
        c->until_ns = until_ns;
    }
}

void step_clock_busy(struct step_clock *c, enum step_part part, uint64_t begin_ns, uint64_t end_ns)
{
    if (c->begun) {
        give(c, STEP_WAIT, begin_ns);
        give(c, part, end_ns);
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* @ns · @part / @whole, which fits: @part ≤ @whole. */
static uint64_t share(uint64_t ns, uint64_t part, uint64_t whole)
{
    return (uint64_t)((double)ns * ((double)part / (double)whole));
}

uint64_t step_clock_answered(struct step_clock *c, const struct step_exchange *x)
{
    if (!c->begun || x->answered_ns <= c->until_ns || x->answered_ns <= x->sent_ns) {
        return x->answered_ns;
    }
    give(c, STEP_WAIT, x->sent_ns);
    uint64_t begin_ns = c->until_ns;
    uint64_t cost = x->answered_ns - begin_ns;
    uint64_t whole = x->answered_ns - x->sent_ns;
    uint64_t applied = least(x->applied_ns, whole);
    uint64_t waited = least(x->waited_ns, whole - applied);
    give(c, STEP_APPLY, begin_ns + share(cost, applied, whole));
    give(c, STEP_WAIT, c->until_ns + share(cost, waited, whole));
    give(c, STEP_WIRE, x->answered_ns);
    return begin_ns;
}
