/* SPDX-License-Identifier: Apache-2.0 */
/* A server on the same host: by its socket, and through memory that both share. */
#include "ps_client_rig.h"

#include <stdio.h>

#include "os/file.h"
#include "support/tmp_dir.h"

static void exchange_well(struct fake *f, uint64_t number, const char *peer)
{
    client_set_script(f, SCRIPT_RIGHT);
    client_exchange(f, number, 0, true, true);
    assert_int_equal(client_next_answer(f, number).code, 0);
    assert_memory_equal(f->peer, peer, strlen(peer));
}

static void break_stream(struct fake *f, uint64_t number)
{
    client_set_script(f, SCRIPT_BREAK);
    client_exchange(f, number, 0, true, true);
    assert_int_equal(client_next_answer(f, number).code, ERR_UNAVAILABLE);
}

static void test_a_server_on_this_host_is_reached_by_its_socket(void **state)
{
    (void)state;
    struct fake f;
    char *root = tmp_dir_make("local");
    char path[LOCAL_SOCKET_BYTES], moved[LOCAL_SOCKET_BYTES + 8];
    char *dir = file_join(root, "sockets");
    client_start_with(&f, 0, dir, path);
    exchange_well(&f, 1, "unix:");
    break_stream(&f, 2);
    exchange_well(&f, 3, "unix:");
    /* Its socket is gone, the server is not. */
    (void)snprintf(moved, sizeof moved, "%s.away", path);
    assert_int_equal(rename(path, moved), 0);
    break_stream(&f, 4);
    exchange_well(&f, 5, "ipv4:");
    assert_int_equal(rename(moved, path), 0);
    break_stream(&f, 6);
    exchange_well(&f, 7, "unix:");
    client_finish(&f);
    tmp_dir_remove(root);
    free(dir);
}

/* As sent and as received, however they went. */
static void check_values(struct fake *f, uint64_t number)
{
    memset(f->values, 0, FLAT_COUNT * sizeof(float));
    for (uint32_t s = 0; s < SHARDS; s++) {
        client_exchange(f, number + s, s, true, true);
        struct ps_answer a = client_next_answer(f, number + s);
        if (a.code != 0) {
            fail_msg("%s", a.message);
        }
    }
    assert_memory_equal(f->values, f->gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    assert_memory_equal(f->values + BIAS_AT, f->gradient + BIAS_AT, BIASES * sizeof(float));
}

static void test_values_pass_in_memory(void **state)
{
    (void)state;
    struct fake f;
    char *root = tmp_dir_make("local");
    char path[LOCAL_SOCKET_BYTES];
    char *dir = file_join(root, "sockets");
    client_start_with(&f, 0, dir, path);
    check_values(&f, 10); /* the offers go with these */
    assert_int_equal(f.gradient_blocks, 0);
    assert_int_equal(f.values_blocks, 0);
    for (uint64_t i = 2; i < 8; i++) {
        check_values(&f, 10 * i);
    }
    assert_int_equal(f.gradient_blocks, 6 * SHARDS);
    assert_int_equal(f.values_blocks, 6 * SHARDS);
    /* Another stream begins with nothing; the other shard goes on. */
    break_stream(&f, 100);
    client_set_script(&f, SCRIPT_RIGHT);
    check_values(&f, 110);
    assert_int_equal(f.gradient_blocks, 7 * SHARDS);
    check_values(&f, 120);
    assert_int_equal(f.gradient_blocks, 8 * SHARDS);
    /* So does a place that is another. */
    client_place(&f, 0, f.server, OPENING + 1);
    check_values(&f, 130);
    assert_int_equal(f.gradient_blocks, 9 * SHARDS - 1);
    check_values(&f, 140);
    assert_int_equal(f.gradient_blocks, 10 * SHARDS - 1);
    /* A server that cannot open them: as if there were none. */
    break_stream(&f, 200);
    pthread_mutex_lock(&f.lock);
    shared_memory_unref(f.shared_memory[0]);
    f.shared_memory[0] = NULL;
    pthread_mutex_unlock(&f.lock);
    client_set_script(&f, SCRIPT_NO_SHARED_MEMORY);
    unsigned before = f.gradient_blocks;
    for (uint64_t i = 21; i < 24; i++) {
        client_exchange(&f, 10 * i, 0, true, true);
        assert_int_equal(client_next_answer(&f, 10 * i).code, 0);
    }
    assert_int_equal(f.gradient_blocks, before);
    client_set_script(&f, SCRIPT_BLOCK);
    client_exchange(&f, 300, 0, false, true);
    struct ps_answer a = client_next_answer(&f, 300);
    assert_int_equal(a.code, ERR_INTERNAL);
    assert_non_null(strstr(a.message, "shard 0 answered in a block it was not given"));
    client_finish(&f);
    tmp_dir_remove(root);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_on_this_host_is_reached_by_its_socket),
        cmocka_unit_test(test_values_pass_in_memory),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
