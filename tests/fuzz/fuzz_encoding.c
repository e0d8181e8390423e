/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint says was measured on train records (data/encoding_recall.c), for data with
 * columns of text, with declared columns and with sparse fields: what is believed makes numbers of
 * a record.
 *
 * Input: a byte that chooses the data section, the JSON. */
#include "fuzz/data.h"

#include <stdlib.h>

#include "data/encoder.h"

#define NUMBERS_MAX 4096 /* of a record that is tried */

static int see(void *context, const struct encoder_block *part, struct err *err)
{
    const struct dataset *block = part->data;
    struct batch b = {0};
    const uint64_t first = 0;
    int rc = *(const bool *)context ? batch_init(&b, block, 1, err) : 0;
    rc = b.capacity == 0 ? rc : dataset_read(block, &first, 1, &b, err);
    batch_release(&b);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char rows[] = "1,red,2\n", lists[] = "1 0:2:1 1:4:1\n";
    char none[] = "", first[] = "0", second[] = "1", range[] = "0..2";
    struct data_column columns[] = {
        {.column = first, .as = COLUMN_NUMBER, .standardise = true, .log = true},
        {.column = second, .as = COLUMN_CATEGORY},
        {.column = range, .as = COLUMN_SPARSE}};
    for (size_t i = 0; i < 3; i++) {
        columns[i].boundaries = columns[i].vocabulary = columns[i].vocabulary_file = none;
        columns[i].separator = none;
    }
    struct fuzz_input in = {data, n};
    const unsigned kind = fuzz_below(&in, 3);
    struct data_spec spec = fuzz_data_spec("none");
    spec.columns = kind == 1 ? columns : columns + 2;
    spec.column_count = kind == 1 ? 2 : kind == 2;
    spec.lists_all = kind == 2;
    char *text = fuzz_rest(&in);
    struct encoder *e = NULL;
    struct err err = {0};
    int rc = encoder_recall(text, &spec, kind == 0 ? DATA_LABEL_CLASS : DATA_LABEL_REAL, &e, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        const struct encoder_files files = {.file = kind == 2
                                                        ? fuzz_file(0, lists, sizeof lists - 1)
                                                        : fuzz_file(1, rows, sizeof rows - 1),
                                            .unlabelled = true};
        bool small = shape_count(&encoder_info(e)->features) <= NUMBERS_MAX;
        struct encoder_left left = {0};
        (void)encoder_read(e, &files, see, &small, &left, &err);
        encoder_left_release(&left);
    }
    encoder_free(e);
    free(text);
    return 0;
}
