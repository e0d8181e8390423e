/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints as sources: of this job or another one, however many servers wrote it. */
#include <stdlib.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_dir.h"
#include "storage/storage.h"
#include "warm/warm_kinds.h"

/* Resolves the path: a checkpoint, or the result or the best version of a job. */
static int resolve(struct warm_source *s, const struct from_spec *from,
                   const struct data_roots *roots, struct err *err)
{
    char *place = warm_source_locate(s->path, roots, err), *found = NULL;
    enum storage_thing thing = STORAGE_NOTHING;
    if (place == NULL) {
        return err->code;
    }
    int rc = storage_look(place, &thing, err);
    if (rc == 0 && thing != STORAGE_DIRECTORY) {
        rc = err_set(err, ERR_NOT_FOUND, "%s: no such directory", place);
    }
    rc = rc != 0 ? rc : checkpoint_resolve(place, &found, NULL, err);
    if (rc == 0 && from->best) {
        char *best = NULL;
        rc = checkpoint_best(found, &best, err);
        free(found);
        found = best;
    }
    free(place);
    place = rc == 0 ? warm_source_locate(found, roots, err) : NULL;
    rc = rc == 0 && place == NULL ? err->code : rc;
    free(found);
    if (rc == 0) {
        free(s->path);
        s->path = place;
    }
    return rc;
}

struct warm_tensor *warm_checkpoint_tensors(const struct manifest *m, size_t *count)
{
    struct warm_tensor *tensors = mem_new(m->variable_count + m->table_count + 1, sizeof *tensors);
    for (size_t i = 0; i < m->variable_count; i++) {
        const struct variable_spec *v = &m->variables[i];
        tensors[i] = (struct warm_tensor){
            .name = v->name, .type = "F32", .shape = v->shape, .readable = true};
    }
    for (size_t i = 0; i < m->table_count; i++) {
        const struct table_file_info *t = &m->tables[i].info;
        tensors[m->variable_count + i] =
            (struct warm_tensor){.name = t->name,
                                 .type = "F32",
                                 .shape = {.rank = 1, .dims = {t->dim}},
                                 .table = true,
                                 .readable = true};
    }
    *count = m->variable_count + m->table_count;
    return tensors;
}

static int open_checkpoint(struct warm_source *s, const struct from_spec *from,
                           const struct data_roots *roots, struct err *err)
{
    struct checkpoint *c = NULL;
    int rc = resolve(s, from, roots, err);
    rc = rc != 0 ? rc : checkpoint_open(s->path, CHECKPOINT_PIECES, &c, err);
    if (rc != 0) {
        return rc;
    }
    const struct manifest *m = checkpoint_manifest(c);
    s->state = c;
    s->rows_manifest = m->checksum;
    s->tensors = warm_checkpoint_tensors(m, &s->count);
    return 0;
}

const struct checkpoint *warm_checkpoint_of(const struct warm_source *s)
{
    return s->kind == &warm_checkpoint ? s->state : NULL;
}

static void close_checkpoint(struct warm_source *s)
{
    checkpoint_close(s->state);
}

static int read_variable(const struct warm_source *s, size_t tensor, float *out, struct err *err)
{
    const struct warm_tensor *t = &s->tensors[tensor];
    return checkpoint_read(s->state, t->name, NULL, 0, shape_count(&t->shape), out, err);
}

const struct warm_source_kind warm_checkpoint = {"checkpoint", open_checkpoint, close_checkpoint,
                                                 read_variable};
