/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzz targets share: an input cut into numbers, texts and the rest, and files in memory with
 * what a reader is to be fed. A target returns 0 for every input; what must never happen ends the
 * process (a sanitizer, a failed assertion, or fuzz_require()). */
#ifndef GRADUS_TESTS_FUZZ_H
#define GRADUS_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* libFuzzer's; the first one is each target's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t n_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t n_max, unsigned seed);

/* A cursor over an input. */
struct fuzz_input {
    const uint8_t *data;
    size_t n;
};

/* 0 at the end of the input, as all below. */
uint8_t fuzz_byte(struct fuzz_input *in);
uint8_t fuzz_below(struct fuzz_input *in, unsigned bound); /* a byte, modulo @bound */
uint64_t fuzz_u64(struct fuzz_input *in);
/* A text without a NUL: up to @mark (which is taken, too) or the end. Owned. */
char *fuzz_text(struct fuzz_input *in, char mark);
/* What is left as a text, and nothing is left then. Owned. */
char *fuzz_rest(struct fuzz_input *in);

/* A file in memory, number @slot of FUZZ_FILES, with these bytes alone. Returns its path, borrowed
 * and always the same. */
#define FUZZ_FILES 4
const char *fuzz_file(unsigned slot, const void *data, size_t n);

/* What must hold for every input: ends the process, with @what. */
void fuzz_require(bool holds, const char *what);
/* @rc 0, or the code of @err, which has a message then. */
void fuzz_require_error(int rc, const struct err *err);

#endif
