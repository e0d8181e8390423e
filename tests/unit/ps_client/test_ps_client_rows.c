/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables: asked of both shards at once, waited for, and pushed. */
#include "ps_client_rig.h"

#include "os/file.h"
#include "ps_client/ps_client_state.h"
#include "support/tmp_dir.h"
#include "support/wait_until.h"

#define KEYS 1000

struct reading {
    struct fake *f;
    uint64_t keys[SHARDS][KEYS];
    float values[SHARDS][KEYS * 3];
    uint32_t counts[SHARDS][ROW_TABLES];
    enum rows_of of;
    uint64_t version;
    bool refuses_first; /* before the second shard is asked */
    int rc;
    struct err err;
};

/* The answer of the first shard has come, and the others do as they should. */
static void see_refusal(struct fake *f)
{
    wait_until_locked(f->client->rows_open == 0, &f->client->rows_mutex);
    client_set_script(f, SCRIPT_RIGHT);
}

static void run_reading(void *ctx)
{
    struct reading *r = ctx;
    for (uint32_t s = 0; s < SHARDS; s++) {
        const uint64_t count = r->counts[s][0] + r->counts[s][1];
        const struct ps_client_request request = {
            .exchange = 100,
            .shard = s,
            .generation = 1,
            .ask = {.kind = EXCHANGE_ROWS, .rows = {r->of, r->version}, .pin_id = "p"},
            .rows = {.counts = r->counts[s],
                     .keys = r->keys[s],
                     .count = count,
                     .values = r->values[s],
                     .floats = r->counts[s][0] * ROW_DIMS[0] + r->counts[s][1] * ROW_DIMS[1]},
        };
        ps_client_rows_begin(r->f->client, &request);
        if (r->refuses_first && s == 0) {
            see_refusal(r->f);
        }
    }
    memset(r->keys, 0xEE, sizeof r->keys); /* they are not needed any more */
    r->rc = ps_client_rows_wait(r->f->client, &r->err);
}

static struct reading *reading_of(struct fake *f)
{
    struct reading *r = mem_new(1, sizeof *r);
    r->f = f;
    r->of = ROWS_OF_VERSION;
    r->version = 7;
    for (uint32_t s = 0; s < SHARDS; s++) {
        r->counts[s][0] = 10 + s;
        r->counts[s][1] = 20;
        for (uint64_t i = 0; i < KEYS; i++) {
            r->keys[s][i] = s * 5000 + i * 3;
        }
    }
    return r;
}

static void check_rows_as(enum value_type type, const struct reading *r, uint32_t s)
{
    const float *at = r->values[s];
    for (uint64_t i = 0; i < r->counts[s][0] + r->counts[s][1]; i++) {
        for (size_t k = 0; k < ROW_DIMS[i < r->counts[s][0] ? 0 : 1]; k++) {
            float want = (float)(s * 5000 + i * 3 + k);
            values_round(type, &want, 1);
            assert_true(*at++ == want);
        }
    }
    assert_true(*at == 0.0F); /* and nothing behind them */
}

static void check_rows(const struct reading *r, uint32_t s)
{
    check_rows_as(VALUE_FP32, r, s);
}

/* On the job's thread. What the test read of the last exchange it read before the server writes to
 * it again. */
static void on_the_loop(struct fake *f, void (*run)(void *ctx), void *ctx)
{
    pthread_mutex_lock(&f->lock);
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(loop_call(f->loop, run, ctx, NULL), 0);
}

static void test_rows_of_two_shards(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    for (uint64_t version = 7; version < 10; version++) {
        struct reading *r = reading_of(&f);
        r->version = version;
        on_the_loop(&f, run_reading, r);
        assert_int_equal(r->rc, 0);
        check_rows(r, 0);
        check_rows(r, 1);
        free(r);
    }
    assert_int_equal(f.rows_version, 9);
    client_finish(&f);
}

static void expect_failure(enum script script, int32_t refused, int code, const char *says)
{
    struct fake f;
    client_start(&f, 0);
    client_set_script(&f, script);
    f.code = refused;
    struct reading *r = reading_of(&f);
    on_the_loop(&f, run_reading, r);
    assert_int_equal(r->rc, code);
    assert_non_null(strstr(r->err.msg, says));
    client_set_script(&f, SCRIPT_RIGHT); /* the next time all is well */
    struct reading *again = reading_of(&f);
    on_the_loop(&f, run_reading, again);
    if (again->rc != 0) { /* the stream of the other shard broke meanwhile */
        free(again);
        again = reading_of(&f);
        on_the_loop(&f, run_reading, again);
    }
    assert_int_equal(again->rc, 0);
    check_rows(again, 0);
    check_rows(again, 1);
    free(again);
    free(r);
    client_finish(&f);
}

static void test_rows_that_do_not_come(void **state)
{
    (void)state;
    expect_failure(SCRIPT_REFUSE, -ERR_RANGE, ERR_RANGE, "told to refuse");
    expect_failure(SCRIPT_REFUSE, -ERR_ABORTED, ERR_ABORTED, "told to refuse");
    expect_failure(SCRIPT_BREAK, 0, ERR_UNAVAILABLE, "told to break");
    expect_failure(SCRIPT_OLD, 0, ERR_INTERNAL, "answered rows of version 6, asked for 7");
    expect_failure(SCRIPT_TOTAL, 0, ERR_INTERNAL, "answered elements");
    expect_failure(SCRIPT_RAGGED, 0, ERR_INTERNAL, "answered elements");
    expect_failure(SCRIPT_TOO_MANY, 0, ERR_INTERNAL, "shard");
}

/* A refusal counts although it comes before the other shards were asked. */
static void test_a_refusal_that_comes_at_once(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    client_set_script(&f, SCRIPT_REFUSE);
    f.code = -ERR_ABORTED;
    struct reading *r = reading_of(&f);
    r->refuses_first = true;
    on_the_loop(&f, run_reading, r);
    assert_int_equal(r->rc, ERR_ABORTED);
    r->refuses_first = false;
    on_the_loop(&f, run_reading, r); /* and is forgotten when it was told */
    assert_int_equal(r->rc, 0);
    free(r);
    client_finish(&f);
}

/* When the server has heard of all shards' streams. */
static void *cancel_soon(void *ctx)
{
    struct fake *f = ctx;
    wait_until_locked(f->streams == SHARDS, &f->lock);
    ps_client_cancel(f->client);
    return NULL;
}

static void test_a_wait_that_is_cancelled(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    client_set_script(&f, SCRIPT_UNREAD);
    struct reading *r = reading_of(&f);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &f), 0);
    on_the_loop(&f, run_reading, r);
    assert_int_equal(r->rc, ERR_UNAVAILABLE);
    pthread_join(thread, NULL);
    free(r);
    client_finish(&f);
}

struct large {
    struct fake *f;
    uint64_t *keys;
    float *values;
    uint32_t counts[ROW_TABLES];
    int rc;
};

static void run_large(void *ctx)
{
    struct large *l = ctx;
    struct err err;
    const struct ps_client_request request = {
        .exchange = 5,
        .generation = 1,
        .ask = {.kind = EXCHANGE_ROWS, .rows = {ROWS_OF_VERSION, 3}},
        .rows = {.counts = l->counts,
                 .keys = l->keys,
                 .count = l->counts[0],
                 .values = l->values,
                 .floats = l->counts[0] * ROW_DIMS[0]},
    };
    ps_client_rows_begin(l->f->client, &request);
    l->rc = ps_client_rows_wait(l->f->client, &err);
}

/* More than a message holds, on the way there and back. */
static void test_many_rows_go_in_several_messages(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    client_start(f, 0);
    struct large l = {.f = f, .counts = {ROW_KEYS_MAX, 0}};
    l.keys = mem_new(ROW_KEYS_MAX, sizeof *l.keys);
    l.values = mem_new(ROW_KEYS_MAX * ROW_DIMS[0], sizeof *l.values);
    for (uint64_t i = 0; i < ROW_KEYS_MAX; i++) {
        l.keys[i] = i * 2;
    }
    on_the_loop(f, run_large, &l);
    assert_int_equal(l.rc, 0);
    for (uint64_t i = 0; i < ROW_KEYS_MAX; i++) {
        assert_true(l.values[2 * i] == (float)(i * 2) && l.values[2 * i + 1] == (float)(i * 2 + 1));
    }
    free(l.keys);
    free(l.values);
    client_finish(f);
    free(f);
}

struct tables_push {
    struct fake *f;
    struct ps_client_request request;
};

static void run_push(void *ctx)
{
    struct tables_push *p = ctx;
    p->request.gradient = p->f->gradient;
    ps_client_exchange(p->f->client, &p->request);
}

static void test_a_push_brings_tables_behind_its_gradient(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    client_start(f, 0);
    static unsigned char tables[700001];
    for (size_t i = 0; i < sizeof tables; i++) {
        tables[i] = (unsigned char)(i * 7 >> 3);
    }
    for (uint64_t number = 1; number < 4; number++) {
        struct tables_push push = {f,
                                   {.exchange = number,
                                    .generation = 1,
                                    .ask = {.kind = EXCHANGE_TRAIN,
                                            .has_push = true,
                                            .push = {.examples = 1, .replica_end = 1}},
                                    .tables = tables,
                                    .tables_bytes = sizeof tables - number}};
        on_the_loop(f, run_push, &push);
        assert_int_equal(client_next_answer(f, number).code, 0);
        assert_int_equal(f->tables_bytes, sizeof tables - number);
        assert_memory_equal(f->tables, tables, sizeof tables - number);
        assert_int_equal(f->pushed[0], f->plan.shard_elements[0]);
    }
    client_finish(f);
    free(f);
}

/* ---- rows that come with what is pulled ---- */

/* A step of shard 1: what it pushes of tables is in front of the keys. */
static struct ps_answer step_with_rows(struct fake *f, struct reading *r, uint64_t number)
{
    static const unsigned char tables[5000] = {1, 2, 3};
    struct tables_push push = {
        f,
        {.exchange = number,
         .shard = 1,
         .generation = 1,
         .ask = {.kind = EXCHANGE_TRAIN,
                 .has_push = true,
                 .has_pull = true,
                 .push = {.examples = 1, .replica_end = 1}},
         .values = f->values,
         .tables = tables,
         .tables_bytes = sizeof tables,
         .rows = {.counts = r->counts[1],
                  .keys = r->keys[1],
                  .count = r->counts[1][0] + r->counts[1][1],
                  .values = r->values[1],
                  .floats = r->counts[1][0] * ROW_DIMS[0] + r->counts[1][1] * ROW_DIMS[1]}}};
    on_the_loop(f, run_push, &push);
    return client_next_answer(f, number);
}

static void test_rows_come_with_what_is_pulled(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    client_start(f, 0);
    for (uint64_t number = 1; number < 4; number++) {
        struct reading *r = reading_of(f);
        const struct ps_answer a = step_with_rows(f, r, number);
        assert_int_equal(a.code, 0);
        assert_true(a.rows && !a.partial);
        assert_int_equal(a.version, VERSION + 1);
        check_rows(r, 1);
        pthread_mutex_lock(&f->lock);
        assert_true(f->tables[0] == 1 && f->tables[2] == 3 && f->tables[4999] == 0);
        assert_int_equal(f->tables_bytes, 5000 + (f->counts[0] + f->counts[1]) * sizeof(uint64_t));
        pthread_mutex_unlock(&f->lock);
        free(r);
    }
    f->no_rows = true; /* there was no memory for them */
    struct reading *r = reading_of(f);
    const struct ps_answer a = step_with_rows(f, r, 9);
    assert_true(a.code == 0 && !a.rows);
    assert_true(r->values[1][0] == 0);
    free(r);
    client_finish(f);
    free(f);
}

static void test_rows_along_that_cannot_be_right(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    client_start(f, 0);
    client_set_script(f, SCRIPT_OTHER_ROWS);
    struct reading *r = reading_of(f);
    const struct ps_answer a = step_with_rows(f, r, 1);
    assert_int_equal(a.code, ERR_INTERNAL);
    assert_non_null(strstr(a.message, "shard 1 answered rows 0+"));
    free(r);
    client_finish(f);
    free(f);
}

static void expect_type(struct fake *f, Gradus__V1__WireType type)
{
    pthread_mutex_lock(&f->lock);
    assert_int_equal(f->rows_type, type);
    pthread_mutex_unlock(&f->lock);
}

/* They travel as parameters do, and those of a pin are exact. */
static void test_rows_in_16_bits(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    client_parameters = VALUE_BF16;
    client_start(f, 0);
    struct reading *r = reading_of(f);
    on_the_loop(f, run_reading, r);
    assert_int_equal(r->rc, 0);
    expect_type(f, GRADUS__V1__WIRE_TYPE__BF16);
    check_rows_as(VALUE_BF16, r, 0);
    check_rows_as(VALUE_BF16, r, 1);
    free(r);
    r = reading_of(f);
    r->of = ROWS_OF_PIN;
    r->version = 0;
    on_the_loop(f, run_reading, r);
    assert_int_equal(r->rc, 0);
    expect_type(f, GRADUS__V1__WIRE_TYPE__FP32);
    check_rows(r, 1);
    free(r);
    r = reading_of(f);
    assert_int_equal(step_with_rows(f, r, 1).code, 0);
    check_rows_as(VALUE_BF16, r, 1);
    free(r);
    client_set_script(f, SCRIPT_OTHER_TYPE);
    r = reading_of(f);
    const struct ps_answer a = step_with_rows(f, r, 2);
    assert_int_equal(a.code, ERR_INTERNAL);
    free(r);
    client_finish(f);
    free(f);
    client_parameters = VALUE_FP32;
}

/* ---- in memory that the server shares ---- */

static void read_well(struct fake *f)
{
    struct reading *r = reading_of(f);
    on_the_loop(f, run_reading, r);
    assert_int_equal(r->rc, 0);
    check_rows(r, 0);
    check_rows(r, 1);
    free(r);
}

static void step_well(struct fake *f, uint64_t number)
{
    struct reading *r = reading_of(f);
    const struct ps_answer a = step_with_rows(f, r, number);
    if (a.code != 0) {
        fail_msg("%s", a.message);
    }
    assert_true(a.rows);
    check_rows(r, 1);
    pthread_mutex_lock(&f->lock);
    assert_true(f->tables[0] == 1 && f->tables[2] == 3 && f->tables[4999] == 0);
    assert_int_equal(f->tables_bytes, 5000 + (f->counts[0] + f->counts[1]) * sizeof(uint64_t));
    pthread_mutex_unlock(&f->lock);
    free(r);
}

static void expect_blocks(struct fake *f, unsigned tables, unsigned rows)
{
    pthread_mutex_lock(&f->lock);
    assert_int_equal(f->tables_blocks, tables);
    assert_int_equal(f->rows_blocks, rows);
    pthread_mutex_unlock(&f->lock);
}

/* More often than there are blocks: with each answer they are free again. */
static void test_rows_pass_in_memory(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    char *root = tmp_dir_make("local");
    char path[LOCAL_SOCKET_BYTES];
    char *dir = file_join(root, "sockets");
    client_start_with(f, 0, dir, path);
    step_well(f, 1); /* the offer goes with it */
    expect_blocks(f, 0, 0);
    for (uint64_t number = 2; number < 12; number++) {
        step_well(f, number);
    }
    expect_blocks(f, 10, 10);
    client_exchange(f, 12, 0, false, true); /* the offer of the other shard */
    assert_int_equal(client_next_answer(f, 12).code, 0);
    for (unsigned i = 0; i < 10; i++) {
        read_well(f);
    }
    expect_blocks(f, 10, 10 + 10 * SHARDS);
    client_set_script(f, SCRIPT_ROWS_BLOCK); /* one float too many */
    struct reading *r = reading_of(f);
    struct ps_answer a = step_with_rows(f, r, 20);
    assert_int_equal(a.code, ERR_INTERNAL);
    assert_non_null(strstr(a.message, "shard 1 answered rows 0+83 of 82"));
    on_the_loop(f, run_reading, r);
    assert_int_equal(r->rc, ERR_INTERNAL);
    assert_non_null(strstr(r->err.msg, "answered elements 0+8"));
    free(r);
    client_set_script(f, SCRIPT_RIGHT);
    step_well(f, 21);
    client_finish(f);
    free(f);
    tmp_dir_remove(root);
    free(dir);
}

static void test_a_block_for_rows_that_was_not_named(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    client_start(f, 0);
    client_set_script(f, SCRIPT_ROWS_BLOCK);
    struct reading *r = reading_of(f);
    const struct ps_answer a = step_with_rows(f, r, 1);
    assert_int_equal(a.code, ERR_INTERNAL);
    assert_non_null(strstr(a.message, "shard 1 answered in a block it was not given"));
    on_the_loop(f, run_reading, r);
    assert_int_equal(r->rc, ERR_INTERNAL);
    assert_non_null(strstr(r->err.msg, "answered in a block it was not given"));
    free(r);
    client_finish(f);
    free(f);
}

/* A server that opens none, and a stream that begins anew. */
static void test_rows_without_memory(void **state)
{
    (void)state;
    struct fake *f = mem_new(1, sizeof *f);
    char *root = tmp_dir_make("local");
    char path[LOCAL_SOCKET_BYTES];
    char *dir = file_join(root, "sockets");
    client_start_with(f, 0, dir, path);
    client_set_script(f, SCRIPT_NO_SHARED_MEMORY);
    for (uint64_t number = 1; number < 4; number++) {
        step_well(f, number);
    }
    expect_blocks(f, 0, 0);
    client_set_script(f, SCRIPT_BREAK);
    struct reading *r = reading_of(f);
    assert_int_equal(step_with_rows(f, r, 4).code, ERR_UNAVAILABLE);
    free(r);
    client_set_script(f, SCRIPT_RIGHT);
    step_well(f, 5);
    expect_blocks(f, 0, 0);
    step_well(f, 6);
    expect_blocks(f, 1, 1);
    client_finish(f);
    free(f);
    tmp_dir_remove(root);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_two_shards),
        cmocka_unit_test(test_rows_that_do_not_come),
        cmocka_unit_test(test_a_refusal_that_comes_at_once),
        cmocka_unit_test(test_a_wait_that_is_cancelled),
        cmocka_unit_test(test_rows_in_16_bits),
        cmocka_unit_test(test_rows_pass_in_memory),
        cmocka_unit_test(test_a_block_for_rows_that_was_not_named),
        cmocka_unit_test(test_rows_without_memory),
        cmocka_unit_test(test_many_rows_go_in_several_messages),
        cmocka_unit_test(test_rows_come_with_what_is_pulled),
        cmocka_unit_test(test_rows_along_that_cannot_be_right),
        cmocka_unit_test(test_a_push_brings_tables_behind_its_gradient),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
