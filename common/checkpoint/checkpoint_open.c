/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a checkpoint: its files must be those of the manifest and leave no gap or overlap; and its
 * base, when it is a delta. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_impl.h"
#include "os/file.h"

/* The number of elements that the pieces of a column add up to. */
static uint64_t column_extent(const struct variable_spec *v, enum rule_slot_kind kind)
{
    return checkpoint_is_copied(kind) ? plan_rows(&v->shape) : manifest_slot_elements(v, kind);
}

/* A slot that is not per parameter: a vector. */
static bool vector_fits(const struct safetensors_tensor *t, const struct variable_spec *v,
                        const struct shard_file_tensor *name, enum rule_slot_kind kind)
{
    uint64_t rows = plan_rows(&v->shape);
    if (t->dtype != SAFETENSORS_F32 || t->rank != 1 || name->row_count > rows ||
        name->row_first > rows - name->row_count) {
        return false;
    }
    return t->dims[0] ==
           (kind == RULE_SLOT_ROW ? name->row_count : manifest_slot_elements(v, kind));
}

static bool shape_fits(const struct safetensors_tensor *t, const struct variable_spec *v,
                       const struct shard_file_tensor *name, enum rule_slot_kind kind)
{
    if (kind != RULE_SLOT_PARAMETER) {
        return vector_fits(t, v, name, kind);
    }
    if (t->dtype != SAFETENSORS_F32 || t->rank != v->shape.rank) {
        return false;
    }
    for (size_t d = 0; d < t->rank; d++) {
        if (t->dims[d] != (d == 0 ? name->row_count : v->shape.dims[d])) {
            return false;
        }
    }
    uint64_t rows = plan_rows(&v->shape);
    return name->row_count <= rows && name->row_first <= rows - name->row_count;
}

static int add_piece(struct checkpoint *c, uint32_t shard, const struct safetensors_tensor *t,
                     const struct shard_file_tensor *name, struct err *err)
{
    const struct variable_spec *v = checkpoint_find_variable(c, name->variable);
    int column = checkpoint_slot_column(c, name->slot);
    if (v == NULL || column < 0) {
        return err_set(err, ERR_CORRUPT, "tensor %s: the manifest has no such %s", t->name,
                       v == NULL ? "variable" : "slot");
    }
    enum rule_slot_kind kind = checkpoint_column_kind(c, (size_t)column);
    if (!shape_fits(t, v, name, kind)) {
        return err_set(err, ERR_CORRUPT, "tensor %s: does not fit the shape of its variable",
                       t->name);
    }
    uint64_t row = kind == RULE_SLOT_PARAMETER ? plan_row_elements(&v->shape) : 1;
    c->pieces[c->piece_count++] = (struct piece){
        .column = (size_t)(v - c->manifest.variables) * checkpoint_columns_per_variable(c) +
                  (size_t)column,
        .first = name->row_first * row,
        .count = name->row_count * row,
        .shard = shard,
        .tensor = t,
    };
    return 0;
}

/* Adds the pieces of a shard file. A tensor that is no partition must belong to a table. */
static int add_pieces(struct checkpoint *c, uint32_t shard, struct err *err)
{
    const struct safetensors *file = &c->files[shard].file;
    size_t others = 0, of_tables = 0;
    const char *other = "";
    int rc = checkpoint_check_tables(c, shard, &of_tables, err);
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; rc == 0 && i < file->count; i++) {
        struct shard_file_tensor name;
        if (shard_file_tensor_parse(file->tensors[i].name, &name)) {
            rc = add_piece(c, shard, &file->tensors[i], &name, err);
        } else if (!checkpoint_is_of_table(c, file->tensors[i].name)) {
            rc = err_set(err, ERR_CORRUPT, "tensor %s: not the name of a partition",
                         file->tensors[i].name);
        } else {
            other = file->tensors[i].name;
            others++;
        }
    }
    if (rc == 0 && others != of_tables) {
        rc = err_set(err, ERR_CORRUPT, "%zu tensors of tables, %zu are expected; the last is %s",
                     others, of_tables, other);
    }
    return rc == 0 ? 0 : err_wrap(err, "read %s", file->path);
}

static int check_file(const struct checkpoint *c, uint32_t shard, struct err *err)
{
    const struct manifest *m = &c->manifest;
    const struct shard_file *f = &c->files[shard];
    if (strcmp(f->job, m->job) != 0) {
        return err_set(err, ERR_CORRUPT, "of job %.64s, the manifest is of %.64s", f->job, m->job);
    }
    if (f->shard != shard || f->shard_count != m->shard_count) {
        return err_set(err, ERR_CORRUPT, "holds shard %u of %u", f->shard, f->shard_count);
    }
    if (f->version != m->shards[shard].version) {
        return err_set(err, ERR_CORRUPT, "holds version %" PRIu64 ", the manifest names %" PRIu64,
                       f->version, m->shards[shard].version);
    }
    if (strcmp(f->rule, m->rule) != 0) {
        return err_set(err, ERR_CORRUPT, "of rule %.64s, the manifest of %.64s", f->rule, m->rule);
    }
    return 0;
}

static int check_delta(const struct checkpoint *c, uint32_t shard, struct err *err)
{
    static const struct manifest none = {0};
    const struct manifest *base = c->base == NULL ? &none : &c->base->manifest;
    return manifest_check_delta(&c->manifest, base, shard, &c->files[shard], err);
}

static int open_files(struct checkpoint *c, enum checkpoint_check check, struct err *err)
{
    size_t tensors = 0;
    for (uint32_t i = 0; i < c->manifest.shard_count; i++) {
        char name[SHARD_FILE_NAME_BYTES];
        char *path = file_join(c->path, shard_file_name(i, c->manifest.shard_count,
                                                        c->manifest.shards[i].generation, name));
        int rc = shard_file_open(&c->files[i], path, err);
        free(path);
        if (rc == 0 && check == CHECKPOINT_PIECES && c->files[i].sums == NULL) {
            rc = manifest_check_file(c->path, &c->manifest, i, true, err);
        }
        if (rc == 0) {
            rc = check_file(c, i, err);
            rc = rc != 0 ? rc : check_delta(c, i, err);
            if (rc != 0) {
                (void)err_wrap(err, "%s", name);
            }
        }
        if (rc != 0) {
            return rc;
        }
        tensors += c->files[i].file.count;
    }
    c->pieces = mem_new(tensors, sizeof *c->pieces);
    for (uint32_t i = 0; i < c->manifest.shard_count; i++) {
        int rc = add_pieces(c, i, err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int compare_pieces(const void *a, const void *b)
{
    const struct piece *x = a;
    const struct piece *y = b;
    if (x->column != y->column) {
        return x->column < y->column ? -1 : 1;
    }
    return (x->first > y->first) - (x->first < y->first);
}

/* Sort the pieces; those of a column must cover its variable without gap or overlap. */
static int index_pieces(struct checkpoint *c, struct err *err)
{
    const struct manifest *m = &c->manifest;
    size_t columns = m->variable_count * checkpoint_columns_per_variable(c);
    c->column_begin = mem_new(columns + 1, sizeof *c->column_begin);
    qsort(c->pieces, c->piece_count, sizeof *c->pieces, compare_pieces);
    size_t i = 0;
    for (size_t column = 0; column < columns; column++) {
        const struct variable_spec *v = &m->variables[column / checkpoint_columns_per_variable(c)];
        size_t slot = column % checkpoint_columns_per_variable(c);
        uint64_t at = 0;
        c->column_begin[column] = i;
        while (i < c->piece_count && c->pieces[i].column == column && c->pieces[i].first == at) {
            at += c->pieces[i++].count;
        }
        bool twice = i < c->piece_count && c->pieces[i].column == column && c->pieces[i].first < at;
        enum rule_slot_kind kind = checkpoint_column_kind(c, slot);
        if (twice || at != column_extent(v, kind)) {
            return err_set(err, ERR_CORRUPT, "%s %" PRIu64 " of %s%s%s is in %s file",
                           checkpoint_is_copied(kind) ? "row" : "element",
                           twice ? c->pieces[i].first : at, v->name, slot == 0 ? "" : "#",
                           slot == 0 ? "" : m->slots[slot - 1], twice ? "more than one" : "no");
        }
    }
    c->column_begin[columns] = i;
    return 0;
}

static int open_as(const char *path, enum checkpoint_check check, bool is_base,
                   struct checkpoint **out, struct err *err);

/* Opens the base of a delta. Its errors are told as errors of the base. */
static int open_base(struct checkpoint *c, enum checkpoint_check check, struct err *err)
{
    if (c->manifest.base.directory[0] == '\0') {
        return 0;
    }
    char *path = manifest_base_path(c->path, &c->manifest);
    int rc = open_as(path, check, true, &c->base, err);
    free(path);
    if (rc != 0) {
        return err_wrap(err, "checkpoint %s: its base %s", c->path, c->manifest.base.directory);
    }
    return manifest_check_base(c->path, &c->manifest, &c->base->manifest, err);
}

static int open_as(const char *path, enum checkpoint_check check, bool is_base,
                   struct checkpoint **out, struct err *err)
{
    struct checkpoint *c = mem_new(1, sizeof *c);
    c->path = mem_strdup(path);
    int rc = manifest_read(path, &c->manifest, err);
    if (rc == 0 && !is_base) { /* a base that has a base itself is refused below */
        rc = open_base(c, check, err);
    }
    if (rc == 0) {
        rc = manifest_check_files(path, &c->manifest, check == CHECKPOINT_FULL, err);
    }
    if (rc == 0) {
        c->files = mem_new(c->manifest.shard_count, sizeof *c->files);
        rc = open_files(c, check, err);
        if (rc == 0) {
            rc = index_pieces(c, err);
        }
        if (rc != 0) {
            (void)err_wrap(err, "checkpoint %s", path);
        }
    }
    if (rc != 0) {
        checkpoint_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

int checkpoint_open(const char *path, enum checkpoint_check check, struct checkpoint **out,
                    struct err *err)
{
    return open_as(path, check, false, out, err);
}

void checkpoint_close(struct checkpoint *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t i = 0; c->files != NULL && i < c->manifest.shard_count; i++) {
        shard_file_close(&c->files[i]);
    }
    free(c->files);
    free(c->pieces);
    free(c->column_begin);
    checkpoint_close(c->base);
    manifest_release(&c->manifest);
    free(c->path);
    free(c);
}
