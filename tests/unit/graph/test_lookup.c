/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that read sparse fields: what they refuse, and what they compute of lists by hand. */
#include "support/test.h"

#include <math.h>

#include "base/rng.h"
#include "support/models.h"
#include "tensor/blas_kernels.h"

/* One layer as "kind key=value key=value < from from". */
static void add(struct model_spec *spec, const char *text)
{
    char kind[32], settings[128];
    size_t n = strcspn(text, " ");
    memcpy(kind, text, n);
    kind[n] = '\0';
    (void)snprintf(settings, sizeof settings, "%s", text + n);
    char *from = strstr(settings, " < ");
    if (from != NULL) {
        *from = '\0';
    }
    struct layer_spec *l = models_add(spec, kind, settings);
    if (from != NULL) {
        models_from(l, from + 3);
    }
}

static void build(struct model_spec *spec, enum loss_kind loss, const char *const *layers)
{
    *spec = (struct model_spec){.loss = loss};
    for (size_t i = 0; layers[i] != NULL; i++) {
        add(spec, layers[i]);
    }
}

struct field_refusal {
    uint64_t numbers; /* of a record */
    const char *layers[5];
    const char *message;
};

static const struct field_refusal field_refusals[] = {
    {.numbers = 4,
     .layers = {"linear rows=10 units=3 < f nobody"},
     .message = "layer 1 (linear 'linear_1', line 10): from: it reads sparse fields of the data, "
                "and 'nobody' is none of them; f, g, h would fit"},
    {.numbers = 4,
     .layers = {"dense units=3", "linear rows=10 units=3 < dense_1"},
     .message = "layer 2 (linear 'linear_2', line 20): from: it reads sparse fields of the data, "
                "and 'dense_1' is a layer; f, g, h would fit"},
    {.numbers = 4,
     .layers = {"dense units=3 < f"},
     .message = "layer 1 (dense 'dense_1', line 10): from: there is no layer above it of the name "
                "'f'; input would fit"},
    {.numbers = 4,
     .layers = {"embedding dim=2 rows=10 hashing=none < f g", "flatten", "dense units=3"},
     .message = "layer 1 (embedding 'embedding_1', line 10): with hashing: none a key is its row, "
                "so its 2 fields have the same rows; shared: true, a layer for each field, or "
                "hashing: mixed would fit"},
    {.numbers = 4,
     .layers = {"linear rows=10 units=3 unknown=own"},
     .message = "layer 1 (linear 'linear_1', line 10): unknown: own is for keys that are rows, but "
                "with hashing: mixed every key has one; hashing: none would fit"},
    {.numbers = 4,
     .layers = {"embedding dim=2 rows=10 length=3", "flatten", "dense units=3"},
     .message = "layer 1 (embedding 'embedding_1', line 10): length: pooling: sum makes one row of "
                "a list of any length; pooling: none would fit"},
    {.numbers = 4,
     .layers = {"embedding dim=1000 rows=2147483647", "flatten", "dense units=3"},
     .message = "layer 1 (embedding 'embedding_1', line 10): its embeddings would be [2147483647, "
                "1000]; at most 2147483647 elements are possible"},
    {.numbers = 4,
     .layers = {"linear units=3"},
     .message = "layer 1 (linear 'linear_1', line 10): rows: it needs rows to look up; a number of "
                "them, or table: NAME, would fit"},
    {.numbers = 4,
     .layers = {"embedding rows=5", "flatten", "dense units=3"},
     .message = "layer 1 (embedding 'embedding_1', line 10): dim: a number from 1 on would fit"},
    {.numbers = 4,
     .layers = {"linear units=3 table=nobody"},
     .message = "layer 1 (linear 'linear_1', line 10): table: model.tables has none of the name "
                "'nobody'"},
    {.numbers = 4,
     .layers = {"linear units=3 table=wide rows=7"},
     .message = "layer 1 (linear 'linear_1', line 10): rows: a table has a row for every key that "
                "comes; without it 'table: wide' would fit"},
    {.numbers = 4,
     .layers = {"linear units=3 table=wide hashing=none unknown=zero < f"},
     .message = "layer 1 (linear 'linear_1', line 10): unknown: a table has a row for every key "
                "that comes; without it 'table: wide' would fit"},
    {.numbers = 4,
     .layers = {"linear units=2 table=wide"},
     .message = "layer 1 (linear 'linear_1', line 10): units: 2, but the rows of table 'wide' have "
                "3 numbers; that would fit"},
    {.numbers = 4,
     .layers = {"embedding dim=4 table=wide", "flatten", "dense units=3"},
     .message = "layer 1 (embedding 'embedding_1', line 10): dim: 4, but the rows of table 'wide' "
                "have 3 numbers; that would fit"},
    {.numbers = 4,
     .layers = {"embedding table=wide embeddings_init=zeros", "flatten", "dense units=3"},
     .message = "layer 1 (embedding 'embedding_1', line 10): embeddings_init: how a row of a table "
                "begins is said in model.tables (init, init_mean, init_spread)"},
    {.numbers = 4,
     .layers = {"embedding table=wide < f g", "flatten", "dense units=3"},
     .message = "no layer reads table 'idle' (model.tables); a model without it would fit"},
    {.layers = {"linear table=wide units=3", "linear table=idle units=3",
                "add < linear_1 linear_2"},
     .message = "no layer of the model has a variable beside its tables; a dense layer, or linear "
                "with bias: true, would"},
    {.layers = {"linear rows=10 units=3", "dense units=3 < input", "add < linear_1 dense_2"},
     .message = "layer 2 (dense 'dense_2', line 20): it reads the numbers of a record, and the "
                "data have none but keys of sparse fields; a linear or embedding layer above it "
                "would read these"},
};

static void test_refuses_fields(void **state)
{
    (void)state;
    const struct sparse_names fields = {models_field_names, MODELS_FIELDS};
    for (size_t i = 0; i < sizeof field_refusals / sizeof field_refusals[0]; i++) {
        const struct field_refusal *r = &field_refusals[i];
        const struct shape input = {1, {r->numbers}};
        struct model_spec spec;
        struct model *m = NULL;
        struct err err = {0};
        build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, r->layers);
        if (strstr(r->layers[0], "table=") != NULL) {
            models_table(&spec, "wide", 3);
            models_table(&spec, "idle", 3);
        }
        assert_int_equal(ERR_INVALID, model_new(&spec, &input, &fields, 3, &m, &err));
        assert_string_equal(r->message, err.msg);
        model_spec_release(&spec);
    }
    static const char *const layers[] = {"linear rows=10 units=3", NULL};
    const struct shape input = {1, {4}};
    struct model_spec spec;
    struct model *m = NULL;
    struct err err = {0};
    build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, layers);
    assert_int_equal(ERR_INVALID, model_new(&spec, &input, NULL, 3, &m, &err));
    assert_string_equal("layer 1 (linear 'linear_1', line 10): it reads all sparse fields of the "
                        "data, of which there are 0; from 1 to 256 would fit ('as: sparse' in "
                        "data.columns)",
                        err.msg);
    model_spec_release(&spec);
}

/* Records may have no numbers at all; what lists must be like is told for each field. */
static void test_fields_alone(void **state)
{
    (void)state;
    static const char *const layers[] = {"linear rows=10 units=3 hashing=none < f",
                                         "embedding dim=3 rows=20 pooling=none < h",
                                         "embedding dim=3 rows=7 hashing=none unknown=zero < f",
                                         "add < linear_1 embedding_2 embedding_3", NULL};
    const struct sparse_names fields = {models_field_names, MODELS_FIELDS};
    const struct shape input = {1, {0}};
    struct model_spec spec;
    struct model *m = NULL;
    uint64_t keys;
    size_t length;
    const char *keys_layer, *length_layer;
    build(&spec, LOSS_SOFTMAX_CROSS_ENTROPY, layers);
    assert_int_equal(0, model_new(&spec, &input, &fields, 3, &m, NULL));
    model_list_limits(m, 0, &keys, &keys_layer, &length, &length_layer);
    assert_int_equal(10, keys);
    assert_string_equal("linear_1", keys_layer);
    assert_null(length_layer);
    model_list_limits(m, 1, &keys, &keys_layer, &length, &length_layer);
    assert_null(keys_layer);
    model_list_limits(m, 2, &keys, &keys_layer, &length, &length_layer);
    assert_true(keys == UINT64_MAX && length == 1);
    assert_string_equal("embedding_2", length_layer);
    model_free(m);
    model_spec_release(&spec);
}

/* One record: f has the keys 1 and 3 with weights 2 and -1, g and h have none. */
static void check_pooling(const char *layer, const float *expected, size_t n)
{
    const char *layers[] = {layer, "flatten", "dense units=1", NULL};
    struct model_spec spec;
    struct models_rig rig;
    build(&spec, LOSS_MEAN_SQUARED_ERROR, layers);
    models_rig_init(&rig, &spec, MODELS_SHAPE(2), 0, 1, 3);
    struct sparse_batch *b = &rig.batch.lists;
    for (size_t f = 0; f < MODELS_FIELDS; f++) {
        b->offsets[f * (b->capacity + 1)] = f == 0 ? 0 : 2;
        b->offsets[f * (b->capacity + 1) + 1] = 2;
    }
    b->keys[0] = 1;
    b->keys[1] = 3;
    b->weights[0] = 2.0F;
    b->weights[1] = -1.0F;
    for (size_t i = 0; i < rig.sizes[0]; i++) {
        rig.values[0][i] = (float)i; /* row r of two: 2 r, 2 r + 1 */
    }
    size_t outputs;
    for (size_t i = 0; i < rig.sizes[1]; i++) { /* element @i of what the layer gives */
        memset(rig.values[1], 0, rig.sizes[1] * sizeof(float));
        memset(rig.values[2], 0, rig.sizes[2] * sizeof(float));
        rig.values[1][i] = 1.0F;
        const float *y = runner_predict(rig.runner, models_values(&rig), &rig.batch, &outputs);
        assert_float_equal((i < n ? expected[i] : 0.0F), y[0], 1e-5F);
    }
    models_rig_release(&rig);
    model_spec_release(&spec);
}

static void test_pooling(void **state)
{
    (void)state;
    const float root = sqrtf(5.0F);
    check_pooling("embedding dim=2 rows=4 hashing=none < f", (float[]){-2, -1}, 2);
    check_pooling("embedding dim=2 rows=4 hashing=none shared=true", (float[]){-2, -1}, 2);
    check_pooling("embedding dim=2 rows=4 hashing=none pooling=mean < f",
                  (float[]){-2.0F / 3, -1.0F / 3}, 2);
    check_pooling("embedding dim=2 rows=4 hashing=none pooling=sqrt_n < f",
                  (float[]){-2 / root, -1 / root}, 2);
    check_pooling("embedding dim=2 rows=4 hashing=none pooling=none length=3 < f",
                  (float[]){4, 6, -6, -7}, 4);
    check_pooling("embedding dim=2 rows=2 hashing=none unknown=own < f", (float[]){0, 1}, 2);
    check_pooling("embedding dim=2 rows=2 hashing=none unknown=zero pooling=mean < f",
                  (float[]){2, 3}, 2);
    check_pooling("linear units=2 rows=4 hashing=none < f", (float[]){-2, -1}, 2);
}

/* The row of a key is what docs/models.md says: other programs may want to find it. */
static void test_rows_of_keys(void **state)
{
    (void)state;
    float expected[2];
    const uint64_t seed = rng_key(0, "f");
    const uint64_t a = rng_key_mix(seed, 1) % 50, b = rng_key_mix(seed, 3) % 50;
    const uint64_t c = rng_key_mix(0, 1) % 50, d = rng_key_mix(0, 3) % 50;
    for (uint64_t j = 0; j < 2; j++) {
        expected[j] = 2.0F * (float)(2 * a + j) - (float)(2 * b + j);
    }
    check_pooling("embedding dim=2 rows=50 < f", expected, 2);
    for (uint64_t j = 0; j < 2; j++) {
        expected[j] = 2.0F * (float)(2 * c + j) - (float)(2 * d + j);
    }
    check_pooling("embedding dim=2 rows=50 shared=true < f", expected, 2);
}

/* Records of groups that the keys of h are: what a runner measures, and what has no field. */
static void test_groups(void **state)
{
    (void)state;
    static const char *const layers[] = {"dense units=1", NULL};
    char field[] = "h", nobody[] = "nobody";
    struct model_spec spec;
    struct models_rig rig;
    struct metrics m;
    build(&spec, LOSS_SIGMOID_CROSS_ENTROPY, layers);
    spec.metrics = 1U << METRIC_GROUPED_AUC;
    spec.group_by = field;
    models_rig_init(&rig, &spec, MODELS_SHAPE(1), 2, 4, 3);
    assert_int_equal(model_group_field(rig.model), 2);
    struct sparse_batch *b = &rig.batch.lists;
    static const uint64_t groups[4] = {5, 6, 5, 6};
    static const float features[4] = {1, 2, 3, 4}, targets[4] = {1, 0, 0, 1}; /* 0 and 1 */
    for (size_t i = 0; i < 4; i++) {
        uint64_t *offsets = b->offsets + 2 * (b->capacity + 1);
        offsets[i] = offsets[0] + i;
        offsets[i + 1] = offsets[i] + 1;
        b->keys[offsets[i]] = groups[i];
        rig.batch.features[i] = features[i];
        rig.batch.targets[i] = targets[i];
    }
    rig.values[0][0] = 1.0F;
    metrics_init(&m, spec.metrics);
    runner_evaluate(rig.runner, models_values(&rig), &rig.batch, &m);
    assert_true(metrics_value(&m, METRIC_GROUPED_AUC, 1) == 0.5);
    assert_int_equal(m.groups.items[3].group, 6);
    metrics_release(&m);
    models_rig_release(&rig);
    const struct sparse_names fields = {models_field_names, MODELS_FIELDS};
    const struct shape input = {1, {1}};
    struct model *model = NULL;
    struct err err = {0};
    spec.group_by = nobody;
    assert_int_equal(model_new(&spec, &input, &fields, 2, &model, &err), ERR_INVALID);
    assert_string_equal(err.msg, "model.group_by: metric grouped_auc needs the sparse field whose "
                                 "keys are the groups, and 'nobody' is none; f, g, h would fit");
    spec.group_by = NULL;
    model_spec_release(&spec);
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_kernels_choose(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_fields), cmocka_unit_test(test_fields_alone),
        cmocka_unit_test(test_pooling),        cmocka_unit_test(test_rows_of_keys),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
