/* SPDX-License-Identifier: Apache-2.0 */
/* Writes data files anew, as one that is small and can still be read at any place: zstd in blocks
 * of whole lines or records (zstd_seek.h). */
#ifndef GRADUS_DATA_CONVERT_H
#define GRADUS_DATA_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CONVERT_BLOCK_BYTES_MAX (64U << 20)

struct convert_request {
    const char *const *inputs; /* [count] paths or s3:// URLs, plain or packed */
    size_t count;
    const char *output;
    bool header;        /* each input begins with a header line, of which the first one stays */
    size_t block_bytes; /* of content, at most; a longer line or record is not cut */
    int level;          /* of zstd */
};

struct convert_result {
    uint64_t content, packed, blocks; /* bytes */
};

/* Writes the content of all inputs, one behind the other. Content that is neither text nor TFRecord
 * is cut anywhere. When it fails, the output is as it was before. Errors: as source_open() and
 * source_read(); of writing; ERR_INVALID inputs of text and of TFRecord; ERR_EXHAUSTED a line that
 * is too long. */
int convert_files(const struct convert_request *q, struct convert_result *out, struct err *err);

#endif
