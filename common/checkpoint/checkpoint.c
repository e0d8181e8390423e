#include "checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/shard_file.h"

#define EXPORT_CHUNK_FLOATS (1U << 18) /* 1 MiB */

/* A run of elements of one column: a variable's values or one of its slots. */
struct piece {
    size_t column; /* variable · (1 + slots) + (0: values, k: slot k - 1) */
    uint64_t first, count;
    uint32_t shard;
    const struct safetensors_tensor *tensor;
};

struct checkpoint {
    char *path;
    struct manifest manifest;
    struct shard_file *files; /* [shard_count] */
    struct piece *pieces;     /* sorted by column, then first */
    size_t piece_count;
    size_t *column_begin; /* [columns + 1]: the pieces of a column */
};

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

/* A slot that is not per parameter: a vector. */
static bool vector_fits(const struct safetensors_tensor *t, const struct variable_spec *v,
                        const struct shard_file_tensor *name, enum rule_slot_kind kind)
{
    uint64_t rows = plan_rows(&v->shape);
    if (t->dtype != SAFETENSORS_F32 || t->rank != 1 || name->row_count > rows ||
        name->row_first > rows - name->row_count) {
        return false;
    }
    if (kind == RULE_SLOT_ROW) {
        return t->dims[0] == name->row_count;
    }
    return name->row_first == 0 && t->dims[0] == manifest_slot_elements(v, kind);
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
                     struct err *err)
{
    struct shard_file_tensor name;
    if (!shard_file_tensor_parse(t->name, &name)) {
        return err_set(err, ERR_CORRUPT, "tensor %s: not the name of a partition", t->name);
    }
    const struct variable_spec *v = find_variable(c, name.variable);
    int column = slot_column(c, name.slot);
    if (v == NULL || column < 0) {
        return err_set(err, ERR_CORRUPT, "tensor %s: the manifest has no such %s", t->name,
                       v == NULL ? "variable" : "slot");
    }
    enum rule_slot_kind kind = column_kind(c, (size_t)column);
    if (!shape_fits(t, v, &name, kind)) {
        return err_set(err, ERR_CORRUPT, "tensor %s: does not fit the shape of its variable",
                       t->name);
    }
    uint64_t row = kind == RULE_SLOT_PARAMETER ? plan_row_elements(&v->shape) : 1;
    bool of_rows = kind == RULE_SLOT_PARAMETER || kind == RULE_SLOT_ROW;
    c->pieces[c->piece_count++] = (struct piece){
        .column = (size_t)(v - c->manifest.variables) * columns_per_variable(c) + (size_t)column,
        .first = name.row_first * row,
        .count = of_rows ? name.row_count * row : t->dims[0],
        .shard = shard,
        .tensor = t,
    };
    return 0;
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

static int open_files(struct checkpoint *c, struct err *err)
{
    size_t tensors = 0;
    for (uint32_t i = 0; i < c->manifest.shard_count; i++) {
        char name[SHARD_FILE_NAME_BYTES];
        char *path = file_join(c->path, shard_file_name(i, c->manifest.shard_count,
                                                        c->manifest.shards[i].generation, name));
        int rc = shard_file_open(&c->files[i], path, err);
        free(path);
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
        const struct safetensors *file = &c->files[i].file;
        for (size_t t = 0; t < file->count; t++) {
            int rc = add_piece(c, i, &file->tensors[t], err);
            if (rc != 0) {
                (void)err_wrap(err, "read %s", file->path);
                return rc;
            }
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

/* Sort the pieces; those of a column must be a walk over its variable. */
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
        if (twice || at != manifest_slot_elements(v, column_kind(c, slot))) {
            return err_set(err, ERR_CORRUPT, "element %" PRIu64 " of %s%s%s is in %s file",
                           twice ? c->pieces[i].first : at, v->name, slot == 0 ? "" : "#",
                           slot == 0 ? "" : m->slots[slot - 1], twice ? "more than one" : "no");
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
        rc = open_files(c, err);
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

int checkpoint_read(const struct checkpoint *c, const char *variable, const char *slot,
                    uint64_t first, uint64_t count, float *out, struct err *err)
{
    const struct variable_spec *v = find_variable(c, variable);
    if (v == NULL) {
        return err_set(err, ERR_NOT_FOUND, "checkpoint %s: no variable %s", c->path, variable);
    }
    int in_variable = slot_column(c, slot);
    if (in_variable < 0) {
        return err_set(err, ERR_NOT_FOUND, "checkpoint %s: no slot %s", c->path, slot);
    }
    uint64_t elements = manifest_slot_elements(v, column_kind(c, (size_t)in_variable));
    if (first > elements || count > elements - first) {
        return err_set(err, ERR_RANGE,
                       "checkpoint %s: %" PRIu64 " elements of %s from %" PRIu64
                       ", which has %" PRIu64,
                       c->path, count, variable, first, elements);
    }
    size_t column = (size_t)(v - c->manifest.variables) * columns_per_variable(c);
    column += (size_t)in_variable;
    int rc = 0;
    for (size_t i = piece_of(c, column, first); rc == 0 && count > 0; i++) {
        const struct piece *p = &c->pieces[i];
        uint64_t skip = first - p->first;
        uint64_t n = p->count - skip < count ? p->count - skip : count;
        rc = safetensors_read(&c->files[p->shard].file, p->tensor, skip * sizeof(float), out,
                              (size_t)n * sizeof(float), err);
        first += n;
        out += n;
        count -= n;
    }
    if (rc != 0) {
        (void)err_wrap(err, "checkpoint %s", c->path);
    }
    return rc;
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

/* Slot @k of partition @p, the shard's number @part. */
static int read_slot(const struct checkpoint *c, const struct partition *p, const char *variable,
                     const struct update *update, size_t k, size_t part, float *slot,
                     struct err *err)
{
    const struct update_slot *of = update_slot(update, k);
    uint64_t first = of->kind == RULE_SLOT_PARAMETER ? p->first
                     : of->kind == RULE_SLOT_ROW     ? p->row_first
                                                     : 0;
    return checkpoint_read(c, variable, of->name, first, update_slot_part_floats(update, k, part),
                           slot + update_slot_offset(update, k, part), err);
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
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct partition *p = &parts[i];
        const struct variable_spec *v = &plan->variables[p->variable];
        rc = check_partition(c, v, err);
        if (rc == 0) {
            rc = checkpoint_read(c, v->name, NULL, p->first, p->count, values + p->offset, err);
        }
        for (size_t k = 0; rc == 0 && rule != NULL && k < update_slot_count(update); k++) {
            rc = read_slot(c, p, v->name, update, k, i, slots[k], err);
        }
    }
    return rc;
}

static int export_variable(const struct checkpoint *c, const struct variable_spec *v,
                           struct safetensors_writer *w, float *chunk, struct err *err)
{
    uint64_t elements = shape_count(&v->shape);
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < elements;) {
        uint64_t n = elements - at < EXPORT_CHUNK_FLOATS ? elements - at : EXPORT_CHUNK_FLOATS;
        rc = checkpoint_read(c, v->name, NULL, at, n, chunk, err);
        if (rc == 0) {
            rc = safetensors_writer_add(w, chunk, (size_t)n * sizeof *chunk, err);
        }
        at += n;
    }
    return rc;
}

int checkpoint_export(const struct checkpoint *c, const char *out_path, struct err *err)
{
    const struct manifest *m = &c->manifest;
    struct safetensors_tensor *tensors = mem_new(m->variable_count, sizeof *tensors);
    for (size_t i = 0; i < m->variable_count; i++) {
        const struct variable_spec *v = &m->variables[i];
        tensors[i] = (struct safetensors_tensor){
            .name = v->name, .dtype = SAFETENSORS_F32, .rank = v->shape.rank};
        memcpy(tensors[i].dims, v->shape.dims, v->shape.rank * sizeof v->shape.dims[0]);
    }
    float *chunk = mem_new(EXPORT_CHUNK_FLOATS, sizeof *chunk);
    struct safetensors_writer w;
    int rc = safetensors_writer_open(&w, out_path, tensors, m->variable_count, NULL, 0, err);
    if (rc == 0) {
        for (size_t i; rc == 0 && safetensors_writer_next(&w, &i);) {
            rc = export_variable(c, &m->variables[i], &w, chunk, err);
        }
        if (rc == 0) {
            rc = safetensors_writer_commit(&w, NULL, err);
        } else {
            safetensors_writer_abort(&w);
        }
    }
    free(chunk);
    free(tensors);
    return rc;
}
