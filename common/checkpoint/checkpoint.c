/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an open checkpoint as whole variables. */
#include "checkpoint/checkpoint_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/gradient_json.h"
#include "os/file.h"

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

const struct manifest *checkpoint_manifest(const struct checkpoint *c)
{
    return &c->manifest;
}

/* Has the shard a part of a variable? It may have tables alone. */
static bool has_values(const struct checkpoint *c, uint32_t shard)
{
    size_t i = 0;
    while (i < c->piece_count && c->pieces[i].shard != shard) {
        i++;
    }
    return i < c->piece_count;
}

int checkpoint_gradients(const struct checkpoint *c, struct histogram *out, bool *found,
                         struct err *err)
{
    const struct manifest *m = &c->manifest;
    int rc = 0;
    memset(out, 0, m->variable_count * sizeof *out);
    *found = m->shard_count > 0;
    for (uint32_t i = 0; rc == 0 && *found && i < m->shard_count; i++) {
        const struct safetensors *file = &c->files[i].file;
        const char *text = safetensors_meta_find(file, "gradients");
        *found = text != NULL || !has_values(c, i);
        if (text != NULL) {
            rc = gradient_json_add(text, m->variables, m->variable_count, out, err);
            rc = rc == 0 ? 0 : err_wrap(err, "read %s: metadata: gradients", file->path);
        }
    }
    return rc;
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
    const struct variable_spec *v = checkpoint_find_variable(c, variable);
    if (v == NULL) {
        return err_set(err, ERR_NOT_FOUND, "no variable %s", variable);
    }
    int in_variable = checkpoint_slot_column(c, slot);
    if (in_variable < 0) {
        return err_set(err, ERR_NOT_FOUND, "no slot %s", slot);
    }
    *out = (struct found){
        .variable = v,
        .kind = checkpoint_column_kind(c, (size_t)in_variable),
        .column = (size_t)(v - c->manifest.variables) * checkpoint_columns_per_variable(c) +
                  (size_t)in_variable,
    };
    return 0;
}

/* Compares piece @p, from its element @first on, with the copy in @known. */
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

/* Reads the copy of a slot that all of these rows share, from its element @first on; with @known it
 * is in @out already. Shards of async jobs may have different copies, each right for its rows, as
 * long as nobody joins the rows. */
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
    return checkpoint_is_copied(f.kind) ? read_copy(c, f.column, 0, plan_rows(&f.variable->shape),
                                                    first, count, false, out, err)
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
    const struct variable_spec *v = checkpoint_find_variable(c, wanted->name);
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
    if (rc == 0 && checkpoint_is_copied(of->kind)) {
        rc = read_copy(c, f.column, p->row_first, p->row_count, 0, count, known, out, err);
    } else if (rc == 0) {
        rc = read_run(c, f.column, of->kind == RULE_SLOT_ROW ? p->row_first : p->first, count, out,
                      err);
    }
    return rc == 0 ? 0 : err_wrap(err, "checkpoint %s", c->path);
}

/* All slots of the shard's partition number @part. */
static int read_slots(const struct checkpoint *c, const struct partition *p, const char *variable,
                      const struct update *update, size_t part, bool known, float *const *slots,
                      struct err *err)
{
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < update_slot_count(update); k++) {
        rc = read_slot(c, p, variable, update, k, part, known, slots[k], err);
    }
    return rc;
}

int checkpoint_read_slots(const struct checkpoint *c, const struct plan *plan, uint32_t shard,
                          const char *const *names, const struct update *update,
                          float *const *slots, struct err *err)
{
    size_t count = 0;
    const struct partition *parts = plan_shard(plan, shard, &count);
    bool *seen = mem_new(plan->variable_count + 1, sizeof *seen);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        const struct partition *p = &parts[i];
        rc = read_slots(c, p, names[p->variable], update, i, seen[p->variable], slots, err);
        seen[p->variable] = true;
    }
    free(seen);
    return rc;
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
        if (rc == 0 && rule != NULL) {
            rc = read_slots(c, p, v->name, update, i, seen[p->variable], slots, err);
        }
        seen[p->variable] = true;
    }
    free(seen);
    return rc;
}
