/* SPDX-License-Identifier: Apache-2.0 */
/* What the calling thread suffered from others that want its processor: how often it was taken off
 * it, and how long it stood in line for one. Numbers since the thread began; differences count. */
#ifndef GRADUS_OS_THREAD_LOAD_H
#define GRADUS_OS_THREAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/poll_policy.h"

/* The load of the calling thread; takes a few microseconds. */
struct thread_load thread_load(void);

/* Reads "CPU_NS DELAY_NS SLICES", the form of the kernel. False: it is another one. */
bool thread_load_parse(const char *text, uint64_t *delay_ns);

#endif
