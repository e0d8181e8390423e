/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that leave while they are made. */
#include "ps_client_rig.h"

#include "support/wait_until.h"

struct make {
    struct fake *f;
    size_t variable;
    uint64_t first, count;
    bool begun;
};

static void run_begin(void *ctx)
{
    struct make *m = ctx;
    struct fake *f = m->f;
    for (uint32_t s = 0; s < SHARDS; s++) {
        struct ps_client_request request = {
            .exchange = 30 + s,
            .shard = s,
            .generation = 1,
            .ask = {.kind = EXCHANGE_TRAIN,
                    .has_push = true,
                    .push = {.examples = 1},
                    .has_pull = true},
            .values = f->values,
            .gradient = f->gradient,
        };
        assert_true(ps_client_begin(f->client, &request));
        assert_false(ps_client_begin(f->client, &request)); /* one at a time */
        request.gradient = NULL;
        assert_false(ps_client_begin(f->client, &request));
    }
}

static void run_made(void *ctx)
{
    struct make *m = ctx;
    ps_client_made(m->f->client, m->variable, m->first, m->count);
}

static void run_made_all(void *ctx)
{
    struct make *m = ctx;
    ps_client_made_all(m->f->client);
}

static void begin(struct fake *f)
{
    struct make m = {.f = f};
    assert_int_equal(loop_call(f->loop, run_begin, &m, NULL), 0);
}

static void make(struct fake *f, size_t variable, uint64_t first, uint64_t count)
{
    struct make m = {.f = f, .variable = variable, .first = first, .count = count};
    assert_int_equal(loop_call(f->loop, run_made, &m, NULL), 0);
}

static void make_all(struct fake *f)
{
    struct make m = {.f = f};
    assert_int_equal(loop_call(f->loop, run_made_all, &m, NULL), 0);
}

static void wait_pushed(struct fake *f, uint32_t shard, uint64_t elements)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->pushed[shard] >= elements, &f->changed, &f->lock);
    assert_int_equal(f->pushed[shard], elements);
    pthread_mutex_unlock(&f->lock);
}

/* Both shards answer, in any order. */
static void both_answers(struct fake *f, const int codes[SHARDS])
{
    bool came[SHARDS] = {false};
    for (uint32_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&f->lock);
        wait_until_signalled(f->answered != 0, &f->changed, &f->lock);
        struct ps_answer a = f->answers[0];
        f->answered--;
        memmove(f->answers, f->answers + 1, f->answered * sizeof a);
        uint64_t number = a.exchange;
        pthread_mutex_unlock(&f->lock);
        assert_true(number >= 30 && number < 30 + SHARDS && !came[number - 30]);
        came[number - 30] = true;
        assert_int_equal(a.code, codes[number - 30]);
    }
}

/* Elements of @shard that lie in rows [row, ROWS) of the kernel, or in the bias. */
static uint64_t elements_from(const struct fake *f, uint32_t shard, uint64_t row)
{
    size_t count;
    const struct partition *parts = plan_shard(&f->plan, shard, &count);
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = parts[i].row_first + parts[i].row_count;
        uint64_t first = parts[i].row_first > row ? parts[i].row_first : row;
        if (parts[i].variable == 1) {
            n += parts[i].count;
        } else if (first < end) {
            n += (end - first) * COLUMNS;
        }
    }
    return n;
}

/* From the end on, as far as it is worth a message; the rest when all is made. */
static void test_a_gradient_leaves_while_it_is_made(void **state)
{
    (void)state;
    static const int fine[SHARDS] = {0};
    struct fake f;
    client_start(&f, 0);
    begin(&f);
    make(&f, 1, 0, BIASES);
    uint64_t sent[SHARDS] = {0};
    for (uint64_t row = ROWS; row > 1; row -= 100) {
        make(&f, 0, (row - 100) * COLUMNS, 100 * COLUMNS);
        for (uint32_t s = 0; s < SHARDS; s++) {
            uint64_t made = elements_from(&f, s, row - 100);
            sent[s] = (made - sent[s]) * sizeof(float) >= PS_CLIENT_PART_BYTES_MIN ? made : sent[s];
            wait_pushed(&f, s, sent[s]);
        }
    }
    unsigned before[SHARDS];
    pthread_mutex_lock(&f.lock); /* the server counts on when the rest comes */
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_true(sent[s] > 0);
        before[s] = f.messages[s];
    }
    pthread_mutex_unlock(&f.lock);
    assert_true(sent[0] + sent[1] < f.plan.shard_elements[0] + f.plan.shard_elements[1]);
    make_all(&f);
    both_answers(&f, fine);
    for (uint32_t s = 0; s < SHARDS; s++) {
        bool rest = sent[s] < f.plan.shard_elements[s];
        assert_int_equal(f.messages[s], before[s] + (rest ? 1 : 0));
        assert_int_equal(f.offset[s], 0);
        assert_int_equal(f.pushed[s], f.plan.shard_elements[s]);
    }
    assert_memory_equal(f.values, f.gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    assert_memory_equal(f.values + BIAS_AT, f.gradient + BIAS_AT, BIASES * sizeof(float));
    make_all(&f); /* nothing is begun */
    client_exchange(&f, 40, 0, true, true);
    assert_int_equal(client_next_answer(&f, 40).code, 0);
    client_finish(&f);
}

/* What is made from its beginning on, or not at all, goes when all is said to be there. */
static void test_a_gradient_that_is_made_in_another_order(void **state)
{
    (void)state;
    static const int fine[SHARDS] = {0};
    struct fake f;
    client_start(&f, 0);
    begin(&f);
    make(&f, 0, 0, 10 * COLUMNS);
    make(&f, 7, 0, 10);
    make(&f, 0, 10 * COLUMNS, 300 * COLUMNS);
    make_all(&f);
    both_answers(&f, fine);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_int_equal(f.messages[s], 1);
    }
    assert_memory_equal(f.values, f.gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    client_finish(&f);
}

/* Half a push is as good as none. */
static void test_the_stream_breaks_while_a_gradient_is_made(void **state)
{
    (void)state;
    static const int broken[SHARDS] = {ERR_UNAVAILABLE, ERR_UNAVAILABLE};
    static const int fine[SHARDS] = {0};
    struct fake f;
    client_start(&f, 0);
    client_set_script(&f, SCRIPT_BREAK_EARLY);
    begin(&f);
    make(&f, 1, 0, BIASES);
    make(&f, 0, 1 * COLUMNS, (ROWS - 1) * COLUMNS);
    both_answers(&f, broken);
    make_all(&f);
    client_set_script(&f, SCRIPT_RIGHT);
    begin(&f);
    make_all(&f);
    both_answers(&f, fine);
    assert_memory_equal(f.values, f.gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    client_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gradient_leaves_while_it_is_made),
        cmocka_unit_test(test_a_gradient_that_is_made_in_another_order),
        cmocka_unit_test(test_the_stream_breaks_while_a_gradient_is_made),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
