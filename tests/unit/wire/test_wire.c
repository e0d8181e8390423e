/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

/* ---- ids ---- */

static void test_ids(void **state)
{
    (void)state;
    struct err err;
    char longest[WIRE_ID_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[WIRE_ID_BYTES_MAX] = 0;
    assert_int_equal(wire_id_check("worker-1", "node", &err), 0);
    assert_int_equal(wire_id_check("Fashion.MNIST_2-x", "job", &err), 0);
    assert_int_equal(wire_id_check(longest, "job", &err), 0);
    longest[WIRE_ID_BYTES_MAX] = 'a';
    longest[WIRE_ID_BYTES_MAX + 1] = 0;
    const char *bad[] = {NULL, "", ".", "..", "-x", "a/b", "a b", "a\n", "\xff", longest};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(wire_id_check(bad[i], "job", &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "job"));
    }
}

/* ---- plan ---- */

static void make_plan(struct plan *plan)
{
    struct variable_spec variables[2] = {
        {"dense_1.kernel", {2, {5, 3}}, {INIT_GLOROT_UNIFORM, 0.5, 0.25, 5, 3}, 0, 0},
        {"dense_1.bias", {1, {3}}, {INIT_ZEROS, 0, 0, 0, 0}, 0.125, 0},
    };
    struct cluster_spec cluster = {
        .workers = {1, 1}, .ps = 2, .partitioner = PARTITIONER_FIXED, .partitions = 2};
    *plan = (struct plan){0};
    struct err err;
    assert_int_equal(plan_make(variables, 2, &cluster, plan, &err), 0);
}

/* The message as a peer would receive it. */
static Gradus__V1__Plan *sent_plan(const struct plan *plan)
{
    Gradus__V1__Plan out;
    wire_plan_to_proto(plan, &out);
    size_t n = gradus__v1__plan__get_packed_size(&out);
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    gradus__v1__plan__pack(&out, bytes);
    Gradus__V1__Plan *received = gradus__v1__plan__unpack(NULL, n, bytes);
    assert_non_null(received);
    free(bytes);
    wire_plan_release(&out);
    return received;
}

static void test_plan_round_trip(void **state)
{
    (void)state;
    struct plan plan;
    struct plan back;
    struct err err;
    make_plan(&plan);
    plan.variables[0].init.kind = INIT_GIVEN;
    plan.variables[0].digest = UINT64_MAX - 3;
    Gradus__V1__Plan *received = sent_plan(&plan);
    assert_int_equal(wire_plan_from_proto(received, &back, &err), 0);
    gradus__v1__plan__free_unpacked(received, NULL);
    assert_int_equal(back.variable_count, plan.variable_count);
    assert_int_equal(back.partition_count, plan.partition_count);
    assert_int_equal(back.shard_count, plan.shard_count);
    for (size_t i = 0; i < plan.variable_count; i++) {
        assert_string_equal(back.variables[i].name, plan.variables[i].name);
        assert_true(shape_equal(&back.variables[i].shape, &plan.variables[i].shape));
        assert_int_equal(back.variables[i].init.kind, plan.variables[i].init.kind);
        assert_true(back.variables[i].statistic == plan.variables[i].statistic);
        assert_true(back.variables[i].digest == plan.variables[i].digest);
        assert_true(back.variables[i].init.a == plan.variables[i].init.a);
        assert_int_equal(back.variables[i].init.fan_out, plan.variables[i].init.fan_out);
    }
    for (size_t i = 0; i < plan.partition_count; i++) {
        assert_memory_equal(&back.partitions[i], &plan.partitions[i], sizeof plan.partitions[i]);
    }
    for (uint32_t s = 0; s < plan.shard_count; s++) {
        assert_int_equal(back.shard_elements[s], plan.shard_elements[s]);
    }
    plan_release(&plan);
    plan_release(&back);
}

static void refuse_plan(void (*spoil)(Gradus__V1__Plan *), int code, const char *says)
{
    struct plan plan;
    struct plan out;
    memset(&out, 0x5a, sizeof out);
    struct plan before = out;
    struct err err;
    make_plan(&plan);
    Gradus__V1__Plan *received = sent_plan(&plan);
    spoil(received);
    assert_int_equal(wire_plan_from_proto(received, &out, &err), code);
    assert_non_null(strstr(err.msg, says));
    assert_memory_equal(&out, &before, sizeof out);
    gradus__v1__plan__free_unpacked(received, NULL);
    plan_release(&plan);
}

static void spoil_rows(Gradus__V1__Plan *p)
{
    p->partitions[0]->row_count--;
}
static void spoil_overflow(Gradus__V1__Plan *p)
{
    p->partitions[0]->row_first = UINT64_MAX;
    p->partitions[0]->row_count = UINT64_MAX / 2;
}
static void spoil_variable(Gradus__V1__Plan *p)
{
    p->partitions[0]->variable = 99;
}
static void spoil_dims(Gradus__V1__Plan *p)
{
    p->variables[0]->dims[0] = UINT64_MAX;
}
static void spoil_kind(Gradus__V1__Plan *p)
{
    p->variables[1]->init_kind = 1000;
}
static void spoil_statistic(Gradus__V1__Plan *p)
{
    p->variables[1]->statistic = 1.5;
}
static void spoil_order(Gradus__V1__Plan *p)
{
    p->partitions[0]->shard = p->shard_count; /* it goes down from there */
}
static void spoil_shards(Gradus__V1__Plan *p)
{
    p->shard_count = UINT32_MAX;
}
static void spoil_empty(Gradus__V1__Plan *p)
{
    for (size_t i = 0; i < p->n_variables; i++) {
        gradus__v1__variable__free_unpacked(p->variables[i], NULL);
    }
    p->n_variables = 0;
}
static void spoil_double_name(Gradus__V1__Plan *p)
{
    char *name = strdup(p->variables[0]->name);
    free(p->variables[1]->name);
    p->variables[1]->name = name;
}
static void spoil_long_name(Gradus__V1__Plan *p)
{
    free(p->variables[1]->name);
    p->variables[1]->name = malloc(300);
    assert_non_null(p->variables[1]->name);
    memset(p->variables[1]->name, 'n', 299);
    p->variables[1]->name[299] = 0;
}

static void test_plan_refused(void **state)
{
    (void)state;
    refuse_plan(spoil_rows, ERR_INVALID, "dense_1");
    refuse_plan(spoil_overflow, ERR_INVALID, "rows");
    refuse_plan(spoil_variable, ERR_INVALID, "variable number 99");
    refuse_plan(spoil_dims, ERR_INVALID, "dense_1.kernel");
    refuse_plan(spoil_kind, ERR_INVALID, "unknown initialiser 1000");
    refuse_plan(spoil_statistic, ERR_INVALID, "a statistic that goes 1.5 of the way");
    refuse_plan(spoil_order, ERR_INVALID, "shard");
    refuse_plan(spoil_shards, ERR_INVALID, "shards");
    refuse_plan(spoil_empty, ERR_INVALID, "0 variables");
    refuse_plan(spoil_double_name, ERR_INVALID, "twice");
    refuse_plan(spoil_long_name, ERR_INVALID, "bytes");
    struct err err;
    struct plan out;
    assert_int_equal(wire_plan_from_proto(NULL, &out, &err), ERR_INVALID);
}

/* ---- ledger ---- */

static void test_ledger_round_trip(void **state)
{
    (void)state;
    struct ledger_shape shape = {.records = 103, .batch_records = 10, .split_batches = 4};
    struct ledger ledger;
    struct ledger back;
    struct err err;
    assert_int_equal(ledger_init(&ledger, &shape, 7, &err), 0);
    ledger.done[0] = 4;
    ledger.done[2] = 2;
    Gradus__V1__Ledger message;
    wire_ledger_to_proto(&ledger, &message);
    assert_int_equal(wire_ledger_from_proto(&message, &back, &err), 0);
    assert_int_equal(back.epoch, 7);
    assert_int_equal(back.split_count, 3);
    assert_memory_equal(back.done, ledger.done, 3 * sizeof *ledger.done);
    assert_ptr_not_equal(back.done, ledger.done);
    ledger_release(&back);

    message.n_done = 2;
    assert_int_equal(wire_ledger_from_proto(&message, &back, &err), ERR_INVALID);
    message.n_done = 3;
    ledger.done[2] = 4; /* the last split has 3 batches */
    assert_int_equal(wire_ledger_from_proto(&message, &back, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "split 2"));
    ledger.done[2] = 0;
    message.records = 0;
    assert_int_equal(wire_ledger_from_proto(&message, &back, &err), ERR_INVALID);
    message.records = UINT64_MAX;
    assert_int_equal(wire_ledger_from_proto(&message, &back, &err), ERR_INVALID);
    assert_int_equal(wire_ledger_from_proto(NULL, &back, &err), ERR_INVALID);
    ledger_release(&ledger);
}

/* ---- consistency ---- */

static void test_consistency(void **state)
{
    (void)state;
    struct consistency c = {
        .mode = TRAINING_BOUNDED,
        .replicas = 8,
        .aggregate = 6,
        .speculate = 2.5,
        .staleness = 4,
        .policy = POLICY_DELAY_COMPENSATION,
        .max_staleness = 16,
        .lambda = 0.04,
        .push_every = 3,
        .pull_every = 2,
        .overlap = false,
    };
    struct consistency back;
    struct err err;
    Gradus__V1__Consistency message;
    wire_consistency_to_proto(&c, &message);
    assert_int_equal(wire_consistency_from_proto(&message, &back, &err), 0);
    assert_true(consistency_equal(&c, &back));
    c.push_every = c.pull_every = 1;
    c.overlap = true;
    wire_consistency_to_proto(&c, &message);
    assert_int_equal(wire_consistency_from_proto(&message, &back, &err), 0);
    assert_true(consistency_equal(&c, &back));

    struct consistency before = back;
    assert_int_equal(wire_consistency_from_proto(NULL, &back, &err), ERR_INVALID);
    assert_string_equal(err.msg, "consistency: missing");
    message.aggregate = 9;
    assert_int_equal(wire_consistency_from_proto(&message, &back, &err), ERR_INVALID);
    assert_string_equal(err.msg, "consistency: 9 of 8 replicas to aggregate; allowed: 1 to all");
    message.aggregate = 8;
    message.policy = (Gradus__V1__StalenessPolicy)4;
    assert_int_equal(wire_consistency_from_proto(&message, &back, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "consistency: staleness policy 4 is not one of"));
    message.policy = GRADUS__V1__STALENESS_POLICY__STALENESS_NONE;
    message.mode = (Gradus__V1__Mode)3;
    assert_int_equal(wire_consistency_from_proto(&message, &back, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "consistency: mode 3 is not one of"));
    gradus__v1__consistency__init(&message); /* a peer that sets nothing */
    assert_int_equal(wire_consistency_from_proto(&message, &back, &err), ERR_INVALID);
    assert_true(consistency_equal(&before, &back));
}

/* ---- data ---- */

static void test_data(void **state)
{
    (void)state;
    struct dataset_info train = {.records = 60000,
                                 .features = {2, {28, 28}},
                                 .label_is_class = true,
                                 .classes = 10,
                                 .label_scale = 1,
                                 .fingerprint = 0x1234};
    struct dataset_info test = train;
    test.records = 10000;
    test.fingerprint = 0x5678;
    Gradus__V1__DataInfo a;
    Gradus__V1__DataInfo b;
    struct err err;
    wire_data_to_proto(&train, &test, &a);
    struct dataset_info train_back;
    struct dataset_info test_back;
    assert_int_equal(wire_data_from_proto(&a, &train_back, &test_back, &err), 0);
    assert_int_equal(train_back.records, 60000);
    assert_true(shape_equal(&train_back.features, &train.features));
    assert_int_equal(test_back.records, 10000);
    assert_int_equal(test_back.fingerprint, 0x5678);
    assert_int_equal(test_back.classes, 10);

    wire_data_to_proto(&train, &test, &b);
    assert_int_equal(wire_data_compare(&a, &b, &err), 0);
    b.train_records = 59999;
    assert_int_equal(wire_data_compare(&a, &b, &err), ERR_STATE);
    assert_string_equal(err.msg, "train records: the job has 60000, this node found 59999");
    wire_data_to_proto(&train, NULL, &b);
    assert_int_equal(wire_data_compare(&a, &b, &err), ERR_STATE);
    wire_data_to_proto(&train, &test, &b);
    b.test_fingerprint++;
    assert_int_equal(wire_data_compare(&a, &b, &err), ERR_STATE);
    b.test_fingerprint--;
    b.label_scale = 2;
    assert_int_equal(wire_data_compare(&a, &b, &err), ERR_STATE);

    static const char *const some[] = {"C1", "C2"}, *const others[] = {"C1", "C3"};
    train.fields = (struct sparse_names){some, 2};
    train.features = (struct shape){1, {0}}; /* there are lists alone */
    wire_data_to_proto(&train, &test, &a);
    assert_int_equal(wire_data_from_proto(&a, &train_back, &test_back, &err), 0);
    assert_int_equal(train_back.fields.count, 2);
    assert_string_equal(train_back.fields.names[1], "C2");
    train.fields.names = others;
    wire_data_to_proto(&train, &test, &b);
    assert_int_equal(wire_data_compare(&a, &b, &err), ERR_STATE);
    assert_string_equal(err.msg, "sparse field 1: the job has 'C2', this node found 'C3'");
    train.fields.count = 1;
    wire_data_to_proto(&train, &test, &b);
    assert_int_equal(wire_data_compare(&a, &b, &err), ERR_STATE);
    train.fields.count = 0;
    train.features = (struct shape){2, {28, 28}};
    wire_data_to_proto(&train, &test, &a);

    a.train_records = 0;
    assert_int_equal(wire_data_from_proto(&a, &train_back, &test_back, &err), ERR_INVALID);
    a.train_records = 1;
    a.label_offset = (double)INFINITY;
    assert_int_equal(wire_data_from_proto(&a, &train_back, &test_back, &err), ERR_INVALID);
    a.label_offset = 0;
    a.n_feature_dims = 5;
    assert_int_equal(wire_data_from_proto(&a, &train_back, &test_back, &err), ERR_INVALID);
    a.n_feature_dims = 2;
    uint64_t dims[2] = {UINT64_MAX, 2};
    a.feature_dims = dims;
    assert_int_equal(wire_data_from_proto(&a, &train_back, &test_back, &err), ERR_INVALID);
    assert_int_equal(wire_data_from_proto(NULL, &train_back, &test_back, &err), ERR_INVALID);
}

static void test_metrics(void **state)
{
    (void)state;
    unsigned kinds = 1U << METRIC_LOSS | 1U << METRIC_ACCURACY | 1U << METRIC_AUC;
    struct metrics m;
    struct metrics back;
    struct err err;
    metrics_init(&m, kinds);
    metrics_init(&back, kinds);
    m.examples = 12;
    m.loss_sum = 3.5;
    m.correct = 7;
    tally_reserve(&m.scores, 8);
    m.scores.cells[5] = 4.25;
    Gradus__V1__MetricSums message;
    wire_metrics_to_proto(&m, &message);
    assert_int_equal(wire_metrics_from_proto(&message, &back, &err), 0);
    assert_int_equal(back.examples, 12);
    assert_true(back.loss_sum == 3.5);
    assert_true(back.scores.cells[5] == 4.25);
    message.n_values--;
    assert_int_equal(wire_metrics_from_proto(&message, &back, &err), ERR_INVALID);
    assert_int_equal(wire_metrics_from_proto(NULL, &back, &err), ERR_INVALID);
    wire_metrics_release(&message);
    metrics_release(&m);
    metrics_release(&back);
}

/* ---- words ---- */

static void test_words(void **state)
{
    (void)state;
    struct err err;
    assert_string_equal(wire_state_name(GRADUS__V1__JOB_STATE__RUNNING), "RUNNING");
    assert_string_equal(wire_state_name((Gradus__V1__JobState)99), "UNKNOWN");
    assert_string_equal(wire_role_name(GRADUS__V1__NODE_ROLE__WORKER), "WORKER");
    for (int m = TRAINING_SYNC; m <= TRAINING_BOUNDED; m++) {
        enum training_mode back;
        Gradus__V1__Mode mode = wire_mode_to_proto((enum training_mode)m);
        assert_int_equal(wire_mode_from_proto(mode, &back, &err), 0);
        assert_int_equal(back, m);
    }
    enum training_mode mode;
    assert_int_equal(wire_mode_from_proto((Gradus__V1__Mode)17, &mode, &err), ERR_INVALID);
    for (int p = POLICY_NONE; p <= POLICY_DELAY_COMPENSATION; p++) {
        enum staleness_policy back;
        Gradus__V1__StalenessPolicy policy = wire_policy_to_proto((enum staleness_policy)p);
        assert_int_equal(wire_policy_from_proto(policy, &back, &err), 0);
        assert_int_equal(back, p);
    }
}

static void test_step_times(void **state)
{
    (void)state;
    const struct step_times t = {.steps = 3, .ns = {1000, 2000, 3000, 4000, 5999}};
    Gradus__V1__StepTimes m;
    struct step_times back;
    wire_step_times_to_proto(&t, &m);
    wire_step_times_from_proto(&m, &back);
    assert_int_equal(back.steps, 3);
    for (uint64_t part = 0; part < STEP_PART_COUNT; part++) {
        assert_int_equal(back.ns[part], (part + 1) * 1000);
    }
    m.load_us = UINT64_MAX;
    m.wait_us = UINT64_MAX;
    wire_step_times_from_proto(&m, &back);
    assert_true(step_times_ns(&back) > back.ns[STEP_LOAD]); /* no overflow */
    wire_step_times_from_proto(NULL, &back);
    assert_int_equal(back.steps, 0);
    assert_int_equal(step_times_ns(&back), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),          cmocka_unit_test(test_plan_round_trip),
        cmocka_unit_test(test_plan_refused), cmocka_unit_test(test_ledger_round_trip),
        cmocka_unit_test(test_consistency),  cmocka_unit_test(test_data),
        cmocka_unit_test(test_metrics),      cmocka_unit_test(test_words),
        cmocka_unit_test(test_step_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
