/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections one peer has, without sockets: which are there is what the test says. */
#include "support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/accept_share.h"

#define ROOM 64

static bool gone[ROOM];
static unsigned asked;

static bool there(int fd, const struct accept_guest *guest)
{
    asked++;
    assert_int_equal(guest->port, fd);
    return !gone[fd];
}

static struct peer_network network(const char *address)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, address, &four.sin_addr) == 1) {
        return peer_network_of((const struct sockaddr *)&four);
    }
    assert_int_equal(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
    return peer_network_of((const struct sockaddr *)&six);
}

static bool enter(struct accept_share *s, int fd, const char *address, uint64_t now_ms)
{
    const struct accept_guest guest = {network(address), (uint16_t)fd};
    gone[fd] = false;
    return accept_share_enter(s, fd, &guest, now_ms);
}

static int begin(void **state)
{
    struct accept_share *s = calloc(1, sizeof *s);
    s->there = there;
    asked = 0;
    *state = s;
    return 0;
}

static int end(void **state)
{
    struct accept_share *s = *state;
    free(s->guests);
    free(s);
    return 0;
}

static void nobody_is_counted_without_a_limit(void **state)
{
    struct accept_share *s = *state;
    for (int fd = 0; fd < ROOM; fd++) {
        assert_true(enter(s, fd, "10.0.0.7", 1));
    }
    accept_share_set(s, 0, 0);
    assert_null(s->guests);
    assert_true(enter(s, 5, "10.0.0.7", 1));
}

static void each_peer_has_its_own(void **state)
{
    struct accept_share *s = *state;
    accept_share_set(s, 2, 0);
    assert_true(enter(s, 3, "10.0.0.7", 1000));
    assert_true(enter(s, 4, "10.0.0.7", 1000));
    assert_false(enter(s, 5, "10.0.0.7", 1000));
    assert_false(enter(s, 5, "::ffff:10.0.0.7", 1000)); /* the same one */
    assert_true(enter(s, 5, "10.0.0.8", 1000));
    assert_true(enter(s, 6, "2001:db8::1", 1000));
    assert_true(enter(s, 7, "2001:db8::ffff:1", 1000)); /* of the same network */
    assert_false(enter(s, 8, "2001:db8::2", 1000));
    assert_true(enter(s, 8, "2001:db8:0:1::2", 1000));
    assert_true(enter(s, 9, "::1", 1000));
}

static void who_has_left_is_found_when_there_is_no_room(void **state)
{
    struct accept_share *s = *state;
    accept_share_set(s, 3, 0);
    for (int fd = 10; fd < 13; fd++) {
        assert_true(enter(s, fd, "10.0.0.7", 1000));
    }
    assert_int_equal(asked, 0);
    gone[11] = true;
    assert_true(enter(s, 13, "10.0.0.7", 1000));
    assert_int_equal(asked, 3);
    gone[10] = true;
    assert_false(enter(s, 14, "10.0.0.7", 1000 + ACCEPT_SHARE_LOOK_MS - 1)); /* unseen */
    assert_int_equal(asked, 3);
    assert_true(enter(s, 14, "10.0.0.7", 1000 + ACCEPT_SHARE_LOOK_MS));
    assert_false(enter(s, 15, "10.0.0.7", 5000));
}

static unsigned enter_all(struct accept_share *s, int *fd, const char *address, uint64_t now_ms)
{
    unsigned n = 0;
    while (enter(s, *fd, address, now_ms)) {
        ++*fd;
        n++;
    }
    return n;
}

static void whoever_takes_all_that_is_free_leaves_some(void **state)
{
    struct accept_share *s = *state;
    int fd = 0;
    accept_share_set(s, 0, 24);
    assert_int_equal(enter_all(s, &fd, "10.0.0.7", 1000), 12); /* half of them */
    assert_int_equal(enter_all(s, &fd, "10.0.0.8", 1000), 6);  /* of what the first one has left */
    assert_int_equal(enter_all(s, &fd, "10.0.0.9", 1000), 3);
    assert_false(enter(s, fd, "10.0.0.7", 2000)); /* nor more for who was there before */
    for (int i = 0; i < 6; i++) {                 /* the first one has left half of its own */
        gone[i] = true;
    }
    assert_int_equal(enter_all(s, &fd, "10.0.0.9", 3000), 3);
    assert_int_equal(enter_all(s, &fd, "10.0.0.7", 4000), 0);
}

static void there_is_room_for_one_of_each(void **state)
{
    struct accept_share *s = *state;
    accept_share_set(s, 0, 2);
    assert_true(enter(s, 0, "10.0.0.1", 1000));
    assert_true(enter(s, 1, "10.0.0.2", 1000));
    assert_true(enter(s, 2, "10.0.0.3", 1000)); /* how many there can be is not decided here */
    assert_false(enter(s, 3, "10.0.0.3", 1000));
}

static void a_number_that_is_used_again_is_a_new_connection(void **state)
{
    struct accept_share *s = *state;
    accept_share_set(s, 2, 0);
    assert_true(enter(s, 3, "10.0.0.7", 1000));
    assert_true(enter(s, 4, "10.0.0.7", 1000));
    assert_true(enter(s, 4, "10.0.0.8", 1000));
    assert_true(enter(s, 5, "10.0.0.7", 1000));
    /* Through a socket of this host, from anywhere. */
    assert_true(accept_share_enter(s, 5, &(struct accept_guest){0}, 1000));
    assert_true(enter(s, 6, "10.0.0.7", 1000));
    assert_false(enter(s, 7, "10.0.0.7", 1000));
    /* Beyond what is counted. */
    assert_true(accept_share_enter(s, ACCEPT_SHARE_ROOM,
                                   &(struct accept_guest){network("10.0.0.7"), 1}, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_is_counted_without_a_limit, begin, end),
        cmocka_unit_test_setup_teardown(each_peer_has_its_own, begin, end),
        cmocka_unit_test_setup_teardown(who_has_left_is_found_when_there_is_no_room, begin, end),
        cmocka_unit_test_setup_teardown(whoever_takes_all_that_is_free_leaves_some, begin, end),
        cmocka_unit_test_setup_teardown(there_is_room_for_one_of_each, begin, end),
        cmocka_unit_test_setup_teardown(a_number_that_is_used_again_is_a_new_connection, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
