/* SPDX-License-Identifier: Apache-2.0 */
/* CSV files (data/csv.c, data/format_csv.c, data/cells.c): quotes, separators, headers, missing
 * cells, categories and labels by the keys of the `data` section. What it takes to declare columns
 * is fuzz_columns.c.
 *
 * Input: options (data.c), seven bytes of keys, a line with the label's column, one with those that
 * are categories, the file. */
#include "fuzz/data.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const separators[] = {",", ";", "tab", " ", "|"};
    struct fuzz_input in = {data, n};
    struct data_spec spec = fuzz_data_spec("");
    fuzz_data_options(&in, DATA_FORMAT_CSV, &spec);
    uint8_t flags = fuzz_byte(&in);
    spec.unlabelled = (flags & 16) != 0;
    spec.header = fuzz_below(&in, DATA_HEADER_FALSE + 1);
    spec.missing = fuzz_below(&in, DATA_MISSING_SKIP + 1);
    spec.short_rows = fuzz_below(&in, DATA_SHORT_ROWS_MISSING + 1);
    union {
        const char *in;
        char *out;
    } file, separator = {.in = separators[fuzz_below(&in, 5)]};
    spec.separator = separator.out;
    char *label = (flags & 1) != 0 ? fuzz_text(&in, '\n') : NULL;
    char *texts = (flags & 2) != 0 ? fuzz_text(&in, '\n') : NULL;
    char *ignored = (flags & 4) != 0 ? fuzz_text(&in, '\n') : NULL;
    spec.label = label != NULL ? label : spec.label;
    spec.categorical = texts != NULL ? texts : spec.categorical;
    spec.ignore = ignored != NULL ? ignored : spec.ignore;
    file.in = fuzz_file(0, in.data, in.n);
    bool again = spec.test.file == spec.train.file;
    spec.train.file = file.out;
    spec.test.file = again ? file.out : spec.test.file;
    fuzz_data_open(&spec, (flags & 8) != 0 ? DATA_LABEL_REAL : DATA_LABEL_CLASS);
    free(label);
    free(texts);
    free(ignored);
    return 0;
}
