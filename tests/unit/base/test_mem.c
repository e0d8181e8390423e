/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/vector.h"

#define BYTES 20000
#define GUARD 64

static unsigned char from[BYTES + GUARD], to[BYTES + 2 * GUARD], expected[BYTES + 2 * GUARD];

static void check_copies(void (*copy)(void *restrict, const void *restrict, size_t))
{
    static const size_t sizes[] = {0,    1,    3,    63,   64,   65,    2047,  2048, 2049,
                                   2111, 2112, 4095, 4096, 8191, 16384, 16389, BYTES};
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)(i * 7 + i / 251);
    }
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        for (size_t shift = 0; shift < GUARD; shift += k < 6 ? 1 : 13) {
            memset(to, 0xEE, sizeof to);
            memset(expected, 0xEE, sizeof expected);
            memcpy(expected + shift, from + (shift * 5) % GUARD, sizes[k]);
            copy(to + shift, from + (shift * 5) % GUARD, sizes[k]);
            assert_memory_equal(to, expected, sizeof to);
        }
    }
}

static void test_texts_are_copied_each(void **state)
{
    (void)state;
    char one[] = "one";
    const char *const texts[] = {one, "", NULL};
    char **copies = mem_copy_texts(texts, 3);
    one[0] = 'x';
    assert_string_equal(copies[0], "one");
    assert_string_equal(copies[1], "");
    assert_null(copies[2]);
    mem_free_texts(copies, 3);
    copies = mem_copy_texts(NULL, 0);
    assert_non_null(copies);
    mem_free_texts(copies, 0);
}

static void test_copies_of_any_size_and_place(void **state)
{
    (void)state;
    check_copies(mem_copy);
    check_copies(mem_copy_far);
}

static void test_products(void **state)
{
    (void)state;
    size_t product;
    assert_true(mem_mul(3, 5, &product));
    assert_int_equal(product, 15);
    assert_true(mem_mul(0, SIZE_MAX, &product));
    assert_int_equal(product, 0);
    assert_false(mem_mul(SIZE_MAX / 2, 3, &product));
}

static void test_pages(void **state)
{
    (void)state;
    enum { BYTES_OF_PAGES = (5 << 20) + 3 };
    struct err err;
    unsigned char *p = mem_try_pages(BYTES_OF_PAGES, "test", &err);
    assert_non_null(p);
    for (size_t i = 0; i < BYTES_OF_PAGES; i++) {
        assert_int_equal(p[i], 0);
    }
    p[BYTES_OF_PAGES - 1] = 1;
    mem_free_pages(p, BYTES_OF_PAGES);
    assert_null(mem_try_pages(SIZE_MAX / 2, "an array", &err));
    assert_int_equal(err.code, ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "an array: no memory for "));
}

/* As large as was asked for, whatever lay there before. */
static void test_aligned(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 63, 64, 65, 1000, 4096};
    struct err err;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int round = 0; round < 2; round++) {
            unsigned char *p = mem_try_aligned(sizes[i], 1, "test", &err);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % MEM_ALIGN, 0);
            assert_true(malloc_usable_size(p) >= sizes[i]);
            for (size_t k = 0; k < sizes[i]; k++) {
                assert_int_equal(p[k], 0);
            }
            memset(p, 0xEE, sizes[i]);
            free(p);
        }
    }
    assert_null(mem_try_aligned(SIZE_MAX / 2, 3, "an array", &err));
    assert_int_equal(err.code, ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "an array: "));
}

static void resize_beyond_everything(void)
{
    free(mem_resize(NULL, SIZE_MAX / 2 + 2, 2)); /* two bytes, if the product wrapped */
}

#ifndef VECTOR_SANITIZED /* whose allocator ends the process in its own words */
static void resize_to_everything(void)
{
    free(mem_resize(NULL, SIZE_MAX / 4, 2));
}

static void ask_for_everything(void)
{
    free(mem_new(SIZE_MAX / 4, 2));
}
#endif

/* A process without memory says so and aborts: a small array in place of a huge one would be
 * written past its end. */
static void check_aborts(void (*what)(void))
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fds[1], STDERR_FILENO);
        what();
        _exit(0);
    }
    (void)close(fds[1]);
    char said[4096] = {0}; /* a sanitizer may say something, too */
    for (size_t have = 0; have < sizeof said - 1;) {
        ssize_t n = read(fds[0], said + have, sizeof said - 1 - have);
        if (n <= 0) {
            break;
        }
        have += (size_t)n;
    }
    (void)close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "level=error event=out_of_memory count="));
}

static void test_no_memory_is_the_end(void **state)
{
    (void)state;
#ifndef VECTOR_SANITIZED
    check_aborts(ask_for_everything);
    check_aborts(resize_to_everything);
#endif
    check_aborts(resize_beyond_everything);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_copied_each),
        cmocka_unit_test(test_copies_of_any_size_and_place),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_no_memory_is_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
