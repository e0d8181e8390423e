/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/shared_memory.h"

#define ELEMENTS 5003 /* no multiple of anything */

/* Stands in front of the C library's: counts, and fails when there is to be no memory. */
static int reservations;
static bool no_memory;

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    if (no_memory) {
        errno = ENOSPC;
        return -1;
    }
    reservations++;
    return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

static void open_well(const struct shared_memory_offer *offer, struct shared_memory **out)
{
    struct err err;
    if (shared_memory_open(offer, ELEMENTS, out, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static void make(struct shared_memory **out)
{
    struct err err;
    if (shared_memory_new(ELEMENTS, out, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static void both_sides_see_the_same(void **state)
{
    (void)state;
    struct shared_memory *worker, *server;
    make(&worker);
    open_well(shared_memory_offer(worker), &server);
    uint32_t g = shared_memory_take_gradient(worker);
    uint32_t v = shared_memory_take_values(worker);
    assert_true(g != SHARED_MEMORY_NONE && v != SHARED_MEMORY_NONE);
    for (size_t i = 0; i < ELEMENTS; i++) {
        shared_memory_gradient(worker, g)[i] = (float)i;
        shared_memory_values(server, v)[i] = (float)i + 0.5F;
    }
    assert_true(shared_memory_hold_gradient(server, g));
    assert_true(shared_memory_has_values(server, v));
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_true(shared_memory_gradient(server, g)[i] == (float)i);
        assert_true(shared_memory_values(worker, v)[i] == (float)i + 0.5F);
    }
    shared_memory_unref(worker); /* what the server holds stays */
    assert_true(shared_memory_gradient(server, g)[ELEMENTS - 1] == (float)(ELEMENTS - 1));
    shared_memory_give_gradient(server, g);
    shared_memory_unref(server);
}

/* How far a block is filled: seen by the worker, of one use of it, and never more than there is. */
static void a_bell_tells_how_far_a_block_is(void **state)
{
    (void)state;
    struct shared_memory *worker, *server;
    make(&worker);
    open_well(shared_memory_offer(worker), &server);
    const uint32_t a = shared_memory_take_values(worker), b = shared_memory_take_values(worker);
    assert_true(a != SHARED_MEMORY_NONE && b != SHARED_MEMORY_NONE);
    shared_memory_tell_filled(server, a, 1);
    assert_int_equal(shared_memory_filled(worker, a), 1);
    assert_int_equal(shared_memory_filled(worker, b), 0);
    shared_memory_tell_filled(server, a, ELEMENTS);
    shared_memory_tell_filled(server, b, UINT64_MAX);
    assert_int_equal(shared_memory_filled(worker, a), ELEMENTS);
    assert_int_equal(shared_memory_filled(worker, b), ELEMENTS);
    shared_memory_return_values(worker, a);
    assert_int_equal(shared_memory_take_values(worker), a);
    assert_int_equal(shared_memory_filled(worker, a), 0);
    assert_int_equal(shared_memory_filled(worker, b), ELEMENTS);
    shared_memory_unref(server);
    shared_memory_unref(worker);
}

/* Wherever they begin and end. */
static void copies_are_exact(void **state)
{
    (void)state;
    enum { N = 300, ALL = 2 * N };
    static float from[ALL], to[ALL];
    for (size_t i = 0; i < ALL; i++) {
        from[i] = (float)i;
    }
    for (size_t at = 0; at < 20; at++) {
        for (size_t skew = 0; skew < 3; skew++) {
            for (size_t n = 0; n < N; n += 1 + n / 8) {
                memset(to, 0, sizeof to);
                shared_memory_copy(N, to + at, from + at + skew, n);
                for (size_t i = 0; i < ALL; i++) {
                    const bool inside = i >= at && i < at + n;
                    assert_true(to[i] == (inside ? (float)(i + skew) : 0.0F));
                }
            }
        }
    }
}

static void a_block_belongs_to_one_side(void **state)
{
    (void)state;
    struct shared_memory *worker, *server;
    make(&worker);
    open_well(shared_memory_offer(worker), &server);
    uint32_t gradients = shared_memory_offer(worker)->gradients;
    assert_false(
        shared_memory_hold_gradient(server, 0)); /* not taken, so not named by anybody honest */
    for (uint32_t i = 0; i < gradients; i++) {
        assert_int_equal(shared_memory_take_gradient(worker), i);
    }
    assert_int_equal(shared_memory_take_gradient(worker), SHARED_MEMORY_NONE);
    assert_true(shared_memory_hold_gradient(server, 1));
    assert_false(shared_memory_hold_gradient(server, 1)); /* it has it */
    assert_false(shared_memory_hold_gradient(server, gradients));
    assert_false(shared_memory_hold_gradient(server, SHARED_MEMORY_NONE));
    shared_memory_leave_gradient(server, 1); /* not yet */
    assert_true(shared_memory_hold_gradient(server, 1));
    shared_memory_give_gradient(server, 1);
    assert_int_equal(shared_memory_take_gradient(worker), 1);
    assert_true(shared_memory_hold_gradient(server, 1));
    shared_memory_return_gradient(worker, 0); /* it was never sent */
    assert_int_equal(shared_memory_take_gradient(worker), 0);
    uint32_t values = shared_memory_offer(worker)->values;
    for (uint32_t i = 0; i < values; i++) {
        assert_int_equal(shared_memory_take_values(worker), i);
    }
    assert_int_equal(shared_memory_take_values(worker), SHARED_MEMORY_NONE);
    shared_memory_return_values(worker, values - 1);
    assert_int_equal(shared_memory_take_values(worker), values - 1);
    assert_false(shared_memory_has_values(server, values));
    shared_memory_unref(shared_memory_ref(server));
    shared_memory_unref(server);
    shared_memory_unref(worker);
    shared_memory_unref(NULL);
}

/* Before anybody writes to them; memory that is short is then an answer and not the end. */
static void pages_are_reserved_once(void **state)
{
    (void)state;
    struct shared_memory *worker;
    struct err err;
    no_memory = true;
    assert_int_equal(shared_memory_new(ELEMENTS, &worker, &err), ERR_UNAVAILABLE);
    no_memory = false;
    make(&worker);
    reservations = 0;
    for (int i = 0; i < 3; i++) { /* a step costs no call of the system */
        assert_int_equal(shared_memory_take_gradient(worker), 0);
        assert_int_equal(shared_memory_take_values(worker), 0);
        assert_int_equal(reservations, 2);
        shared_memory_return_gradient(worker, 0);
        shared_memory_return_values(worker, 0);
    }
    assert_int_equal(shared_memory_take_gradient(worker), 0);
    no_memory = true;
    assert_int_equal(shared_memory_take_gradient(worker), SHARED_MEMORY_NONE);
    no_memory = false;
    assert_int_equal(shared_memory_take_gradient(worker), 1); /* the refusal did not take it */
    assert_int_equal(reservations, 3);
    shared_memory_unref(worker);
}

static void expect_refused(const struct shared_memory_offer *offer, uint64_t elements, int code,
                           const char *says)
{
    struct shared_memory *w;
    struct err err;
    assert_int_equal(shared_memory_open(offer, elements, &w, &err), code);
    if (strstr(err.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, says);
    }
}

static void an_offer_must_be_true(void **state)
{
    (void)state;
    struct shared_memory *worker;
    make(&worker);
    const struct shared_memory_offer good = *shared_memory_offer(worker);
    struct shared_memory_offer o = good;
    expect_refused(&o, ELEMENTS + 1, ERR_INVALID, "the shard has 5004");
    o.elements = 0;
    expect_refused(&o, 0, ERR_INVALID, "0 elements");
    o = good;
    o.gradients = SHARED_MEMORY_BLOCKS_MAX + 1;
    expect_refused(&o, ELEMENTS, ERR_INVALID, "17 + 3 blocks");
    o = good;
    o.values--;
    expect_refused(&o, ELEMENTS, ERR_INVALID, "not ");
    o = good;
    o.token[3] ^= 1;
    expect_refused(&o, ELEMENTS, ERR_UNAVAILABLE, "another one's");
    o = good;
    o.fd = 100000;
    expect_refused(&o, ELEMENTS, ERR_UNAVAILABLE, "/fd/100000: ");
    o = good;
    o.pid = 0;
    expect_refused(&o, ELEMENTS, ERR_INVALID, "process 0");
    o.pid = UINT64_MAX;
    expect_refused(&o, ELEMENTS, ERR_INVALID, "process ");
    shared_memory_unref(worker);
}

static void other_descriptors_are_left_alone(void **state)
{
    (void)state;
    struct shared_memory *worker;
    make(&worker);
    struct shared_memory_offer o = *shared_memory_offer(worker);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int plain = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int ends[2];
    assert_true(null >= 0 && plain >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ftruncate(plain, 100 << 10), 0);
    o.fd = (uint32_t)null;
    expect_refused(&o, ELEMENTS, ERR_UNAVAILABLE, "is not memory that this user shares");
    o.fd = (uint32_t)ends[0];
    expect_refused(&o, ELEMENTS, ERR_UNAVAILABLE, "is not memory that this user shares");
    o.fd = (uint32_t)plain; /* of another size */
    assert_int_equal(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    expect_refused(&o, ELEMENTS, ERR_INVALID, "sealed memory");
    (void)close(null);
    (void)close(plain);
    (void)close(ends[0]);
    (void)close(ends[1]);
    shared_memory_unref(worker);
}

/* The very same content, in memory that could shrink under whoever reads it. */
static void memory_without_seals_is_refused(void **state)
{
    (void)state;
    struct shared_memory *worker, *server;
    make(&worker);
    struct shared_memory_offer o = *shared_memory_offer(worker);
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    off_t bytes = lseek((int)o.fd, 0, SEEK_END);
    assert_true(fd >= 0 && bytes > 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    assert_int_equal(pwrite(fd, o.token, sizeof o.token, 0), sizeof o.token);
    o.fd = (uint32_t)fd;
    expect_refused(&o, ELEMENTS, ERR_INVALID, "sealed memory");
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect_refused(&o, ELEMENTS, ERR_INVALID, "sealed memory");
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    open_well(&o, &server);
    shared_memory_unref(server);
    (void)close(fd);
    shared_memory_unref(worker);
}

/* Nor grow, nor lose its seals. */
static void memory_cannot_shrink(void **state)
{
    (void)state;
    struct shared_memory *worker;
    make(&worker);
    int fd = (int)shared_memory_offer(worker)->fd;
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 30), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    shared_memory_unref(worker);
    struct err err;
    assert_int_equal(shared_memory_new(0, &worker, &err), ERR_EXHAUSTED);
    assert_int_equal(shared_memory_new(UINT64_MAX, &worker, &err), ERR_EXHAUSTED);
}

static long resident_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "re");
    assert_non_null(f);
    while (kib < 0 && fgets(line, sizeof line, f) != NULL) {
        (void)sscanf(line, "RssShmem: %ld", &kib);
    }
    (void)fclose(f);
    return kib;
}

/* Pages that a server drops are no longer its own, and lose nothing. */
static void pages_can_be_dropped(void **state)
{
    (void)state;
    enum { MIB = 1 << 20, LARGE = 8 * MIB / (int)sizeof(float), SLACK_KIB = 1024 };
    struct shared_memory *worker, *server;
    struct err err;
    assert_int_equal(shared_memory_new(LARGE, &worker, &err), 0);
    assert_int_equal(shared_memory_open(shared_memory_offer(worker), LARGE, &server, &err), 0);
    uint32_t v = shared_memory_take_values(worker);
    uint32_t last = shared_memory_offer(worker)->values - 1;
    float *values = shared_memory_values(server, v);
    long before = resident_kib();
    for (size_t i = 0; i < LARGE; i++) {
        values[i] = (float)i;
    }
    long after = resident_kib();
    shared_memory_drop(server, values);
    long dropped = resident_kib();
    shared_memory_drop(server, shared_memory_values(server, last)); /* that nobody touched */
    if (before >= 0) {
        assert_true(after - before > 8 * 1024 - SLACK_KIB);
        assert_true(dropped - before < SLACK_KIB);
    }
    for (size_t i = 0; i < LARGE; i++) {
        assert_true(values[i] == (float)i);
    }
    shared_memory_unref(server);
    shared_memory_unref(worker);
}

/* Of a block of which little is used, little takes memory. */
static void parts_of_blocks(void **state)
{
    (void)state;
    enum { LARGE = 1 << 28, SOME = 30000 };
    struct shared_memory *worker, *server;
    struct err err;
    struct stat st;
    char path[64];
    assert_int_equal(shared_memory_new(LARGE, &worker, &err), 0);
    const struct shared_memory_offer *offer = shared_memory_offer(worker);
    assert_int_equal(shared_memory_open(offer, LARGE, &server, &err), 0);
    assert_int_equal(shared_memory_take_gradient_of(worker, LARGE + 1), SHARED_MEMORY_NONE);
    assert_int_equal(shared_memory_take_values_of(worker, UINT64_MAX), SHARED_MEMORY_NONE);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%u", offer->fd);
    for (uint64_t floats = 1; floats < SOME; floats *= 3) {
        const uint32_t g = shared_memory_take_gradient_of(worker, floats);
        const uint32_t v = shared_memory_take_values_of(worker, floats);
        assert_true(g == 0 && v == 0);
        shared_memory_gradient(worker, g)[floats - 1] = (float)floats;
        assert_true(shared_memory_hold_gradient(server, g));
        assert_true(shared_memory_gradient(server, g)[floats - 1] == (float)floats);
        shared_memory_values(server, v)[floats - 1] = 1;
        shared_memory_give_gradient(server, g);
        shared_memory_return_values(worker, v);
        assert_int_equal(stat(path, &st), 0);
        assert_true((uint64_t)st.st_blocks * 512 <=
                    2 * (floats * sizeof(float) * 5 / 4 + 8192) + 4096);
    }
    shared_memory_unref(server);
    shared_memory_unref(worker);
}

/* What the server holds outlives the process that made it. */
static void the_maker_may_die(void **state)
{
    (void)state;
    int offers[2], done[2];
    assert_int_equal(pipe(offers), 0);
    assert_int_equal(pipe(done), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct shared_memory *w;
        char end;
        if (shared_memory_new(ELEMENTS, &w, NULL) == 0) {
            uint32_t g = shared_memory_take_gradient(w);
            shared_memory_gradient(w, g)[ELEMENTS - 1] = 7;
            (void)!write(offers[1], shared_memory_offer(w), sizeof(struct shared_memory_offer));
            (void)!read(done[0], &end, 1);
        }
        _exit(0);
    }
    struct shared_memory_offer offer;
    struct shared_memory *server;
    assert_int_equal(read(offers[0], &offer, sizeof offer), sizeof offer);
    open_well(&offer, &server);
    assert_int_equal(write(done[1], "x", 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(shared_memory_hold_gradient(server, 0));
    assert_true(shared_memory_gradient(server, 0)[ELEMENTS - 1] == 7);
    shared_memory_unref(server);
    struct err err;
    assert_int_equal(shared_memory_open(&offer, ELEMENTS, &server, &err), ERR_UNAVAILABLE);
    (void)close(offers[0]);
    (void)close(offers[1]);
    (void)close(done[0]);
    (void)close(done[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_see_the_same),
        cmocka_unit_test(a_bell_tells_how_far_a_block_is),
        cmocka_unit_test(copies_are_exact),
        cmocka_unit_test(a_block_belongs_to_one_side),
        cmocka_unit_test(pages_are_reserved_once),
        cmocka_unit_test(an_offer_must_be_true),
        cmocka_unit_test(other_descriptors_are_left_alone),
        cmocka_unit_test(memory_without_seals_is_refused),
        cmocka_unit_test(memory_cannot_shrink),
        cmocka_unit_test(pages_can_be_dropped),
        cmocka_unit_test(parts_of_blocks),
        cmocka_unit_test(the_maker_may_die),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
