/* SPDX-License-Identifier: Apache-2.0 */
/* A compute plug-in: logistic regression, on records that it makes itself out of their numbers.
 *
 *   make && gradus run plane.yaml --worker "gradus-worker compute ."
 *
 * On a cluster: gradus-worker --compute-dir DIR. docs/worker-programs.md tells more. */
#include <math.h>
#include <stddef.h>

#include <gradus/compute.h>

#define FEATURES 8
#define TRAIN_RECORDS 10000
#define TEST_RECORDS 1000

enum { WEIGHTS, BIAS, VARIABLES };

/* From -1 to 1; the same for the same record, wherever it is made. */
static float feature_of(uint64_t record, uint64_t i)
{
    uint64_t x = record * UINT64_C(0x9e3779b97f4a7c15) + i;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (float)((x ^ x >> 31) >> 40) / 8388608.0F - 1.0F;
}

static int open_model(const struct gradus_job *job, void **model,
                      struct gradus_description *description, char *why)
{
    static const uint64_t dims[] = {FEATURES};
    static const float zeros[FEATURES];
    static const struct gradus_variable variables[VARIABLES] = {
        [WEIGHTS] = {.name = "weights", .dims = dims, .rank = 1, .initial = zeros},
        [BIAS] = {.name = "bias", .initial = zeros},
    };
    (void)job;
    (void)model; /* nothing is kept */
    (void)why;
    description->variables = variables;
    description->variable_count = VARIABLES;
    description->train_records = TRAIN_RECORDS;
    description->test_records = TEST_RECORDS;
    return 0;
}

static int compute(void *model, const struct gradus_work *work, struct gradus_result *result,
                   char *why)
{
    float by_weights[FEATURES] = {0}, by_bias = 0;
    (void)model;
    (void)why;
    for (size_t r = 0; r < work->count; r++) {
        /* Test records are others than train records. */
        const uint64_t first = work->kind == GRADUS_WORK_EVALUATION ? TRAIN_RECORDS : 0;
        float x[FEATURES], side = 0.2F, logit = work->parameters[BIAS][0];
        for (uint64_t i = 0; i < FEATURES; i++) {
            x[i] = feature_of(first + work->records[r], i);
            side += x[i] * (float)(i % 3) - x[i];
            logit += work->parameters[WEIGHTS][i] * x[i];
        }
        const float signed_logit = side > 0 ? logit : -logit;
        result->loss_sum += fmax(0, -signed_logit) + log1p(exp(-fabs(signed_logit)));
        result->correct += signed_logit > 0;
        const float error = 1 / (1 + expf(-logit)) - (side > 0); /* d loss / d logit */
        for (int i = 0; i < FEATURES; i++) {
            by_weights[i] += error * x[i];
        }
        by_bias += error;
    }
    for (int i = 0; i < FEATURES && work->gradients != NULL; i++) {
        work->gradients[WEIGHTS][i] = by_weights[i];
    }
    if (work->gradients != NULL) {
        work->gradients[BIAS][0] = by_bias;
    }
    return 0;
}

const struct gradus_compute gradus_compute = {
    .abi = GRADUS_COMPUTE_ABI,
    .open = open_model,
    .compute = compute,
};
