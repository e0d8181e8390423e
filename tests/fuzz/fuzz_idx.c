/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files (data/format_idx.c): a file of features and one of labels, of which the input gives the
 * lengths; header, types, sizes, both against each other, and the records decoded.
 *
 * Input: options (data.c), a byte of flags, two bytes with the length of the labels, the labels,
 * the features. */
#include "fuzz/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct data_spec spec = fuzz_data_spec("");
    fuzz_data_options(&in, DATA_FORMAT_IDX, &spec);
    uint8_t flags = fuzz_byte(&in);
    size_t labels = fuzz_byte(&in);
    labels = labels << 8 | fuzz_byte(&in);
    labels = labels < in.n ? labels : in.n;
    union {
        const char *in;
        char *out;
    } file = {.in = fuzz_file(0, in.data + labels, in.n - labels)},
      other = {.in = fuzz_file(1, in.data, labels)};
    spec.train.file = file.out;
    spec.train.labels = (flags & 1) != 0 ? other.out : file.out;
    if (spec.test.file == spec.train.file) {
        spec.test = spec.train;
    }
    fuzz_data_open(&spec, (flags & 2) != 0 ? DATA_LABEL_REAL : DATA_LABEL_CLASS);
    return 0;
}
