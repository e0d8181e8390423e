/* SPDX-License-Identifier: Apache-2.0 */
/* Host names of which the address changes, as that of a container which was started elsewhere. The
 * names are in a hosts file that only this process sees. */
#include "support/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "support/echo_service.h"
#include "support/held_port.h"
#include "support/tmp_dir.h"
#include "support/wait_until.h"

/* Long before gRPC's own 30 s, in which this process had a processor; what it takes is a second or
 * two. */
#define FOUND_MS_MAX 15000

static char *hosts;
static bool own_hosts;

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w"); /* the same file: what is mounted shows it */
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void name_is_at(const char *address)
{
    char *text = mem_printf("127.0.0.1 localhost\n%s ps-0.test\n", address);
    write_text(hosts, text);
    free(text);
}

/* A mount namespace, in one of users for whoever is not root. Before there is any other thread. */
static bool enter_namespace(void)
{
    unsigned uid = getuid();
    if (uid == 0 && unshare(CLONE_NEWNS) == 0) {
        return true;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        return false;
    }
    char map[64];
    (void)snprintf(map, sizeof map, "0 %u 1\n", uid);
    write_text("/proc/self/uid_map", map);
    return true;
}

static bool own_hosts_file(const char *dir)
{
    hosts = file_join(dir, "hosts");
    name_is_at("127.0.0.2");
    return enter_namespace() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL) == 0;
}

static struct rpc_server *serve(struct echo *echo, const char *address)
{
    struct err err = {0};
    const char *const addresses[] = {address};
    const struct rpc_server_options options = {.addresses = addresses, .address_count = 1};
    echo_init(echo);
    struct rpc_server *server = echo_server(echo, &options, &err);
    assert_string_equal(err.msg, "");
    assert_non_null(server);
    return server;
}

static void stop(struct echo *echo, struct rpc_server *server)
{
    rpc_server_free(server);
    echo_release(echo);
}

static int call(struct rpc_channel *channel, struct err *err)
{
    char text[] = "hello";
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = text;
    const struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                        .method = "Unary",
                                        .body = &item.base,
                                        .request_bulk = ECHO_BULK_FIELD,
                                        .response_bulk = ECHO_BULK_FIELD,
                                        .timeout_ms = 60000};
    struct rpc_msg *reply = NULL;
    int rc = rpc_call_blocking(channel, &request, &reply, err);
    if (rc == 0) {
        rpc_msg_unref(reply);
    }
    return rc;
}

/* As a node does: again, with a short pause. */
static uint64_t call_until_well(struct rpc_channel *channel)
{
    struct wait_until w = {0};
    struct err err = {0};
    while (call(channel, &err) != 0) {
        if (w.waited_ns > FOUND_MS_MAX * UINT64_C(1000000)) {
            fail_msg("%s", err.msg);
        }
        err = (struct err){0};
        wait_until_pause(&w, "the name is found", __FILE__, __LINE__);
    }
    return w.waited_ns / 1000000;
}

/* Two addresses of one port, and the name with it. */
struct place {
    struct held_port port;
    char *here, *there, *target;
};

static void take_place(struct place *p)
{
    held_port_take(&p->port);
    p->here = mem_printf("127.0.0.2:%u", (unsigned)p->port.port);
    p->there = mem_printf("127.0.0.3:%u", (unsigned)p->port.port);
    p->target = mem_printf("ps-0.test:%u", (unsigned)p->port.port);
}

static void leave_place(struct place *p)
{
    held_port_release(&p->port);
    free(p->here);
    free(p->there);
    free(p->target);
}

static void test_a_name_is_asked_for_again(void **state)
{
    (void)state;
    if (!own_hosts) {
        print_message("no namespace with a hosts file of its own can be made here\n");
        skip();
    }
    struct echo first, second;
    struct err err = {0};
    struct place p;
    take_place(&p);
    struct rpc_server *server = serve(&first, p.here);
    const struct rpc_channel_options options = {.target = p.target};
    struct rpc_channel *channel = rpc_channel_new(&options, &err);
    assert_non_null(channel);
    if (call(channel, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    stop(&first, server);
    assert_int_not_equal(call(channel, &err), 0); /* nobody is there, and the name is asked for */
    server = serve(&second, p.there);
    name_is_at("127.0.0.3");
    print_message("found after %llu ms\n", (unsigned long long)call_until_well(channel));
    stop(&second, server);
    rpc_channel_free(channel);
    leave_place(&p);
}

/* A server at the address of the name which does not have the service: a proxy that answers for
 * names nobody knows, or who else has the address now. Its connections are well. */
static void test_whoever_answers_there_is_left_when_the_name_has_another_address(void **state)
{
    (void)state;
    if (!own_hosts) {
        print_message("no namespace with a hosts file of its own can be made here\n");
        skip();
    }
    struct echo echo;
    struct err err = {0};
    name_is_at("127.0.0.2");
    struct place p;
    take_place(&p);
    const struct rpc_server_options strange = {.addresses = (const char *const *)&p.here,
                                               .address_count = 1};
    struct rpc_server *stranger = rpc_server_new(&strange, &err);
    assert_non_null(stranger);
    assert_int_equal(rpc_server_start(stranger, &err), 0);
    const struct rpc_channel_options options = {.target = p.target};
    struct rpc_channel *channel = rpc_channel_new(&options, &err);
    assert_non_null(channel);
    assert_int_equal(call(channel, &err), ERR_UNSUPPORTED);
    struct rpc_server *server = serve(&echo, p.there);
    name_is_at("127.0.0.3");
    print_message("found after %llu ms\n", (unsigned long long)call_until_well(channel));
    stop(&echo, server);
    rpc_server_free(stranger);
    rpc_channel_free(channel);
    leave_place(&p);
}

int main(void)
{
    char *dir = tmp_dir_make("names");
    own_hosts = own_hosts_file(dir);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_is_asked_for_again),
        cmocka_unit_test(test_whoever_answers_there_is_left_when_the_name_has_another_address),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    free(hosts);
    tmp_dir_remove(dir);
    return failed;
}
