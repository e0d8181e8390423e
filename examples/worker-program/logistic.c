/* SPDX-License-Identifier: Apache-2.0 */
/* A worker program: logistic regression, on records that it makes itself out of their numbers.
 *
 *   make && gradus run logistic.yaml --worker ./logistic
 *
 * A program of your own has these parts, too: what it describes, what a batch is, how a loss and
 * its gradient come of it. docs/worker-programs.md tells more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gradus/worker.h>

#define FEATURES 20
#define TRAIN_RECORDS 20000
#define TEST_RECORDS 2000

/* ---- records: the same for the same number, wherever they are made ---- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* From -1 to 1. */
static float number_of(uint64_t record, uint64_t i)
{
    return (float)(mixed(record * UINT64_C(0x9e3779b97f4a7c15) + i) >> 40) / 8388608.0F - 1.0F;
}

/* Its features, and its class: which side of a plane it is on. */
static int make_record(uint64_t record, float x[FEATURES])
{
    float side = 0.3F;
    for (int i = 0; i < FEATURES; i++) {
        x[i] = number_of(record, (uint64_t)i);
        side += x[i] * (float)(i % 5 - 2);
    }
    return side > 0;
}

/* ---- the model: weights [20] and a bias ---- */

enum { WEIGHTS, BIAS, VARIABLES };

static int describe(struct gradus_worker *worker)
{
    static const uint64_t dims[] = {FEATURES};
    static const float zeros[FEATURES];
    const struct gradus_variable variables[VARIABLES] = {
        [WEIGHTS] = {.name = "weights", .dims = dims, .rank = 1, .initial = zeros},
        [BIAS] = {.name = "bias", .initial = zeros},
    };
    const struct gradus_description description = {.size = sizeof description,
                                                   .variables = variables,
                                                   .variable_count = VARIABLES,
                                                   .train_records = TRAIN_RECORDS,
                                                   .test_records = TEST_RECORDS};
    return gradus_worker_describe(worker, &description);
}

/* The loss of a batch, what it had right, and its gradient where that is asked for. */
static int compute(struct gradus_worker *worker, const struct gradus_work *work)
{
    struct gradus_result result = {.size = sizeof result, .examples = work->count};
    const float *weights = work->parameters[WEIGHTS];
    float by_weights[FEATURES] = {0}, by_bias = 0;
    for (size_t r = 0; r < work->count; r++) {
        float x[FEATURES];
        /* Test records are others than train records. */
        const uint64_t first = work->kind == GRADUS_WORK_EVALUATION ? TRAIN_RECORDS : 0;
        const int label = make_record(first + work->records[r], x);
        float logit = work->parameters[BIAS][0];
        for (int i = 0; i < FEATURES; i++) {
            logit += weights[i] * x[i];
        }
        const float signed_logit = label ? logit : -logit;
        result.loss_sum += fmax(0, -signed_logit) + log1p(exp(-fabs(signed_logit)));
        result.correct += signed_logit > 0;
        const float error = 1 / (1 + expf(-logit)) - (float)label; /* d loss / d logit */
        for (int i = 0; i < FEATURES; i++) {
            by_weights[i] += error * x[i];
        }
        by_bias += error;
    }
    if (work->gradients != NULL) {
        memcpy(work->gradients[WEIGHTS], by_weights, sizeof by_weights);
        work->gradients[BIAS][0] = by_bias;
    }
    return gradus_worker_done(worker, &result);
}

int main(void)
{
    struct gradus_worker *worker;
    struct gradus_work work;
    if (gradus_worker_open("logistic", &worker) != GRADUS_OK) {
        (void)fprintf(stderr, "logistic: %s\n", gradus_worker_error(NULL));
        return EXIT_FAILURE;
    }
    int rc = gradus_worker_next(worker, &work);
    while (rc == GRADUS_OK && work.kind != GRADUS_WORK_STOP) {
        if (work.kind == GRADUS_WORK_JOB) {
            rc = describe(worker);
        } else if (work.kind != GRADUS_WORK_JOB_END) {
            rc = compute(worker, &work);
        }
        rc = rc == GRADUS_OK ? gradus_worker_next(worker, &work) : rc;
    }
    if (rc != GRADUS_OK) {
        (void)fprintf(stderr, "logistic: %s\n", gradus_worker_error(worker));
    }
    gradus_worker_close(worker);
    return rc == GRADUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
