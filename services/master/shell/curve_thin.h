/* SPDX-License-Identifier: Apache-2.0 */
/* Which points of a job's curve stay. The distance of two neighbours grows with their age, up to a
 * CURVE_PARTS-th of it, so the years of a job take a few times the room of its first hour. */
#ifndef GRADUS_MASTER_SHELL_CURVE_THIN_H
#define GRADUS_MASTER_SHELL_CURVE_THIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CURVE_PARTS 96
#define CURVE_POINTS_MAX 2048 /* of one job, about 250 KB in the store */

/* Sets goes[i] for each point at @time_ms, oldest first, that is to be removed; the first and the
 * last one stay, and never more than 7/8 of CURVE_POINTS_MAX. Returns how many go. */
size_t curve_thin(const int64_t *time_ms, size_t count, bool *goes);

/* How long after a point the next one is taken, of a job whose first one is @age_ms old. */
uint64_t curve_pause_ms(int64_t age_ms);

#endif
