/* SPDX-License-Identifier: Apache-2.0 */
/* What the master's shell says to parameter servers for each call of the core, field by field. */
#include "shell_call_rig.h"

#include "master/shell/boards.h"

static void expect_shard(const Gradus__V1__ShardRef *ref)
{
    assert_non_null(ref);
    assert_string_equal(ref->job, "demo-1");
    assert_int_equal(ref->shard, 1);
    assert_int_equal(ref->generation, 23);
    assert_int_equal(ref->opening, 22);
    call_expect_secret(&ref->secret);
}

static const char *const WORKERS[] = {"w-1", "w-2"};

static void expect_workers(size_t n, char **workers)
{
    assert_int_equal(n, 2);
    assert_string_equal(workers[0], "w-1");
    assert_string_equal(workers[1], "w-2");
}

/* The state of a shard, in an answer, and what of it reaches the core. */
static Gradus__V1__ShardState a_state(Gradus__V1__Ledger *message)
{
    static char problem[] = "no disk";
    Gradus__V1__ShardState state = GRADUS__V1__SHARD_STATE__INIT;
    wire_ledger_to_proto(&ledger, message);
    state.ledger = message;
    state.version = 31;
    state.examples = 32;
    state.pushes = 33;
    state.duplicates = 34;
    state.dropped = 35;
    state.checkpoint_problem = problem;
    return state;
}

static void expect_state(void)
{
    call_expect_well();
    assert_int_equal(rig.done.version, 31);
    assert_int_equal(rig.done.examples, 32);
    assert_int_equal(rig.done.pushes, 33);
    assert_int_equal(rig.done.duplicates, 34);
    assert_int_equal(rig.done.dropped, 35);
    assert_string_equal(rig.problem, "no disk");
    assert_non_null(rig.done.ledger);
    assert_true(ledger_equal(&rig.ledger, &ledger));
}

static void open_shard_says_all(void **state)
{
    (void)state;
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    struct master_call call = call_of(MASTER_CALL_OPEN);
    call.plan = &plan;
    call.ledger = &ledger;
    call.version = 24;
    call.restore = "demo-1/step-000000007";
    call.consistency = &consistency;
    call.workers = WORKERS;
    call.worker_count = 2;
    const Gradus__V1__OpenShardRequest *q =
        (const Gradus__V1__OpenShardRequest *)call_carry_out(&call, "OpenShard", &well.base);
    expect_shard(q->shard);
    assert_string_equal(q->text, TEXT);
    call_expect_plan(q->plan);
    call_expect_ledger(q->ledger);
    call_expect_consistency(q->consistency);
    assert_int_equal(q->version, 24);
    assert_string_equal(q->restore, "demo-1/step-000000007");
    assert_string_equal(q->owner, "the owner");
    expect_workers(q->n_workers, q->workers);
    assert_int_equal(q->incarnation, 21);
    expect_state();
}

static void membership_says_what_changes(void **state)
{
    (void)state;
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    struct master_call call = call_of(MASTER_CALL_MEMBERSHIP);
    call.workers = WORKERS;
    call.worker_count = 2;
    call.version = 24;
    call.consistency = &consistency;
    const Gradus__V1__SetMembershipRequest *q =
        (const Gradus__V1__SetMembershipRequest *)call_carry_out(&call, "SetMembership",
                                                                 &well.base);
    expect_shard(q->shard);
    expect_workers(q->n_workers, q->workers);
    assert_true(q->ledger == NULL && q->consistency == NULL && q->version == 0);
    expect_state();
    call = call_of(MASTER_CALL_MEMBERSHIP);
    call.version = 24;
    call.ledger = &ledger;
    call.consistency = &consistency;
    well.ledger = NULL; /* sync: the master knows */
    q = (const Gradus__V1__SetMembershipRequest *)call_carry_out(&call, "SetMembership",
                                                                 &well.base);
    assert_int_equal(q->n_workers, 0);
    call_expect_ledger(q->ledger);
    call_expect_consistency(q->consistency);
    assert_int_equal(q->version, 24);
    call_expect_well();
    assert_null(rig.done.ledger);
    Gradus__V1__Ledger damaged = GRADUS__V1__LEDGER__INIT;
    well.ledger = &damaged;
    (void)call_carry_out(&call, "SetMembership", &well.base);
    call_expect_failed(ERR_INVALID, "");
    assert_null(rig.done.ledger);
}

static void expect_backup(const Gradus__V1__ShardLocation *at)
{
    assert_non_null(at);
    assert_int_equal(at->shard, 1);
    assert_string_equal(at->node, "ps-2");
    assert_string_equal(at->address, "host-2:7");
    assert_int_equal(at->opening, 24);
}

static void backups_are_named(void **state)
{
    (void)state;
    const struct master_standby_call primary = {.backup = {1, "ps-2", "host-2:7", 24}};
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    struct master_call call = call_of(MASTER_CALL_OPEN);
    call.plan = &plan;
    call.ledger = &ledger;
    call.restore = "";
    call.consistency = &consistency;
    call.standby = primary;
    const Gradus__V1__OpenShardRequest *o =
        (const Gradus__V1__OpenShardRequest *)call_carry_out(&call, "OpenShard", &well.base);
    expect_backup(o->backup);
    assert_false(o->is_backup);
    assert_false(o->joins);
    call.standby = (struct master_standby_call){.is_backup = true, .joins = true};
    o = (const Gradus__V1__OpenShardRequest *)call_carry_out(&call, "OpenShard", &well.base);
    assert_true(o->backup == NULL && o->is_backup && o->joins);
    call = call_of(MASTER_CALL_MEMBERSHIP);
    call.standby = primary;
    const Gradus__V1__SetMembershipRequest *q =
        (const Gradus__V1__SetMembershipRequest *)call_carry_out(&call, "SetMembership",
                                                                 &well.base);
    expect_backup(q->backup);
    assert_false(q->promote);
    call.standby = (struct master_standby_call){.promote = true};
    q = (const Gradus__V1__SetMembershipRequest *)call_carry_out(&call, "SetMembership",
                                                                 &well.base);
    assert_true(q->backup == NULL && q->promote);
}

static void pins_are_named(void **state)
{
    (void)state;
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    for (int slots = 0; slots < 2; slots++) {
        struct master_call call = call_of(MASTER_CALL_PIN);
        call.pin_id = "p-7";
        call.slots = slots != 0;
        const Gradus__V1__PinRequest *q =
            (const Gradus__V1__PinRequest *)call_carry_out(&call, "Pin", &well.base);
        expect_shard(q->shard);
        assert_string_equal(q->pin_id, "p-7");
        assert_int_equal(q->slots != 0, slots);
        expect_state();
    }
    struct master_call call = call_of(MASTER_CALL_UNPIN);
    call.pin_id = "p-8";
    const Gradus__V1__PinRequest *q =
        (const Gradus__V1__PinRequest *)call_carry_out(&call, "Unpin", &well.base);
    expect_shard(q->shard);
    assert_string_equal(q->pin_id, "p-8");
    expect_state();
}

/* Of a job that wants to see them, by what its file says now. */
static void pins_ask_for_gradients(void **state)
{
    (void)state;
    Gradus__V1__Ledger message;
    Gradus__V1__ShardState well = a_state(&message);
    struct job_evaluation evaluation = {.step = 1};
    struct job_record record = {.state = JOB_RUNNING,
                                .checkpoint = (char[]){""},
                                .evaluations = &evaluation,
                                .evaluation_count = 1};
    call_shell.boards.pool = pool_new(1, 1, "files", NULL);
    for (int wants = 0; wants < 2; wants++) {
        struct master_call call = call_of(MASTER_CALL_PIN);
        record.id = mem_strdup(call.job);
        record.text = mem_printf("name: demo\ndata: {train: {file: a.csv}}\n"
                                 "model: {layers: [dense: {units: 2}], "
                                 "loss: softmax_cross_entropy}\n"
                                 "update: {rule: sgd}\ntraining: {tensorboard_histograms: %s}\n",
                                 wants ? "true" : "false");
        evaluation.step++;
        boards_changed(&call_shell, &record);
        call.pin_id = "p-7";
        assert_int_equal(
            ((const Gradus__V1__PinRequest *)call_carry_out(&call, "Pin", &well.base))->gradients,
            wants);
        call = call_of(MASTER_CALL_UNPIN);
        call.pin_id = "p-7";
        assert_false(((const Gradus__V1__PinRequest *)call_carry_out(&call, "Unpin", &well.base))
                         ->gradients);
        free(record.id);
        free(record.text);
    }
    boards_release(&call_shell);
    pool_free(call_shell.boards.pool);
    call_shell.boards.pool = NULL;
}

static void checkpoints_are_of_an_owner(void **state)
{
    (void)state;
    static char file[] = "shard-1-of-2.safetensors";
    Gradus__V1__Ledger message;
    Gradus__V1__CheckpointShardResponse well = GRADUS__V1__CHECKPOINT_SHARD_RESPONSE__INIT;
    wire_ledger_to_proto(&ledger, &message);
    well.file = file;
    well.bytes = 41;
    well.checksum = 42;
    well.version = 43;
    well.ledger = &message;
    struct master_call call = call_of(MASTER_CALL_CHECKPOINT);
    call.pin_id = "p-7";
    call.directory = "demo-1/step-000000009";
    const Gradus__V1__CheckpointShardRequest *q =
        (const Gradus__V1__CheckpointShardRequest *)call_carry_out(&call, "Checkpoint", &well.base);
    expect_shard(q->shard);
    assert_string_equal(q->pin_id, "p-7");
    assert_string_equal(q->directory, "demo-1/step-000000009");
    assert_string_equal(q->owner, "the owner");
    call_expect_well();
    assert_string_equal(rig.file, file);
    assert_int_equal(rig.done.bytes, 41);
    assert_int_equal(rig.done.checksum, 42);
    assert_int_equal(rig.done.version, 43);
    assert_true(rig.done.ledger != NULL && ledger_equal(&rig.ledger, &ledger));
    well.ledger = NULL;
    (void)call_carry_out(&call, "Checkpoint", &well.base);
    call_expect_well();
    assert_null(rig.done.ledger);
    Gradus__V1__Ledger damaged = GRADUS__V1__LEDGER__INIT;
    well.ledger = &damaged;
    (void)call_carry_out(&call, "Checkpoint", &well.base);
    call_expect_failed(ERR_INVALID, "");
}

static void shards_are_closed(void **state)
{
    (void)state;
    Gradus__V1__CloseShardResponse well = GRADUS__V1__CLOSE_SHARD_RESPONSE__INIT;
    struct master_call call = call_of(MASTER_CALL_CLOSE);
    const Gradus__V1__CloseShardRequest *q =
        (const Gradus__V1__CloseShardRequest *)call_carry_out(&call, "CloseShard", &well.base);
    expect_shard(q->shard);
    call_expect_well();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_shard_says_all),    cmocka_unit_test(membership_says_what_changes),
        cmocka_unit_test(backups_are_named),      cmocka_unit_test(pins_are_named),
        cmocka_unit_test(pins_ask_for_gradients), cmocka_unit_test(checkpoints_are_of_an_owner),
        cmocka_unit_test(shards_are_closed),
    };
    return cmocka_run_group_tests_name("shell_call_ps", tests, call_set_up, call_tear_down);
}
