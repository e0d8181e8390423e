/* SPDX-License-Identifier: Apache-2.0 */
/* The address that others are told when nothing is said. */
#include "support/test.h"

#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "service/own_address.h"

static void assert_usable(const char *host)
{
    struct address a = {0};
    text_copy(a.host, sizeof a.host, host);
    assert_true(host[0] != '\0');
    assert_false(address_is_loopback(&a));
    assert_false(address_is_any(&a));
}

/* A peer that is on this host, or is no address, tells nothing. */
static void test_an_address_for_others(void **state)
{
    (void)state;
    static const char *const PEERS[] = {NULL,         "127.0.0.1:7000", "localhost:7000",
                                        "[::1]:7000", "nonsense",       "unix:/a/path"};
    char first[ADDRESS_HOST_BYTES], host[ADDRESS_HOST_BYTES];
    own_address(NULL, first);
    assert_usable(first);
    for (size_t i = 0; i < sizeof PEERS / sizeof PEERS[0]; i++) {
        own_address(PEERS[i], host);
        assert_string_equal(host, first);
    }
}

/* In numbers: nobody else need know the name of this host. */
static void test_toward_a_peer(void **state)
{
    (void)state;
    char first[ADDRESS_HOST_BYTES], name[ADDRESS_HOST_BYTES], host[ADDRESS_HOST_BYTES];
    char text[ADDRESS_BYTES];
    own_address(NULL, first);
    assert_int_equal(gethostname(name, sizeof name), 0);
    if (strcmp(first, name) == 0) {
        skip(); /* this host has no network */
    }
    struct address peer = {.port = 7000};
    text_copy(peer.host, sizeof peer.host, first);
    own_address(address_format(&peer, text, sizeof text), host);
    assert_string_equal(host, first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_for_others),
        cmocka_unit_test(test_toward_a_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
