/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the weights of classes, and makes those that balance them. */
#include "graph/model_weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"
#include "graph/model_impl.h"

#define WEIGHT_MAX 1e6
#define SHOWN_BYTES 40

static int read_one(const char *text, float *out, struct err *err)
{
    double value;
    char shown[SHOWN_BYTES];
    if (!text_to_double(text, &value) || !(value >= 0.0 && value <= WEIGHT_MAX)) {
        return err_set(err, ERR_INVALID,
                       "'%s' is no weight; allowed: balanced, or for each class a number from 0 to "
                       "%g",
                       text_shown(text, shown, sizeof shown), WEIGHT_MAX);
    }
    *out = (float)value;
    return 0;
}

int model_weights_read(const char *text, bool *balanced, float **weights, size_t *count,
                       struct err *err)
{
    struct field_texts texts = {0};
    *balanced = false;
    *weights = NULL;
    *count = 0;
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    if (!field_texts_read(text, &texts)) {
        return err_set(err, ERR_INVALID, "it is no list of weights");
    }
    if (texts.count == 1 && strcmp(texts.items[0], "balanced") == 0) {
        *balanced = true;
        field_texts_release(&texts);
        return 0;
    }
    float *read = mem_new(texts.count, sizeof *read), largest = 0.0F;
    int rc = 0;
    for (size_t i = 0; i < texts.count && rc == 0; i++) {
        rc = read_one(texts.items[i], &read[i], err);
        largest = fmaxf(largest, read[i]);
    }
    if (rc == 0 && !(largest > 0.0F)) {
        rc = err_set(err, ERR_INVALID, "all weights are 0; one above it would fit");
    }
    if (rc == 0) {
        *weights = read;
        *count = texts.count;
    } else {
        free(read);
    }
    field_texts_release(&texts);
    return rc;
}

int model_weights_take(struct model *m, const struct model_spec *spec, uint32_t classes,
                       struct err *err)
{
    size_t count;
    int rc = model_weights_read(spec->class_weights, &m->balanced, &m->class_weights, &count, err);
    if (rc == 0 && (m->balanced || count > 0) && classes == 0) {
        rc = err_set(err, ERR_INVALID, "the labels of the data are no classes");
    }
    if (rc == 0 && count > 0 && count != classes) {
        rc = err_set(err, ERR_INVALID, "%zu weights, but the data has %" PRIu32 " classes", count,
                     classes);
    }
    m->classes = classes;
    return rc == 0 ? 0 : err_wrap(err, "model.class_weights");
}

bool model_is_balanced(const struct model *m)
{
    return m->balanced;
}

void model_balance(struct model *m, const uint64_t *counts)
{
    double all = 0.0, there = 0.0;
    for (size_t i = 0; i < m->classes; i++) {
        all += (double)counts[i];
        there += counts[i] > 0 ? 1.0 : 0.0;
    }
    m->class_weights = mem_resize(m->class_weights, m->classes, sizeof *m->class_weights);
    for (size_t i = 0; i < m->classes; i++) {
        m->class_weights[i] = counts[i] > 0 ? (float)(all / (there * (double)counts[i])) : 0.0F;
    }
}

void model_sampled(struct model *m, double rate)
{
    m->shift = (float)-log(rate);
}
