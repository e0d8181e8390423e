/* SPDX-License-Identifier: Apache-2.0 */
/* A worker program (include/gradus/worker.h) for tests: logistic regression on records that it
 * makes from their numbers. It can be told to misbehave:
 *
 *     logistic_program [MODE [FILE]]
 *
 * crash: ends by a signal at its 30th batch, once: it makes FILE then. fail: every batch from the
 * 20th on fails with two lines. fail-once: the 20th alone. hang: stands still at its 30th batch,
 * once, as crash. nan: its 20th loss and gradient are not finite. other: describes another initial
 * value in every process, by FILE. refuse: fails at the job. mute: never says anything. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gradus/worker.h"

#define FEATURES 16
#define TRAIN_RECORDS 6000
#define TEST_RECORDS 600

struct run {
    const char *mode, *file;
    struct gradus_worker *worker;
    unsigned batches;
};

static int is(const struct run *r, const char *mode)
{
    return strcmp(r->mode, mode) == 0;
}

/* True the first time that a process of this test asks. */
static int first_time(const struct run *r)
{
    if (access(r->file, F_OK) == 0) {
        return 0;
    }
    FILE *f = fopen(r->file, "w");
    if (f != NULL) {
        (void)fclose(f);
    }
    return 1;
}

static int record(uint64_t number, float x[FEATURES])
{
    double sum = 0;
    uint64_t h = number * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (int i = 0; i < FEATURES; i++) {
        h = (h ^ (h >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
        h ^= h >> 32;
        x[i] = (float)((double)(h >> 40) / (double)(1 << 23) - 1);
        sum += (double)x[i] * (i % 3 - 1);
    }
    return sum > 0;
}

static void describe(const struct run *r)
{
    float weights[FEATURES], bias = 0;
    for (int i = 0; i < FEATURES; i++) {
        weights[i] = 0.01F * (float)i;
    }
    if (is(r, "other") && !first_time(r)) {
        weights[0] = 1;
    }
    const uint64_t dims[] = {FEATURES};
    const struct gradus_variable variables[] = {
        {"weights", dims, 1, GRADUS_TRAINED, weights},
        {"bias", NULL, 0, GRADUS_TRAINED, &bias},
    };
    const struct gradus_description d = {
        .size = sizeof d,
        .variables = variables,
        .variable_count = 2,
        .train_records = TRAIN_RECORDS,
        .test_records = TEST_RECORDS,
        .fingerprint = 1,
    };
    if (is(r, "refuse")) {
        (void)gradus_worker_fail(r->worker, "no such model here");
    } else if (gradus_worker_describe(r->worker, &d) != GRADUS_OK) {
        (void)fprintf(stderr, "describe: %s\n", gradus_worker_error(r->worker));
    }
}

static void compute(const struct gradus_work *k, struct gradus_result *out)
{
    const float *weights = k->parameters[0], *bias = k->parameters[1];
    if (k->gradients != NULL) {
        memset(k->gradients[0], 0, FEATURES * sizeof(float));
        k->gradients[1][0] = 0;
    }
    for (size_t i = 0; i < k->count; i++) {
        float x[FEATURES];
        const uint64_t number = k->records[i] + (k->gradients == NULL ? TRAIN_RECORDS : 0);
        const int y = record(number, x);
        double z = *bias;
        for (int f = 0; f < FEATURES; f++) {
            z += (double)x[f] * weights[f];
        }
        const double p = 1 / (1 + exp(-z));
        out->loss_sum -= log(y ? p : 1 - p);
        out->correct += (z > 0) == y;
        for (int f = 0; f < FEATURES && k->gradients != NULL; f++) {
            k->gradients[0][f] += (float)(p - y) * x[f];
        }
        if (k->gradients != NULL) {
            k->gradients[1][0] += (float)(p - y);
        }
    }
}

static void misbehave(const struct run *r)
{
    if (r->batches == 30 && is(r, "crash") && first_time(r)) {
        abort();
    }
    while (r->batches >= 30 && is(r, "hang") && (r->batches > 30 || first_time(r))) {
        (void)pause();
    }
}

static void batch(struct run *r, const struct gradus_work *k)
{
    struct gradus_result result = {.size = sizeof result, .examples = k->count};
    r->batches++;
    misbehave(r);
    if ((is(r, "fail") && r->batches >= 20) || (is(r, "fail-once") && r->batches == 20)) {
        (void)gradus_worker_fail(r->worker, "Traceback:\nValueError: no");
        return;
    }
    compute(k, &result);
    if (is(r, "nan") && r->batches == 20 && k->gradients != NULL) {
        result.loss_sum = NAN;
        k->gradients[0][3] = NAN;
    }
    if (gradus_worker_done(r->worker, &result) != GRADUS_OK) {
        (void)fprintf(stderr, "done: %s\n", gradus_worker_error(r->worker));
    }
}

int main(int argc, char **argv)
{
    struct run r = {.mode = argc > 1 ? argv[1] : "", .file = argc > 2 ? argv[2] : "/dev/null"};
    while (is(&r, "mute")) {
        (void)pause();
    }
    if (gradus_worker_open("logistic_program", &r.worker) != GRADUS_OK) {
        (void)fprintf(stderr, "logistic_program: %s\n", gradus_worker_error(NULL));
        return 1;
    }
    struct gradus_work k;
    int rc = gradus_worker_next(r.worker, &k);
    while (rc == GRADUS_OK && k.kind != GRADUS_WORK_STOP) {
        if (k.kind == GRADUS_WORK_JOB) {
            describe(&r);
        } else if (k.kind != GRADUS_WORK_JOB_END) {
            batch(&r, &k);
        }
        rc = gradus_worker_next(r.worker, &k);
    }
    gradus_worker_close(r.worker);
    return rc == GRADUS_OK || rc == GRADUS_ERROR_LOST ? 0 : 1;
}
