/* SPDX-License-Identifier: Apache-2.0 */
/* Records that are read once, from the beginning to the end, in blocks of whole rows or records:
 * standard input, and files of lines that are no format of the job. No more than a block is in
 * memory. */
#ifndef GRADUS_DATA_FEED_H
#define GRADUS_DATA_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/records.h"

#define FEED_STANDARD_INPUT "-"
#define FEED_BLOCK_BYTES ((size_t)4 << 20)

/* Whole rows. */
struct feed_text {
    const char *where; /* the file, as messages name it */
    const char *bytes;
    size_t count;
    uint64_t line;    /* number of the first */
    uint64_t had_bad; /* rows that were left out before */
    const struct data_spec *spec;
};
typedef int feed_parse(void *context, const struct feed_text *text, struct records *out,
                       struct err *err);
/* Called with records; it may take their arrays. They are released afterwards. */
typedef int feed_visit(void *context, struct records *records, struct err *err);

struct feed_options {
    const struct data_spec *spec; /* its test source is read; its format is known */
    bool label_is_class;
    size_t block_bytes;
    feed_parse *parse; /* of lines, @out is zeroed; NULL: the rows are of the format of @spec */
    feed_visit *visit;
    void *context;
};

struct feed_left { /* rows that were left out (data.bad_records); begins zeroed */
    uint64_t count;
    char *first; /* owned */
};

/* Errors: ERR_UNSUPPORTED files of this format are read as a whole; ERR_INVALID there are no
 * records; as dataset_open() and of the callbacks. */
int feed_read(const struct feed_options *options, struct feed_left *left, struct err *err);

#endif
