/* SPDX-License-Identifier: Apache-2.0 */
/* The losses of a batch with their gradients and metrics. Both cross entropies work on the
 * values before softmax or sigmoid (a last layer of that kind is passed over), so that large
 * values do no harm. */
#include "graph/loss.h"

#include <assert.h>
#include <math.h>

#include "graph/op.h"
#include "tensor/activation.h"
#include "tensor/kernel.h"

/* What a record counts in the gradient. In metrics it does so without the weight of its class. */
static float weight_of(const struct loss_run *r, size_t record)
{
    const struct batch *b = r->batch;
    const float own = b->weights == NULL ? 1.0F : b->weights[record];
    return r->class_weights == NULL ? own : own * r->class_weights[b->classes[record]];
}

/* loss = log(sum e^y) - y[class]; gradient = softmax(y) - onehot(class). */
static void softmax_cross_entropy(const struct loss_run *r)
{
    double loss = 0.0;
    for (size_t i = 0; i < r->batch->count; i++) {
        const float *y = r->y + i * r->width;
        float shifted[2];
        if (r->shift != 0.0F) { /* two classes */
            shifted[0] = y[0];
            shifted[1] = y[1] + r->shift;
            y = shifted;
        }
        const size_t class = (size_t)r->batch->classes[i];
        assert(class < r->width); /* the data set refuses other labels */
        float *e = r->dy != NULL ? r->dy + i * r->width : r->scratch;
        const float max = kernel_max(y, r->width);
        const float sum = activation_exp_row(r->width, y, max, e);
        if (r->metrics != NULL) {
            loss +=
                loss_record_weight(r, i) * (log((double)sum) - ((double)y[class] - (double)max));
            loss_count_classes(r, i, y, e, (double)sum);
        }
        if (r->dy != NULL) {
            const float weight = weight_of(r, i), scale = weight / sum;
            for (size_t j = 0; j < r->width; j++) {
                e[j] *= scale;
            }
            e[class] -= weight;
        }
    }
    if (r->metrics != NULL) {
        r->metrics->loss_sum += loss;
    }
}

/* loss = max(y, 0) - y · t + log(1 + e^-|y|); gradient = sigmoid(y) - t. */
static void sigmoid_cross_entropy(const struct loss_run *r)
{
    double loss = 0.0;
    for (size_t i = 0; i < r->batch->count; i++) {
        const double y = (double)r->y[i] + (double)r->shift, t = (double)r->batch->targets[i];
        const double small = exp(-fabs(y));
        const double probability = (y < 0.0 ? small : 1.0) / (1.0 + small);
        if (r->dy != NULL) {
            r->dy[i] = (float)(probability - t) * weight_of(r, i);
        }
        if (r->metrics != NULL) {
            loss += loss_record_weight(r, i) * ((y > 0.0 ? y : 0.0) - y * t + log1p(small));
            loss = y != y ? y : loss;
            loss_count_binary(r, i, y, t > 0.5);
        }
    }
    if (r->metrics != NULL) {
        r->metrics->loss_sum += loss;
    }
}

/* loss = (y - t)²; gradient = 2 (y - t). */
static void mean_squared_error(const struct loss_run *r)
{
    for (size_t i = 0; i < r->batch->count && r->dy != NULL; i++) {
        r->dy[i] = 2.0F * (r->y[i] - r->batch->targets[i]) * weight_of(r, i);
    }
    if (r->metrics != NULL) {
        loss_count_values(r);
    }
}

extern const struct layer_kind layer_softmax, layer_sigmoid;

#define KIND(kind) (1U << (kind))
#define OF_CLASSES                                                                                 \
    (KIND(METRIC_LOSS) | KIND(METRIC_ACCURACY) | KIND(METRIC_AUC) | KIND(METRIC_PRECISION) |       \
     KIND(METRIC_RECALL) | KIND(METRIC_F1) | KIND(METRIC_LOG_LOSS) | KIND(METRIC_ECE) |            \
     KIND(METRIC_CONFUSION_MATRIX))

const struct loss *loss_of(enum loss_kind kind)
{
    static const struct loss losses[LOSS_AUTO] = {
        [LOSS_SOFTMAX_CROSS_ENTROPY] = {.link = &layer_softmax,
                                        .metrics = OF_CLASSES | KIND(METRIC_TOP_K_ACCURACY),
                                        .needs_classes = true,
                                        .output_per_class = true,
                                        .run = softmax_cross_entropy},
        [LOSS_SIGMOID_CROSS_ENTROPY] = {.link = &layer_sigmoid,
                                        .metrics = OF_CLASSES | KIND(METRIC_NORMALISED_ENTROPY) |
                                                   KIND(METRIC_CALIBRATION) |
                                                   KIND(METRIC_GROUPED_AUC),
                                        .needs_classes = true,
                                        .classes_max = 2,
                                        .run = sigmoid_cross_entropy},
        [LOSS_MEAN_SQUARED_ERROR] = {.metrics = KIND(METRIC_LOSS) | KIND(METRIC_RMSE) |
                                                KIND(METRIC_MAE) | KIND(METRIC_R2),
                                     .run = mean_squared_error},
    };
    return &losses[kind];
}

unsigned model_metrics_of(enum loss_kind loss)
{
    return loss == LOSS_AUTO ? loss_of(LOSS_SOFTMAX_CROSS_ENTROPY)->metrics |
                                   loss_of(LOSS_SIGMOID_CROSS_ENTROPY)->metrics
                             : loss_of(loss)->metrics;
}
