/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "host/shared_memory.h"
#include "host/shared_notes.h"

#define NOTES 20000

/* Two mappings of one memory. */
struct sides {
    struct shared_memory *here, *there;
    struct shared_notes put, read;
};

static void sides_make(struct sides *s)
{
    struct err err;
    if (shared_memory_new(10, &s->here, &err) != 0 ||
        shared_memory_open(shared_memory_offer(s->here), 10, &s->there, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_ptr_not_equal(shared_memory_notes(s->here), shared_memory_notes(s->there));
    s->put = (struct shared_notes){.memory = shared_memory_notes(s->here)};
    s->read = (struct shared_notes){.memory = shared_memory_notes(s->there)};
}

static void sides_free(struct sides *s)
{
    shared_memory_unref(s->here);
    shared_memory_unref(s->there);
}

static bool put(struct sides *s, uint64_t number)
{
    return shared_notes_put(&s->put, &number, sizeof number);
}

static uint64_t read_one(struct sides *s)
{
    unsigned char bytes[SHARED_NOTE_BYTES];
    uint64_t number;
    if (!shared_notes_read(&s->read, bytes)) {
        return 0;
    }
    memcpy(&number, bytes, sizeof number);
    return number;
}

static void notes_are_read_in_order_each_once(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    assert_int_equal(read_one(&s), 0);
    uint64_t next = 1, read = 1;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < SHARED_NOTES_MAX; i++) {
            assert_true(put(&s, next++));
        }
        assert_false(put(&s, 99)); /* there is no room, and nothing is overwritten */
        assert_int_equal(read_one(&s), read++);
        assert_true(put(&s, next++));
        assert_false(put(&s, 99));
        while (read < next) {
            assert_int_equal(read_one(&s), read++);
        }
        assert_int_equal(read_one(&s), 0);
    }
    sides_free(&s);
}

/* All of a note, and nothing of its neighbours. */
static void a_note_is_whole(void **state)
{
    (void)state;
    struct sides s;
    unsigned char out[SHARED_NOTE_BYTES], in[SHARED_NOTE_BYTES];
    sides_make(&s);
    for (int i = 0; i < SHARED_NOTES_MAX; i++) {
        memset(out, i + 1, sizeof out);
        assert_true(shared_notes_put(&s.put, out, sizeof out));
    }
    for (int i = 0; i < SHARED_NOTES_MAX; i++) {
        memset(out, i + 1, sizeof out);
        assert_true(shared_notes_read(&s.read, in));
        assert_memory_equal(in, out, sizeof in);
    }
    sides_free(&s);
}

static void word_goes_back(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    assert_int_equal(shared_notes_word(&s.put), 0);
    shared_notes_say(&s.read, UINT64_C(1) << 40);
    assert_int_equal(shared_notes_word(&s.put), UINT64_C(1) << 40);
    sides_free(&s);
}

/* A bell rings once for each time that it is awaited, or when its own side says so. */
static void bells_ring_for_who_waits(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    const uint32_t note = shared_notes_rung(&s.read, SHARED_NOTES_PUT);
    const uint32_t word = shared_notes_rung(&s.put, SHARED_NOTES_WORD);
    assert_true(put(&s, 1));
    shared_notes_say(&s.read, 1);
    assert_int_equal(shared_notes_rung(&s.read, SHARED_NOTES_PUT), note);
    assert_int_equal(shared_notes_rung(&s.put, SHARED_NOTES_WORD), word);
    shared_notes_await(&s.read, SHARED_NOTES_PUT);
    shared_notes_await(&s.put, SHARED_NOTES_WORD);
    for (uint64_t i = 2; i < 4; i++) {
        assert_true(put(&s, i));
        shared_notes_say(&s.read, i);
        assert_int_equal(shared_notes_rung(&s.read, SHARED_NOTES_PUT), note + 1);
        assert_int_equal(shared_notes_rung(&s.put, SHARED_NOTES_WORD), word + 1);
    }
    shared_notes_wait(&s.read, SHARED_NOTES_PUT, note); /* it has rung: nobody waits */
    shared_notes_ring(&s.put, SHARED_NOTES_WORD);
    assert_int_equal(shared_notes_rung(&s.put, SHARED_NOTES_WORD), word + 2);
    sides_free(&s);
}

/* The next note; waits for it. */
static uint64_t wait_note(struct sides *s)
{
    for (;;) {
        const uint32_t rung = shared_notes_rung(&s->read, SHARED_NOTES_PUT);
        shared_notes_await(&s->read, SHARED_NOTES_PUT);
        const uint64_t number = read_one(s);
        if (number != 0) {
            return number;
        }
        shared_notes_wait(&s->read, SHARED_NOTES_PUT, rung);
    }
}

static void *read_all(void *ctx)
{
    struct sides *s = ctx;
    for (uint64_t i = 1; i <= NOTES; i++) {
        if (wait_note(s) != i) {
            shared_notes_say(&s->read, UINT64_MAX);
            return NULL;
        }
        shared_notes_say(&s->read, i);
    }
    return NULL;
}

/* Both sides sleep again and again, and neither is forgotten. */
static void nobody_is_left_waiting(void **state)
{
    (void)state;
    struct sides s;
    pthread_t reader;
    sides_make(&s);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &s), 0);
    for (uint64_t i = 1; i <= NOTES; i++) {
        assert_true(put(&s, i));
        for (;;) {
            const uint32_t rung = shared_notes_rung(&s.put, SHARED_NOTES_WORD);
            shared_notes_await(&s.put, SHARED_NOTES_WORD);
            if (shared_notes_word(&s.put) >= i) {
                break;
            }
            shared_notes_wait(&s.put, SHARED_NOTES_WORD, rung);
        }
        assert_int_equal(shared_notes_word(&s.put), i);
    }
    assert_int_equal(pthread_join(reader, NULL), 0);
    sides_free(&s);
}

/* What the other side writes breaks nothing. */
static void nonsense_is_read_as_notes(void **state)
{
    (void)state;
    struct sides s;
    unsigned char bytes[SHARED_NOTE_BYTES];
    sides_make(&s);
    memset(shared_memory_notes(s.here), 0xff, SHARED_NOTES_BYTES);
    for (int i = 0; i < 100; i++) {
        assert_true(shared_notes_read(&s.read, bytes));
    }
    memset(shared_memory_notes(s.there), 0xff, SHARED_NOTES_BYTES);
    assert_true(put(&s, 1)); /* as if many were read that were not put */
    sides_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_are_read_in_order_each_once),
        cmocka_unit_test(a_note_is_whole),
        cmocka_unit_test(word_goes_back),
        cmocka_unit_test(bells_ring_for_who_waits),
        cmocka_unit_test(nobody_is_left_waiting),
        cmocka_unit_test(nonsense_is_read_as_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
