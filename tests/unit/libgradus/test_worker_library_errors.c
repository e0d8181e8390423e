/* SPDX-License-Identifier: Apache-2.0 */
/* libgradus with wrong descriptions, and with a worker that dies or sends what nobody understands.
 */
#include "unit/libgradus/far_end.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- descriptions ---- */

static void refused(struct far_end *f, const struct gradus_description *d, const char *why)
{
    assert_int_equal(gradus_worker_describe(f->worker, d), GRADUS_ERROR_USE);
    if (strstr(gradus_worker_error(f->worker), why) == NULL) {
        fail_msg("\"%s\" in place of \"%s\"", gradus_worker_error(f->worker), why);
    }
}

static void test_wrong_variables(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job(&f, "mine-1");
    (void)far_end_next(&f, GRADUS_WORK_JOB);
    static const uint64_t good[] = {2}, zero[] = {2, 0}, huge[] = {1U << 21, 1U << 21, 1U << 31},
                          large[] = {UINT64_C(1) << 40};
    static const float values[2] = {1, 2}, nan_[2] = {1, NAN}, infinite[2] = {1, -INFINITY};
    static char long_name[129];
    memset(long_name, 'n', 128);
    const struct {
        struct gradus_variable v;
        const char *why;
    } cases[] = {
        {{NULL, good, 1, 0, values}, "variable 1 (\"\"): it has no name"},
        {{"", good, 1, 0, values}, "it has no name"},
        {{long_name, good, 1, 0, values}, "its name is longer than 127 bytes"},
        {{"a b", good, 1, 0, values}, "variable 1 (\"a b\"): a name is of printing ASCII"},
        {{"a\n", good, 1, 0, values}, "variable 1 (\"a?\")"},
        {{"first", good, 1, 0, values}, "two variables are named \"first\""},
        {{"v", good, 5, 0, values}, "variable 1 (\"v\"): it has more than 4 dimensions"},
        {{"v", NULL, 1, 0, values}, "dims is NULL"},
        {{"v", zero, 2, 0, values}, "a dimension is 0"},
        {{"v", huge, 3, 0, values}, "it has more than 2^40 elements"},
        {{"v", large, 1, 0, values}, "with it the variables have more than 2^40 elements"},
        {{"v", good, 1, 2, values}, "neither GRADUS_TRAINED nor GRADUS_STATISTIC"},
        {{"v", good, 1, 0, NULL}, "initial is NULL"},
        {{"v", good, 1, 0, nan_}, "variable 1 (\"v\"): initial value 1 is not a number"},
        {{"v", good, 1, 1, infinite}, "initial value 1 is infinite"},
    };
    struct gradus_variable variables[2] = {{"first", good, 1, 0, values}};
    struct gradus_description d = {.size = sizeof d, .variables = variables, .variable_count = 2};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        variables[1] = cases[i].v;
        refused(&f, &d, cases[i].why);
    }
    variables[1] = (struct gradus_variable){"second", good, 1, GRADUS_STATISTIC, values};
    variables[0].kind = GRADUS_STATISTIC;
    refused(&f, &d, "no variable is trained");
    variables[0].kind = GRADUS_TRAINED; /* nothing was answered: it may try again */
    assert_int_equal(gradus_worker_describe(f.worker, &d), GRADUS_OK);
    far_end_close(&f);
}

static void test_wrong_descriptions(void **state)
{
    (void)state;
    struct far_end f;
    far_end_open(&f);
    far_end_job(&f, "mine-1");
    (void)far_end_next(&f, GRADUS_WORK_JOB);
    refused(&f, NULL, "there is no description");
    struct gradus_description d = far_end_model();
    d.size = offsetof(struct gradus_description, tables) - 1; /* shorter than there ever was one */
    refused(&f, &d, "sizeof(struct gradus_description)");
    struct {
        struct gradus_description d;
        uint64_t more;
    } newer = {.d = far_end_model(), .more = 1};
    newer.d.size = sizeof newer;
    refused(&f, &newer.d, "has fields that this libgradus does not know");
    d = far_end_model();
    d.variable_count = 0;
    refused(&f, &d, "a model has 1 to 4096 variables; there are 0");
    d.variable_count = 4097;
    refused(&f, &d, "there are 4097");
    d.variables = NULL;
    d.variable_count = 3;
    refused(&f, &d, "there are 0");
    d = far_end_model();
    d.train_records = 0;
    refused(&f, &d, "there are 10 test records and no train records");
    newer.more = 0; /* a field that is zero changes nothing */
    assert_int_equal(gradus_worker_describe(f.worker, &newer.d), GRADUS_OK);
    far_end_close(&f);
}

/* ---- workers that die ---- */

static void test_a_worker_dies_in_a_job(void **state)
{
    (void)state;
    struct far_end f;
    struct gradus_work work;
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_hang_up(&f); /* what it had sent comes first, but to what it asked there is no answer */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gradus_worker_next(f.worker, &work), GRADUS_ERROR_LOST);
        assert_int_equal(work.kind, GRADUS_WORK_STOP);
        assert_int_not_equal(strlen(gradus_worker_error(f.worker)), 0);
    }
    far_end_close(&f);
}

static void test_a_worker_dies_before_the_answer(void **state)
{
    (void)state;
    struct far_end f;
    struct gradus_result result = {.size = sizeof result};
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_work(&f, PROGRAM_GRADIENT, 1);
    (void)far_end_next(&f, GRADUS_WORK_GRADIENT);
    far_end_hang_up(&f);
    assert_int_equal(gradus_worker_done(f.worker, &result), GRADUS_ERROR_LOST);
    assert_non_null(strstr(gradus_worker_error(f.worker), "answer the worker"));
    assert_int_equal(gradus_worker_fail(f.worker, "x"), GRADUS_ERROR_LOST);
    far_end_close(&f);

    far_end_open(&f);
    far_end_job(&f, "mine-1");
    (void)far_end_next(&f, GRADUS_WORK_JOB);
    far_end_hang_up(&f);
    struct gradus_description d = far_end_model();
    assert_int_equal(gradus_worker_describe(f.worker, &d), GRADUS_ERROR_LOST);
    far_end_close(&f);
}

/* ---- messages that nobody understands ---- */

static void broken(struct far_end *f, const char *why)
{
    struct gradus_work work;
    assert_int_equal(gradus_worker_next(f->worker, &work), GRADUS_ERROR_ABI);
    if (strstr(gradus_worker_error(f->worker), why) == NULL) {
        fail_msg("\"%s\" in place of \"%s\"", gradus_worker_error(f->worker), why);
    }
    assert_int_equal(gradus_worker_next(f->worker, &work), GRADUS_ERROR_ABI);
    far_end_close(f);
}

static void test_messages_of_others(void **state)
{
    (void)state;
    struct far_end f;
    struct program_message m;
    for (int i = 0; i < 4; i++) {
        far_end_open(&f);
        program_message_init(&m, PROGRAM_JOB, 1);
        size_t n = sizeof m;
        if (i == 0) {
            m.version = PROGRAM_VERSION + 1;
        } else if (i == 1) {
            m.magic ^= 1;
        } else if (i == 2) {
            m.kind = PROGRAM_KEYS + 1;
        } else {
            n = 10;
        }
        assert_int_equal(send(f.socket, &m, n, 0), n);
        broken(&f, "no message of version 1 of this interface");
    }
    far_end_open(&f);
    program_message_init(&m, PROGRAM_DONE, 1);
    far_end_send(&f, &m, -1);
    broken(&f, "the worker sent message 8, which is what programs send");
}

static void test_messages_between_jobs(void **state)
{
    (void)state;
    struct far_end f;
    struct program_message m;
    far_end_open(&f);
    far_end_array(&f, 0, &f.parameters, 64);
    broken(&f, "of a job, between jobs");
    far_end_open(&f);
    far_end_start(&f, false, false);
    broken(&f, "a job starts that was not described");
    far_end_open(&f);
    far_end_work(&f, PROGRAM_GRADIENT, 1);
    broken(&f, "before the start of its job");
    far_end_open(&f);
    program_message_init(&m, PROGRAM_JOB, 1);
    m.job.text_bytes = 9;
    far_end_send(&f, &m, -1);
    broken(&f, "a job came without its file");
}

/* A job that has begun, and then one message with memory of @bytes. */
static void test_arrays_that_cannot_be(void **state)
{
    (void)state;
    struct far_end f;
    struct program_message m;
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    program_message_init(&m, PROGRAM_ARRAY, 0);
    far_end_send(&f, &m, -1);
    broken(&f, "array 0 without its memory");
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    far_end_array(&f, PROGRAM_ARRAYS_MAX, &f.parameters, 64);
    broken(&f, "of an interface that knows fewer");
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    m.array.bytes = 64;
    int fd = memfd_create("unsealed", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 64), 0);
    far_end_send(&f, &m, fd);
    (void)close(fd);
    broken(&f, "the memory that came is not 64 bytes for good");
    far_end_open(&f);
    far_end_job_begins(&f, false, false);
    m.array.bytes = 8192;
    far_end_send(&f, &m, f.batch.fd); /* it has 4096 */
    broken(&f, "the memory that came is not 8192 bytes for good");
}

static void test_batches_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        struct program_work work;
        const char *why;
    } cases[] = {
        {{.parameters = 9}, "array 9 for parameters, of 192 bytes: it is not there"},
        {{.parameters = 5000}, "array 5000 for parameters"},
        {{.parameters = 8}, "array 8 for parameters, of 192 bytes: it is shorter"},
        {{.gradients = 9}, "array 9 for gradients"},
        {{.batch = 9}, "array 9 for a batch"},
        {{.count = 5}, "the worker sent 5 records at once; it had said at most 4"},
        {{.records_at = 4072}, "the records of a batch (4 of 8 bytes, at 4072)"},
        {{.records_at = 68}, "the records of a batch"},
        {{.records_at = UINT64_MAX - 7}, "the records of a batch"},
        {{.features_at = 4004}, "the features of a batch (4 of 24 bytes, at 4004)"},
        {{.targets_at = 4084}, "the targets of a batch"},
        {{.classes_at = 2}, "the classes of a batch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct far_end f;
        struct program_memory small = {.fd = -1};
        struct program_message m;
        far_end_open(&f);
        far_end_job_begins(&f, true, true);
        far_end_array(&f, 8, &small, 128);
        program_message_init(&m, PROGRAM_GRADIENT, ++f.number);
        const struct program_work *c = &cases[i].work;
        m.work = (struct program_work){
            .parameters = c->parameters != 0 ? c->parameters : FAR_PARAMETERS,
            .gradients = c->gradients != 0 ? c->gradients : FAR_GRADIENTS,
            .batch = c->batch != 0 ? c->batch : FAR_BATCH,
            .records_at = c->records_at,
            .features_at = c->features_at,
            .targets_at = c->targets_at,
            .classes_at = c->classes_at,
            .count = c->count != 0 ? c->count : FAR_RECORDS,
        };
        far_end_send(&f, &m, -1);
        broken(&f, cases[i].why);
        program_memory_release(&small);
    }
}

static void test_starts_that_cannot_be(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct far_end f;
        struct program_message m;
        far_end_open(&f);
        far_end_job_begins(&f, false, false);
        program_message_init(&m, PROGRAM_START, ++f.number);
        m.start.feature_rank = i == 0 ? 5 : 4;
        for (size_t d = 0; d < PROGRAM_RANK_MAX; d++) {
            m.start.feature_dims[d] = 1 << 17;
        }
        far_end_send(&f, &m, -1);
        broken(&f, i == 0 ? "more than 4 dimensions" : "more than 2^32 features");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_variables),
        cmocka_unit_test(test_wrong_descriptions),
        cmocka_unit_test(test_a_worker_dies_in_a_job),
        cmocka_unit_test(test_a_worker_dies_before_the_answer),
        cmocka_unit_test(test_messages_of_others),
        cmocka_unit_test(test_messages_between_jobs),
        cmocka_unit_test(test_arrays_that_cannot_be),
        cmocka_unit_test(test_batches_that_cannot_be),
        cmocka_unit_test(test_starts_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
