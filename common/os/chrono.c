/* SPDX-License-Identifier: Apache-2.0 */
/* The system's clocks as plain numbers: the monotonic one for deadlines and durations, wall time
 * for dates that people read, the calling thread's CPU time for measuring work. */
#include "os/chrono.h"

#include <time.h>

uint64_t chrono_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

uint64_t chrono_now_ms(void)
{
    return chrono_now_ns() / 1000000U;
}

uint64_t chrono_thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

int64_t chrono_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *chrono_format(int64_t wall_ms, char *out, size_t n)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    if (strftime(out, n, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0 && n > 0) {
        out[0] = '\0';
    }
    return out;
}
