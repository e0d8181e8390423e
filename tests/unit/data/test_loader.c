#include "support/test.h"

#include "data/loader.h"
#include "data/order.h"
#include "unit/data/fixture.h"

#define RECORDS 100

static struct dataset *make_data(void)
{
    uint8_t pixels[RECORDS * 4], labels[RECORDS];
    for (size_t i = 0; i < RECORDS; i++) {
        memset(pixels + 4 * i, (int)i, 4);
        labels[i] = (uint8_t)i;
    }
    fixture_write_idx("x", 8, (uint32_t[]){RECORDS, 2, 2}, 3, pixels, sizeof pixels);
    fixture_write_idx("y", 8, (uint32_t[]){RECORDS}, 1, labels, sizeof labels);
    struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){"y"});
    spec.scale = DATA_SCALE_NONE;
    return fixture_open(&spec, DATA_LABEL_CLASS, NULL);
}

static void check_batch(const struct batch *b, uint64_t seed, uint64_t epoch, uint64_t first,
                        size_t count)
{
    struct order order;
    order_init(&order, RECORDS, seed, epoch);
    assert_int_equal(b->count, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t r = order_record(&order, first + i);
        assert_int_equal(b->classes[i], r);
        assert_true(b->features[4 * i] == (float)r && b->features[4 * i + 3] == (float)r);
    }
}

static void batches_follow_the_order(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 9, 16, 3, &l, NULL), 0);
    assert_null(loader_take(l));
    struct {
        uint64_t epoch, first;
        size_t count;
    } asked[40];
    size_t requested = 0, taken = 0;
    for (size_t i = 0; i < 40; i++) {
        asked[i].epoch = i / 7;
        asked[i].first = i % 7 * 16;
        asked[i].count = i % 7 == 6 ? 4 : 16;
    }
    while (taken < 40) {
        while (requested < 40 && requested < taken + 3) {
            assert_int_equal(loader_request(l, asked[requested].epoch, asked[requested].first,
                                            asked[requested].count, NULL),
                             0);
            requested++;
        }
        const struct batch *b = loader_take(l);
        assert_non_null(b);
        check_batch(b, 9, asked[taken].epoch, asked[taken].first, asked[taken].count);
        loader_return(l, b);
        taken++;
    }
    loader_free(l);
    dataset_free(data);
}

static void a_batch_stays_open_until_returned(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 1, 8, 2, &l, NULL), 0);
    assert_int_equal(loader_request(l, 0, 0, 8, NULL), 0);
    assert_int_equal(loader_request(l, 0, 8, 8, NULL), 0);
    assert_int_equal(loader_request(l, 0, 16, 8, NULL), ERR_EXHAUSTED);
    const struct batch *a = loader_take(l), *b = loader_take(l);
    assert_int_equal(loader_request(l, 0, 16, 8, NULL), ERR_EXHAUSTED);
    loader_return(l, b); /* in any order */
    assert_int_equal(loader_request(l, 0, 16, 8, NULL), 0);
    const struct batch *c = loader_take(l);
    check_batch(a, 1, 0, 0, 8);
    check_batch(c, 1, 0, 16, 8);
    loader_return(l, a);
    loader_return(l, c);
    loader_free(l);
    dataset_free(data);
}

static void positions_outside_the_data_are_refused(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 1, 8, 2, &l, NULL), 0);
    struct err err;
    assert_int_equal(loader_request(l, 0, 0, 9, &err), ERR_RANGE);
    assert_int_equal(loader_request(l, 0, 96, 8, &err), ERR_RANGE);
    assert_int_equal(loader_request(l, 0, UINT64_MAX, 1, &err), ERR_RANGE);
    assert_non_null(strstr(err.msg, "100 records"));
    assert_int_equal(loader_request(l, 0, 92, 8, &err), 0);
    loader_free(l); /* with an open request */
    dataset_free(data);
}

static void reset_forgets_what_was_not_taken(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 4, 32, 4, &l, NULL), 0);
    for (uint64_t round = 0; round < 50; round++) {
        assert_int_equal(loader_request(l, round, 0, 32, NULL), 0);
        const struct batch *held = loader_take(l);
        for (uint64_t k = 0; k < 3; k++) {
            assert_int_equal(loader_request(l, round, 32, 32, NULL), 0);
        }
        loader_reset(l);
        assert_null(loader_take(l));
        check_batch(held, 4, round, 0, 32);
        assert_int_equal(loader_request(l, round, 64, 32, NULL), 0);
        const struct batch *b = loader_take(l);
        check_batch(b, 4, round, 64, 32);
        loader_return(l, b);
        loader_return(l, held);
    }
    loader_free(l);
    loader_free(NULL);
    dataset_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_follow_the_order),
        cmocka_unit_test(a_batch_stays_open_until_returned),
        cmocka_unit_test(positions_outside_the_data_are_refused),
        cmocka_unit_test(reset_forgets_what_was_not_taken),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
