/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a received message, whose bytes may be cut into slices anywhere. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/rpc_codec.h"
#include "wire/wire_values.h"

#define VALUES 9
#define GUARD 77.0F

/* Numbers that all types have. */
static const float NUMBERS[VALUES] = {1, -2, 0.5F, 96, -0.25F, 3, 1024, -7, 0.125F};

/* The bytes of NUMBERS, each slice in memory of its own, so that reading past its end is seen. */
struct sliced {
    struct rpc_piece pieces[VALUES * sizeof(float)];
    unsigned char *slices[VALUES * sizeof(float)];
    size_t count;
    struct rpc_spans spans;
};

/* The first slice has @first bytes, all others @others. */
static void cut(struct sliced *s, enum value_type type, size_t first, size_t others)
{
    unsigned char bytes[sizeof NUMBERS];
    const size_t n = VALUES * (type == VALUE_FP32 ? sizeof(float) : sizeof(uint16_t));
    values_encode(type, NUMBERS, VALUES, bytes);
    s->count = 0;
    for (size_t at = 0, size = first; at < n; at += size, size = others) {
        size = size < n - at ? size : n - at;
        unsigned char *slice = malloc(size);
        assert_non_null(slice);
        memcpy(slice, bytes + at, size);
        s->slices[s->count] = slice;
        s->pieces[s->count++] = (struct rpc_piece){slice, size};
    }
    rpc_spans_init(&s->spans, s->pieces, s->count, 0, n);
}

static void drop(struct sliced *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->slices[i]);
    }
}

/* In two goes, the first of @part values: each has its own and nothing of what is behind it. */
static void read_in_parts(enum value_type type, size_t first, size_t others, size_t part)
{
    struct sliced s;
    float out[VALUES + 1];
    cut(&s, type, first, others);
    for (size_t i = 0; i <= VALUES; i++) {
        out[i] = GUARD;
    }
    assert_true(wire_values_read(&s.spans, type, out, part));
    assert_memory_equal(out, NUMBERS, part * sizeof *out);
    assert_true(out[part] == GUARD);
    assert_false(wire_values_read(&s.spans, type, out + part, VALUES - part + 1));
    assert_true(out[part] == GUARD); /* and nothing moved */
    assert_true(wire_values_read(&s.spans, type, out + part, VALUES - part));
    assert_memory_equal(out, NUMBERS, sizeof NUMBERS);
    assert_true(out[VALUES] == GUARD);
    assert_int_equal(rpc_spans_left(&s.spans), 0);
    assert_true(wire_values_read(&s.spans, type, out, 0));
    assert_false(wire_values_read(&s.spans, type, out, 1));
    drop(&s);
}

static void test_slices_end_anywhere(void **state)
{
    (void)state;
    static const enum value_type TYPES[] = {VALUE_FP32, VALUE_FP16, VALUE_BF16};
    for (size_t t = 0; t < sizeof TYPES / sizeof TYPES[0]; t++) {
        for (size_t first = 1; first < 8; first++) {
            for (size_t others = 1; others < 8; others++) {
                for (size_t part = 0; part <= VALUES; part++) {
                    read_in_parts(TYPES[t], first, others, part);
                }
            }
        }
        read_in_parts(TYPES[t], sizeof NUMBERS, 1, 4); /* one slice */
    }
}

/* An odd byte at the end is no value. */
static void test_half_a_value_is_none(void **state)
{
    (void)state;
    const unsigned char bytes[3] = {0, 0x3c, 0};
    const struct rpc_piece piece = {bytes, sizeof bytes};
    struct rpc_spans spans;
    float out[2] = {GUARD, GUARD};
    rpc_spans_init(&spans, &piece, 1, 0, sizeof bytes);
    assert_false(wire_values_read(&spans, VALUE_FP16, out, 2));
    assert_int_equal(rpc_spans_left(&spans), 3);
    assert_true(wire_values_read(&spans, VALUE_FP16, out, 1));
    assert_true(out[0] == 1.0F && out[1] == GUARD);
    assert_int_equal(rpc_spans_left(&spans), 1);
}

static void test_types(void **state)
{
    (void)state;
    enum value_type type = VALUE_FP32;
    struct err err = {0};
    assert_int_equal(wire_type_from_proto(GRADUS__V1__WIRE_TYPE__BF16, &type, &err), 0);
    assert_int_equal(type, VALUE_BF16);
    for (int i = 0; i < 2; i++) {
        const int number = i == 0 ? -1 : VALUE_TYPES;
        assert_int_equal(wire_type_from_proto((Gradus__V1__WireType)number, &type, &err),
                         ERR_INVALID);
        assert_non_null(strstr(err.msg, i == 0 ? "unknown type -1" : "unknown type 3"));
        assert_int_equal(type, VALUE_BF16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices_end_anywhere),
        cmocka_unit_test(test_half_a_value_is_none),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
