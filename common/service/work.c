/* SPDX-License-Identifier: Apache-2.0 */
/* Holds what a thread is doing in a few atomics, from which heartbeats are filled. Work younger
 * than half a second is not told: it is over before anybody could read it. */
#include "service/work.h"

#include <stddef.h>

#include "os/chrono.h"

#define MOMENT_MS 500

void work_begin(struct work *w, const char *what, uint64_t total, const char *unit)
{
    atomic_store_explicit(&w->since_ms, chrono_now_ms(), memory_order_relaxed);
    atomic_store_explicit(&w->done, 0, memory_order_relaxed);
    atomic_store_explicit(&w->total, total, memory_order_relaxed);
    atomic_store_explicit(&w->unit, unit, memory_order_relaxed);
    atomic_store_explicit(&w->what, what, memory_order_release);
}

void work_advance(struct work *w, uint64_t done)
{
    atomic_store_explicit(&w->done, done, memory_order_relaxed);
}

void work_end(struct work *w)
{
    atomic_store_explicit(&w->what, NULL, memory_order_release);
}

void work_tell(const struct work *w, const char *job, struct membership_works *out)
{
    const char *what = atomic_load_explicit(&w->what, memory_order_acquire);
    uint64_t since_ms = atomic_load_explicit(&w->since_ms, memory_order_relaxed);
    uint64_t now_ms = chrono_now_ms();
    if (what == NULL || now_ms < since_ms + MOMENT_MS) {
        return;
    }
    membership_works_add(out, &(struct membership_work){
                                  .job = job,
                                  .what = what,
                                  .unit = atomic_load_explicit(&w->unit, memory_order_relaxed),
                                  .done = atomic_load_explicit(&w->done, memory_order_relaxed),
                                  .total = atomic_load_explicit(&w->total, memory_order_relaxed),
                                  .age_ms = now_ms - since_ms,
                              });
}
