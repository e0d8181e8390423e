/* SPDX-License-Identifier: Apache-2.0 */
/* Reads manifest.json. Its own checksum is compared before the JSON is parsed; a file name in it
 * must be the one that we would give. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "os/file.h"
#include "base/mem.h"
#include "json/json_doc.h"
#include "checkpoint/ledger_json.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"

/* The end of the text is always `  "checksum": "0x<16 digits>"\n}\n`; it covers all before itself.
 */
static int check_own_checksum(const struct buf *text, uint64_t *sum, struct err *err)
{
    static const char before[] = "  \"checksum\": \"";
    static const char after[] = "\"\n}\n";
    const size_t tail = sizeof before - 1 + 18 + sizeof after - 1;
    if (text->len < tail) {
        return err_set(err, ERR_CORRUPT, "%zu bytes are no manifest", text->len);
    }
    const char *p = text->data + text->len - tail;
    char digits[19] = {0};
    memcpy(digits, p + sizeof before - 1, 18);
    uint64_t noted = 0;
    if (memcmp(p, before, sizeof before - 1) != 0 || !manifest_sum_parse(digits, &noted) ||
        memcmp(p + sizeof before - 1 + 18, after, sizeof after - 1) != 0) {
        return err_set(err, ERR_CORRUPT, "it does not end with its checksum: cut or changed");
    }
    uint64_t found = checksum_of(text->data, text->len - tail);
    if (found != noted) {
        return err_set(err, ERR_CORRUPT,
                       "its checksum differs (noted 0x%016" PRIx64 ", found 0x%016" PRIx64
                       "): damaged or changed by hand",
                       noted, found);
    }
    *sum = noted;
    return 0;
}

static int read_format(const struct json_t *root, struct err *err)
{
    const char *name = NULL;
    uint64_t version = 0;
    int rc = json_doc_string(root, "format", &name, err);
    if (rc == 0 && strcmp(name, "gradus-checkpoint") != 0) {
        rc = err_set(err, ERR_CORRUPT, "format: %.40s; gradus-checkpoint is expected", name);
    }
    if (rc == 0) {
        rc = json_doc_u64(root, "format_version", INT64_MAX, &version, err);
    }
    if (rc == 0 && (version < MANIFEST_FORMAT_VERSION || version > MANIFEST_FORMAT_VERSION_DELTA)) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "format_version: %" PRIu64 "; this program knows %d to %d", version,
                     MANIFEST_FORMAT_VERSION, MANIFEST_FORMAT_VERSION_DELTA);
    }
    return rc;
}

static int read_texts(const struct json_t *root, struct manifest *m, struct err *err)
{
    struct {
        const char *key;
        char **out;
    } const rows[] = {{"job", &m->job}, {"text", &m->text}, {"rule", &m->rule}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = NULL;
        int rc = json_doc_string(root, rows[i].key, &text, err);
        if (rc != 0) {
            return rc;
        }
        *rows[i].out = mem_strdup(text);
    }
    const char *mode = NULL, *owner = "";
    int rc = json_doc_string(root, "mode", &mode, err);
    if (rc != 0) {
        return rc;
    }
    (void)json_doc_string(root, "owner", &owner, NULL);
    m->owner = mem_strdup(owner);
    for (m->mode = 0; manifest_mode_names[m->mode] != NULL; m->mode++) {
        if (strcmp(manifest_mode_names[m->mode], mode) == 0) {
            return 0;
        }
    }
    return err_set(err, ERR_CORRUPT, "mode: %.40s is not known", mode);
}

static int read_numbers(const struct json_t *root, struct manifest *m, struct err *err)
{
    uint64_t created = 0;
    struct {
        const char *key;
        uint64_t *out;
    } const rows[] = {{"generation", &m->generation},
                      {"step", &m->step},
                      {"epoch", &m->epoch},
                      {"records", &m->records},
                      {"created_ms", &created}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int rc = json_doc_u64(root, rows[i].key, INT64_MAX, rows[i].out, err);
        if (rc != 0) {
            return rc;
        }
    }
    m->created_ms = (int64_t)created;
    return 0;
}

static int read_slot_kinds(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *kinds = NULL;
    size_t count = 0;
    if (json_doc_array(root, "slot_kinds", UPDATE_SLOTS_MAX, &kinds, &count, NULL) != 0) {
        return 0; /* all are per parameter */
    }
    if (count != m->slot_count) {
        return err_set(err, ERR_CORRUPT, "slot_kinds: %zu of them for %zu slots", count,
                       m->slot_count);
    }
    for (size_t k = 0; k < count; k++) {
        const char *name = NULL;
        size_t kind = 0;
        bool text = json_doc_item_string(kinds, k, &name);
        while (text && manifest_slot_kinds[kind] != NULL &&
               strcmp(manifest_slot_kinds[kind], name) != 0) {
            kind++;
        }
        if (!text || manifest_slot_kinds[kind] == NULL) {
            return err_set(err, ERR_CORRUPT, "slot_kinds[%zu]: no kind of slot", k);
        }
        m->slot_kinds[k] = (enum rule_slot_kind)kind;
    }
    return 0;
}

static int read_slots(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *slots = NULL;
    size_t count = 0;
    int rc = json_doc_array(root, "slots", UPDATE_SLOTS_MAX, &slots, &count, err);
    for (size_t k = 0; rc == 0 && k < count; k++) {
        const char *name = NULL;
        if (!json_doc_item_string(slots, k, &name) || name[0] == '\0') {
            return err_set(err, ERR_CORRUPT, "slots[%zu]: a name is expected", k);
        }
        m->slots[m->slot_count++] = mem_strdup(name);
    }
    return rc == 0 ? read_slot_kinds(root, m, err) : rc;
}

static int read_variable(const struct json_t *object, struct variable_spec *v, struct err *err)
{
    const char *name = NULL;
    const struct json_t *dims = NULL;
    int rc = json_doc_string(object, "name", &name, err);
    if (rc == 0 && (name[0] == '\0' || strlen(name) >= sizeof v->name)) {
        rc = err_set(err, ERR_CORRUPT, "name: from 1 to %zu bytes", sizeof v->name - 1);
    }
    if (rc == 0) {
        memcpy(v->name, name, strlen(name));
        rc = json_doc_array(object, "shape", SHAPE_RANK_MAX, &dims, &v->shape.rank, err);
    }
    for (size_t d = 0; rc == 0 && d < v->shape.rank; d++) {
        if (!json_doc_item_u64(dims, d, &v->shape.dims[d])) {
            rc = err_set(err, ERR_CORRUPT, "shape[%zu]: a whole number is expected", d);
        }
    }
    uint64_t elements = rc == 0 ? shape_count(&v->shape) : 0;
    if (rc == 0 && (elements == 0 || elements > PLAN_ELEMENTS_MAX)) {
        rc = err_set(err, ERR_CORRUPT, "shape: from 1 to %" PRIu64 " elements", PLAN_ELEMENTS_MAX);
    }
    return rc;
}

static int read_variables(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *list = NULL;
    size_t count = 0;
    int rc = json_doc_array(root, "variables", PLAN_VARIABLES_MAX, &list, &count, err);
    if (rc != 0) {
        return rc;
    }
    if (count == 0) {
        return err_set(err, ERR_CORRUPT, "variables: none");
    }
    m->variables = mem_new(count, sizeof *m->variables);
    m->variable_count = count;
    for (size_t i = 0; i < count; i++) {
        rc = read_variable(json_doc_item(list, i), &m->variables[i], err);
        if (rc != 0) {
            (void)err_wrap(err, "variables[%zu]", i);
            return rc;
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(m->variables[k].name, m->variables[i].name) == 0) {
                return err_set(err, ERR_CORRUPT, "variables[%zu]: the name %s is used twice", i,
                               m->variables[i].name);
            }
        }
    }
    return 0;
}

static int read_shard(const struct json_t *object, uint32_t index, uint32_t count,
                      struct manifest_shard *s, struct err *err)
{
    const char *name = NULL;
    const char *sum = NULL;
    int rc = json_doc_string(object, "file", &name, err);
    if (rc == 0 && !shard_file_name_parse(name, index, count, &s->generation)) {
        /* No other name is ever opened, so a manifest cannot point outside its directory. */
        char expected[SHARD_FILE_NAME_BYTES];
        rc = err_set(err, ERR_CORRUPT, "file: %.80s; %s is expected", name,
                     shard_file_name(index, count, 0, expected));
    }
    if (rc == 0) {
        rc = json_doc_u64(object, "version", INT64_MAX, &s->version, err);
    }
    if (rc == 0) {
        rc = json_doc_u64(object, "bytes", INT64_MAX, &s->bytes, err);
    }
    if (rc == 0) {
        rc = json_doc_string(object, "checksum", &sum, err);
    }
    if (rc == 0 && !manifest_sum_parse(sum, &s->checksum)) {
        rc = err_set(err, ERR_CORRUPT, "checksum: 0x and 16 digits are expected");
    }
    return rc;
}

static int read_shards(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *list = NULL;
    size_t count = 0;
    int rc = json_doc_array(root, "shards", PLAN_SHARDS_MAX, &list, &count, err);
    if (rc != 0) {
        return rc;
    }
    if (count == 0) {
        return err_set(err, ERR_CORRUPT, "shards: none");
    }
    m->shards = mem_new(count, sizeof *m->shards);
    m->shard_count = (uint32_t)count;
    for (uint32_t i = 0; i < m->shard_count; i++) {
        rc = read_shard(json_doc_item(list, i), i, m->shard_count, &m->shards[i], err);
        if (rc != 0) {
            (void)err_wrap(err, "shards[%u]", i);
            return rc;
        }
    }
    return 0;
}

static int read_ledger(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *ledger = NULL;
    if (json_doc_object(root, "ledger", &ledger, NULL) != 0) {
        return 0; /* a job may leave it to the shards */
    }
    int rc = ledger_json_read(ledger, &m->ledger, err);
    if (rc != 0) {
        (void)err_wrap(err, "ledger");
    }
    return rc;
}

#define SUM_DIGITS 16

/* Manifests of earlier versions have none. */
static int read_train_sums(const struct json_t *root, struct manifest *m, struct err *err)
{
    const char *digits = NULL;
    if (json_doc_string(root, "train_sums", &digits, NULL) != 0) {
        return 0;
    }
    size_t n = strlen(digits);
    if (n == 0 || n % SUM_DIGITS != 0 || n / SUM_DIGITS > MANIFEST_SUMS_MAX ||
        strspn(digits, "0123456789abcdef") != n) {
        return err_set(err, ERR_CORRUPT, "train_sums: not numbers of %d digits", SUM_DIGITS);
    }
    m->train_sum_count = n / SUM_DIGITS;
    m->train_sums = mem_new(m->train_sum_count, sizeof *m->train_sums);
    for (size_t i = 0; i < m->train_sum_count; i++) {
        char one[SUM_DIGITS + 1] = "";
        memcpy(one, digits + i * SUM_DIGITS, SUM_DIGITS);
        const uint64_t bits = strtoull(one, NULL, 16);
        memcpy(&m->train_sums[i], &bits, sizeof bits);
    }
    return json_doc_u64(root, "train_epoch", UINT64_MAX / 2, &m->train_epoch, err);
}

/* Manifests of earlier versions have none. */
static int read_encoding(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *object = NULL;
    if (json_doc_member(root, "encoding") == NULL) {
        return 0;
    }
    int rc = json_doc_object(root, "encoding", &object, err);
    if (rc == 0) {
        struct buf text = {0};
        json_doc_print(object, &text);
        m->encoding = buf_take(&text);
    }
    return rc;
}

/* Only of models that are in a file; manifests of earlier versions have none. */
static int read_model_file(const struct json_t *root, struct manifest *m, struct err *err)
{
    const char *sum = NULL;
    if (json_doc_member(root, "model_file") == NULL) {
        return 0;
    }
    int rc = json_doc_string(root, "model_file", &sum, err);
    if (rc == 0 && !manifest_sum_parse(sum, &m->model_file)) {
        rc = err_set(err, ERR_CORRUPT, "model_file: 0x and 16 digits are expected");
    }
    return rc;
}

static int read_all(const struct json_t *root, struct manifest *m, struct err *err)
{
    static int (*const readers[])(const struct json_t *, struct manifest *, struct err *) = {
        read_texts,    read_numbers,         read_slots,     read_variables,  manifest_base_read,
        read_shards,   manifest_tables_read, read_ledger,    read_train_sums, manifest_best_read,
        read_encoding, manifest_eras_read,   read_model_file};
    int rc = read_format(root, err);
    for (size_t i = 0; rc == 0 && i < sizeof readers / sizeof readers[0]; i++) {
        rc = readers[i](root, m, err);
    }
    return rc;
}

/* Too large is no manifest; ERR_EXHAUSTED would be a limit that passes. */
static int read_text(const char *path, struct buf *text, struct err *err)
{
    struct storage_reader r;
    int rc = storage_open(&r, path, err);
    if (rc != 0) {
        return rc;
    }
    if (r.bytes > MANIFEST_BYTES_MAX) {
        rc = err_set(err, ERR_CORRUPT, "%s: larger than any manifest", path);
    } else {
        char *data = mem_new((size_t)r.bytes + 1, 1);
        rc = storage_read_at(&r, 0, data, (size_t)r.bytes, err);
        buf_add(text, data, rc == 0 ? (size_t)r.bytes : 0);
        free(data);
        if (rc != 0) {
            (void)err_wrap(err, "read %s", path);
        }
    }
    storage_close(&r);
    return rc;
}

int manifest_read(const char *dir, struct manifest *m, struct err *err)
{
    struct buf text = {0};
    struct json_t *root = NULL;
    struct manifest made = {0};
    char *path = file_join(dir, MANIFEST_NAME);
    int rc = read_text(path, &text, err);
    free(path);
    if (rc == 0) {
        rc = check_own_checksum(&text, &made.checksum, err);
        if (rc == 0) {
            rc = json_doc_parse(text.data, text.len, &root, err);
        }
        if (rc == 0) {
            rc = read_all(root, &made, err);
        }
        if (rc != 0) {
            (void)err_wrap(err, MANIFEST_NAME);
        }
    }
    json_doc_free(root);
    buf_release(&text);
    if (rc != 0) {
        manifest_release(&made);
        (void)err_wrap(err, "checkpoint %s", dir);
        return rc;
    }
    *m = made;
    return 0;
}
