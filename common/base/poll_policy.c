/* SPDX-License-Identifier: Apache-2.0 */
/* The decision to poll: a running mean of waits, and pauses after trouble. */
#include "base/poll_policy.h"

#include <string.h>

#include "base/text.h"

#define WAIT_NS_MIN UINT64_C(3000) /* a shorter wait: the event was there already */
#define WAIT_NS_MAX (4 * POLL_USUAL_NS_MAX)
#define MEAN_SHIFT 3 /* the last 8 waits or so */
#define MISS_ALL 1024U
#define MISS_SHIFT 4
#define NS_PER_SECOND UINT64_C(1000000000)

const char *const poll_why_names[POLL_WHY_COUNT] = {
    [POLL_OFF] = "off",       [POLL_FIXED] = "fixed",     [POLL_SOON] = "soon",
    [POLL_LATE] = "late",     [POLL_CROWDED] = "crowded", [POLL_PREEMPTED] = "preempted",
    [POLL_MISSED] = "missed",
};

int poll_setting_parse(const char *text, struct poll_setting *out, struct err *err)
{
    int64_t us = 0;
    *out = (struct poll_setting){.adapts = strcmp(text, "auto") == 0};
    if (out->adapts) {
        return 0;
    }
    if (!text_to_int(text, &us) || us < 0 || us > POLL_FIXED_US_MAX) {
        return err_set(err, ERR_INVALID, "\"%s\": expected auto, or microseconds between 0 and %d",
                       text, POLL_FIXED_US_MAX);
    }
    out->ns = (uint64_t)us * 1000;
    return 0;
}

void poll_policy_init(struct poll_policy *p, const struct poll_setting *setting)
{
    *p = (struct poll_policy){.setting = *setting, .usual_ns = WAIT_NS_MAX};
}

/* ---- trouble ---- */

/* Pauses polling. A pause soon after the last one is twice as long. */
static void pause_polling(struct poll_policy *p, uint64_t now_ns, enum poll_why why)
{
    const bool again = p->pause_ns > 0 && now_ns < p->resume_ns + p->pause_ns;
    p->pause_ns = again ? p->pause_ns * 2 : POLL_PAUSE_NS_MIN;
    if (p->pause_ns > POLL_PAUSE_NS_MAX) {
        p->pause_ns = POLL_PAUSE_NS_MAX;
    }
    p->resume_ns = now_ns + p->pause_ns;
    p->trouble = why;
}

bool poll_policy_load_due(const struct poll_policy *p, uint64_t now_ns)
{
    return p->setting.adapts && (!p->looked || now_ns - p->looked_ns >= POLL_LOAD_NS);
}

static bool crowded_out(const struct thread_load *from, const struct thread_load *to,
                        uint64_t time_ns)
{
    const uint64_t switches = to->switches - from->switches;
    if (from->has_delay && to->has_delay) {
        const uint64_t wake_ns = (to->sleeps - from->sleeps) * POLL_WAKE_NS;
        return switches > 0 && to->delay_ns - from->delay_ns > wake_ns + time_ns / POLL_DELAY_PARTS;
    }
    return switches * NS_PER_SECOND > time_ns * POLL_SWITCHES_PER_SECOND;
}

void poll_policy_load(struct poll_policy *p, uint64_t now_ns, const struct thread_load *load)
{
    if (p->looked && now_ns > p->looked_ns && crowded_out(&p->load, load, now_ns - p->looked_ns)) {
        pause_polling(p, now_ns, POLL_PREEMPTED);
    }
    p->looked = true;
    p->looked_ns = now_ns;
    p->load = *load;
}

/* ---- waits ---- */

static enum poll_why decide(const struct poll_policy *p, uint64_t now_ns, unsigned busy,
                            unsigned processors)
{
    if (!p->setting.adapts) {
        return p->setting.ns > 0 ? POLL_FIXED : POLL_OFF;
    }
    if (busy > processors) {
        return POLL_CROWDED;
    }
    if (p->pause_ns > 0 && now_ns < p->resume_ns) {
        return p->trouble;
    }
    return p->usual_ns > POLL_USUAL_NS_MAX ? POLL_LATE : POLL_SOON;
}

uint64_t poll_policy_begin(struct poll_policy *p, uint64_t now_ns, unsigned busy,
                           unsigned processors)
{
    p->why = decide(p, now_ns, busy, processors);
    if (p->why == POLL_FIXED) {
        return p->setting.ns;
    }
    return p->why == POLL_SOON ? 2 * p->usual_ns : 0;
}

void poll_policy_end(struct poll_policy *p, uint64_t now_ns, uint64_t waited_ns, uint64_t polled_ns)
{
    if (waited_ns < WAIT_NS_MIN) {
        return;
    }
    const uint64_t counted = waited_ns < WAIT_NS_MAX ? waited_ns : WAIT_NS_MAX;
    p->usual_ns += (counted >> MEAN_SHIFT) - (p->usual_ns >> MEAN_SHIFT);
    if (!p->setting.adapts || polled_ns == 0) {
        return;
    }
    p->misses -= p->misses >> MISS_SHIFT;
    p->misses += waited_ns > polled_ns ? MISS_ALL >> MISS_SHIFT : 0;
    if (p->misses > MISS_ALL / 2) {
        p->misses = 0;
        pause_polling(p, now_ns, POLL_MISSED);
    }
}
