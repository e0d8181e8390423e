/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of a running job over real gRPC: it reads one version of values and rows while updates
 * go on, and takes nothing that they need. */
#define ROWS 6000
#include "rows_rig.h"

#include "ps/data/shard_tables.h"
#include "rule/rules/rule.h"

static char job[] = "t-1", mine[] = "mine";

static const char SPEC[] =
    "[{name: ads, dim: 2, init: constant, init_mean: 1, memory_bytes: 1 MiB},"
    " {name: users, dim: 3, init: zeros, memory_bytes: 1 MiB}]";

/* ---- requests ---- */

static int read_as(struct ps_rig *rig, char *id, Gradus__V1__ReadRequest *q, struct rpc_msg **reply,
                   struct err *err)
{
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    q->shard = &ref;
    q->pin_id = id;
    q->pin_ms = 60000;
    return ps_rig_call(rig, "Read", &q->base, NULL, 0, reply, err);
}

static int pin(struct ps_rig *rig, char *id, struct rpc_msg **reply, struct err *err)
{
    Gradus__V1__ReadRequest q = GRADUS__V1__READ_REQUEST__INIT;
    Gradus__V1__ReadPin what = GRADUS__V1__READ_PIN__INIT;
    q.what_case = GRADUS__V1__READ_REQUEST__WHAT_PIN;
    q.pin = &what;
    return read_as(rig, id, &q, reply, err);
}

static int unpin(struct ps_rig *rig, char *id, struct err *err)
{
    Gradus__V1__ReadRequest q = GRADUS__V1__READ_REQUEST__INIT;
    q.what_case = GRADUS__V1__READ_REQUEST__WHAT_END;
    q.end = true;
    return read_as(rig, id, &q, NULL, err);
}

static int read_values(struct ps_rig *rig, uint64_t first, uint64_t count, struct rpc_msg **reply,
                       struct err *err)
{
    Gradus__V1__ReadRequest q = GRADUS__V1__READ_REQUEST__INIT;
    Gradus__V1__ReadValues what = GRADUS__V1__READ_VALUES__INIT;
    q.what_case = GRADUS__V1__READ_REQUEST__WHAT_VALUES;
    q.values = &what;
    what.first = first;
    what.count = count;
    return read_as(rig, mine, &q, reply, err);
}

static int read_rows(struct ps_rig *rig, uint32_t table, uint64_t from, struct rpc_msg **reply,
                     struct err *err)
{
    Gradus__V1__ReadRequest q = GRADUS__V1__READ_REQUEST__INIT;
    Gradus__V1__ReadRows what = GRADUS__V1__READ_ROWS__INIT;
    q.what_case = GRADUS__V1__READ_REQUEST__WHAT_ROWS;
    q.rows = &what;
    what.table = table;
    what.from = from;
    return read_as(rig, mine, &q, reply, err);
}

static int pin_average(struct ps_rig *rig, char *id, struct rpc_msg **reply, struct err *err)
{
    Gradus__V1__ReadRequest q = GRADUS__V1__READ_REQUEST__INIT;
    Gradus__V1__ReadPin what = GRADUS__V1__READ_PIN__INIT;
    q.what_case = GRADUS__V1__READ_REQUEST__WHAT_PIN;
    q.pin = &what;
    what.average = true;
    return read_as(rig, id, &q, reply, err);
}

static int read_average(struct ps_rig *rig, char *id, uint64_t first, struct rpc_msg **reply,
                        struct err *err)
{
    Gradus__V1__ReadRequest q = GRADUS__V1__READ_REQUEST__INIT;
    Gradus__V1__ReadValues what = GRADUS__V1__READ_VALUES__INIT;
    q.what_case = GRADUS__V1__READ_REQUEST__WHAT_VALUES;
    q.values = &what;
    what.first = first;
    what.average = true;
    return read_as(rig, id, &q, reply, err);
}

static const Gradus__V1__ReadResponse *said(const struct rpc_msg *reply)
{
    return (const Gradus__V1__ReadResponse *)reply->body;
}

static void push(struct ps_rig *rig, uint64_t step)
{
    struct err err;
    ps_rig_expect(ps_rig_push(rig, job, step, 0, 1, gradient, ELEMENTS, 1, NULL, &err), 0, &err,
                  "");
}

/* ---- tests ---- */

static void test_values_in_parts(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct rpc_msg *reply = NULL;
    static float before[ELEMENTS], part[ELEMENTS];
    uint64_t version = 0, at = 0;
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, NULL);
    push(&rig, 0);
    ps_rig_expect(
        ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, before, &version, &err), 0,
        &err, "");
    ps_rig_expect(pin(&rig, mine, &reply, &err), 0, &err, "");
    assert_int_equal(said(reply)->version, 1);
    assert_int_equal(said(reply)->n_rows, 0);
    rpc_msg_unref(reply);
    unsigned parts = 0;
    while (at < ELEMENTS) {
        push(&rig, 1 + parts);
        ps_rig_expect(read_values(&rig, at, 0, &reply, &err), 0, &err, "");
        assert_int_equal(said(reply)->version, 1);
        const size_t n = rpc_spans_bytes(reply->bulk) / sizeof(float);
        assert_true(n > 0 && n <= ELEMENTS - at);
        assert_true(rpc_spans_read_floats(reply->bulk, part + at, n));
        rpc_msg_unref(reply);
        at += n;
        parts++;
    }
    assert_true(parts > 1);
    assert_memory_equal(part, before, sizeof before);
    ps_rig_expect(read_values(&rig, ELEMENTS - 7, 3, &reply, &err), 0, &err, "");
    assert_true(rpc_spans_read_floats(reply->bulk, part, 3));
    assert_int_equal(rpc_spans_left(reply->bulk), 0);
    assert_memory_equal(part, before + ELEMENTS - 7, 3 * sizeof(float));
    rpc_msg_unref(reply);
    ps_rig_expect(read_values(&rig, ELEMENTS, 0, &reply, &err), 0, &err, ""); /* behind the last */
    assert_true(reply->bulk == NULL || rpc_spans_bytes(reply->bulk) == 0);
    rpc_msg_unref(reply);
    ps_rig_expect(read_values(&rig, ELEMENTS + 1, 0, NULL, &err), ERR_INVALID, &err,
                  "values from element 360061 on, of 360060");
    ps_rig_expect(read_rows(&rig, 0, 0, NULL, &err), ERR_INVALID, &err,
                  "rows of table 0; the job has 0");
    Gradus__V1__ReadRequest nothing = GRADUS__V1__READ_REQUEST__INIT;
    ps_rig_expect(read_as(&rig, mine, &nothing, NULL, &err), ERR_INVALID, &err,
                  "job t-1 shard 0: a Read of nothing");
    ps_rig_expect(unpin(&rig, mine, &err), 0, &err, "");
    ps_rig_expect(read_values(&rig, 0, 0, NULL, &err), ERR_NOT_FOUND, &err, "it has ended");
    ps_rig_stop(&rig);
}

/* The average of the pinned version, though updates go on; two readers of one version. */
static void test_the_moving_average(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct rpc_msg *reply = NULL;
    static float values[ELEMENTS], average[ELEMENTS], part[ELEMENTS];
    char other[] = "other";
    uint64_t version = 0;
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = 0.25F + (float)(i % 7);
    }
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "adam, average: 0.5", 1, 1, &err), 0, &err, "");
    for (uint64_t step = 0;; step++) {
        ps_rig_expect(
            ps_rig_pull(&rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, values, &version, &err),
            0, &err, "");
        assert_int_equal(version, step);
        for (size_t i = 0; i < ELEMENTS; i++) {
            average[i] = step == 0 ? values[i] : 0.5F * average[i] + 0.5F * values[i];
        }
        if (step == 3) {
            break;
        }
        push(&rig, step);
    }
    assert_memory_not_equal(average, values, sizeof values);
    ps_rig_expect(pin(&rig, other, NULL, &err), 0, &err, "");
    ps_rig_expect(read_average(&rig, other, 0, NULL, &err), ERR_STATE, &err,
                  "version 3 was pinned without its moving average");
    ps_rig_expect(unpin(&rig, other, &err), 0, &err, "");
    ps_rig_expect(pin_average(&rig, mine, NULL, &err), 0, &err, "");
    ps_rig_expect(pin_average(&rig, other, NULL, &err), 0, &err, "");
    push(&rig, 3);
    ps_rig_expect(unpin(&rig, other, &err), 0, &err, "");
    for (uint64_t at = 0; at < ELEMENTS;) {
        ps_rig_expect(read_average(&rig, mine, at, &reply, &err), 0, &err, "");
        assert_int_equal(said(reply)->version, 3);
        const size_t n = rpc_spans_bytes(reply->bulk) / sizeof(float);
        assert_true(n > 0 && n <= ELEMENTS - at);
        assert_true(rpc_spans_read_floats(reply->bulk, part + at, n));
        rpc_msg_unref(reply);
        at += n;
    }
    assert_memory_equal(part, average, sizeof average);
    ps_rig_expect(read_values(&rig, 0, 1, &reply, &err), 0, &err, ""); /* beside it */
    assert_true(rpc_spans_read_floats(reply->bulk, part, 1));
    assert_true(part[0] == values[0]);
    rpc_msg_unref(reply);
    ps_rig_expect(unpin(&rig, mine, &err), 0, &err, "");
    ps_rig_expect(pin(&rig, mine, NULL, &err), 0, &err, "");
    ps_rig_expect(read_average(&rig, mine, 0, NULL, &err), ERR_STATE, &err, "version 4 was pinned");
    ps_rig_stop(&rig);
    memset(gradient, 0, ELEMENTS * sizeof *gradient);
}

/* Gradients of keys [first, first + n) in the first table, each 1. */
static void push_rows(struct client *c, uint64_t step, uint64_t first, uint32_t n)
{
    static unsigned char bytes[1 << 17];
    uint64_t keys[3000];
    uint32_t sightings[3000];
    float values[6000];
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = first + i;
        sightings[i] = 1;
        values[2 * i] = values[2 * i + 1] = 1;
    }
    const struct table_gradient_view ads = {
        .dim = 2, .n = n, .keys = keys, .sightings = sightings, .values = values};
    const struct table_gradient_view users = {.dim = 3};
    const size_t at = table_gradient_bytes(VALUE_FP32, n, 2);
    table_gradient_encode(VALUE_FP32, &ads, bytes);
    table_gradient_encode(VALUE_FP32, &users, bytes + at);
    const size_t all = at + table_gradient_bytes(VALUE_FP32, 0, 3);
    assert_true(all <= sizeof bytes);
    const struct answer *a = rows_push(c, job, 1, step, 0, bytes, all, all);
    if (a->code != 0) {
        fail_msg("code %d: %s", a->code, a->message);
    }
}

static void test_rows_of_one_version(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err;
    struct rpc_msg *reply = NULL;
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, SPEC);
    exchange_open(&c, &rig);
    push_rows(&c, 0, 100, 2500);
    ps_rig_expect(pin(&rig, mine, &reply, &err), 0, &err, "");
    assert_int_equal(said(reply)->n_rows, 2);
    assert_int_equal(said(reply)->rows[0], 2500);
    assert_int_equal(said(reply)->rows[1], 0);
    rpc_msg_unref(reply);
    static bool seen[3000];
    uint64_t from = 0, n = 0, step = 1;
    bool last = false;
    while (!last) {
        push_rows(&c, step++, 100, 3000); /* all of them change, and others come */
        ps_rig_expect(read_rows(&rig, 0, from, &reply, &err), 0, &err, "");
        assert_int_equal(said(reply)->version, 1);
        uint64_t keys[2500];
        float values[5000];
        const uint32_t count = said(reply)->count;
        assert_true(count <= 2500 && rpc_spans_bytes(reply->bulk) == (size_t)count * 16);
        assert_true(rpc_spans_read(reply->bulk, keys, count * sizeof *keys));
        assert_true(rpc_spans_read_floats(reply->bulk, values, 2 * (size_t)count));
        for (uint32_t i = 0; i < count; i++) {
            assert_true(keys[i] >= 100 && keys[i] < 2600 && !seen[keys[i]]);
            seen[keys[i]] = true;
            assert_true(values[2 * i] == 0.5F && values[2 * i + 1] == 0.5F); /* one update */
        }
        n += count;
        last = said(reply)->last;
        from = said(reply)->next;
        rpc_msg_unref(reply);
    }
    assert_int_equal(n, 2500);
    assert_true(step > 3);
    ps_rig_expect(read_rows(&rig, 1, 0, &reply, &err), 0, &err, "");
    assert_true(said(reply)->count == 0 && said(reply)->last);
    rpc_msg_unref(reply);
    ps_rig_expect(read_rows(&rig, 2, 0, NULL, &err), ERR_INVALID, &err, "rows of table 2");
    ps_rig_expect(unpin(&rig, mine, &err), 0, &err, "");
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* Without memory for one more version there is no pin, and with a pin there is room for updates. */
static void test_memory_of_versions(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    const uint64_t version = (uint64_t)ELEMENTS * sizeof(float);
    char other[] = "other";
    ps_rig_start(&rig, version * 9 / 2); /* two versions and a gradient, and one more */
    rows_open(&rig, job, 1, NULL);
    ps_rig_expect(pin(&rig, mine, NULL, &err), 0, &err, "");
    ps_rig_expect(pin(&rig, other, NULL, &err), ERR_EXHAUSTED, &err, "a version for a reader");
    for (uint64_t step = 0; step < 5; step++) {
        push(&rig, step);
    }
    ps_rig_expect(unpin(&rig, mine, &err), 0, &err, "");
    ps_rig_expect(pin(&rig, other, NULL, &err), 0, &err, "");
    push(&rig, 5);
    ps_rig_stop(&rig);
}

/* ---- copies of rows ---- */

static void update(struct shard_tables *t, uint64_t first, uint32_t n)
{
    static uint64_t keys[4000];
    static uint32_t sightings[4000];
    static float values[8 * 4000];
    struct err err = {0};
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = first + i;
        sightings[i] = 1;
        values[8 * i] = 1;
    }
    const struct table_gradient_view view = {
        .dim = 8, .n = n, .keys = keys, .sightings = sightings, .values = values};
    struct table_gradient g;
    table_gradient_init(&g, 8);
    assert_int_equal(table_gradient_add(&g, &view, NULL), 0);
    const struct tables_gradient brought = {.count = 1, .of = &g};
    const struct rule_scalars scalars = {0};
    const struct table_shaping none = {0};
    ps_rig_expect(shard_tables_update(t, &brought, 1, &scalars, &none, &err), 0, &err, "");
    table_gradient_release(&g);
}

static bool readable(const struct shard_tables *t, uint64_t version)
{
    uint64_t count;
    struct err err;
    return table_count(t->tables[0], version, &count, &err) == 0;
}

/* When there is no room for copies, pins of readers go before those of the training. */
static void test_readers_give_way(void **state)
{
    (void)state;
    struct budget budget = {0};
    struct err err;
    struct shard_tables *t = NULL;
    const struct table_config config = {.name = "ads",
                                        .dim = 8,
                                        .rule = rule_find("sgd"),
                                        .bytes_max = 8 << 20,
                                        .copies_bytes_max = 1 << 20,
                                        .shards = 1};
    ps_rig_expect(shard_tables_new(&config, 1, 0, &budget, &t, &err), 0, &err, "");
    update(t, 0, 4000);
    shard_tables_pin(t);
    update(t, 0, 4000);
    assert_true(readable(t, 1));
    shard_tables_pin_reader(t);
    assert_true(readable(t, 2));
    for (unsigned i = 0; i < 4 && readable(t, 2); i++) {
        update(t, 1000 * i, 1000);
    }
    assert_false(readable(t, 2));
    assert_true(readable(t, 1)); /* as if nobody had read */
    shard_tables_unpin_reader(t, 2);
    shard_tables_unpin(t, 1);
    assert_false(readable(t, 1));
    shard_tables_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_in_parts),     cmocka_unit_test(test_the_moving_average),
        cmocka_unit_test(test_rows_of_one_version), cmocka_unit_test(test_memory_of_versions),
        cmocka_unit_test(test_readers_give_way),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
