/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse tables of a job and sparse fields of its data: what there are, the rows and lists of a
 * batch, and the keys that the program says. The worker numbers tables as the job does, the program
 * as its description. */
#include "handle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_BYTES 160      /* bytes of the names in a message */
#define KEYS_BYTES_MIN 16384 /* least memory for keys; it grows by half at least */

/* ---- what there is ---- */

int handle_take_tables(struct gradus_worker *w, const struct program_table *from)
{
    struct handle_job *job = &w->job;
    const size_t n = (size_t)job->said.table_count;
    if (n == 0) {
        return GRADUS_OK;
    }
    job->tables = malloc(n * sizeof job->tables[0]);
    job->shown_tables = calloc(n, sizeof job->shown_tables[0]);
    job->described = calloc(n, sizeof job->described[0]);
    job->rows = calloc(n, sizeof job->rows[0]);
    if (job->tables == NULL || job->shown_tables == NULL || job->described == NULL ||
        job->rows == NULL) {
        return handle_break(w, GRADUS_ERROR_MEMORY, "no memory for %zu tables", n);
    }
    memcpy(job->tables, from, n * sizeof job->tables[0]);
    for (size_t i = 0; i < n; i++) {
        struct program_table *t = &job->tables[i];
        t->name[sizeof t->name - 1] = '\0';
        if (t->dim == 0 || t->dim > UINT32_MAX) {
            return handle_break(w, GRADUS_ERROR_ABI, "table \"%s\" has dim %" PRIu64, t->name,
                                t->dim);
        }
        job->shown_tables[i] = (struct gradus_table){t->name, t->dim};
    }
    return GRADUS_OK;
}

/* A text that the job has, or part of one that it has not. */
static const char *shown(const char *text, char out[GRADUS_VARIABLE_NAME_BYTES_MAX + 1])
{
    size_t n = 0;
    for (; text != NULL && text[n] != '\0' && n < GRADUS_VARIABLE_NAME_BYTES_MAX; n++) {
        out[n] = text[n] < ' ' || text[n] > '~' ? '?' : text[n];
    }
    out[n] = '\0';
    return out;
}

/* "it declares a, b", as many as fit. */
static const char *declared(const struct handle_job *job, char out[NAMES_BYTES])
{
    const size_t n = (size_t)job->said.table_count;
    size_t at = (size_t)snprintf(out, NAMES_BYTES, n == 0 ? "it declares none" : "it declares");
    for (size_t i = 0; i < n && at < NAMES_BYTES; i++) {
        at += (size_t)snprintf(out + at, NAMES_BYTES - at, "%s \"%s\"", i == 0 ? "" : ",",
                               job->tables[i].name);
    }
    return out;
}

/* The number of the table; SIZE_MAX: there is none. */
static size_t find_table(const struct handle_job *job, const char *name)
{
    for (size_t i = 0; name != NULL && i < job->said.table_count; i++) {
        if (strcmp(job->tables[i].name, name) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static int describe_table(struct gradus_worker *w, const struct gradus_description *d, size_t i,
                          bool *named)
{
    struct handle_job *job = &w->job;
    const struct gradus_table *t = &d->tables[i];
    const size_t of = find_table(job, t->name);
    char name[GRADUS_VARIABLE_NAME_BYTES_MAX + 1], names[NAMES_BYTES];
    if (of == SIZE_MAX) {
        return handle_error(w, GRADUS_ERROR_USE,
                            "table %zu (\"%s\"): the job declares no such table (model.tables); %s",
                            i, shown(t->name, name), declared(job, names));
    }
    if (t->dim != job->tables[of].dim) {
        return handle_error(w, GRADUS_ERROR_USE,
                            "table %zu (\"%s\"): its rows have dim %" PRIu64
                            " in the job (model.tables), %" PRIu64 " in the description",
                            i, t->name, job->tables[of].dim, t->dim);
    }
    if (named[of]) {
        return handle_error(w, GRADUS_ERROR_USE, "two tables are named \"%s\"", t->name);
    }
    named[of] = true;
    job->described[of] = i;
    return GRADUS_OK;
}

int handle_describe_tables(struct gradus_worker *w, const struct gradus_description *d)
{
    const struct handle_job *job = &w->job;
    bool named[PROGRAM_TABLES_MAX] = {false};
    if (d->table_count > 0 && d->tables == NULL) {
        return handle_error(w, GRADUS_ERROR_USE, "tables is NULL, and there are %zu",
                            d->table_count);
    }
    for (size_t i = 0; i < d->table_count; i++) {
        int rc = describe_table(w, d, i, named);
        if (rc != GRADUS_OK) {
            return rc;
        }
    }
    for (size_t i = 0; i < job->said.table_count; i++) {
        if (!named[i]) {
            return handle_error(w, GRADUS_ERROR_USE,
                                "the job declares table \"%s\" (model.tables), which the "
                                "description does not name",
                                job->tables[i].name);
        }
    }
    return GRADUS_OK;
}

int handle_take_fields(struct gradus_worker *w, int fd)
{
    struct handle_job *job = &w->job;
    const size_t n = job->start.field_count, bytes = n * sizeof job->field_names[0];
    free(job->field_names);
    free(job->fields);
    job->field_names = NULL;
    job->fields = NULL;
    if (n == 0 || n > PROGRAM_FIELDS_MAX || fd < 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return n == 0 ? GRADUS_OK
                      : handle_break(w, GRADUS_ERROR_ABI, "%zu sparse fields%s", n,
                                     n > PROGRAM_FIELDS_MAX ? "" : " came without their names");
    }
    struct program_memory memory;
    if (program_memory_map(fd, bytes, false, &memory, &w->err) != 0) {
        return handle_break_as(w, "names of sparse fields");
    }
    job->field_names = malloc(bytes);
    job->fields = calloc(n, sizeof job->fields[0]);
    if (job->field_names != NULL && job->fields != NULL) {
        memcpy(job->field_names, memory.bytes, bytes);
    }
    program_memory_release(&memory);
    if (job->field_names == NULL || job->fields == NULL) {
        return handle_break(w, GRADUS_ERROR_MEMORY, "no memory for %zu sparse fields", n);
    }
    for (size_t i = 0; i < n; i++) {
        job->field_names[i][PROGRAM_NAME_BYTES - 1] = '\0';
        job->fields[i].name = job->field_names[i];
    }
    return GRADUS_OK;
}

/* ---- of a batch ---- */

int handle_show_fields(struct gradus_worker *w, const struct program_work *in,
                       const struct handle_array *batch, struct gradus_work *out)
{
    const struct handle_job *job = &w->job;
    const size_t n = job->start.field_count;
    if (n == 0) {
        return GRADUS_OK;
    }
    const uint64_t *offsets = handle_part(w, batch, in->offsets_at, n * (in->count + 1),
                                          sizeof *offsets, _Alignof(uint64_t), "lists");
    const uint64_t *keys = offsets == NULL
                               ? NULL
                               : handle_part(w, batch, in->keys_at, in->list_keys, sizeof *keys,
                                             _Alignof(uint64_t), "keys of lists");
    const float *weights = NULL;
    if (keys != NULL && job->start.has_weights != 0) {
        weights = handle_part(w, batch, in->weights_at, in->list_keys, sizeof *weights,
                              sizeof *weights, "weights of lists");
    }
    if (keys == NULL || (weights == NULL && job->start.has_weights != 0)) {
        return w->broken;
    }
    for (uint64_t i = 0; i < n * (in->count + 1); i++) {
        if (offsets[i] > in->list_keys || (i > 0 && offsets[i] < offsets[i - 1])) {
            return handle_break(w, GRADUS_ERROR_ABI, "the lists of a batch end before they begin");
        }
    }
    for (size_t f = 0; f < n; f++) {
        job->fields[f].offsets = offsets + f * (in->count + 1);
        job->fields[f].keys = keys;
        job->fields[f].weights = weights;
    }
    out->fields = job->fields;
    out->field_count = n;
    return GRADUS_OK;
}

/* Rows of one table, as @in says. False: w->err. */
static bool show_table(struct gradus_worker *w, const struct handle_array *rows,
                       const struct handle_array *gradients, const struct program_rows *in,
                       uint64_t dim, struct gradus_rows *out)
{
    *out = (struct gradus_rows){
        .dim = dim, .count = (size_t)in->keys, .index_count = (size_t)in->lookups};
    const uint64_t row = dim * sizeof(float);
    out->keys = handle_part(w, rows, in->keys_at, in->keys, sizeof(uint64_t), _Alignof(uint64_t),
                            "keys of rows");
    out->index = out->keys == NULL ? NULL
                                   : handle_part(w, rows, in->index_at, in->lookups,
                                                 sizeof(uint32_t), _Alignof(uint32_t), "index");
    out->values = out->index == NULL
                      ? NULL
                      : handle_part(w, rows, in->values_at, in->keys, row, sizeof(float), "rows");
    if (out->values == NULL || gradients == NULL) {
        return out->values != NULL;
    }
    if (handle_part(w, gradients, in->gradients_at, in->keys, row, sizeof(float),
                    "gradients of rows") == NULL) {
        return false;
    }
    out->gradients = (float *)(void *)((char *)gradients->memory.bytes + in->gradients_at);
    memset(out->gradients, 0, (size_t)(in->keys * row));
    return true;
}

int handle_show_rows(struct gradus_worker *w, const struct program_work *in, bool gradients,
                     struct gradus_work *out)
{
    const struct handle_job *job = &w->job;
    const size_t n = (size_t)job->said.table_count;
    const struct handle_array *to = NULL,
                              *rows = handle_array(w, in->rows, n * sizeof(struct program_rows),
                                                   false, "rows");
    if (rows != NULL && gradients) {
        to = handle_array(w, in->row_gradients, 0, true, "gradients of rows");
    }
    if (rows == NULL || (to == NULL && gradients)) {
        return w->broken;
    }
    for (size_t t = 0; t < n; t++) {
        const struct program_rows said = ((const struct program_rows *)rows->memory.bytes)[t];
        if (!show_table(w, rows, to, &said, job->tables[t].dim, &job->rows[job->described[t]])) {
            return w->broken;
        }
    }
    out->rows = job->rows;
    return GRADUS_OK;
}

/* ---- keys ---- */

static int check_keys(struct gradus_worker *w, const struct gradus_keys *keys, size_t table_count)
{
    const struct handle_job *job = &w->job;
    char name[GRADUS_VARIABLE_NAME_BYTES_MAX + 1];
    if (table_count != job->said.table_count || keys == NULL) {
        return handle_error(w, GRADUS_ERROR_USE,
                            "keys of %zu tables; the description names %" PRIu64,
                            keys == NULL ? 0 : table_count, job->said.table_count);
    }
    for (size_t t = 0; t < table_count; t++) {
        const struct gradus_keys *k = &keys[job->described[t]];
        if (k->count > UINT32_MAX || (k->count > 0 && k->keys == NULL)) {
            return handle_error(w, GRADUS_ERROR_USE, "table \"%s\": %zu keys%s",
                                shown(job->tables[t].name, name), k->count,
                                k->keys == NULL ? ", and keys is NULL" : "; at most 2^32 - 1");
        }
    }
    return GRADUS_OK;
}

/* Memory for so many bytes. */
static int have_room(struct gradus_worker *w, uint64_t bytes, int *fd)
{
    struct program_memory *m = &w->job.keys;
    *fd = -1;
    if (m->bytes != NULL && bytes <= m->size) {
        return GRADUS_OK;
    }
    program_memory_release(m);
    const uint64_t size = bytes < KEYS_BYTES_MIN ? KEYS_BYTES_MIN : bytes + bytes / 2;
    if (program_memory_new((size_t)size, m, &w->err) != 0) {
        *m = (struct program_memory){.fd = -1};
        return handle_error(w, GRADUS_ERROR_MEMORY, "no memory for %" PRIu64 " bytes of keys",
                            size);
    }
    *fd = m->fd;
    return GRADUS_OK;
}

int handle_put_keys(struct gradus_worker *w, const struct gradus_keys *keys, size_t table_count,
                    struct program_keys *out, int *fd)
{
    const struct handle_job *job = &w->job;
    *fd = -1;
    int rc = check_keys(w, keys, table_count);
    if (rc != GRADUS_OK) {
        return rc;
    }
    *out = (struct program_keys){.table_count = (uint32_t)table_count};
    for (size_t t = 0; t < table_count; t++) {
        out->counts[t] = (uint32_t)keys[job->described[t]].count;
    }
    rc = have_room(w, program_key_count(out) * sizeof(uint64_t), fd);
    if (rc != GRADUS_OK) {
        return rc;
    }
    uint64_t *to = job->keys.bytes;
    for (size_t t = 0; t < table_count; t++) {
        const struct gradus_keys *k = &keys[job->described[t]];
        if (k->count > 0) {
            memcpy(to, k->keys, k->count * sizeof *to);
            to += k->count;
        }
    }
    out->memory_bytes = job->keys.size;
    return GRADUS_OK;
}
