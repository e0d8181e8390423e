/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait before something that failed is tried again. */
#ifndef GRADUS_BASE_BACKOFF_H
#define GRADUS_BASE_BACKOFF_H

#include <stdint.h>

/* @min_ms after the first of @failures in a row, then twice as long each time, @max_ms at most.
 * No failures: 0. */
uint64_t backoff_ms(unsigned failures, uint64_t min_ms, uint64_t max_ms);

#endif
