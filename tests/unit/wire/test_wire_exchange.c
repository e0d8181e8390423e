/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of exchange there and back, and messages that are none. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "wire/wire_exchange.h"

/* The message as a peer would receive it. */
static Gradus__V1__ExchangeRequest *sent_request(const struct exchange_request *q)
{
    struct wire_request_room room;
    Gradus__V1__ExchangeRequest out = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    wire_request_to_proto(q, &room, &out);
    size_t n = gradus__v1__exchange_request__get_packed_size(&out);
    uint8_t *bytes = malloc(n + 1);
    assert_non_null(bytes);
    gradus__v1__exchange_request__pack(&out, bytes);
    Gradus__V1__ExchangeRequest *in = gradus__v1__exchange_request__unpack(NULL, n, bytes);
    assert_non_null(in);
    free(bytes);
    return in;
}

static void check_bytes(const void *got, size_t got_bytes, const void *want, size_t want_bytes)
{
    assert_int_equal(got_bytes, want_bytes);
    assert_true(want_bytes == 0 || memcmp(got, want, want_bytes) == 0);
}

static void check_request(const struct exchange_request *q)
{
    struct err err;
    struct exchange_request got;
    memset(&got, 0xA5, sizeof got);
    Gradus__V1__ExchangeRequest *m = sent_request(q);
    assert_int_equal(wire_request_from_proto(m, &got, &err), 0);
    assert_int_equal(got.kind, q->kind);
    assert_true(got.has_push == q->has_push && got.has_pull == q->has_pull);
    assert_true(got.session == q->session && got.idle == q->idle &&
                got.has_decision == q->has_decision);
    assert_memory_equal(&got.push, &q->push, sizeof got.push);
    assert_memory_equal(&got.pull, &q->pull, sizeof got.pull);
    assert_int_equal(got.decision.step, q->decision.step);
    check_bytes(got.decision.replicas, got.decision.bytes, q->decision.replicas, q->decision.bytes);
    assert_string_equal(got.pin_id, q->pin_id);
    assert_int_equal(got.spare_step, q->spare_step);
    assert_memory_equal(&got.sums, &q->sums, sizeof got.sums);
    assert_memory_equal(&got.totals.of, &q->totals.of, sizeof got.totals.of);
    check_bytes(got.totals.data, got.totals.bytes, q->totals.data, q->totals.bytes);
    assert_true(got.rows.of == q->rows.of && got.rows.version == q->rows.version);
    gradus__v1__exchange_request__free_unpacked(m, NULL);
}

/* Every field another number, so that none takes the place of another. Zeroed before, for padding
 * is compared, too. */
static void fill_training(struct exchange_request *q, const uint8_t *replicas, size_t bytes)
{
    memset(q, 0, sizeof *q);
    q->kind = EXCHANGE_TRAIN;
    q->has_push = q->has_pull = q->idle = q->has_decision = true;
    q->session = UINT64_MAX - 4;
    q->push.step = 1;
    q->push.replica_first = 2;
    q->push.replica_end = 3;
    q->push.epoch = 4;
    q->push.split = 5;
    q->push.batch = 6;
    q->push.batch_end = 7;
    q->push.examples = 8;
    q->push.base_version = 9;
    q->push.decided = true;
    q->push.clock = UINT64_MAX;
    q->pull.kind = PULL_AT_LEAST;
    q->pull.version = 11;
    q->pull.progress = true;
    q->pull.epoch = 12;
    q->pull.split = UINT32_MAX;
    q->pull.clock = 13;
    q->decision = (struct exchange_decision){14, replicas, bytes};
}

static void test_requests(void **state)
{
    (void)state;
    static const uint8_t replicas[EXCHANGE_DECISION_BYTES_MAX] = {1, 2, 3};
    struct exchange_request q;
    fill_training(&q, replicas, sizeof replicas);
    check_request(&q);
    q.push.decided = q.pull.progress = q.idle = false;
    q.push.spare = q.pull.joins = true;
    q.decision.bytes = 1;
    check_request(&q);
    memset(&q, 0, sizeof q);
    q.kind = EXCHANGE_TRAIN; /* of nothing: for the shard to refuse */
    check_request(&q);
    q.kind = EXCHANGE_PINNED;
    memset(q.pin_id, 'p', sizeof q.pin_id - 1);
    check_request(&q);
    memset(&q, 0, sizeof q);
    q.kind = EXCHANGE_SPARE;
    q.spare_step = 15;
    check_request(&q);
    memset(&q, 0, sizeof q);
    q.kind = EXCHANGE_SUMS;
    q.sums = (struct exchange_round){16, 17};
    check_request(&q);
    memset(&q, 0, sizeof q);
    q.kind = EXCHANGE_TOTALS;
    q.totals = (struct exchange_totals){{18, 19}, "totals", 6};
    check_request(&q);
    memset(&q, 0, sizeof q);
    q.kind = EXCHANGE_ROWS;
    check_request(&q); /* of the newest version */
    q.rows = (struct exchange_rows){ROWS_OF_VERSION, 0};
    check_request(&q);
    q.rows.version = 20;
    check_request(&q);
    q.rows = (struct exchange_rows){.of = ROWS_OF_PIN};
    memset(q.pin_id, 'p', sizeof q.pin_id - 1);
    check_request(&q);
}

static void refuse(const Gradus__V1__ExchangeRequest *m, const char *says)
{
    struct err err;
    struct exchange_request got = {.kind = EXCHANGE_SPARE};
    assert_int_equal(wire_request_from_proto(m, &got, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, says));
    assert_int_equal(got.kind, EXCHANGE_SPARE); /* as it was */
}

static void test_requests_that_are_none(void **state)
{
    (void)state;
    const struct exchange_request none = {.kind = EXCHANGE_NONE};
    Gradus__V1__ExchangeRequest *m = sent_request(&none);
    m->exchange = 7;
    refuse(m, "exchange 7: its first message does not say what it is");
    gradus__v1__exchange_request__free_unpacked(m, NULL);
    /* A kind that this build does not know: a field that nobody has. */
    static const uint8_t unknown[] = {0x08, 0x03, 0xF2, 0x01, 0x00};
    m = gradus__v1__exchange_request__unpack(NULL, sizeof unknown, unknown);
    assert_non_null(m);
    refuse(m, "exchange 3: its first message does not say what it is");
    gradus__v1__exchange_request__free_unpacked(m, NULL);

    static uint8_t replicas[EXCHANGE_DECISION_BYTES_MAX + 1];
    struct exchange_request q;
    fill_training(&q, replicas, sizeof replicas);
    m = sent_request(&q);
    refuse(m, "a decision on 8193 bytes of replicas; at most 8192");
    gradus__v1__exchange_request__free_unpacked(m, NULL);
    static const int kinds[] = {-1, 3, 77, INT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        fill_training(&q, replicas, 1);
        q.pull.kind = (enum pull_kind)kinds[i];
        m = sent_request(&q);
        refuse(m, "unknown kind of pull");
        gradus__v1__exchange_request__free_unpacked(m, NULL);
    }
    struct err err;
    assert_int_equal(wire_push_from_proto(NULL, &q, &err), ERR_INVALID);
    assert_int_equal(wire_pull_from_proto(NULL, &q, &err), ERR_INVALID);
}

/* ---- answers ---- */

static int answer(const struct exchange_answer *a, const struct exchange_request *asked,
                  struct exchange_answer *got, struct err *err)
{
    struct wire_answer_room room;
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    wire_answer_to_proto(a, &room, &m);
    return wire_answer_from_proto(&m, asked, got, err);
}

static void test_answers(void **state)
{
    (void)state;
    struct err err;
    struct exchange_answer got;
    const uint8_t replicas[] = {5, 6};
    struct exchange_request asked = {.kind = EXCHANGE_TRAIN, .has_push = true};
    struct exchange_answer a = {.kind = EXCHANGE_TRAIN,
                                .train = {PUSH_DROPPED, 1, 2, 3},
                                .decision = {4, replicas, sizeof replicas}};
    assert_int_equal(answer(&a, &asked, &got, &err), 0);
    assert_int_equal(got.kind, EXCHANGE_TRAIN);
    assert_true(got.train.push == PUSH_DROPPED && got.train.staleness == 1);
    assert_true(got.train.progress == 2 && got.train.clock == 3 && got.decision.step == 4);
    check_bytes(got.decision.replicas, got.decision.bytes, replicas, sizeof replicas);
    asked.has_push = false; /* what was not asked for is not looked at */
    assert_int_equal(answer(&a, &asked, &got, &err), 0);
    assert_true(got.train.push == PUSH_NONE && got.decision.bytes == 0);

    asked = (struct exchange_request){.kind = EXCHANGE_SPARE};
    a = (struct exchange_answer){.kind = EXCHANGE_SPARE, .spare = {true, 7, 8}};
    assert_int_equal(answer(&a, &asked, &got, &err), 0);
    assert_true(got.spare.given && got.spare.replica == 7 && got.spare.wait_ms == 8);

    asked = (struct exchange_request){.kind = EXCHANGE_SUMS, .sums = {9, 10}};
    a = (struct exchange_answer){.kind = EXCHANGE_SUMS,
                                 .sums = {.of = {9, 10}, .data = "sums", .bytes = 4}};
    assert_int_equal(answer(&a, &asked, &got, &err), 0);
    assert_true(got.sums.of.step == 9 && got.sums.of.round == 10);
    assert_true(!got.sums.known && !got.sums.over);
    check_bytes(got.sums.data, got.sums.bytes, "sums", 4);
    a.sums = (struct exchange_sums){.of = {9, 10}, .known = true, .over = true};
    assert_int_equal(answer(&a, &asked, &got, &err), 0);
    assert_true(got.sums.known && got.sums.over && got.sums.bytes == 0);

    static const enum exchange_kind bare[] = {EXCHANGE_PINNED, EXCHANGE_TOTALS, EXCHANGE_ROWS};
    for (size_t kind = 0; kind < sizeof bare / sizeof *bare; kind++) { /* values, or nothing */
        asked = (struct exchange_request){.kind = bare[kind]};
        a = (struct exchange_answer){.kind = asked.kind};
        assert_int_equal(answer(&a, &asked, &got, &err), 0);
        assert_int_equal(got.kind, asked.kind);
    }
}

static void refuse_answer(const struct exchange_answer *a, const struct exchange_request *asked,
                          const char *says)
{
    struct err err;
    struct exchange_answer got = {.kind = EXCHANGE_NONE};
    assert_int_equal(answer(a, asked, &got, &err), ERR_INTERNAL);
    assert_non_null(strstr(err.msg, says));
    assert_int_equal(got.kind, EXCHANGE_NONE);
}

static void test_answers_to_something_else(void **state)
{
    (void)state;
    static const uint8_t replicas[EXCHANGE_DECISION_BYTES_MAX + 1];
    struct exchange_request push = {.kind = EXCHANGE_TRAIN, .has_push = true};
    const struct exchange_request spare = {.kind = EXCHANGE_SPARE};
    const struct exchange_request sums = {.kind = EXCHANGE_SUMS, .sums = {1, 2}};
    struct exchange_answer a = {.kind = EXCHANGE_NONE};
    refuse_answer(&a, &push, "answered something else than was asked");
    refuse_answer(&a, &spare, "did not say whether there is a replica to spare");
    refuse_answer(&a, &sums, "did not answer sums of round 2 of step 1");
    a.kind = EXCHANGE_SPARE;
    refuse_answer(&a, &push, "answered something else");
    refuse_answer(&a, &sums, "did not answer sums");
    a.kind = EXCHANGE_TRAIN;
    refuse_answer(&a, &spare, "did not say whether");
    static const int results[] = {0, 6, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        a.train.push = (enum push_result)results[i];
        refuse_answer(&a, &push, "answered a push with result");
    }
    a.train.push = PUSH_STALE;
    a.decision = (struct exchange_decision){1, replicas, sizeof replicas};
    refuse_answer(&a, &push, "answered a decision of 8193 bytes");
    static const struct exchange_sums wrong[] = {
        {.of = {1, 3}, .data = "x", .bytes = 1}, /* of another round, */
        {.of = {2, 2}, .data = "x", .bytes = 1}, /* of another step, */
        {.of = {1, 2}},                          /* of nothing */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        a = (struct exchange_answer){.kind = EXCHANGE_SUMS, .sums = wrong[i]};
        refuse_answer(&a, &sums, "did not answer sums of round 2 of step 1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_requests_that_are_none),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answers_to_something_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
