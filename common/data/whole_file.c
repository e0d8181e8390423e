/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a data file to its end. */
#include "data/whole_file.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/source.h"

#define CHUNK_BYTES ((size_t)1 << 20)

int whole_file_read(const char *path, const struct data_roots *roots, size_t bytes_max,
                    struct buf *out, struct err *err)
{
    struct source *s = NULL;
    int rc = source_open(path, roots, &s, err);
    size_t got = 1;
    char *chunk = mem_new(CHUNK_BYTES, 1);
    while (rc == 0 && got > 0) {
        rc = source_read(s, chunk, CHUNK_BYTES, &got, err);
        if (rc == 0 && out->len + got > bytes_max) {
            rc = err_set(err, ERR_INVALID, "it has more than %zu bytes", bytes_max);
        }
        if (rc == 0) {
            buf_add(out, chunk, got);
        }
    }
    free(chunk);
    if (s != NULL) {
        source_close(s);
    }
    return rc;
}
