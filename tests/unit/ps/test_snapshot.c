/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <string.h>

#include "ps/data/snapshot.h"
#include "support/wait_until.h"

static unsigned freed_count;

static void freed(void *ctx)
{
    (void)ctx;
    freed_count++;
}

static void start(struct snapshots *s, struct budget *b, uint64_t elements)
{
    struct err err;
    freed_count = 0;
    assert_int_equal(snapshots_init(s, elements, VALUE_FP32, 0, b, freed, NULL, &err), 0);
}

static void update(struct snapshots *s)
{
    assert_true(snapshots_can_update(s));
    struct snapshot *next = snapshots_begin(s);
    for (uint64_t i = 0; i < s->elements; i++) {
        next->values.data[i] = s->present->values.data[i] + 1;
    }
    snapshots_commit(s, next);
}

static void test_two_buffers_are_enough(void **state)
{
    (void)state;
    struct budget b = {0};
    struct snapshots s;
    struct snapshots_usage usage;
    start(&s, &b, 4);
    for (unsigned i = 0; i < 10; i++) {
        update(&s);
        assert_int_equal(s.present->version, i + 1);
        assert_int_equal(s.previous->version, i);
        assert_true(s.present->values.data[3] == (float)(i + 1));
        assert_true(s.previous->values.data[3] == (float)i);
    }
    snapshots_usage(&s, &usage);
    assert_int_equal(usage.buffers, 2);
    assert_int_equal(usage.held, 2);
    snapshots_release(&s);
    assert_int_equal(b.bytes, 0);
}

static void test_readers_keep_their_version(void **state)
{
    (void)state;
    struct budget b = {0};
    struct snapshots s;
    struct snapshots_usage usage;
    start(&s, &b, 4);
    struct snapshot *old = snapshot_acquire(&s, 0);
    for (unsigned i = 0; i < 5; i++) {
        update(&s);
        assert_int_equal(old->version, 0);
        assert_true(old->values.data[0] == 0);
    }
    snapshots_usage(&s, &usage);
    assert_int_equal(usage.buffers, 3);
    assert_null(snapshots_find(&s, 2));
    assert_ptr_equal(snapshots_find(&s, 0), old);
    snapshot_release(old);
    assert_null(snapshots_find(&s, 0));
    update(&s);
    snapshots_release(&s);
}

static void test_updates_wait_when_all_is_read(void **state)
{
    (void)state;
    struct budget b = {0};
    struct snapshots s;
    struct snapshot *readers[SNAPSHOT_BUFFERS_MAX];
    start(&s, &b, 4);
    for (unsigned i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        readers[i] = snapshot_acquire(&s, i);
        if (i + 1 < SNAPSHOT_BUFFERS_MAX) {
            update(&s);
        }
    }
    assert_false(snapshots_can_update(&s));
    snapshots_want(&s);
    assert_int_equal(freed_count, 0);
    snapshot_release(readers[3]);
    assert_int_equal(freed_count, 1);
    assert_true(snapshots_can_update(&s));
    snapshots_want(&s); /* there is one: told at once */
    assert_int_equal(freed_count, 2);
    snapshot_release(readers[4]); /* nobody asked */
    assert_int_equal(freed_count, 2);
    update(&s);
    struct snapshot *before = snapshot_acquire(&s, SNAPSHOT_BUFFERS_MAX);
    update(&s);
    assert_false(snapshots_can_update(&s));
    snapshots_want(&s);
    assert_int_equal(freed_count, 2);
    snapshot_release(before); /* the hold that is left on it is given up by an update */
    assert_int_equal(freed_count, 3);
    assert_true(snapshots_can_update(&s));
    for (unsigned i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        if (i != 3 && i != 4) {
            snapshot_release(readers[i]);
        }
    }
    snapshots_release(&s);
}

static void test_the_budget_bounds_buffers(void **state)
{
    (void)state;
    struct budget b = {.bytes_max = 2 * 4096 * sizeof(float)};
    struct snapshots s;
    struct err err;
    assert_int_equal(snapshots_init(&s, 4097, VALUE_FP32, 0, &b, freed, NULL, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "16388 bytes are too many: 16388 are in use"));
    assert_int_equal(b.bytes, 0);
    start(&s, &b, 4096);
    struct snapshot *old = snapshot_acquire(&s, 0);
    update(&s);
    assert_false(snapshots_can_update(&s));
    snapshot_release(old);
    assert_true(snapshots_can_update(&s));
    snapshots_release(&s);
}

/* Versions that are kept take no buffer away from slow readers, however many they are. */
static void test_kept_versions_have_room(void **state)
{
    (void)state;
    struct budget b = {0};
    struct snapshots s;
    struct snapshots_usage usage;
    start(&s, &b, 4);
    for (unsigned i = 0; i < 100; i++) {
        snapshot_keep(&s, i);
        update(&s);
    }
    snapshots_usage(&s, &usage);
    assert_int_equal(usage.held, 101); /* the previous one is kept, too */
    for (unsigned i = 0; i < 100; i++) {
        struct snapshot *item = snapshots_find(&s, i);
        assert_non_null(item);
        assert_true(item->values.data[2] == (float)i);
    }
    struct snapshot *readers[SNAPSHOT_BUFFERS_MAX];
    size_t reading = 0;
    while (snapshots_can_update(&s)) {
        assert_true(reading < SNAPSHOT_BUFFERS_MAX);
        readers[reading++] = snapshot_acquire(&s, s.present->version);
        update(&s);
    }
    assert_int_equal(reading, SNAPSHOT_BUFFERS_MAX - 1);
    snapshots_want(&s);
    snapshot_forget(&s, 17);
    assert_int_equal(freed_count, 1);
    assert_null(snapshots_find(&s, 17));
    update(&s);
    while (reading > 0) {
        snapshot_release(readers[--reading]);
    }
    snapshot_keep(&s, 3); /* twice */
    snapshot_forget(&s, 3);
    assert_non_null(snapshots_find(&s, 3));
    snapshots_release(&s);
    assert_int_equal(b.bytes, 0);
}

/* Every worker's base at once and no memory besides: updates never wait, whoever pushes next. */
static void test_reserved_memory_is_enough(void **state)
{
    (void)state;
    enum { WORKERS = 5, FLOATS = 1 << 17 }; /* large enough to be staggered */
    struct budget b = {.bytes_max = (2 + WORKERS) * floats_bytes_max(FLOATS)};
    struct snapshots s;
    struct snapshots_usage usage;
    struct err err;
    start(&s, &b, FLOATS);
    assert_int_equal(snapshots_reserve(&s, WORKERS + 1, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "versions that are kept"));
    assert_int_equal(snapshots_reserve(&s, WORKERS, &err), 0);
    uint64_t bases[WORKERS] = {0};
    for (unsigned i = 0; i < WORKERS; i++) {
        snapshot_keep(&s, 0);
    }
    b.bytes_max = b.bytes; /* what is left is somebody else's now */
    for (unsigned i = 0; i < 40; i++) {
        unsigned worker = i * 7 % WORKERS;
        update(&s);
        snapshot_forget(&s, bases[worker]);
        bases[worker] = s.present->version;
        snapshot_keep(&s, bases[worker]);
    }
    snapshots_usage(&s, &usage);
    assert_int_equal(usage.buffers, 2 + WORKERS - 1); /* the present one is always a base */
    assert_int_equal(usage.bytes, b.bytes);
    /* The next generation has two workers: what is free is returned, what is kept is not. */
    assert_int_equal(snapshots_reserve(&s, 2, &err), 0);
    snapshots_usage(&s, &usage);
    assert_int_equal(usage.buffers, usage.held);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_non_null(snapshots_find(&s, bases[i]));
        snapshot_forget(&s, bases[i]);
    }
    assert_int_equal(snapshots_reserve(&s, 0, &err), 0);
    snapshots_usage(&s, &usage);
    assert_int_equal(usage.buffers, 2);
    assert_int_equal(usage.bytes, b.bytes);
    update(&s);
    snapshots_release(&s);
    assert_int_equal(b.bytes, 0);
}

static void test_large_arrays_are_staggered(void **state)
{
    (void)state;
    struct budget b = {0};
    struct floats f[8];
    struct err err;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(floats_init(&f[i], 1 << 20, i, &b, "x", &err), 0);
        assert_int_equal((uintptr_t)f[i].data % 64, 0);
        uintptr_t in_page = ((uintptr_t)f[i].data - (uintptr_t)f[i].memory) % 65536;
        assert_int_equal(in_page, i * (4096 + 256) % 65536);
    }
    for (unsigned i = 0; i < 8; i++) {
        floats_release(&f[i], &b);
    }
    assert_int_equal(floats_init(&f[0], UINT64_MAX, 0, &b, "x", &err), ERR_EXHAUSTED);
    assert_int_equal(b.bytes, 0);
}

/* ---- readers on other threads ---- */

#define READERS 3
#define UPDATES 3000
#define WIDE 1000

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct snapshot *given[READERS];
    bool over;
} desk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *read_all(void *arg)
{
    struct snapshot **mine = arg;
    for (;;) {
        pthread_mutex_lock(&desk.lock);
        wait_until_signalled(*mine != NULL || desk.over, &desk.changed, &desk.lock);
        struct snapshot *snapshot = *mine;
        *mine = NULL;
        pthread_mutex_unlock(&desk.lock);
        if (snapshot == NULL) {
            return NULL;
        }
        const float *values = snapshot->values.data;
        for (size_t i = 0; i < WIDE; i++) {
            assert_true(values[i] == (float)snapshot->version); /* never a mix */
        }
        snapshot_release(snapshot);
    }
}

static void test_no_reader_sees_a_mix(void **state)
{
    (void)state;
    struct budget b = {0};
    struct snapshots s;
    pthread_t threads[READERS];
    start(&s, &b, WIDE);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &desk.given[i]), 0);
    }
    for (unsigned n = 0; n < UPDATES; n++) {
        wait_until(snapshots_can_update(&s));
        update(&s);
        pthread_mutex_lock(&desk.lock);
        struct snapshot **free_place = &desk.given[n % READERS];
        if (*free_place == NULL) {
            *free_place = snapshot_acquire(&s, s.present->version - n % 2);
            pthread_cond_broadcast(&desk.changed);
        }
        pthread_mutex_unlock(&desk.lock);
    }
    pthread_mutex_lock(&desk.lock);
    desk.over = true;
    pthread_cond_broadcast(&desk.changed);
    pthread_mutex_unlock(&desk.lock);
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    snapshots_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_buffers_are_enough),
        cmocka_unit_test(test_readers_keep_their_version),
        cmocka_unit_test(test_updates_wait_when_all_is_read),
        cmocka_unit_test(test_the_budget_bounds_buffers),
        cmocka_unit_test(test_kept_versions_have_room),
        cmocka_unit_test(test_reserved_memory_is_enough),
        cmocka_unit_test(test_large_arrays_are_staggered),
        cmocka_unit_test(test_no_reader_sees_a_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
