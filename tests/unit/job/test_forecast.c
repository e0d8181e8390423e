/* SPDX-License-Identifier: Apache-2.0 */
/* What a step is predicted to take: figures that are worked out by hand, what must hold for any
 * job, and steps that were measured (docs/scaling.md). */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "job/plan/forecast.h"

#define MB 1e6
#define GBIT 1e9
#define NEAR 1e-9

/* @mb of parameters in equal parts, no variable larger than a tenth of them. */
static struct forecast_job job_of(enum training_mode mode, uint64_t workers, uint64_t servers,
                                  double mb)
{
    return (struct forecast_job){
        .consistency = {.mode = mode,
                        .replicas = (uint32_t)workers,
                        .aggregate = (uint32_t)workers,
                        .push_every = 1,
                        .pull_every = 1},
        .workers = workers,
        .servers = servers,
        .batch_size = 64,
        .push_bytes = mb * MB,
        .pull_bytes = mb * MB,
        .value_bytes = mb * MB,
        .fullest = 1.0 / (double)servers,
        .largest = 0.1,
        .batch_s = 0.01,
        .worker_link = GBIT,
        .server_link = GBIT,
    };
}

static struct forecast predict(const struct forecast_job *job)
{
    struct forecast f;
    double sum = 0;
    forecast_predict(job, &f);
    for (int p = 0; p < FORECAST_PART_COUNT; p++) {
        assert_true(f.part_s[p] >= 0);
        sum += f.part_s[p];
    }
    assert_true(fabs(sum - f.step_s) < NEAR);
    assert_true(f.held_up >= 1 - NEAR);
    assert_true(f.server_link_busy >= 0 && f.server_link_busy <= 1 + NEAR);
    assert_true(f.worker_link_busy >= 0 && f.worker_link_busy <= 1 + NEAR);
    return f;
}

static void near(double got, double want)
{
    if (fabs(got - want) > NEAR + 1e-6 * fabs(want)) {
        fail_msg("%.9g, not %.9g", got, want);
    }
}

/* 1 MB over 1 Gbit/s, of which 0.97 is payload: 8.247 ms each way. */
static void one_worker(void **state)
{
    (void)state;
    const struct forecast_costs *c = &forecast_costs;
    struct forecast_job job = job_of(TRAINING_SYNC, 1, 1, 1);
    const double way = 8e6 / (0.97 * GBIT), rest = c->exchange_s + 2e-3;
    job.largest = 1; /* nothing is hidden */
    job.round_trip_s = 2e-3;
    struct forecast f = predict(&job);
    near(f.part_s[FORECAST_COMPUTE], 0.01);
    near(f.part_s[FORECAST_WORKER_LINK], 2 * way);
    near(f.part_s[FORECAST_SERVER_LINK], 0);
    near(f.part_s[FORECAST_SERVER_CPU], MB * c->value_byte_s);
    near(f.part_s[FORECAST_LATENCY], rest);
    near(f.examples_per_second, 64 / f.step_s);
    assert_int_equal(f.limit, FORECAST_WORKER_LINK);
    near(f.worker_link_busy, way / f.step_s);
    job.consistency.mode = TRAINING_ASYNC; /* alone, both modes are the same */
    near(predict(&job).step_s, f.step_s);
    job.largest = 0; /* two thirds of computing hide the way there, a third that back */
    near(predict(&job).step_s, f.step_s - 0.01 * 2 / 3 - 0.01 / 3);
    job.batch_s = 1; /* no more is hidden than the ways */
    near(predict(&job).part_s[FORECAST_WORKER_LINK], 0);
    assert_int_equal(predict(&job).limit, FORECAST_COMPUTE);
}

static void slots_and_replicas(void **state)
{
    (void)state;
    struct forecast_job job = job_of(TRAINING_SYNC, 1, 1, 1);
    const double before = predict(&job).step_s;
    job.slots = 2;
    near(predict(&job).step_s, before + 2 * MB * forecast_costs.slot_byte_s);
    job.consistency.replicas = 3; /* of one worker: computed one after the other */
    near(predict(&job).part_s[FORECAST_COMPUTE], 0.03);
    near(predict(&job).examples_per_second, 3 * 64 / predict(&job).step_s);
    job.workers = 2; /* one of them has two */
    near(predict(&job).part_s[FORECAST_COMPUTE], 0.02);
    job.workers = 8; /* of which five have none */
    struct forecast_job three = job;
    three.workers = 3;
    near(predict(&job).step_s, predict(&three).step_s);
}

/* Four workers at one server: its link has four times as much to carry as each of theirs. */
static void one_server(void **state)
{
    (void)state;
    struct forecast_job job = job_of(TRAINING_SYNC, 4, 1, 1);
    const double way = 8e6 / (0.97 * GBIT);
    job.largest = 1;
    struct forecast f = predict(&job);
    near(f.part_s[FORECAST_SERVER_LINK], 8 * way - forecast_costs.early * 3 * way);
    assert_int_equal(f.limit, FORECAST_SERVER_LINK);
    assert_true(f.held_up > 2);
    job.consistency.mode = TRAINING_ASYNC;
    f = predict(&job);
    assert_true(f.step_s >= 4 * way); /* a batch of each: none sooner than the link carries them */
    assert_true(f.step_s < 4.4 * way);
    assert_int_equal(f.limit, FORECAST_SERVER_LINK);
    job.server_link = 100 * GBIT;
    assert_int_equal(predict(&job).limit, FORECAST_WORKER_LINK);
    assert_true(predict(&job).held_up < FORECAST_HELD_UP);
}

static void fewer_messages(void **state)
{
    (void)state;
    struct forecast_job job = job_of(TRAINING_ASYNC, 1, 1, 1);
    job.largest = 1;
    const double way = 8e6 / (0.97 * GBIT);
    job.consistency.push_every = 4;
    near(predict(&job).part_s[FORECAST_WORKER_LINK], 2 * way / 4);
    job.consistency.pull_every = 2;
    near(predict(&job).part_s[FORECAST_WORKER_LINK], way / 4 + way / 8);
    job.consistency.overlap = true;
    near(predict(&job).part_s[FORECAST_WORKER_LINK], 0);
    job.push_bytes /= 2; /* 16 bits */
    job.consistency = job_of(TRAINING_ASYNC, 1, 1, 1).consistency;
    near(predict(&job).part_s[FORECAST_WORKER_LINK], 1.5 * way);
}

/* Whatever the job: more or quicker machines never make a step longer. */
static void more_is_not_worse(void **state)
{
    (void)state;
    static const uint64_t COUNTS[] = {1, 2, 3, 8, 100, 1000};
    for (int mode = TRAINING_SYNC; mode <= TRAINING_ASYNC; mode++) {
        for (size_t w = 0; w < 6; w++) {
            double before = INFINITY;
            for (size_t s = 0; s < 6; s++) {
                struct forecast_job job = job_of((enum training_mode)mode, COUNTS[w], COUNTS[s], 5);
                const struct forecast f = predict(&job);
                /* crossing begins with the second server, and costs less than a fifth */
                assert_true(f.step_s <= before * (s == 1 ? 1.2 : 1 + NEAR));
                before = f.step_s;
                job.server_link *= 2;
                assert_true(predict(&job).step_s <= f.step_s + NEAR);
                job.worker_link *= 2;
                assert_true(predict(&job).step_s <= f.step_s + NEAR);
                job.processors = 2;
                assert_true(predict(&job).examples_per_second <= f.examples_per_second * 4);
            }
        }
    }
}

static void enough_servers(void **state)
{
    (void)state;
    for (int mode = TRAINING_SYNC; mode <= TRAINING_ASYNC; mode++) {
        struct forecast_job job = job_of((enum training_mode)mode, 100, 2, 5);
        const uint64_t n = forecast_servers(&job);
        assert_true(predict(&job).held_up > FORECAST_HELD_UP);
        assert_in_range(n, 3, 400);
        job.servers = n;
        job.fullest = 1 / (double)n;
        assert_true(predict(&job).held_up <= FORECAST_HELD_UP);
        job.servers = n - 1;
        job.fullest = 1 / (double)(n - 1);
        assert_true(predict(&job).held_up > FORECAST_HELD_UP);
    }
    struct forecast_job none = job_of(TRAINING_ASYNC, 100, 2, 5);
    none.server_link = 1e3;
    assert_int_equal(forecast_servers(&none), 0);
}

/* On a machine whose two processors all share, four computations take twice as long. */
static void shared_processors(void **state)
{
    (void)state;
    struct forecast_job job = job_of(TRAINING_SYNC, 4, 2, 1);
    job.processors = 2;
    near(predict(&job).part_s[FORECAST_COMPUTE], 0.02);
    job.worker_link = job.server_link = 0; /* then messages cost processor time alone */
    const double both = forecast_costs.worker_byte_s + forecast_costs.server_byte_s;
    job.batch_s = 1e-9;
    assert_true(predict(&job).step_s > (2 - forecast_costs.early) * 4 * MB * both / 2);
    assert_int_equal(predict(&job).limit, FORECAST_SERVER_CPU);
}

static void from_a_plan(void **state)
{
    (void)state;
    struct variable_spec variables[] = {
        {.name = "a", .shape = {2, {30, 10}}, .init = {.kind = INIT_ZEROS}},
        {.name = "b", .shape = {1, {100}}, .init = {.kind = INIT_ZEROS}},
    };
    static const char TEXT[] =
        "name: j\ndata: {train: {file: a.csv}}\nmodel:\n  layers:\n"
        "    - dense: {units: 8}\n  loss: mean_squared_error\n"
        "update: {rule: adam}\n"
        "training: {batch_size: 10, epochs: 1, wire: {gradients: fp16}}\n"
        "cluster: {workers: 2..5, ps: 2, partitioner: fixed, partitions: 1}\n";
    struct diags diags = {0};
    struct job_spec spec = {0};
    struct plan plan = {0};
    struct forecast_job job;
    struct err err;
    assert_int_equal(job_spec_parse(TEXT, sizeof TEXT - 1, "j", NULL, 0, &spec, &diags), 0);
    assert_int_equal(plan_make(variables, 2, &spec.cluster, &plan, &err), 0);
    forecast_job_of(&plan, &spec, &job);
    assert_int_equal(job.workers, 5);
    assert_int_equal(job.servers, 2);
    assert_int_equal(job.batch_size, 10);
    assert_int_equal(job.consistency.replicas, 5);
    near(job.push_bytes, 800);
    near(job.pull_bytes, 1600);
    near(job.value_bytes, 1600);
    near(job.fullest, 0.75);
    near(job.largest, 0.75);
    near(job.slots, 2);
    plan_release(&plan);
    job_spec_release(&spec);
    diags_release(&diags);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker),        cmocka_unit_test(slots_and_replicas),
        cmocka_unit_test(one_server),        cmocka_unit_test(fewer_messages),
        cmocka_unit_test(more_is_not_worse), cmocka_unit_test(enough_servers),
        cmocka_unit_test(shared_processors), cmocka_unit_test(from_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
