/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between a worker and its program: memory that nobody can make smaller, messages of
 * which each ends its texts, descriptors that belong to one, and nothing of anybody else. */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "program/channel.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* ---- memory ---- */

static void test_memory_for_good(void **state)
{
    (void)state;
    struct program_memory m, mapped;
    struct err err;
    assert_int_equal(program_memory_new(5000, &m, &err), 0);
    assert_int_equal(m.size, 5000);
    assert_true(is_open(m.fd));
    assert_int_equal(fcntl(m.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(m.fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    assert_int_equal(ftruncate(m.fd, 4999), -1);
    assert_int_equal(ftruncate(m.fd, 5001), -1);
    ((char *)m.bytes)[4999] = 'x';
    const int twin = dup(m.fd);
    assert_int_equal(program_memory_map(twin, 5000, false, &mapped, &err), 0);
    assert_false(is_open(twin)); /* it was taken */
    assert_int_equal(mapped.fd, -1);
    assert_int_equal(mapped.size, 5000);
    assert_int_equal(((const char *)mapped.bytes)[4999], 'x');
    ((char *)m.bytes)[0] = 'y';
    assert_int_equal(((const char *)mapped.bytes)[0], 'y'); /* it is the same memory */
    /* It may be read alone: who reads into it is refused. */
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(zero, mapped.bytes, 1), -1);
    assert_int_equal(errno, EFAULT);
    program_memory_release(&mapped);
    assert_null(mapped.bytes);
    assert_int_equal(program_memory_map(dup(m.fd), 5000, true, &mapped, &err), 0);
    assert_int_equal(read(zero, mapped.bytes, 1), 1);
    (void)close(zero);
    const int fd = m.fd;
    program_memory_release(&mapped);
    program_memory_release(&m);
    assert_false(is_open(fd));
    assert_int_equal(m.fd, -1);
    program_memory_release(&m); /* of nothing */
}

static void refused(int fd, size_t size, const char *says)
{
    struct program_memory m = {.size = 77};
    struct err err;
    assert_int_equal(program_memory_map(fd, size, false, &m, &err), ERR_INVALID);
    assert_string_equal(err.msg, says);
    assert_int_equal(m.size, 77);
    assert_true(fd < 0 || !is_open(fd));
}

static void test_memory_that_is_not(void **state)
{
    (void)state;
    struct program_memory m;
    struct err err;
    assert_int_equal(program_memory_new(64, &m, &err), 0);
    refused(dup(m.fd), 65, "the memory that came is not 65 bytes for good");
    refused(dup(m.fd), 0, "the memory that came is not 0 bytes for good");
    refused(dup(m.fd), SIZE_MAX, "the memory that came is not 18446744073709551615 bytes for good");
    refused(-1, 64, "the memory that came is not 64 bytes for good");
    program_memory_release(&m);
    const int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(loose, 64), 0);
    refused(dup(loose), 64, "the memory that came is not 64 bytes for good");
    assert_int_equal(fcntl(loose, F_ADD_SEALS, F_SEAL_GROW), 0); /* it may still shrink */
    refused(loose, 64, "the memory that came is not 64 bytes for good");
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    refused(ends[0], 64, "the memory that came is not 64 bytes for good");
    (void)close(ends[1]);
    assert_int_equal(program_memory_new(SIZE_MAX, &m, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "make 18446744073709551615 bytes of memory for a program: "));
}

/* ---- messages ---- */

static int setup(void **state)
{
    static int ends[2];
    assert_int_equal(program_channel_pair(ends, NULL), 0);
    assert_int_equal(fcntl(ends[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(ends[1], F_GETFD), FD_CLOEXEC);
    *state = ends;
    return 0;
}

static int teardown(void **state)
{
    const int *ends = *state;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return 0;
}

static void test_messages(void **state)
{
    const int *ends = *state;
    struct program_message m, got;
    struct err err;
    int fd = 99;
    for (int kind = PROGRAM_HELLO; kind <= PROGRAM_JOB_END; kind++) {
        program_message_init(&m, (enum program_kind)kind, 1000 + (uint64_t)kind);
        assert_int_equal(program_send(ends[0], &m, -1, &err), 0);
        assert_int_equal(program_receive(ends[1], 0, 60000, &got, &fd, &err), 0);
        assert_memory_equal(&got, &m, sizeof m);
        assert_int_equal(fd, -1);
    }
    assert_int_equal(m.magic, PROGRAM_MAGIC);
    assert_int_equal(m.version, PROGRAM_VERSION);
}

static void test_descriptors(void **state)
{
    const int *ends = *state;
    struct program_message m, got;
    struct program_memory memory, mapped;
    struct err err;
    int fd;
    assert_int_equal(program_memory_new(8, &memory, &err), 0);
    ((char *)memory.bytes)[3] = 'z';
    program_message_init(&m, PROGRAM_ARRAY, 1);
    assert_int_equal(program_send(ends[0], &m, memory.fd, &err), 0);
    assert_true(is_open(memory.fd)); /* the sender keeps its own */
    assert_int_equal(program_receive(ends[1], 1000, 60000, &got, &fd, &err), 0);
    assert_true(fd >= 0 && fd != memory.fd);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(program_memory_map(fd, 8, false, &mapped, &err), 0);
    assert_int_equal(((const char *)mapped.bytes)[3], 'z');
    program_memory_release(&mapped);
    /* That of a message that is none is closed: the same number comes again. */
    for (unsigned i = 0; i < 2; i++) {
        m.magic = i == 0 ? PROGRAM_MAGIC + 1 : PROGRAM_MAGIC;
        assert_int_equal(program_send(ends[0], &m, memory.fd, &err), 0);
        int came;
        assert_int_equal(program_receive(ends[1], 0, 60000, &got, &came, &err),
                         i == 0 ? ERR_INVALID : 0);
        assert_int_equal(came, fd);
        assert_int_equal(is_open(fd), i == 1);
    }
    (void)close(fd);
    program_memory_release(&memory);
}

/* Who does not end a text has it ended, at its last byte, and no other one. */
static void test_texts_end(void **state)
{
    const int *ends = *state;
    struct program_message m, got;
    struct err err;
    int fd;
    static const enum program_kind kinds[] = {PROGRAM_HELLO, PROGRAM_JOB, PROGRAM_FAILED,
                                              PROGRAM_DONE};
    for (size_t i = 0; i < 4; i++) {
        memset(&m, 'a', sizeof m);
        m.magic = PROGRAM_MAGIC;
        m.version = PROGRAM_VERSION;
        m.kind = (uint16_t)kinds[i];
        assert_int_equal(program_send(ends[0], &m, -1, &err), 0);
        assert_int_equal(program_receive(ends[1], 0, 60000, &got, &fd, &err), 0);
        if (kinds[i] == PROGRAM_HELLO) {
            m.hello.name[sizeof m.hello.name - 1] = '\0';
        } else if (kinds[i] == PROGRAM_JOB) {
            m.job.id[sizeof m.job.id - 1] = '\0';
            m.job.program[sizeof m.job.program - 1] = '\0';
        } else if (kinds[i] == PROGRAM_FAILED) {
            m.failed.text[sizeof m.failed.text - 1] = '\0';
        }
        assert_memory_equal(&got, &m, sizeof m);
    }
}

static void stranger(const int *ends, const struct program_message *m, size_t bytes)
{
    struct program_message got;
    struct err err;
    int fd;
    assert_int_equal(send(ends[0], m, bytes, 0), bytes);
    assert_int_equal(program_receive(ends[1], 0, 60000, &got, &fd, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "what came over the socket is no message of version "));
    assert_int_equal(fd, -1);
}

static void test_messages_of_others(void **state)
{
    const int *ends = *state;
    struct program_message m;
    program_message_init(&m, PROGRAM_DONE, 1);
    stranger(ends, &m, sizeof m - 1);
    m.magic++;
    stranger(ends, &m, sizeof m);
    program_message_init(&m, PROGRAM_DONE, 1);
    m.version++;
    stranger(ends, &m, sizeof m);
    program_message_init(&m, PROGRAM_DONE, 1);
    m.kind = PROGRAM_HELLO - 1;
    stranger(ends, &m, sizeof m);
    m.kind = PROGRAM_KEYS + 1;
    stranger(ends, &m, sizeof m);
}

static void test_nobody_there(void **state)
{
    const int *ends = *state;
    struct program_message m, got;
    struct err err;
    int fd = 99, other[2];
    assert_int_equal(program_receive(ends[1], 0, 0, &got, &fd, &err), ERR_TIMEOUT);
    assert_string_equal(err.msg, "no answer for 0 ms");
    assert_int_equal(program_receive(ends[1], 50, 3, &got, &fd, &err), ERR_TIMEOUT);
    assert_string_equal(err.msg, "no answer for 3 ms");
    assert_int_equal(fd, -1);
    assert_int_equal(program_channel_pair(other, &err), 0);
    (void)close(other[0]);
    program_message_init(&m, PROGRAM_DONE, 1);
    assert_int_equal(program_send(other[1], &m, -1, &err), ERR_ABORTED); /* and no SIGPIPE */
    assert_string_equal(err.msg, "the other side of the socket: Broken pipe");
    assert_int_equal(program_receive(other[1], 0, -1, &got, &fd, &err), ERR_ABORTED);
    assert_string_equal(err.msg, "the other side of the socket is gone");
    (void)close(other[1]);
    assert_int_equal(program_receive(-1, 0, -1, &got, &fd, &err), ERR_ABORTED);
    assert_string_equal(err.msg, "the other side of the socket is gone: Bad file descriptor");
}

static void test_polling_in_vain_is_given_up(void **state)
{
    (void)state;
    enum { MOST_US = 50 };
    struct program_spin s = {0};
    for (unsigned i = 0; i < PROGRAM_SPIN_VAIN; i++) {
        assert_int_equal(program_spin_us(&s, MOST_US), MOST_US);
        program_spin_end(&s, MOST_US, 50001);
    }
    for (unsigned round = 0; round < 2; round++) { /* an answer that is late changes nothing */
        for (unsigned i = 1; i < PROGRAM_SPIN_AGAIN; i++) {
            assert_int_equal(program_spin_us(&s, MOST_US), 0);
            program_spin_end(&s, MOST_US, 1000000);
        }
        assert_int_equal(program_spin_us(&s, MOST_US), MOST_US);
        program_spin_end(&s, MOST_US, round == 0 ? 1000000 : 50000);
    }
    assert_int_equal(program_spin_us(&s, MOST_US), MOST_US); /* the last one was in time */
}

/* ---- layout ---- */

static void test_layout(void **state)
{
    (void)state;
    const struct program_variable v[] = {{.rank = 2, .dims = {3, 5}},
                                         {.rank = 0},
                                         {.rank = 1, .dims = {PROGRAM_VARIABLE_ALIGN}},
                                         {.rank = 1, .dims = {PROGRAM_VARIABLE_ALIGN + 1}}};
    uint64_t offsets[4];
    assert_int_equal(program_elements(&v[0]), 15);
    assert_int_equal(program_elements(&v[1]), 1);
    const uint64_t a = PROGRAM_VARIABLE_ALIGN, first = (15 + a - 1) / a * a;
    assert_int_equal(program_layout(v, 4, offsets), first + 4 * a);
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[1], first);
    assert_int_equal(offsets[2], first + a);
    assert_int_equal(offsets[3], first + 2 * a);
    assert_int_equal(program_layout(v, 0, offsets), 0);
    const uint64_t each = sizeof(struct program_variable), use = sizeof(struct program_table);
    for (size_t n = 0; n < 80; n++) { /* values begin with a line of the cache */
        const size_t tables = n / 40 * 3;
        const uint64_t at = program_values_at(n, tables);
        assert_int_equal(at % 64, 0);
        assert_true(at >= n * each + tables * use && at < n * each + tables * use + 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_for_good),
        cmocka_unit_test(test_memory_that_is_not),
        cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_texts_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_there, setup, teardown),
        cmocka_unit_test(test_polling_in_vain_is_given_up),
        cmocka_unit_test(test_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
