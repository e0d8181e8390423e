/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that come with what is pulled: of its version, behind its values. */
#define ROWS 4
#include "rows_rig.h"

static char job[] = "along-1";

static const size_t DIMS[TABLES] = {2, 3};

/* Rows of ones in the first table and of zeros in the second. */
#define SPEC                                                                                       \
    "[{name: a, dim: 2, init: constant, init_mean: 1, memory_bytes: 1 MiB}, "                      \
    "{name: b, dim: 3, init: zeros, memory_bytes: 1 MiB}]"

/* Rows of so many keys of each table, with a pull of the next version. */
struct along {
    bool no_pull;
    size_t n_counts;
    uint32_t counts[TABLES];
    const uint64_t *keys;
};

/* What tables get, and behind it the keys of the rows that are wanted. */
static void send_tables(struct client *c, uint64_t exchange, const unsigned char *bytes, size_t n,
                        size_t each)
{
    struct err err;
    for (size_t at = 0; at < n; at += each) {
        const struct rpc_piece piece = {bytes + at, n - at < each ? n - at : each};
        const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        Gradus__V1__ExchangeRequest more = GRADUS__V1__EXCHANGE_REQUEST__INIT;
        more.exchange = exchange;
        more.of_tables = true;
        more.offset = at;
        assert_int_equal(rpc_stream_send(c->stream, &more.base, &blob, &err), 0);
    }
}

static struct answer *send_step(struct client *c, char *name, uint64_t exchange,
                                Gradus__V1__Training *training, const unsigned char *bytes,
                                size_t n, size_t each, size_t keys)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(name, 1);
    struct err err;
    char worker[] = "w0";
    forget_answer(c, exchange);
    m.exchange = exchange;
    m.shard = &ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    m.training = training;
    m.total = ps_rig_elements();
    m.tables_bytes = n;
    const struct rpc_piece piece = {gradient, ps_rig_elements() * sizeof(float)};
    const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    assert_int_equal(rpc_stream_send(c->stream, &m.base, &blob, &err), 0);
    send_tables(c, exchange, bytes, n + keys * sizeof(uint64_t), each);
    return wait_answer(c, exchange);
}

static struct answer *rows_step(struct client *c, char *name, uint64_t exchange, uint64_t step,
                                const unsigned char *bytes, size_t n, size_t each,
                                struct along *along)
{
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    unsigned char all[512];
    size_t keys = 0;
    push.step = step;
    push.replica_end = 1;
    push.examples = 2;
    pull.kind = GRADUS__V1__PULL__KIND__VERSION;
    pull.version = step + 1;
    training.push = &push;
    training.pull = along->no_pull ? NULL : &pull;
    training.rows = &rows;
    rows.n_counts = along->n_counts;
    rows.counts = along->counts;
    for (size_t i = 0; i < TABLES; i++) {
        keys += i < along->n_counts ? along->counts[i] : 0;
    }
    assert_true(n + keys * sizeof(uint64_t) <= sizeof all);
    if (n > 0) {
        memcpy(all, bytes, n);
    }
    memcpy(all + n, along->keys, keys * sizeof(uint64_t));
    return send_step(c, name, exchange, &training, all, n, each, keys);
}

/* One key of each table, all floats @value, seen once. */
static size_t encode(const uint64_t keys[TABLES], float value, unsigned char out[256])
{
    size_t at = 0;
    for (size_t i = 0; i < TABLES; i++) {
        const uint32_t once = 1;
        const float values[3] = {value, value, value};
        const struct table_gradient_view g = {
            .dim = DIMS[i], .n = 1, .keys = &keys[i], .sightings = &once, .values = values};
        table_gradient_encode(VALUE_FP32, &g, out + at);
        at += table_gradient_bytes(VALUE_FP32, 1, DIMS[i]);
    }
    return at;
}

/* Keys 5 and 9 of the first table, key 7 of the second. */
static struct along usual(void)
{
    static const uint64_t keys[] = {5, 9, 7};
    return (struct along){.n_counts = TABLES, .counts = {2, 1}, .keys = keys};
}

static void expect_rows(const struct answer *a, uint64_t version, const float want[7])
{
    if (a->code != 0) {
        fail_msg("code %d: %s", a->code, a->message);
    }
    assert_int_equal(a->version, version);
    assert_int_equal(a->received, ps_rig_elements());
    assert_int_equal(a->rows, 7);
    assert_int_equal(a->rows_received, 7);
    assert_memory_equal(a->of_rows, want, 7 * sizeof want[0]);
}

static void expect_refused(const struct answer *a, int code, const char *says)
{
    if (a->code != -code || strstr(a->message, says) == NULL) {
        fail_msg("code %d, expected %d; '%s' does not say '%s'", a->code, -code, a->message, says);
    }
}

/* The keys may come in one message with what the push brings, or cut anywhere. */
static void test_rows_of_the_version_that_is_pulled(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    unsigned char bytes[256];
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, SPEC);
    exchange_open(&c, &rig);
    static const size_t each[] = {512, 8, 1, 100, 33};
    float first = 1, second = 0;
    for (uint64_t step = 0; step < 5; step++) {
        struct along along = usual();
        const size_t n = encode((const uint64_t[]){9, 7}, 2, bytes);
        const struct answer *a = rows_step(&c, job, step + 1, step, bytes, n, each[step], &along);
        first -= 1; /* sgd with a rate of 1, two examples */
        second -= 1;
        const float want[] = {1, 1, first, first, second, second, second};
        expect_rows(a, step + 1, want);
    }
    struct along along = usual(); /* a push without rows, keys alone */
    const float last[] = {1, 1, first, first, second, second, second};
    expect_rows(rows_step(&c, job, 7, 5, NULL, 0, 8, &along), 6, last);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    static char dense[] = "along-2";
    unsigned char bytes[256];
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, SPEC);
    rows_open(&rig, dense, 1, NULL);
    exchange_open(&c, &rig);
    const size_t n = encode((const uint64_t[]){9, 7}, 2, bytes);
    struct along along = usual();
    along.no_pull = true;
    expect_refused(rows_step(&c, job, 1, 0, bytes, n, 64, &along), ERR_INVALID,
                   "rows with a pull, but without one");
    along = usual();
    along.n_counts = 1;
    expect_refused(rows_step(&c, job, 2, 0, bytes, n, 64, &along), ERR_INVALID,
                   "rows of 1 tables; the job has 2");
    along = usual();
    along.keys = (const uint64_t[]){9, 5, 7};
    expect_refused(rows_step(&c, job, 3, 0, bytes, n, 64, &along), ERR_INVALID,
                   "table 0: key 5 comes behind key 9"); /* its push is taken */
    along = usual();
    const float want[] = {1, 1, 0, 0, -1, -1, -1};
    expect_rows(rows_step(&c, job, 4, 0, bytes, n, 64, &along), 1, want);
    exchange_close(&c);
    exchange_open(&c, &rig); /* a stream is of one shard */
    expect_refused(rows_step(&c, dense, 5, 0, NULL, 0, 64, &along), ERR_INVALID,
                   "the job has none");
    exchange_close(&c);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_the_version_that_is_pulled),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
