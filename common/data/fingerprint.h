/* SPDX-License-Identifier: Apache-2.0 */
/* One number for all decoded records of a part: equal where the data are. Each array has a sum of
 * its own, so it does not matter how many records are added at a time. */
#ifndef GRADUS_DATA_FINGERPRINT_H
#define GRADUS_DATA_FINGERPRINT_H

#include <stdint.h>

#include "data/dataset.h"

struct fingerprint;

struct fingerprint *fingerprint_new(void);
void fingerprint_free(struct fingerprint *f); /* NULL is fine */
/* The next records, which are in memory. */
void fingerprint_add(struct fingerprint *f, const struct dataset *block);
/* @like has the shape of all that were added, of which there are @records. */
uint64_t fingerprint_value(const struct fingerprint *f, const struct dataset *like,
                           uint64_t records);

#endif
