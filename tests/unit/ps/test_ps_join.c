/* SPDX-License-Identifier: Apache-2.0 */
/* A backup that joins a shard which trains, over real connections. */
#include "ps_pair.h"

#include "ps/rpc/ps_shell.h"

#define JOINING_MAX SHARD_JOINING_UPDATES_MAX

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

/* The primary goes on while its backup is not there; then it waits. */
static void some_updates_wait_for_who_joins(void **state)
{
    (void)state;
    struct ps_pair p;
    pair_start(&p, "sync", "adam");
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
    refused_for_memory(12, "a copy of the slots for a backup that joins");
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
        cmocka_unit_test(some_updates_wait_for_who_joins),
        cmocka_unit_test(memory_is_given_back),
        cmocka_unit_test(without_memory_the_shard_stays_as_it_was),
        cmocka_unit_test(the_state_has_its_eras),
        cmocka_unit_test(another_one_joins),
        cmocka_unit_test(what_cannot_join_is_refused),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
