/* SPDX-License-Identifier: Apache-2.0 */
/* The base of a delta: what a manifest says of it, and whether it is still the one that the delta
 * was written for. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "json/json_doc.h"

/* The base lies beside @dir, whose path may be written in any way that opens it. */
char *manifest_base_path(const char *dir, const struct manifest *m)
{
    size_t end = strlen(dir), begin;
    while (end > 0 && dir[end - 1] == '/') {
        end--;
    }
    for (begin = end; begin > 0 && dir[begin - 1] != '/';) {
        begin--;
    }
    if (begin == 0 || dir[begin] == '.') {
        return mem_printf("%s/../%s", dir, m->base.directory);
    }
    return mem_printf("%.*s%s", (int)begin, dir, m->base.directory);
}

/* True if both have the same tables in the same order, with the same rule. */
static bool same_tables(const struct manifest *a, const struct manifest *b)
{
    bool same = a->table_count == b->table_count && strcmp(a->job, b->job) == 0 &&
                strcmp(a->rule, b->rule) == 0 && a->slot_count == b->slot_count;
    for (size_t i = 0; same && i < a->slot_count; i++) {
        same = strcmp(a->slots[i], b->slots[i]) == 0 && a->slot_kinds[i] == b->slot_kinds[i];
    }
    for (size_t i = 0; same && i < a->table_count; i++) {
        const struct table_file_info *x = &a->tables[i].info, *y = &b->tables[i].info;
        same = strcmp(x->name, y->name) == 0 && x->dim == y->dim && x->admission == y->admission;
    }
    return same;
}

int manifest_check_base(const char *dir, const struct manifest *m, const struct manifest *base,
                        struct err *err)
{
    int rc = 0;
    if (base->checksum != m->base.checksum) {
        rc = err_set(err, ERR_CORRUPT,
                     "it is not the one that it was written for (checksum 0x%016" PRIx64
                     ", 0x%016" PRIx64 " is expected)",
                     base->checksum, m->base.checksum);
    } else if (base->base.directory[0] != '\0') {
        rc = err_set(err, ERR_CORRUPT, "it is a delta itself");
    } else if (base->shard_count != m->shard_count) {
        rc = err_set(err, ERR_CORRUPT, "it has %" PRIu32 " shards, not %" PRIu32, base->shard_count,
                     m->shard_count);
    } else if (!same_tables(m, base)) {
        rc = err_set(err, ERR_CORRUPT, "it is of another job, or has other tables or slots");
    }
    return rc == 0 ? 0 : err_wrap(err, "checkpoint %s: its base %s", dir, m->base.directory);
}

int manifest_check_delta(const struct manifest *m, const struct manifest *base, uint32_t shard,
                         const struct shard_file *f, struct err *err)
{
    if (f->base.directory[0] == '\0') {
        return 0;
    }
    if (strcmp(f->base.directory, m->base.directory) != 0) {
        return err_set(err, ERR_CORRUPT, "it is a delta of %s, the checkpoint is %s%s",
                       f->base.directory, m->base.directory[0] == '\0' ? "none" : "one of ",
                       m->base.directory);
    }
    const struct manifest_shard *s = &base->shards[shard];
    if (f->base.checksum != s->checksum || f->base.version != s->version) {
        return err_set(err, ERR_CORRUPT,
                       "it is a delta of a file of version %" PRIu64 " with checksum 0x%016" PRIx64
                       ", that in %s is of version %" PRIu64 " with 0x%016" PRIx64,
                       f->base.version, f->base.checksum, m->base.directory, s->version,
                       s->checksum);
    }
    return 0;
}

/* ---- the member "base" ---- */

void manifest_base_format(const struct manifest *m, struct buf *out)
{
    if (m->base.directory[0] != '\0') {
        buf_printf(out,
                   "  \"base\": {\"directory\": \"%s\", \"checksum\": \"0x%016" PRIx64 "\"},\n",
                   m->base.directory, m->base.checksum);
    }
}

int manifest_base_read(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *base = NULL;
    const char *directory = NULL, *sum = NULL;
    uint64_t version = 0;
    int rc = json_doc_u64(root, "format_version", INT64_MAX, &version, err);
    if (rc != 0 || version != MANIFEST_FORMAT_VERSION_DELTA) {
        return rc;
    }
    rc = json_doc_object(root, "base", &base, err);
    if (rc != 0) {
        return rc;
    }
    rc = json_doc_string(base, "directory", &directory, err);
    rc = rc != 0 ? rc : json_doc_string(base, "checksum", &sum, err);
    if (rc == 0 && !shard_file_base_named(directory)) { /* no other name is ever opened */
        rc = err_set(err, ERR_CORRUPT, "directory: %.80s; step-000000500 and its like are expected",
                     directory);
    }
    if (rc == 0 && !manifest_sum_parse(sum, &m->base.checksum)) {
        rc = err_set(err, ERR_CORRUPT, "checksum: 0x and 16 digits are expected");
    }
    if (rc != 0) {
        return err_wrap(err, "base");
    }
    memcpy(m->base.directory, directory, strlen(directory) + 1);
    return 0;
}
