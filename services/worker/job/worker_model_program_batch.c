/* SPDX-License-Identifier: Apache-2.0 */
/* Batches where a program finds them; sparse tables of its model, and sparse fields of its data:
 * takes the keys that it looks up, brings it the rows, and takes their gradients. Rows are copied
 * on their way: they land where the streams of the servers write, and a program may take its time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "worker/job/worker_model_program_state.h"

#define LINE_BYTES 64

_Static_assert(PROGRAM_TABLES_MAX == MODEL_TABLES_MAX, "a program may use all tables of a job");
_Static_assert(PROGRAM_FIELDS_MAX == SPARSE_FIELDS_MAX, "it sees all sparse fields");

struct model_program *model_program(const struct worker_model *m)
{
    return m->computer;
}

uint64_t model_program_line(uint64_t at)
{
    return (at + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

void model_program_tables(struct worker_model *m)
{
    const struct model_spec *spec = &m->spec.model;
    struct model_program *p = model_program(m);
    if (spec->table_count > 0) {
        p->tables = mem_new(spec->table_count, sizeof *p->tables);
    }
    for (size_t t = 0; t < spec->table_count; t++) {
        text_copy(p->tables[t].name, sizeof p->tables[t].name, spec->tables[t].name);
        p->tables[t].dim = (uint64_t)spec->tables[t].dim;
    }
}

int model_program_fields(struct worker_model *m, struct err *err)
{
    const struct sparse_names *names = &m->train_info.fields;
    struct model_program *p = model_program(m);
    if (m->train == NULL || names->count == 0) {
        return 0;
    }
    p->fields = mem_new(names->count, sizeof *p->fields);
    p->field_count = names->count;
    for (size_t f = 0; f < names->count; f++) {
        if (strlen(names->names[f]) >= PROGRAM_NAME_BYTES) {
            return err_set(err, ERR_INVALID,
                           "data: sparse field %zu, '%.32s…', has a name of more than %d bytes, "
                           "which programs do not get",
                           f, names->names[f], PROGRAM_NAME_BYTES - 1);
        }
        text_copy(p->fields[f], sizeof p->fields[f], names->names[f]);
    }
    return 0;
}

/* ---- lists ---- */

/* The offsets of field @f, [count + 1]. */
static const uint64_t *offsets_of(const struct sparse_batch *lists, size_t f)
{
    return lists->offsets + f * (lists->capacity + 1);
}

/* Keys in all lists of @b. */
static uint64_t list_keys(const struct batch *b)
{
    uint64_t n = 0;
    for (size_t f = 0; f < b->lists.fields; f++) {
        const uint64_t *offsets = offsets_of(&b->lists, f);
        n += offsets[b->count] - offsets[0];
    }
    return n;
}

/* The lists of @b into @memory, as @work says; it says then how many keys there are. */
static void put_lists(const struct batch *b, char *memory, struct program_work *work)
{
    const struct sparse_batch *lists = &b->lists;
    uint64_t *offsets = (uint64_t *)(void *)(memory + work->offsets_at);
    uint64_t *keys = (uint64_t *)(void *)(memory + work->keys_at);
    work->list_keys = list_keys(b);
    work->weights_at = work->keys_at + work->list_keys * sizeof *keys;
    float *weights = (float *)(void *)(memory + work->weights_at);
    uint64_t at = 0;
    for (size_t f = 0; f < lists->fields; f++) {
        const uint64_t *from = offsets_of(lists, f), n = from[b->count] - from[0];
        for (size_t i = 0; i <= b->count; i++) {
            *offsets++ = at + (from[i] - from[0]);
        }
        if (n > 0) {
            memcpy(keys + at, lists->keys + from[0], n * sizeof *keys);
        }
        if (n > 0 && lists->weights != NULL) {
            memcpy(weights + at, lists->weights + from[0], n * sizeof *weights);
        }
        at += n;
    }
}

/* ---- batches ---- */

void model_program_number(struct worker_model *m, const struct ledger_batch *batch,
                          struct program_work *work)
{
    struct model_program *p = model_program(m);
    const uint64_t seed = (uint64_t)m->spec.training.seed;
    if (!p->ordered || p->epoch != batch->epoch) {
        order_init(&p->order, m->train_info.records, seed, batch->epoch);
        p->epoch = batch->epoch;
        p->ordered = true;
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        m->records[i] = order_record(&p->order, batch->first + i);
    }
    work->epoch = batch->epoch;
    work->seed = rng_key_mix(rng_key_mix(rng_key(seed, "program"), batch->epoch), batch->first);
}

int model_program_put(struct worker_model *m, uint64_t count, const struct batch *b,
                      struct program_work *out, struct err *err)
{
    const struct model_program *p = model_program(m);
    const uint64_t keys = b == NULL ? 0 : list_keys(b);
    const uint64_t bytes = p->keys_at + keys * (sizeof(uint64_t) + sizeof(float));
    char *memory = worker_program_array(m->program, MODEL_PROGRAM_BATCH, bytes, err);
    if (memory == NULL) {
        return ERR_EXHAUSTED;
    }
    out->batch = MODEL_PROGRAM_BATCH;
    out->count = count;
    out->features_at = p->features_at;
    out->targets_at = p->targets_at;
    out->classes_at = p->classes_at;
    out->offsets_at = p->offsets_at;
    out->keys_at = p->keys_at;
    memcpy(memory, m->records, count * sizeof *m->records);
    if (b != NULL) {
        memcpy(memory + p->features_at, b->features, count * p->feature_count * sizeof(float));
        memcpy(memory + p->targets_at, b->targets, count * sizeof(float));
        memcpy(memory + p->classes_at, b->classes, count * sizeof(int32_t));
        put_lists(b, memory, out);
    }
    return 0;
}

/* ---- keys ---- */

static int ask(struct worker_model *m, const struct program_work *work, unsigned attempts,
               struct worker_rows *rows, struct err *err)
{
    struct worker_program_keys said;
    int rc = worker_program_keys(m->program, work, attempts, &said, err);
    return rc != 0 ? rc : worker_rows_said(rows, said.keys, said.counts, err);
}

int model_program_keys(struct worker_model *m, const struct ledger_batch *batch,
                       const struct batch *b, struct worker_rows *rows, struct err *err)
{
    static const uint32_t none[PROGRAM_TABLES_MAX];
    struct model_program *p = model_program(m);
    struct program_work work = {.of = PROGRAM_GRADIENT};
    if (batch->count == 0) {
        return worker_rows_said(rows, NULL, none, err);
    }
    model_program_number(m, batch, &work);
    int rc = model_program_put(m, batch->count, b, &work, err);
    if (rc != 0) {
        return rc;
    }
    if (rows == &m->ahead) {
        rc = ask(m, &work, 1, rows, err);
        p->failed_ahead = rc != 0 && rc != ERR_CANCELLED;
        p->failed = *batch;
        return rc;
    }
    const bool again = p->failed_ahead && ledger_batch_equal(&p->failed, batch);
    p->failed_ahead = false;
    return ask(m, &work, again ? WORKER_PROGRAM_ATTEMPTS - 1 : WORKER_PROGRAM_ATTEMPTS, rows, err);
}

int model_program_keys_of_test(struct worker_model *m, size_t count, struct err *err)
{
    struct program_work work = {.of = PROGRAM_EVALUATION};
    int rc = model_program_put(m, count, m->test == NULL ? NULL : &m->test_batch, &work, err);
    return rc != 0 ? rc : ask(m, &work, WORKER_PROGRAM_ATTEMPTS, &m->rows, err);
}

/* ---- rows ---- */

/* Bytes of the rows of table @t. */
static uint64_t bytes_of(const struct worker_model *m, size_t t)
{
    return worker_rows_keys_of(&m->rows, t)->count * model_program(m)->tables[t].dim *
           sizeof(float);
}

/* Lays out the rows of all tables, into @out if it is not NULL. Returns the end of that memory, and
 * in @gradients the end of that of their gradients. */
static uint64_t lay_out(const struct worker_model *m, struct program_rows *out, uint64_t *gradients)
{
    uint64_t at = model_program_line(m->rows.count * sizeof *out);
    *gradients = 0;
    for (size_t t = 0; t < m->rows.count; t++) {
        const struct table_keys *k = worker_rows_keys_of(&m->rows, t);
        struct program_rows rows = {.keys = k->count, .lookups = k->n, .keys_at = at};
        rows.index_at = model_program_line(at + k->count * sizeof *k->unique);
        rows.values_at = model_program_line(rows.index_at + k->n * sizeof *k->index);
        rows.gradients_at = *gradients;
        at = model_program_line(rows.values_at + bytes_of(m, t));
        *gradients = model_program_line(*gradients + bytes_of(m, t));
        if (out != NULL) {
            out[t] = rows;
        }
    }
    return at;
}

static void copy(char *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

int model_program_put_rows(struct worker_model *m, bool gradients, struct program_work *work,
                           struct err *err)
{
    if (m->rows.count == 0) {
        return 0;
    }
    uint64_t gradient_bytes;
    const uint64_t bytes = lay_out(m, NULL, &gradient_bytes);
    char *memory = worker_program_array(m->program, MODEL_PROGRAM_ROWS, bytes, err);
    if (memory == NULL ||
        (gradients && worker_program_array(m->program, MODEL_PROGRAM_ROW_GRADIENTS,
                                           gradient_bytes + 1, err) == NULL)) {
        return ERR_EXHAUSTED;
    }
    struct program_rows *rows = (struct program_rows *)(void *)memory;
    (void)lay_out(m, rows, &gradient_bytes);
    for (size_t t = 0; t < m->rows.count; t++) {
        const struct table_keys *k = worker_rows_keys_of(&m->rows, t);
        copy(memory + rows[t].keys_at, k->unique, k->count * sizeof *k->unique);
        copy(memory + rows[t].index_at, k->index, k->n * sizeof *k->index);
        copy(memory + rows[t].values_at, m->rows.run[t].values, (size_t)bytes_of(m, t));
    }
    work->rows = MODEL_PROGRAM_ROWS;
    work->row_gradients = MODEL_PROGRAM_ROW_GRADIENTS;
    return 0;
}

void model_program_take_rows(struct worker_model *m)
{
    struct err unused;
    uint64_t at = 0;
    const char *memory =
        m->rows.count == 0
            ? NULL
            : worker_program_array(m->program, MODEL_PROGRAM_ROW_GRADIENTS, 0, &unused);
    for (size_t t = 0; t < m->rows.count; t++) {
        copy((char *)m->rows.run[t].gradient, memory + at, (size_t)bytes_of(m, t));
        at = model_program_line(at + bytes_of(m, t));
    }
}
