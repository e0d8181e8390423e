/* SPDX-License-Identifier: Apache-2.0 */
/* Categories of records of which the model reads nothing: no train record had them, and there is no
 * feature for what is not known. */
#ifndef GRADUS_DATA_UNKNOWN_CELLS_H
#define GRADUS_DATA_UNKNOWN_CELLS_H

#include "data/encoder.h"

/* Counts those of @r, which has its categories as texts yet, in @left. */
void unknown_cells_count(const struct encoder *e, const struct records *r,
                         struct encoder_left *left);

#endif
