/* SPDX-License-Identifier: Apache-2.0 */
/* One number for all records of a part, decoded: equal where the data are. Of each array its own
 * sum, so that it does not matter how many records come at a time. */
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
