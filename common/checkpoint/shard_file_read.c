/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the file in which a parameter server saved its shard. Reading part of a tensor checks the
 * chunks of that part and nothing else. */
#include "checkpoint/shard_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/ledger_json.h"
#include "json/json_doc.h"

static int meta_text(const struct safetensors *f, const char *key, const char **out,
                     struct err *err)
{
    const char *text = safetensors_meta_find(f, key);
    if (text == NULL) {
        return err_set(err, ERR_CORRUPT, "metadata: %s: missing", key);
    }
    *out = text;
    return 0;
}

static int meta_number(const struct safetensors *f, const char *key, uint64_t max, uint64_t *out,
                       struct err *err)
{
    const char *text = NULL;
    int64_t n = 0;
    int rc = meta_text(f, key, &text, err);
    if (rc != 0) {
        return rc;
    }
    if (!text_to_int(text, &n) || n < 0 || (uint64_t)n > max) {
        return err_set(err, ERR_CORRUPT, "metadata: %s: \"%.40s\" is not a number in range", key,
                       text);
    }
    *out = (uint64_t)n;
    return 0;
}

static int check_format(const struct safetensors *f, struct err *err)
{
    const char *format = safetensors_meta_find(f, "format");
    const char *version = safetensors_meta_find(f, "format_version");
    if (format == NULL || strcmp(format, SHARD_FILE_FORMAT) != 0 || version == NULL) {
        return err_set(err, ERR_CORRUPT, "metadata: not the file of a shard (format %s)",
                       SHARD_FILE_FORMAT);
    }
    if (strcmp(version, SHARD_FILE_VERSION) != 0 &&
        strcmp(version, SHARD_FILE_VERSION_TABLES) != 0 &&
        strcmp(version, SHARD_FILE_VERSION_DELTA) != 0) {
        return err_set(err, ERR_UNSUPPORTED,
                       "metadata: format version %.20s; this program knows " SHARD_FILE_VERSION
                       " to " SHARD_FILE_VERSION_DELTA,
                       version);
    }
    return 0;
}

static int read_numbers(struct shard_file *f, struct err *err)
{
    uint64_t shard = 0;
    uint64_t count = 0;
    int rc = meta_number(&f->file, "shards", PLAN_SHARDS_MAX, &count, err);
    if (rc == 0) {
        rc = meta_number(&f->file, "shard", count == 0 ? 0 : count - 1, &shard, err);
    }
    if (rc == 0) {
        rc = meta_number(&f->file, "generation", INT64_MAX, &f->generation, err);
    }
    if (rc == 0) {
        rc = meta_number(&f->file, "step", INT64_MAX, &f->step, err);
    }
    if (rc == 0) {
        rc = meta_number(&f->file, "version", INT64_MAX, &f->version, err);
    }
    f->shard = (uint32_t)shard;
    f->shard_count = (uint32_t)count;
    return rc;
}

/* The next 16 digits of @text; false: they are none. */
static bool take_sum(const char *text, uint64_t *out)
{
    char digits[17] = {0};
    if (strspn(text, "0123456789abcdef") < 16) {
        return false;
    }
    memcpy(digits, text, 16);
    *out = strtoull(digits, NULL, 16);
    return true;
}

/* of a table's tensor, which has a sum beside it in place of checksums here */
#define NO_SUMS SIZE_MAX

static int read_checksums(struct shard_file *f, struct err *err)
{
    const char *text = safetensors_meta_find(&f->file, "checksums");
    if (text == NULL) {
        return 0;
    }
    if (safetensors_meta_find(&f->file, SAFETENSORS_SEAL) == NULL) {
        return err_set(err, ERR_CORRUPT, "metadata: checksums without a seal");
    }
    size_t count = strlen(text) / 16, at = 0;
    f->sums = mem_new(count + 1, sizeof *f->sums);
    f->sum_of = mem_new(f->file.count + 1, sizeof *f->sum_of);
    for (size_t i = 0; i < f->file.count; i++) {
        uint64_t bytes = f->file.tensors[i].bytes;
        struct shard_file_tensor name;
        if (f->tables != NULL && !shard_file_tensor_parse(f->file.tensors[i].name, &name)) {
            f->sum_of[i] = NO_SUMS;
            continue;
        }
        uint64_t chunks = bytes / SHARD_FILE_CHUNK_BYTES + (bytes % SHARD_FILE_CHUNK_BYTES != 0);
        f->sum_of[i] = at;
        for (; chunks > 0; chunks--, at++) {
            if (at >= count || !take_sum(text + 16 * at, &f->sums[at])) {
                return err_set(err, ERR_CORRUPT, "metadata: checksums: not one for each chunk");
            }
        }
    }
    return at == count && text[16 * at] == '\0'
               ? 0
               : err_set(err, ERR_CORRUPT, "metadata: checksums: more than there are chunks");
}

static int read_base(struct shard_file *f, struct err *err)
{
    struct json_t *root = NULL;
    const char *text = NULL, *directory = "", *sum = "";
    int rc = meta_text(&f->file, "base", &text, err);
    rc = rc != 0 ? rc : json_doc_parse(text, strlen(text), &root, err);
    rc = rc != 0 ? rc : json_doc_string(root, "directory", &directory, err);
    rc = rc != 0 ? rc : json_doc_u64(root, "version", INT64_MAX, &f->base.version, err);
    rc = rc != 0 ? rc : json_doc_string(root, "checksum", &sum, err);
    if (rc == 0 && (!shard_file_base_named(directory) || strlen(sum) != 18 ||
                    strncmp(sum, "0x", 2) != 0 || !take_sum(sum + 2, &f->base.checksum))) {
        rc = err_set(err, ERR_CORRUPT,
                     "directory: step-000000500 and its like, checksum: 0x and 16 digits are "
                     "expected");
    }
    if (rc == 0) {
        memcpy(f->base.directory, directory, strlen(directory) + 1);
    }
    json_doc_free(root);
    return rc == 0 ? 0 : err_wrap(err, "metadata: base");
}

static int read_tables(struct shard_file *f, struct err *err)
{
    const char *version = safetensors_meta_find(&f->file, "format_version"), *text = NULL;
    const bool delta = version != NULL && strcmp(version, SHARD_FILE_VERSION_DELTA) == 0;
    if (!delta && (version == NULL || strcmp(version, SHARD_FILE_VERSION_TABLES) != 0)) {
        return 0;
    }
    int rc = delta ? read_base(f, err) : 0;
    rc = rc != 0 ? rc : meta_text(&f->file, "tables", &text, err);
    if (rc == 0 && table_file_parse(text, delta, &f->tables, &f->table_count, err) != 0) {
        rc = err_wrap(err, "metadata");
    }
    return rc;
}

int shard_file_open(struct shard_file *f, const char *path, struct err *err)
{
    struct shard_file made = {0};
    int rc = safetensors_open(&made.file, path, err);
    if (rc != 0) {
        return rc;
    }
    const char *ledger = NULL;
    rc = safetensors_check_seal(&made.file, err);
    if (rc != 0) {
        shard_file_close(&made);
        return rc;
    }
    rc = check_format(&made.file, err);
    if (rc == 0) {
        rc = meta_text(&made.file, "job", &made.job, err);
    }
    if (rc == 0) {
        rc = meta_text(&made.file, "rule", &made.rule, err);
    }
    if (rc == 0) {
        rc = meta_text(&made.file, "ledger", &ledger, err);
    }
    if (rc == 0) {
        rc = read_numbers(&made, err);
    }
    if (rc == 0) {
        rc = ledger_json_parse(ledger, strlen(ledger), &made.ledger, err);
        if (rc != 0) {
            (void)err_wrap(err, "metadata: ledger");
        }
    }
    rc = rc != 0 ? rc : read_tables(&made, err);
    rc = rc != 0 ? rc : read_checksums(&made, err);
    if (rc != 0) {
        (void)err_wrap(err, "read %s", path);
        shard_file_close(&made);
        return rc;
    }
    *f = made;
    return 0;
}

int shard_file_read(const struct shard_file *f, const struct safetensors_tensor *t,
                    uint64_t first_byte, void *out, size_t bytes, struct err *err)
{
    if (f->sums == NULL || f->sum_of[t - f->file.tensors] == NO_SUMS || first_byte > t->bytes ||
        bytes > t->bytes - first_byte) {
        return safetensors_read(&f->file, t, first_byte, out, bytes, err);
    }
    const uint64_t *sums = f->sums + f->sum_of[t - f->file.tensors];
    char *part = NULL; /* memory for a chunk of which only a part is wanted */
    int rc = 0;
    for (uint64_t at = first_byte; rc == 0 && at < first_byte + bytes;) {
        uint64_t chunk = at / SHARD_FILE_CHUNK_BYTES, begin = chunk * SHARD_FILE_CHUNK_BYTES;
        uint64_t size =
            t->bytes - begin < SHARD_FILE_CHUNK_BYTES ? t->bytes - begin : SHARD_FILE_CHUNK_BYTES;
        uint64_t end = begin + size < first_byte + bytes ? begin + size : first_byte + bytes;
        char *to = (char *)out + (at - first_byte);
        bool whole = at == begin && end == begin + size;
        if (!whole && part == NULL) {
            part = mem_new(SHARD_FILE_CHUNK_BYTES, 1);
        }
        char *data = whole ? to : part;
        rc = safetensors_read(&f->file, t, begin, data, (size_t)size, err);
        if (rc == 0 && checksum_of(data, (size_t)size) != sums[chunk]) {
            rc = err_set(err, ERR_CORRUPT,
                         "read %s: tensor %s: the checksum of bytes %" PRIu64 " to %" PRIu64
                         " differs: damaged",
                         f->file.path, t->name, begin, begin + size);
        }
        if (rc == 0 && !whole) {
            memcpy(to, data + (at - begin), (size_t)(end - at));
        }
        at = end;
    }
    free(part);
    return rc;
}

void shard_file_close(struct shard_file *f)
{
    ledger_release(&f->ledger);
    free(f->sums);
    free(f->sum_of);
    table_file_infos_free(f->tables, f->table_count);
    safetensors_close(&f->file);
    *f = (struct shard_file){0};
}

/* A number in decimal from @p up to @end, without sign or leading zeros. */
static bool parse_rows(const char *p, const char *end, uint64_t *out)
{
    char digits[20];
    size_t n = (size_t)(end - p);
    int64_t value = 0;
    if (n == 0 || n >= sizeof digits || (n > 1 && p[0] == '0') || p[0] < '0' || p[0] > '9') {
        return false;
    }
    memcpy(digits, p, n);
    digits[n] = '\0';
    if (!text_to_int(digits, &value)) {
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

/* From the right, since a variable's name may hold any of the separators. */
bool shard_file_tensor_parse(const char *name, struct shard_file_tensor *out)
{
    *out = (struct shard_file_tensor){0};
    size_t n = strlen(name);
    const char *close = n > 0 && name[n - 1] == ']' ? name + n - 1 : NULL;
    if (close == NULL) {
        const char *hash = strrchr(name, '#');
        if (hash == NULL || hash == name || hash[-1] != ']' || hash[1] == '\0' ||
            strlen(hash + 1) >= sizeof out->slot) {
            return false;
        }
        memcpy(out->slot, hash + 1, strlen(hash + 1));
        close = hash - 1;
    }
    const char *open = close;
    const char *colon = NULL;
    while (open > name && *open != '[') {
        open--;
        colon = *open == ':' ? open : colon;
    }
    uint64_t end = 0;
    size_t variable = (size_t)(open - name);
    if (colon == NULL || variable == 0 || variable >= sizeof out->variable || *open != '[' ||
        !parse_rows(open + 1, colon, &out->row_first) || !parse_rows(colon + 1, close, &end) ||
        end <= out->row_first) {
        return false;
    }
    memcpy(out->variable, name, variable);
    out->row_count = end - out->row_first;
    return true;
}
