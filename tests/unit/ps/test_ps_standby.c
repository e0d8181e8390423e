/* SPDX-License-Identifier: Apache-2.0 */
/* A shard on one server and its backup on another one, over real connections. */
#include "ps_pair.h"

#include "ps/rpc/ps_standby.h"

static float gradient[ELEMENTS], got[ELEMENTS], expected[ELEMENTS];

/* The backup takes over in generation 2, with the very bits. */
static void takes_over(const char *mode, const char *rule)
{
    struct ps_pair p;
    ps_pair_start(&p, mode, rule, 0);
    ps_pair_open(&p);
    for (uint64_t step = 0; step < 3; step++) {
        ps_pair_push_well(&p.primary, PRIMARY, 1, step);
    }
    ps_pair_pull(&p.primary, PRIMARY, 1, NULL, 3, expected);
    assert_int_equal(ps_pair_look(&p.primary).held.role, GRADUS__V1__STANDBY__ROLE__PRIMARY);
    wait_until(ps_pair_look(&p.primary).held.received == 3);
    assert_int_equal(ps_pair_look(&p.backup).held.role, GRADUS__V1__STANDBY__ROLE__BACKUP);
    wait_until(ps_pair_look(&p.backup).held.records == 3);
    struct err err;
    ps_rig_expect(ps_pair_push(&p.backup, BACKUP, 1, 3, &err), ERR_STATE, &err,
                  "only its primary changes");
    ps_pair_membership_well(&p.backup, BACKUP, 2, true, NULL);
    ps_pair_pull(&p.backup, BACKUP, 2, NULL, 3, got);
    assert_memory_equal(got, expected, sizeof got);
    ps_pair_push_well(&p.backup, BACKUP, 2, 2); /* a duplicate */
    ps_pair_push_well(&p.backup, BACKUP, 2, 3);
    assert_int_equal(ps_pair_look(&p.backup).held.role, GRADUS__V1__STANDBY__ROLE__ALONE);
    /* the old one shows nothing that it would do, and goes on alone when it is told */
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, NULL);
    ps_pair_pull(&p.primary, PRIMARY, 2, NULL, 3, got);
    assert_memory_equal(got, expected, sizeof got);
    ps_pair_push_well(&p.primary, PRIMARY, 2, 3);
    ps_pair_pull(&p.primary, PRIMARY, 2, NULL, 4, got);
    ps_pair_pull(&p.backup, BACKUP, 2, NULL, 4, expected);
    assert_memory_equal(got, expected, sizeof got);
    ps_pair_stop(&p);
}

static void takes_over_in_sync(void **state)
{
    (void)state;
    takes_over("sync", "adam");
}

static void takes_over_in_async(void **state)
{
    (void)state;
    takes_over("async", "momentum");
}

static int pin(struct ps_rig *rig, const char *method, uint64_t opening, uint64_t generation,
               char *id, struct err *err)
{
    Gradus__V1__PinRequest q = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(opening, generation);
    q.shard = &ref;
    q.pin_id = id;
    q.slots = true;
    return ps_rig_call(rig, method, &q.base, NULL, 0, NULL, err);
}

#define SUMS_BYTES 120

/* Writes a checkpoint of @id, and finds the checksums of its tensors at the beginning of the file,
 * which names the generation, too. */
static void write_file(struct ps_rig *rig, uint64_t opening, uint64_t generation, char *id,
                       char sums[SUMS_BYTES])
{
    char directory[] = "a-1/step-000000001", path[512], head[512] = "";
    Gradus__V1__CheckpointShardRequest q = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(opening, generation);
    struct rpc_msg *reply = NULL;
    struct err err;
    q.shard = &ref;
    q.pin_id = id;
    q.directory = directory;
    ps_rig_expect(ps_rig_call(rig, "Checkpoint", &q.base, NULL, 0, &reply, &err), 0, &err, "");
    (void)snprintf(path, sizeof path, "%s/%s/%s", rig->dir, directory,
                   ((const Gradus__V1__CheckpointShardResponse *)reply->body)->file);
    rpc_msg_unref(reply);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, sizeof head - 1, f), sizeof head - 1);
    (void)fclose(f);
    memset(head, ' ', 8); /* its length */
    const char *found = strstr(head, "\"checksums\":\"");
    assert_non_null(found);
    memcpy(sums, found, SUMS_BYTES - 1);
    sums[SUMS_BYTES - 1] = '\0';
}

static void initial_values_pins_and_generations_go_along(void **state)
{
    (void)state;
    char one[] = "one", two[] = "two", worker[] = "w0";
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "adam", 0);
    p.opening.given = true;
    ps_pair_open(&p);
    for (uint64_t first = 0; first < ELEMENTS; first += ELEMENTS / 2) {
        Gradus__V1__FillRequest q = GRADUS__V1__FILL_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, 1);
        q.shard = &ref;
        q.worker = worker;
        q.first = first;
        ps_pair_show_key(&p.primary, PRIMARY);
        ps_rig_expect(ps_rig_call(&p.primary, "Fill", &q.base, gradient, ELEMENTS / 2, NULL, &err),
                      0, &err, "");
    }
    ps_rig_expect(pin(&p.primary, "Pin", PRIMARY, 1, one, &err), 0, &err, "");
    ps_rig_expect(pin(&p.primary, "Unpin", PRIMARY, 1, one, &err), 0, &err, "");
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    ps_rig_expect(pin(&p.primary, "Pin", PRIMARY, 1, two, &err), 0, &err, "");
    ps_pair_push_well(&p.primary, PRIMARY, 1, 1);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, p.at);
    ps_pair_push_well(&p.primary, PRIMARY, 2, 2);
    ps_pair_pull(&p.primary, PRIMARY, 2, two, 1, expected);
    char sums[2][SUMS_BYTES];
    write_file(&p.primary, PRIMARY, 2, two, sums[0]);
    ps_rig_expect(pin(&p.backup, "Pin", BACKUP, 2, one, &err), ERR_STATE, &err, "only its primary");
    ps_rig_expect(ps_pair_membership(&p.backup, BACKUP, 2, true, NULL, &err), ERR_ABORTED, &err,
                  "generation 2 has its primary");
    ps_pair_membership_well(&p.backup, BACKUP, 3, true, NULL);
    ps_pair_pull(&p.backup, BACKUP, 3, two, 1, got);
    assert_memory_equal(got, expected, sizeof got);
    write_file(&p.backup, BACKUP, 3, two, sums[1]);
    assert_string_equal(sums[0], sums[1]);
    ps_pair_push_well(&p.backup, BACKUP, 3, 3);
    ps_pair_stop(&p);
}

static void on_membership(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)reply;
    atomic_store((atomic_int *)ctx, status->err.code);
}

/* SetMembership with the same backup, which nobody waits for; @code becomes that of its end.
 * @sync_from: the job is sync from now on, and so much is done; NULL: as it was. */
static void ask_membership(struct ps_rig *rig, uint64_t generation,
                           const struct ps_rig_opening *sync_from, atomic_int *code)
{
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardLocation backup = GRADUS__V1__SHARD_LOCATION__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(PRIMARY, generation);
    Gradus__V1__Consistency consistency;
    Gradus__V1__Ledger position;
    struct ledger ledger = {0};
    struct err err;
    backup.opening = BACKUP;
    q.shard = &ref;
    q.backup = &backup;
    if (sync_from != NULL) {
        const struct consistency sync = ps_rig_consistency("sync", 1);
        ps_rig_ledger(sync_from, &ledger);
        wire_consistency_to_proto(&sync, &consistency);
        wire_ledger_to_proto(&ledger, &position);
        q.consistency = &consistency;
        q.ledger = &position;
        q.version = sync_from->version;
    }
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "SetMembership",
                                        .body = &q.base};
    assert_int_equal(rpc_call_start(rig->channel, &request, on_membership, code, &err), 0);
    ledger_release(&ledger);
}

static void *push_first(void *rig)
{
    struct err err;
    (void)ps_pair_push(rig, PRIMARY, 1, 0, &err); /* made, or of the generation before */
    return NULL;
}

/* A record is as it was said, whatever came after it. */
static void the_mode_changes_behind_an_update(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    pthread_t pusher;
    atomic_int code = 1;
    ps_pair_start(&p, "async", "sgd", 0);
    ps_rig_expect(ps_pair_open_one(&p, false, &err), 0, &err, "");
    assert_int_equal(pthread_create(&pusher, NULL, push_first, &p.primary), 0);
    wait_until(ps_pair_look(&p.primary).held.records == 1);
    const struct ps_rig_opening one = {.version = 1, .done = {1}};
    ask_membership(&p.primary, 2, &one, &code);
    wait_until(ps_pair_look(&p.primary).held.records == 2);
    (void)ps_pair_open_one(&p, true, &err); /* with an answer of before the records, or after */
    wait_until(atomic_load(&code) != 1);
    assert_int_equal(atomic_load(&code), 0);
    assert_int_equal(pthread_join(pusher, NULL), 0);
    wait_until(ps_pair_look(&p.backup).held.records == 2); /* it says what it has received first */
    assert_string_equal(ps_pair_look(&p.backup).problem, "");
    ps_pair_stop(&p);
}

/* What is done waits until the backup has it, and whoever asks hears why. */
static void waits_for_its_backup(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "sgd", 0);
    ps_rig_expect(ps_pair_open_one(&p, false, &err), 0, &err, "");
    wait_until(strstr(ps_pair_look(&p.primary).problem, "not on this server") != NULL);
    ps_rig_expect(ps_pair_open_one(&p, true, &err), 0, &err, "");
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    wait_until(ps_pair_look(&p.primary).problem[0] == '\0');
    wait_until(ps_pair_look(&p.primary).held.waits_ms == 0);
    /* the backup becomes a primary, and takes nothing from it any more */
    ps_pair_membership_well(&p.backup, BACKUP, 2, true, NULL);
    atomic_int code = 1;
    char nowhere[] = "nowhere";
    ask_membership(&p.primary, 2, NULL, &code);
    wait_until(strstr(ps_pair_look(&p.primary).problem, "but this shard is a primary") != NULL);
    wait_until(ps_pair_look(&p.primary).held.waits_ms > 0);
    assert_int_equal(atomic_load(&code), 1);
    /* until it is told to do without */
    ps_pair_membership_well(&p.primary, PRIMARY, 3, false, NULL);
    wait_until(atomic_load(&code) == ERR_ABORTED);
    wait_until(ps_pair_look(&p.primary).held.waits_ms == 0);
    ps_pair_push_well(&p.primary, PRIMARY, 3, 1);
    ps_rig_expect(ps_pair_membership(&p.primary, PRIMARY, 4, false, nowhere, &err), ERR_INVALID,
                  &err, "the backup on");
    ps_pair_stop(&p);
}

/* Of the same host: by the server's local socket. */
static void a_near_backup_is_reached_locally(void **state)
{
    (void)state;
    struct ps_pair p;
    ps_pair_start(&p, "sync", "sgd", 0);
    p.primary.ps->local_sockets = mem_strdup(p.backup.local);
    ps_pair_open(&p);
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    const Gradus__V1__ShardRef ref = ps_pair_ref(BACKUP, 1);
    struct err err;
    struct ps_shard *s = ps_find(p.backup.ps, &ref, &err);
    assert_non_null(s);
    assert_memory_equal(rpc_peer(s->record_streams->call), "unix:", 5);
    ps_shard_unref(s);
    ps_pair_stop(&p);
}

/* Its server ends, and the shard with it: the primary says so, and waits. */
static void its_backup_is_closed(void **state)
{
    (void)state;
    struct ps_pair p;
    ps_pair_start(&p, "sync", "sgd", 0);
    ps_pair_open(&p);
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    ps_drop(p.backup.ps, ps_pair_job, BACKUP);
    wait_until(ps_pair_look(&p.primary).problem[0] != '\0');
    assert_int_equal(ps_pair_look(&p.backup).count, 0);
    ps_pair_membership_well(&p.primary, PRIMARY, 2, false, NULL);
    ps_pair_push_well(&p.primary, PRIMARY, 2, 1);
    ps_pair_stop(&p);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "sgd", 0);
    (void)snprintf(p.at, sizeof p.at, "nowhere");
    ps_rig_expect(ps_pair_open_one(&p, false, &err), ERR_INVALID, &err, "the backup");
    ps_pair_stop(&p);
}

static void memory_is_reserved(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "sgd", 3 * ELEMENTS * sizeof(float));
    ps_rig_expect(ps_pair_open_one(&p, false, &err), ERR_RANGE, &err,
                  "two snapshots, 0 slots and 2 gradients of");
    ps_rig_expect(ps_pair_open_one(&p, true, &err), ERR_RANGE, &err,
                  "three snapshots, 0 slots and 1 gradient of");
    ps_pair_stop(&p);
}

/* shards_max counts jobs: the primary of one shard and the backup of another are one. */
static void a_job_may_have_two_shards(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    ps_pair_start(&p, "sync", "sgd", 0);
    char other[] = "b-1", third[] = "c-1";
    p.opening.shards = 2;
    ps_rig_expect(ps_pair_open_one(&p, true, &err), 0, &err, "");
    struct ps_rig_opening o = p.opening;
    o.shard = 1;
    ps_rig_expect(ps_rig_open_as(&p.backup, &o, NULL, &err), 0, &err, "");
    o.job = other;
    ps_rig_expect(ps_rig_open_as(&p.backup, &o, NULL, &err), 0, &err, "");
    o.job = third;
    ps_rig_expect(ps_rig_open_as(&p.backup, &o, NULL, &err), ERR_EXHAUSTED, &err,
                  "2 jobs have shards here");
    assert_int_equal(ps_pair_look(&p.backup).count, 3);
    ps_pair_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_over_in_sync),
        cmocka_unit_test(takes_over_in_async),
        cmocka_unit_test(initial_values_pins_and_generations_go_along),
        cmocka_unit_test(waits_for_its_backup),
        cmocka_unit_test(the_mode_changes_behind_an_update),
        cmocka_unit_test(its_backup_is_closed),
        cmocka_unit_test(a_near_backup_is_reached_locally),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(memory_is_reserved),
        cmocka_unit_test(a_job_may_have_two_shards),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
