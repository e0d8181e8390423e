/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files of saved_file_write(), and believes nothing in them before it was checked. */
#include "saved/saved_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "saved/saved_notes.h"

#define CHUNK_BYTES (1U << 20)

struct saved_file {
    struct safetensors tensors;
    struct saved_about about;
    bool average;
};

void saved_file_close(struct saved_file *f)
{
    if (f != NULL) {
        safetensors_close(&f->tensors);
        free(f);
    }
}

const struct saved_about *saved_file_about(const struct saved_file *f)
{
    return &f->about;
}

bool saved_file_is_average(const struct saved_file *f)
{
    return f->average;
}

/* ---- the metadata of a file ---- */

static const char *meta(const struct saved_file *f, const char *key)
{
    return safetensors_meta_find(&f->tensors, key);
}

static int check_version(const struct saved_file *f, struct err *err)
{
    const char *said = meta(f, "gradus.format_version");
    int64_t version = 0;
    char shown[32];
    if (said == NULL || (text_to_int(said, &version) && version == SAVED_NOTES_VERSION)) {
        return 0; /* nothing is said below */
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "gradus.format_version is %s, and this program reads %d: export the checkpoint "
                   "again",
                   text_shown(said, shown, sizeof shown), SAVED_NOTES_VERSION);
}

/* Checks that the metadata are complete, but for what was measured: the job file says whether the
 * model needs that. */
static int check_complete(const struct saved_file *f, struct err *err)
{
    static const char *const keys[] = {
        "gradus.format_version", "gradus.job",    "gradus.step", "gradus.epoch",
        "gradus.version",        "gradus.values", "gradus.text"};
    const size_t count = sizeof keys / sizeof keys[0];
    struct buf lacks = {0};
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (meta(f, keys[i]) == NULL) {
            buf_printf(&lacks, "%s%s", n++ > 0 ? ", " : "", keys[i]);
        }
    }
    int rc =
        n == 0
            ? 0
            : err_set(err, ERR_UNSUPPORTED, "its metadata lack %s%s", buf_str(&lacks),
                      n < count ? "" : ": it was exported with --bare, or is of another program");
    buf_release(&lacks);
    return rc;
}

static int read_number(const struct saved_file *f, const char *key, uint64_t *out, struct err *err)
{
    int64_t value = -1;
    char shown[32];
    if (!text_to_int(meta(f, key), &value) || value < 0) {
        return err_set(err, ERR_INVALID, "%s: a whole number from 0 is expected, not \"%s\"", key,
                       text_shown(meta(f, key), shown, sizeof shown));
    }
    *out = (uint64_t)value;
    return 0;
}

static int read_about(struct saved_file *f, struct err *err)
{
    struct saved_about *a = &f->about;
    char shown[32];
    int rc = check_version(f, err);
    rc = rc != 0 ? rc : check_complete(f, err);
    rc = rc != 0 ? rc : read_number(f, "gradus.step", &a->step, err);
    rc = rc != 0 ? rc : read_number(f, "gradus.epoch", &a->epoch, err);
    rc = rc != 0 ? rc : read_number(f, "gradus.version", &a->version, err);
    if (rc != 0) {
        return rc;
    }
    const char *values = meta(f, "gradus.values");
    f->average = strcmp(values, "average") == 0;
    if (!f->average && strcmp(values, "parameters") != 0) {
        return err_set(err, ERR_INVALID,
                       "gradus.values: \"parameters\" or \"average\" is expected, not \"%s\"",
                       text_shown(values, shown, sizeof shown));
    }
    a->job = meta(f, "gradus.job");
    a->text = meta(f, "gradus.text");
    a->encoding = meta(f, "gradus.encoding");
    return 0;
}

/* Files of other models, and those of earlier versions, have none. */
static int read_model_file(struct saved_file *f, struct err *err)
{
    const char *said = meta(f, "gradus.model_file");
    char shown[32];
    return said == NULL || manifest_sum_parse(said, &f->about.model_file)
               ? 0
               : err_set(err, ERR_INVALID,
                         "gradus.model_file: 0x and 16 digits are expected, not \"%s\"",
                         text_shown(said, shown, sizeof shown));
}

static bool is_onnx(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcasecmp(path + n - 5, ".onnx") == 0;
}

int saved_file_open(const char *path, struct saved_file **out, struct err *err)
{
    struct saved_file *f = mem_new(1, sizeof *f);
    int rc = safetensors_open(&f->tensors, path, err);
    if (rc != 0) {
        free(f);
        return is_onnx(path)
                   ? err_set(err, ERR_UNSUPPORTED,
                             "%s is an ONNX file, which ONNX Runtime and others read; what gradus "
                             "reads is `gradus export JOB MODEL.safetensors`",
                             path)
                   : err_wrap(err,
                              "not a model in a file as `gradus export` writes it (safetensors)");
    }
    rc = read_about(f, err);
    rc = rc != 0 ? rc : read_model_file(f, err);
    if (rc != 0) {
        saved_file_close(f);
        return err_wrap(err, "%s", path);
    }
    *out = f;
    return 0;
}

int saved_file_check_data(const struct saved_file *f, const struct encoder *e, struct err *err)
{
    struct saved_notes notes = {0};
    int rc = 0;
    saved_note_data(&notes, e);
    for (size_t i = 0; i < notes.count && rc == 0; i++) {
        const char *key = notes.items[i][0], *said = meta(f, key);
        if (said != NULL && strcmp(said, notes.items[i][1]) != 0) {
            rc = err_set(err, ERR_INVALID, "%s is not what gradus.encoding says: %.128s", key,
                         notes.items[i][1]);
        }
    }
    saved_notes_release(&notes);
    return rc;
}

/* ---- tensors ---- */

static const struct safetensors_tensor *of_table(const struct saved_file *f, const char *table,
                                                 const char *part)
{
    char *name = mem_printf("%s.%s", table, part);
    const struct safetensors_tensor *found = safetensors_find(&f->tensors, name);
    free(name);
    return found;
}

static int lacks(const char *what, const char *name, const char *part, struct err *err)
{
    return err_set(err, ERR_INVALID, "tensor %s%s is missing, of a %s of its job file", name, part,
                   what);
}

static bool is_of_model(const struct model *model, const char *name)
{
    bool is = false;
    for (size_t i = 0; i < model_variable_count(model) && !is; i++) {
        is = strcmp(model_variable(model, i)->name, name) == 0;
    }
    return is;
}

static bool is_of_table(const struct saved_file *f, const struct job_spec *spec,
                        const struct safetensors_tensor *t)
{
    bool is = false;
    for (size_t i = 0; i < spec->model.table_count && !is; i++) {
        const char *name = spec->model.tables[i].name;
        is = t == of_table(f, name, "keys") || t == of_table(f, name, "values");
    }
    return is;
}

int saved_file_check_tensors(const struct saved_file *f, const struct model *model,
                             const struct job_spec *spec, struct err *err)
{
    for (size_t i = 0; i < model_variable_count(model); i++) {
        const char *name = model_variable(model, i)->name;
        if (safetensors_find(&f->tensors, name) == NULL) {
            return lacks("variable", name, "", err);
        }
    }
    for (size_t i = 0; i < spec->model.table_count; i++) {
        const char *name = spec->model.tables[i].name;
        const bool keys = of_table(f, name, "keys") != NULL;
        if (!keys || of_table(f, name, "values") == NULL) {
            return lacks("table", name, keys ? ".values" : ".keys", err);
        }
    }
    for (size_t i = 0; i < f->tensors.count; i++) {
        const struct safetensors_tensor *t = &f->tensors.tensors[i];
        if (!is_of_model(model, t->name) && !is_of_table(f, spec, t)) {
            return err_set(err, ERR_INVALID,
                           "tensor %.128s is of no variable or table of its job "
                           "file",
                           t->name);
        }
    }
    return 0;
}

bool saved_file_shape(const struct saved_file *f, const char *variable, struct shape *out)
{
    const struct safetensors_tensor *t = safetensors_find(&f->tensors, variable);
    const bool fits = t->rank <= SHAPE_RANK_MAX;
    *out = (struct shape){.rank = fits ? t->rank : SHAPE_RANK_MAX};
    memcpy(out->dims, t->dims, out->rank * sizeof *out->dims);
    return fits;
}

static int check_type(const struct safetensors_tensor *t, enum safetensors_dtype wanted,
                      struct err *err)
{
    return t->dtype == wanted
               ? 0
               : err_set(err, ERR_INVALID, "tensor %s has numbers of type %s, %s is expected",
                         t->name, safetensors_dtype_name(t->dtype), safetensors_dtype_name(wanted));
}

int saved_file_read(const struct saved_file *f, const char *variable, uint64_t count, float *out,
                    struct err *err)
{
    const struct safetensors_tensor *t = safetensors_find(&f->tensors, variable);
    int rc = check_type(t, SAFETENSORS_F32, err);
    return rc != 0 ? rc
                   : safetensors_read(&f->tensors, t, 0, out, (size_t)count * sizeof *out, err);
}

/* ---- tables ---- */

static int check_table(const char *name, const struct safetensors_tensor *keys,
                       const struct safetensors_tensor *values, const struct table *table,
                       struct err *err)
{
    int rc = check_type(keys, SAFETENSORS_U64, err);
    rc = rc != 0 ? rc : check_type(values, SAFETENSORS_F32, err);
    if (rc == 0 && (keys->rank != 1 || values->rank != 2)) {
        rc = err_set(err, ERR_INVALID,
                     "table %s: keys of rank %zu and values of rank %zu; 1 and 2 are expected",
                     name, keys->rank, values->rank);
    }
    if (rc == 0 && keys->dims[0] != values->dims[0]) {
        rc = err_set(err, ERR_INVALID, "table %s: %" PRIu64 " keys, and values of %" PRIu64 " rows",
                     name, keys->dims[0], values->dims[0]);
    }
    if (rc == 0 && values->dims[1] != table_dim(table)) {
        rc = err_set(err, ERR_INVALID,
                     "table %s: rows of %" PRIu64 " floats, and its job file says %zu", name,
                     values->dims[1], table_dim(table));
    }
    return rc;
}

/* Checks that @key of row @row comes behind @before, that of the row in front of it. */
static int check_order(const char *name, uint64_t row, uint64_t before, uint64_t key,
                       struct err *err)
{
    if (row == 0 || table_walk_order(before) < table_walk_order(key)) {
        return 0;
    }
    return before == key
               ? err_set(err, ERR_INVALID,
                         "table %s: key %" PRIu64 " comes twice, in rows %" PRIu64 " and %" PRIu64,
                         name, key, row - 1, row)
               : err_set(err, ERR_INVALID,
                         "table %s: key %" PRIu64 " of row %" PRIu64
                         " is not in the order of an export",
                         name, key, row);
}

int saved_file_restore(const struct saved_file *f, const char *name, struct table *table,
                       struct err *err)
{
    const struct safetensors_tensor *keys = of_table(f, name, "keys");
    const struct safetensors_tensor *values = of_table(f, name, "values");
    int rc = check_table(name, keys, values, table, err);
    if (rc != 0) {
        return rc;
    }
    const size_t row = table_dim(table) * sizeof(float);
    const size_t room = row > CHUNK_BYTES ? 1 : CHUNK_BYTES / row;
    struct table_chunk chunk = {
        .capacity = room, .keys = mem_new(room, sizeof *chunk.keys), .values = mem_new(room, row)};
    const uint64_t rows = keys->dims[0];
    uint64_t before = 0;
    rc = table_restore_reserve(table, rows, 0, err);
    for (uint64_t at = 0; at < rows && rc == 0; at += chunk.n) {
        chunk.n = rows - at < room ? (size_t)(rows - at) : room;
        rc = safetensors_read(&f->tensors, keys, at * sizeof *chunk.keys, chunk.keys,
                              chunk.n * sizeof *chunk.keys, err);
        rc = rc != 0 ? rc
                     : safetensors_read(&f->tensors, values, at * row, chunk.values, chunk.n * row,
                                        err);
        for (size_t i = 0; i < chunk.n && rc == 0; i++) {
            rc = check_order(name, at + i, before, chunk.keys[i], err);
            before = chunk.keys[i];
        }
        rc = rc != 0 ? rc : table_restore_rows(table, &chunk, err);
    }
    free(chunk.keys);
    free(chunk.values);
    return rc;
}
