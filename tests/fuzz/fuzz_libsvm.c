/* SPDX-License-Identifier: Apache-2.0 */
/* LIBSVM files (data/format_libsvm.c): labels, indices and values of every line, lines that are
 * left out, and the records spread out.
 *
 * Input: options (data.c), a byte of flags, the number of features, the file. */
#include "fuzz/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct data_spec spec = fuzz_data_spec("");
    fuzz_data_options(&in, DATA_FORMAT_LIBSVM, &spec);
    uint8_t flags = fuzz_byte(&in);
    spec.first_index = flags & 1;
    spec.unlabelled = (flags & 8) != 0;
    spec.features = (flags & 2) != 0 ? 1 + fuzz_below(&in, 64) : 0;
    union {
        const char *in;
        char *out;
    } file = {.in = fuzz_file(0, in.data, in.n)};
    bool again = spec.test.file == spec.train.file;
    spec.train.file = file.out;
    spec.test.file = again ? file.out : spec.test.file;
    fuzz_data_open(&spec, (flags & 4) != 0 ? DATA_LABEL_REAL : DATA_LABEL_CLASS);
    return 0;
}
