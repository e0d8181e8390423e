/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "job/progress/step_map.h"

#define EPOCHS 4 /* that the walks below go through */

static void ledger_of(struct ledger *l, struct ledger_shape shape, uint64_t epoch)
{
    assert_int_equal(ledger_init(l, &shape, epoch, NULL), 0);
}

/* Some splits untouched, some partly done, some complete, now and then all of them. */
static void do_some(struct ledger *l, uint64_t seed)
{
    bool all = rng_below(rng_key(seed, "all"), 0, 6) == 0;
    for (uint32_t s = 0; s < l->split_count; s++) {
        uint32_t n = ledger_shape_split_batches(&l->shape, s);
        l->done[s] = all ? n : (uint32_t)rng_below(rng_key(seed, "done"), s, n + 1);
    }
}

/* One step of a training that is walked through batch by batch. */
struct stop {
    uint64_t epoch, batches, examples;
    struct ledger ledger; /* an epoch that is complete is the next one */
};

struct walk {
    uint64_t first; /* step number of stops[0] */
    struct stop *stops;
    size_t count;
    uint64_t ends[64]; /* step at which epoch e is complete */
};

static void count_done(const struct ledger *l, uint64_t *batches, uint64_t *examples)
{
    *batches = l->epoch * ledger_shape_batches(&l->shape);
    *examples = l->epoch * l->shape.records;
    for (uint32_t s = 0; s < l->split_count; s++) {
        for (uint32_t b = 0; b < l->done[s]; b++) {
            struct ledger_batch batch;
            ledger_shape_batch(&l->shape, l->epoch, s, b, &batch);
            *examples += batch.count;
            *batches += 1;
        }
    }
}

static void stop_at(struct walk *w, const struct ledger *l)
{
    struct stop *s = &w->stops[w->count++];
    s->epoch = l->epoch;
    ledger_copy(&s->ledger, l);
    count_done(l, &s->batches, &s->examples);
}

static void walk_init(struct walk *w, uint64_t step, uint32_t step_batches,
                      const struct ledger *from)
{
    struct ledger l;
    ledger_copy(&l, from);
    if (ledger_left(&l) == 0) {
        ledger_next_epoch(&l);
    }
    uint64_t first = l.epoch;
    *w = (struct walk){.first = step};
    w->stops = mem_new(EPOCHS * ledger_shape_batches(&l.shape) + 1, sizeof *w->stops);
    stop_at(w, &l);
    while (l.epoch < first + EPOCHS) {
        struct ledger_batch b;
        for (uint32_t i = 0; i < step_batches && ledger_pending(&l, 0, &b); i++) {
            assert_int_equal(l.done[b.split], b.batch);
            l.done[b.split]++;
        }
        step++;
        if (ledger_left(&l) == 0) {
            w->ends[l.epoch] = step;
            ledger_next_epoch(&l);
        }
        stop_at(w, &l);
    }
    ledger_release(&l);
}

static void walk_release(struct walk *w)
{
    for (size_t i = 0; i < w->count; i++) {
        ledger_release(&w->stops[i].ledger);
    }
    free(w->stops);
}

static void check_stops(const struct step_map *c, const struct walk *w)
{
    for (size_t i = 0; i < w->count; i++) {
        const struct stop *s = &w->stops[i];
        uint64_t step = w->first + i;
        assert_int_equal(step_map_epoch(c, step), s->epoch);
        assert_int_equal(step_map_batches(c, step), s->batches);
        assert_int_equal(step_map_examples(c, step), s->examples);
        assert_int_equal(step_map_step(c, s->batches), step);
        struct ledger at;
        step_map_ledger(c, step, &at);
        assert_int_equal(at.epoch, s->ledger.epoch);
        assert_memory_equal(&at.shape, &s->ledger.shape, sizeof at.shape);
        assert_memory_equal(at.done, s->ledger.done, at.split_count * sizeof *at.done);
        ledger_release(&at);
    }
    for (uint64_t e = w->stops[0].epoch; e < w->stops[0].epoch + EPOCHS; e++) {
        assert_int_equal(step_map_epoch_end(c, e), w->ends[e]);
    }
}

/* Any number of batches belongs to the last step that does not need more. */
static void check_steps(const struct step_map *c, const struct walk *w)
{
    size_t i = 0;
    for (uint64_t batches = 0; batches < w->stops[w->count - 1].batches; batches++) {
        while (w->stops[i + 1].batches <= batches) {
            i++;
        }
        assert_int_equal(step_map_step(c, batches), w->first + i);
    }
}

static void check_next(const struct step_map *c, const struct walk *w)
{
    uint64_t epoch = w->stops[0].epoch;
    for (size_t i = 0; i < w->count; i++) {
        uint64_t step = w->first + i;
        for (uint64_t count = 1; count <= 3; count++) {
            uint64_t multiple = step + 1;
            while (multiple % count != 0) {
                multiple++;
            }
            assert_int_equal(step_map_next(c, step, count, false), multiple);
            uint64_t e = epoch; /* complete with it: e + 1 epochs */
            while (e < epoch + EPOCHS && ((e + 1) % count != 0 || w->ends[e] <= step)) {
                e++;
            }
            if (e < epoch + EPOCHS) {
                assert_int_equal(step_map_next(c, step, count, true), w->ends[e]);
            } else {
                assert_true(step_map_next(c, step, count, true) > w->first + w->count - 1);
            }
        }
        assert_true(step_map_next(c, step, 0, true) == UINT64_MAX);
        assert_true(step_map_next(c, step, 0, false) == UINT64_MAX);
    }
}

/* A step's batches are those that ledger_sync_batch() hands to its replicas. */
static void check_sync(const struct step_map *c, const struct walk *w)
{
    for (size_t i = 0; i + 1 < w->count; i++) {
        struct ledger l;
        ledger_copy(&l, &w->stops[i].ledger);
        uint64_t examples = 0;
        for (uint32_t r = 0; r < c->step_batches; r++) {
            struct ledger_batch b;
            ledger_sync_batch(&c->ledger, c->step_batches, i, r, &b);
            examples += b.count;
            if (b.count > 0) {
                assert_int_equal(b.epoch, l.epoch);
                assert_int_equal(b.batch, l.done[b.split]);
                l.done[b.split]++;
            }
        }
        assert_int_equal(w->stops[i].examples + examples, w->stops[i + 1].examples);
        ledger_release(&l);
    }
    uint64_t epochs = c->ledger.epoch + EPOCHS;
    assert_int_equal(c->step + ledger_sync_steps(&c->ledger, c->step_batches, epochs),
                     step_map_epoch_end(c, epochs - 1));
}

static void check(const struct ledger *l, uint64_t step, uint32_t step_batches)
{
    struct step_map c;
    struct walk w;
    step_map_init(&c, step, step_batches, l);
    walk_init(&w, step, step_batches, l);
    check_stops(&c, &w);
    check_steps(&c, &w);
    check_next(&c, &w);
    check_sync(&c, &w);
    walk_release(&w);
    step_map_release(&c);
    assert_null(c.ledger.done);
}

static void step_maps_agree_with_a_walk(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        uint64_t key = rng_key(seed, "step map");
        struct ledger_shape shape = {
            .records = 1 + rng_below(key, 0, 60),
            .batch_records = 1 + (uint32_t)rng_below(key, 1, 7),
            .split_batches = 1 + (uint32_t)rng_below(key, 2, 6),
        };
        struct ledger l;
        ledger_of(&l, shape, rng_below(key, 3, 4));
        if (seed % 4 > 0) {
            do_some(&l, seed);
        }
        /* One batch in a step, as in async; more than an epoch has, too. */
        uint32_t step_batches = seed % 3 == 0 ? 1 : 1 + (uint32_t)rng_below(key, 4, 9);
        check(&l, rng_below(key, 5, 50), step_batches);
        ledger_release(&l);
    }
}

static void by_hand(void **state)
{
    (void)state;
    /* 103 records: 10 batches of 10 and one of 3, in splits of 4, 4 and 3 batches. */
    struct ledger l;
    ledger_of(&l, (struct ledger_shape){103, 10, 4}, 2);
    l.done[0] = 1;
    l.done[1] = 4;
    l.done[2] = 3; /* with the short one */
    struct step_map c;
    step_map_init(&c, 40, 2, &l);
    assert_int_equal(c.left, 3);
    assert_int_equal(step_map_batches(&c, 40), 30);
    assert_int_equal(step_map_examples(&c, 40), 206 + 10 + 40 + 23);
    assert_int_equal(step_map_examples(&c, 41), 206 + 10 + 40 + 23 + 20);
    assert_int_equal(step_map_epoch_end(&c, 2), 42); /* the second step has one batch */
    assert_int_equal(step_map_batches(&c, 42), 33);
    assert_int_equal(step_map_examples(&c, 42), 309);
    assert_int_equal(step_map_epoch(&c, 41), 2);
    assert_int_equal(step_map_epoch(&c, 42), 3);
    assert_int_equal(step_map_epoch_end(&c, 3), 48); /* 11 batches are 6 steps */
    assert_int_equal(step_map_examples(&c, 47), 309 + 100);
    assert_int_equal(step_map_examples(&c, 48), 412);
    assert_int_equal(step_map_step(&c, 32), 41);
    assert_int_equal(step_map_step(&c, 33), 42);
    assert_int_equal(step_map_step(&c, 34), 42);
    assert_int_equal(step_map_next(&c, 40, 2, true), 48); /* epochs 0 to 3 are four */
    assert_int_equal(step_map_next(&c, 40, 3, true), 42);
    assert_int_equal(step_map_next(&c, 42, 3, true), 60);
    assert_int_equal(step_map_next(&c, 40, 25, false), 50);
    assert_int_equal(step_map_next(&c, 50, 25, false), 75);
    step_map_release(&c);
    ledger_release(&l);
}

/* A base behind the step that is asked for: everything is as at the base. */
static void before_the_step_map(void **state)
{
    (void)state;
    struct ledger l;
    ledger_of(&l, (struct ledger_shape){100, 10, 5}, 1);
    l.done[0] = 3;
    struct step_map c;
    step_map_init(&c, 7, 1, &l);
    l.done[0] = 0; /* a copy shares nothing */
    assert_int_equal(step_map_epoch(&c, 0), 1);
    assert_int_equal(step_map_epoch_end(&c, 0), step_map_epoch_end(&c, 1));
    assert_int_equal(step_map_batches(&c, 6), 13);
    assert_int_equal(step_map_examples(&c, 0), 130);
    assert_int_equal(step_map_step(&c, 0), 7);
    assert_int_equal(step_map_step(&c, 12), 7);
    struct ledger at;
    step_map_ledger(&c, 3, &at);
    assert_int_equal(at.done[0], 3);
    assert_int_equal(at.done[1], 0);
    ledger_release(&at);
    step_map_release(&c);
    ledger_release(&l);
}

static void a_complete_epoch_is_the_next_ones_beginning(void **state)
{
    (void)state;
    struct ledger l;
    ledger_of(&l, (struct ledger_shape){25, 10, 2}, 4);
    l.done[0] = 2;
    l.done[1] = 1;
    struct step_map c;
    step_map_init(&c, 9, 4, &l);
    assert_int_equal(c.ledger.epoch, 5);
    assert_int_equal(c.left, 3);
    assert_int_equal(step_map_epoch(&c, 9), 5);
    assert_int_equal(step_map_batches(&c, 9), 15);
    assert_int_equal(step_map_examples(&c, 9), 125);
    assert_int_equal(step_map_epoch_end(&c, 5), 10); /* three batches of four */
    assert_int_equal(step_map_next(&c, 9, 1, true), 10);
    step_map_release(&c);
    ledger_release(&l);
}

/* Numbers that no training reaches end at UINT64_MAX instead of beginning anew. */
static void huge_numbers_stop_at_the_end(void **state)
{
    (void)state;
    struct ledger l;
    ledger_of(&l, (struct ledger_shape){LEDGER_RECORDS_MAX, 1, UINT32_MAX}, 0);
    struct step_map c;
    step_map_init(&c, 5, 1, &l);
    assert_int_equal(step_map_epoch_end(&c, 0), LEDGER_RECORDS_MAX + 5);
    assert_true(step_map_epoch_end(&c, UINT64_MAX) == UINT64_MAX);
    assert_true(step_map_epoch_end(&c, 1 << 20) == UINT64_MAX);
    assert_int_equal(step_map_epoch(&c, UINT64_MAX), 65535);
    assert_true(step_map_batches(&c, UINT64_MAX) == UINT64_MAX - 5);
    assert_true(step_map_examples(&c, UINT64_MAX) == UINT64_MAX - 5);
    assert_true(step_map_step(&c, UINT64_MAX) == UINT64_MAX);
    assert_true(step_map_next(&c, 0, UINT64_MAX, true) == UINT64_MAX);
    assert_true(step_map_next(&c, 0, 1 << 20, true) == UINT64_MAX);
    assert_true(step_map_next(&c, UINT64_MAX, 1, false) == UINT64_MAX);
    assert_true(step_map_next(&c, UINT64_MAX - 1, 4, false) == UINT64_MAX);
    assert_true(step_map_next(&c, UINT64_MAX, 3, true) == UINT64_MAX);
    step_map_release(&c);

    step_map_init(&c, 0, UINT32_MAX, &l);
    assert_int_equal(step_map_epoch_end(&c, 0), (1 << 16) + 1); /* 2^48 / (2^32 - 1), rounded up */
    assert_true(step_map_batches(&c, UINT64_MAX) == UINT64_MAX);
    step_map_release(&c);

    l.epoch = UINT64_MAX - 1; /* as from a peer */
    step_map_init(&c, UINT64_MAX - 2, 1, &l);
    assert_true(step_map_epoch(&c, UINT64_MAX) == UINT64_MAX - 1);
    assert_true(step_map_batches(&c, UINT64_MAX) == UINT64_MAX);
    assert_true(step_map_examples(&c, UINT64_MAX) == UINT64_MAX);
    assert_true(step_map_step(&c, UINT64_MAX) == UINT64_MAX - 2);
    assert_true(step_map_next(&c, UINT64_MAX - 2, 1, true) == UINT64_MAX);
    step_map_release(&c);
    ledger_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_maps_agree_with_a_walk),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(before_the_step_map),
        cmocka_unit_test(a_complete_epoch_is_the_next_ones_beginning),
        cmocka_unit_test(huge_numbers_stop_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
