/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the last file open, because the next tensor mostly lies behind the last one in the same
 * file. */
#include "data/beside_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/raw_file.h"
#include "storage/storage.h"

#define CHUNK_BYTES ((size_t)1 << 20)

struct beside_file {
    const struct data_roots *roots;
    char *dir;             /* of the first file */
    char *name;            /* name of the file that is open */
    struct raw_file *open; /* NULL: none */
};

static void close_beside(struct beside_file *b)
{
    raw_file_close(b->open);
    free(b->name);
    b->open = NULL;
    b->name = NULL;
}

/* Fewer only at the end of the file. */
static int read_on(struct raw_file *f, char *out, size_t n, size_t *got, struct err *err)
{
    int rc = 0;
    size_t part = 1;
    for (*got = 0; rc == 0 && *got < n && part > 0; *got += part) {
        part = 0;
        rc = raw_file_read(f, out + *got, n - *got, &part, err);
    }
    return rc;
}

/* Tensors usually lie one behind the other: then the file goes on. */
static int seek(struct beside_file *b, const char *file, uint64_t offset, struct err *err)
{
    if (b->open == NULL || strcmp(b->name, file) != 0 || raw_file_offset(b->open) > offset) {
        close_beside(b);
        char *path = storage_join(b->dir, file);
        int rc = raw_file_open(path, b->roots, &b->open, err);
        free(path);
        if (rc != 0) {
            b->open = NULL;
            return rc;
        }
        b->name = mem_strdup(file);
    }
    char *skipped = mem_new(CHUNK_BYTES, 1);
    int rc = 0;
    size_t got = 1;
    while (rc == 0 && got > 0 && raw_file_offset(b->open) < offset) {
        const uint64_t left = offset - raw_file_offset(b->open);
        rc = read_on(b->open, skipped, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES, &got, err);
    }
    free(skipped);
    return rc;
}

int beside_file_read(void *ctx, const char *file, uint64_t offset, void *out, size_t bytes,
                     struct err *err)
{
    struct beside_file *b = ctx;
    size_t got = 0;
    int rc = seek(b, file, offset, err);
    rc = rc != 0 ? rc : read_on(b->open, out, bytes, &got, err);
    if (rc == 0 && got < bytes) {
        rc = err_set(err, ERR_INVALID,
                     "file %.200s ends before byte %" PRIu64 ", where the tensor does", file,
                     offset + bytes);
    }
    return rc;
}

static char *directory_of(const char *path)
{
    char *dir = mem_strdup(path), *slash = strrchr(dir, '/');
    if (slash == NULL) {
        free(dir);
        return mem_strdup("");
    }
    slash[slash == dir] = '\0';
    return dir;
}

struct beside_file *beside_file_new(const char *path, const struct data_roots *roots)
{
    struct beside_file *b = mem_new(1, sizeof *b);
    b->roots = roots;
    b->dir = directory_of(path);
    return b;
}

void beside_file_free(struct beside_file *b)
{
    if (b != NULL) {
        close_beside(b);
        free(b->dir);
        free(b);
    }
}
