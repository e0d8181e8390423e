/* SPDX-License-Identifier: Apache-2.0 */
/* The answers for the records of files: all of them, in their order, and with the rows of tables as
 * they read at the version of the checkpoint. */
#include "saved_rig.h"

#include <math.h>

#define CLASSES "a,b,kind\n1,10,x\n3,30,y\n5,50,z\n"
#define LINEAR "linear: {name: wide, table: w, hashing: none, shared: true, bias: true}"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static char *sparse_job(struct saved_rig *r, const char *tables, const char *layers,
                        const char *rule)
{
    char *model = mem_printf("%slayers: [%s], loss: sigmoid_cross_entropy", tables, layers);
    char *update = mem_printf(", rule: %s", rule);
    saved_rig_file(r, "train", "1 0:2:1 1:4:1\n0 0:8:1 1:3:1\n");
    char *text =
        saved_rig_job(r, "libffm", ", columns: [{column: 0..1, as: sparse}]", model, update);
    free(model);
    free(update);
    return text;
}

/* A record's answer is the sum of its keys' rows; a key without a row reads as its first value. The
 * servers of an asynchronous job are at different versions. */
static void test_rows_of_a_table(void **state)
{
    struct saved_rig *r = *state;
    char *text = sparse_job(r, "tables: [{name: w, dim: 1, init: zeros}], ", "{" LINEAR "}", "sgd");
    char *path = saved_rig_checkpoint(r, text, 5, 2);
    struct saved_model *m = saved_rig_open(path);
    struct saved_rig_answers a;
    saved_rig_predict(
        r, m, "1 0:2:1 1:4:1\n0 0:3:1 1:2:1\n0 0:11:1 1:77:1\n1 0:5:1\n0 1:0:1 1:1:1\n", &a);
    const double bias = (double)saved_rig_value(0, 0);
    const double sums[] = {(double)r->rows[0][2][0] + (double)r->rows[0][4][0],
                           (double)r->rows[0][3][0] + (double)r->rows[0][2][0],
                           (double)r->rows[0][11][0], (double)r->rows[0][5][0],
                           (double)r->rows[0][0][0] + (double)r->rows[0][1][0]};
    assert_int_equal(a.count, 5);
    assert_int_equal(a.width, 2);
    assert_true(r->rows[0][2][0] != 0.0F && r->rows[0][3][0] != 0.0F);
    for (size_t i = 0; i < 5; i++) {
        saved_rig_near(a.values[2 * i + 1], sigmoid(sums[i] + bias));
        saved_rig_near(a.values[2 * i], 1 - sigmoid(sums[i] + bias));
    }
    saved_model_free(m);
    free(path);
    free(text);
}

/* A row that was not seen for a while reads as the updates without it would have left it; of two
 * tables each layer has its own. */
static void test_a_table_that_catches_up(void **state)
{
    struct saved_rig *r = *state;
    char *text =
        sparse_job(r,
                   "tables: [{name: w, dim: 1, init: zeros, catch_up: true}, "
                   "{name: f, dim: 2, init: zeros, catch_up: true}], ",
                   "{" LINEAR "}, {embedding: {name: e, from: 0, table: f, hashing: none}}, "
                   "{flatten: {name: flat, from: e}}, {dense: {name: d, units: 1}}, "
                   "{add: {from: [wide, d]}}",
                   "momentum");
    char *path = saved_rig_checkpoint(r, text, 5, 0);
    struct saved_model *m = saved_rig_open(path);
    struct saved_rig_answers a;
    saved_rig_predict(r, m, "1 0:1:1 1:4:1\n0 0:3:1 1:2:1\n", &a);
    const uint64_t keys[2][2] = {{1, 4}, {3, 2}};
    for (size_t i = 0; i < 2; i++) {
        double x = (double)saved_rig_value(0, 0) + (double)saved_rig_value(2, 0);
        for (size_t k = 0; k < 2; k++) {
            x += (double)r->rows[0][keys[i][k]][0];
            x += (double)r->rows[1][keys[i][0]][k] * (double)saved_rig_value(1, k);
        }
        saved_rig_near(a.values[2 * i + 1], sigmoid(x));
    }
    saved_model_free(m);
    free(path);
    free(text);
}

/* Batches are as those of an evaluation, whatever the files are. */
static void test_all_records_in_their_order(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", "a,b,price\n1,10,100\n3,30,300\n5,50,800\n");
    char *text =
        saved_rig_job(r, "csv", ", label: price, scale: none",
                      "layers: [{dense: {units: 1}}], loss: mean_squared_error", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    struct saved_model *m = saved_rig_open(path);
    static const struct {
        size_t records, calls, last;
    } cases[] = {{1, 1, 1}, {255, 1, 255}, {256, 1, 256}, {257, 2, 1}, {600, 3, 88}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct buf lines = {0};
        struct saved_rig_answers a;
        buf_add_str(&lines, "a,b,price\n");
        for (size_t i = 0; i < cases[c].records; i++) {
            buf_printf(&lines, "%zu,%zu,0\n", i, 7 * i % 13);
        }
        saved_rig_predict(r, m, buf_str(&lines), &a);
        assert_int_equal(a.count, cases[c].records);
        assert_int_equal(a.calls, cases[c].calls);
        assert_int_equal(a.last, cases[c].last);
        for (size_t i = 0; i < a.count; i++) {
            saved_rig_near(a.values[i], (double)i * (double)saved_rig_value(0, 0) +
                                            (double)(7 * i % 13) * (double)saved_rig_value(0, 1) +
                                            (double)saved_rig_value(1, 0));
        }
        buf_release(&lines);
    }
    saved_model_free(m);
    free(path);
    free(text);
}

static int refuse(void *context, const float *answers, const char *ids, size_t count,
                  struct err *err)
{
    unsigned *calls = context;
    (void)answers;
    (void)ids;
    (void)count;
    ++*calls;
    return err_set(err, ERR_UNAVAILABLE, "no room for answers");
}

static int fails(const struct saved_rig *r, struct saved_model *m, const char *text,
                 unsigned *calls, struct err *err)
{
    const struct encoder_files files = {.file = "test"};
    struct encoder_left left = {0};
    *calls = 0;
    saved_rig_file(r, "test", text);
    int rc = saved_predict(m, &files, 1, refuse, calls, &left, err);
    encoder_left_release(&left);
    return rc;
}

/* Who takes the answers ends it; keys that a layer has no rows for are named. */
static void test_what_goes_wrong_is_passed_on(void **state)
{
    struct saved_rig *r = *state;
    struct err err;
    unsigned calls;
    char *text = sparse_job(
        r, "", "{linear: {name: wide, rows: 9, hashing: none, shared: true, bias: true}}", "sgd");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    struct saved_model *m = saved_rig_open(path);
    assert_int_equal(fails(r, m, "1 0:2:1 1:8:1\n", &calls, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.msg, "no room for answers");
    assert_int_equal(calls, 1);
    assert_int_equal(fails(r, m, "1 0:2:1 1:8:1\n0 1:9:1\n", &calls, &err), ERR_INVALID);
    assert_int_equal(calls, 0);
    assert_non_null(strstr(err.msg, "sparse field 1: a record has the key 9, but "));
    assert_non_null(strstr(err.msg, " has rows for the keys below 9"));
    assert_int_equal(fails(r, m, "1 0:2:1 1\n", &calls, &err), ERR_INVALID);
    assert_int_equal(calls, 0);
    saved_model_free(m);
    free(path);
    free(text);
}

/* A layer that takes one key of a field does not take two. */
static void test_a_list_that_is_too_long(void **state)
{
    struct saved_rig *r = *state;
    struct err err;
    unsigned calls;
    char *text = sparse_job(r, "",
                            "{embedding: {name: e, dim: 2, from: [0, 1], rows: 9, hashing: none, "
                            "shared: true, pooling: none, length: 2}}, {flatten: {name: f}}, "
                            "{dense: {name: d, units: 1}}",
                            "sgd");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    struct saved_model *m = saved_rig_open(path);
    assert_int_equal(fails(r, m, "1 0:2:1 0:3:1 1:8:1\n", &calls, &err), ERR_UNAVAILABLE);
    assert_int_equal(fails(r, m, "1 0:2:1 1:8:1\n1 0:1:1 1:2:1 1:8:1 1:4:1\n", &calls, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.msg, "sparse field 1: a record has 3 keys, but "));
    assert_non_null(strstr(err.msg, " takes 2"));
    saved_model_free(m);
    free(path);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_of_a_table, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_table_that_catches_up, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_all_records_in_their_order, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_what_goes_wrong_is_passed_on, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_list_that_is_too_long, saved_rig_setup,
                                        saved_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
