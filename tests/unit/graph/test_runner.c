/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>

#include "base/vector.h"
#include "support/models.h"
#include "tensor/blas_kernels.h"

/* Allocations of the whole process, counted by standing in front of the C library's. */
static size_t allocations;

/* Bytes behind what is allocated aligned, in which nobody may write; where the last ones are. */
static size_t guard_bytes;
static unsigned char *guard;
#ifndef VECTOR_SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    allocations++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    allocations++;
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    allocations++;
    unsigned char *p = __libc_memalign(align, n + guard_bytes);
    guard = p == NULL ? NULL : p + n;
    return p;
}
#endif

/* One of each kind of layer. */
static void build_all(struct model_spec *spec)
{
    *spec = (struct model_spec){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    models_add(spec, "conv2d", "filters=4 kernel=3 activation=relu");
    models_add(spec, "max_pool2d", "");
    models_add(spec, "conv2d", "filters=5 kernel=2 padding=same activation=gelu");
    models_add(spec, "avg_pool2d", "stride=1");
    models_add(spec, "tanh", "");
    models_add(spec, "flatten", "");
    models_add(spec, "dropout", "rate=0.3");
    models_add(spec, "dense", "units=12 activation=sigmoid");
    models_add(spec, "layer_norm", "");
    models_add(spec, "relu", "");
    models_add(spec, "softmax", "");
    models_add(spec, "dense", "units=4");
}

static void build_mlp(struct model_spec *spec)
{
    *spec = (struct model_spec){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    models_add(spec, "dense", "units=9 activation=relu");
    models_add(spec, "dense", "units=3");
}

static float **copy_gradients(const struct models_rig *rig)
{
    float **copy = mem_new(rig->count, sizeof *copy);
    for (size_t i = 0; i < rig->count; i++) {
        copy[i] = mem_new(rig->sizes[i], sizeof(float));
        memcpy(copy[i], rig->gradients[i], rig->sizes[i] * sizeof(float));
    }
    return copy;
}

static bool same_gradients(const struct models_rig *rig, float *const *copy)
{
    for (size_t i = 0; i < rig->count; i++) {
        if (memcmp(copy[i], rig->gradients[i], rig->sizes[i] * sizeof(float)) != 0) {
            return false;
        }
    }
    return true;
}

static void free_copy(const struct models_rig *rig, float **copy)
{
    for (size_t i = 0; i < rig->count; i++) {
        free(copy[i]);
    }
    free(copy);
}

static void test_a_step_allocates_nothing(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    struct metrics m;
    size_t outputs;
    const struct runner_step step = {.seed = 1};
    build_all(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(9, 8), 4, 7, 1);
    metrics_init(&m, 1U << METRIC_ACCURACY);
    const size_t before = allocations;
    for (int i = 0; i < 3; i++) {
        runner_gradients(rig.runner, models_values(&rig), &rig.batch, &step, rig.gradients, &m,
                         NULL, NULL);
        runner_evaluate(rig.runner, models_values(&rig), &rig.batch, &m);
        (void)runner_predict(rig.runner, models_values(&rig), &rig.batch, &outputs);
    }
    assert_int_equal(before, allocations);
#ifndef VECTOR_SANITIZED
    assert_true(before > 0);
#endif
    metrics_release(&m);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* The same bits again, in another runner with room for more, and with values elsewhere. */
static void test_equal_batches_give_equal_bits(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    struct runner *other;
    build_all(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(9, 8), 4, 7, 2);
    models_gradients(&rig, 5);
    float **first = copy_gradients(&rig);
    models_gradients(&rig, 6); /* other dropout masks */
    assert_false(same_gradients(&rig, first));
    assert_int_equal(0, runner_new(rig.model, 50, 1, &other, NULL));
    runner_free(rig.runner);
    rig.runner = other;
    for (size_t shift = 0; shift < 4; shift++) {
        float **old = mem_new(rig.count, sizeof *old);
        for (size_t i = 0; i < rig.count; i++) {
            old[i] = rig.values[i];
            rig.values[i] = (float *)mem_new(rig.sizes[i] + shift, sizeof(float)) + shift;
            memcpy(rig.values[i], old[i], rig.sizes[i] * sizeof(float));
        }
        models_gradients(&rig, 5);
        assert_true(same_gradients(&rig, first));
        for (size_t i = 0; i < rig.count; i++) {
            free(rig.values[i] - shift);
            rig.values[i] = old[i];
        }
        free(old);
    }
    free_copy(&rig, first);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* Gradients are sums over examples: two parts add up to the whole. */
static void check_sums(const struct model_spec *spec, struct shape input, size_t records,
                       size_t first)
{
    struct models_rig rig;
    const size_t width = (size_t)shape_count(&input);
    models_rig_init(&rig, spec, input, 3, records, 3);
    const double loss = models_gradients(&rig, 0);
    float **whole = copy_gradients(&rig);
    rig.batch.count = first;
    double parts = models_gradients(&rig, 0);
    float **half = copy_gradients(&rig);
    rig.batch.count = records - first;
    rig.batch.features += first * width;
    rig.batch.classes += first;
    parts += models_gradients(&rig, 0);
    assert_true(fabs(loss - parts) < 1e-6 * loss);
    for (size_t i = 0; i < rig.count; i++) {
        for (size_t j = 0; j < rig.sizes[i]; j++) {
            assert_float_equal(whole[i][j], half[i][j] + rig.gradients[i][j], 1e-4F);
        }
    }
    rig.batch.features -= first * width;
    rig.batch.classes -= first;
    free_copy(&rig, whole);
    free_copy(&rig, half);
    models_rig_release(&rig);
}

static void test_gradients_are_sums(void **state)
{
    (void)state;
    struct model_spec mlp, images = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    build_mlp(&mlp);
    check_sums(&mlp, MODELS_SHAPE(5), 8, 3);
    model_spec_release(&mlp);
    /* more images than conv2d lays out at a time */
    models_add(&images, "conv2d", "filters=3 kernel=3");
    models_add(&images, "conv2d", "filters=2 kernel=3 padding=same activation=tanh");
    models_add(&images, "flatten", "");
    models_add(&images, "dense", "units=3");
    check_sums(&images, MODELS_SHAPE(14, 13), 20, 1);
    model_spec_release(&images);
}

struct seen {
    const struct models_rig *rig;
    size_t count;
    size_t variables[64];
    uint64_t firsts[64], counts[64];
    float sums[64]; /* of what was announced, when it was */
};

static float sum_of(const float *values, uint64_t count)
{
    float sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum;
}

static void note(void *ctx, size_t variable, uint64_t first, uint64_t count)
{
    struct seen *s = ctx;
    assert_true(s->count < 64);
    s->variables[s->count] = variable;
    s->firsts[s->count] = first;
    s->counts[s->count] = count;
    s->sums[s->count++] = sum_of(s->rig->gradients[variable] + first, count);
}

/* Variables from the last to the first, each from its end down to 0, and final when announced. */
static void check_seen(const struct models_rig *rig, const struct seen *seen)
{
    size_t at = 0;
    for (size_t v = rig->count; v > 0; v--) {
        uint64_t end = rig->sizes[v - 1];
        while (end > 0) {
            assert_true(at < seen->count);
            assert_int_equal(seen->variables[at], v - 1);
            assert_int_equal(seen->firsts[at] + seen->counts[at], end);
            end = seen->firsts[at];
            float now = sum_of(rig->gradients[v - 1] + end, seen->counts[at]);
            assert_true(seen->sums[at] == now);
            at++;
        }
    }
    assert_int_equal(at, seen->count);
}

static void test_ready_comes_from_the_last_layer_on(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    const struct runner_step step = {.seed = 1};
    build_all(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(9, 8), 4, 6, 4);
    for (int empty = 0; empty < 2; empty++) {
        struct seen seen = {.rig = &rig};
        const struct runner_ready ready = {note, &seen};
        for (size_t i = 0; i < rig.count; i++) {
            rig.gradients[i][0] = NAN;
        }
        rig.batch.count = empty ? 0 : 6;
        runner_gradients(rig.runner, models_values(&rig), &rig.batch, &step, rig.gradients, NULL,
                         NULL, &ready);
        assert_int_equal(rig.count, seen.count);
        check_seen(&rig, &seen);
    }
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* A large kernel is announced in blocks; whether anybody listens makes no bit of a difference. */
static void test_a_large_kernel_is_ready_in_blocks(void **state)
{
    (void)state;
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct models_rig rig;
    const struct runner_step step = {.seed = 1};
    struct seen seen = {.rig = &rig};
    const struct runner_ready ready = {note, &seen};
    models_add(&spec, "dense", "units=129 activation=relu");
    models_add(&spec, "dense", "units=4");
    models_rig_init(&rig, &spec, MODELS_SHAPE(1100), 4, 6, 3);
    runner_gradients(rig.runner, models_values(&rig), &rig.batch, &step, rig.gradients, NULL, NULL,
                     NULL);
    float **silent = copy_gradients(&rig);
    runner_gradients(rig.runner, models_values(&rig), &rig.batch, &step, rig.gradients, NULL, NULL,
                     &ready);
    assert_true(same_gradients(&rig, silent));
    check_seen(&rig, &seen);
    assert_int_equal(seen.count, 3 + 2); /* 1100 · 129 floats are two blocks of 64 Ki and more */
    free_copy(&rig, silent);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* Values come one after the other, as they are asked for: until then they are not numbers. */
struct arrivals {
    struct models_rig *rig;
    float **values;
    size_t count, refused; /* from this one on; SIZE_MAX: none */
    size_t told;           /* of the gradient, meanwhile */
};

static int arrive(void *ctx, size_t variable)
{
    struct arrivals *a = ctx;
    assert_int_equal(variable, a->count);
    assert_int_equal(a->told, 0);
    if (variable == a->refused) {
        return ERR_UNAVAILABLE;
    }
    memcpy(a->rig->values[variable], a->values[variable], a->rig->sizes[variable] * sizeof(float));
    a->count++;
    return 0;
}

static void tell(void *ctx, size_t variable, uint64_t first, uint64_t count)
{
    (void)variable;
    (void)first;
    (void)count;
    struct arrivals *a = ctx;
    assert_int_equal(a->count, a->rig->count);
    a->told++;
}

static void spoil_values(const struct models_rig *rig)
{
    for (size_t i = 0; i < rig->count; i++) {
        for (size_t j = 0; j < rig->sizes[i]; j++) {
            rig->values[i][j] = NAN;
        }
    }
}

/* From the first layer on, each variable once, and all of them before a gradient leaves; refused
 * anywhere it counts for nothing. */
static void test_values_may_come_late_or_not_at_all(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    struct metrics m;
    const struct runner_step step = {.seed = 1};
    build_all(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(9, 8), 4, 6, 4);
    float **values = mem_new(rig.count, sizeof *values);
    for (size_t i = 0; i < rig.count; i++) {
        values[i] = mem_new(rig.sizes[i], sizeof(float));
        memcpy(values[i], rig.values[i], rig.sizes[i] * sizeof(float));
    }
    metrics_init(&m, 0);
    assert_int_equal(runner_gradients(rig.runner, models_values(&rig), &rig.batch, &step,
                                      rig.gradients, NULL, NULL, NULL),
                     0);
    float **expected = copy_gradients(&rig);
    for (size_t refused = 0; refused <= rig.count; refused++) {
        struct arrivals a = {.rig = &rig, .values = values, .refused = refused};
        const struct runner_need need = {arrive, NULL, &a};
        const struct runner_ready ready = {tell, &a};
        spoil_values(&rig);
        int rc = runner_gradients(rig.runner, models_values(&rig), &rig.batch, &step, rig.gradients,
                                  &m, &need, &ready);
        assert_int_equal(rc, refused < rig.count ? ERR_UNAVAILABLE : 0);
        assert_int_equal(a.count, refused);
        assert_int_equal(a.told > 0, refused == rig.count);
        assert_int_equal(m.examples, refused < rig.count ? 0 : 6);
    }
    assert_true(same_gradients(&rig, expected));
    struct arrivals empty = {.rig = &rig, .values = values, .refused = SIZE_MAX};
    const struct runner_need need = {arrive, NULL, &empty};
    rig.batch.count = 0;
    assert_int_equal(runner_gradients(rig.runner, models_values(&rig), &rig.batch, &step,
                                      rig.gradients, &m, &need, NULL),
                     0);
    assert_int_equal(empty.count, rig.count);
    metrics_release(&m);
    free_copy(&rig, expected);
    for (size_t i = 0; i < rig.count; i++) {
        free(values[i]);
    }
    free(values);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

static void test_an_empty_batch_gives_zeros(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    struct metrics m;
    build_all(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(9, 8), 4, 6, 5);
    models_gradients(&rig, 0);
    rig.batch.count = 0;
    assert_true(models_gradients(&rig, 0) == 0.0);
    for (size_t i = 0; i < rig.count; i++) {
        for (size_t j = 0; j < rig.sizes[i]; j++) {
            assert_true(rig.gradients[i][j] == 0.0F);
        }
    }
    metrics_init(&m, 0);
    runner_evaluate(rig.runner, models_values(&rig), &rig.batch, &m);
    assert_int_equal(0, m.examples);
    metrics_release(&m);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* dense + relu + dense against plain loops in double. */
static void test_predict_against_naive(void **state)
{
    (void)state;
    struct model_spec spec;
    struct models_rig rig;
    size_t outputs;
    build_mlp(&spec);
    models_rig_init(&rig, &spec, MODELS_SHAPE(5), 3, 4, 6);
    const float *y = runner_predict(rig.runner, models_values(&rig), &rig.batch, &outputs);
    assert_int_equal(3, outputs);
    for (size_t r = 0; r < 4; r++) {
        double hidden[9];
        for (size_t j = 0; j < 9; j++) {
            double sum = (double)rig.values[1][j];
            for (size_t i = 0; i < 5; i++) {
                sum += (double)rig.batch.features[r * 5 + i] * (double)rig.values[0][i * 9 + j];
            }
            hidden[j] = sum > 0.0 ? sum : 0.0;
        }
        for (size_t j = 0; j < 3; j++) {
            double sum = (double)rig.values[3][j];
            for (size_t i = 0; i < 9; i++) {
                sum += hidden[i] * (double)rig.values[2][i * 3 + j];
            }
            assert_true(fabs(sum - (double)y[r * 3 + j]) < 1e-5);
        }
    }
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* Layers that could work in place must leave alone what others still read: the same network with
 * every activation as a layer of its own, and behind a layer that reads its own output. */
static void test_layers_in_place(void **state)
{
    (void)state;
    struct model_spec a, b;
    struct models_rig fused, apart;
    a = b = (struct model_spec){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    models_add(&a, "flatten", "");
    models_add(&a, "dense", "units=6 activation=sigmoid");
    models_add(&a, "dense", "units=3");
    models_add(&b, "flatten", "");
    models_add(&b, "dense", "units=6");
    models_add(&b, "sigmoid", "");
    models_add(&b, "dropout", "rate=0");
    models_add(&b, "flatten", "");
    models_add(&b, "relu", ""); /* nothing to do behind a sigmoid */
    models_add(&b, "dense", "units=3");
    models_rig_init(&fused, &a, MODELS_SHAPE(2, 3), 3, 5, 7);
    models_rig_init(&apart, &b, MODELS_SHAPE(2, 3), 3, 5, 7);
    assert_true(models_gradients(&fused, 0) == models_gradients(&apart, 0));
    assert_true(same_gradients(&fused, apart.gradients));
    models_rig_release(&fused);
    models_rig_release(&apart);
    model_spec_release(&a);
    model_spec_release(&b);
}

/* The caller's features are borrowed, even when the first layer could work in place. */
static void test_features_stay(void **state)
{
    (void)state;
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct models_rig rig;
    float before[30];
    models_add(&spec, "flatten", "");
    models_add(&spec, "dropout", "");
    models_add(&spec, "relu", "");
    models_add(&spec, "dense", "units=3");
    models_rig_init(&rig, &spec, MODELS_SHAPE(2, 3), 3, 5, 8);
    memcpy(before, rig.batch.features, sizeof before);
    models_gradients(&rig, 0);
    assert_memory_equal(before, rig.batch.features, sizeof before);
    models_rig_release(&rig);
    model_spec_release(&spec);
}

/* The first layer's inputs get no gradients: the runner has no memory for them, which shows where
 * inputs are wider than any output. */
static void test_inputs_get_no_gradients(void **state)
{
    (void)state;
    enum { WIDTH = 1000, RECORDS = 16 };
    struct model_spec spec = {.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    struct models_rig rig;
    models_add(&spec, "dense", "units=2");
    guard_bytes = (size_t)WIDTH * RECORDS * sizeof(float);
    models_rig_init(&rig, &spec, MODELS_SHAPE(WIDTH), 2, RECORDS, 9);
    for (size_t i = 0; guard != NULL && i < guard_bytes; i++) {
        guard[i] = 0xEE;
    }
    models_gradients(&rig, 0);
    for (size_t i = 0; guard != NULL && i < guard_bytes; i++) {
        assert_int_equal(guard[i], 0xEE);
    }
    guard_bytes = 0;
    models_rig_release(&rig);
    model_spec_release(&spec);
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_kernels_choose(argv); /* those that programs compute with are tested */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_allocates_nothing),
        cmocka_unit_test(test_equal_batches_give_equal_bits),
        cmocka_unit_test(test_gradients_are_sums),
        cmocka_unit_test(test_ready_comes_from_the_last_layer_on),
        cmocka_unit_test(test_a_large_kernel_is_ready_in_blocks),
        cmocka_unit_test(test_values_may_come_late_or_not_at_all),
        cmocka_unit_test(test_an_empty_batch_gives_zeros),
        cmocka_unit_test(test_predict_against_naive),
        cmocka_unit_test(test_layers_in_place),
        cmocka_unit_test(test_features_stay),
        cmocka_unit_test(test_inputs_get_no_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
