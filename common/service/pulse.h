/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an event loop turns: a timer on it says so each second, and anybody may look when it last
 * did. For liveness: a loop that stands still for long will not go on by itself. */
#ifndef GRADUS_SERVICE_PULSE_H
#define GRADUS_SERVICE_PULSE_H

#include <stdatomic.h>
#include <stdint.h>

#include "execution/loop.h"

#define PULSE_INTERVAL_MS 1000

struct pulse { /* zeroed: of no loop */
    const char *name;
    struct loop *loop;
    struct loop_timer timer;
    atomic_uint_least64_t beat_ms; /* 0: of no loop */
};

/* Before @loop runs, or on its thread. @pulse must outlive the loop; @name borrows. */
void pulse_begin(struct pulse *pulse, const char *name, struct loop *loop);
/* Any thread: for how long the loop has not turned; 0 of no loop. */
uint64_t pulse_silence_ms(const struct pulse *pulse, uint64_t now_ms);

#endif
