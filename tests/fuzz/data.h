/* SPDX-License-Identifier: Apache-2.0 */
/* What the targets of data files share: options out of an input, and a dataset opened, read whole
 * and closed again. */
#ifndef GRADUS_TESTS_FUZZ_DATA_H
#define GRADUS_TESTS_FUZZ_DATA_H

#include "data/dataset.h"
#include "fuzz/fuzz.h"

/* The defaults of a job file for @file (borrowed). */
struct data_spec fuzz_data_spec(const char *file);
/* What all formats have: the format itself or auto, how much of it, parts, bad records, scaling. */
void fuzz_data_options(struct fuzz_input *in, int format, struct data_spec *spec);
/* Any answer is fine; what can be opened can be read, and is as it says. */
void fuzz_data_open(const struct data_spec *spec, enum data_label_kind kind);

#endif
