/* SPDX-License-Identifier: Apache-2.0 */
/* Names and writes the file in which a parameter server saves its shard. Checksums of dense tensors
 * are kept for each chunk; tables come through table_file.h. */
#include "checkpoint/shard_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "checkpoint/gradient_json.h"
#include "checkpoint/ledger_json.h"

const char *shard_file_name(uint32_t shard, uint32_t shard_count, uint64_t generation,
                            char out[SHARD_FILE_NAME_BYTES])
{
    if (generation > 1) {
        (void)snprintf(out, SHARD_FILE_NAME_BYTES, "shard-%u-of-%u-g%" PRIu64 ".safetensors", shard,
                       shard_count, generation);
    } else {
        (void)snprintf(out, SHARD_FILE_NAME_BYTES, "shard-%u-of-%u.safetensors", shard,
                       shard_count);
    }
    return out;
}

bool shard_file_name_parse(const char *name, uint32_t shard, uint32_t shard_count,
                           uint64_t *generation)
{
    char expected[SHARD_FILE_NAME_BYTES];
    const char *mark = strstr(name, "-g");
    *generation = mark == NULL ? 0 : strtoull(mark + 2, NULL, 10);
    return strcmp(name, shard_file_name(shard, shard_count, *generation, expected)) == 0;
}

/* A tensor of the file: the values of a partition, or one of its slots. */
struct content {
    char *name;
    const float *data;
    uint64_t floats;
};

static void declare_one(const struct shard_file_state *s, const struct partition *p,
                        const struct update_slot *slot, struct safetensors_tensor *t,
                        struct content *c)
{
    const struct variable_spec *v = &s->plan->variables[p->variable];
    c->name = mem_printf("%s[%" PRIu64 ":%" PRIu64 "]%s%s", v->name, p->row_first,
                         p->row_first + p->row_count, slot == NULL ? "" : "#",
                         slot == NULL ? "" : slot->name);
    t->name = c->name;
    t->dtype = SAFETENSORS_F32;
    if (slot != NULL && slot->kind != RULE_SLOT_PARAMETER) {
        t->rank = 1;
        t->dims[0] = c->floats;
        return;
    }
    t->rank = v->shape.rank;
    for (size_t d = 0; d < t->rank; d++) {
        t->dims[d] = d == 0 ? p->row_count : v->shape.dims[d];
    }
}

/* Declares the tensors of partitions. Returns how many there are. The caller frees the names. */
static size_t declare(const struct shard_file_state *s, const struct partition *parts, size_t count,
                      struct safetensors_tensor *tensors, struct content *contents)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++, n++) {
        contents[n] =
            (struct content){.data = s->values + parts[i].offset, .floats = parts[i].count};
        declare_one(s, &parts[i], NULL, &tensors[n], &contents[n]);
    }
    for (size_t k = 0; k < update_slot_count(s->update); k++) {
        const struct update_slot *slot = update_slot(s->update, k);
        for (size_t i = 0; i < count; i++) {
            contents[n] =
                (struct content){.data = s->slots[k] + update_slot_offset(s->update, k, i),
                                 .floats = update_slot_part_floats(s->update, k, i)};
            declare_one(s, &parts[i], slot, &tensors[n], &contents[n]);
            n++;
        }
    }
    return n;
}

static int compare_contents(const void *a, const void *b)
{
    return strcmp(((const struct content *)a)->name, ((const struct content *)b)->name);
}

/* Of every chunk, in the order of names, as text. Returns owned. */
static char *checksums_of(const struct content *contents, size_t count)
{
    struct content *sorted = mem_new(count, sizeof *sorted);
    memcpy(sorted, contents, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_contents);
    struct buf text = {0};
    for (size_t i = 0; i < count; i++) {
        const char *data = (const char *)sorted[i].data;
        for (uint64_t left = sorted[i].floats * sizeof(float); left > 0;) {
            uint64_t n = left < SHARD_FILE_CHUNK_BYTES ? left : SHARD_FILE_CHUNK_BYTES;
            buf_printf(&text, "%016" PRIx64, checksum_of(data, (size_t)n));
            data += n;
            left -= n;
        }
    }
    free(sorted);
    return buf_take(&text);
}

bool shard_file_base_named(const char *name)
{
    static const char prefix[] = "step-";
    const char *digits = name + sizeof prefix - 1;
    return strncmp(name, prefix, sizeof prefix - 1) == 0 && digits[0] != '\0' &&
           strlen(name) < SHARD_FILE_BASE_BYTES && digits[strspn(digits, "0123456789")] == '\0';
}

static char *base_of(const struct shard_file_state *s)
{
    return s->base == NULL ? NULL
                           : mem_printf("{\"directory\": \"%s\", \"version\": %" PRIu64
                                        ", \"checksum\": \"0x%016" PRIx64 "\"}",
                                        s->base->directory, s->base->version, s->base->checksum);
}

static const char *version_of(const struct shard_file_state *s)
{
    return s->base != NULL     ? SHARD_FILE_VERSION_DELTA
           : s->tables != NULL ? SHARD_FILE_VERSION_TABLES
                               : SHARD_FILE_VERSION;
}

/* NULL: none. */
static char *gradients_of(const struct shard_file_state *s)
{
    struct buf text = {0};
    if (s->gradient == NULL) {
        return NULL;
    }
    gradient_json_format(s->plan, s->shard, s->gradient, &text);
    return buf_take(&text);
}

#define META_MAX 15

/* Sorted; the caller frees texts[]. Returns how many. */
static size_t make_meta(const struct shard_file_state *s, char *checksums,
                        struct safetensors_meta meta[META_MAX], char *texts[META_MAX])
{
    const struct table_file_source *tables = s->tables;
    struct buf ledger = {0};
    ledger_json_format(s->ledger, &ledger);
    char *const made[META_MAX] = {
        base_of(s),
        checksums,
        mem_strdup(SHARD_FILE_FORMAT),
        mem_strdup(version_of(s)),
        mem_printf("%" PRIu64, s->generation),
        gradients_of(s),
        mem_strdup(s->job),
        buf_take(&ledger),
        mem_strdup(s->rule),
        mem_strdup(SAFETENSORS_SEAL_EMPTY),
        mem_printf("%u", s->shard),
        mem_printf("%u", s->plan->shard_count),
        mem_printf("%" PRIu64, s->step),
        tables == NULL ? NULL : table_file_format(tables->tables, tables->count, s->base != NULL),
        mem_printf("%" PRIu64, s->version),
    };
    static const char *const keys[META_MAX] = {
        "base",      "checksums", "format", "format_version", "generation",
        "gradients", "job",       "ledger", "rule",           SAFETENSORS_SEAL,
        "shard",     "shards",    "step",   "tables",         "version"};
    size_t n = 0;
    for (size_t i = 0; i < META_MAX; i++) {
        if (made[i] != NULL) {
            texts[n] = made[i];
            meta[n++] = (struct safetensors_meta){keys[i], made[i]};
        }
    }
    return n;
}

/* The tensors of a file: those of partitions, then those of tables. */
struct declared {
    struct safetensors_tensor *tensors;
    struct content *contents; /* [dense] */
    size_t dense;
    struct table_writer *tables; /* NULL: none */
    size_t count;
};

static void declare_all(const struct shard_file_state *s, const struct partition *parts,
                        size_t part_count, struct declared *d)
{
    const size_t most = part_count * (1 + update_slot_count(s->update));
    *d = (struct declared){.contents = mem_new(most, sizeof *d->contents)};
    d->tables = s->tables == NULL ? NULL : table_writer_new(s->tables);
    const size_t more = d->tables == NULL ? 0 : table_writer_tensors(d->tables);
    d->tensors = mem_new(most + more, sizeof *d->tensors);
    d->dense = declare(s, parts, part_count, d->tensors, d->contents);
    d->count = d->dense + more;
    if (d->tables != NULL) {
        table_writer_declare(d->tables, d->tensors + d->dense);
    }
}

static void declared_release(struct declared *d)
{
    for (size_t i = 0; i < d->dense; i++) {
        free(d->contents[i].name);
    }
    if (d->tables != NULL) {
        table_writer_free(d->tables);
    }
    free(d->contents);
    free(d->tensors);
}

static int write_tensors(struct safetensors_writer *w, const struct declared *d, struct err *err)
{
    int rc = 0;
    for (size_t n; rc == 0 && safetensors_writer_next(w, &n);) {
        rc = n >= d->dense
                 ? table_writer_add(d->tables, n - d->dense, w, err)
                 : safetensors_writer_add(w, d->contents[n].data,
                                          (size_t)d->contents[n].floats * sizeof(float), err);
    }
    return rc;
}

int shard_file_write(const char *path, const struct shard_file_state *state,
                     struct safetensors_written *out, struct err *err)
{
    size_t count = 0;
    const struct partition *parts = plan_shard(state->plan, state->shard, &count);
    if (count == 0 && state->tables == NULL) {
        return err_set(err, ERR_INVALID, "write %s: shard %u of %u is empty", path, state->shard,
                       state->plan->shard_count);
    }
    struct declared d;
    struct safetensors_meta meta[META_MAX];
    char *texts[META_MAX];
    declare_all(state, parts, count, &d);
    const size_t metas = make_meta(state, checksums_of(d.contents, d.dense), meta, texts);
    struct safetensors_writer w;
    int rc = safetensors_writer_open(&w, path, d.tensors, d.count, meta, metas, err);
    if (rc == 0) {
        rc = write_tensors(&w, &d, err);
        if (rc == 0) {
            rc = safetensors_writer_commit(&w, out, err);
        } else {
            safetensors_writer_abort(&w);
        }
    }
    for (size_t i = 0; i < metas; i++) {
        free(texts[i]);
    }
    declared_release(&d);
    return rc;
}
