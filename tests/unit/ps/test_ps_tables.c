/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables over real gRPC: read of a version, pushed with gradients, summed, pinned, refused.
 */
#define ROWS 4
#include "rows_rig.h"

#include "support/wait_until.h"
#include "table/table_bucket.h"

static char job[] = "t-1";
static const size_t DIMS[TABLES] = {2, 3};

static const char SPEC[] =
    "[{name: ads, dim: 2, init: constant, init_mean: 1, memory_bytes: 1 MiB},"
    " {name: users, dim: 3, init: zeros, admission: counted, sightings: 3,"
    " admission_bytes: 300 KiB, memory_bytes: 1 MiB}]";

/* ---- messages ---- */

struct read {
    uint64_t exchange;
    int of; /* -1 the newest, -2 a pin, else a version */
    char *pin_id;
    uint32_t counts[TABLES];
    size_t n_counts;
    const uint64_t *keys;
    uint64_t total;
    size_t cut; /* keys of the first message; 0: all */
};

static void send_keys(struct client *c, Gradus__V1__ExchangeRequest *m, const uint64_t *keys,
                      size_t n)
{
    struct err err;
    struct rpc_piece piece = {keys, n * sizeof *keys};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    assert_int_equal(rpc_stream_send(c->stream, &m->base, n > 0 ? &blob : NULL, &err), 0);
}

static struct answer *read_rows(struct client *c, char *name, struct read r)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(name, 1);
    forget_answer(c, r.exchange);
    m.exchange = r.exchange;
    m.shard = &ref;
    char worker[] = "w0";
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS;
    m.rows = &rows;
    rows.n_counts = r.n_counts;
    rows.counts = r.counts;
    if (r.of == -2) {
        rows.of_case = GRADUS__V1__ROWS_REQUEST__OF_PIN_ID;
        rows.pin_id = r.pin_id;
    } else if (r.of >= 0) {
        rows.of_case = GRADUS__V1__ROWS_REQUEST__OF_VERSION;
        rows.version = (uint64_t)r.of;
    }
    m.total = r.total;
    const size_t first = r.cut > 0 ? r.cut : r.total;
    send_keys(c, &m, r.keys, first);
    if (first < r.total) {
        Gradus__V1__ExchangeRequest rest = GRADUS__V1__EXCHANGE_REQUEST__INIT;
        rest.exchange = r.exchange;
        rest.offset = first;
        send_keys(c, &rest, r.keys + first, r.total - first);
    }
    return wait_answer(c, r.exchange);
}

/* Keys 5 and 9 of the first table, key 7 of the second. */
static struct read usual(uint64_t exchange, int of)
{
    static const uint64_t keys[] = {5, 9, 7};
    return (struct read){.exchange = exchange,
                         .of = of,
                         .counts = {2, 1},
                         .n_counts = TABLES,
                         .keys = keys,
                         .total = 3};
}

static void expect_rows(const struct answer *a, uint64_t version, const float want[7])
{
    if (a->code != 0) {
        fail_msg("code %d: %s", a->code, a->message);
    }
    assert_int_equal(a->version, version);
    assert_int_equal(a->received, 7);
    for (size_t i = 0; i < 7; i++) {
        if (a->values[i] != want[i]) {
            fail_msg("float %zu is %g, expected %g", i, (double)a->values[i], (double)want[i]);
        }
    }
}

static void expect_refused(const struct answer *a, int code, const char *says)
{
    if (a->code != -code || strstr(a->message, says) == NULL) {
        fail_msg("code %d, expected %d; '%s' does not say '%s'", a->code, -code, a->message, says);
    }
}

/* What one key of each table has: all floats @value, seen once. */
struct brought {
    uint64_t keys[TABLES];
    float value;
};

static size_t encode(const struct brought *b, unsigned char out[256])
{
    size_t at = 0;
    for (size_t i = 0; i < TABLES; i++) {
        const uint32_t once = 1;
        const float values[3] = {b->value, b->value, b->value};
        const struct table_gradient_view g = {
            .dim = DIMS[i], .n = 1, .keys = &b->keys[i], .sightings = &once, .values = values};
        table_gradient_encode(VALUE_FP32, &g, out + at);
        at += table_gradient_bytes(VALUE_FP32, 1, DIMS[i]);
    }
    return at;
}

static void push_well(struct client *c, uint64_t exchange, uint64_t step, uint32_t replica,
                      const struct brought *b)
{
    unsigned char bytes[256];
    const size_t n = encode(b, bytes);
    const struct answer *a = rows_push(c, job, exchange, step, replica, bytes, n, 33);
    if (a->code != 0) {
        fail_msg("code %d: %s", a->code, a->message);
    }
}

/* ---- tests ---- */

static void test_rows_of_versions(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    static const float first[] = {1, 1, 1, 1, 0, 0, 0};
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 2, SPEC);
    exchange_open(&c, &rig);
    expect_rows(read_rows(&c, job, usual(1, -1)), 0, first);
    expect_refused(read_rows(&c, job, usual(1, 1)), ERR_RANGE, "rows of version 1");
    /* Two replicas of two examples each; both have key 7, so it has been seen twice. */
    push_well(&c, 2, 0, 1, &(struct brought){{5, 7}, 4});
    push_well(&c, 3, 0, 0, &(struct brought){{9, 7}, 8});
    static const float second[] = {0, 0, -1, -1, 0, 0, 0};
    struct read cut = usual(4, 1);
    cut.cut = 1;
    expect_rows(read_rows(&c, job, cut), 1, second);
    expect_rows(read_rows(&c, job, usual(4, 0)), 0, first);
    char id[] = "p";
    rows_pin(&rig, job, "Pin", id);
    push_well(&c, 5, 1, 0, &(struct brought){{5, 7}, 2});
    push_well(&c, 6, 1, 1, &(struct brought){{5, 7}, 2});
    static const float third[] = {-1, -1, -1, -1, -1, -1, -1}; /* admitted, with this gradient */
    expect_rows(read_rows(&c, job, usual(7, -1)), 2, third);
    push_well(&c, 8, 2, 0, &(struct brought){{5, 7}, 4});
    push_well(&c, 9, 2, 1, &(struct brought){{5, 7}, 0});
    struct read pinned = usual(10, -2);
    pinned.pin_id = id;
    expect_rows(read_rows(&c, job, pinned), 1, second);
    expect_refused(read_rows(&c, job, usual(11, 1)), ERR_RANGE, "rows of version 1");
    rows_pin(&rig, job, "Unpin", id);
    expect_refused(read_rows(&c, job, pinned), ERR_NOT_FOUND, "no version is pinned");
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* A push without rows changes the dense part alone, and all versions still go together. */
static void test_a_step_without_rows(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    static const float first[] = {1, 1, 1, 1, 0, 0, 0};
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, SPEC);
    exchange_open(&c, &rig);
    for (uint64_t step = 0; step < 3; step++) {
        assert_int_equal(rows_push(&c, job, 1, step, 0, NULL, 0, 1)->code, 0);
        expect_rows(read_rows(&c, job, usual(2, (int)step + 1)), step + 1, first);
    }
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* Of ridge a step has what the train records of the ledger leave, and a row owes it for all steps
 * since its last one. */
static void test_ridge_by_the_records_of_the_job(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err;
    struct ledger ledger;
    struct ps_rig_opening o = {.job = job,
                               .rule =
                                   "sgd, learning_rate: 1, variables: [{match: ads, ridge: 25}]",
                               .tables = SPEC,
                               .generation = 1,
                               .consistency = ps_rig_consistency("sync", 1)};
    ps_rig_ledger(&o, &ledger);
    assert_int_equal(ledger.shape.records, 50);
    ledger_release(&ledger);
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    exchange_open(&c, &rig);
    const float expected[3][7] = {{0.5F, 0.5F, 1, 1}, {0.5F, 0.5F, 0.5F, 0.5F}, {0, 0, 0.5F, 0.5F}};
    for (uint64_t step = 0; step < 3; step++) {
        push_well(&c, 1, step, 0, &(struct brought){{step == 1 ? 9 : 5, 7}, 0});
        expect_rows(read_rows(&c, job, usual(2, (int)step + 1)), step + 1, expected[step]);
    }
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static void test_requests_that_are_wrong(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    static char dense[] = "d-1";
    ps_rig_start(&rig, 1 << 30);
    rows_open(&rig, job, 1, SPEC);
    rows_open(&rig, dense, 1, NULL);
    exchange_open(&c, &rig);
    struct read r = usual(1, -1);
    r.n_counts = 1;
    expect_refused(read_rows(&c, job, r), ERR_INVALID, "rows of 1 tables; the job has 2");
    r = usual(2, -1);
    r.counts[0] = 3;
    expect_refused(read_rows(&c, job, r), ERR_INVALID, "3 keys, but 4 of all tables");
    static const uint64_t falling[] = {9, 5, 7};
    r = usual(3, -1);
    r.keys = falling;
    expect_refused(read_rows(&c, job, r), ERR_INVALID, "table 0: key 5 comes behind key 9");
    r = usual(4, -1);
    r.counts[0] = UINT32_MAX;
    r.counts[1] = UINT32_MAX;
    r.total = 0;
    expect_refused(read_rows(&c, job, r), ERR_INVALID, "0 keys, but 8589934590");
    unsigned char bytes[256];
    const struct brought b = {{5, 7}, 1};
    size_t n = encode(&b, bytes);
    bytes[0] = 200; /* rows of the first table */
    expect_refused(rows_push(&c, job, 5, 0, 0, bytes, n, 50), ERR_INVALID, "table 0");
    n = encode(&b, bytes);
    expect_refused(rows_push(&c, job, 6, 0, 0, bytes, n - 4, 50), ERR_INVALID, "table 1");
    expect_refused(rows_push(&c, job, 7, 0, 0, bytes, n + 4, 50), ERR_INVALID,
                   "4 bytes behind the rows of 2 tables");
    expect_refused(rows_announce(&c, job, 9, UINT64_MAX), ERR_EXHAUSTED, "rows of tables");
    expect_refused(rows_announce(&c, job, 10, UINT64_C(1) << 40), ERR_EXHAUSTED, "rows of tables");
    push_well(&c, 8, 0, 0, &b); /* after all that */
    exchange_close(&c);
    exchange_open(&c, &rig);
    expect_refused(read_rows(&c, dense, usual(1, -1)), ERR_INVALID, "the job has none");
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static void test_a_key_of_another_shard(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err;
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd",
                               .tables = SPEC,
                               .generation = 1,
                               .shards = 2,
                               .consistency = ps_rig_consistency("sync", 1)};
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    exchange_open(&c, &rig);
    uint64_t mine = 0, other = 0;
    while (table_shard_of(mine, 2) != 0) {
        mine++;
    }
    while (table_shard_of(other, 2) != 1) {
        other++;
    }
    struct read r = {.exchange = 1, .of = -1, .counts = {1, 0}, .n_counts = TABLES, .total = 1};
    r.keys = &mine;
    assert_int_equal(read_rows(&c, job, r)->code, 0);
    r.keys = &other;
    r.exchange = 2;
    expect_refused(read_rows(&c, job, r), ERR_INVALID, "is of shard 1");
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* What is too much for the server is refused at the opening, with what it is. */
static void test_memory_is_reserved(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd",
                               .tables = "[{name: ads, dim: 2, memory_bytes: 1 GiB}]",
                               .generation = 1,
                               .consistency = ps_rig_consistency("sync", 1)};
    ps_rig_start(&rig, 64 << 20);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_EXHAUSTED, &err, "table 'ads'");
    o.tables = "[{name: ads, dim: 2, memory_bytes: 1 MiB, copies_bytes: 1 MiB}]";
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

static const Gradus__V1__ShardStats *stats_of(struct ps_rig *rig, char *hottest,
                                              struct rpc_msg **reply)
{
    Gradus__V1__StatsRequest q = GRADUS__V1__STATS_REQUEST__INIT;
    struct err err;
    q.job = job;
    q.hottest = hottest;
    ps_rig_expect(ps_rig_call(rig, "Stats", &q.base, NULL, 0, reply, &err), 0, &err, "");
    const Gradus__V1__StatsResponse *r = (const Gradus__V1__StatsResponse *)(*reply)->body;
    assert_int_equal(r->n_shards, 1);
    return r->shards[0];
}

static double meter_of(struct ps_rig *rig, const char *line)
{
    struct buf page = {0};
    meter_expose(rig->meters, &page);
    const char *at = strstr(buf_str(&page), line);
    assert_non_null(at);
    const double value = strtod(at + strlen(line), NULL);
    buf_release(&page);
    return value;
}

#define EVENTS "\ngradus_ps_table_row_events_total"

/* What Stats and the page of meters say of two tables, of which the second wants three sightings.
 */
static void test_what_tables_hold(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct rpc_msg *reply;
    char none[] = "", ads[] = "ads";
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, SPEC);
    exchange_open(&c, &rig);
    push_well(&c, 1, 0, 0, &(struct brought){{5, 7}, 4});
    push_well(&c, 2, 1, 0, &(struct brought){{9, 7}, 4});
    push_well(&c, 3, 2, 0, &(struct brought){{9, 7}, 4});
    (void)read_rows(&c, job, usual(4, -1));
    const Gradus__V1__ShardStats *s = stats_of(&rig, none, &reply);
    assert_int_equal(s->n_tables, 2);
    const Gradus__V1__TableStats *first = s->tables[0], *second = s->tables[1];
    assert_string_equal(first->name, "ads");
    assert_string_equal(second->name, "users");
    assert_int_equal(first->dim, 2);
    assert_int_equal(first->rows, 2);
    assert_int_equal(first->admitted, 2);
    assert_int_equal(first->updated, 3);
    assert_int_equal(first->dropped, 0);
    assert_int_equal(first->read, 2);
    assert_int_equal(first->copied_rows, 1); /* key 9, for the version before */
    assert_int_equal(first->bytes_max, 1 << 20);
    assert_in_range(first->bytes, 1, first->bytes_max);
    assert_in_range(first->copies_bytes, 1, first->copies_bytes_max);
    assert_int_equal(second->rows, 1);
    assert_int_equal(second->dropped, 2); /* until it had been seen three times */
    assert_int_equal(second->updated, 1);
    assert_int_equal(second->read, 1);
    assert_int_equal(first->refused + second->refused + first->evicted + second->evicted, 0);
    assert_int_equal(first->n_hottest + second->n_hottest, 0);
    assert_true(meter_of(&rig, "\ngradus_ps_table_rows ") == 3);
    assert_true(meter_of(&rig, "\ngradus_ps_table_bytes ") >= (double)first->bytes);
    assert_true(meter_of(&rig, EVENTS "{event=\"admitted\"} ") == 3);
    assert_true(meter_of(&rig, EVENTS "{event=\"updated\"} ") == 4);
    assert_true(meter_of(&rig, EVENTS "{event=\"dropped\"} ") == 2);
    assert_true(meter_of(&rig, EVENTS "{event=\"read\"} ") == 3);
    rpc_msg_unref(reply);
    s = stats_of(&rig, ads, &reply);
    assert_int_equal(s->tables[1]->n_hottest, 0);
    assert_int_equal(s->tables[0]->n_hottest, 2);
    assert_int_equal(s->tables[0]->hottest[0]->key, 9);
    assert_int_equal(s->tables[0]->hottest[0]->sightings, 2);
    assert_int_equal(s->tables[0]->hottest[1]->key, 5);
    rpc_msg_unref(reply);
    exchange_close(&c);
    ps_drop(rig.ps, job, 0);
    wait_until(meter_of(&rig, "\ngradus_ps_table_rows ") == 0);
    assert_true(meter_of(&rig, "\ngradus_ps_table_bytes ") == 0);
    assert_true(meter_of(&rig, EVENTS "{event=\"admitted\"} ") == 3); /* they were */
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_versions),
        cmocka_unit_test(test_a_step_without_rows),
        cmocka_unit_test(test_ridge_by_the_records_of_the_job),
        cmocka_unit_test(test_requests_that_are_wrong),
        cmocka_unit_test(test_a_key_of_another_shard),
        cmocka_unit_test(test_memory_is_reserved),
        cmocka_unit_test(test_what_tables_hold),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
