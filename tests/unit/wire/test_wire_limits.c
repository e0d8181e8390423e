/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer may just say and what is one too many, each with its words; and that every field of a
 * description that differs between two nodes is named. */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/wire.h"
#include "wire/wire_exchange.h"
#include "wire/wire_values.h"

/* ---- ids ---- */

static void test_ids(void **state)
{
    (void)state;
    char longest[WIRE_ID_BYTES_MAX + 2];
    struct err err;
    char says[256];
    memset(longest, 'a', sizeof longest);
    longest[WIRE_ID_BYTES_MAX] = '\0';
    assert_int_equal(wire_id_check(longest, "job", &err), 0);
    longest[WIRE_ID_BYTES_MAX] = 'a';
    longest[WIRE_ID_BYTES_MAX + 1] = '\0';
    assert_int_equal(wire_id_check(longest, "job", &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, " has more than 128 bytes"));
    assert_int_equal(wire_id_check("", "job", &err), ERR_INVALID);
    assert_string_equal(err.msg, "job is empty");
    assert_int_equal(wire_id_check(NULL, "node", &err), ERR_INVALID);
    assert_string_equal(err.msg, "node is empty");
    for (int c = 1; c < 256; c++) {
        const bool good =
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", c) != NULL;
        const char inside[] = {'x', (char)c, 'x', '\0'}, first[] = {(char)c, 'x', '\0'};
        assert_int_equal(wire_id_check(inside, "job", &err), good ? 0 : ERR_INVALID);
        if (!good) {
            assert_non_null(strstr(err.msg, ": byte 2 is not a letter, a digit, '.', '_' or '-'"));
        }
        const bool begins = good && c != '.' && c != '-';
        assert_int_equal(wire_id_check(first, "job", &err), begins ? 0 : ERR_INVALID);
        if (good && !begins) {
            (void)snprintf(says, sizeof says, "job %s begins with '%c'", first, c);
            assert_string_equal(err.msg, says);
        }
    }
}

/* ---- words ---- */

static void test_words(void **state)
{
    (void)state;
    struct err err;
    enum training_mode mode = TRAINING_ASYNC;
    enum staleness_policy policy = POLICY_SCALE_LR;
    enum value_type type = VALUE_BF16;
    assert_string_equal(wire_role_name(GRADUS__V1__NODE_ROLE__PS), "PS");
    assert_string_equal(wire_role_name((Gradus__V1__NodeRole)77), "UNKNOWN");
    assert_int_equal(wire_mode_to_proto(TRAINING_SYNC), GRADUS__V1__MODE__SYNC);
    assert_int_equal(wire_mode_to_proto(TRAINING_ASYNC), GRADUS__V1__MODE__ASYNC);
    assert_int_equal(wire_mode_to_proto(TRAINING_BOUNDED), GRADUS__V1__MODE__BOUNDED);
    assert_int_equal(wire_policy_to_proto(POLICY_NONE),
                     GRADUS__V1__STALENESS_POLICY__STALENESS_NONE);
    assert_int_equal(wire_policy_to_proto(POLICY_MAX_STALENESS),
                     GRADUS__V1__STALENESS_POLICY__MAX_STALENESS);
    assert_int_equal(wire_policy_to_proto(POLICY_SCALE_LR), GRADUS__V1__STALENESS_POLICY__SCALE_LR);
    assert_int_equal(wire_policy_to_proto(POLICY_DELAY_COMPENSATION),
                     GRADUS__V1__STALENESS_POLICY__DELAY_COMPENSATION);
    assert_int_equal(wire_mode_from_proto((Gradus__V1__Mode)-1, &mode, &err), ERR_INVALID);
    assert_string_equal(err.msg, "mode -1 is not one of SYNC (0), ASYNC (1), BOUNDED (2)");
    assert_int_equal(mode, TRAINING_ASYNC);
    assert_int_equal(wire_policy_from_proto((Gradus__V1__StalenessPolicy)4, &policy, &err),
                     ERR_INVALID);
    assert_string_equal(err.msg,
                        "staleness policy 4 is not one of STALENESS_NONE (0), MAX_STALENESS (1), "
                        "SCALE_LR (2), DELAY_COMPENSATION (3)");
    assert_int_equal(policy, POLICY_SCALE_LR);
    for (int i = 0; i < VALUE_TYPES; i++) {
        assert_int_equal(wire_type_from_proto((Gradus__V1__WireType)i, &type, &err), 0);
        assert_int_equal(type, i);
    }
    static const int unknown[] = {-1, VALUE_TYPES, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        char says[64];
        assert_int_equal(wire_type_from_proto((Gradus__V1__WireType)unknown[i], &type, &err),
                         ERR_INVALID);
        (void)snprintf(says, sizeof says, "values of the unknown type %d", unknown[i]);
        assert_string_equal(err.msg, says);
    }
}

/* Of another length it is no secret, and nobody has the empty one. */
static void test_secrets(void **state)
{
    (void)state;
    uint8_t bytes[sizeof(((struct fence *)0)->secret) + 1];
    const struct fence none = {0};
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i + 1);
    }
    for (size_t n = sizeof bytes - 2; n <= sizeof bytes; n++) {
        const ProtobufCBinaryData secret = {n, bytes};
        struct fence f = wire_fence_from_proto(7, &secret);
        assert_int_equal(f.opening, 7);
        assert_memory_equal(f.secret, n == sizeof f.secret ? bytes : none.secret, sizeof f.secret);
        const ProtobufCBinaryData back = wire_secret_to_proto(&f);
        assert_int_equal(back.len, sizeof f.secret);
        assert_memory_equal(back.data, f.secret, sizeof f.secret);
    }
}

/* ---- data ---- */

static uint64_t dims[SHAPE_RANK_MAX + 1] = {2, 2, 2, 2, 2};
static char *fields[2] = {(char *)(uintptr_t) "C1", (char *)(uintptr_t) "C2"};

static void describe(Gradus__V1__DataInfo *d)
{
    gradus__v1__data_info__init(d);
    d->train_records = 100;
    d->test_records = 50;
    d->feature_dims = dims;
    d->n_feature_dims = 2;
    d->sparse_fields = fields;
    d->n_sparse_fields = 2;
    d->label_is_class = 1;
    d->classes = 3;
    d->label_scale = 1.5;
    d->label_offset = -2.5;
    d->train_fingerprint = 0x12;
    d->test_fingerprint = 0x34;
}

static void refuse_data(const Gradus__V1__DataInfo *d, const char *says)
{
    struct dataset_info train, test;
    struct err err;
    assert_int_equal(wire_data_from_proto(d, &train, &test, &err), ERR_INVALID);
    assert_string_equal(err.msg, says);
}

static void test_descriptions(void **state)
{
    (void)state;
    struct dataset_info train, test;
    Gradus__V1__DataInfo d, out;
    struct err err;
    describe(&d);
    d.n_feature_dims = SHAPE_RANK_MAX;
    assert_int_equal(wire_data_from_proto(&d, &train, &test, &err), 0);
    assert_int_equal(train.features.rank, SHAPE_RANK_MAX);
    assert_int_equal(shape_count(&train.features), 1 << SHAPE_RANK_MAX);
    assert_true(train.label_is_class && train.classes == 3);
    assert_true(train.label_scale == 1.5 && train.label_offset == -2.5);
    assert_int_equal(train.fingerprint, 0x12);
    assert_int_equal(test.fields.count, 2);
    wire_data_to_proto(&train, &test, &out);
    assert_int_equal(wire_data_compare(&d, &out, &err), 0);
    wire_data_to_proto(&train, NULL, &out);
    assert_int_equal(out.test_records + out.test_fingerprint, 0);
    refuse_data(NULL, "data: missing");
    d.n_feature_dims = SHAPE_RANK_MAX + 1;
    refuse_data(&d, "data: records of 5 dimensions; at most 4");
    describe(&d);
    d.train_records = 0;
    refuse_data(&d, "data: no train records");
    describe(&d);
    d.n_sparse_fields = SPARSE_FIELDS_MAX + 1; /* they are not looked at */
    char says[80];
    (void)snprintf(says, sizeof says, "data: %u sparse fields; at most %u", SPARSE_FIELDS_MAX + 1,
                   SPARSE_FIELDS_MAX);
    refuse_data(&d, says);
    d.n_sparse_fields = SPARSE_FIELDS_MAX;
    assert_int_equal(wire_data_from_proto(&d, &train, &test, &err), 0);
    assert_int_equal(train.fields.count, SPARSE_FIELDS_MAX);
    describe(&d);
    d.label_scale = (double)NAN;
    assert_int_equal(wire_data_from_proto(&d, &train, &test, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "data: label scale "));
    describe(&d);
    d.label_offset = (double)-INFINITY;
    refuse_data(&d, "data: label scale 1.5 and offset -inf must be finite");
}

/* Records without numbers are those of lists, and of one shape. */
static void test_records_without_numbers(void **state)
{
    (void)state;
    struct dataset_info train, test;
    Gradus__V1__DataInfo d;
    struct err err;
    uint64_t none[2] = {0, 3};
    describe(&d);
    d.feature_dims = none;
    d.n_feature_dims = 1;
    assert_int_equal(wire_data_from_proto(&d, &train, &test, &err), 0);
    d.n_sparse_fields = 0;
    refuse_data(&d, "data: records of shape [0] are empty or too large");
    d.n_sparse_fields = 2;
    d.n_feature_dims = 2;
    refuse_data(&d, "data: records of shape [0, 3] are empty or too large");
}

static void test_every_difference_is_named(void **state)
{
    (void)state;
    Gradus__V1__DataInfo a, b[13];
    Gradus__V1__ProgramModel program = GRADUS__V1__PROGRAM_MODEL__INIT, other = program;
    uint64_t wider[] = {2, 3};
    char *names[] = {fields[0], fields[0]};
    struct err err;
    program.fingerprint = 0x56;
    other.fingerprint = 0x57;
    describe(&a);
    a.program = &program;
    for (size_t i = 0; i < 13; i++) {
        b[i] = a;
    }
    b[0].train_records = 99;
    b[1].test_records = 49;
    b[2].n_feature_dims = 1;
    b[3].feature_dims = wider;
    b[4].n_sparse_fields = 1;
    b[5].sparse_fields = names;
    b[6].label_is_class = 0;
    b[7].classes = 4;
    b[8].label_scale = 1.25;
    b[9].label_offset = 2.5;
    b[10].train_fingerprint = 0x13;
    b[11].test_fingerprint = 0x35;
    b[12].program = &other;
    static const char *const says[] = {
        "train records: the job has 100, this node found 99",
        "test records: the job has 50, this node found 49",
        "dimensions of a record: the job has 2, this node found 1",
        "size of a record: the job has 2, this node found 3",
        "sparse fields: the job has 2, this node found 1",
        "sparse field 1: the job has 'C2', this node found 'C1'",
        "class labels (1) or numbers (0): the job has 1, this node found 0",
        "classes: the job has 3, this node found 4",
        "label scale: the job has 1.5, this node found 1.25",
        "label offset: the job has -2.5, this node found 2.5",
        "train records: the content differs: fingerprint 0000000000000012 in the job, "
        "0000000000000013 on this node",
        "test records: the content differs: fingerprint 0000000000000034 in the job, "
        "0000000000000035 on this node",
        "the model's initial values: the content differs: fingerprint 0000000000000056 in the "
        "job, 0000000000000057 on this node"};
    assert_int_equal(wire_data_compare(&a, &a, &err), 0);
    for (size_t i = 0; i < 13; i++) {
        assert_int_equal(wire_data_compare(&a, &b[i], &err), ERR_STATE);
        assert_string_equal(err.msg, says[i]);
    }
    b[0] = a;
    b[0].program = NULL; /* none is one of no content */
    assert_int_equal(wire_data_compare(&b[0], &b[0], &err), 0);
    assert_int_equal(wire_data_compare(&a, &b[0], &err), ERR_STATE);
    assert_int_equal(wire_data_compare(&b[0], &a, &err), ERR_STATE);
}

/* ---- plans and programs ---- */

static void variable(Gradus__V1__Variable *v, char *name)
{
    gradus__v1__variable__init(v);
    v->name = name;
    v->dims = dims;
    v->n_dims = 2;
    v->init_kind = INIT_GIVEN;
    v->init_a = 0.5F;
    v->init_b = 0.25F;
    v->fan_in = 6;
    v->fan_out = 7;
    v->statistic = 0.125F;
    v->digest = 0x77;
}

static void refuse_program(const Gradus__V1__ProgramModel *m, const char *says)
{
    struct given_variables given = {.count = 99};
    struct variable_spec *variables = NULL;
    struct err err;
    assert_int_equal(wire_program_from_proto(m, &variables, &given, &err), ERR_INVALID);
    assert_string_equal(err.msg, says);
    assert_null(variables);
    assert_int_equal(given.count, 99);
}

static void test_programs(void **state)
{
    (void)state;
    char name[VARIABLE_NAME_BYTES + 1], plain[] = "w";
    Gradus__V1__Variable v[2], *list[] = {&v[0], &v[1]};
    Gradus__V1__ProgramModel m = GRADUS__V1__PROGRAM_MODEL__INIT, back;
    struct given_variables given;
    struct variable_spec *variables = NULL;
    struct err err;
    memset(name, 'n', sizeof name);
    name[VARIABLE_NAME_BYTES - 1] = '\0';
    variable(&v[0], plain);
    variable(&v[1], name);
    v[1].n_dims = SHAPE_RANK_MAX;
    m.variables = list;
    m.n_variables = 2;
    m.fingerprint = 0x99;
    assert_int_equal(wire_program_from_proto(&m, &variables, &given, &err), 0);
    assert_int_equal(given.count, 2);
    assert_int_equal(given.fingerprint, 0x99);
    assert_ptr_equal(given.variables, variables);
    assert_string_equal(variables[0].name, "w");
    assert_string_equal(variables[1].name, name);
    assert_int_equal(variables[1].shape.rank, SHAPE_RANK_MAX);
    wire_program_to_proto(&given, &back);
    assert_int_equal(back.n_variables, 2);
    assert_int_equal(back.fingerprint, 0x99);
    for (size_t i = 0; i < 2; i++) {
        const Gradus__V1__Variable *b = back.variables[i];
        assert_string_equal(b->name, v[i].name);
        assert_int_equal(b->n_dims, v[i].n_dims);
        assert_memory_equal(b->dims, dims, b->n_dims * sizeof *dims);
        assert_true(b->init_kind == INIT_GIVEN && b->init_a == 0.5F && b->init_b == 0.25F);
        assert_true(b->fan_in == 6 && b->fan_out == 7 && b->statistic == 0.125F &&
                    b->digest == 0x77);
    }
    wire_program_release(&back);
    assert_int_equal(back.n_variables, 0);
    free(variables);
    name[VARIABLE_NAME_BYTES - 1] = 'n';
    name[VARIABLE_NAME_BYTES] = '\0';
    assert_int_equal(wire_program_from_proto(&m, &variables, &given, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "the program's variable 1: the name nnn"));
    variable(&v[1], plain);
    v[1].n_dims = SHAPE_RANK_MAX + 1;
    variables = NULL;
    refuse_program(&m, "the program's variable 1: 5 dimensions; at most 4");
    v[1].n_dims = 2;
    v[1].init_kind = INIT_GIVEN + 1;
    char says[80];
    (void)snprintf(says, sizeof says, "the program's variable 1: unknown initialiser %d",
                   INIT_GIVEN + 1);
    refuse_program(&m, says);
    v[1].init_kind = INIT_GIVEN - 1;
    refuse_program(&m, "the program's variable 1: its initial values are not given");
    m.n_variables = PLAN_VARIABLES_MAX + 1;
    (void)snprintf(says, sizeof says, "the program's model has %d variables; at most %d",
                   PLAN_VARIABLES_MAX + 1, PLAN_VARIABLES_MAX);
    refuse_program(&m, says);
    m.n_variables = 0; /* what is there of no variables */
    assert_int_equal(wire_program_from_proto(&m, &variables, &given, &err), 0);
    assert_int_equal(given.count, 0);
    wire_program_to_proto(&given, &back);
    assert_int_equal(back.n_variables, 0);
    assert_null(back.variables);
    wire_program_release(&back);
    free(variables);
}

static void test_plans(void **state)
{
    (void)state;
    Gradus__V1__Plan p = GRADUS__V1__PLAN__INIT;
    struct plan out = {0};
    struct err err;
    char says[100];
    assert_int_equal(wire_plan_from_proto(NULL, &out, &err), ERR_INVALID);
    assert_string_equal(err.msg, "plan: missing");
    for (unsigned i = 0; i < 2; i++) { /* the lists themselves are not looked at */
        p.n_variables = PLAN_VARIABLES_MAX + (i == 0);
        p.n_partitions = PLAN_PARTITIONS_MAX + (i == 1);
        assert_int_equal(wire_plan_from_proto(&p, &out, &err), ERR_EXHAUSTED);
        (void)snprintf(says, sizeof says,
                       "plan: %zu variables in %zu partitions; at most %d and %d", p.n_variables,
                       p.n_partitions, PLAN_VARIABLES_MAX, PLAN_PARTITIONS_MAX);
        assert_string_equal(err.msg, says);
    }
    /* As many variables as there may be, each one row on its own. */
    Gradus__V1__Variable *v = mem_new(PLAN_VARIABLES_MAX, sizeof *v);
    Gradus__V1__Partition *parts = mem_new(PLAN_VARIABLES_MAX, sizeof *parts);
    char(*names)[8] = mem_new(PLAN_VARIABLES_MAX, sizeof *names);
    p.variables = mem_new(PLAN_VARIABLES_MAX, sizeof(Gradus__V1__Variable *));
    p.partitions = mem_new(PLAN_VARIABLES_MAX, sizeof(Gradus__V1__Partition *));
    for (uint32_t i = 0; i < PLAN_VARIABLES_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "v%" PRIu32, i);
        variable(&v[i], names[i]);
        gradus__v1__partition__init(&parts[i]);
        parts[i].variable = i;
        parts[i].row_count = 2;
        p.variables[i] = &v[i];
        p.partitions[i] = &parts[i];
    }
    p.n_variables = p.n_partitions = PLAN_VARIABLES_MAX;
    p.shard_count = 1;
    if (wire_plan_from_proto(&p, &out, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(out.variable_count, PLAN_VARIABLES_MAX);
    assert_int_equal(out.partitions[9].offset, 36);
    plan_release(&out);
    free(p.variables);
    free(p.partitions);
    free(names);
    free(parts);
    free(v);
}

/* ---- exchanges ---- */

/* A pin of a longer name than there can be is cut, and ends. */
static void test_names_of_pins(void **state)
{
    (void)state;
    char id[EXCHANGE_PIN_ID_BYTES + 8], expected[EXCHANGE_PIN_ID_BYTES];
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__PinnedPull pinned = GRADUS__V1__PINNED_PULL__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    struct err err;
    memset(id, 'p', sizeof id);
    id[sizeof id - 1] = '\0';
    memset(expected, 'p', sizeof expected);
    expected[sizeof expected - 1] = '\0';
    pinned.pin_id = rows.pin_id = id;
    rows.of_case = GRADUS__V1__ROWS_REQUEST__OF_PIN_ID;
    for (unsigned i = 0; i < 2; i++) {
        struct exchange_request q;
        memset(&q, 0x5a, sizeof q);
        m.what_case = i == 0 ? GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED
                             : GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS;
        if (i == 0) {
            m.pinned = &pinned;
        } else {
            m.rows = &rows;
        }
        assert_int_equal(wire_request_from_proto(&m, &q, &err), 0);
        assert_string_equal(q.pin_id, expected);
    }
}

static void test_the_largest_decision(void **state)
{
    (void)state;
    uint8_t replicas[EXCHANGE_DECISION_BYTES_MAX] = {1};
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    Gradus__V1__Trained trained = GRADUS__V1__TRAINED__INIT;
    Gradus__V1__Decision d = GRADUS__V1__DECISION__INIT;
    const struct exchange_request asked = {.kind = EXCHANGE_TRAIN, .has_push = true};
    struct exchange_answer a;
    struct err err;
    m.answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
    m.trained = &trained;
    m.decision = &d;
    trained.push = GRADUS__V1__PUSH_RESULT__ACCEPTED;
    d.replicas = (ProtobufCBinaryData){sizeof replicas, replicas};
    assert_int_equal(wire_answer_from_proto(&m, &asked, &a, &err), 0);
    assert_int_equal(a.decision.bytes, sizeof replicas);
    assert_int_equal(a.train.push, PUSH_ACCEPTED);
    d.replicas.len = 0;
    assert_int_equal(wire_answer_from_proto(&m, &asked, &a, &err), ERR_INTERNAL);
    assert_string_equal(err.msg, "answered a decision of 0 bytes");
}

static void test_missing_parts(void **state)
{
    (void)state;
    struct exchange_request q = {.kind = EXCHANGE_NONE};
    struct err err;
    assert_int_equal(wire_push_from_proto(NULL, &q, &err), ERR_INVALID);
    assert_string_equal(err.msg, "the request has no push");
    assert_int_equal(wire_pull_from_proto(NULL, &q, &err), ERR_INVALID);
    assert_string_equal(err.msg, "the request has no pull");
    assert_false(q.has_push || q.has_pull);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_records_without_numbers),
        cmocka_unit_test(test_every_difference_is_named),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_names_of_pins),
        cmocka_unit_test(test_the_largest_decision),
        cmocka_unit_test(test_missing_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
