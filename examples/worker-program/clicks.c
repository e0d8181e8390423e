/* SPDX-License-Identifier: Apache-2.0 */
/* A worker program with sparse tables: who clicks on what, by factors of users and of items, which
 * have a row each in a table of the parameter servers. A batch gets the rows of its own users and
 * items alone, so there may be any number of them.
 *
 *   make && gradus run clicks.yaml --worker ./clicks
 *
 * The records are made out of their numbers, as those of logistic.c, which is the simpler one to
 * begin with. docs/worker-programs.md tells more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <gradus/worker.h>

#define FACTORS 8
#define DIM (FACTORS + 1) /* of a row: factors, and how much its user or item clicks as such */
#define TRAIN_RECORDS 40000
#define TEST_RECORDS 4000
#define USER_COUNT 1000
#define ITEM_COUNT 300

/* ---- records ---- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

struct record {
    uint64_t user, item; /* keys: any numbers of 64 bits */
    int clicked;
};

/* Three tastes of a user, for or against what an item is: most of them decide. */
static struct record make_record(uint64_t number)
{
    const uint64_t bits = mixed(number * UINT64_C(0x9e3779b97f4a7c15) + 1);
    const uint64_t user = mixed(bits % USER_COUNT + 1);
    const uint64_t item = mixed((bits >> 32) % ITEM_COUNT + 1 + USER_COUNT);
    const uint64_t agree = ~(user ^ item);
    return (struct record){user, item, (agree & 1) + (agree >> 1 & 1) + (agree >> 2 & 1) > 1};
}

/* Test records are others than train records. */
static struct record record_of(const struct gradus_work *work, size_t i)
{
    const int test = work->kind == GRADUS_WORK_EVALUATION || work->of == GRADUS_WORK_EVALUATION;
    return make_record(work->records[i] + (test ? TRAIN_RECORDS : 0));
}

/* ---- the model: two tables, as the job declares them, and a bias ---- */

enum { USERS, ITEMS, TABLES };

static int describe(struct gradus_worker *worker)
{
    static const float zero;
    const struct gradus_variable bias = {.name = "bias", .initial = &zero};
    const struct gradus_table tables[TABLES] = {[USERS] = {"users", DIM}, [ITEMS] = {"items", DIM}};
    const struct gradus_description description = {.size = sizeof description,
                                                   .variables = &bias,
                                                   .variable_count = 1,
                                                   .train_records = TRAIN_RECORDS,
                                                   .test_records = TEST_RECORDS,
                                                   .tables = tables,
                                                   .table_count = TABLES};
    return gradus_worker_describe(worker, &description);
}

/* Whose rows the batch will need. A key that comes twice is said twice. */
static int say_keys(struct gradus_worker *worker, const struct gradus_work *work)
{
    uint64_t *keys = malloc(TABLES * work->count * sizeof *keys);
    if (keys == NULL) {
        return gradus_worker_fail(worker, "no memory for keys");
    }
    for (size_t i = 0; i < work->count; i++) {
        const struct record r = record_of(work, i);
        keys[i] = r.user;
        keys[work->count + i] = r.item;
    }
    const struct gradus_keys said[TABLES] = {
        [USERS] = {keys, work->count}, [ITEMS] = {keys + work->count, work->count}};
    const int rc = gradus_worker_keys(worker, said, TABLES);
    free(keys);
    return rc;
}

/* Record @i said the i-th key of each table, so index[i] is its row. */
static int compute(struct gradus_worker *worker, const struct gradus_work *work)
{
    const struct gradus_rows *users = &work->rows[USERS], *items = &work->rows[ITEMS];
    struct gradus_result result = {.size = sizeof result, .examples = work->count};
    float by_bias = 0;
    for (size_t i = 0; i < work->count; i++) {
        const size_t user_at = (size_t)users->index[i] * DIM,
                     item_at = (size_t)items->index[i] * DIM;
        const float *user = users->values + user_at, *item = items->values + item_at;
        float logit = work->parameters[0][0] + user[FACTORS] + item[FACTORS];
        for (int k = 0; k < FACTORS; k++) {
            logit += user[k] * item[k];
        }
        const int clicked = record_of(work, i).clicked;
        const float signed_logit = clicked ? logit : -logit;
        result.loss_sum += fmax(0, -signed_logit) + log1p(exp(-fabs(signed_logit)));
        result.correct += signed_logit > 0;
        if (work->gradients == NULL) {
            continue;
        }
        const float error = 1 / (1 + expf(-logit)) - (float)clicked; /* d loss / d logit */
        by_bias += error;
        float *by_user = users->gradients + user_at, *by_item = items->gradients + item_at;
        for (int k = 0; k < FACTORS; k++) { /* zeros at first, to which every record adds */
            by_user[k] += error * item[k];
            by_item[k] += error * user[k];
        }
        by_user[FACTORS] += error;
        by_item[FACTORS] += error;
    }
    if (work->gradients != NULL) {
        work->gradients[0][0] = by_bias;
    }
    return gradus_worker_done(worker, &result);
}

int main(void)
{
    struct gradus_worker *worker;
    struct gradus_work work;
    if (gradus_worker_open("clicks", &worker) != GRADUS_OK) {
        (void)fprintf(stderr, "clicks: %s\n", gradus_worker_error(NULL));
        return EXIT_FAILURE;
    }
    int rc = gradus_worker_next(worker, &work);
    while (rc == GRADUS_OK && work.kind != GRADUS_WORK_STOP) {
        if (work.kind == GRADUS_WORK_JOB) {
            rc = describe(worker);
        } else if (work.kind == GRADUS_WORK_KEYS) {
            rc = say_keys(worker, &work);
        } else if (work.kind != GRADUS_WORK_JOB_END) {
            rc = compute(worker, &work);
        }
        rc = rc == GRADUS_OK ? gradus_worker_next(worker, &work) : rc;
    }
    if (rc != GRADUS_OK) {
        (void)fprintf(stderr, "clicks: %s\n", gradus_worker_error(worker));
    }
    gradus_worker_close(worker);
    return rc == GRADUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
