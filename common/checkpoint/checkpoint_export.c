/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a checkpoint's values, or one of its slots, as a single safetensors file with each
 * variable and table whole, for other programs (numpy, PyTorch). Copies by chunks, so the model
 * need not fit into memory. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_impl.h"
#include "checkpoint/safetensors.h"

#define EXPORT_CHUNK_FLOATS (1U << 18) /* 1 MiB */

static int export_variable(const struct checkpoint *c, const struct variable_spec *v,
                           const char *slot, struct safetensors_writer *w, float *chunk,
                           struct err *err)
{
    uint64_t elements = shape_count(&v->shape);
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < elements;) {
        uint64_t n = elements - at < EXPORT_CHUNK_FLOATS ? elements - at : EXPORT_CHUNK_FLOATS;
        rc = checkpoint_read(c, v->name, slot, at, n, chunk, err);
        if (rc == 0) {
            rc = safetensors_writer_add(w, chunk, (size_t)n * sizeof *chunk, err);
        }
        at += n;
    }
    return rc;
}

/* Only slots that are as large as the variables can stand in their place. */
static int check_slot(const struct manifest *m, const char *slot, struct err *err)
{
    for (size_t k = 0; k < m->slot_count; k++) {
        if (strcmp(m->slots[k], slot) == 0) {
            return m->slot_kinds[k] == RULE_SLOT_PARAMETER
                       ? 0
                       : err_set(err, ERR_INVALID, "slot %s is not per parameter but per %s", slot,
                                 manifest_slot_kinds[m->slot_kinds[k]]);
        }
    }
    return err_set(err, ERR_NOT_FOUND, "the checkpoint of job %s has no slot %s", m->job, slot);
}

/* Variables, then the keys and the rows of each table, with @names [2 × tables] of their own. */
static struct safetensors_tensor *declare(const struct manifest *m, char **names)
{
    const size_t count = m->variable_count + 2 * m->table_count;
    struct safetensors_tensor *tensors = mem_new(count, sizeof *tensors);
    for (size_t i = 0; i < m->variable_count; i++) {
        const struct variable_spec *v = &m->variables[i];
        tensors[i] = (struct safetensors_tensor){
            .name = v->name, .dtype = SAFETENSORS_F32, .rank = v->shape.rank};
        memcpy(tensors[i].dims, v->shape.dims, v->shape.rank * sizeof v->shape.dims[0]);
    }
    for (size_t i = 0; i < m->table_count; i++) {
        const struct table_file_info *t = &m->tables[i].info;
        struct safetensors_tensor *of = tensors + m->variable_count + 2 * i;
        names[2 * i] = mem_printf("%s.keys", t->name);
        names[2 * i + 1] = mem_printf("%s.values", t->name);
        of[0] = (struct safetensors_tensor){
            .name = names[2 * i], .dtype = SAFETENSORS_U64, .rank = 1, .dims = {t->rows}};
        of[1] = (struct safetensors_tensor){.name = names[2 * i + 1],
                                            .dtype = SAFETENSORS_F32,
                                            .rank = 2,
                                            .dims = {t->rows, t->dim}};
    }
    return tensors;
}

static int export_all(const struct checkpoint *c, const char *slot, struct safetensors_writer *w,
                      struct err *err)
{
    const struct manifest *m = &c->manifest;
    float *chunk = mem_new(EXPORT_CHUNK_FLOATS, sizeof *chunk);
    int rc = 0;
    for (size_t i; rc == 0 && safetensors_writer_next(w, &i);) {
        const size_t of_table = i - m->variable_count;
        rc = i < m->variable_count
                 ? export_variable(c, &m->variables[i], slot, w, chunk, err)
                 : checkpoint_export_table(c, of_table / 2, of_table % 2 == 1, slot, w, err);
    }
    free(chunk);
    return rc;
}

int checkpoint_export(const struct checkpoint *c, const char *slot, const char *out_path,
                      struct err *err)
{
    return checkpoint_export_described(c, slot, out_path, NULL, 0, err);
}

int checkpoint_export_described(const struct checkpoint *c, const char *slot, const char *out_path,
                                const struct safetensors_meta *meta, size_t meta_count,
                                struct err *err)
{
    const struct manifest *m = checkpoint_manifest(c);
    if (slot != NULL && check_slot(m, slot, err) != 0) {
        return err_wrap(err, "export");
    }
    char **names = mem_new(2 * m->table_count + 1, sizeof *names);
    struct safetensors_tensor *tensors = declare(m, names);
    const size_t count = m->variable_count + 2 * m->table_count;
    struct safetensors_writer w;
    int rc = safetensors_writer_open(&w, out_path, tensors, count, meta, meta_count, err);
    if (rc == 0) {
        rc = export_all(c, slot, &w, err);
        if (rc == 0) {
            rc = safetensors_writer_commit(&w, NULL, err);
        } else {
            safetensors_writer_abort(&w);
        }
    }
    for (size_t i = 0; i < 2 * m->table_count; i++) {
        free(names[i]);
    }
    free(names);
    free(tensors);
    return rc;
}
