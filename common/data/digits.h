/* SPDX-License-Identifier: Apache-2.0 */
/* A data set of hand-drawn-looking 28×28 digits that the program draws itself, for machines without
 * any data set. Written as IDX under the names of the MNIST files.
 *
 * Every image is a pure function of (seed, part, index); labels are balanced in every ten records.
 */
#ifndef GRADUS_DATA_DIGITS_H
#define GRADUS_DATA_DIGITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DIGITS_SIDE 28
#define DIGITS_PIXELS ((size_t)DIGITS_SIDE * DIGITS_SIDE)
#define DIGITS_COUNT_MAX 10000000 /* images of a part: 7.8 GB */

enum digits_part { DIGITS_TRAIN, DIGITS_TEST };

/* Write train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and
 * t10k-labels-idx1-ubyte.gz to @dir, which is made when missing. The files appear when all four are
 * complete, and are byte-identical for equal arguments.
 * Errors: ERR_INVALID a count outside 1..DIGITS_COUNT_MAX; errors of the file system. */
int digits_generate(const char *dir, uint64_t train_count, uint64_t test_count, uint64_t seed,
                    struct err *err);

/* The digit that image @index of @part shows. */
uint8_t digits_label(uint64_t seed, enum digits_part part, uint64_t index);
/* Draw it into @pixels, [DIGITS_PIXELS], 0 is paper. */
void digits_draw(uint64_t seed, enum digits_part part, uint64_t index, uint8_t *pixels);

#endif
