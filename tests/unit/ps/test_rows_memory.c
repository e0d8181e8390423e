/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables and their gradients in memory that a client shares, over real gRPC. */
#define ROWS 4
#include "rows_rig.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "ps/rpc/ps_shell.h"
#include "support/wait_until.h"

static char job[] = "memory-1";
static const size_t DIMS[TABLES] = {2, 3};

/* Rows of ones in the first table and of zeros in the second. */
#define SPEC                                                                                       \
    "[{name: a, dim: 2, init: constant, init_mean: 1, memory_bytes: 1 MiB}, "                      \
    "{name: b, dim: 3, init: zeros, memory_bytes: 1 MiB}]"
#define BLOCK_FLOATS 1000
#define KEYS 3   /* of each step's rows: 5 and 9 of the first table, 7 of the second, */
#define FLOATS 7 /* that have so many floats */

/* A step: how it names its blocks, and what it says that is not so. */
struct step {
    uint64_t exchange, number;
    struct shared_memory *offer; /* NULL: none */
    uint32_t tables_block, rows_block;
    uint64_t more_bytes; /* than there are of tables */
    bool again;          /* and the same in a message, before the rest of the gradient */
    uint32_t more_keys;
    Gradus__V1__WireType pulls_as;
};

static void send_message(struct client *c, const Gradus__V1__ExchangeRequest *m, const void *bytes,
                         size_t n)
{
    struct err err;
    const struct rpc_piece piece = {bytes, n};
    const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    assert_int_equal(rpc_stream_send(c->stream, &m->base, n == 0 ? NULL : &blob, &err), 0);
}

/* One key of each table, all floats 2, seen once; and behind it the keys of rows. Returns the bytes
 * of the former. */
static size_t encode(unsigned char out[256])
{
    static const uint64_t pushed[TABLES] = {9, 7}, wanted[KEYS] = {5, 9, 7};
    const float values[3] = {2, 2, 2};
    const uint32_t once = 1;
    size_t at = 0;
    for (size_t i = 0; i < TABLES; i++) {
        const struct table_gradient_view g = {
            .dim = DIMS[i], .n = 1, .keys = &pushed[i], .sightings = &once, .values = values};
        table_gradient_encode(VALUE_FP32, &g, out + at);
        at += table_gradient_bytes(VALUE_FP32, 1, DIMS[i]);
    }
    memcpy(out + at, wanted, sizeof wanted);
    return at;
}

static void fill_offer(Gradus__V1__SharedMemory *m, const struct shared_memory *w)
{
    const struct shared_memory_offer *offer = shared_memory_offer(w);
    gradus__v1__shared_memory__init(m);
    m->pid = offer->pid;
    m->fd = offer->fd;
    m->token.len = sizeof offer->token;
    m->token.data = mem_new(1, sizeof offer->token);
    memcpy(m->token.data, offer->token, sizeof offer->token);
    m->elements = offer->elements;
    m->gradients = offer->gradients;
    m->values = offer->values;
}

static struct answer *take_step(struct client *c, const struct step *s)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__ExchangeRequest more = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__SharedMemory offer;
    uint32_t counts[TABLES] = {2 + s->more_keys, 1};
    unsigned char bytes[256];
    char worker[] = "w0";
    const size_t n = encode(bytes);
    forget_answer(c, s->exchange);
    push.step = s->number;
    push.replica_end = 1;
    push.examples = 2;
    pull.kind = GRADUS__V1__PULL__KIND__VERSION;
    pull.version = s->number + 1;
    pull.type = s->pulls_as;
    rows.n_counts = TABLES;
    rows.counts = counts;
    training.push = &push;
    training.pull = &pull;
    training.rows = &rows;
    m.exchange = more.exchange = s->exchange;
    m.shard = &ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    m.training = &training;
    m.total = ps_rig_elements();
    m.tables_bytes = n + s->more_bytes;
    m.tables_block = s->tables_block;
    m.rows_block = s->rows_block;
    if (s->offer != NULL) {
        fill_offer(&offer, s->offer);
        m.tables_memory = &offer;
    }
    send_message(c, &m, gradient, (s->again ? 1 : m.total) * sizeof(float));
    if (s->offer != NULL) {
        free(offer.token.data);
    }
    more.of_tables = true;
    if (s->tables_block == 0 || s->again) {
        send_message(c, &more, bytes, n + KEYS * sizeof(uint64_t));
    }
    return wait_answer(c, s->exchange);
}

static void expect_refused(const struct answer *a, int code, const char *says)
{
    if (a->code != -code || strstr(a->message, says) == NULL) {
        fail_msg("code %d, expected %d; '%s' does not say '%s'", a->code, -code, a->message, says);
    }
}

/* After so many steps, wherever they are. */
static void expect_rows(const struct answer *a, uint64_t steps, const float *rows)
{
    const float x = 1 - (float)steps, y = -(float)steps;
    const float want[FLOATS] = {1, 1, x, x, y, y, y};
    if (a->code != 0) {
        fail_msg("code %d: %s", a->code, a->message);
    }
    assert_int_equal(a->version, steps);
    assert_int_equal(a->rows, FLOATS);
    assert_int_equal(a->rows_received, FLOATS);
    assert_memory_equal(rows, want, sizeof want);
}

static void start(struct ps_rig *rig, struct client *c, bool local)
{
    ps_rig_start(rig, 0);
    rows_open(rig, job, 1, SPEC);
    if (local) {
        ps_rig_go_local(rig);
    }
    exchange_open(c, rig);
}

static void stop(struct ps_rig *rig, struct client *c)
{
    exchange_close(c);
    ps_rig_stop(rig);
}

/* The first step, in messages, offers the memory. */
static struct shared_memory *offer(struct client *c)
{
    struct shared_memory *w;
    struct err err;
    assert_int_equal(shared_memory_new(BLOCK_FLOATS, &w, &err), 0);
    const struct answer *a = take_step(c, &(struct step){.exchange = 1, .offer = w});
    expect_rows(a, 1, a->of_rows);
    assert_int_equal(a->rows_in_block, 0);
    assert_true(a->tables_memory_open);
    return w;
}

/* The number of a block with what a step brings. */
static uint32_t fill(struct shared_memory *w)
{
    const uint32_t block = shared_memory_take_gradient_of(w, 64);
    assert_true(block != SHARED_MEMORY_NONE);
    (void)encode((unsigned char *)shared_memory_gradient(w, block));
    return block + 1;
}

static void test_rows_pass_in_memory(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, true);
    struct shared_memory *w = offer(&c);
    for (uint64_t number = 1; number < 9; number++) {
        const struct step s = {.exchange = number % EXCHANGES,
                               .number = number,
                               .tables_block = number % 4 == 3 ? 0 : fill(w), /* or in messages */
                               .rows_block = number % 4 == 2 ? 0 : (uint32_t)(number % 3) + 1};
        const struct answer *a = take_step(&c, &s);
        if (s.rows_block == 0) {
            expect_rows(a, number + 1, a->of_rows);
            continue;
        }
        expect_rows(a, number + 1, shared_memory_values(w, s.rows_block - 1));
        assert_int_equal(a->rows_in_block, FLOATS);
        assert_false(a->tables_memory_open); /* that was said before */
    }
    for (uint32_t i = 0; i < shared_memory_offer(w)->gradients; i++) { /* all are free again */
        assert_int_equal(shared_memory_take_gradient(w), i);
    }
    shared_memory_unref(w);
    stop(&rig, &c);
}

/* Rows that are asked for alone, into the block after the one that they were in last. */
static struct answer *read_rows(struct client *c, uint64_t exchange, uint32_t block,
                                uint64_t tables_bytes, uint32_t tables_block)
{
    static const uint64_t keys[KEYS] = {5, 9, 7};
    uint32_t counts[TABLES] = {2, 1};
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    char worker[] = "w0";
    forget_answer(c, exchange);
    rows.n_counts = TABLES;
    rows.counts = counts;
    m.exchange = exchange;
    m.shard = &ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS;
    m.rows = &rows;
    m.total = KEYS;
    m.rows_block = block;
    m.tables_bytes = tables_bytes;
    m.tables_block = tables_block;
    send_message(c, &m, keys, sizeof keys);
    return wait_answer(c, exchange);
}

static void test_rows_alone(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, true);
    struct shared_memory *w = offer(&c);
    for (uint32_t block = 1; block <= shared_memory_offer(w)->values; block++) {
        const struct answer *a = read_rows(&c, 2, block, 0, 0);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->in_block, FLOATS);
        assert_true(shared_memory_values(w, block - 1)[2] == 0.0F);
        assert_true(shared_memory_values(w, block - 1)[4] == -1.0F);
    }
    expect_refused(read_rows(&c, 3, 9, 0, 0), ERR_INVALID, "block 9 for rows is not open");
    expect_refused(read_rows(&c, 4, 1, 4000, fill(w)), ERR_INVALID, "nothing of tables");
    expect_refused(read_rows(&c, 5, 1, 0, fill(w)), ERR_INVALID, "nothing of tables");
    assert_int_equal(read_rows(&c, 6, 1, 0, 0)->code, 0);
    shared_memory_unref(w);
    stop(&rig, &c);
}

static void test_blocks_that_are_not_there(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, true);
    expect_refused(take_step(&c, &(struct step){.exchange = 2, .tables_block = 1}), ERR_INVALID,
                   "exchange 2: block 1 for rows is not open, in use");
    expect_refused(take_step(&c, &(struct step){.exchange = 3, .rows_block = 1}), ERR_INVALID,
                   "exchange 3: block 1 for rows is not open");
    struct shared_memory *w = offer(&c);
    const uint32_t gradients = shared_memory_offer(w)->gradients;
    const uint32_t values = shared_memory_offer(w)->values;
    struct step s = {.exchange = 4, .number = 1, .tables_block = gradients + 1};
    expect_refused(take_step(&c, &s), ERR_INVALID, "is not open, in use");
    s.tables_block = UINT32_MAX;
    expect_refused(take_step(&c, &s), ERR_INVALID, "is not open, in use");
    s.tables_block = 1; /* nobody took it */
    expect_refused(take_step(&c, &s), ERR_INVALID, "is not open, in use");
    s = (struct step){.exchange = 5, .number = 1, .rows_block = values + 1};
    expect_refused(take_step(&c, &s), ERR_INVALID, "block 4 for rows is not open");
    s.rows_block = UINT32_MAX;
    expect_refused(take_step(&c, &s), ERR_INVALID, "for rows is not open");
    s = (struct step){.exchange = 6, .number = 1, .rows_block = 1, .more_keys = BLOCK_FLOATS / 2};
    expect_refused(take_step(&c, &s), ERR_INVALID, "has no 1007 floats");
    s = (struct step){.exchange = 7, .number = 1, .tables_block = fill(w), .more_bytes = 4000};
    expect_refused(take_step(&c, &s), ERR_INVALID, "has no 4100 bytes");
    s = (struct step){.exchange = 8, .number = 1, .tables_block = fill(w), .more_bytes = 8};
    expect_refused(take_step(&c, &s), ERR_INVALID, "8 bytes behind the rows of 2 tables");
    s = (struct step){.exchange = 9, .number = 1, .tables_block = fill(w)};
    expect_rows(take_step(&c, &s), 2, c.answers[9].of_rows);
    shared_memory_unref(w);
    stop(&rig, &c);
}

/* The block of a refused exchange is the client's again, each time, and later ones are taken. */
static void test_what_is_refused_is_given_back(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, true);
    struct shared_memory *w = offer(&c);
    for (int i = 0; i < 80; i++) { /* more than there may be under way at once */
        const struct step s = {
            .exchange = 2 + (uint64_t)(i % 5), .number = 1, .tables_block = fill(w)};
        ((unsigned char *)shared_memory_gradient(w, s.tables_block - 1))[0] = 200; /* rows */
        expect_refused(take_step(&c, &s), ERR_INVALID, "table 0");
        assert_int_equal(s.tables_block, 1);
    }
    const struct step s = {.exchange = 8, .number = 1, .tables_block = fill(w), .rows_block = 2};
    expect_rows(take_step(&c, &s), 2, shared_memory_values(w, 1));
    shared_memory_unref(w);
    stop(&rig, &c);
}

/* What is in a block and comes in messages as well is too much. */
static void test_a_block_and_messages(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, true);
    struct shared_memory *w = offer(&c);
    const struct step s = {.exchange = 2, .number = 1, .tables_block = fill(w), .again = true};
    expect_refused(take_step(&c, &s), ERR_INVALID,
                   "100 bytes of tables from byte 0 on; 100 of 100");
    const struct step next = {.exchange = 3, .number = 1, .tables_block = fill(w)};
    expect_rows(take_step(&c, &next), 2, c.answers[3].of_rows);
    shared_memory_unref(w);
    stop(&rig, &c);
}

static void test_no_memory_for_who_comes_over_the_network(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct shared_memory *w;
    struct err err;
    start(&rig, &c, false);
    assert_int_equal(shared_memory_new(BLOCK_FLOATS, &w, &err), 0);
    const struct answer *a = take_step(&c, &(struct step){.exchange = 1, .offer = w});
    expect_rows(a, 1, a->of_rows);
    assert_false(a->tables_memory_open);
    const struct step s = {.exchange = 2, .number = 1, .tables_block = fill(w)};
    expect_refused(take_step(&c, &s), ERR_INVALID, "is not open, in use");
    shared_memory_unref(w);
    stop(&rig, &c);
}

static void expect_mapped(struct ps_rig *rig, double most)
{
    wait_until(meter_value(rig->ps->gradient_memory.mapped) <= most); /* the call ends first */
}

/* What stays mapped is what was used, and goes with the stream. */
static void test_what_stays_mapped(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, true);
    struct shared_memory *w = offer(&c);
    for (uint64_t number = 1; number < 4; number++) {
        const struct step s = {
            .exchange = 1, .number = number, .tables_block = fill(w), .rows_block = 1};
        expect_rows(take_step(&c, &s), number + 1, shared_memory_values(w, 0));
        unsigned char bytes[256];
        const double used =
            (double)(encode(bytes) + KEYS * sizeof(uint64_t) + FLOATS * sizeof(float));
        assert_true(meter_value(rig.ps->gradient_memory.mapped) == used);
    }
    exchange_close(&c);
    expect_mapped(&rig, 0);
    shared_memory_unref(w);
    ps_rig_stop(&rig);
}

struct scribbler {
    unsigned char *memory;
    atomic_bool over;
};

static void *scribble(void *ctx)
{
    struct scribbler *s = ctx;
    volatile unsigned char *at = s->memory;
    for (uint64_t i = 0; !atomic_load(&s->over); i++) {
        at[rng_below(3, i, 132)] = (unsigned char)rng_below(4, i, 12);
    }
    return NULL;
}

/* A client that writes to its block while the server reads it hurts nobody else: what is read is
 * checked as it was read. */
static void test_a_block_that_changes(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    pthread_t thread;
    start(&rig, &c, true);
    struct shared_memory *w = offer(&c);
    uint64_t number = 1;
    struct shared_memory
        *third; /* the scribbler's: what races is in no memory of one process alone */
    struct err err;
    assert_int_equal(shared_memory_open(shared_memory_offer(w), BLOCK_FLOATS, &third, &err), 0);
    struct scribbler s = {.memory = (unsigned char *)shared_memory_gradient(third, 0)};
    assert_int_equal(pthread_create(&thread, NULL, scribble, &s), 0);
    for (int i = 0; i < 300; i++) {
        const struct step step = {
            .exchange = 2, .number = number, .tables_block = fill(w), .rows_block = 1};
        const struct answer *a = take_step(&c, &step);
        assert_true(a->code == 0 || a->code == -ERR_INVALID);
        /* What its keys are may be refused when the push is in. */
        number += a->code == 0 || strstr(a->message, "comes behind key") != NULL;
    }
    atomic_store(&s.over, true);
    pthread_join(thread, NULL);
    shared_memory_unref(third);
    const struct step step = {.exchange = 2, .number = number, .tables_block = fill(w)};
    assert_int_equal(take_step(&c, &step)->code, 0);
    shared_memory_unref(w);
    stop(&rig, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_pass_in_memory),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_blocks_that_are_not_there),
        cmocka_unit_test(test_what_is_refused_is_given_back),
        cmocka_unit_test(test_a_block_and_messages),
        cmocka_unit_test(test_no_memory_for_who_comes_over_the_network),
        cmocka_unit_test(test_what_stays_mapped),
        cmocka_unit_test(test_a_block_that_changes),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
