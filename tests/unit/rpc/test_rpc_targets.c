/* SPDX-License-Identifier: Apache-2.0 */
/* Channels to several servers, of which one at a time serves. */
#include "support/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_targets.h"
#include "rpc_rig.h"
#include "support/held_port.h"
#include "support/wait_until.h"

/* A server that refuses calls and names another one, unless it serves. */
struct place {
    struct held_port port;
    struct echo echo;
    struct rpc_guard guard;
    struct rpc_server *server;
    atomic_bool serves;
    const char *leader; /* RPC_LEADER_KEY of its refusals */
};

static int admit(void *ctx, const struct rpc_arriving *call, struct auth_identity *who,
                 struct err *err)
{
    struct place *p = ctx;
    auth_identity_open(who);
    if (atomic_load(&p->serves)) {
        return 0;
    }
    assert_int_equal(rpc_set_trailer(call->call, RPC_LEADER_KEY, p->leader, NULL), 0);
    return err_set(err, ERR_UNAVAILABLE, "another one leads");
}

static void start(struct place *p, const char *leader)
{
    struct err err = {0};
    held_port_take(&p->port);
    const char *const addresses[] = {p->port.address};
    p->guard = (struct rpc_guard){.admit = admit, .ctx = p};
    p->leader = leader;
    atomic_store(&p->serves, leader == NULL);
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .guard = &p->guard};
    echo_init(&p->echo);
    p->server = echo_server(&p->echo, &options, &err);
    if (p->server == NULL) {
        fail_msg("%s", err.msg);
    }
}

static void stop(struct place *p)
{
    rpc_server_free(p->server);
    echo_release(&p->echo);
    held_port_release(&p->port);
}

static struct rpc_channel *channel_to(const char *target)
{
    const struct rpc_channel_options options = {.target = target};
    struct err err = {0};
    struct rpc_channel *c = rpc_channel_new(&options, &err);
    if (c == NULL) {
        fail_msg("%s", err.msg);
    }
    return c;
}

static int call_with(struct rpc_channel *c, const char *text, unsigned timeout_ms,
                     struct rpc_status *status)
{
    struct rpc_rig_call *r = rpc_rig_call(text);
    struct err err = {0};
    r->request.status = status;
    r->request.timeout_ms = timeout_ms;
    int rc = rpc_call_blocking(c, &r->request, NULL, &err);
    rpc_status_release(&(struct rpc_status){.details = status->details});
    free(r);
    return rc;
}

/* Returns how the call ended; *@status is released. */
static int call(struct rpc_channel *c, struct rpc_status *status)
{
    return call_with(c, "hello", 60000, status);
}

static void a_list_is_read(void **state)
{
    (void)state;
    struct rpc_targets t;
    struct err err = {0};
    assert_int_equal(rpc_targets_read(&t, "a:1,[::1]:2,c:3", &err), 0);
    assert_int_equal(t.count, 3);
    assert_string_equal(t.names[1], "[::1]:2");
    assert_true(rpc_targets_next(&t));
    assert_int_equal(t.at, 1);
    assert_true(rpc_targets_choose(&t, "a:1 and more", 3));
    assert_int_equal(t.at, 0);
    assert_true(rpc_targets_choose(&t, "d:4", 3));
    assert_int_equal(t.at, 3);
    assert_true(rpc_targets_next(&t));
    assert_int_equal(t.at, 1); /* behind the one that named d:4 */
    assert_false(rpc_targets_choose(&t, "no address", 10));
    assert_int_equal(t.at, 1);
    for (size_t i = 0; i < 3 * RPC_TARGETS_MAX; i++) { /* leaders come and go */
        char name[8];
        (void)snprintf(name, sizeof name, "e:%zu", i + 1);
        assert_true(rpc_targets_choose(&t, name, strlen(name)));
        assert_string_equal(t.names[t.at], name);
    }
    assert_true(rpc_targets_next(&t));
    assert_string_equal(t.names[t.at], "c:3");
    rpc_targets_release(&t);
    assert_int_equal(rpc_targets_read(&t,
                                      "a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,"
                                      "a:1,a:1,a:1",
                                      &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.msg, "more than 16 addresses"));
    assert_int_equal(rpc_targets_read(&t, "unix:/a,b", &err), 0); /* a path */
    assert_int_equal(t.count, 1);
    assert_false(rpc_targets_next(&t));
    rpc_targets_release(&t);
    static const char *const bad[] = {"", "a", "a:1,", ",a:1", "a:1,,b:2", "a:1,b"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rpc_targets_read(&t, bad[i], &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "expected host:port"));
        assert_int_equal(t.count, 0);
    }
}

/* Where its last group ends and the port begins, nobody can know. */
static void an_address_of_ipv6_needs_brackets(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"::1:7200", "[::1]:7200"},
                                          {"fe80::1%eth0:80", "[fe80::1%eth0]:80"},
                                          {"2001:db8::5:7000", "[2001:db8::5]:7000"},
                                          {"a:1,::1:7200", "\"::1:7200\""},
                                          {"::1", "[::1]:PORT"},
                                          {"1:2:3:4:5:6:7:8", "[1:2:3:4:5:6:7:8]:PORT"},
                                          {"fe80::1%eth0", "[fe80::1%eth0]:PORT"},
                                          {"fe80::a:b", "[fe80::a:b]:PORT"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        assert_int_equal(rpc_target_check(rows[i][0], &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "IPv6 address without brackets"));
        assert_non_null(strstr(err.msg, rows[i][1]));
    }
    static const char *const right[] = {"[::1]:7200", "[fe80::1%eth0]:80", "a:1,[::1]:2",
                                        "dns:///a:80", "ipv4:10.0.0.1:80"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_int_equal(rpc_target_check(right[i], NULL), 0);
    }
}

/* The next one is called when nobody is there. */
static void a_server_that_is_gone_is_left(void **state)
{
    (void)state;
    struct held_port nobody;
    struct place p;
    struct rpc_status status = {.moved = false};
    held_port_take(&nobody);
    start(&p, NULL);
    char *both = mem_printf("%s,%s", nobody.address, p.port.address);
    struct rpc_channel *c = channel_to(both);
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE);
    assert_true(status.moved);
    assert_false(status.answered);
    wait_until(call(c, &status) == 0);
    assert_string_equal(rpc_channel_target(c), p.port.address);
    assert_false(status.moved);
    rpc_channel_free(c);
    c = channel_to(nobody.address); /* it is the only one */
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE);
    assert_false(status.moved);
    rpc_channel_free(c);
    free(both);
    stop(&p);
    held_port_release(&nobody);
}

static void the_one_that_is_named_is_called(void **state)
{
    (void)state;
    struct place leader, standby;
    struct rpc_status status = {.moved = false};
    start(&leader, NULL);
    start(&standby, leader.port.address);
    struct rpc_channel *c = channel_to(standby.port.address);
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE);
    assert_true(status.moved);
    assert_true(status.answered);
    assert_int_equal(call(c, &status), 0);
    assert_string_equal(rpc_channel_target(c), leader.port.address);
    /* They change places. */
    leader.leader = standby.port.address;
    atomic_store(&leader.serves, false);
    atomic_store(&standby.serves, true);
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE);
    assert_int_equal(call(c, &status), 0);
    assert_string_equal(rpc_channel_target(c), standby.port.address);
    rpc_channel_free(c);
    stop(&standby);
    stop(&leader);
}

/* It does not know who leads: the others are asked. */
static void without_a_name_the_next_one_is_called(void **state)
{
    (void)state;
    struct place leader, standby;
    struct rpc_status status = {.moved = false};
    start(&leader, NULL);
    start(&standby, RPC_LEADER_NONE);
    char *both = mem_printf("%s,%s", standby.port.address, leader.port.address);
    struct rpc_channel *c = channel_to(both);
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE);
    assert_true(status.moved);
    assert_int_equal(call(c, &status), 0);
    rpc_channel_free(c);
    c = channel_to(standby.port.address);
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE);
    assert_false(status.moved);
    rpc_channel_free(c);
    free(both);
    stop(&standby);
    stop(&leader);
}

/* Its name leads nowhere, but not its address in the list. */
static void a_leader_that_is_not_at_its_name_is_called_at_its_address(void **state)
{
    (void)state;
    struct held_port nobody;
    struct place leader, standby;
    struct rpc_status status = {.moved = false};
    held_port_take(&nobody);
    start(&leader, NULL);
    start(&standby, nobody.address);
    char *both = mem_printf("%s,%s", standby.port.address, leader.port.address);
    struct rpc_channel *c = channel_to(both);
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE); /* to the name */
    assert_true(status.answered && status.moved);
    assert_int_equal(call(c, &status), ERR_UNAVAILABLE); /* to the next one */
    assert_true(!status.answered && status.moved);
    assert_int_equal(call(c, &status), 0);
    assert_string_equal(rpc_channel_target(c), leader.port.address);
    rpc_channel_free(c);
    free(both);
    stop(&standby);
    stop(&leader);
    held_port_release(&nobody);
}

static void one_late_answer_moves_nobody(void **state)
{
    (void)state;
    struct place first, second;
    struct rpc_status status = {.moved = false};
    start(&first, NULL);
    start(&second, NULL);
    char *both = mem_printf("%s,%s", first.port.address, second.port.address);
    struct rpc_channel *c = channel_to(both);
    assert_int_equal(rpc_channel_wait_ready(c, 60000, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(call(c, &status), 0);
        assert_string_equal(rpc_channel_target(c), first.port.address);
        assert_int_equal(call_with(c, "hang", 20, &status), ERR_TIMEOUT);
        assert_true(status.connected && !status.moved);
    }
    assert_int_equal(call_with(c, "hang", 20, &status), ERR_TIMEOUT); /* the second in a row */
    assert_true(status.connected && status.moved);
    assert_int_equal(call(c, &status), 0);
    assert_string_equal(rpc_channel_target(c), second.port.address);
    rpc_channel_free(c);
    free(both);
    stop(&second);
    stop(&first);
}

static void waiting_tries_all(void **state)
{
    (void)state;
    struct held_port nobody;
    struct place p;
    struct err err = {0};
    held_port_take(&nobody);
    start(&p, NULL);
    char *both = mem_printf("%s,%s", nobody.address, p.port.address);
    struct rpc_channel *c = channel_to(both);
    assert_int_equal(rpc_channel_wait_ready(c, 60000, &err), 0);
    assert_string_equal(rpc_channel_target(c), p.port.address);
    rpc_channel_free(c);
    free(both);
    stop(&p);
    held_port_release(&nobody);
}

static int begin(void **state)
{
    (void)state;
    rpc_init();
    return 0;
}

static int end(void **state)
{
    (void)state;
    rpc_shutdown();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_read),
        cmocka_unit_test(an_address_of_ipv6_needs_brackets),
        cmocka_unit_test(a_server_that_is_gone_is_left),
        cmocka_unit_test(the_one_that_is_named_is_called),
        cmocka_unit_test(without_a_name_the_next_one_is_called),
        cmocka_unit_test(a_leader_that_is_not_at_its_name_is_called_at_its_address),
        cmocka_unit_test(one_late_answer_moves_nobody),
        cmocka_unit_test(waiting_tries_all),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
