/* SPDX-License-Identifier: Apache-2.0 */
/* Limits log lines that a peer can cause as often as it likes: one line in a while, with a count of
 * the lines that were left out.
 *
 * Any thread. */
#ifndef GRADUS_OS_LOG_RATE_H
#define GRADUS_OS_LOG_RATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_RATE_MS 1000

/* Zeroed is new. */
struct log_rate {
    atomic_uint_least64_t next_ms;
    atomic_uint untold;
};

/* May a line be written now? Then @untold is how many before it were not. */
bool log_rate_take(struct log_rate *r, unsigned *untold);

#endif
