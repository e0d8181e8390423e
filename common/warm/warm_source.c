/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the kind of a source, and keeps what all have in common. */
#include "warm/warm_source.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/raw_file.h"
#include "storage/storage.h"
#include "warm/warm_kinds.h"

char *warm_source_locate(const char *path, const struct data_roots *roots, struct err *err)
{
    if (!data_roots_bind(roots)) {
        return mem_strdup(path);
    }
    if (data_roots_check(roots, path, err) != 0) {
        return NULL;
    }
    /* The checked file is the one that is opened afterwards, wherever a link leads by then. */
    char *real = storage_is_url(path) ? NULL : realpath(path, NULL);
    char *found = mem_strdup(real != NULL ? real : path);
    free(real);
    const int rc = data_roots_check(roots, found, err);
    if (rc != 0) {
        free(found);
        found = NULL;
    }
    return found;
}

static const struct warm_source_kind *kind_of(const struct from_spec *from, const char **path)
{
    const struct {
        const struct warm_source_kind *kind;
        const char *path;
    } kinds[] = {{&warm_checkpoint, from->checkpoint},
                 {&warm_safetensors, from->safetensors},
                 {&warm_onnx, from->onnx}};
    size_t i = 0;
    while (i < 2 && (kinds[i].path == NULL || kinds[i].path[0] == '\0')) {
        i++;
    }
    *path = kinds[i].path;
    return kinds[i].kind;
}

int warm_source_open(const struct from_spec *from, const char *dir, const struct data_roots *roots,
                     struct warm_source *out, struct err *err)
{
    struct err local = {0};
    const char *path = NULL;
    struct warm_source made = {.kind = kind_of(from, &path)};
    made.path = storage_join(dir == NULL ? "" : dir, path);
    const int rc = made.kind->open(&made, from, roots, &local);
    if (rc != 0) {
        /* What a store says of our rights, others would take for a word about this process. */
        (void)err_set(err, raw_file_error(local.code), "from.%s %.300s: %s", made.kind->name, path,
                      local.msg);
        warm_source_close(&made);
        return raw_file_error(local.code);
    }
    *out = made;
    return 0;
}

void warm_source_close(struct warm_source *s)
{
    if (s->state != NULL) {
        s->kind->close(s);
    }
    free(s->tensors);
    free(s->path);
    *s = (struct warm_source){0};
}

int warm_source_read(const struct warm_source *s, size_t tensor, float *out, struct err *err)
{
    struct err local = {0};
    if (s->kind->read(s, tensor, out, &local) == 0) {
        return 0;
    }
    return err_set(err, raw_file_error(local.code), "from.%s: %s: %s", s->kind->name,
                   s->tensors[tensor].name, local.msg);
}
