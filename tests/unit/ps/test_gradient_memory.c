/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for gradients, with threads: buffers, pages of others, and the telling of who waited. */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ps/data/gradient_memory.h"
#include "support/wait_until.h"

#define FLOATS 1000
#define UNIT (FLOATS * sizeof(float))

struct rig {
    struct meter_registry *meters;
    struct pool *pool;
    struct budget budget;
    struct gradient_memory memory;
};

static void begin(struct rig *r, uint64_t bytes_max, uint64_t memory_bytes_max)
{
    struct err err;
    *r = (struct rig){.meters = meter_registry_new(), .budget.bytes_max = memory_bytes_max};
    r->pool = pool_new(1, 8, "test", &err);
    assert_non_null(r->pool);
    gradient_memory_init(&r->memory, bytes_max, r->pool, r->meters);
}

static void end(struct rig *r)
{
    pool_free(r->pool);
    assert_int_equal(r->memory.budget.held, 0);
    assert_int_equal(r->memory.budget.promised, 0);
    assert_int_equal(r->memory.budget.allocated, 0);
    assert_int_equal(atomic_load(&r->budget.bytes), 0);
    gradient_memory_release(&r->memory);
    meter_registry_free(r->meters);
}

static void join(struct rig *r, struct gradient_pool *s, uint64_t floats, size_t reserve)
{
    struct err err;
    gradient_pool_join(s, &r->memory, floats, &r->budget);
    assert_int_equal(gradient_pool_reserve(s, reserve, &err), 0);
}

/* Who waits, and a latch that says that it was told. */
struct waiting {
    struct gradient_wait wait;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned told;
};

static void on_ready(struct gradient_wait *w)
{
    struct waiting *me = (struct waiting *)w; /* the first member */
    pthread_mutex_lock(&me->lock);
    me->told++;
    pthread_cond_broadcast(&me->changed);
    pthread_mutex_unlock(&me->lock);
}

static void waiting_init(struct waiting *w)
{
    *w = (struct waiting){.wait.ready = on_ready};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
}

static void wait_told(struct waiting *w, unsigned times)
{
    pthread_mutex_lock(&w->lock);
    wait_until_signalled(w->told >= times, &w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void waiting_release(struct waiting *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
}

static void test_a_reserve_is_nobody_elses(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct gradient_pool b;
    struct waiting w[3];
    struct buffer *of_a[3];
    struct buffer *of_b;
    struct err err;
    begin(&r, 4 * UNIT, 0);
    join(&r, &a, FLOATS, 1);
    join(&r, &b, 2 * FLOATS, 1);
    for (size_t i = 0; i < 3; i++) {
        waiting_init(&w[i]);
    }
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &of_a[0], &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &of_a[1], &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &of_a[2], &err), 1); /* two are b's */
    gradient_pool_wait(&a, &w[0].wait);
    assert_int_equal(gradient_pool_get(&b, &w[1].wait, &of_b, &err),
                     0); /* does not queue for its own */
    assert_int_equal(gradient_pool_get(&b, &w[2].wait, &of_b, &err), 1);
    gradient_pool_wait(&b, &w[2].wait);
    buffer_put(of_a[0]);
    wait_told(&w[0], 1);
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &of_a[2], &err), 0);
    assert_ptr_equal(of_a[2], of_a[0]); /* its pages are there */
    assert_int_equal(w[2].told, 0);
    buffer_put(of_b);
    wait_told(&w[2], 1);
    assert_int_equal(gradient_pool_get(&b, &w[2].wait, &of_b, &err), 0);
    assert_true(meter_value(r.memory.waits) == 2);
    assert_true(meter_value(r.memory.bytes) == 4.0 * UNIT);
    buffer_put(of_b);
    buffer_put(of_a[1]);
    buffer_put(of_a[2]);
    gradient_pool_leave(&a);
    gradient_pool_leave(&b);
    for (size_t i = 0; i < 3; i++) {
        waiting_release(&w[i]);
    }
    end(&r);
}

static void test_reserves_fit_the_limit(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct gradient_pool b;
    struct err err;
    begin(&r, 4 * UNIT, 5 * UNIT);
    join(&r, &a, FLOATS, 3);
    gradient_pool_join(&b, &r.memory, FLOATS, &r.budget);
    assert_int_equal(gradient_pool_reserve(&b, 2, &err), ERR_EXHAUSTED);
    assert_string_equal(err.msg,
                        "2 gradients of 4000 bytes, which it may have to hold at a time, are too "
                        "many: 12000 bytes are promised to others and --gradient-bytes-max is "
                        "16000");
    assert_int_equal(gradient_pool_reserve(&b, SIZE_MAX, &err),
                     ERR_RANGE); /* never, whatever others do */
    assert_int_equal(gradient_pool_reserve(&b, 1, &err), 0);
    assert_int_equal(gradient_pool_reserve(&a, 2, &err), 0); /* less is always possible */
    assert_int_equal(gradient_pool_reserve(&b, 2, &err), 0);
    assert_int_equal(gradient_pool_reserve(&b, 3, &err), ERR_EXHAUSTED);
    assert_int_equal(atomic_load(&r.budget.bytes), 4 * UNIT);
    r.memory.budget.bytes_max = 100 * UNIT;
    assert_int_equal(gradient_pool_reserve(&b, 4, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "memory_bytes_max"));
    assert_int_equal(b.share.reserve, 2 * UNIT);
    gradient_pool_leave(&b);
    gradient_pool_leave(&a);
    end(&r);
}

/* A budget that is used up is waited for like the limit. */
static void test_no_more_memory_than_the_budget(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct waiting w;
    struct buffer *got[3];
    struct err err;
    begin(&r, 100 * UNIT, 2 * UNIT);
    join(&r, &a, FLOATS, 1);
    waiting_init(&w);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[0], &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[1], &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[2], &err), 1);
    gradient_pool_wait(&a, &w.wait);
    buffer_put(got[0]);
    wait_told(&w, 1);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[2], &err), 0);
    buffer_put(got[1]);
    buffer_put(got[2]);
    gradient_pool_leave(&a);
    waiting_release(&w);
    end(&r);
}

/* What lies about unused gives way to who needs it. */
static void test_unused_memory_goes(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct gradient_pool b;
    struct waiting w;
    struct buffer *got[4];
    struct err err;
    begin(&r, 5 * UNIT, 0);
    join(&r, &a, FLOATS, 1);
    join(&r, &b, 2 * FLOATS, 0);
    waiting_init(&w);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(gradient_pool_get(&a, &w.wait, &got[i], &err), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        buffer_put(got[i]);
    }
    assert_int_equal(atomic_load(&r.budget.bytes), 4 * UNIT);
    assert_int_equal(gradient_pool_get(&b, &w.wait, &got[0], &err), 0);
    assert_int_equal(atomic_load(&r.budget.bytes), 5 * UNIT);
    assert_int_equal(gradient_pool_get(&b, &w.wait, &got[1], &err), 0);
    assert_int_equal(atomic_load(&r.budget.bytes), 5 * UNIT);
    assert_int_equal(a.buffers.count, 1);
    buffer_put(got[0]);
    buffer_put(got[1]);
    gradient_pool_leave(&a);
    gradient_pool_leave(&b);
    waiting_release(&w);
    end(&r);
}

static void test_who_gives_up_takes_nothing_along(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct waiting w[2];
    struct buffer *got;
    struct err err;
    begin(&r, UNIT, 0);
    join(&r, &a, FLOATS, 1);
    waiting_init(&w[0]);
    waiting_init(&w[1]);
    assert_false(gradient_wait_cancel(&w[0].wait)); /* it never waited */
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &got, &err), 0);
    gradient_pool_wait(&a, &w[0].wait);
    gradient_pool_wait(&a, &w[1].wait);
    assert_true(gradient_wait_cancel(&w[0].wait));
    buffer_put(got);
    wait_told(&w[1], 1);
    assert_int_equal(w[0].told, 0);
    assert_false(gradient_wait_cancel(&w[1].wait)); /* told, and it had something */
    assert_int_equal(r.memory.budget.held, 0);
    gradient_pool_close(&a);
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &got, &err), ERR_NOT_FOUND);
    gradient_pool_leave(&a);
    waiting_release(&w[0]);
    waiting_release(&w[1]);
    end(&r);
}

static void test_the_end_of_a_share_is_told(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct gradient_pool b;
    struct waiting w[2];
    struct buffer *got;
    struct buffer *other;
    struct err err;
    begin(&r, 2 * UNIT, 0);
    join(&r, &a, FLOATS, 1);
    join(&r, &b, FLOATS, 1);
    waiting_init(&w[0]);
    waiting_init(&w[1]);
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &got, &err), 0);
    assert_int_equal(gradient_pool_get(&b, &w[1].wait, &other, &err), 0);
    gradient_pool_wait(&a, &w[0].wait);
    gradient_pool_wait(&b, &w[1].wait);
    gradient_pool_close(&a);
    wait_told(&w[0], 1);
    assert_int_equal(gradient_pool_get(&a, &w[0].wait, &got, &err), ERR_NOT_FOUND);
    assert_int_equal(w[1].told, 0); /* a gradient of a's is still there */
    buffer_put(got);
    wait_told(&w[1], 1);
    assert_int_equal(gradient_pool_get(&b, &w[1].wait, &got, &err), 0);
    buffer_put(got);
    buffer_put(other);
    gradient_pool_leave(&a);
    gradient_pool_leave(&b);
    waiting_release(&w[0]);
    waiting_release(&w[1]);
    end(&r);
}

/* Buffers that come back to a share that is closed are nobody's: their memory goes at once. */
static void test_what_comes_back_late_goes(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct waiting w;
    struct buffer *got[2];
    struct err err;
    begin(&r, 4 * UNIT, 0);
    join(&r, &a, FLOATS, 1);
    waiting_init(&w);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(gradient_pool_get(&a, &w.wait, &got[i], &err), 0);
    }
    gradient_pool_close(&a);
    assert_int_equal(r.memory.budget.allocated, 2 * UNIT);
    for (size_t i = 0; i < 2; i++) {
        const uint64_t before = atomic_load(&r.budget.bytes);
        buffer_put(got[i]);
        assert_int_equal(r.memory.budget.allocated, (1 - i) * UNIT);
        assert_true(atomic_load(&r.budget.bytes) < before);
    }
    gradient_pool_leave(&a);
    waiting_release(&w);
    end(&r);
}

static void test_what_is_lent(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct waiting w;
    struct buffer *got[2];
    struct err err;
    begin(&r, 4 * UNIT, 0);
    join(&r, &a, FLOATS, 1);
    waiting_init(&w);
    assert_true(gradient_memory_lend(&r.memory, 2 * UNIT));
    assert_false(gradient_memory_lend(&r.memory, 2 * UNIT)); /* the last one is reserved */
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[0], &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[1], &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[0], &err), 1);
    gradient_pool_wait(&a, &w.wait);
    gradient_memory_take_back(&r.memory, 2 * UNIT);
    wait_told(&w, 1);
    buffer_put(got[0]);
    assert_false(gradient_wait_cancel(&w.wait));
    buffer_put(got[1]);
    assert_true(gradient_memory_lend(&r.memory, 3 * UNIT));
    assert_int_equal(a.buffers.count, 1); /* the other one gave way */
    gradient_memory_take_back(&r.memory, 3 * UNIT);
    gradient_pool_leave(&a);
    waiting_release(&w);
    end(&r);
}

/* ---- memory of others ---- */

struct view {
    struct gradient_view view;
    unsigned drops;
};

static void on_drop(struct gradient_view *v)
{
    ((struct view *)v)->drops++; /* the first member */
}

static void test_gradients_in_views_take_room(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct waiting w;
    struct view v[2] = {{.view = {.bytes = UNIT, .drop = on_drop}},
                        {.view = {.bytes = UNIT, .drop = on_drop}}};
    struct buffer *got;
    struct err err;
    begin(&r, 2 * UNIT, 0);
    join(&r, &a, FLOATS, 1);
    waiting_init(&w);
    assert_int_equal(gradient_pool_enter(&a, &w.wait, &v[0].view, &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got, &err), 0);
    assert_true(meter_value(r.memory.bytes) == 2.0 * UNIT);
    assert_int_equal(r.memory.budget.allocated, 2 * UNIT);
    assert_int_equal(gradient_pool_enter(&a, &w.wait, &v[1].view, &err), 1);
    gradient_pool_wait(&a, &w.wait);
    gradient_pool_exit(&a, &v[0].view); /* its pages stay until the other one comes */
    wait_told(&w, 1);
    assert_true(meter_value(r.memory.mapped) == UNIT);
    assert_int_equal(v[0].drops, 0);
    assert_int_equal(gradient_pool_enter(&a, &w.wait, &v[1].view, &err), 0);
    assert_int_equal(v[0].drops, 1);
    assert_true(meter_value(r.memory.mapped) == 0);
    gradient_pool_exit(&a, &v[1].view);
    assert_int_equal(gradient_pool_enter(&a, &w.wait, &v[1].view, &err), 0); /* used again */
    gradient_pool_exit(&a, &v[1].view);
    assert_int_equal(v[1].drops, 0);
    buffer_put(got);
    gradient_pool_close(&a);
    assert_int_equal(gradient_pool_enter(&a, &w.wait, &v[1].view, &err), ERR_NOT_FOUND);
    gradient_view_forget(&r.memory, &v[1].view);
    gradient_view_forget(&r.memory, &v[0].view); /* it is not there */
    assert_true(meter_value(r.memory.mapped) == 0);
    gradient_pool_leave(&a);
    waiting_release(&w);
    end(&r);
}

/* Whoever needs memory gets it from what is mapped and not used, the oldest first. */
static void test_views_give_way(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct waiting w;
    struct view v[4];
    struct buffer *got[3];
    struct err err;
    begin(&r, 4 * UNIT, 0);
    join(&r, &a, FLOATS, 1);
    waiting_init(&w);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[0], &err), 0);
    for (size_t i = 0; i < 4; i++) {
        v[i] = (struct view){.view = {.bytes = UNIT, .drop = on_drop}};
        gradient_view_touched(&r.memory, &v[i].view, v[i].view.bytes);
        gradient_view_touched(&r.memory, &v[i].view, 1); /* it counts once */
    }
    assert_int_equal(v[3].drops, 2); /* there was no room for it */
    assert_int_equal(r.memory.budget.allocated, 4 * UNIT);
    assert_int_equal(r.memory.budget.promised,
                     UNIT); /* who only waits to be used again takes nothing */
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[1], &err), 0);
    assert_int_equal(v[0].drops, 1);
    assert_true(gradient_memory_lend(&r.memory, UNIT));
    assert_int_equal(v[1].drops, 1);
    assert_int_equal(gradient_pool_reserve(&a, 3, &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[2], &err), 0);
    assert_int_equal(v[2].drops, 1);
    assert_int_equal(r.memory.budget.allocated, 4 * UNIT);
    gradient_memory_take_back(&r.memory, UNIT);
    gradient_view_touched(&r.memory, &v[2].view, 0);
    assert_int_equal(v[2].drops, 1);
    gradient_view_forget(&r.memory, &v[2].view);
    for (size_t i = 0; i < 3; i++) {
        buffer_put(got[i]);
    }
    gradient_pool_leave(&a);
    waiting_release(&w);
    end(&r);
}

/* A reserve that lies in views is not kept in buffers besides. */
static void test_a_reserve_in_views(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool a;
    struct waiting w;
    struct view v[2] = {{.view = {.bytes = UNIT, .drop = on_drop}},
                        {.view = {.bytes = UNIT, .drop = on_drop}}};
    struct buffer *got[2];
    struct err err;
    begin(&r, 2 * UNIT, 0);
    join(&r, &a, FLOATS, 2);
    waiting_init(&w);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[0], &err), 0);
    assert_int_equal(gradient_pool_get(&a, &w.wait, &got[1], &err), 0);
    buffer_put(got[0]);
    buffer_put(got[1]);
    assert_int_equal(a.buffers.count, 2);
    assert_int_equal(gradient_pool_enter(&a, &w.wait, &v[0].view, &err), 0);
    assert_int_equal(a.buffers.count, 1);
    assert_int_equal(gradient_pool_enter(&a, &w.wait, &v[1].view, &err), 0);
    assert_int_equal(a.buffers.count, 0);
    assert_int_equal(r.memory.budget.allocated, 2 * UNIT);
    assert_int_equal(atomic_load(&r.budget.bytes), 2 * UNIT); /* nobody else gets it */
    gradient_pool_exit(&a, &v[0].view);
    gradient_pool_exit(&a, &v[1].view);
    gradient_view_forget(&r.memory, &v[0].view);
    gradient_view_forget(&r.memory, &v[1].view);
    gradient_pool_leave(&a);
    waiting_release(&w);
    end(&r);
}

#define THREADS 6
#define ROUNDS 400

struct crowd {
    struct rig *rig;
    struct gradient_pool *shares;
    uint64_t key;
};

/* Get, wait when it must, give up now and then, and give back. */
static void *run_crowd(void *arg)
{
    struct crowd *c = arg;
    struct waiting w;
    waiting_init(&w);
    unsigned waits = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct gradient_pool *s = &c->shares[rng_u64(c->key, 2 * i) % 2];
        struct buffer *b = NULL;
        struct err err;
        int rc = gradient_pool_get(s, &w.wait, &b, &err);
        if (rc == 1) {
            gradient_pool_wait(s, &w.wait);
            if (rng_u64(c->key, 2 * i + 1) % 4 == 0 && gradient_wait_cancel(&w.wait)) {
                continue;
            }
            wait_told(&w, ++waits);
            rc = gradient_pool_get(s, &w.wait, &b, &err);
            if (rc == 1) {
                continue; /* it gave up too late, and was told */
            }
        }
        if (rc != 0) {
            return "an error";
        }
        if (atomic_load(&c->rig->budget.bytes) > c->rig->memory.budget.bytes_max) {
            return "more than there may be";
        }
        b->floats.data[0] = (float)i;
        (void)sched_yield();
        buffer_put(b);
    }
    waiting_release(&w);
    return NULL;
}

static void test_a_crowd(void **state)
{
    (void)state;
    struct rig r;
    struct gradient_pool shares[2];
    struct crowd c[THREADS];
    pthread_t threads[THREADS];
    begin(&r, 5 * UNIT, 0);
    join(&r, &shares[0], FLOATS, 1);
    join(&r, &shares[1], 2 * FLOATS, 1);
    for (size_t i = 0; i < THREADS; i++) {
        c[i] = (struct crowd){&r, shares, rng_key(i, "crowd")};
        assert_int_equal(pthread_create(&threads[i], NULL, run_crowd, &c[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong != NULL) {
            fail_msg("%s", (const char *)wrong);
        }
    }
    gradient_pool_leave(&shares[0]);
    gradient_pool_leave(&shares[1]);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reserve_is_nobody_elses),
        cmocka_unit_test(test_reserves_fit_the_limit),
        cmocka_unit_test(test_no_more_memory_than_the_budget),
        cmocka_unit_test(test_unused_memory_goes),
        cmocka_unit_test(test_who_gives_up_takes_nothing_along),
        cmocka_unit_test(test_the_end_of_a_share_is_told),
        cmocka_unit_test(test_what_comes_back_late_goes),
        cmocka_unit_test(test_what_is_lent),
        cmocka_unit_test(test_gradients_in_views_take_room),
        cmocka_unit_test(test_views_give_way),
        cmocka_unit_test(test_a_reserve_in_views),
        cmocka_unit_test(test_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
