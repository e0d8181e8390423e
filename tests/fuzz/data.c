/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/data.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/sparse_batch.h"

#define BATCH 64

/* For members that are not const and are written by nobody. */
static char *word(const char *text)
{
    union {
        const char *in;
        char *out;
    } either = {.in = text};
    return either.out;
}

struct data_spec fuzz_data_spec(const char *file)
{
    return (struct data_spec){
        .dir = word(""),
        .train = {.file = word(file), .labels = word("")},
        .test = {.file = word(""), .labels = word("")},
        .label = word("-1"),
        .separator = word(","),
        .categorical = word(""),
        .ignore = word(""),
        .first_index = 1,
    };
}

void fuzz_data_options(struct fuzz_input *in, int format, struct data_spec *spec)
{
    uint8_t flags = fuzz_byte(in);
    spec->format = (flags & 1) != 0 ? DATA_FORMAT_AUTO : format;
    spec->train.limit = (flags & 2) != 0 ? 1 + fuzz_below(in, 8) : 0;
    spec->test_fraction = (flags & 4) != 0 ? 0.5 : 0;
    spec->bad_records = (flags & 8) != 0 ? 1 + fuzz_below(in, 4) : 0;
    spec->scale = (flags & 16) != 0 ? fuzz_below(in, DATA_SCALE_MINMAX + 1) : DATA_SCALE_AUTO;
    spec->classes = (flags & 32) != 0 ? fuzz_below(in, 16) : 0;
    spec->label_scale = (flags & 64) != 0 ? DATA_LABEL_SCALE_STANDARD : DATA_LABEL_SCALE_NONE;
    if ((flags & 128) != 0) { /* another source with the same records */
        spec->test.file = spec->train.file;
        spec->test.labels = spec->train.labels;
    }
}

/* The keys of the first records, as layers get them. */
static void read_keys(const struct dataset *d)
{
    const struct sparse_fields *fields = dataset_fields(d);
    struct sparse_batch b = {0};
    struct err err = {0};
    uint64_t records[BATCH];
    size_t n = 0;
    for (; n < BATCH && n < dataset_info(d)->records; n++) {
        records[n] = n;
    }
    if (fields == NULL || fields->count == 0) {
        return;
    }
    int rc = sparse_batch_init(&b, fields, BATCH, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        sparse_batch_read(&b, fields, records, n);
    }
    sparse_batch_release(&b);
}

static void read_all(const struct dataset *d)
{
    const struct dataset_info *info = dataset_info(d);
    struct batch b;
    struct err err = {0};
    fuzz_require(info->records > 0, "an open dataset has records");
    if (batch_init(&b, d, BATCH, &err) != 0) {
        fuzz_require_error(err.code, &err);
        return;
    }
    uint64_t records[BATCH];
    for (uint64_t first = 0; first < info->records && first < 16 * BATCH; first += BATCH) {
        size_t n = 0;
        for (; n < BATCH && first + n < info->records; n++) {
            records[n] = first + n;
        }
        fuzz_require(dataset_read(d, records, n, &b, &err) == 0, "what is in memory can be read");
    }
    batch_release(&b);
    read_keys(d);
}

void fuzz_data_open(const struct data_spec *spec, enum data_label_kind kind)
{
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    int rc = dataset_open(spec, kind, &train, &test, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        read_all(train);
        if (test != NULL) {
            read_all(test);
        }
        const char *first = NULL;
        fuzz_require((dataset_bad_records(train, &first) > 0) == (first != NULL),
                     "the first bad record is named when there is one");
    } else {
        fuzz_require(train == NULL && test == NULL, "no dataset with an error");
    }
    dataset_free(train);
    dataset_free(test);
}
