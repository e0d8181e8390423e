/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the file in which a parameter server saves its shard. Checksums are kept for
 * each chunk, so reading part of a tensor checks the chunks of that part and nothing else. */
#include "checkpoint/shard_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/ledger_json.h"

#define FORMAT "gradus-shard"
#define FORMAT_VERSION "1"

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

/* Returns how many there are. The caller frees the names. */
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

#define META_COUNT 12

/* The keys sorted; the caller frees texts[]. */
static void make_meta(const struct shard_file_state *s, char *checksums,
                      struct safetensors_meta meta[META_COUNT], char *texts[META_COUNT])
{
    struct buf ledger = {0};
    ledger_json_format(s->ledger, &ledger);
    char *const made[META_COUNT] = {
        checksums,
        mem_strdup(FORMAT),
        mem_strdup(FORMAT_VERSION),
        mem_printf("%" PRIu64, s->generation),
        mem_strdup(s->job),
        buf_take(&ledger),
        mem_strdup(s->rule),
        mem_strdup(SAFETENSORS_SEAL_EMPTY),
        mem_printf("%u", s->shard),
        mem_printf("%u", s->plan->shard_count),
        mem_printf("%" PRIu64, s->step),
        mem_printf("%" PRIu64, s->version),
    };
    static const char *const keys[META_COUNT] = {
        "checksums", "format",         "format_version", "generation", "job",  "ledger",
        "rule",      SAFETENSORS_SEAL, "shard",          "shards",     "step", "version"};
    for (size_t i = 0; i < META_COUNT; i++) {
        texts[i] = made[i];
        meta[i] = (struct safetensors_meta){keys[i], made[i]};
    }
}

static int write_tensors(struct safetensors_writer *w, const struct content *contents,
                         struct err *err)
{
    int rc = 0;
    for (size_t n; rc == 0 && safetensors_writer_next(w, &n);) {
        rc = safetensors_writer_add(w, contents[n].data, (size_t)contents[n].floats * sizeof(float),
                                    err);
    }
    return rc;
}

int shard_file_write(const char *path, const struct shard_file_state *state,
                     struct safetensors_written *out, struct err *err)
{
    size_t count = 0;
    const struct partition *parts = plan_shard(state->plan, state->shard, &count);
    if (count == 0) {
        return err_set(err, ERR_INVALID, "write %s: shard %u of %u", path, state->shard,
                       state->plan->shard_count);
    }
    size_t most = count * (1 + update_slot_count(state->update));
    struct safetensors_tensor *tensors = mem_new(most, sizeof *tensors);
    struct content *contents = mem_new(most, sizeof *contents);
    size_t tensor_count = declare(state, parts, count, tensors, contents);
    struct safetensors_meta meta[META_COUNT];
    char *texts[META_COUNT];
    make_meta(state, checksums_of(contents, tensor_count), meta, texts);
    struct safetensors_writer w;
    int rc = safetensors_writer_open(&w, path, tensors, tensor_count, meta, META_COUNT, err);
    if (rc == 0) {
        rc = write_tensors(&w, contents, err);
        if (rc == 0) {
            rc = safetensors_writer_commit(&w, out, err);
        } else {
            safetensors_writer_abort(&w);
        }
    }
    for (size_t i = 0; i < META_COUNT; i++) {
        free(texts[i]);
    }
    for (size_t i = 0; i < tensor_count; i++) {
        free(contents[i].name);
    }
    free(contents);
    free(tensors);
    return rc;
}

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
    if (format == NULL || strcmp(format, FORMAT) != 0 || version == NULL) {
        return err_set(err, ERR_CORRUPT, "metadata: not the file of a shard (format %s)", FORMAT);
    }
    if (strcmp(version, FORMAT_VERSION) != 0) {
        return err_set(err, ERR_UNSUPPORTED,
                       "metadata: format version %.20s; this program knows " FORMAT_VERSION,
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
    if (f->sums == NULL || first_byte > t->bytes || bytes > t->bytes - first_byte) {
        return safetensors_read(&f->file, t, first_byte, out, bytes, err);
    }
    const uint64_t *sums = f->sums + f->sum_of[t - f->file.tensors];
    char *part = NULL; /* of a chunk that is not wanted whole */
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
