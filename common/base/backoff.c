/* SPDX-License-Identifier: Apache-2.0 */
/* Exponential back-off; who wants it to differ between callers adds the chance. */
#include "base/backoff.h"

uint64_t backoff_ms(unsigned failures, uint64_t min_ms, uint64_t max_ms)
{
    uint64_t ms = failures == 0 ? 0 : min_ms;
    while (failures-- > 1 && ms < max_ms) {
        ms *= 2;
    }
    return ms < max_ms ? ms : max_ms;
}
