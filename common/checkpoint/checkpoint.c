/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a checkpoint as whole variables, after checking that its files leave no gap or overlap. */
#include "checkpoint/checkpoint_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define COMPARE_FLOATS (SHARD_FILE_CHUNK_BYTES / sizeof(float))

void checkpoint_count(struct checkpoint *c, atomic_ullong *bytes)
{
    c->bytes = bytes;
}

static int read_piece(const struct checkpoint *c, const struct piece *p, uint64_t first,
                      uint64_t count, float *out, struct err *err)
{
    int rc = shard_file_read(&c->files[p->shard], p->tensor, first * sizeof(float), out,
                             (size_t)count * sizeof(float), err);
    if (rc == 0 && c->bytes != NULL) {
        atomic_fetch_add(c->bytes, count * sizeof(float));
    }
    return rc;
}

static size_t columns_per_variable(const struct checkpoint *c)
{
    return 1 + c->manifest.slot_count;
}

static const struct variable_spec *find_variable(const struct checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->manifest.variable_count; i++) {
        if (strcmp(c->manifest.variables[i].name, name) == 0) {
            return &c->manifest.variables[i];
        }
    }
    return NULL;
}

/* The place of a slot among the columns of a variable; 0 stands for the values, -1 for no such
 * slot. */
static int slot_column(const struct checkpoint *c, const char *slot)
{
    if (slot == NULL || slot[0] == '\0') {
        return 0;
    }
    for (size_t k = 0; k < c->manifest.slot_count; k++) {
        if (strcmp(c->manifest.slots[k], slot) == 0) {
            return (int)k + 1;
        }
    }
    return -1;
}

/* What @column of a variable is of; values are one for each parameter. */
static enum rule_slot_kind column_kind(const struct checkpoint *c, size_t column)
{
    return column == 0 ? RULE_SLOT_PARAMETER : c->manifest.slot_kinds[column - 1];
}

static bool is_copied(enum rule_slot_kind kind)
{
    return kind == RULE_SLOT_COLUMN || kind == RULE_SLOT_VARIABLE;
}

/* What the pieces of a column add up to. */
static uint64_t column_extent(const struct variable_spec *v, enum rule_slot_kind kind)
{
    return is_copied(kind) ? plan_rows(&v->shape) : manifest_slot_elements(v, kind);
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
    const struct variable_spec *v = find_variable(c, name->variable);
    int column = slot_column(c, name->slot);
    if (v == NULL || column < 0) {
        return err_set(err, ERR_CORRUPT, "tensor %s: the manifest has no such %s", t->name,
                       v == NULL ? "variable" : "slot");
    }
    enum rule_slot_kind kind = column_kind(c, (size_t)column);
    if (!shape_fits(t, v, name, kind)) {
        return err_set(err, ERR_CORRUPT, "tensor %s: does not fit the shape of its variable",
                       t->name);
    }
    uint64_t row = kind == RULE_SLOT_PARAMETER ? plan_row_elements(&v->shape) : 1;
    c->pieces[c->piece_count++] = (struct piece){
        .column = (size_t)(v - c->manifest.variables) * columns_per_variable(c) + (size_t)column,
        .first = name->row_first * row,
        .count = name->row_count * row,
        .shard = shard,
        .tensor = t,
    };
    return 0;
}

/* What is no partition must be of a table. */
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
    size_t columns = m->variable_count * columns_per_variable(c);
    c->column_begin = mem_new(columns + 1, sizeof *c->column_begin);
    qsort(c->pieces, c->piece_count, sizeof *c->pieces, compare_pieces);
    size_t i = 0;
    for (size_t column = 0; column < columns; column++) {
        const struct variable_spec *v = &m->variables[column / columns_per_variable(c)];
        size_t slot = column % columns_per_variable(c);
        uint64_t at = 0;
        c->column_begin[column] = i;
        while (i < c->piece_count && c->pieces[i].column == column && c->pieces[i].first == at) {
            at += c->pieces[i++].count;
        }
        bool twice = i < c->piece_count && c->pieces[i].column == column && c->pieces[i].first < at;
        enum rule_slot_kind kind = column_kind(c, slot);
        if (twice || at != column_extent(v, kind)) {
            return err_set(err, ERR_CORRUPT, "%s %" PRIu64 " of %s%s%s is in %s file",
                           is_copied(kind) ? "row" : "element", twice ? c->pieces[i].first : at,
                           v->name, slot == 0 ? "" : "#", slot == 0 ? "" : m->slots[slot - 1],
                           twice ? "more than one" : "no");
        }
    }
    c->column_begin[columns] = i;
    return 0;
}

int checkpoint_open(const char *path, enum checkpoint_check check, struct checkpoint **out,
                    struct err *err)
{
    struct checkpoint *c = mem_new(1, sizeof *c);
    c->path = mem_strdup(path);
    int rc = manifest_read(path, &c->manifest, err);
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
    manifest_release(&c->manifest);
    free(c->path);
    free(c);
}

const struct manifest *checkpoint_manifest(const struct checkpoint *c)
{
    return &c->manifest;
}

const struct ledger *checkpoint_ledger(const struct checkpoint *c, uint32_t shard)
{
    return shard < c->manifest.shard_count ? &c->files[shard].ledger : NULL;
}

/* The last piece of the column that begins at or before @first. */
static size_t piece_of(const struct checkpoint *c, size_t column, uint64_t first)
{
    size_t lo = c->column_begin[column];
    size_t hi = c->column_begin[column + 1];
    while (hi - lo > 1) {
        size_t middle = lo + (hi - lo) / 2;
        if (c->pieces[middle].first <= first) {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    return lo;
}

/* A variable's values or one of its slots, as everybody names them. */
struct found {
    const struct variable_spec *variable;
    enum rule_slot_kind kind;
    size_t column;
};

static int find_column(const struct checkpoint *c, const char *variable, const char *slot,
                       struct found *out, struct err *err)
{
    const struct variable_spec *v = find_variable(c, variable);
    if (v == NULL) {
        return err_set(err, ERR_NOT_FOUND, "no variable %s", variable);
    }
    int in_variable = slot_column(c, slot);
    if (in_variable < 0) {
        return err_set(err, ERR_NOT_FOUND, "no slot %s", slot);
    }
    *out = (struct found){
        .variable = v,
        .kind = column_kind(c, (size_t)in_variable),
        .column =
            (size_t)(v - c->manifest.variables) * columns_per_variable(c) + (size_t)in_variable,
    };
    return 0;
}

/* Is piece @p the same as @known from element @first on? */
static int compare_copy(const struct checkpoint *c, const struct piece *p, uint64_t first,
                        uint64_t count, const float *known, struct err *err)
{
    float *chunk = mem_new(COMPARE_FLOATS, sizeof *chunk);
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < count;) {
        size_t n = count - at < COMPARE_FLOATS ? (size_t)(count - at) : COMPARE_FLOATS;
        rc = read_piece(c, p, first + at, n, chunk, err);
        if (rc == 0 && memcmp(chunk, known + at, n * sizeof(float)) != 0) {
            rc = err_set(err, ERR_CORRUPT, "tensor %s differs from the copy of other rows",
                         p->tensor->name);
        }
        at += n;
    }
    free(chunk);
    return rc;
}

/* The copy that all of these rows have, from its element @first on; with @known it is in @out
 * already. Shards of async jobs may have different ones, each right for its rows, as long as
 * nobody joins the rows. */
static int read_copy(const struct checkpoint *c, size_t column, uint64_t row_first,
                     uint64_t row_count, uint64_t first, uint64_t count, bool known, float *out,
                     struct err *err)
{
    int rc = 0;
    for (size_t i = piece_of(c, column, row_first);
         rc == 0 && i < c->column_begin[column + 1] && c->pieces[i].first < row_first + row_count;
         i++) {
        const struct piece *p = &c->pieces[i];
        if (known) {
            rc = compare_copy(c, p, first, count, out, err);
        } else {
            rc = read_piece(c, p, first, count, out, err);
        }
        known = true;
    }
    return rc;
}

static int read_run(const struct checkpoint *c, size_t column, uint64_t first, uint64_t count,
                    float *out, struct err *err)
{
    int rc = 0;
    for (size_t i = piece_of(c, column, first); rc == 0 && count > 0; i++) {
        const struct piece *p = &c->pieces[i];
        uint64_t skip = first - p->first;
        uint64_t n = p->count - skip < count ? p->count - skip : count;
        rc = read_piece(c, p, skip, n, out, err);
        first += n;
        out += n;
        count -= n;
    }
    return rc;
}

static int read_range(const struct checkpoint *c, const char *variable, const char *slot,
                      uint64_t first, uint64_t count, float *out, struct err *err)
{
    struct found f;
    int rc = find_column(c, variable, slot, &f, err);
    if (rc != 0) {
        return rc;
    }
    uint64_t elements = manifest_slot_elements(f.variable, f.kind);
    if (first > elements || count > elements - first) {
        return err_set(err, ERR_RANGE,
                       "%" PRIu64 " elements of %s from %" PRIu64 ", which has %" PRIu64, count,
                       variable, first, elements);
    }
    return is_copied(f.kind) ? read_copy(c, f.column, 0, plan_rows(&f.variable->shape), first,
                                         count, false, out, err)
                             : read_run(c, f.column, first, count, out, err);
}

int checkpoint_read(const struct checkpoint *c, const char *variable, const char *slot,
                    uint64_t first, uint64_t count, float *out, struct err *err)
{
    int rc = read_range(c, variable, slot, first, count, out, err);
    return rc == 0 ? 0 : err_wrap(err, "checkpoint %s", c->path);
}

static int check_partition(const struct checkpoint *c, const struct variable_spec *wanted,
                           struct err *err)
{
    const struct variable_spec *v = find_variable(c, wanted->name);
    if (v == NULL) {
        return err_set(err, ERR_INVALID, "checkpoint %s: no variable %s", c->path, wanted->name);
    }
    if (!shape_equal(&v->shape, &wanted->shape)) {
        char has[96];
        char want[96];
        return err_set(err, ERR_INVALID, "checkpoint %s: variable %s is %s, %s is wanted", c->path,
                       v->name, shape_format(&v->shape, has, sizeof has),
                       shape_format(&wanted->shape, want, sizeof want));
    }
    return 0;
}

/* Slot @k of partition @p, the shard's number @part. @known: a partition before it, of the same
 * variable, has filled what they share. */
static int read_slot(const struct checkpoint *c, const struct partition *p, const char *variable,
                     const struct update *update, size_t k, size_t part, bool known, float *slot,
                     struct err *err)
{
    const struct update_slot *of = update_slot(update, k);
    const uint64_t count = update_slot_part_floats(update, k, part);
    float *out = slot + update_slot_offset(update, k, part);
    struct found f;
    int rc = find_column(c, variable, of->name, &f, err);
    if (rc == 0 && f.kind != of->kind) {
        rc = err_set(err, ERR_INVALID, "slot %s is per %s, one per %s is wanted", of->name,
                     manifest_slot_kinds[f.kind], manifest_slot_kinds[of->kind]);
    }
    if (rc == 0 && is_copied(of->kind)) {
        rc = read_copy(c, f.column, p->row_first, p->row_count, 0, count, known, out, err);
    } else if (rc == 0) {
        rc = read_run(c, f.column, of->kind == RULE_SLOT_ROW ? p->row_first : p->first, count, out,
                      err);
    }
    return rc == 0 ? 0 : err_wrap(err, "checkpoint %s", c->path);
}

int checkpoint_read_shard(const struct checkpoint *c, const struct plan *plan, uint32_t shard,
                          const char *rule, const struct update *update, float *values,
                          float *const *slots, struct err *err)
{
    if (rule != NULL && strcmp(rule, c->manifest.rule) != 0) {
        return err_set(err, ERR_INVALID, "checkpoint %s: of rule %s, %s is wanted", c->path,
                       c->manifest.rule, rule);
    }
    size_t count = 0;
    const struct partition *parts = plan_shard(plan, shard, &count);
    bool *seen = mem_new(plan->variable_count + 1, sizeof *seen);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct partition *p = &parts[i];
        const struct variable_spec *v = &plan->variables[p->variable];
        rc = check_partition(c, v, err);
        if (rc == 0) {
            rc = checkpoint_read(c, v->name, NULL, p->first, p->count, values + p->offset, err);
        }
        for (size_t k = 0; rc == 0 && rule != NULL && k < update_slot_count(update); k++) {
            rc = read_slot(c, p, v->name, update, k, i, seen[p->variable], slots[k], err);
        }
        seen[p->variable] = true;
    }
    free(seen);
    return rc;
}
