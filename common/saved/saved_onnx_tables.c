/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are copied as they read at the model's version, in the order of table_walk(). */
#include "saved/saved_onnx_tables.h"

#include <stdlib.h>

#include "base/mem.h"
#include "job/plan/plan_tables.h"
#include "saved/saved_tables.h"

static int copy_rows(struct table *t, uint64_t version, struct table_chunk *chunk, struct err *err)
{
    struct table_cursor cursor = {0};
    const size_t all = chunk->capacity, dim = table_dim(t);
    struct table_chunk part = *chunk;
    int rc = 0;
    while (chunk->n < all && rc == 0) {
        part.capacity = all - chunk->n;
        part.keys = chunk->keys + chunk->n;
        part.values = chunk->values + chunk->n * dim;
        rc = table_walk(t, version, &cursor, &part, err);
        chunk->n += part.n;
        if (rc == 0 && part.n == 0) {
            break;
        }
    }
    return rc;
}

static int read_table(const struct saved_model *m, size_t i, struct model_onnx_table *out,
                      struct err *err)
{
    const struct saved_tables *tables = saved_model_tables(m);
    const struct job_spec *spec = saved_model_spec(m);
    struct table *t = tables->tables[i];
    struct table_config config;
    uint64_t count = 0;
    plan_table_config(spec, i, &tables->pasts[i], 0, 1, &config);
    int rc = table_count(t, tables->version, &count, err);
    if (rc != 0) {
        return rc;
    }
    const size_t dim = table_dim(t), rows = (size_t)count;
    struct table_chunk chunk = {.capacity = rows};
    chunk.keys = mem_try_aligned(rows + 1, sizeof *chunk.keys, "keys of a table", err);
    chunk.values = mem_try_aligned((rows + 1) * dim, sizeof *chunk.values, "rows of a table", err);
    *out = (struct model_onnx_table){.name = spec->model.tables[i].name,
                                     .keys = (const int64_t *)chunk.keys,
                                     .values = chunk.values,
                                     .init = config.init,
                                     .seed = config.seed};
    if (chunk.keys == NULL || chunk.values == NULL) {
        return ERR_EXHAUSTED;
    }
    rc = copy_rows(t, tables->version, &chunk, err);
    out->count = chunk.n;
    init_fill(&config.init, config.seed, out->name, 0, dim, chunk.values + chunk.n * dim);
    return rc;
}

int saved_onnx_tables(const struct saved_model *m, struct saved_onnx_tables *out, struct err *err)
{
    const size_t count = saved_model_tables(m)->count;
    int rc = 0;
    out->tables = mem_new(count + 1, sizeof *out->tables);
    while (out->count < count && rc == 0) {
        rc = read_table(m, out->count, &out->tables[out->count], err);
        out->count++;
    }
    return rc;
}

void saved_onnx_tables_release(struct saved_onnx_tables *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free((void *)(uintptr_t)t->tables[i].keys);
        free((void *)(uintptr_t)t->tables[i].values);
    }
    free(t->tables);
    *t = (struct saved_onnx_tables){0};
}
