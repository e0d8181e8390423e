/* SPDX-License-Identifier: Apache-2.0 */
/* What a model out of a checkpoint answers: computed by hand from the values that lie there. */
#include "saved_rig.h"

#include <math.h>

#include "base/rng.h"

#define CLASSES "a,b,kind\n1,10,x\n3,30,y\n5,50,z\n"
#define DENSE3 "layers: [{dense: {units: 3}}], loss: softmax_cross_entropy"

static void predict(struct saved_model *m, const float (*x)[2], size_t n, float *out)
{
    /* Records as the model reads them: scaled as the train data say. */
    struct records raw = {0};
    struct dataset *d = NULL;
    struct batch b = {0};
    struct saved_run *run = NULL;
    struct err err;
    uint64_t numbers[8];
    assert_int_equal(encoder_begin(saved_model_encoder(m), &raw, &err), 0);
    raw.values = mem_resize(raw.values, n * 2, sizeof(float));
    memcpy(raw.values, x, n * 2 * sizeof(float));
    raw.count = n;
    if (encoder_apply(saved_model_encoder(m), &raw, &d, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    for (size_t i = 0; i < n; i++) {
        numbers[i] = i;
    }
    assert_int_equal(batch_init(&b, d, n, &err), 0);
    assert_int_equal(dataset_read(d, numbers, n, &b, &err), 0);
    assert_int_equal(saved_run_new(m, n, 1, &run, &err), 0);
    assert_int_equal(saved_run_answer(run, &b, out, &err), 0);
    saved_run_free(run);
    batch_release(&b);
    dataset_free(d);
    records_release(&raw);
}

/* Of [2 × width] kernel and its bias, which is the variable behind it; @more is added to each. */
static float logit(const float *x, size_t unit, size_t width, float more)
{
    return x[0] * (saved_rig_value(0, unit) + more) +
           x[1] * (saved_rig_value(0, width + unit) + more) + saved_rig_value(1, unit) + more;
}

/* Standard scaling of 1, 3, 5 and of 10, 30, 50. */
static void scaled(const float *x, float *out)
{
    const float sd = sqrtf(8.0F / 3);
    out[0] = (x[0] - 3) / sd;
    out[1] = (x[1] - 30) / (10 * sd);
}

static void assert_softmax(const float *raw, const float *got, float more)
{
    float x[2];
    double p[3], sum = 0;
    scaled(raw, x);
    for (size_t k = 0; k < 3; k++) {
        p[k] = exp((double)logit(x, k, 3, more));
        sum += p[k];
    }
    for (size_t k = 0; k < 3; k++) {
        saved_rig_near(got[k], p[k] / sum);
    }
}

static const float records[][2] = {{1, 10}, {2, 45}, {7, -3}};

static void test_classes(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", CLASSES);
    char *text = saved_rig_job(r, "csv", ", label: kind", DENSE3, ", rule: momentum");
    char *path = saved_rig_checkpoint(r, text, 7, 2);
    struct saved_model *m = saved_rig_open(path);
    assert_string_equal(saved_model_path(m), path);
    assert_int_equal(saved_model_about(m)->step, 7);
    assert_string_equal(saved_model_spec(m)->name, "t");
    assert_int_equal(saved_model_classes(m), 3);
    assert_int_equal(saved_model_width(m), 3);
    assert_string_equal(saved_model_class_name(m, 0), "x");
    assert_string_equal(saved_model_class_name(m, 2), "z");
    float out[9];
    predict(m, records, 3, out);
    for (size_t i = 0; i < 3; i++) {
        assert_softmax(records[i], out + 3 * i, 0);
    }
    saved_model_free(m);
    free(path);
    free(text);
}

/* Where a job is evaluated with its moving average, its answers come from it, too. */
static void test_the_average_is_what_answers(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", CLASSES);
    char *text = saved_rig_job(r, "csv", ", label: kind", DENSE3,
                               ", rule: sgd, average: 0.9, evaluate_average: true");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    struct saved_model *m = saved_rig_open(path);
    float out[9];
    predict(m, records, 3, out);
    for (size_t i = 0; i < 3; i++) {
        assert_softmax(records[i], out + 3 * i, 1);
    }
    saved_model_free(m);
    free(path);
    free(text);
}

/* One output of two classes: what it says is the second one's. Their names are numbers. */
static void test_one_output_for_two_classes(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", "a,b,kind\n1,10,0\n3,30,1\n5,50,1\n");
    char *text =
        saved_rig_job(r, "csv", ", label: kind",
                      "layers: [{dense: {units: 1}}], loss: sigmoid_cross_entropy", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    struct saved_model *m = saved_rig_open(path);
    assert_int_equal(saved_model_classes(m), 2);
    assert_string_equal(saved_model_class_name(m, 0), "0");
    assert_string_equal(saved_model_class_name(m, 1), "1");
    float out[6];
    predict(m, records, 3, out);
    for (size_t i = 0; i < 3; i++) {
        float x[2];
        scaled(records[i], x);
        const double p = 1 / (1 + exp(-(double)logit(x, 0, 1, 0)));
        saved_rig_near(out[2 * i], 1 - p);
        saved_rig_near(out[2 * i + 1], p);
    }
    saved_model_free(m);
    free(path);
    free(text);
}

/* Values are in the units of the data. */
static void test_values(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", "a,b,price\n1,10,100\n3,30,300\n5,50,800\n");
    char *text =
        saved_rig_job(r, "csv", ", label: price, label_scale: standard",
                      "layers: [{dense: {units: 1}}], loss: mean_squared_error", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    struct saved_model *m = saved_rig_open(path);
    assert_int_equal(saved_model_classes(m), 0);
    assert_int_equal(saved_model_width(m), 1);
    const double sd = sqrt((300.0 * 300 + 100 * 100 + 400 * 400) / 3);
    float out[3];
    predict(m, records, 3, out);
    for (size_t i = 0; i < 3; i++) {
        float x[2];
        scaled(records[i], x);
        saved_rig_near(out[i], (double)logit(x, 0, 1, 0) * sd + 400);
    }
    saved_model_free(m);
    free(path);
    free(text);
}

/* What was measured on the train data is measured again for another job file alone. */
static void test_the_same_job_shares_what_was_measured(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", CLASSES);
    char *text = saved_rig_job(r, "csv", ", label: kind", DENSE3, ", rule: sgd");
    char *other = saved_rig_job(r, "csv", ", label: kind", DENSE3, ", rule: sgd, clip_norm: 3");
    char *paths[] = {saved_rig_checkpoint(r, text, 3, 0), saved_rig_checkpoint(r, text, 4, 0),
                     saved_rig_checkpoint(r, other, 5, 0)};
    struct saved_model *m[3] = {saved_rig_open(paths[0])};
    for (size_t i = 1; i < 3; i++) {
        const struct saved_model_request q = {.path = paths[i], .before = m[0]};
        assert_int_equal(saved_model_open(&q, &m[i], NULL), 0);
    }
    assert_ptr_equal(saved_model_encoder(m[1]), saved_model_encoder(m[0]));
    assert_ptr_not_equal(saved_model_encoder(m[2]), saved_model_encoder(m[0]));
    saved_model_free(m[0]); /* the other one owns it, too */
    float out[3];
    predict(m[1], records, 1, out);
    assert_softmax(records[0], out, 0);
    for (size_t i = 0; i < 3; i++) {
        saved_model_free(i > 0 ? m[i] : NULL);
        free(paths[i]);
    }
    free(other);
    free(text);
}

static void refused(const char *path, const char *const *sets, size_t set_count, int code,
                    const char *says)
{
    const struct saved_model_request q = {.path = path, .sets = sets, .set_count = set_count};
    struct saved_model *m = NULL;
    struct err err = {0};
    assert_int_equal(saved_model_open(&q, &m, &err), code);
    assert_int_equal(err.code, code);
    if (strstr(err.msg, says) == NULL) {
        fail_msg("expected '%s' in: %s", says, err.msg);
    }
    assert_null(m);
}

static void test_what_cannot_be_opened(void **state)
{
    struct saved_rig *r = *state;
    saved_rig_file(r, "train", CLASSES);
    char *text = saved_rig_job(r, "csv", ", label: kind", DENSE3, ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, 3, 0);
    refused(r->dir, NULL, 0, ERR_NOT_FOUND, "manifest");
    const char *unknown[] = {"data.nothing=1"};
    refused(path, unknown, 1, ERR_INVALID, "data.nothing");
    /* The checkpoint has three classes of two numbers. */
    const char *width[] = {"model.layers.0.units=4"};
    refused(path, width, 1, ERR_INVALID, "4");
    /* Fewer numbers than are there would be others. */
    const char *narrow[] = {"model.layers.0.units=2"};
    refused(path, narrow, 1, ERR_INVALID, "");
    const char *file[] = {"data.train.file=gone"};
    refused(path, file, 1, ERR_NOT_FOUND, "what was measured on the train data");
    /* Another layer has variables of other names. */
    const char *name[] = {"model.layers.0.name=another"};
    refused(path, name, 1, ERR_NOT_FOUND, "another");
    /* A byte of the last shard is not what was written. */
    char *shard = file_join(path, "shard-1-of-2.safetensors");
    FILE *f = fopen(shard, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    const int c = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fputc(c ^ 1, f), c ^ 1);
    assert_int_equal(fclose(f), 0);
    refused(path, NULL, 0, ERR_CORRUPT, "shard-1-of-2");
    free(shard);
    free(path);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_classes, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_average_is_what_answers, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_one_output_for_two_classes, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_values, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_same_job_shares_what_was_measured, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_opened, saved_rig_setup,
                                        saved_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
