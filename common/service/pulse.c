/* SPDX-License-Identifier: Apache-2.0 */
/* The timer that says that a loop turns. */
#include "service/pulse.h"

#include "os/chrono.h"

static void beat(void *ctx)
{
    struct pulse *p = ctx;
    uint64_t now_ms = chrono_now_ms();
    atomic_store(&p->beat_ms, now_ms);
    loop_timer_set(p->loop, &p->timer, now_ms + PULSE_INTERVAL_MS, beat, p);
}

void pulse_begin(struct pulse *pulse, const char *name, struct loop *loop)
{
    pulse->name = name;
    pulse->loop = loop;
    beat(pulse);
}

uint64_t pulse_silence_ms(const struct pulse *pulse, uint64_t now_ms)
{
    uint64_t beat_ms = atomic_load(&pulse->beat_ms);
    return beat_ms == 0 || now_ms < beat_ms ? 0 : now_ms - beat_ms;
}
