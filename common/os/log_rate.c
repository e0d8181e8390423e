/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever moves the time of the next line on writes this one; all others count. */
#include "os/log_rate.h"

#include "os/chrono.h"

bool log_rate_take(struct log_rate *r, unsigned *untold)
{
    uint64_t now_ms = chrono_now_ms();
    uint_least64_t due_ms = atomic_load(&r->next_ms);
    if (now_ms < due_ms ||
        !atomic_compare_exchange_strong(&r->next_ms, &due_ms, now_ms + LOG_RATE_MS)) {
        atomic_fetch_add(&r->untold, 1);
        return false;
    }
    *untold = atomic_exchange(&r->untold, 0);
    return true;
}
