/* SPDX-License-Identifier: Apache-2.0 */
/* Packed files (data/source.c, data/gunzip.c, data/zstd_file.c): told by their first bytes,
 * unpacked member after member, frame after frame, in reads of any size.
 *
 * Input: a byte with the size of the reads, the file. */
#include "fuzz/fuzz.h"

#include "data/source.h"

#define UNPACKED_BYTES_MAX (1U << 20) /* what 4 KiB of zeros become is of no interest */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t out[65536];
    struct fuzz_input in = {data, n};
    uint8_t step = fuzz_byte(&in);
    const size_t want = step < 64 ? 1U + step : sizeof out;
    struct source *s = NULL;
    struct err err = {0};
    int rc = source_open(fuzz_file(0, in.data, in.n), NULL, &s, &err);
    fuzz_require_error(rc, &err);
    size_t got = want, total = 0;
    while (rc == 0 && got == want && total < UNPACKED_BYTES_MAX) {
        rc = source_read(s, out, want, &got, &err);
        fuzz_require_error(rc, &err);
        fuzz_require(rc != 0 || got <= want, "no more is read than was asked for");
        total += rc == 0 ? got : 0;
        fuzz_require(rc != 0 || source_offset(s) == total, "it knows where it is");
    }
    uint64_t bytes = 0;
    if (rc == 0 && got < want && source_size(s, &bytes)) {
        fuzz_require(bytes == total, "a plain file is as long as it says");
    }
    source_close(s);
    return 0;
}
