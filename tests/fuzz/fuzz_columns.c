/* SPDX-License-Identifier: Apache-2.0 */
/* Files whose columns are declared: `data.columns` as a job file has it, read and checked as every
 * job file is, then the file by it, CSV (data/csv_declared.c, column_features.c,
 * column_vocabulary.c), libFFM or Criteo's clicks (data/labelled_lines.c, sparse_fields.c),
 * TFRecord (data/tfrecord.c, tf_example.c), and a file with a vocabulary.
 *
 * Input: a byte with the format; texts with a NUL between them: the entries of data.columns, the
 * vocabulary, the file. */
#include "fuzz/data.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "job/spec/job_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const formats[] = {"csv", "libffm", "criteo", "auto", "tfrecord"};
    struct fuzz_input in = {data, n};
    const char *format = formats[fuzz_below(&in, sizeof formats / sizeof formats[0])];
    char *columns = fuzz_text(&in, '\0');
    char *words = fuzz_text(&in, '\0');
    struct buf text = {0};
    /* Named in an entry as it always is: vocabulary_file: /proc/self/fd/... is in slot 1. */
    buf_add_str(&text, "name: f\ndata:\n  dir: /proc/self/fd\n  train:\n    file: ");
    buf_add_str(&text, fuzz_file(0, in.data, in.n));
    (void)fuzz_file(1, words, strlen(words));
    buf_printf(&text, "\n  format: %s\n  columns:\n%s\n", format, columns);
    buf_add_str(&text, "model:\n  layers:\n  - dense: {units: 2}\n"
                       "  loss: softmax_cross_entropy\nupdate: {rule: sgd}\n"
                       "training: {batch_size: 4, epochs: 1}\n");
    struct job_spec spec = {0};
    struct diags diags = {0};
    if (job_spec_parse(buf_str(&text), text.len, "job", NULL, 0, &spec, &diags) == 0) {
        fuzz_data_open(&spec.data, DATA_LABEL_CLASS);
    } else {
        fuzz_require(diags.count > 0, "a job file that is refused has a diagnosis");
    }
    job_spec_release(&spec);
    diags_release(&diags);
    buf_release(&text);
    free(columns);
    free(words);
    return 0;
}
