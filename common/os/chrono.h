/* SPDX-License-Identifier: Apache-2.0 */
/* Time. Only shells read clocks; cores get the time with the event. */
#ifndef GRADUS_OS_CHRONO_H
#define GRADUS_OS_CHRONO_H

#include <stddef.h>
#include <stdint.h>

uint64_t chrono_now_ms(void);    /* monotonic milliseconds */
uint64_t chrono_now_ns(void);    /* monotonic nanoseconds */
uint64_t chrono_thread_ns(void); /* processor time that this thread has used */
int64_t chrono_wall_ms(void);    /* Unix time in milliseconds */
/* "2026-11-21T12:00:00Z" into @out (at least 21 bytes); returns @out. */
const char *chrono_format(int64_t wall_ms, char *out, size_t n);

#endif
