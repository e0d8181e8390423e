/* SPDX-License-Identifier: Apache-2.0 */
/* Writes manifest.json, the file that makes a directory of shards a checkpoint. The order of its
 * members is fixed and the last one is the checksum of all text before it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/text.h"
#include "checkpoint/ledger_json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"
#include "json/json_doc.h"
#include "json/json_write.h"
#include "os/file.h"
#include "storage/storage.h"

static void add_text(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, "  \"%s\": ", key);
    json_add_string(out, value);
    buf_add_str(out, ",\n");
}

static void add_number(struct buf *out, const char *key, uint64_t value)
{
    buf_printf(out, "  \"%s\": %" PRIu64 ",\n", key, value);
}

static void add_variables(struct buf *out, const struct manifest *m)
{
    buf_add_str(out, "  \"variables\": [\n");
    for (size_t i = 0; i < m->variable_count; i++) {
        const struct variable_spec *v = &m->variables[i];
        buf_add_str(out, "    {\"name\": ");
        json_add_string(out, v->name);
        buf_add_str(out, ", \"shape\": [");
        for (size_t d = 0; d < v->shape.rank; d++) {
            buf_printf(out, "%s%" PRIu64, d == 0 ? "" : ", ", v->shape.dims[d]);
        }
        buf_printf(out, "]}%s\n", i + 1 < m->variable_count ? "," : "");
    }
    buf_add_str(out, "  ],\n");
}

static void add_shards(struct buf *out, const struct manifest *m)
{
    buf_add_str(out, "  \"shards\": [\n");
    for (uint32_t i = 0; i < m->shard_count; i++) {
        const struct manifest_shard *s = &m->shards[i];
        char name[SHARD_FILE_NAME_BYTES];
        buf_printf(out, "    {\"file\": \"%s\", \"version\": %" PRIu64 ", \"bytes\": %" PRIu64,
                   shard_file_name(i, m->shard_count, s->generation, name), s->version, s->bytes);
        buf_printf(out, ", \"checksum\": \"0x%016" PRIx64 "\"}%s\n", s->checksum,
                   i + 1 < m->shard_count ? "," : "");
    }
    buf_add_str(out, "  ],\n");
}

/* Kinds are said only where there are several: readers that know none know all slots then. */
static void add_slots(struct buf *out, const struct manifest *m)
{
    bool plain = true;
    buf_add_str(out, "  \"slots\": [");
    for (size_t k = 0; k < m->slot_count; k++) {
        buf_add_str(out, k == 0 ? "" : ", ");
        json_add_string(out, m->slots[k]);
        plain = plain && m->slot_kinds[k] == RULE_SLOT_PARAMETER;
    }
    buf_add_str(out, "],\n");
    if (plain) {
        return;
    }
    buf_add_str(out, "  \"slot_kinds\": [");
    for (size_t k = 0; k < m->slot_count; k++) {
        buf_printf(out, "%s\"%s\"", k == 0 ? "" : ", ", manifest_slot_kinds[m->slot_kinds[k]]);
    }
    buf_add_str(out, "],\n");
}

/* Writes the sums as their bits: sums may be infinite, and have to come back as they were. */
static void add_train_sums(struct buf *out, const struct manifest *m)
{
    if (m->train_sum_count == 0) {
        return;
    }
    add_number(out, "train_epoch", m->train_epoch);
    buf_add_str(out, "  \"train_sums\": \"");
    for (size_t i = 0; i < m->train_sum_count; i++) {
        uint64_t bits;
        memcpy(&bits, &m->train_sums[i], sizeof bits);
        buf_printf(out, "%016" PRIx64, bits);
    }
    buf_add_str(out, "\",\n");
}

static uint64_t version_of(const struct manifest *m)
{
    return m->base.directory[0] != '\0' ? MANIFEST_FORMAT_VERSION_DELTA
           : m->table_count > 0         ? MANIFEST_FORMAT_VERSION_TABLES
                                        : MANIFEST_FORMAT_VERSION;
}

static void format(const struct manifest *m, struct buf *out)
{
    buf_add_str(out, "{\n");
    add_text(out, "format", "gradus-checkpoint");
    add_number(out, "format_version", version_of(m));
    add_text(out, "job", m->job);
    if (m->owner[0] != '\0') {
        add_text(out, "owner", m->owner);
    }
    buf_printf(out, "  \"created_ms\": %" PRId64 ",\n", m->created_ms);
    add_text(out, "mode", manifest_mode_names[m->mode]);
    add_number(out, "generation", m->generation);
    add_number(out, "step", m->step);
    add_number(out, "epoch", m->epoch);
    add_number(out, "records", m->records);
    add_text(out, "rule", m->rule);
    add_slots(out, m);
    add_variables(out, m);
    manifest_base_format(m, out);
    add_shards(out, m);
    manifest_tables_format(m, out);
    if (m->ledger.split_count > 0) {
        buf_add_str(out, "  \"ledger\": ");
        ledger_json_format(&m->ledger, out);
        buf_add_str(out, ",\n");
    }
    add_train_sums(out, m);
    manifest_best_format(m, out);
    manifest_eras_format(m, out);
    if (m->model_file != 0) {
        buf_printf(out, "  \"model_file\": \"0x%016" PRIx64 "\",\n", m->model_file);
    }
    if (m->encoding != NULL) {
        buf_printf(out, "  \"encoding\": %s,\n", m->encoding);
    }
    add_text(out, "text", m->text);
    buf_printf(out, "  \"checksum\": \"0x%016" PRIx64 "\"\n}\n", checksum_of(out->data, out->len));
}

/* Checks the encoding: it came from a worker, and other programs read the manifest. */
static int check_encoding(const struct manifest *m, const char *dir, struct err *err)
{
    struct json_t *root = NULL;
    int rc = m->encoding == NULL ? 0 : json_doc_parse(m->encoding, strlen(m->encoding), &root, err);
    json_doc_free(root);
    return rc == 0 ? 0 : err_wrap(err, "checkpoint %s: what a worker has measured", dir);
}

int manifest_write(const char *dir, const struct manifest *m, struct err *err)
{
    if (!text_is_utf8(m->job, strlen(m->job)) || !text_is_utf8(m->text, strlen(m->text))) {
        return err_set(err, ERR_INVALID, "checkpoint %s: the job's text is not UTF-8", dir);
    }
    int checked = check_encoding(m, dir, err);
    if (checked != 0) {
        return checked;
    }
    struct buf text = {0};
    format(m, &text);
    char *path = file_join(dir, MANIFEST_NAME);
    char *parent = file_join(dir, "..");
    int rc = storage_write(path, text.data, text.len, err);
    if (rc == 0) {
        rc = storage_sync_dir(parent, err); /* the directory itself may be as new as the file */
    }
    free(path);
    free(parent);
    buf_release(&text);
    if (rc != 0) {
        (void)err_wrap(err, "checkpoint %s", dir);
    }
    return rc;
}
