/* SPDX-License-Identifier: Apache-2.0 */
/* Examples per second of networks trained in one process, without any parameter server.
 *
 * Usage: bench_graph [SECONDS_PER_LINE [THREADS]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/mem.h"
#include "base/text.h"
#include "bench/local_training.h"
#include "tensor/blas_kernels.h"

#define LAYERS_MAX 16
#define REPEATS 5 /* the best of them is printed: others work on this machine too */

struct network {
    const char *name;
    struct shape input;
    const char *layers[LAYERS_MAX]; /* "kind key=value ..." */
};

static const struct network networks[] = {
    {"mlp",
     {.rank = 1, .dims = {784}},
     {"dense units=256 activation=relu", "dense units=128 activation=relu", "dense units=10"}},
    {"logistic", {.rank = 1, .dims = {784}}, {"dense units=10"}},
    {"cnn",
     {.rank = 2, .dims = {28, 28}},
     {"conv2d filters=16 kernel=3 activation=relu", "max_pool2d size=2",
      "conv2d filters=32 kernel=3 activation=relu", "max_pool2d size=2", "flatten",
      "dense units=64 activation=relu", "dense units=10"}},
};

/* Fill @object from "key=value key=value"; the tables above are right or this ends the program. */
static void set_fields(const struct field *fields, size_t count, void *object, char *settings)
{
    field_defaults(fields, count, object);
    for (char *word; (word = strsep(&settings, " ")) != NULL;) {
        char *value = strchr(word, '=');
        struct err err = {0};
        *value++ = '\0';
        if (field_set(field_find(fields, count, word), object, value, &err) != 0) {
            (void)fprintf(stderr, "bench_graph: %s: %s\n", word, err.msg);
            exit(1);
        }
    }
}

static void build(const struct network *n, struct model_spec *spec)
{
    *spec = (struct model_spec){.loss = LOSS_SOFTMAX_CROSS_ENTROPY};
    spec->layers = mem_new(LAYERS_MAX, sizeof *spec->layers);
    for (size_t i = 0; n->layers[i] != NULL; i++) {
        struct layer_spec *l = &spec->layers[spec->layer_count++];
        char *text = mem_strdup(n->layers[i]), *rest = text;
        const char *kind = strsep(&rest, " ");
        size_t count;
        l->kind = layer_kind_find(kind);
        const struct field *fields = layer_kind_fields(l->kind, &count);
        l->name = mem_printf("%s_%zu", kind, i + 1);
        l->params = mem_new(1, layer_kind_params_bytes(l->kind));
        set_fields(fields, count, l->params, rest);
        free(text);
    }
}

static void measure(const struct local_training *t, const char *network, const char *rule,
                    double seconds)
{
    struct local_result best = {0}, r;
    struct err err = {0};
    uint64_t steps = 50;
    for (int i = 0; i <= REPEATS; i++) {
        if (local_training_run(t, steps, &r, &err) != 0) {
            (void)fprintf(stderr, "bench_graph: %s: %s\n", network, err.msg);
            exit(1);
        }
        const double rate = (double)steps / (r.gradient_seconds + r.update_seconds);
        best = r.examples_per_second > best.examples_per_second && i > 0 ? r : best;
        steps = (uint64_t)(rate * seconds / REPEATS) + 1;
    }
    const double total = best.gradient_seconds + best.update_seconds;
    printf("%-10s batch %4zu  %-5s %10.0f examples/s   gradients %4.1f %%   update %4.1f %%\n",
           network, t->batch_size, rule, best.examples_per_second,
           100.0 * best.gradient_seconds / total, 100.0 * best.update_seconds / total);
}

int main(int argc, char **argv)
{
    float_mode_flush();
    blas_kernels_choose(argv);
    static const char *const rules[] = {"none", "sgd", "adam"};
    static const size_t batch_sizes[] = {64, 256};
    double seconds = 1.0;
    int64_t threads = 1;
    if ((argc > 1 && !text_to_double(argv[1], &seconds)) ||
        (argc > 2 && !text_to_int(argv[2], &threads))) {
        (void)fprintf(stderr, "usage: bench_graph [SECONDS_PER_LINE [THREADS]]\n");
        return 2;
    }
    for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
        struct model_spec spec;
        build(&networks[n], &spec);
        for (size_t b = 0; b < 2; b++) {
            for (size_t u = 0; u < 3; u++) {
                struct update_spec update = {.rule = rule_find(rules[u])};
                if (update.rule != NULL) {
                    update.params = mem_new(1, update.rule->params_bytes);
                    field_defaults(update.rule->fields, update.rule->field_count, update.params);
                }
                const struct local_training t = {.model = &spec,
                                                 .update = update.rule == NULL ? NULL : &update,
                                                 .input = networks[n].input,
                                                 .classes = 10,
                                                 .batch_size = batch_sizes[b],
                                                 .threads = (int)threads};
                measure(&t, networks[n].name, rules[u], seconds);
                update_spec_release(&update);
            }
        }
        model_spec_release(&spec);
    }
    return 0;
}
