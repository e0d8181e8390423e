/* SPDX-License-Identifier: Apache-2.0 */
/* What a manifest says and the files that it names: their sizes, content and tables, and the base
 * of a delta. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "os/file.h"

#define CHUNK_BYTES (1U << 20)

static int sum_of_file(const struct storage_reader *file, uint64_t *out, struct err *err)
{
    char *chunk = mem_new(CHUNK_BYTES, 1);
    struct checksum *sum = checksum_new();
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < file->bytes;) {
        size_t n = file->bytes - at < CHUNK_BYTES ? (size_t)(file->bytes - at) : CHUNK_BYTES;
        rc = storage_read_at(file, at, chunk, n, err);
        checksum_add(sum, chunk, rc == 0 ? n : 0);
        at += n;
    }
    *out = checksum_value(sum);
    checksum_free(sum);
    free(chunk);
    return rc;
}

static int check_content(const struct storage_reader *file, const struct manifest_shard *s,
                         bool checksums, struct err *err)
{
    if (file->bytes != s->bytes) {
        return err_set(err, ERR_CORRUPT,
                       "size differs (manifest %" PRIu64 " bytes, file %" PRIu64 ")", s->bytes,
                       file->bytes);
    }
    if (!checksums) {
        return 0;
    }
    uint64_t sum = 0;
    int rc = sum_of_file(file, &sum, err);
    if (rc == 0 && sum != s->checksum) {
        rc = err_set(err, ERR_CORRUPT,
                     "checksum differs (manifest 0x%016" PRIx64 ", file 0x%016" PRIx64 ")",
                     s->checksum, sum);
    }
    return rc;
}

int manifest_check_file(const char *dir, const struct manifest *m, uint32_t shard, bool checksum,
                        struct err *err)
{
    char name[SHARD_FILE_NAME_BYTES];
    char *path =
        file_join(dir, shard_file_name(shard, m->shard_count, m->shards[shard].generation, name));
    struct storage_reader file;
    int rc = storage_open(&file, path, err);
    if (rc == ERR_NOT_FOUND) {
        (void)err_set(err, rc, "missing");
    } else if (rc == ERR_INVALID) {
        rc = err_set(err, ERR_CORRUPT, "not a file");
    } else if (rc == 0) {
        rc = check_content(&file, &m->shards[shard], checksum, err);
        storage_close(&file);
    }
    free(path);
    if (rc != 0) {
        (void)err_wrap(err, "%s", name);
        (void)err_wrap(err, "checkpoint %s", dir);
    }
    return rc;
}

int manifest_check_files(const char *dir, const struct manifest *m, bool checksums, struct err *err)
{
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < m->shard_count; i++) {
        rc = manifest_check_file(dir, m, i, checksums, err);
    }
    return rc;
}

/* For the writer of @m: checks that the base that @m names is there with its files, and gives its
 * checksum to @m. Does nothing when @m names none. Errors: ERR_NOT_FOUND, ERR_CORRUPT, with its
 * name; of files. */
static int manifest_find_base(const char *dir, struct manifest *m, struct manifest *base,
                              struct err *err)
{
    *base = (struct manifest){0};
    if (m->base.directory[0] == '\0') {
        return 0;
    }
    char *path = manifest_base_path(dir, m);
    int rc = manifest_read(path, base, err);
    rc = rc != 0 ? rc : manifest_check_files(path, base, false, err);
    free(path);
    if (rc != 0) {
        return err_wrap(err, "checkpoint %s: its base %s", dir, m->base.directory);
    }
    m->base.checksum = base->checksum;
    return manifest_check_base(dir, m, base, err);
}

static int take_file(struct manifest *m, uint32_t shard, const struct shard_file *f,
                     struct err *err)
{
    if (f->table_count != m->table_count) {
        return err_set(err, ERR_CORRUPT, "it has %zu tables; the job has %zu", f->table_count,
                       m->table_count);
    }
    for (size_t i = 0; i < m->table_count; i++) {
        struct manifest_table *t = &m->tables[i];
        const struct table_file_info *has = &f->tables[i];
        if (strcmp(has->name, t->info.name) != 0 || has->dim != t->info.dim ||
            has->admission != t->info.admission) {
            return err_set(err, ERR_CORRUPT,
                           "its table %zu is %s of dim %" PRIu64 ", the job's is %s of dim "
                           "%" PRIu64,
                           i, has->name, has->dim, t->info.name, t->info.dim);
        }
        t->rows[shard] = has->all;
        t->counts[shard] = has->counts;
        t->info.rows += has->all;
        t->info.counts += has->counts;
    }
    return 0;
}

int manifest_take_tables(const char *dir, struct manifest *m, struct err *err)
{
    struct manifest base = {0};
    bool delta = false;
    int rc = manifest_find_base(dir, m, &base, err);
    for (uint32_t i = 0; m->table_count > 0 && rc == 0 && i < m->shard_count; i++) {
        struct shard_file file = {0};
        char name[SHARD_FILE_NAME_BYTES];
        char *path =
            file_join(dir, shard_file_name(i, m->shard_count, m->shards[i].generation, name));
        rc = shard_file_open(&file, path, err);
        if (rc == 0) {
            rc = take_file(m, i, &file, err);
            rc = rc != 0 ? rc : manifest_check_delta(m, &base, i, &file, err);
            rc = rc == 0 ? 0 : err_wrap(err, "read %s", path);
            delta = delta || file.base.directory[0] != '\0';
            shard_file_close(&file);
        }
        free(path);
    }
    if (!delta) {
        m->base = (struct manifest_base){0};
    }
    manifest_release(&base);
    return rc;
}
