/* SPDX-License-Identifier: Apache-2.0 */
/* What a file says of itself and takes. What it computes is compared by others
 * (tests/integration/test_onnx.py). */
#include "saved_rig.h"

#include "os/file.h"
#include "saved/saved_onnx.h"

#define CLASSES "a,soil,kind\n1,clay,x\n3,sand,y\n5,clay,z\n"

/* Is the text in the file? Names and metadata lie in it as they are. */
static bool has(const struct buf *file, const char *text)
{
    return memmem(file->data, file->len, text, strlen(text)) != NULL;
}

static int write_file(struct saved_rig *r, const char *job, bool texts, struct buf *file,
                      struct err *err)
{
    char *checkpoint = saved_rig_checkpoint(r, job, 12, 0), *path = file_join(r->dir, "net.onnx");
    struct saved_model *m = saved_rig_open(checkpoint);
    const struct saved_onnx_options options = {.texts = texts};
    int rc = saved_onnx_write(m, path, &options, NULL, err);
    if (rc == 0) {
        assert_int_equal(file_read(path, 1 << 20, file, err), 0);
    }
    assert_int_equal(file_exists(path), rc == 0);
    saved_model_free(m);
    free(path);
    free(checkpoint);
    return rc;
}

static void test_classes_and_categories(void **state)
{
    struct saved_rig *r = *state;
    struct buf file = {0};
    struct err err = {0};
    saved_rig_file(r, "train", CLASSES);
    char *job =
        saved_rig_job(r, "csv", ", label: kind, categorical: soil",
                      "layers: [{dense: {units: 3}}], loss: softmax_cross_entropy", ", rule: sgd");
    if (write_file(r, job, false, &file, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    static const char *const texts[] = {"gradus.classes", "\"x\"", "gradus.categories.soil",
                                        "\"clay\"",       "soil",  "features",
                                        "gradus.step",    "12",    "softmax_cross_entropy",
                                        "probabilities",  "batch", "dense_1.kernel"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(has(&file, texts[i]));
    }
    buf_release(&file);
    free(job);
}

/* Another set of operators belongs to the file only where one of them is used. */
static void test_texts_of_categories(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", CLASSES);
    char *job =
        saved_rig_job(r, "csv", ", label: kind, categorical: soil",
                      "layers: [{dense: {units: 3}}], loss: softmax_cross_entropy", ", rule: sgd");
    for (unsigned texts = 0; texts < 2; texts++) {
        static const char *const of_texts[] = {"LabelEncoder", "ai.onnx.ml", "keys_strings",
                                               "values_int64s", "default_int64"};
        struct buf file = {0};
        struct err err = {0};
        if (write_file(r, job, texts == 1, &file, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        for (size_t i = 0; i < sizeof of_texts / sizeof of_texts[0]; i++) {
            assert_int_equal(has(&file, of_texts[i]), texts);
        }
        buf_release(&file);
    }
    free(job);
}

static void test_values_have_their_units(void **state)
{
    struct saved_rig *r = *state;
    static const char *const scales[] = {"none", "standard"};
    for (size_t i = 0; i < 2; i++) {
        struct buf file = {0};
        struct err err = {0};
        char *data = mem_printf(", label: price, label_scale: %s", scales[i]);
        saved_rig_file(r, "train", "a,price\n1,100\n3,250\n5,420\n");
        char *job =
            saved_rig_job(r, "csv", data, "layers: [{dense: {units: 1}}], loss: mean_squared_error",
                          ", rule: sgd");
        if (write_file(r, job, false, &file, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        assert_true(has(&file, "value"));
        assert_int_equal(has(&file, "answer/offset"), i == 1);
        assert_false(has(&file, "gradus.classes"));
        buf_release(&file);
        free(data);
        free(job);
    }
}

static void refuse(struct saved_rig *r, const char *job, int code, const char *message)
{
    struct buf file = {0};
    struct err err = {0};
    assert_int_equal(write_file(r, job, false, &file, &err), code);
    if (strstr(err.msg, message) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, message);
    }
}

static void test_tables_and_columns_of_keys(void **state)
{
    struct saved_rig *r = *state;
    struct buf file = {0};
    struct err err = {0};
    saved_rig_file(r, "train", "1 0:2:1 1:4:1\n0 0:8:1 1:3:1\n");
    char *job = saved_rig_job(
        r, "libffm", ", columns: [{column: 0, as: sparse}, {column: 1, as: sparse, width: 8}]",
        "tables: [{name: w, dim: 1, init: zeros}], layers: [{linear: {name: wide, from: 0, table: "
        "w, bias: true}}, {dense: {name: deep, units: 1, from: input}}, {add: {from: [wide, "
        "deep]}}], loss: sigmoid_cross_entropy",
        ", rule: sgd");
    if (write_file(r, job, false, &file, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    static const char *const texts[] = {"0.values",    "1.values",        "0_keys",
                                        "wide/place",  "ScatterElements", "gradus.version",
                                        "keys_int64s", "default_int64",   "MatMul"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!has(&file, texts[i])) {
            fail_msg("the file has no \"%s\"", texts[i]);
        }
    }
    buf_release(&file);
    free(job);
}

static void test_what_cannot_be_said_is_refused(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", "a,features,kind\n1,clay,x\n3,sand,y\n5,clay,z\n");
    char *names =
        saved_rig_job(r, "csv", ", label: kind, categorical: features",
                      "layers: [{dense: {units: 3}}], loss: softmax_cross_entropy", ", rule: sgd");
    refuse(r, names, ERR_INVALID, "two inputs of the file would be called \"features\"");
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_classes_and_categories, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_texts_of_categories, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_values_have_their_units, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_tables_and_columns_of_keys, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_said_is_refused, saved_rig_setup,
                                        saved_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
