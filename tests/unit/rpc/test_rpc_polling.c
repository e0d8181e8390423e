/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that poll: the pollers of a server, and a guest in the place of a loop's thread, which
 * may sleep there, too. Whatever they decide, everything is answered, once, and nothing waits for
 * somebody who does not look. */
#include "rpc_rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/rng.h"
#include "os/chrono.h"
#include "support/wait_until.h"

#define ROUNDS 300
#define STREAMS 3
#define FORGOTTEN 5 /* rounds in which the guest does not give its place back */

/* The guest's side: a mailbox of one number, which callbacks raise. */
struct box {
    struct rpc_loop *loop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t count, seen;
    bool in_order[STREAMS], done[STREAMS];
    uint64_t next[STREAMS];
    atomic_uint inside; /* callbacks that run at this moment */
    unsigned most_inside;
};

struct one {
    struct box *box;
    size_t index;
};

static void post(struct box *b)
{
    pthread_mutex_lock(&b->lock);
    b->count++;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct one *o = ctx;
    const unsigned inside = atomic_fetch_add(&o->box->inside, 1) + 1;
    if (inside > o->box->most_inside) { /* two at a time would race here, too */
        o->box->most_inside = inside;
    }
    const echo_item *item = (const echo_item *)msg->body;
    o->box->in_order[o->index] &= item->number == o->box->next[o->index]++;
    atomic_fetch_sub(&o->box->inside, 1);
    post(o->box);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    (void)status;
    struct one *o = ctx;
    pthread_mutex_lock(&o->box->lock);
    o->box->done[o->index] = true;
    pthread_mutex_unlock(&o->box->lock);
    post(o->box);
}

static bool is_ready(void *ctx)
{
    struct box *b = ctx;
    pthread_mutex_lock(&b->lock);
    const bool ready = b->count > b->seen;
    pthread_mutex_unlock(&b->lock);
    return ready;
}

/* What a loop does: take the place of the other thread if it @polls, or sleep, and hear of what
 * came. */
static void wait_for_post(struct box *b, bool polls)
{
    if (polls) {
        (void)rpc_loop_wait(b->loop, is_ready, b, UINT64_MAX);
    }
    pthread_mutex_lock(&b->lock);
    wait_until_signalled(b->count > b->seen, &b->changed, &b->lock);
    b->seen++;
    pthread_mutex_unlock(&b->lock);
    if (polls) {
        rpc_loop_waited(b->loop);
    }
}

struct polled {
    struct rpc_polling *polling;
    struct rpc_rig rig;
    struct box box;
    struct rpc_channel *channel;
    struct one ones[STREAMS];
    struct rpc_stream *streams[STREAMS];
};

static void start(struct polled *p, const char *setting)
{
    struct poll_setting s;
    struct err err = {0};
    *p = (struct polled){0};
    assert_int_equal(poll_setting_parse(setting, &s, &err), 0);
    p->polling = rpc_polling_new(&s);
    const struct rpc_server_options options = {.polling = p->polling};
    rpc_rig_start(&p->rig, &options);
    pthread_mutex_init(&p->box.lock, NULL);
    pthread_cond_init(&p->box.changed, NULL);
    p->box.loop = rpc_loop_new(p->polling, &err);
    assert_non_null(p->box.loop);
    const struct rpc_channel_options channel = {.target = rpc_server_address(p->rig.server, 0),
                                                .loop = p->box.loop,
                                                .own_connection = true};
    p->channel = rpc_channel_new(&channel, &err);
    assert_non_null(p->channel);
    static const struct rpc_stream_events events = {on_message, on_done};
    for (size_t i = 0; i < STREAMS; i++) {
        p->ones[i] = (struct one){&p->box, i};
        p->box.in_order[i] = true;
        const struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                            .method = "Chat",
                                            .request_bulk = ECHO_BULK_FIELD,
                                            .response_bulk = ECHO_BULK_FIELD};
        p->streams[i] = rpc_stream_open(p->channel, &request, &events, &p->ones[i], &err);
        assert_non_null(p->streams[i]);
    }
}

static void finish(struct polled *p)
{
    for (size_t i = 0; i < STREAMS; i++) {
        rpc_stream_free(p->streams[i]);
    }
    rpc_channel_free(p->channel);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_true(p->box.done[i]);
    }
    rpc_loop_free(p->box.loop);
    rpc_rig_stop(&p->rig);
    rpc_polling_free(p->polling);
    pthread_cond_destroy(&p->box.changed);
    pthread_mutex_destroy(&p->box.lock);
}

/* One message there and back after the other, while the guest polls, sleeps, goes away and forgets
 * to give its place back, in any order. */
static void stress(const char *setting, uint64_t seed)
{
    struct polled p;
    start(&p, setting);
    int forgotten = 0;
    uint64_t sent[STREAMS] = {0};
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const uint64_t dice = rng_u64(seed, i);
        const size_t stream = dice % STREAMS;
        const unsigned count = 1 + (unsigned)((dice >> 8) % 3);
        const bool polls = (dice >> 16) % 8 != 0;
        for (unsigned k = 0; k < count; k++) {
            rpc_rig_send(p.streams[stream], sent[stream]++);
        }
        if (!polls && (forgotten == FORGOTTEN || (dice >> 24) % 2 == 0)) {
            rpc_loop_give_back(p.box.loop);
        } else if (!polls) {
            forgotten++;
        }
        for (unsigned k = 0; k < count; k++) {
            wait_for_post(&p.box, polls);
        }
    }
    assert_int_equal(p.box.most_inside, 1);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_true(p.box.in_order[i]);
    }
    finish(&p);
}

static void test_nothing_is_lost_while_everything_is_polled(void **state)
{
    (void)state;
    stress("1000", 1);
}

static void test_nothing_is_lost_while_polls_are_too_short(void **state)
{
    (void)state;
    stress("10", 2);
}

static void test_nothing_is_lost_while_it_adapts(void **state)
{
    (void)state;
    stress("auto", 3);
}

static void test_nothing_is_lost_without_polling(void **state)
{
    (void)state;
    stress("0", 4);
}

/* The guest has gone with the place: freeing a channel, which waits for callbacks, does not wait
 * for it; nor does the end of the loop. */
static void test_the_end_needs_no_guest(void **state)
{
    (void)state;
    struct polled p;
    start(&p, "1000");
    for (int i = 0; i < 10; i++) {
        rpc_rig_send(p.streams[0], (uint64_t)i);
        wait_for_post(&p.box, true);
    }
    finish(&p);
}

/* Nothing comes over the connection: the guest sleeps in the queue until another thread says that
 * there is something to do, at any moment of its way to sleep. */
static void *post_and_wake(void *arg)
{
    struct box *b = arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&b->lock);
        wait_until_signalled(b->seen == (uint64_t)i, &b->changed, &b->lock);
        pthread_mutex_unlock(&b->lock);
        for (uint64_t spins = rng_u64(5, (uint64_t)i) % 20000; spins > 0; spins--) {
            atomic_signal_fence(memory_order_seq_cst);
        }
        post(b);
        rpc_loop_wake(b->loop);
    }
    return NULL;
}

static void test_a_guest_that_sleeps_is_woken(void **state)
{
    (void)state;
    struct polled p;
    pthread_t other;
    start(&p, "0");
    assert_int_equal(pthread_create(&other, NULL, post_and_wake, &p.box), 0);
    unsigned in_queue = 0;
    for (int i = 0; i < ROUNDS; i++) {
        in_queue += rpc_loop_wait(p.box.loop, is_ready, &p.box, UINT64_MAX);
        pthread_mutex_lock(&p.box.lock);
        wait_until_signalled(p.box.count > p.box.seen, &p.box.changed, &p.box.lock);
        p.box.seen++;
        pthread_cond_broadcast(&p.box.changed);
        pthread_mutex_unlock(&p.box.lock);
        rpc_loop_waited(p.box.loop);
    }
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_true(in_queue > 0);
    finish(&p);
}

static bool is_time(void *ctx)
{
    return chrono_now_ms() >= *(const uint64_t *)ctx;
}

static void test_a_guest_sleeps_until_its_time(void **state)
{
    (void)state;
    struct polled p;
    start(&p, "0");
    uint64_t until_ms = chrono_now_ms() + 30;
    assert_true(rpc_loop_wait(p.box.loop, is_time, &until_ms, until_ms));
    rpc_loop_waited(p.box.loop);
    assert_true(is_time(&until_ms));
    finish(&p);
}

static void test_totals(void **state)
{
    (void)state;
    struct polled p;
    start(&p, "1000");
    for (int i = 0; i < 100; i++) {
        rpc_rig_send(p.streams[0], (uint64_t)i);
        wait_for_post(&p.box, true);
    }
    struct rpc_polling_totals t = rpc_polling_totals(p.polling);
    assert_true(t.found + t.missed >= 100); /* which of them is the machine's business */
    assert_true(t.polled_ns > 0);
    assert_int_equal(t.slept, 0);
    assert_true(t.waiters[POLL_FIXED] > 0);
    assert_int_equal(t.neighbours, 0);
    rpc_polling_neighbour(p.polling, true);
    rpc_polling_neighbour(p.polling, true);
    rpc_polling_neighbour(p.polling, false);
    assert_int_equal(rpc_polling_totals(p.polling).neighbours, 1);
    rpc_polling_neighbour(NULL, true);
    finish(&p);
}

int main(void)
{
    rpc_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost_while_everything_is_polled),
        cmocka_unit_test(test_nothing_is_lost_while_polls_are_too_short),
        cmocka_unit_test(test_nothing_is_lost_while_it_adapts),
        cmocka_unit_test(test_nothing_is_lost_without_polling),
        cmocka_unit_test(test_the_end_needs_no_guest),
        cmocka_unit_test(test_a_guest_that_sleeps_is_woken),
        cmocka_unit_test(test_a_guest_sleeps_until_its_time),
        cmocka_unit_test(test_totals),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
