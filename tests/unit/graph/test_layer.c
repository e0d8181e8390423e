/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of the layer table is gradient-checked here: a new one needs no new test. */
#include "support/test.h"

#include <math.h>

#include "support/layer_variants.h"
#include "tensor/blas_kernels.h"

#define RECORDS 3
#define STEP 4e-3

struct tally {
    size_t checked, kinks;
};

/* Central differences of element @j of variable @i against its gradient. Where the two one-sided
 * slopes differ, a kink (relu, max) lies within the step and the element proves nothing. */
static void check_element(struct models_rig *rig, size_t i, size_t j, double loss, double gradient,
                          const char *what, struct tally *tally)
{
    float *v = &rig->values[i][j];
    const float old = *v;
    const float high = old + (float)STEP, low = old - (float)STEP;
    *v = high;
    const double above = models_gradients(rig, 3);
    *v = low;
    const double below = models_gradients(rig, 3);
    *v = old;
    const double slope = (above - below) / ((double)high - (double)low);
    const double right = (above - loss) / ((double)high - (double)old);
    const double left = (loss - below) / ((double)old - (double)low);
    tally->checked++;
    if (fabs(slope - gradient) <= 2e-3 * (1.0 + fabs(gradient))) {
        return;
    }
    if (fabs(right - left) > 0.02 * (1.0 + fabs(gradient))) {
        tally->kinks++;
        return;
    }
    fail_msg("%s: %s[%zu]: gradient %g, differences %g", what,
             i < rig->variables ? model_variable(rig->model, i)->name : "rows of a table", j,
             gradient, slope);
}

static void check_model(const struct model_spec *spec, struct shape input, uint32_t classes,
                        const char *what, struct tally *tally)
{
    struct models_rig rig;
    models_rig_init(&rig, spec, input, classes, RECORDS, 77);
    const double loss = models_gradients(&rig, 3);
    assert_true(isfinite(loss));
    for (size_t i = 0; i < rig.count; i++) {
        if (i < rig.variables && model_variable(rig.model, i)->statistic > 0) {
            continue; /* test_normalisation.c */
        }
        float *gradient = mem_new(rig.sizes[i], sizeof(float));
        models_gradients(&rig, 3);
        memcpy(gradient, rig.gradients[i], rig.sizes[i] * sizeof(float));
        /* Every element of small variables, a sample of large ones. */
        const size_t stride = rig.sizes[i] / 40 + 1;
        for (size_t j = 0; j < rig.sizes[i]; j += stride) {
            check_element(&rig, i, j, loss, (double)gradient[j], what, tally);
        }
        free(gradient);
    }
    models_rig_release(&rig);
}

struct checking {
    struct tally tally;
    size_t models;
};

static void check_variant(void *context, const struct model_spec *spec, struct shape input,
                          const char *what)
{
    struct checking *c = context;
    check_model(spec, input, VARIANTS_CLASSES, what, &c->tally);
    c->models++;
}

static void check_kind(const struct layer_kind *kind)
{
    struct checking c = {{0}, 0};
    const size_t n = variants_visit(kind, check_variant, &c);
    assert_true(c.models >= n); /* every variant fits at least one input */
    assert_true(c.tally.checked >= 40);
    assert_true(c.tally.kinks * 20 <= c.tally.checked);
}

static void test_gradients_of_every_kind(void **state)
{
    (void)state;
    for (size_t i = 0; layer_kind_at(i) != NULL; i++) {
        check_kind(layer_kind_at(i));
    }
}

static void test_gradients_of_every_loss(void **state)
{
    (void)state;
    for (int loss = 0; loss < LOSS_AUTO; loss++) {
        struct model_spec spec = {.loss = (enum loss_kind)loss};
        struct tally tally = {0};
        const bool softmax = loss == LOSS_SOFTMAX_CROSS_ENTROPY;
        models_add(&spec, "dense", "units=4 activation=tanh");
        models_add(&spec, "dense", softmax ? "units=5" : "units=1");
        check_model(&spec, MODELS_SHAPE(3),
                    softmax                           ? 5
                    : loss == LOSS_MEAN_SQUARED_ERROR ? 0
                                                      : 2,
                    loss_kind_names[loss], &tally);
        assert_int_equal(0, tally.kinks);
        model_spec_release(&spec);
    }
}

/* Layers that could work in place, on outputs that the layer below still needs. */
static void test_gradients_of_a_stack(void **state)
{
    (void)state;
    static const char *const kinds[] = {"sigmoid", "tanh", "dropout", "softmax", "relu", "sigmoid"};
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct tally tally = {0};
    models_add(&spec, "dense", "units=5 activation=tanh");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        models_add(&spec, kinds[i], "");
        models_add(&spec, "flatten", "");
    }
    models_add(&spec, "dense", "units=3");
    check_model(&spec, MODELS_SHAPE(4), 3, "stack", &tally);
    assert_true(tally.checked > 30);
    model_spec_release(&spec);
}

/* Branches that part and join, layers that could work in place on what others read too, views of
 * one output, an output that is read three times, and one that reads the records again at the end.
 */
static void test_gradients_of_a_graph(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *settings, *name, *from;
    } layers[] = {
        {"dense", "units=5 activation=tanh", "bottom", NULL},
        {"relu", "", "left", NULL},
        {"sigmoid", "", "right", "bottom"},
        {"flatten", "", "view", "bottom"},
        {"tanh", "", "third", "view"},
        {"multiply", "", "joined", "left right view"},
        {"dropout", "", "dropped", "joined"},
        {"add", "", "residual", "dropped third bottom joined"},
        {"layer_norm", "", "norm", NULL},
        {"cross", "", "cross", "norm residual"},
        {"dense", "units=4 activation=sigmoid", "wide", "input"},
        {"concat", "", "all", "cross wide input view"},
        {"dense", "units=3", "head", NULL},
    };
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct tally tally = {0};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        struct layer_spec *l = models_add(&spec, layers[i].kind, layers[i].settings);
        free(l->name);
        l->name = mem_strdup(layers[i].name);
        if (layers[i].from != NULL) {
            models_from(l, layers[i].from);
        }
    }
    check_model(&spec, MODELS_SHAPE(4), 3, "graph", &tally);
    assert_true(tally.checked > 100);
    model_spec_release(&spec);
}

/* Layers of one table: a key that several look up has one row, and its gradient is all of theirs.
 * Another table between them has rows of its own. */
static void test_gradients_of_a_shared_table(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *settings, *from;
    } layers[] = {
        {"embedding", "table=t hashing=none shared=true", "f h"},
        {"linear", "table=u units=2", NULL},
        {"embedding", "table=t hashing=none", "h"},
        {"embedding", "table=t", "g f"},
        {"linear", "table=u units=2 hashing=none bias=true", "g"},
        {"flatten", "", "embedding_1"},
        {"flatten", "", "embedding_4"},
        {"concat", "", "flatten_6 embedding_3 linear_2 flatten_7 linear_5"},
        {"dense", "units=3", NULL},
    };
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct tally tally = {0};
    models_table(&spec, "t", 3);
    models_table(&spec, "u", 2);
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        struct layer_spec *l = models_add(&spec, layers[i].kind, layers[i].settings);
        if (layers[i].from != NULL) {
            models_from(l, layers[i].from);
        }
    }
    check_model(&spec, MODELS_SHAPE(4), 3, "tables", &tally);
    assert_true(tally.checked > 60);
    model_spec_release(&spec);
}

/* A last softmax or sigmoid belongs to the loss: the same gradients with and without it. */
static void test_gradients_with_the_link_in_the_model(void **state)
{
    (void)state;
    for (int softmax = 0; softmax < 2; softmax++) {
        struct model_spec plain = {.loss = softmax ? LOSS_SOFTMAX_CROSS_ENTROPY
                                                   : LOSS_SIGMOID_CROSS_ENTROPY};
        struct model_spec linked = {.loss = plain.loss};
        models_add(&plain, "dense", softmax ? "units=2" : "units=1");
        models_add(&linked, "dense",
                   softmax ? "units=2 activation=softmax" : "units=1 activation=sigmoid");
        struct models_rig a, b;
        models_rig_init(&a, &plain, MODELS_SHAPE(4), 2, 5, 9);
        models_rig_init(&b, &linked, MODELS_SHAPE(4), 2, 5, 9);
        assert_true(models_gradients(&a, 0) == models_gradients(&b, 0));
        assert_memory_equal(a.gradients[0], b.gradients[0], a.sizes[0] * sizeof(float));
        size_t outputs;
        const float *p = runner_predict(b.runner, models_values(&b), &b.batch, &outputs);
        assert_int_equal(softmax ? 2 : 1, outputs);
        for (size_t i = 0; i < 5; i++) {
            assert_true(p[i * outputs] > 0.0F && p[i * outputs] < 1.0F);
            if (softmax) {
                assert_float_equal(1.0F, p[2 * i] + p[2 * i + 1], 1e-6F);
            }
        }
        models_rig_release(&a);
        models_rig_release(&b);
        model_spec_release(&plain);
        model_spec_release(&linked);
    }
}

static void test_table_is_complete(void **state)
{
    (void)state;
    for (size_t i = 0; layer_kind_at(i) != NULL; i++) {
        const struct layer_kind *k = layer_kind_at(i);
        assert_ptr_equal(k, layer_kind_find(layer_kind_name(k)));
        assert_true(strlen(layer_kind_help(k)) > 10);
        size_t count;
        const struct field *fields = layer_kind_fields(k, &count);
        for (size_t j = 0; j < count; j++) {
            assert_true(fields[j].offset < layer_kind_params_bytes(k));
            assert_non_null(fields[j].help);
            /* Models copy parameters byte by byte, but for the name of a table. */
            assert_true(fields[j].type != FIELD_STRING || strcmp(fields[j].path, "table") == 0);
        }
    }
    assert_null(layer_kind_find("dens"));
    assert_null(layer_kind_at(1000));
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_kernels_choose(argv); /* those that programs compute with are tested */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test(test_gradients_of_every_kind),
        cmocka_unit_test(test_gradients_of_every_loss),
        cmocka_unit_test(test_gradients_of_a_stack),
        cmocka_unit_test(test_gradients_of_a_graph),
        cmocka_unit_test(test_gradients_of_a_shared_table),
        cmocka_unit_test(test_gradients_with_the_link_in_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
