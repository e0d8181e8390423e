/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in pieces of any size, without a network. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_codec.h"
#include "support/echo_service.h"

/* ---- a wire message cut into pieces, each in memory of its own ---- */

struct cut {
    struct rpc_piece *pieces;
    size_t count;
    unsigned released;
};

static uint64_t random_below(uint64_t n)
{
    static uint64_t state = 88172645463325252u; /* xorshift64, Marsaglia 2003 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* Pieces of 0 to @piece_max bytes, at addresses with any alignment. */
static void cut_init(struct cut *c, const unsigned char *wire, size_t bytes, size_t piece_max)
{
    *c = (struct cut){0};
    size_t capacity = 0;
    for (size_t at = 0; at < bytes;) {
        size_t n = (size_t)random_below(piece_max + 1);
        n = n < bytes - at ? n : bytes - at;
        size_t shift = (size_t)random_below(8);
        unsigned char *copy = malloc(n + shift + 1);
        assert_non_null(copy);
        memcpy(copy + shift, wire + at, n);
        memset(copy, (int)shift, shift); /* the distance to the start of the block */
        c->pieces = mem_grow(c->pieces, &capacity, c->count + 1, sizeof(*c->pieces));
        c->pieces[c->count++] = (struct rpc_piece){.data = copy + shift, .bytes = n};
        at += n;
    }
}

static void cut_free(struct cut *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const unsigned char *data = c->pieces[i].data;
        /* malloc() aligns to 16, and the shift is below 8. */
        free((void *)((uintptr_t)data & ~(uintptr_t)15));
    }
    free(c->pieces);
}

static void count_release(void *ctx)
{
    struct cut *c = ctx;
    c->released++;
}

static struct rpc_msg *decode_cut(struct cut *c, size_t bytes, const struct rpc_decoding *how,
                                  struct err *err)
{
    struct rpc_frame frame = {.pieces = c->pieces,
                              .piece_count = c->count,
                              .bytes = bytes,
                              .release = count_release,
                              .ctx = c};
    return rpc_msg_decode(how, &frame, err);
}

static const struct rpc_decoding item_with_bulk = {.type = &gradus__test__item__descriptor,
                                                   .bulk_field = ECHO_BULK_FIELD};
static const struct rpc_decoding item_plain = {.type = &gradus__test__item__descriptor};

/* An item whose head is @item and whose bulk field is @bulk; returns owned. */
static unsigned char *wire_of(const echo_item *item, const void *bulk, size_t bulk_bytes,
                              size_t *bytes)
{
    size_t head = rpc_head_bytes(&item->base, ECHO_BULK_FIELD, bulk_bytes);
    unsigned char *wire = mem_new(head + bulk_bytes, 1);
    rpc_head_write(&item->base, ECHO_BULK_FIELD, bulk_bytes, wire);
    if (bulk_bytes > 0) {
        memcpy(wire + head, bulk, bulk_bytes);
    }
    *bytes = head + bulk_bytes;
    return wire;
}

/* ---- whole messages ---- */

/* However it is cut, head and bulk arrive, the same as protobuf-c's own decoder sees. */
static void test_random_cuts(void **state)
{
    (void)state;
    char text[] = "some text that straddles pieces";
    unsigned char bulk[3000];
    for (size_t i = 0; i < sizeof(bulk); i++) {
        bulk[i] = (unsigned char)random_below(256);
    }
    for (unsigned round = 0; round < 1000; round++) {
        echo_item item = GRADUS__TEST__ITEM__INIT;
        item.text = text;
        item.number = random_below(UINT64_MAX);
        size_t bulk_bytes = (size_t)random_below(sizeof(bulk) + 1);
        size_t bytes = 0;
        unsigned char *wire = wire_of(&item, bulk, bulk_bytes, &bytes);

        echo_item *flat = gradus__test__item__unpack(NULL, bytes, wire);
        assert_non_null(flat);
        assert_int_equal(flat->bulk.len, bulk_bytes);
        gradus__test__item__free_unpacked(flat, NULL);

        struct cut cut;
        cut_init(&cut, wire, bytes, round % 2 ? 7 : 900);
        struct err err = {0};
        struct rpc_msg *msg = decode_cut(&cut, bytes, &item_with_bulk, &err);
        assert_non_null(msg);
        assert_int_equal(msg->wire_bytes, bytes);
        const echo_item *head = (const echo_item *)msg->body;
        assert_string_equal(head->text, text);
        assert_int_equal(head->number, item.number);
        assert_int_equal(head->bulk.len, 0);
        assert_int_equal(rpc_spans_bytes(msg->bulk), bulk_bytes);
        unsigned char back[sizeof(bulk)];
        assert_true(rpc_spans_read(msg->bulk, back, bulk_bytes));
        assert_memory_equal(back, bulk, bulk_bytes);
        assert_false(rpc_spans_read(msg->bulk, back, 1));
        rpc_msg_unref(rpc_msg_ref(msg));
        rpc_msg_unref(msg);
        assert_int_equal(cut.released, 1);

        msg = decode_cut(&cut, bytes, &item_plain, &err);
        assert_non_null(msg);
        assert_null(msg->bulk);
        assert_int_equal(((const echo_item *)msg->body)->bulk.len, bulk_bytes);
        rpc_msg_unref(msg);
        assert_int_equal(cut.released, 2);
        cut_free(&cut);
        free(wire);
    }
}

static void test_bulk_anywhere(void **state)
{
    (void)state;
    /* bulk "old", text "a", bulk "new", number 5, an unknown field of each wire type */
    static const unsigned char wire[] = {0x7a, 3,   'o', 'l',  'd',  0x0a, 1, 'a',  0x7a, 3,
                                         'n',  'e', 'w', 0x10, 5,    0xa0, 6, 0x96, 1,    0xa9,
                                         6,    1,   2,   3,    4,    5,    6, 7,    8,    0xb2,
                                         6,    2,   'x', 'y',  0xbd, 6,    1, 2,    3,    4};
    struct rpc_piece piece = {wire, sizeof(wire)};
    struct rpc_frame frame = {.pieces = &piece, .piece_count = 1, .bytes = sizeof(wire)};
    struct err err = {0};
    struct rpc_msg *msg = rpc_msg_decode(&item_with_bulk, &frame, &err);
    assert_string_equal(err.msg, "");
    assert_non_null(msg);
    const echo_item *item = (const echo_item *)msg->body;
    assert_string_equal(item->text, "a");
    assert_int_equal(item->number, 5);
    assert_int_equal(item->base.n_unknown_fields, 4);
    char bulk[4] = "";
    assert_int_equal(rpc_spans_bytes(msg->bulk), 3);
    assert_true(rpc_spans_read(msg->bulk, bulk, 3));
    assert_string_equal(bulk, "new");
    rpc_msg_unref(msg);
}

/* Every cut-off prefix and every changed byte gives a message or an error, never more. */
static void test_garbage(void **state)
{
    (void)state;
    char key[] = "k";
    Gradus__Test__Pair pair = GRADUS__TEST__PAIR__INIT;
    pair.key = key;
    pair.value = 300;
    Gradus__Test__Pair *pairs[] = {&pair, &pair};
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = key;
    item.pairs = pairs;
    item.n_pairs = 2;
    size_t bytes = 0;
    unsigned char *wire = wire_of(&item, "0123456789", 10, &bytes);
    unsigned refused = 0;
    for (size_t i = 0; i <= bytes; i++) {
        for (unsigned change = 0; change < 256; change++) {
            unsigned char *copy = malloc(bytes + 1); /* exact, so that a sanitizer sees overruns */
            assert_non_null(copy);
            size_t n = change == 0 ? i : bytes;
            memcpy(copy, wire, n);
            if (i < n) {
                copy[i] ^= (unsigned char)change;
            }
            struct cut cut;
            cut_init(&cut, copy, n, 5);
            struct err err = {0};
            struct rpc_msg *msg = decode_cut(&cut, n, &item_with_bulk, &err);
            if (!msg) {
                refused++;
                assert_true(err.code == ERR_INVALID || err.code == ERR_EXHAUSTED);
                assert_true(err.msg[0] != '\0');
            }
            rpc_msg_unref(msg);
            assert_int_equal(cut.released, 1);
            cut_free(&cut);
            free(copy);
        }
    }
    assert_true(refused > 1000);
    free(wire);

    static const char *const bad[] = {
        "\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", /* a length of 10 bytes */
        "\x7a\xff\xff\xff\xff\x7f",                     /* longer than the message */
        "\x7b\x7c",                                     /* a group */
        "\x07",                                         /* field 0, reserved type */
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"  /* a tag without end */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rpc_piece piece = {bad[i], strlen(bad[i])};
        struct rpc_frame frame = {.pieces = &piece, .piece_count = 1, .bytes = piece.bytes};
        struct err err = {0};
        assert_null(rpc_msg_decode(&item_with_bulk, &frame, &err));
        assert_int_equal(err.code, ERR_INVALID);
        assert_non_null(strstr(err.msg, "malformed field at byte 0"));
        assert_null(rpc_msg_decode(&item_plain, &frame, &err));
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_empty(void **state)
{
    (void)state;
    struct rpc_frame frame = {0};
    struct err err = {0};
    struct rpc_msg *msg = rpc_msg_decode(&item_with_bulk, &frame, &err);
    assert_non_null(msg);
    assert_int_equal(rpc_spans_left(msg->bulk), 0);
    const unsigned char *data = NULL;
    size_t n = 0;
    assert_false(rpc_spans_next(msg->bulk, &data, &n));
    rpc_msg_unref(msg);
    msg = rpc_msg_decode(&item_plain, &frame, &err);
    assert_non_null(msg);
    assert_string_equal(((const echo_item *)msg->body)->text, "");
    rpc_msg_unref(msg);
}

/* ---- spans ---- */

struct run {
    const float *expected;
    size_t next;
};

static void check_run(void *ctx, size_t index, const float *values, size_t n)
{
    struct run *r = ctx;
    assert_int_equal(index, r->next);
    assert_true(n > 0);
    assert_int_equal((uintptr_t)values % _Alignof(float), 0);
    assert_memory_equal(values, r->expected + index, n * sizeof(float));
    r->next += n;
}

static void test_floats(void **state)
{
    (void)state;
    enum { N = 5000 };
    float values[N];
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)i * 0.37f - 11.0f;
    }
    for (unsigned round = 0; round < 300; round++) {
        size_t count = 1 + (size_t)random_below(N);
        size_t prefix = (size_t)random_below(9);
        unsigned char *wire = mem_new(prefix + count * sizeof(float), 1);
        memcpy(wire + prefix, values, count * sizeof(float));
        struct cut cut;
        size_t bytes = prefix + count * sizeof(float);
        cut_init(&cut, wire, bytes, round % 3 == 0 ? 3 : round % 3 == 1 ? 90 : 9000);
        struct rpc_spans s;
        rpc_spans_init(&s, cut.pieces, cut.count, prefix, count * sizeof(float));

        struct run run = {.expected = values};
        assert_false(rpc_spans_each_floats(&s, count + 1, check_run, &run));
        assert_int_equal(run.next, 0);
        size_t part = (size_t)random_below(count + 1);
        assert_true(rpc_spans_each_floats(&s, part, check_run, &run));
        assert_int_equal(run.next, part);
        struct run rest = {.expected = values + part};
        assert_true(rpc_spans_each_floats(&s, count - part, check_run, &rest));
        assert_int_equal(rpc_spans_left(&s), 0);

        rpc_spans_rewind(&s);
        float back[N];
        assert_false(rpc_spans_read_floats(&s, back, SIZE_MAX / 2));
        assert_true(rpc_spans_read_floats(&s, back, count));
        assert_memory_equal(back, values, count * sizeof(float));

        rpc_spans_rewind(&s);
        assert_false(rpc_spans_skip(&s, count * sizeof(float) + 1));
        assert_true(rpc_spans_skip(&s, (count - 1) * sizeof(float)));
        assert_true(rpc_spans_read_floats(&s, back, 1));
        assert_memory_equal(back, &values[count - 1], sizeof(float));

        rpc_spans_rewind(&s);
        const unsigned char *data = NULL;
        size_t n = 0;
        size_t total = 0;
        while (rpc_spans_next(&s, &data, &n)) {
            assert_true(n > 0);
            assert_memory_equal(data, (const unsigned char *)values + total, n);
            total += n;
        }
        assert_int_equal(total, count * sizeof(float));
        cut_free(&cut);
        free(wire);
    }
}

/* ---- limits ---- */

static void test_account(void **state)
{
    (void)state;
    struct rpc_account *account = rpc_account_new(5000);
    struct rpc_decoding how = {.type = &gradus__test__item__descriptor, .account = account};
    static const unsigned char wire[] = {0x0a, 8, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
    struct rpc_piece piece = {wire, sizeof(wire)};
    struct rpc_frame frame = {.pieces = &piece, .piece_count = 1, .bytes = sizeof(wire)};
    struct err err = {0};
    struct rpc_msg *first = rpc_msg_decode(&how, &frame, &err);
    size_t one = atomic_load(&account->bytes); /* the message, and the memory of its body */
    assert_true(one > 10 + sizeof(Gradus__Test__Item) && one < 2500);
    struct rpc_msg *second = rpc_msg_decode(&how, &frame, &err);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal(atomic_load(&account->bytes), 2 * one);
    assert_null(rpc_msg_decode(&how, &frame, &err));
    assert_int_equal(err.code, ERR_EXHAUSTED);
    rpc_msg_unref(first);
    frame.bytes = piece.bytes = 9; /* cut off: counted, refused, given back */
    assert_null(rpc_msg_decode(&how, &frame, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(atomic_load(&account->bytes), one);
    rpc_msg_uncount(second);
    assert_int_equal(atomic_load(&account->bytes), 0);
    rpc_account_unref(account); /* the message keeps it */
    rpc_msg_unref(second);
}

static void test_arena(void **state)
{
    (void)state;
    struct rpc_arena a;
    rpc_arena_init(&a, 100000, NULL);
    unsigned char *blocks[40];
    for (size_t i = 0; i < 40; i++) {
        blocks[i] = rpc_arena_alloc(&a, i * 50);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        memset(blocks[i], (int)i, i * 50);
    }
    for (size_t i = 0; i < 40; i++) {
        for (size_t k = 0; k < i * 50; k++) {
            assert_int_equal(blocks[i][k], i);
        }
    }
    assert_false(a.exceeded);
    assert_null(rpc_arena_alloc(&a, 100000));
    assert_null(rpc_arena_alloc(&a, SIZE_MAX));
    assert_true(a.exceeded);
    assert_non_null(rpc_arena_alloc(&a, 1000));
    rpc_arena_release(&a);
    rpc_arena_release(&a); /* there is nothing any more */
}

static void test_varint(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        size_t bytes;
    } rows[] = {{0, 1}, {127, 1}, {128, 2}, {16383, 2}, {16384, 3}, {UINT64_MAX, 10}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char out[10];
        assert_int_equal(rpc_varint_bytes(rows[i].value), rows[i].bytes);
        assert_int_equal(rpc_varint_write(out, rows[i].value), rows[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_cuts), cmocka_unit_test(test_bulk_anywhere),
        cmocka_unit_test(test_garbage),     cmocka_unit_test(test_empty),
        cmocka_unit_test(test_floats),      cmocka_unit_test(test_account),
        cmocka_unit_test(test_arena),       cmocka_unit_test(test_varint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
