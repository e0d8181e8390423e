/* SPDX-License-Identifier: Apache-2.0 */
/* A model in one file answers with the bits of the checkpoint that it was exported from; of what
 * somebody has changed in it nothing is believed. */
#include "saved_rig.h"

#include <unistd.h>

#include "os/file.h"
#include "saved/saved_file.h"

#define CLASSES "a,b,kind\n1,10,x\n3,30,y\n5,50,z\n"
#define DENSE3 "layers: [{dense: {name: d, units: 3}}], loss: softmax_cross_entropy"
#define CLICKS "1 0:2:1 1:4:1\n0 0:8:1 1:3:1\n"
#define TABLES                                                                                     \
    "tables: [{name: w, dim: 1, init: zeros, catch_up: true}, {name: f, dim: 2, init: normal}], "  \
    "layers: [{linear: {name: wide, table: w, hashing: none, shared: true, bias: true}}, "         \
    "{embedding: {name: e, from: 0, table: f, hashing: none}}, {flatten: {name: flat, from: e}}, " \
    "{dense: {name: d, units: 1}}, {add: {from: [wide, d]}}], loss: sigmoid_cross_entropy"
#define TENSORS_MAX 8
#define DATA_MAX 1024

static char *export(const struct saved_rig *r, const char *checkpoint, bool average, bool bare)
{
    char *out = file_join(r->dir, "m.safetensors");
    struct checkpoint *c = NULL;
    struct err err, less;
    assert_int_equal(checkpoint_open(checkpoint, CHECKPOINT_FULL, &c, &err), 0);
    if (saved_file_write(c, checkpoint, average, bare, out, &less, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(less.code, 0);
    checkpoint_close(c);
    return out;
}

static char *class_job(struct saved_rig *r, const char *update)
{
    r->keeps = true;
    saved_rig_file(r, "train", CLASSES);
    return saved_rig_job(r, "csv", ", label: kind", DENSE3, update);
}

static char *table_job(struct saved_rig *r)
{
    r->keeps = true;
    saved_rig_file(r, "train", CLICKS);
    return saved_rig_job(r, "libffm", ", columns: [{column: 0..1, as: sparse}]", TABLES,
                         ", rule: momentum");
}

/* ---- the same bits ---- */

static void assert_same(struct saved_rig *r, const char *checkpoint, const char *file,
                        const char *records, size_t count)
{
    struct saved_rig_answers a, b;
    struct saved_model *whole = saved_rig_open(checkpoint);
    saved_rig_predict(r, whole, records, &a);
    char *train = file_join(r->dir, "train");
    assert_int_equal(unlink(train), 0);
    struct saved_model *m = saved_rig_open(file);
    assert_false(saved_model_measured_anew(m));
    assert_string_equal(saved_model_path(m), file);
    assert_string_equal(saved_model_about(m)->job, "t-1");
    assert_int_equal(saved_model_about(m)->step, saved_model_about(whole)->step);
    assert_int_equal(saved_model_about(m)->epoch, 1);
    saved_rig_predict(r, m, records, &b);
    assert_int_equal(a.count, count);
    assert_int_equal(b.count, count);
    assert_memory_equal(a.values, b.values, count * a.width * sizeof(float));
    saved_model_free(m);
    saved_model_free(whole);
    free(train);
}

static void test_classes(void **state)
{
    struct saved_rig *r = *state;
    char *job = class_job(r, ", rule: adam"), *path = saved_rig_checkpoint(r, job, 7, 0);
    char *file = export(r, path, false, false);
    assert_same(r, path, file, "a,b,kind\n1,10,x\n2,45,y\n7,-3,z\n0.5,7,x\n", 4);
    free(file);
    free(path);
    free(job);
}

/* Also of rows that are owed something, by servers at different versions, and of keys without. */
static void test_tables(void **state)
{
    struct saved_rig *r = *state;
    char *job = table_job(r), *path = saved_rig_checkpoint(r, job, 7, 2);
    char *file = export(r, path, false, false);
    assert_same(r, path, file,
                "1 0:2:1 1:4:1\n0 0:3:1 1:5:1\n0 0:11:1 1:77:1\n1 0:99:1 1:1:1\n0 0:1:1\n", 5);
    free(file);
    free(path);
    free(job);
}

static void refused(const char *path, const char *set, int code, const char *says)
{
    const struct saved_model_request q = {.path = path, .sets = &set, .set_count = set != NULL};
    struct saved_model *m = NULL;
    struct err err = {0};
    assert_int_equal(saved_model_open(&q, &m, &err), code);
    assert_int_equal(err.code, code);
    if (strstr(err.msg, says) == NULL || strstr(err.msg, strrchr(path, '/')) == NULL) {
        fail_msg("expected '%s' and the file in: %s", says, err.msg);
    }
    assert_null(m);
}

static void assert_second(const char *file, float value)
{
    static const char *const set[] = {"update.evaluate_average=false"};
    const struct saved_model_request q = {.path = file, .sets = set, .set_count = 1};
    struct saved_model *m = NULL;
    struct err err = {0};
    if (saved_model_open(&q, &m, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_true(saved_model_values(m)[0][1] == value);
    saved_model_free(m);
}

/* Who has exported the average gets it; who has not is not given other answers in its place. */
static void test_average(void **state)
{
    struct saved_rig *r = *state;
    char *job = class_job(r, ", rule: sgd, average: 0.9, evaluate_average: true");
    char *path = saved_rig_checkpoint(r, job, 3, 0);
    char *file = export(r, path, false, false);
    refused(file, NULL, ERR_INVALID, "answers with their moving average");
    assert_second(file, saved_rig_value(0, 1));
    free(file);
    file = export(r, path, true, false);
    assert_same(r, path, file, "a,b,kind\n1,10,x\n2,45,y\n", 2);
    assert_second(file, saved_rig_value(0, 1) + 1); /* there is nothing else in it */
    free(file);
    free(path);
    free(job);
}

/* ---- what is not as it was exported ---- */

struct change {
    const char *key, *value;   /* of the metadata, also a new one; value NULL: taken away */
    const char *tensor, *name; /* it, and what it is called from now on; NULL: taken away */
    bool shaped;
    struct safetensors_tensor as; /* type and shape from now on */
    size_t from, to;              /* bytes of its data: 8 at @from come to @to */
    int code;
    const char *says;
};

static bool find_data(const struct change *h, struct safetensors_tensor *t, char *data)
{
    if (h->tensor == NULL || strcmp(h->tensor, t->name) != 0) {
        return true;
    }
    if (h->shaped) {
        t->dtype = h->as.dtype;
        t->rank = h->as.rank;
        memcpy(t->dims, h->as.dims, sizeof t->dims);
    }
    if (h->from != h->to) {
        memcpy(data + h->to, data + h->from, sizeof(uint64_t));
    }
    t->name = h->name;
    return h->name != NULL;
}

/* The file at @path with one change. */
static void change(const char *path, const struct change *h)
{
    struct safetensors f;
    struct safetensors_tensor tensors[TENSORS_MAX];
    struct safetensors_meta meta[32];
    static char data[TENSORS_MAX][DATA_MAX];
    const char *of[TENSORS_MAX];
    size_t n = 0, metas = 0, i;
    bool added = h->value == NULL;
    struct safetensors_writer w;
    assert_int_equal(safetensors_open(&f, path, NULL), 0);
    assert_true(f.count <= TENSORS_MAX && f.meta_count <= 31);
    for (i = 0; i < f.count; i++) {
        tensors[n] = f.tensors[i];
        of[n] = data[i];
        assert_true(f.tensors[i].bytes <= DATA_MAX);
        assert_int_equal(
            safetensors_read(&f, &f.tensors[i], 0, data[i], (size_t)f.tensors[i].bytes, NULL), 0);
        n += find_data(h, &tensors[n], data[i]);
    }
    for (i = 0; i < f.meta_count; i++) {
        meta[metas] = f.meta[i];
        const bool is = h->key != NULL && strcmp(h->key, f.meta[i].key) == 0;
        meta[metas].value = is ? h->value : meta[metas].value;
        metas += meta[metas].value != NULL;
        added = added || is;
    }
    if (!added) {
        meta[metas++] = (struct safetensors_meta){.key = h->key, .value = h->value};
    }
    assert_int_equal(safetensors_writer_open(&w, path, tensors, n, meta, metas, NULL), 0);
    while (safetensors_writer_next(&w, &i)) {
        uint64_t bytes;
        assert_true(safetensors_tensor_bytes(&tensors[i], &bytes));
        assert_int_equal(safetensors_writer_add(&w, of[i], (size_t)bytes, NULL), 0);
    }
    assert_int_equal(safetensors_writer_commit(&w, NULL, NULL), 0);
    safetensors_close(&f);
}

static void refuse_all(const struct saved_rig *r, const char *checkpoint,
                       const struct change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *file = export(r, checkpoint, false, false);
        change(file, &changes[i]);
        refused(file, NULL, changes[i].code, changes[i].says);
        free(file);
    }
}

#define META(k, v, c, s)                                                                           \
    {                                                                                              \
        .key = (k), .value = (v), .code = (c), .says = (s)                                         \
    }
#define CALLED(t, n, s)                                                                            \
    {                                                                                              \
        .tensor = (t), .name = (n), .code = ERR_INVALID, .says = (s)                               \
    }
#define SHAPED(t, type, r, a, b, s)                                                                \
    {                                                                                              \
        .tensor = (t), .name = (t), .shaped = true,                                                \
        .as = {.dtype = (type), .rank = (r), .dims = {a, b}}, .code = ERR_INVALID, .says = (s)     \
    }
#define MOVED(t, f, o, s)                                                                          \
    {                                                                                              \
        .tensor = (t), .name = (t), .from = (f), .to = (o), .code = ERR_INVALID, .says = (s)       \
    }

static void test_metadata_and_variables(void **state)
{
    static const struct change changes[] = {
        META("gradus.format_version", "1", ERR_UNSUPPORTED,
             "gradus.format_version is 1, and this program reads 2: export the checkpoint again"),
        META("gradus.format_version", "3", ERR_UNSUPPORTED, "gradus.format_version is 3"),
        META("gradus.format_version", NULL, ERR_UNSUPPORTED, "lack gradus.format_version"),
        META("gradus.text", NULL, ERR_UNSUPPORTED, "its metadata lack gradus.text"),
        META("gradus.values", NULL, ERR_UNSUPPORTED, "its metadata lack gradus.values"),
        META("gradus.encoding", NULL, ERR_UNSUPPORTED, "its metadata lack gradus.encoding"),
        META("gradus.encoding", "{}", ERR_CORRUPT, "what was measured on the train data"),
        META("gradus.step", "-7", ERR_INVALID, "gradus.step: a whole number from 0 is expected"),
        META("gradus.version", "x", ERR_INVALID, "gradus.version: a whole number"),
        META("gradus.values", "all", ERR_INVALID, "\"average\" is expected, not \"all\""),
        META("gradus.text", "name: [", ERR_INVALID, ""),
        META("gradus.classes", "[\"y\",\"x\",\"z\"]", ERR_INVALID,
             "gradus.classes is not what gradus.encoding says: [\"x\", \"y\", \"z\"]"),
        META("gradus.inputs", "[]", ERR_INVALID, "gradus.inputs is not what"),
        META("gradus.model_file", "7", ERR_INVALID,
             "gradus.model_file: 0x and 16 digits are expected, not \"7\""),
        CALLED("d.bias", NULL, "tensor d.bias is missing, of a variable of its job file"),
        CALLED("d.kernel", "d.other", "tensor d.kernel is missing"),
        SHAPED("d.kernel", SAFETENSORS_F32, 2, 3, 2,
               "variable d.kernel has shape [3, 2] in the file, and the model that its job file "
               "and data describe has [2, 3]"),
        SHAPED("d.bias", SAFETENSORS_F32, 2, 3, 1, "variable d.bias has shape [3, 1]"),
        SHAPED("d.bias", SAFETENSORS_I32, 1, 3, 0, "type I32, F32 is expected"),
    };
    struct saved_rig *r = *state;
    char *job = class_job(r, ", rule: sgd"), *path = saved_rig_checkpoint(r, job, 3, 0);
    refuse_all(r, path, changes, sizeof changes / sizeof changes[0]);
    char *file = export(r, path, false, true);
    refused(file, NULL, ERR_UNSUPPORTED,
            "lack gradus.format_version, gradus.job, gradus.step, gradus.epoch, gradus.version, "
            "gradus.values, gradus.text: it was exported with --bare, or is of another program");
    saved_rig_file(r, "m.safetensors", CLASSES);
    refused(file, NULL, ERR_CORRUPT, "not a model in a file as `gradus export` writes it");
    free(file);
    saved_rig_file(r, "m.onnx", CLASSES);
    file = mem_printf("%s/m.onnx", r->dir);
    refused(file, NULL, ERR_UNSUPPORTED, "m.onnx is an ONNX file, which ONNX Runtime and others");
    free(file);
    file = export(r, path, false, false);
    refused(file, "data.scale=none", ERR_INVALID, "trained with other settings of data");
    free(file);
    free(path);
    free(job);
}

/* The shapes of a table are not in the job file: keys and values say them to each other. */
static void test_tables_that_lie(void **state)
{
    static const struct change changes[] = {
        CALLED("w.values", NULL, "tensor w.values is missing, of a table of its job file"),
        CALLED("f.keys", "g.keys", "tensor f.keys is missing"),
        SHAPED("w.keys", SAFETENSORS_U64, 1, 11, 0, "table w: 11 keys, and values of 12 rows"),
        SHAPED("w.values", SAFETENSORS_F32, 2, 11, 1, "table w: 12 keys, and values of 11 rows"),
        SHAPED("f.values", SAFETENSORS_F32, 2, 12, 1,
               "table f: rows of 1 floats, and its job file says 2"),
        SHAPED("f.values", SAFETENSORS_F32, 1, 24, 0, "values of rank 1; 1 and 2 are expected"),
        SHAPED("w.keys", SAFETENSORS_I64, 1, 12, 0, "tensor w.keys has numbers of type I64"),
        MOVED("w.keys", 0, 8, " comes twice, in rows 0 and 1"),
        MOVED("w.keys", 16, 0, " of row 1 is not in the order of an export"),
    };
    struct saved_rig *r = *state;
    char *job = table_job(r), *path = saved_rig_checkpoint(r, job, 3, 0);
    refuse_all(r, path, changes, sizeof changes / sizeof changes[0]);
    free(path);
    free(job);
}

/* Of a checkpoint of before. */
static void test_nothing_was_measured(void **state)
{
    struct saved_rig *r = *state;
    char *job = class_job(r, ", rule: sgd");
    r->keeps = false;
    char *path = saved_rig_checkpoint(r, job, 3, 0), *file = export(r, path, false, false);
    refused(file, NULL, ERR_UNSUPPORTED, "lack gradus.encoding: the checkpoint kept nothing");
    free(file);
    free(path);
    free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_classes, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_tables, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_average, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_metadata_and_variables, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_tables_that_lie, saved_rig_setup, saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_was_measured, saved_rig_setup,
                                        saved_rig_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
