/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/local_socket.h"
#include "os/file.h"

struct place {
    char *root;
    char *dir; /* in it */
};

static int set_up(void **state)
{
    struct place *p = mem_new(1, sizeof *p);
    p->root = tmp_dir_make("local");
    p->dir = file_join(p->root, "sockets");
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    tmp_dir_remove(p->root);
    free(p->dir);
    free(p);
    return 0;
}

static int listen_at(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof a.sun_path);
    memcpy(a.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static void path_of(const char *dir, const char *address, char *path)
{
    struct err err;
    if (local_socket_path(dir, address, path, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static void the_address_makes_the_name(void **state)
{
    (void)state;
    char a[LOCAL_SOCKET_BYTES], again[LOCAL_SOCKET_BYTES], b[LOCAL_SOCKET_BYTES];
    path_of("/run/x", "127.0.0.1:7000", a);
    path_of("/run/x", "127.0.0.1:7000", again);
    path_of("/run/x", "127.0.0.1:7001", b);
    assert_string_equal(a, again);
    assert_string_not_equal(a, b);
    assert_memory_equal(a, "/run/x/", 7);
    path_of("auto", "127.0.0.1:7000", a);
    assert_memory_equal(a, "/tmp/gradus-", 12);
}

static void a_path_that_the_system_cannot_take_is_refused(void **state)
{
    (void)state;
    char path[LOCAL_SOCKET_BYTES], dir[120];
    struct err err;
    memset(dir, 'd', sizeof dir - 1);
    dir[0] = '/';
    dir[sizeof dir - 1] = '\0';
    assert_int_equal(local_socket_path(dir, "h:1", path, &err), ERR_RANGE);
    assert_non_null(strstr(err.msg, "less than 108 bytes"));
}

/* The lowest number that is free: the same again when nothing was left open. */
static int free_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    (void)close(fd);
    return fd;
}

static void who_listens_is_found(void **state)
{
    struct place *p = *state;
    struct err err;
    char path[LOCAL_SOCKET_BYTES];
    path_of(p->dir, "h:1", path);
    assert_false(local_socket_answers(path)); /* not even the directory */
    assert_int_equal(local_socket_prepare(path, &err), 0);
    struct stat s;
    assert_int_equal(stat(p->dir, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    assert_false(local_socket_answers(path));
    int fd = listen_at(path);
    int before = free_descriptor();
    assert_true(local_socket_answers(path));
    assert_int_equal(free_descriptor(), before);
    (void)close(fd);
    assert_false(local_socket_answers(path));
}

static void a_directory_that_others_may_enter_is_not_used(void **state)
{
    struct place *p = *state;
    struct err err;
    char path[LOCAL_SOCKET_BYTES];
    path_of(p->dir, "h:1", path);
    assert_int_equal(mkdir(p->dir, 0700), 0);
    int fd = listen_at(path);
    assert_int_equal(chmod(p->dir, 0755), 0);
    assert_int_equal(local_socket_prepare(path, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "only this user may enter"));
    assert_false(local_socket_answers(path));
    (void)close(fd);
}

static void a_link_is_no_directory_of_ours(void **state)
{
    struct place *p = *state;
    struct err err;
    char path[LOCAL_SOCKET_BYTES];
    path_of(p->dir, "h:1", path);
    assert_int_equal(symlink("/tmp", p->dir), 0);
    assert_int_equal(local_socket_prepare(path, &err), ERR_UNAVAILABLE);
}

static void only_dead_sockets_are_removed(void **state)
{
    struct place *p = *state;
    struct err err;
    char alive[LOCAL_SOCKET_BYTES], dead[LOCAL_SOCKET_BYTES], mine[LOCAL_SOCKET_BYTES];
    path_of(p->dir, "h:1", alive);
    path_of(p->dir, "h:2", dead);
    path_of(p->dir, "h:3", mine);
    char *file = file_join(p->dir, "note");
    assert_int_equal(local_socket_prepare(mine, &err), 0);
    int fd = listen_at(alive);
    (void)close(listen_at(dead));
    assert_int_equal(file_write_atomic(file, "x", 1, &err), 0);
    int before = free_descriptor();
    assert_int_equal(local_socket_prepare(mine, &err), 0);
    assert_int_equal(free_descriptor(), before);
    assert_true(local_socket_answers(alive));
    assert_false(file_exists(dead));
    assert_true(file_exists(file));
    (void)close(fd);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_makes_the_name),
        cmocka_unit_test(a_path_that_the_system_cannot_take_is_refused),
        cmocka_unit_test_setup_teardown(who_listens_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_directory_that_others_may_enter_is_not_used, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_link_is_no_directory_of_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_dead_sockets_are_removed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
