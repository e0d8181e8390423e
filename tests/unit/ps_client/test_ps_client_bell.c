/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are copied out of a block while its server fills it, as the bell in the memory tells:
 * by who polls, and never believed before the answer. */
#include "ps_client_rig.h"

#include "base/poll_policy.h"
#include "os/file.h"
#include "ps_client/ps_client_state.h"
#include "support/tmp_dir.h"
#include "support/wait_until.h"

#define POLL_NS 1000000 /* not for long: on a busy processor who sleeps gets his turn sooner */
#define SOME 40003      /* elements: more than are copied at once, less than a shard has, and odd */

struct rig {
    struct fake f;
    char *root, *dir;
    char path[LOCAL_SOCKET_BYTES];
};

static void start(struct rig *r, bool polls)
{
    const struct poll_setting setting = {.ns = POLL_NS};
    r->root = tmp_dir_make("bell");
    r->dir = file_join(r->root, "sockets");
    client_polling = polls ? rpc_polling_new(&setting) : NULL;
    client_start_with(&r->f, 0, r->dir, r->path);
}

static void finish(struct rig *r)
{
    client_finish(&r->f);
    rpc_polling_free(client_polling);
    client_polling = NULL;
    tmp_dir_remove(r->root);
    free(r->dir);
}

/* ---- what the server does before it answers ---- */

static void nothing(void *ctx)
{
    (void)ctx;
}

static uint64_t copied(struct shard_link *link)
{
    pthread_mutex_lock(&link->mutex);
    const uint64_t n = link->open == NULL ? 0 : link->open->copied;
    pthread_mutex_unlock(&link->mutex);
    return n;
}

/* However long the client's thread is kept from polling: each time that it has nothing to do it
 * looks at least once, and who waits for its turn on a busy processor waits for little else. */
static bool copied_by_now(struct fake *f, uint32_t shard, uint64_t n)
{
    assert_int_equal(loop_call(f->loop, nothing, NULL, NULL), 0);
    return copied(&f->client->links[shard]) >= n;
}

static void wait_copied(struct fake *f, uint32_t shard, uint64_t n)
{
    wait_until(copied_by_now(f, shard, n));
}

static void fill(struct fake *f, uint32_t shard, uint32_t block, uint64_t end, uint64_t told)
{
    struct shared_memory *w = f->shared_memory[shard];
    memcpy(shared_memory_values(w, block - 1), f->shards[shard], end * sizeof(float));
    shared_memory_tell_filled(w, block - 1, told);
}

/* What the block and the messages say from now on is wrong below @end. */
static void spoil(struct fake *f, uint32_t shard, uint64_t end)
{
    for (uint64_t i = 0; i < end; i++) {
        f->shards[shard][i] = -1;
    }
}

/* Each copy of the client's is a wait for its turn where processors are busy, so few are made. */
static void ring_once(struct fake *f, uint32_t shard, uint32_t block)
{
    fill(f, shard, block, SOME, SOME);
    wait_copied(f, shard, SOME);
    spoil(f, shard, SOME);
}

static void ring_often(struct fake *f, uint32_t shard, uint32_t block)
{
    for (uint64_t end = 1; end <= SOME; end += SOME / 3) {
        fill(f, shard, block, end, end);
        wait_copied(f, shard, end);
    }
    fill(f, shard, block, SOME, SOME);
    wait_copied(f, shard, SOME);
    spoil(f, shard, SOME);
}

/* More than there is. */
static void ring_too_far(struct fake *f, uint32_t shard, uint32_t block)
{
    fill(f, shard, block, 0, UINT64_MAX);
    wait_copied(f, shard, f->plan.shard_elements[shard]);
}

/* Before anything is there; nobody looks. */
static void ring_too_early(struct fake *f, uint32_t shard, uint32_t block)
{
    const uint64_t all = f->plan.shard_elements[shard];
    float *to = shared_memory_values(f->shared_memory[shard], block - 1);
    for (uint64_t i = 0; i < all; i++) {
        to[i] = -1;
    }
    shared_memory_tell_filled(f->shared_memory[shard], block - 1, all);
}

static void set_bell(struct fake *f, void (*bell)(struct fake *, uint32_t, uint32_t))
{
    pthread_mutex_lock(&f->lock);
    f->before_answer = bell;
    pthread_mutex_unlock(&f->lock);
}

/* ---- exchanges ---- */

/* As pushed and as received, on both shards. */
static void check_values(struct fake *f, uint64_t number)
{
    memset(f->values, 0, FLAT_COUNT * sizeof(float));
    for (uint32_t s = 0; s < SHARDS; s++) {
        client_exchange(f, number + s, s, true, true);
        const struct ps_answer a = client_next_answer(f, number + s);
        if (a.code != 0) {
            fail_msg("%s", a.message);
        }
    }
    assert_memory_equal(f->values, f->gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    assert_memory_equal(f->values + BIAS_AT, f->gradient + BIAS_AT, BIASES * sizeof(float));
}

static void test_what_is_filled_is_copied_before_it_is_said(void **state)
{
    (void)state;
    struct rig r;
    start(&r, true);
    check_values(&r.f, 10); /* offers the memory */
    set_bell(&r.f, ring_once);
    check_values(&r.f, 20);
    check_values(&r.f, 30); /* a block that was used before begins with nothing */
    set_bell(&r.f, ring_often);
    check_values(&r.f, 40);
    set_bell(&r.f, NULL);
    check_values(&r.f, 50);
    assert_int_equal(r.f.values_blocks, 4 * SHARDS);
    finish(&r);
}

static void test_what_was_copied_counts_with_the_answer_alone(void **state)
{
    (void)state;
    struct rig r;
    start(&r, true);
    check_values(&r.f, 10);
    set_bell(&r.f, ring_once);
    for (uint64_t i = 2; i < 4; i++) {
        r.f.code = -ERR_ABORTED;
        client_set_script(&r.f, i % 2 == 0 ? SCRIPT_REFUSE : SCRIPT_BREAK);
        client_exchange(&r.f, 10 * i, 0, true, true);
        assert_int_equal(client_next_answer(&r.f, 10 * i).code,
                         i % 2 == 0 ? ERR_ABORTED : ERR_UNAVAILABLE);
        client_set_script(&r.f, SCRIPT_RIGHT);
        check_values(&r.f, 10 * i + 1); /* with new memory, where the stream broke */
        check_values(&r.f, 10 * i + 4);
    }
    finish(&r);
}

static void test_a_server_that_lies_hurts_its_own_values(void **state)
{
    (void)state;
    struct rig r;
    start(&r, true);
    check_values(&r.f, 10);
    set_bell(&r.f, ring_too_far);
    client_exchange(&r.f, 20, 1, true, true);
    assert_int_equal(client_next_answer(&r.f, 20).code, 0);
    set_bell(&r.f, NULL);
    check_values(&r.f, 30);
    finish(&r);
}

static void test_who_does_not_poll_waits_for_the_message(void **state)
{
    (void)state;
    struct rig r;
    start(&r, false);
    check_values(&r.f, 10);
    set_bell(&r.f, ring_too_early);
    for (uint64_t i = 2; i < 5; i++) {
        check_values(&r.f, 10 * i);
    }
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_filled_is_copied_before_it_is_said),
        cmocka_unit_test(test_what_was_copied_counts_with_the_answer_alone),
        cmocka_unit_test(test_a_server_that_lies_hurts_its_own_values),
        cmocka_unit_test(test_who_does_not_poll_waits_for_the_message),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
