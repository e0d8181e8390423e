/* SPDX-License-Identifier: Apache-2.0 */
/* A backup that joins a shard which trains, over real connections. */
#include "ps_pair.h"

#include "checkpoint/checkpoint.h"
#include "execution/pool.h"
#include "os/chrono.h"
#include "ps/rpc/ps_standby.h"

#define COPY_THREADS 4 /* of a server */
#define JOINING_MAX 7

static float got[ELEMENTS], expected[ELEMENTS];

static void pair_start(struct ps_pair *p, const char *mode, const char *rule)
{
    struct err err;
    ps_pair_start(p, mode, rule, 0);
    p->joins = true;
    ps_rig_expect(ps_pair_open_one(p, false, &err), 0, &err, "");
}

static void open_backup(struct ps_pair *p)
{
    struct err err;
    ps_rig_expect(ps_pair_open_one(p, true, &err), 0, &err, "");
}

/* The backup takes over in @generation, at @version, and goes on as the old primary does alone. */
static void takes_over(struct ps_pair *p, uint64_t generation, uint64_t version)
{
    wait_until(ps_pair_look(&p->primary).held.follows);
    assert_true(meter_value(p->primary.ps->meters.joining) == 0);
    wait_until(ps_pair_look(&p->backup).held.records == ps_pair_look(&p->primary).held.records);
    ps_pair_membership_well(&p->backup, BACKUP, generation, true, NULL);
    ps_pair_membership_well(&p->primary, PRIMARY, generation, false, NULL);
    for (uint64_t step = version; step < version + 2; step++) {
        ps_pair_pull(&p->primary, PRIMARY, generation, NULL, step, expected);
        ps_pair_pull(&p->backup, BACKUP, generation, NULL, step, got);
        assert_memory_equal(got, expected, sizeof got);
        ps_pair_push_well(&p->primary, PRIMARY, generation, step);
        ps_pair_push_well(&p->backup, BACKUP, generation, step);
    }
}

static void joins_in(const char *mode, const char *rule, uint64_t slot_floats)
{
    struct ps_pair p;
    const uint64_t bytes = (ELEMENTS + slot_floats) * sizeof(float);
    pair_start(&p, mode, rule);
    for (uint64_t step = 0; step < 3; step++) {
        ps_pair_push_well(&p.primary, PRIMARY, 1, step);
    }
    open_backup(&p);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    ps_pair_push_well(&p.primary, PRIMARY, 2, 3);
    wait_until(ps_pair_look(&p.primary).held.follows);
    const struct membership_shard held = ps_pair_look(&p.primary).held;
    assert_int_equal(held.role, GRADUS__V1__STANDBY__ROLE__PRIMARY);
    assert_int_equal(held.backup, BACKUP);
    assert_int_equal(held.records, 2);
    assert_int_equal(held.state_bytes, bytes);
    assert_int_equal(held.state_sent, bytes);
    takes_over(&p, 3, 4);
    ps_pair_stop(&p);
}

static void joins_in_sync(void **state)
{
    (void)state;
    joins_in("sync", "adam", 2 * (uint64_t)ELEMENTS);
}

static void joins_in_async(void **state)
{
    (void)state;
    joins_in("async", "momentum", ELEMENTS);
}

static void joins_without_slots(void **state)
{
    (void)state;
    joins_in("sync", "sgd", 0);
}

/* Another thread copies the slots, while the strand waits. */
static void joins_with_many_slots(void **state)
{
    (void)state;
    const uint64_t floats = 4 * (uint64_t)ELEMENTS + 2; /* examples of both variables */
    assert_true(floats >= PS_SHARED_FLOATS_MIN);
    joins_in("sync", "adam, average: 0.5, accumulate: 2", floats);
}

static struct ps_shard *primary_of(struct ps_pair *p)
{
    const Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, 1);
    struct err err;
    struct ps_shard *s = ps_find(p->primary.ps, &ref, &err);
    assert_non_null(s);
    return s;
}

/* Without its backup, in generation 3, nothing wakes the primary any more. */
static void stop_quietly(struct ps_pair *p, struct ps_shard *s)
{
    ps_pair_membership_well(&p->primary, PRIMARY, 3, false, NULL);
    wait_until(atomic_load(&s->refs) == 2); /* the list's, and this one */
    ps_shard_unref(s);
    ps_pair_stop(p);
}

/* A thread that copies slots is kept from it until it is told to go on. */
struct gate {
    atomic_bool open;
    atomic_uint inside;
};

static void run_gate(void *ctx)
{
    struct gate *g = ctx;
    atomic_fetch_add(&g->inside, 1);
    wait_until(atomic_load(&g->open));
    atomic_fetch_sub(&g->inside, 1);
}

/* The time of the primary's own copy is no time that it waits for its backup. */
static void a_copy_of_slots_is_no_wait(void **state)
{
    (void)state;
    struct ps_pair p;
    struct gate gate = {false};
    struct err err;
    pair_start(&p, "sync", "adam, average: 0.5, accumulate: 2");
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    for (unsigned i = 0; i < COPY_THREADS; i++) {
        ps_rig_expect(pool_post(p.primary.ps->copies, run_gate, &gate, &err), 0, &err, "");
    }
    wait_until(atomic_load(&gate.inside) == COPY_THREADS);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    wait_until(ps_pair_look(&p.primary).held.records == 1);
    const uint64_t since_ms = chrono_now_ms();
    wait_until(chrono_now_ms() > since_ms + 20);
    assert_int_equal(ps_pair_look(&p.primary).held.waits_ms, 0);
    atomic_store(&gate.open, true);
    wait_until(ps_pair_look(&p.primary).held.waits_ms > 0); /* for the backup, from now on */
    wait_until(atomic_load(&gate.inside) == 0);
    stop_quietly(&p, primary_of(&p));
}

/* What a break of the connection has dropped is sent again: that is progress, for some breaks. */
static void what_is_sent_again_counts_anew(void **state)
{
    (void)state;
    struct ps_pair p;
    const uint64_t all = 3 * (uint64_t)ELEMENTS, part = PS_RECORD_FLOATS_MAX;
    pair_start(&p, "sync", "adam");
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    wait_until(ps_pair_look(&p.primary).held.waits_ms > 0);
    struct ps_shard *s = primary_of(&p);
    struct ps_standby said;
    uint64_t before = 0;
    for (unsigned breaks = 0; breaks < 4; breaks++) {
        const uint64_t stream = ps_standby_begin(s);
        ps_standby_sent(s, before, 1, all); /* of the stream before: too late */
        ps_standby_get(s, &said);
        assert_int_equal(ps_standby_state_sent(&said), 0);
        ps_standby_sent(s, stream, 1, part);
        ps_standby_get(s, &said);
        assert_int_equal(ps_standby_state_sent(&said), part * sizeof(float));
        ps_standby_sent(s, stream, 1, all); /* it breaks: all that is queued is dropped */
        before = stream;
    }
    const uint64_t flapping = ps_standby_begin(s);
    ps_standby_get(s, &said);
    const uint64_t sent_ms = said.sent_ms;
    wait_until(chrono_now_ms() > sent_ms);
    ps_standby_sent(s, flapping, 1, part);
    ps_standby_get(s, &said);
    assert_int_equal(said.sent_ms, sent_ms);
    assert_int_equal(ps_standby_state_sent(&said), all * sizeof(float));
    ps_standby_sent(s, flapping, 2, part); /* that is new in any case */
    ps_standby_get(s, &said);
    assert_true(said.sent_ms > sent_ms);
    /* a real one begins, and a receipt is progress */
    open_backup(&p);
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    ps_standby_get(s, &said);
    assert_int_equal(said.begun, 0);
    assert_true(said.stream > flapping);
    stop_quietly(&p, s);
}

static void call_pin(struct ps_pair *p, const char *method, uint64_t generation)
{
    Gradus__V1__PinRequest pin = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, generation);
    struct err err;
    pin.shard = &ref;
    pin.pin_id = (char[]){"p"};
    ps_rig_expect(ps_rig_call(&p->primary, method, &pin.base, NULL, 0, NULL, &err), 0, &err, "");
}

/* Writes the pinned version: does it tell of its gradient? */
static bool tells_of_gradient(struct ps_pair *p)
{
    static char directory[] = "a-1/step-000000002";
    static struct histogram told[2];
    Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, 4);
    struct rpc_msg *reply;
    struct manifest m;
    struct plan plan;
    struct checkpoint *c = NULL;
    struct err err;
    bool found = false;
    r.shard = &ref;
    r.pin_id = (char[]){"p"};
    r.directory = directory;
    ps_rig_expect(ps_rig_call(&p->primary, "Checkpoint", &r.base, NULL, 0, &reply, &err), 0, &err,
                  "");
    const Gradus__V1__CheckpointShardResponse *done =
        (const Gradus__V1__CheckpointShardResponse *)reply->body;
    ps_rig_plan(1, &plan);
    manifest_init(&m, ps_pair_job, "name: demo", TRAINING_SYNC,
                  &(struct update_spec){.rule = rule_find("sgd")}, &plan);
    m.shards[0] = (struct manifest_shard){
        .version = done->version, .bytes = done->bytes, .checksum = done->checksum};
    rpc_msg_unref(reply);
    char *path = mem_printf("%s/%s", p->primary.dir, directory);
    ps_rig_expect(manifest_write(path, &m, &err), 0, &err, "");
    ps_rig_expect(checkpoint_open(path, CHECKPOINT_FULL, &c, &err), 0, &err, "");
    ps_rig_expect(checkpoint_gradients(c, told, &found, &err), 0, &err, "");
    assert_true(!found || told[0].count == (uint64_t)ROWS * COLUMNS);
    checkpoint_close(c);
    free(path);
    manifest_release(&m);
    plan_release(&plan);
    return found;
}

/* The version that is kept for the backup's state is no checkpoint's: its gradient stays. */
static void the_gradient_of_a_pinned_version_stays(void **state)
{
    (void)state;
    for (uint64_t between = 0; between < 2; between++) {
        struct ps_pair p;
        struct err err;
        ps_pair_start(&p, "sync", "sgd", 0);
        p.joins = true;
        p.opening.training = ", tensorboard_histograms: true";
        ps_rig_expect(ps_pair_open_one(&p, false, &err), 0, &err, "");
        ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
        ps_pair_push_well(&p.primary, PRIMARY, 1, 1);
        ps_pair_membership_well(&p.primary, PRIMARY, 2, false, NULL);
        call_pin(&p, "Pin", 2);
        for (uint64_t step = 2; step < 2 + between; step++) { /* the state is of a newer version */
            ps_pair_push_well(&p.primary, PRIMARY, 2, step);
        }
        open_backup(&p);
        ps_pair_membership_well(&p.primary, PRIMARY, 3, false, p.at);
        wait_until(ps_pair_look(&p.primary).held.received > 0);
        ps_pair_membership_well(&p.primary, PRIMARY, 4, false, NULL);
        assert_true(tells_of_gradient(&p));
        call_pin(&p, "Unpin", 4);
        ps_pair_stop(&p);
    }
}

/* A shard that is closed takes nothing of the budget any more. */
static void a_closed_shard_reserves_nothing(void **state)
{
    (void)state;
    struct ps_pair p;
    pair_start(&p, "sync", "adam");
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    struct ps_shard *s = primary_of(&p);
    struct buffer *copies[] = {buffer_get(&s->slot_copies, NULL),
                               buffer_get(&s->slot_copies, NULL)};
    ps_drop(p.primary.ps, ps_pair_job, PRIMARY);
    wait_until(ps_pair_look(&p.primary).count == 0);
    buffer_put(copies[0]); /* as gRPC does late */
    buffer_put(copies[1]);
    ps_shard_wake(s);
    wait_until(buffer_pool_bytes(&s->slot_copies) == 0);
    wait_until(atomic_load(&s->refs) == 1);
    ps_shard_unref(s);
    ps_pair_stop(&p);
}

/* The primary goes on while its backup is not there; then it waits. */
static void some_updates_wait_for_who_joins(void **state)
{
    (void)state;
    struct ps_pair p;
    pair_start(&p, "sync", "adam");
    /* with what a record has besides, which is less than a gradient */
    p.primary.ps->joining_bytes = (JOINING_MAX + 1) * (uint64_t)ELEMENTS * sizeof(float) - 1;
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    for (uint64_t step = 1; step <= JOINING_MAX; step++) {
        ps_pair_push_well(&p.primary, PRIMARY, 2, step);
    }
    ps_pair_push_well(&p.primary, PRIMARY, 2, 1 + JOINING_MAX); /* it is in, and waits */
    wait_until(meter_value(p.primary.ps->meters.queued) == 1);
    struct membership_shard held = ps_pair_look(&p.primary).held;
    assert_true(meter_value(p.primary.ps->meters.joining) == 1);
    assert_int_equal(held.records, 1 + JOINING_MAX);
    assert_int_equal(held.received, 0);
    assert_int_equal(held.state_sent, 0);
    assert_false(held.follows);
    wait_until(ps_pair_look(&p.primary).held.waits_ms > 0);
    wait_until(ps_pair_look(&p.primary).problem[0] != '\0');
    open_backup(&p);
    takes_over(&p, 3, 2 + JOINING_MAX);
    ps_pair_stop(&p);
}

/* Memory for the copies goes back: to whatever there was before. */
static void memory_is_given_back(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    pair_start(&p, "sync", "adam");
    const uint64_t before = p.primary.ps->budget.bytes;
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    ps_pair_push_well(&p.primary, PRIMARY, 2, 0);
    assert_true(p.primary.ps->budget.bytes > before);
    ps_pair_membership_well(&p.primary, PRIMARY, 3, false, NULL);
    wait_until(p.primary.ps->budget.bytes <= before + floats_bytes_max(ELEMENTS)); /* a version */
    /* one that cannot be there changes nothing */
    char nowhere[] = "nowhere";
    ps_rig_expect(ps_pair_membership(&p.primary, PRIMARY, 4, false, nowhere, &err), ERR_INVALID,
                  &err, "the backup on");
    ps_pair_push_well(&p.primary, PRIMARY, 3, 1);
    ps_pair_stop(&p);
}

static void refused_for_memory(unsigned units, const char *what)
{
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "adam", units * floats_bytes_max(ELEMENTS));
    p.joins = true;
    ps_rig_expect(ps_pair_open_one(&p, false, &err), 0, &err, "");
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    ps_rig_expect(ps_pair_membership(&p.primary, PRIMARY, 2, false, p.at, &err), ERR_EXHAUSTED,
                  &err, what);
    ps_pair_push_well(&p.primary, PRIMARY, 1, 1);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, NULL);
    ps_pair_push_well(&p.primary, PRIMARY, 2, 2);
    ps_pair_stop(&p);
}

/* The shard takes seven: two versions, two slots, their copy and a gradient. */
static void without_memory_the_shard_stays_as_it_was(void **state)
{
    (void)state;
    refused_for_memory(9, "a gradient for the backup");
    refused_for_memory(13, "a copy of the slots for a backup that joins");
}

/* With memory for a version, four gradients and a copy of the slots more no update waits for the
 * version that is kept. */
static void updates_need_no_more_memory(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "adam", 14 * floats_bytes_max(ELEMENTS));
    p.joins = true;
    ps_rig_expect(ps_pair_open_one(&p, false, &err), 0, &err, "");
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    for (uint64_t step = 1; step <= PS_JOINING_UPDATES; step++) {
        ps_pair_push_well(&p.primary, PRIMARY, 2, step);
        wait_until(ps_pair_look(&p.primary).held.records == 1 + step);
    }
    ps_pair_push_well(&p.primary, PRIMARY, 2, 1 + PS_JOINING_UPDATES); /* it waits for memory */
    wait_until(meter_value(p.primary.ps->meters.queued) == 1);
    assert_int_equal(ps_pair_look(&p.primary).held.records, 1 + PS_JOINING_UPDATES);
    stop_quietly(&p, primary_of(&p));
}

/* From version @version on another update section is of the job. @backup_at: and a backup joins. */
static void change(struct ps_pair *p, uint64_t generation, uint64_t version, char *backup_at)
{
    char *workers[] = {(char[]){"w0"}};
    char first[] = "update: {rule: adam}\n";
    char second[] = "update: {rule: adam, learning_rate: 0.25, clip_value: 3}\n";
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, generation);
    Gradus__V1__ShardLocation backup = GRADUS__V1__SHARD_LOCATION__INIT;
    Gradus__V1__Era eras[] = {GRADUS__V1__ERA__INIT, GRADUS__V1__ERA__INIT};
    Gradus__V1__Era *list[] = {&eras[0], &eras[1]};
    Gradus__V1__Consistency consistency;
    Gradus__V1__Ledger position;
    struct ledger ledger;
    struct err err;
    ps_rig_ledger(&p->opening, &ledger);
    wire_consistency_to_proto(&p->opening.consistency, &consistency);
    wire_ledger_to_proto(&ledger, &position);
    eras[0].update = first;
    eras[1].update = second;
    eras[1].version = version;
    backup.opening = BACKUP;
    backup.address = backup_at;
    q.shard = &ref;
    q.workers = workers;
    q.n_workers = 1;
    q.consistency = &consistency;
    q.ledger = &position;
    q.version = version;
    q.eras = list;
    q.n_eras = 2;
    q.backup = backup_at == NULL ? NULL : &backup;
    ps_rig_expect(ps_rig_call(&p->primary, "SetMembership", &q.base, NULL, 0, NULL, &err), 0, &err,
                  "");
    ledger_release(&ledger);
}

/* The state has the eras as they are, of changes before and of the one with which it comes. */
static void the_state_has_its_eras(void **state)
{
    (void)state;
    for (int together = 0; together < 2; together++) {
        struct ps_pair p;
        pair_start(&p, "sync", "adam");
        open_backup(&p);
        ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
        change(&p, 2, 1, together != 0 ? p.at : NULL);
        if (together == 0) {
            ps_pair_push_well(&p.primary, PRIMARY, 2, 1);
            ps_pair_membership_well(&p.primary, PRIMARY, 3, false, p.at);
        }
        wait_until(ps_pair_look(&p.primary).held.received == 1);
        ps_pair_push_well(&p.primary, PRIMARY, together != 0 ? 2 : 3, together != 0 ? 1 : 2);
        takes_over(&p, 4, together != 0 ? 2 : 3);
        ps_pair_stop(&p);
    }
}

/* The primary has one backup after the other; records of the first mean nothing to the second. */
static void another_one_joins(void **state)
{
    (void)state;
    struct ps_pair p;
    struct ps_rig third;
    struct err err;
    pair_start(&p, "sync", "adam");
    open_backup(&p);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    ps_pair_push_well(&p.primary, PRIMARY, 2, 0);
    wait_until(ps_pair_look(&p.primary).held.follows);
    ps_drop(p.backup.ps, ps_pair_job, BACKUP);
    wait_until(ps_pair_look(&p.backup).count == 0);
    ps_rig_start(&third, 0);
    (void)snprintf(p.at, sizeof p.at, "%s", rpc_server_address(third.server, 0));
    struct ps_rig_opening o = p.opening;
    o.is_backup = o.joins = true;
    o.opening = BACKUP + 1;
    ps_rig_expect(ps_rig_open_as(&third, &o, NULL, &err), 0, &err, "");
    ps_pair_membership_as(&p.primary, 3, p.at, BACKUP + 1);
    wait_until(ps_pair_look(&p.primary).held.backup == BACKUP + 1);
    ps_pair_push_well(&p.primary, PRIMARY, 3, 1);
    wait_until(ps_pair_look(&p.primary).held.follows);
    ps_pair_membership_well(&third, BACKUP + 1, 4, true, NULL);
    ps_pair_pull(&third, BACKUP + 1, 4, NULL, 2, got);
    ps_pair_membership_well(&p.primary, PRIMARY, 4, false, NULL);
    ps_pair_pull(&p.primary, PRIMARY, 4, NULL, 2, expected);
    assert_memory_equal(got, expected, sizeof got);
    ps_pair_stop(&p);
    ps_rig_stop(&third);
}

static void what_cannot_join_is_refused(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "adam", 0);
    struct ps_rig_opening o = p.opening;
    o.joins = true;
    o.opening = PRIMARY;
    ps_rig_expect(ps_rig_open_as(&p.primary, &o, NULL, &err), ERR_INVALID, &err,
                  "only a backup joins");
    p.joins = true;
    open_backup(&p);
    ps_rig_expect(ps_pair_membership(&p.backup, BACKUP, 2, true, NULL, &err), ERR_CORRUPT, &err,
                  "has not received the shard's state");
    ps_pair_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_in_sync),
        cmocka_unit_test(joins_in_async),
        cmocka_unit_test(joins_without_slots),
        cmocka_unit_test(joins_with_many_slots),
        cmocka_unit_test(a_copy_of_slots_is_no_wait),
        cmocka_unit_test(what_is_sent_again_counts_anew),
        cmocka_unit_test(the_gradient_of_a_pinned_version_stays),
        cmocka_unit_test(a_closed_shard_reserves_nothing),
        cmocka_unit_test(some_updates_wait_for_who_joins),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(without_memory_the_shard_stays_as_it_was),
        cmocka_unit_test(updates_need_no_more_memory),
        cmocka_unit_test(the_state_has_its_eras),
        cmocka_unit_test(another_one_joins),
        cmocka_unit_test(what_cannot_join_is_refused),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
