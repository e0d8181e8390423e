/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables: asked of both shards at once, waited for, and pushed. */
#include "ps_client_rig.h"

#define KEYS 1000

struct reading {
    struct fake *f;
    uint64_t keys[SHARDS][KEYS];
    float values[SHARDS][KEYS * 3];
    uint32_t counts[SHARDS][ROW_TABLES];
    uint64_t version;
    int rc;
    struct err err;
};

static void run_reading(void *ctx)
{
    struct reading *r = ctx;
    for (uint32_t s = 0; s < SHARDS; s++) {
        const uint64_t count = r->counts[s][0] + r->counts[s][1];
        const struct ps_client_request request = {
            .exchange = 100,
            .shard = s,
            .generation = 1,
            .ask = {.kind = EXCHANGE_ROWS, .rows = {ROWS_OF_VERSION, r->version}},
            .rows = {.counts = r->counts[s],
                     .keys = r->keys[s],
                     .count = count,
                     .values = r->values[s],
                     .floats = r->counts[s][0] * ROW_DIMS[0] + r->counts[s][1] * ROW_DIMS[1]},
        };
        ps_client_rows_begin(r->f->client, &request);
    }
    memset(r->keys, 0xEE, sizeof r->keys); /* they are not needed any more */
    r->rc = ps_client_rows_wait(r->f->client, &r->err);
}

static struct reading *reading_of(struct fake *f)
{
    struct reading *r = mem_new(1, sizeof *r);
    r->f = f;
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

static void check_rows(const struct reading *r, uint32_t s)
{
    const float *at = r->values[s];
    for (uint64_t i = 0; i < r->counts[s][0] + r->counts[s][1]; i++) {
        for (size_t k = 0; k < ROW_DIMS[i < r->counts[s][0] ? 0 : 1]; k++) {
            assert_true(*at++ == (float)(s * 5000 + i * 3 + k));
        }
    }
    assert_true(*at == 0.0F); /* and nothing behind them */
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

static void *cancel_soon(void *client)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    ps_client_cancel(client);
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
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, f.client), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_two_shards),
        cmocka_unit_test(test_rows_that_do_not_come),
        cmocka_unit_test(test_a_wait_that_is_cancelled),
        cmocka_unit_test(test_many_rows_go_in_several_messages),
        cmocka_unit_test(test_a_push_brings_tables_behind_its_gradient),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
