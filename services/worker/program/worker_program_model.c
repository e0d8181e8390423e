/* SPDX-License-Identifier: Apache-2.0 */
/* A program's description of its model: checked, and compared when a new process of the program
 * describes it again. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "worker/program/worker_program_state.h"

#define FLOATS_MAX (UINT64_C(1) << 40) /* floats of all variables: 4 TiB, as in a plan */
#define STATISTIC_RATE                                                                             \
    1.0 /* an update makes it the mean of what came: the program has mixed it                      \
         */

static void described_release(struct program_described *d)
{
    free(d->variables);
    free(d->model.offsets);
    program_memory_release(&d->memory);
    *d = (struct program_described){.memory.fd = -1};
}

void worker_program_forget(struct worker_program *p)
{
    if (p->has_model) {
        described_release(&p->told);
        p->has_model = false;
    }
}

static bool name_fits(const char *name)
{
    const size_t n = strnlen(name, PROGRAM_NAME_BYTES);
    bool fits = n > 0 && n < PROGRAM_NAME_BYTES;
    for (size_t i = 0; i < n && fits; i++) {
        fits = (unsigned char)name[i] > ' ' && name[i] != 127;
    }
    return fits;
}

static int check_variable(const struct program_variable *v, size_t i, struct err *err)
{
    char shown[64];
    if (!name_fits(v->name)) {
        return err_set(err, ERR_STATE, "variable %zu has no name of 1 to %d bytes without blanks",
                       i, PROGRAM_NAME_BYTES - 1);
    }
    (void)text_shown(v->name, shown, sizeof shown);
    if (v->rank > PROGRAM_RANK_MAX || v->kind > 1) {
        return err_set(err, ERR_STATE, "variable %s: %" PRIu32 " dimensions of kind %" PRIu32,
                       shown, v->rank, v->kind);
    }
    uint64_t n = 1;
    for (uint32_t d = 0; d < v->rank; d++) {
        if (v->dims[d] == 0 || v->dims[d] > FLOATS_MAX / n) {
            return err_set(err, ERR_STATE, "variable %s: dimension %" PRIu32 " is %" PRIu64, shown,
                           d, v->dims[d]);
        }
        n *= v->dims[d];
    }
    return 0;
}

static int check_names(const struct variable_spec *v, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(v[i].name, v[k].name) == 0) {
                return err_set(err, ERR_STATE, "two variables have the name %s", v[i].name);
            }
        }
    }
    return 0;
}

static int check_finite(const struct worker_program_model *m, struct err *err)
{
    for (size_t i = 0; i < m->given.count; i++) {
        const uint64_t n = shape_count(&m->given.variables[i].shape);
        for (uint64_t k = 0; k < n; k++) {
            if (!isfinite(m->initial[m->offsets[i] + k])) {
                return err_set(err, ERR_STATE,
                               "variable %s: initial value %" PRIu64 " is not finite",
                               m->given.variables[i].name, k);
            }
        }
    }
    return 0;
}

static void take_variable(const struct program_variable *in, struct variable_spec *out)
{
    memcpy(out->name, in->name, sizeof out->name);
    out->shape.rank = in->rank;
    for (uint32_t d = 0; d < in->rank; d++) {
        out->shape.dims[d] = in->dims[d];
    }
    out->init.kind = INIT_GIVEN;
    out->statistic = in->kind == 1 ? STATISTIC_RATE : 0;
}

_Static_assert(sizeof((struct variable_spec *)0)->name == PROGRAM_NAME_BYTES, "names fit");

/* The model out of the memory, which is mapped, of a description that says @d. */
static int take_model(struct program_described *said, const struct program_description *d,
                      size_t tables, struct err *err)
{
    const struct program_variable *in = said->memory.bytes;
    const size_t count = (size_t)d->variable_count;
    struct worker_program_model *m = &said->model;
    said->variables = mem_new(count, sizeof *said->variables);
    m->offsets = mem_new(count, sizeof *m->offsets);
    uint64_t floats = 0;
    for (size_t i = 0; i < count; i++) {
        int rc = check_variable(&in[i], i, err);
        if (rc != 0) {
            return rc;
        }
        take_variable(&in[i], &said->variables[i]);
        floats += program_elements(&in[i]);
        if (floats > FLOATS_MAX) {
            return err_set(err, ERR_STATE, "all variables together are too large");
        }
    }
    m->floats = program_layout(in, count, m->offsets);
    const uint64_t values_at = program_values_at(count, tables);
    if (d->memory_bytes < values_at || (d->memory_bytes - values_at) / sizeof(float) < m->floats) {
        return err_set(err, ERR_STATE, "it brought fewer initial values than variables have");
    }
    m->initial = (const float *)(const void *)((const char *)in + values_at);
    for (size_t i = 0; i < count; i++) {
        said->variables[i].digest =
            checksum_of(m->initial + m->offsets[i],
                        (size_t)shape_count(&said->variables[i].shape) * sizeof *m->initial);
    }
    m->train_records = d->train_records;
    m->test_records = d->test_records;
    m->fingerprint = d->fingerprint;
    const uint64_t content = checksum_of(in, (size_t)(values_at + m->floats * sizeof(float)));
    m->given = (struct given_variables){said->variables, count, content == 0 ? 1 : content};
    int rc = check_names(said->variables, count, err);
    return rc != 0 ? rc : check_finite(m, err);
}

/* The tables that @d names, behind the variables in its @memory, are those of the job. */
static int check_tables(const struct worker_program *p, const struct program_memory *memory,
                        const struct program_description *d, struct err *err)
{
    if (d->table_count != p->job.table_count) {
        return err_set(err, ERR_STATE,
                       "it described %" PRIu64 " tables, and the job declares %zu (model.tables)",
                       d->table_count, p->job.table_count);
    }
    const struct program_table *in =
        (const struct program_table *)(const void *)((const struct program_variable *)
                                                         memory->bytes +
                                                     d->variable_count);
    for (size_t i = 0; i < p->job.table_count; i++) {
        const struct program_table *ours = &p->job.tables[i];
        if (strncmp(in[i].name, ours->name, sizeof ours->name) != 0 || in[i].dim != ours->dim) {
            return err_set(err, ERR_STATE,
                           "table %zu is '%s' of dim %" PRIu64
                           " in the job (model.tables), and not what it described",
                           i, ours->name, ours->dim);
        }
    }
    return 0;
}

/* The first value of variable @i that is another one now, into @out; false: none is. */
static bool differing_value(const struct worker_program_model *was,
                            const struct worker_program_model *now, size_t i, char *out, size_t n)
{
    const float *a = was->initial + was->offsets[i], *b = now->initial + now->offsets[i];
    const uint64_t count = shape_count(&was->given.variables[i].shape);
    uint64_t k = 0;
    while (k < count && memcmp(&a[k], &b[k], sizeof *a) == 0) {
        k++;
    }
    (void)snprintf(out, n, "variable %s: initial value %" PRIu64 " is %.9g, and was %.9g",
                   now->given.variables[i].name, k, k < count ? (double)b[k] : 0,
                   k < count ? (double)a[k] : 0);
    return k < count;
}

/* What is another than it was, into @out; false: nothing is. */
static bool difference(const struct worker_program_model *was,
                       const struct worker_program_model *now, char *out, size_t n)
{
    for (size_t i = 0; i < was->given.count && i < now->given.count; i++) {
        const struct variable_spec *a = &was->given.variables[i], *b = &now->given.variables[i];
        if (!variable_equal(a, b)) {
            char of_a[VARIABLE_TEXT_BYTES], of_b[VARIABLE_TEXT_BYTES];
            (void)snprintf(out, n, "variable %zu is %s, and was %s", i,
                           variable_format(b, of_b, sizeof of_b),
                           variable_format(a, of_a, sizeof of_a));
            return true;
        }
        if (differing_value(was, now, i, out, n)) {
            return true;
        }
    }
    (void)snprintf(out, n,
                   "%zu variables, %" PRIu64 " train and %" PRIu64
                   " test records of fingerprint %016" PRIx64 ", and before %zu, %" PRIu64
                   " and %" PRIu64 " of %016" PRIx64,
                   now->given.count, now->train_records, now->test_records, now->fingerprint,
                   was->given.count, was->train_records, was->test_records, was->fingerprint);
    return now->given.count != was->given.count || now->train_records != was->train_records ||
           now->test_records != was->test_records || now->fingerprint != was->fingerprint;
}

/* What @p described is kept when it is the first time: others have addresses of it. Takes @said. */
static int keep(struct worker_program *p, struct program_described *said, struct err *err)
{
    char what[400];
    if (!p->has_model) {
        p->told = *said;
        p->has_model = true;
        return 0;
    }
    const bool differs = difference(&p->told.model, &said->model, what, sizeof what);
    described_release(said);
    return differs
               ? err_set(err, ERR_STATE,
                         "started again, it describes another model or other initial values: %s. "
                         "They must be a function of the job and its seed alone",
                         what)
               : 0;
}

/* @fd is taken. */
static int take_description(struct worker_program *p, const struct program_message *m, int fd,
                            struct err *err)
{
    const struct program_description *d = &m->description;
    struct program_described said = {.memory.fd = -1};
    if (fd < 0 || d->variable_count == 0 || d->variable_count > PROGRAM_VARIABLES_MAX ||
        d->table_count > PROGRAM_TABLES_MAX ||
        d->memory_bytes < program_values_at((size_t)d->variable_count, (size_t)d->table_count) ||
        d->memory_bytes > SIZE_MAX / 2) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return err_set(err, ERR_STATE, "it described %" PRIu64 " variables in %" PRIu64 " bytes",
                       d->variable_count, d->memory_bytes);
    }
    int rc = program_memory_map(fd, (size_t)d->memory_bytes, false, &said.memory, err);
    rc = rc != 0 ? err_set(err, ERR_STATE, "%s", err->msg) : check_tables(p, &said.memory, d, err);
    rc = rc != 0 ? rc : take_model(&said, d, p->job.table_count, err);
    if (rc != 0) {
        described_release(&said);
        return rc;
    }
    return keep(p, &said, err);
}

static int tell_job(struct worker_program *p, struct err *err)
{
    struct program_message question, answer;
    struct program_memory text = {.fd = -1};
    const size_t n = strlen(p->job.text), tables = p->job.table_count * sizeof *p->job.tables;
    int rc = program_memory_new(tables + n + 1, &text, err);
    if (rc != 0) {
        return rc;
    }
    if (tables > 0) {
        memcpy(text.bytes, p->job.tables, tables);
    }
    memcpy((char *)text.bytes + tables, p->job.text, n);
    program_message_init(&question, PROGRAM_JOB, 0);
    text_copy(question.job.id, sizeof question.job.id, p->job.id);
    text_copy(question.job.program, sizeof question.job.program, p->job.program);
    question.job.text_bytes = n;
    question.job.table_count = p->job.table_count;
    question.job.seed = p->job.seed;
    question.job.batch_records = p->job.batch_records;
    question.job.evaluation_records = p->job.evaluation_records;
    int fd = -1;
    rc = worker_program_ask(p, &question, text.fd, PROGRAM_DESCRIBE, &answer, &fd, err);
    program_memory_release(&text);
    rc = rc != 0 ? rc : take_description(p, &answer, fd, err);
    p->described = rc == 0;
    return rc;
}

static int tell_start(struct worker_program *p, struct err *err)
{
    struct program_message question, answer;
    struct program_memory names = {.fd = -1};
    int fd = -1, rc = 0;
    program_message_init(&question, PROGRAM_START, 0);
    question.start = p->start;
    if (p->start.field_count > 0) {
        const size_t bytes = p->start.field_count * sizeof *p->fields;
        rc = program_memory_new(bytes, &names, err);
        if (rc != 0) {
            return rc;
        }
        memcpy(names.bytes, p->fields, bytes);
    }
    rc = worker_program_ask(p, &question, names.fd, PROGRAM_DONE, &answer, &fd, err);
    program_memory_release(&names);
    if (fd >= 0) {
        (void)close(fd);
    }
    p->begun = rc == 0;
    return rc;
}

int worker_program_prepare(struct worker_program *p, struct err *err)
{
    int rc = worker_program_ready(p, err);
    rc = rc != 0 || p->described ? rc : tell_job(p, err);
    return rc != 0 || p->begun || !p->start_known ? rc : tell_start(p, err);
}
