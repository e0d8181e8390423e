/* SPDX-License-Identifier: Apache-2.0 */
/* A thread has its name when its first line runs, as much of it as the system keeps. */
#include "support/test.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "os/thread.h"

static void *read_name(void *arg)
{
    assert_int_equal(prctl(PR_GET_NAME, arg), 0);
    return arg;
}

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *given, *kept;
    } names[] = {{"rpc", "rpc"},
                 {"fifteen-letters", "fifteen-letters"},
                 {"sixteen-letters!", "sixteen-letters"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char seen[THREAD_NAME_BYTES] = "", given[32];
        void *result = NULL;
        pthread_t thread;
        (void)strcpy(given, names[i].given);
        assert_int_equal(thread_start(&thread, given, read_name, seen), 0);
        memset(given, 'x', sizeof given); /* it has been copied */
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, seen);
        assert_string_equal(seen, names[i].kept);
    }
}

/* Without memory for its stack there is no thread, nothing is kept, and the reason is told. */
static void test_no_thread(void **state)
{
    (void)state;
    pthread_attr_t before, huge;
    pthread_t thread;
    char seen[THREAD_NAME_BYTES];
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 50), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    assert_int_equal(thread_start(&thread, "none", read_name, seen), EAGAIN);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    (void)pthread_attr_destroy(&huge);
    (void)pthread_attr_destroy(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
