/* SPDX-License-Identifier: Apache-2.0 */
/* Files and specs for the tests of this room: a temporary directory, IDX and text files in it. */
#ifndef GRADUS_TESTS_DATA_RIG_H
#define GRADUS_TESTS_DATA_RIG_H

#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/dataset.h"
#include "os/file.h"

extern char *fixture_dir; /* of the test that runs */

int fixture_setup(void **state);
int fixture_teardown(void **state);
void fixture_write(const char *name, const void *data, size_t n);
void fixture_text(const char *name, const char *text);
void fixture_write_gz(const char *name, const void *data, size_t n);
void fixture_write_zstd(const char *name, const void *data, size_t n);
/* An IDX header of @rank sizes and @n bytes of values; returns owned, *size is its length. */
uint8_t *fixture_idx(uint8_t type, const uint32_t *dims, size_t rank, const void *values, size_t n,
                     size_t *size);
void fixture_write_idx(const char *name, uint8_t type, const uint32_t *dims, size_t rank,
                       const void *values, size_t n);
/* The defaults of a job file; the strings are replaced by literals, nothing is to be freed. */
struct data_spec fixture_spec(char *train, char *labels);
/* Opening must fail with @code and a message that holds @part. */
void fixture_refused(const struct data_spec *spec, enum data_label_kind kind, int code,
                     const char *part);
struct dataset *fixture_open(const struct data_spec *spec, enum data_label_kind kind,
                             struct dataset **test);
/* All records of @d in order. */
struct batch fixture_read(const struct dataset *d);

#endif
