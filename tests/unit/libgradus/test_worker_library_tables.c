/* SPDX-License-Identifier: Apache-2.0 */
/* libgradus and sparse tables: what a job declares, keys that are asked for and said, rows of a
 * batch and their gradients, lists of sparse fields; and what either side may do wrong. */
#include "unit/libgradus/far_end.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FAR_ROWS 20
#define FAR_ROW_GRADIENTS 21
#define TABLES 2
#define TEXT "name: mine\n"

/* In the order of the job, and in that of the program. */
static const struct program_table declared[TABLES] = {{"first", 2}, {"second", 3}};
static const struct gradus_table described[TABLES] = {{"second", 3}, {"first", 2}};

struct rig {
    struct far_end f;
    struct program_memory rows, gradients;
};

static void job(struct far_end *f, uint64_t tables)
{
    struct program_memory memory;
    const size_t bytes = TABLES * sizeof declared[0];
    assert_int_equal(program_memory_new(bytes + sizeof TEXT - 1, &memory, NULL), 0);
    memcpy(memory.bytes, declared, bytes);
    memcpy((char *)memory.bytes + bytes, TEXT, sizeof TEXT - 1);
    struct program_message m;
    program_message_init(&m, PROGRAM_JOB, ++f->number);
    m.job = (struct program_job){.text_bytes = sizeof TEXT - 1,
                                 .table_count = tables,
                                 .batch_records = FAR_RECORDS,
                                 .evaluation_records = 2 * FAR_RECORDS};
    (void)snprintf(m.job.id, sizeof m.job.id, "mine-1");
    far_end_send(f, &m, memory.fd);
    program_memory_release(&memory);
}

static struct gradus_description model(void)
{
    struct gradus_description d = far_end_model();
    d.tables = described;
    d.table_count = TABLES;
    return d;
}

/* Sparse fields of the data: so many names come along. */
static void start(struct far_end *f, uint32_t fields, uint32_t names, uint32_t weights)
{
    struct program_memory memory = {.fd = -1};
    struct program_message m;
    program_message_init(&m, PROGRAM_START, ++f->number);
    m.start = (struct program_start){.feature_dims = {1},
                                     .feature_rank = 1,
                                     .has_data = fields > 0,
                                     .field_count = fields,
                                     .has_weights = weights};
    if (names > 0) {
        assert_int_equal(program_memory_new(names * (size_t)PROGRAM_NAME_BYTES, &memory, NULL), 0);
        memset(memory.bytes, 'n', names * (size_t)PROGRAM_NAME_BYTES); /* without an end */
    }
    far_end_send(f, &m, memory.fd);
    program_memory_release(&memory);
}

/* All up to the first batch. */
static void begin(struct rig *r, uint32_t fields, uint32_t weights)
{
    struct far_end *f = &r->f;
    *r = (struct rig){.rows = {.fd = -1}, .gradients = {.fd = -1}};
    far_end_open(f);
    job(f, TABLES);
    (void)far_end_next(f, GRADUS_WORK_JOB);
    struct gradus_description d = model();
    assert_int_equal(gradus_worker_describe(f->worker, &d), GRADUS_OK);
    int fd = -1;
    (void)far_end_heard(f, PROGRAM_DESCRIBE, &fd);
    assert_int_equal(close(fd), 0);
    start(f, fields, fields, weights);
    far_end_array(f, FAR_PARAMETERS, &f->parameters, FAR_FLOATS * sizeof(float));
    far_end_array(f, FAR_GRADIENTS, &f->gradients, FAR_FLOATS * sizeof(float));
    far_end_array(f, FAR_BATCH, &f->batch, 4096);
    far_end_array(f, FAR_ROWS, &r->rows, 2048);
    far_end_array(f, FAR_ROW_GRADIENTS, &r->gradients, 1024);
}

static void end(struct rig *r)
{
    far_end_close(&r->f);
    program_memory_release(&r->rows);
    program_memory_release(&r->gradients);
}

static struct program_work work(void)
{
    return (struct program_work){.parameters = FAR_PARAMETERS,
                                 .gradients = FAR_GRADIENTS,
                                 .batch = FAR_BATCH,
                                 .records_at = 64,
                                 .features_at = 256,
                                 .targets_at = 512,
                                 .offsets_at = 1024,
                                 .keys_at = 2048,
                                 .weights_at = 3072,
                                 .list_keys = 5,
                                 .count = 2,
                                 .seed = 77,
                                 .rows = FAR_ROWS,
                                 .row_gradients = FAR_ROW_GRADIENTS,
                                 .of = PROGRAM_GRADIENT};
}

static void send(struct far_end *f, enum program_kind kind, const struct program_work *w)
{
    struct program_message m;
    program_message_init(&m, kind, ++f->number);
    m.work = *w;
    far_end_send(f, &m, -1);
}

/* START's answer, which the library gives when the program asks for what follows. */
static void heard_start(struct far_end *f)
{
    struct far_end then = {.socket = f->socket, .number = 2};
    (void)far_end_heard(&then, PROGRAM_DONE, NULL);
}

static void refused(struct far_end *f, int rc, const char *why)
{
    assert_int_equal(rc, GRADUS_ERROR_USE);
    if (strstr(gradus_worker_error(f->worker), why) == NULL) {
        fail_msg("\"%s\" is not in: %s", why, gradus_worker_error(f->worker));
    }
}

/* ---- descriptions ---- */

static void test_tables_of_a_job(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    job(&f, TABLES);
    struct gradus_work w = far_end_next(&f, GRADUS_WORK_JOB);
    assert_string_equal(w.job->text, TEXT);
    assert_int_equal(w.job->table_count, TABLES);
    assert_string_equal(w.job->tables[1].name, "second");
    assert_int_equal(w.job->tables[1].dim, 3);

    struct gradus_description d = far_end_model();
    refused(&f, gradus_worker_describe(f.worker, &d),
            "the job declares table \"first\" (model.tables), which the description does not name");
    struct gradus_table tables[TABLES] = {{"first", 2}, {"third\n", 3}};
    d.tables = tables;
    d.table_count = TABLES;
    refused(&f, gradus_worker_describe(f.worker, &d),
            "table 1 (\"third?\"): the job declares no such table (model.tables); it declares "
            "\"first\", \"second\"");
    tables[1].name = NULL;
    refused(&f, gradus_worker_describe(f.worker, &d), "table 1 (\"\"): the job declares no such");
    tables[1] = (struct gradus_table){"second", 4};
    refused(&f, gradus_worker_describe(f.worker, &d),
            "table 1 (\"second\"): its rows have dim 3 in the job (model.tables), 4 in the");
    tables[1] = tables[0];
    refused(&f, gradus_worker_describe(f.worker, &d), "two tables are named \"first\"");
    d.tables = NULL;
    refused(&f, gradus_worker_describe(f.worker, &d), "tables is NULL, and there are 2");

    d = model();
    assert_int_equal(gradus_worker_describe(f.worker, &d), GRADUS_OK);
    int fd = -1;
    struct program_message m = far_end_heard(&f, PROGRAM_DESCRIBE, &fd);
    assert_int_equal(m.description.table_count, TABLES);
    assert_int_equal(m.description.memory_bytes,
                     program_values_at(3, TABLES) + FAR_FLOATS * sizeof(float));
    struct program_memory memory;
    assert_int_equal(program_memory_map(fd, m.description.memory_bytes, false, &memory, NULL), 0);
    const char *at = (const char *)memory.bytes + 3 * sizeof(struct program_variable);
    assert_memory_equal(at, declared, sizeof declared);
    const float *values =
        (const float *)((const char *)memory.bytes + program_values_at(3, TABLES));
    assert_true(values[0] == 1 && values[47] == 8);
    program_memory_release(&memory);
    far_end_close(&f);
}

/* A program that was built before there were tables. */
static void test_an_earlier_description(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job(&f, "mine-1");
    struct gradus_work w = far_end_next(&f, GRADUS_WORK_JOB);
    assert_int_equal(w.job->table_count, 0);
    struct gradus_description d = model();
    refused(&f, gradus_worker_describe(f.worker, &d), "it declares none");
    d.size = offsetof(struct gradus_description, tables); /* what is behind is not read */
    assert_int_equal(gradus_worker_describe(f.worker, &d), GRADUS_OK);
    far_end_close(&f);
}

/* ---- keys ---- */

static void test_keys(void **state)
{
    (void)state;
    struct rig r;
    begin(&r, 0, 0);
    struct far_end *f = &r.f;
    ((uint64_t *)((char *)f->batch.bytes + 64))[1] = 9;
    struct program_work w = work();
    send(f, PROGRAM_KEYS, &w);
    struct gradus_work asked = far_end_next(f, GRADUS_WORK_KEYS);
    heard_start(f);
    assert_int_equal(asked.of, GRADUS_WORK_GRADIENT);
    assert_int_equal(asked.count, 2);
    assert_int_equal(asked.records[1], 9);
    assert_int_equal(asked.seed, 77);
    assert_null(asked.parameters);
    assert_null(asked.gradients);
    assert_null(asked.rows);

    struct gradus_result result = {.size = sizeof result};
    refused(f, gradus_worker_done(f->worker, &result), "gradus_worker_keys() answers that");
    struct gradus_work next;
    refused(f, gradus_worker_next(f->worker, &next), "gradus_worker_keys() or _fail() comes first");
    const uint64_t second[] = {UINT64_MAX, 0, UINT64_MAX}, first[] = {5};
    struct gradus_keys keys[TABLES] = {{second, 3}, {first, 1}};
    refused(f, gradus_worker_keys(f->worker, keys, 1), "keys of 1 tables; the description names 2");
    refused(f, gradus_worker_keys(f->worker, NULL, 2), "keys of 0 tables");
    keys[1].keys = NULL;
    refused(f, gradus_worker_keys(f->worker, keys, 2), "table \"first\": 1 keys, and keys is NULL");
    keys[1] = (struct gradus_keys){first, (size_t)UINT32_MAX + 1};
    refused(f, gradus_worker_keys(f->worker, keys, 2), "4294967296 keys; at most 2^32 - 1");
    keys[1].count = 1;
    assert_int_equal(gradus_worker_keys(f->worker, keys, 2), GRADUS_OK);
    refused(f, gradus_worker_keys(f->worker, keys, 2), "nobody waits for keys");

    int fd = -1;
    struct program_message m = far_end_heard(f, PROGRAM_KEYS, &fd);
    assert_int_equal(m.keys.table_count, 2); /* in the order of the job */
    assert_int_equal(m.keys.counts[0], 1);
    assert_int_equal(m.keys.counts[1], 3);
    assert_int_equal(program_key_count(&m.keys), 4);
    struct program_memory memory;
    assert_int_equal(program_memory_map(fd, m.keys.memory_bytes, false, &memory, NULL), 0);
    const uint64_t *said = memory.bytes;
    assert_true(said[0] == 5 && said[1] == UINT64_MAX && said[2] == 0 && said[3] == UINT64_MAX);

    w.of = PROGRAM_EVALUATION; /* more records fit, and the memory is the same */
    w.count = UINT64_C(2) * FAR_RECORDS;
    send(f, PROGRAM_KEYS, &w);
    assert_int_equal(far_end_next(f, GRADUS_WORK_KEYS).of, GRADUS_WORK_EVALUATION);
    keys[0].count = keys[1].count = 0;
    assert_int_equal(gradus_worker_keys(f->worker, keys, 2), GRADUS_OK);
    m = far_end_heard(f, PROGRAM_KEYS, NULL);
    assert_int_equal(program_key_count(&m.keys), 0);
    program_memory_release(&memory);

    static uint64_t many[10000]; /* larger memory comes */
    keys[0] = (struct gradus_keys){many, 10000};
    send(f, PROGRAM_KEYS, &w);
    (void)far_end_next(f, GRADUS_WORK_KEYS);
    assert_int_equal(gradus_worker_keys(f->worker, keys, 2), GRADUS_OK);
    m = far_end_heard(f, PROGRAM_KEYS, &fd);
    assert_true(fd >= 0 && m.keys.memory_bytes >= sizeof many);
    assert_int_equal(close(fd), 0);
    end(&r);
}

/* ---- rows ---- */

/* 2 rows of the first table, 1 of the second. */
static void put_rows(struct rig *r, struct program_rows rows[TABLES])
{
    char *bytes = r->rows.bytes;
    rows[0] = (struct program_rows){2, 3, 512, 576, 640, 64};
    rows[1] = (struct program_rows){1, 1, 704, 768, 832, 128};
    memcpy(bytes + 512, (uint64_t[]){4, 6}, 16);
    memcpy(bytes + 576, (uint32_t[]){1, 0, 1}, 12);
    memcpy(bytes + 640, (float[]){1, 2, 3, 4}, 16);
    memcpy(bytes + 704, (uint64_t[]){8}, 8);
    memcpy(bytes + 832, (float[]){5, 6, 7}, 12);
    memset(r->gradients.bytes, 0xff, r->gradients.size);
}

static void test_rows(void **state)
{
    (void)state;
    struct rig r;
    begin(&r, 0, 0);
    put_rows(&r, r.rows.bytes);
    const struct program_work w = work();
    send(&r.f, PROGRAM_GRADIENT, &w);
    struct gradus_work got = far_end_next(&r.f, GRADUS_WORK_GRADIENT);
    const struct gradus_rows *second = &got.rows[0], *first = &got.rows[1];
    assert_int_equal(first->dim, 2);
    assert_int_equal(first->count, 2);
    assert_int_equal(first->keys[1], 6);
    assert_int_equal(first->index_count, 3);
    assert_true(first->index[0] == 1 && first->index[1] == 0 && first->index[2] == 1);
    assert_true(first->values[0] == 1 && first->values[3] == 4);
    assert_int_equal(second->dim, 3);
    assert_int_equal(second->keys[0], 8);
    assert_true(second->values[2] == 7);
    for (int i = 0; i < 4; i++) {
        assert_true(first->gradients[i] == 0);
    }
    assert_true(second->gradients[2] == 0);
    first->gradients[3] += 1.5F;
    second->gradients[0] += 2.5F;
    struct gradus_result result = {.size = sizeof result, .examples = 2};
    assert_int_equal(gradus_worker_done(r.f.worker, &result), GRADUS_OK);
    const float *gradients = (const float *)r.gradients.bytes;
    assert_true(gradients[16 + 3] == 1.5F && gradients[32] == 2.5F);

    send(&r.f, PROGRAM_EVALUATION, &w);
    got = far_end_next(&r.f, GRADUS_WORK_EVALUATION);
    assert_null(got.rows[0].gradients);
    assert_true(got.rows[0].values[1] == 6);
    assert_true(gradients[16 + 3] == 1.5F);
    end(&r);
}

static void broken(struct rig *r, const char *why)
{
    struct gradus_work w;
    assert_int_equal(gradus_worker_next(r->f.worker, &w), GRADUS_ERROR_ABI);
    if (strstr(gradus_worker_error(r->f.worker), why) == NULL) {
        fail_msg("\"%s\" is not in: %s", why, gradus_worker_error(r->f.worker));
    }
    assert_int_equal(gradus_worker_next(r->f.worker, &w), GRADUS_ERROR_ABI);
    end(r);
}

static void test_rows_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        size_t place; /* of struct program_rows */
        uint64_t value;
        const char *why;
    } cases[] = {
        {0, 200, "the keys of rows"},
        {0, UINT64_MAX / 4, "the keys of rows"},
        {1, 500, "the index of a batch"},
        {2, 513, "the keys of rows"},
        {3, UINT64_MAX - 3, "the index"},
        {4, 2044, "the rows of a batch (2 of 8 bytes, at 2044)"},
        {5, 1016, "the gradients of rows"},
    };
    struct rig r;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(&r, 0, 0);
        put_rows(&r, r.rows.bytes);
        ((uint64_t *)r.rows.bytes)[cases[i].place] = cases[i].value;
        const struct program_work w = work();
        send(&r.f, PROGRAM_GRADIENT, &w);
        broken(&r, cases[i].why);
    }
    begin(&r, 0, 0);
    struct program_work w = work();
    w.rows = 99;
    send(&r.f, PROGRAM_GRADIENT, &w);
    broken(&r, "array 99 for rows, of 96 bytes: it is not there");
    begin(&r, 0, 0);
    w = work();
    w.row_gradients = 99;
    send(&r.f, PROGRAM_GRADIENT, &w);
    broken(&r, "array 99 for gradients of rows");
    begin(&r, 0, 0);
    w = work();
    w.count = 0;
    send(&r.f, PROGRAM_KEYS, &w);
    broken(&r, "keys of no records");
}

static void test_jobs_that_cannot_be(void **state)
{
    (void)state;
    struct rig r = {.rows = {.fd = -1}, .gradients = {.fd = -1}};
    far_end_open(&r.f);
    job(&r.f, PROGRAM_TABLES_MAX + 1);
    broken(&r, "a job of 257 tables");
    far_end_open(&r.f);
    job(&r.f, TABLES + 1); /* the third has no bytes */
    broken(&r, "for good");
}

/* ---- lists ---- */

static void put_lists(const struct far_end *f)
{
    char *batch = f->batch.bytes;
    memcpy(batch + 1024, (uint64_t[]){0, 2, 3, 3, 3, 5}, 48);
    memcpy(batch + 2048, (uint64_t[]){1, 2, 3, 4, UINT64_MAX}, 40);
    memcpy(batch + 3072, (float[]){1, 2, 3, 4, 5}, 20);
}

static void test_lists(void **state)
{
    (void)state;
    for (uint32_t weights = 0; weights < 2; weights++) {
        struct rig r;
        begin(&r, 2, weights);
        put_lists(&r.f);
        const struct program_work w = work();
        send(&r.f, PROGRAM_KEYS, &w);
        struct gradus_work got = far_end_next(&r.f, GRADUS_WORK_KEYS);
        assert_int_equal(got.field_count, 2);
        assert_int_equal(strlen(got.fields[0].name), PROGRAM_NAME_BYTES - 1);
        const struct gradus_field *field = &got.fields[1];
        assert_true(field->offsets[0] == 3 && field->offsets[1] == 3 && field->offsets[2] == 5);
        assert_true(field->keys[4] == UINT64_MAX);
        assert_int_equal(field->weights != NULL, weights == 1);
        assert_true(weights == 0 || field->weights[3] == 4);
        assert_int_equal(got.fields[0].offsets[1], 2);
        end(&r);
    }
}

static void test_lists_that_cannot_be(void **state)
{
    (void)state;
    struct rig r;
    struct program_work w = work();
    begin(&r, 2, 0);
    put_lists(&r.f);
    w.list_keys = 4; /* the last one ends behind them */
    send(&r.f, PROGRAM_KEYS, &w);
    broken(&r, "the lists of a batch end before they begin");
    begin(&r, 2, 0);
    put_lists(&r.f);
    ((uint64_t *)((char *)r.f.batch.bytes + 1024))[2] = 1;
    w = work();
    send(&r.f, PROGRAM_KEYS, &w);
    broken(&r, "the lists of a batch end before they begin");
    w.offsets_at = 4056;
    begin(&r, 2, 0);
    send(&r.f, PROGRAM_KEYS, &w);
    broken(&r, "the lists of a batch (6 of 8 bytes, at 4056)");
    w = work();
    w.list_keys = 1000;
    begin(&r, 2, 0);
    send(&r.f, PROGRAM_KEYS, &w);
    broken(&r, "the keys of lists");
    w = work();
    w.weights_at = 4090;
    begin(&r, 2, 1);
    send(&r.f, PROGRAM_KEYS, &w);
    broken(&r, "the weights of lists");

    begin(&r, 0, 0);
    start(&r.f, 3, 0, 0);
    broken(&r, "3 sparse fields came without their names");
    begin(&r, 0, 0);
    start(&r.f, 3, 2, 0);
    broken(&r, "for good");
    begin(&r, 0, 0);
    start(&r.f, PROGRAM_FIELDS_MAX + 1, 1, 0);
    broken(&r, "4097 sparse fields");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_of_a_job),
        cmocka_unit_test(test_an_earlier_description),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_that_cannot_be),
        cmocka_unit_test(test_jobs_that_cannot_be),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_lists_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
