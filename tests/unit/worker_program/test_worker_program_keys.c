/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's program and sparse tables, as tests/support/rogue_program.c: keys that it says, and
 * what is said of tables and keys that cannot be. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "worker/program/worker_program.h"

static const struct program_table tables[] = {{"first", 2}, {"second", 3}};

static struct worker_program *start(const char *mode)
{
    struct err err = {0};
    struct worker_program *p = NULL;
    char *command = mem_printf("%s/../tests/rogue_program %s", getenv("GRADUS_BIN_DIR"), mode);
    assert_int_equal(worker_program_new(command, 20000, &p, &err), 0);
    free(command);
    return p;
}

static int describe(struct worker_program *p, struct err *err)
{
    static const struct worker_program_job job = {.id = "j-1",
                                                  .program = "rogue",
                                                  .text = "name: j",
                                                  .batch_records = 4,
                                                  .evaluation_records = 4,
                                                  .tables = tables,
                                                  .table_count = 2};
    const struct worker_program_model *model;
    return worker_program_describe(p, &job, &model, err);
}

static int ask(struct worker_program *p, unsigned attempts, struct worker_program_keys *out,
               struct err *err)
{
    static const char fields[1][PROGRAM_NAME_BYTES] = {"f"};
    const struct program_start begin = {.has_data = 1, .field_count = 1};
    const struct program_work work = {
        .batch = 9, .count = 4, .epoch = 2, .step = 11, .of = PROGRAM_GRADIENT};
    assert_int_equal(describe(p, err), 0);
    assert_int_equal(worker_program_begin(p, &begin, fields, err), 0);
    assert_non_null(worker_program_array(p, 9, 64, err));
    return worker_program_keys(p, &work, attempts, out, err);
}

static void test_keys(void **state)
{
    (void)state;
    struct err err = {0};
    struct worker_program_keys keys;
    struct worker_program *p = start("good");
    assert_int_equal(ask(p, 1, &keys, &err), 0);
    assert_int_equal(keys.counts[0], 3);
    assert_int_equal(keys.counts[1], 0);
    assert_true(keys.keys[0] == 7 && keys.keys[1] == 5 && keys.keys[2] == 7);
    const struct program_work work = {.batch = 9, .count = 1};
    assert_int_equal(worker_program_keys(p, &work, 1, &keys, &err), 0); /* in the same memory */
    assert_int_equal(keys.counts[1], 1);
    assert_int_equal(keys.keys[3], 9);
    worker_program_free(p);
}

/* Memory that has to grow becomes other memory, of which the program is told. */
static void test_arrays_grow(void **state)
{
    (void)state;
    struct err err = {0};
    struct worker_program_keys keys;
    struct worker_program *p = start("good");
    assert_int_equal(ask(p, 1, &keys, &err), 0);
    char *small = worker_program_array(p, 9, 64, &err);
    small[63] = 1;
    assert_ptr_equal(worker_program_array(p, 9, 10, &err), small);
    char *large = worker_program_array(p, 9, 100000, &err);
    assert_non_null(large);
    assert_int_equal(large[63], 0);
    large[99999] = 1;
    const struct program_work work = {.batch = 9, .count = 1};
    assert_int_equal(worker_program_keys(p, &work, 1, &keys, &err), 0);
    worker_program_free(p);
}

static void test_wrong_keys(void **state)
{
    (void)state;
    static const struct {
        const char *mode, *why;
    } cases[] = {
        {"count", "it said 3 keys of 3 tables, in 4096 bytes; the job has 2 tables"},
        {"more", "it said 513 keys of 2 tables, in 4096 bytes"},
        {"small", "its keys: the memory that came is not 4097 bytes for good"},
        {"none", "it said 3 keys of 2 tables, in 0 bytes"},
        {"done", "it answered something else"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = {0};
        struct worker_program_keys keys;
        struct worker_program *p = start(cases[i].mode);
        assert_int_equal(ask(p, 2, &keys, &err), ERR_STATE);
        if (strstr(err.msg, cases[i].why) == NULL) {
            fail_msg("\"%s\" is not in: %s", cases[i].why, err.msg);
        }
        assert_non_null(strstr(err.msg, "on one batch, at its keys (epoch 2, step 11)"));
        worker_program_free(p);
    }
}

static void test_wrong_tables(void **state)
{
    (void)state;
    static const struct {
        const char *mode, *why;
    } cases[] = {
        {"tables", "table 1 is 'second' of dim 3 in the job (model.tables), and not what it"},
        {"no-tables", "it described 0 tables, and the job declares 2 (model.tables)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = {0};
        struct worker_program *p = start(cases[i].mode);
        assert_int_equal(describe(p, &err), ERR_STATE);
        if (strstr(err.msg, cases[i].why) == NULL) {
            fail_msg("\"%s\" is not in: %s", cases[i].why, err.msg);
        }
        worker_program_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_arrays_grow),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_wrong_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
