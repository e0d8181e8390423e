/* SPDX-License-Identifier: Apache-2.0 */
/* A shard on one server and its backup on another one, over real connections. */
#define ROWS 5000
#define PS_RIG_SHARDS_MAX 2
#include "ps_rig.h"

#include "support/wait_until.h"

#define PRIMARY UINT64_C(7) /* openings */
#define BACKUP UINT64_C(8)

static char job[] = "a-1";
static uint8_t secret[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3};
static float gradient[ELEMENTS], got[ELEMENTS], expected[ELEMENTS];
static char key_of[SHARD_KEY_BYTES];

struct pair {
    struct ps_rig primary, backup;
    struct ps_rig_opening opening;
    char at[64];
};

static Gradus__V1__ShardRef ref_of(uint64_t opening, uint64_t generation)
{
    Gradus__V1__ShardRef ref = ps_rig_ref(job, generation);
    ref.opening = opening;
    ref.secret = (ProtobufCBinaryData){sizeof secret, secret};
    return ref;
}

/* From now on calls to @rig are those of worker "w0" to the shard of @opening. */
static void show_key(struct ps_rig *rig, uint64_t opening)
{
    uint8_t of_worker[SHARD_KEY_SECRET_BYTES];
    shard_worker_secret(secret, "w0", of_worker);
    shard_key(of_worker, job, 0, opening, key_of);
    rig->key = key_of;
}

static int open_one(struct pair *p, bool backup, struct err *err)
{
    struct ps_rig_opening o = p->opening;
    o.is_backup = backup;
    o.opening = backup ? BACKUP : PRIMARY;
    o.backup = BACKUP;
    o.backup_at = backup ? NULL : p->at;
    return ps_rig_open_as(backup ? &p->backup : &p->primary, &o, NULL, err);
}

static void pair_start(struct pair *p, const char *mode, const char *rule,
                       uint64_t memory_bytes_max)
{
    *p = (struct pair){0};
    ps_rig_start(&p->primary, memory_bytes_max);
    ps_rig_start(&p->backup, memory_bytes_max);
    (void)snprintf(p->at, sizeof p->at, "%s", rpc_server_address(p->backup.server, 0));
    p->opening = (struct ps_rig_opening){.job = job,
                                         .rule = rule,
                                         .generation = 1,
                                         .secret = {sizeof secret, secret},
                                         .consistency = ps_rig_consistency(mode, 1)};
}

/* The primary first: it tries again until the backup is there. */
static void pair_open(struct pair *p)
{
    struct err err;
    ps_rig_expect(open_one(p, false, &err), 0, &err, "");
    ps_rig_expect(open_one(p, true, &err), 0, &err, "");
}

static void pair_stop(struct pair *p)
{
    ps_rig_stop(&p->primary);
    ps_rig_stop(&p->backup);
}

static int push(struct ps_rig *rig, uint64_t opening, uint64_t generation, uint64_t step,
                struct err *err)
{
    Gradus__V1__ShardRef ref = ref_of(opening, generation);
    Gradus__V1__Push q = GRADUS__V1__PUSH__INIT;
    Gradus__V1__PushResult result = GRADUS__V1__PUSH_RESULT__PUSH_NONE;
    q.step = step;
    q.replica_end = 1;
    q.examples = 10;
    q.epoch = step / 5;
    q.split = (uint32_t)(step % 5 / 2);
    q.batch = (uint32_t)(step % 5 % 2);
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = (float)((i * 7 + step * 13) % 100) - 50;
    }
    show_key(rig, opening);
    const int rc = ps_rig_push_to(rig, &ref, &q, gradient, ELEMENTS, &result, err);
    assert_true(rc != 0 || result == GRADUS__V1__PUSH_RESULT__APPLIED ||
                result == GRADUS__V1__PUSH_RESULT__DUPLICATE);
    return rc;
}

static void push_well(struct ps_rig *rig, uint64_t opening, uint64_t generation, uint64_t step)
{
    struct err err;
    ps_rig_expect(push(rig, opening, generation, step, &err), 0, &err, "");
}

/* The values of @pin_id, or (NULL) the newest, which are of version @version. */
static void pull(struct ps_rig *rig, uint64_t opening, uint64_t generation, char *pin_id,
                 uint64_t version, float *out)
{
    Gradus__V1__PullRequest q = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__Pull latest = GRADUS__V1__PULL__INIT;
    Gradus__V1__PinnedPull pinned = GRADUS__V1__PINNED_PULL__INIT;
    Gradus__V1__ShardRef ref = ref_of(opening, generation);
    struct rpc_msg *reply = NULL;
    struct err err;
    char worker[] = "w0";
    q.shard = &ref;
    q.worker = worker;
    q.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    q.pull = &latest;
    if (pin_id != NULL) {
        pinned.pin_id = pin_id;
        q.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PINNED;
        q.pinned = &pinned;
    }
    show_key(rig, opening);
    ps_rig_expect(ps_rig_call(rig, "Pull", &q.base, NULL, 0, &reply, &err), 0, &err, "");
    assert_int_equal(((const Gradus__V1__PullResponse *)reply->body)->version, version);
    assert_true(rpc_spans_read_floats(reply->bulk, out, ELEMENTS));
    rpc_msg_unref(reply);
}

static int membership(struct ps_rig *rig, uint64_t opening, uint64_t generation, bool promote,
                      bool keeps, struct err *err)
{
    char *workers[] = {(char[]){"w0"}, (char[]){"w1"}};
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardLocation backup = GRADUS__V1__SHARD_LOCATION__INIT;
    Gradus__V1__ShardRef ref = ref_of(opening, generation);
    backup.opening = BACKUP;
    q.shard = &ref;
    q.workers = workers;
    q.n_workers = 2;
    q.promote = promote;
    q.backup = keeps ? &backup : NULL;
    return ps_rig_call(rig, "SetMembership", &q.base, NULL, 0, NULL, err);
}

static void membership_well(struct ps_rig *rig, uint64_t opening, uint64_t generation, bool promote,
                            bool keeps)
{
    struct err err;
    ps_rig_expect(membership(rig, opening, generation, promote, keeps, &err), 0, &err, "");
}

struct seen {
    struct ps_held held;
    char problem[256];
    size_t count;
};

static void note_held(void *ctx, const struct ps_held *held)
{
    struct seen *seen = ctx;
    seen->held = *held;
    (void)snprintf(seen->problem, sizeof seen->problem, "%s", held->problem);
    seen->count++;
}

static struct seen look(struct ps_rig *rig)
{
    struct seen seen = {0};
    ps_held(rig->ps, note_held, &seen);
    return seen;
}

/* The backup takes over in generation 2, with the very bits. */
static void takes_over(const char *mode, const char *rule)
{
    struct pair p;
    pair_start(&p, mode, rule, 0);
    pair_open(&p);
    for (uint64_t step = 0; step < 3; step++) {
        push_well(&p.primary, PRIMARY, 1, step);
    }
    pull(&p.primary, PRIMARY, 1, NULL, 3, expected);
    assert_int_equal(look(&p.primary).held.role, GRADUS__V1__STANDBY__ROLE__PRIMARY);
    wait_until(look(&p.primary).held.received == 3);
    assert_int_equal(look(&p.backup).held.role, GRADUS__V1__STANDBY__ROLE__BACKUP);
    wait_until(look(&p.backup).held.records == 3);
    struct err err;
    ps_rig_expect(push(&p.backup, BACKUP, 1, 3, &err), ERR_STATE, &err, "only its primary changes");
    membership_well(&p.backup, BACKUP, 2, true, false);
    pull(&p.backup, BACKUP, 2, NULL, 3, got);
    assert_memory_equal(got, expected, sizeof got);
    push_well(&p.backup, BACKUP, 2, 2); /* a duplicate */
    push_well(&p.backup, BACKUP, 2, 3);
    assert_int_equal(look(&p.backup).held.role, GRADUS__V1__STANDBY__ROLE__ALONE);
    /* the old one shows nothing that it would do, and goes on alone when it is told */
    membership_well(&p.primary, PRIMARY, 2, false, false);
    pull(&p.primary, PRIMARY, 2, NULL, 3, got);
    assert_memory_equal(got, expected, sizeof got);
    push_well(&p.primary, PRIMARY, 2, 3);
    pull(&p.primary, PRIMARY, 2, NULL, 4, got);
    pull(&p.backup, BACKUP, 2, NULL, 4, expected);
    assert_memory_equal(got, expected, sizeof got);
    pair_stop(&p);
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
    Gradus__V1__ShardRef ref = ref_of(opening, generation);
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
    Gradus__V1__ShardRef ref = ref_of(opening, generation);
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
    struct pair p;
    struct err err;
    pair_start(&p, "sync", "adam", 0);
    p.opening.given = true;
    pair_open(&p);
    for (uint64_t first = 0; first < ELEMENTS; first += ELEMENTS / 2) {
        Gradus__V1__FillRequest q = GRADUS__V1__FILL_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ref_of(PRIMARY, 1);
        q.shard = &ref;
        q.worker = worker;
        q.first = first;
        show_key(&p.primary, PRIMARY);
        ps_rig_expect(ps_rig_call(&p.primary, "Fill", &q.base, gradient, ELEMENTS / 2, NULL, &err),
                      0, &err, "");
    }
    ps_rig_expect(pin(&p.primary, "Pin", PRIMARY, 1, one, &err), 0, &err, "");
    ps_rig_expect(pin(&p.primary, "Unpin", PRIMARY, 1, one, &err), 0, &err, "");
    push_well(&p.primary, PRIMARY, 1, 0);
    ps_rig_expect(pin(&p.primary, "Pin", PRIMARY, 1, two, &err), 0, &err, "");
    push_well(&p.primary, PRIMARY, 1, 1);
    membership_well(&p.primary, PRIMARY, 2, false, true);
    push_well(&p.primary, PRIMARY, 2, 2);
    pull(&p.primary, PRIMARY, 2, two, 1, expected);
    char sums[2][SUMS_BYTES];
    write_file(&p.primary, PRIMARY, 2, two, sums[0]);
    ps_rig_expect(pin(&p.backup, "Pin", BACKUP, 2, one, &err), ERR_STATE, &err, "only its primary");
    ps_rig_expect(membership(&p.backup, BACKUP, 2, true, false, &err), ERR_ABORTED, &err,
                  "generation 2 has its primary");
    membership_well(&p.backup, BACKUP, 3, true, false);
    pull(&p.backup, BACKUP, 3, two, 1, got);
    assert_memory_equal(got, expected, sizeof got);
    write_file(&p.backup, BACKUP, 3, two, sums[1]);
    assert_string_equal(sums[0], sums[1]);
    push_well(&p.backup, BACKUP, 3, 3);
    pair_stop(&p);
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
    Gradus__V1__ShardRef ref = ref_of(PRIMARY, generation);
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
    (void)push(rig, PRIMARY, 1, 0, &err); /* made, or of the generation before */
    return NULL;
}

/* A record is as it was said, whatever came after it. */
static void the_mode_changes_behind_an_update(void **state)
{
    (void)state;
    struct pair p;
    struct err err;
    pthread_t pusher;
    atomic_int code = 1;
    pair_start(&p, "async", "sgd", 0);
    ps_rig_expect(open_one(&p, false, &err), 0, &err, "");
    assert_int_equal(pthread_create(&pusher, NULL, push_first, &p.primary), 0);
    wait_until(look(&p.primary).held.records == 1);
    const struct ps_rig_opening one = {.version = 1, .done = {1}};
    ask_membership(&p.primary, 2, &one, &code);
    wait_until(look(&p.primary).held.records == 2);
    (void)open_one(&p, true, &err); /* with an answer of before the records, or after */
    wait_until(atomic_load(&code) != 1);
    assert_int_equal(atomic_load(&code), 0);
    assert_int_equal(pthread_join(pusher, NULL), 0);
    wait_until(look(&p.backup).held.records == 2); /* it says what it has received first */
    assert_string_equal(look(&p.backup).problem, "");
    pair_stop(&p);
}

/* What is done waits until the backup has it, and whoever asks hears why. */
static void waits_for_its_backup(void **state)
{
    (void)state;
    struct pair p;
    struct err err;
    pair_start(&p, "sync", "sgd", 0);
    ps_rig_expect(open_one(&p, false, &err), 0, &err, "");
    wait_until(strstr(look(&p.primary).problem, "not on this server") != NULL);
    ps_rig_expect(open_one(&p, true, &err), 0, &err, "");
    push_well(&p.primary, PRIMARY, 1, 0);
    wait_until(look(&p.primary).problem[0] == '\0');
    wait_until(look(&p.primary).held.waits_ms == 0);
    /* the backup becomes a primary, and takes nothing from it any more */
    membership_well(&p.backup, BACKUP, 2, true, false);
    atomic_int code = 1;
    ask_membership(&p.primary, 2, NULL, &code);
    wait_until(strstr(look(&p.primary).problem, "but this shard is a primary") != NULL);
    wait_until(look(&p.primary).held.waits_ms > 0);
    assert_int_equal(atomic_load(&code), 1);
    /* until it is told to do without */
    membership_well(&p.primary, PRIMARY, 3, false, false);
    wait_until(atomic_load(&code) == ERR_ABORTED);
    wait_until(look(&p.primary).held.waits_ms == 0);
    push_well(&p.primary, PRIMARY, 3, 1);
    ps_rig_expect(membership(&p.primary, PRIMARY, 4, false, true, &err), ERR_STATE, &err,
                  "a backup that this shard was not opened with");
    pair_stop(&p);
}

/* Its server ends, and the shard with it: the primary says so, and waits. */
static void its_backup_is_closed(void **state)
{
    (void)state;
    struct pair p;
    pair_start(&p, "sync", "sgd", 0);
    pair_open(&p);
    push_well(&p.primary, PRIMARY, 1, 0);
    ps_drop(p.backup.ps, job, BACKUP);
    wait_until(look(&p.primary).problem[0] != '\0');
    assert_int_equal(look(&p.backup).count, 0);
    membership_well(&p.primary, PRIMARY, 2, false, false);
    push_well(&p.primary, PRIMARY, 2, 1);
    pair_stop(&p);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct pair p;
    struct err err;
    pair_start(&p, "sync", "sgd", 0);
    p.opening.tables = "[{name: a, dim: 2}]";
    ps_rig_expect(open_one(&p, true, &err), ERR_INVALID, &err, "a job with tables");
    p.opening.tables = NULL;
    p.opening.rule = "adam";
    p.opening.consistency = ps_rig_consistency("async", 1);
    p.opening.consistency.policy = POLICY_DELAY_COMPENSATION;
    ps_rig_expect(open_one(&p, false, &err), ERR_INVALID, &err, "what each worker read");
    p.opening.consistency.policy = POLICY_NONE;
    (void)snprintf(p.at, sizeof p.at, "nowhere");
    ps_rig_expect(open_one(&p, false, &err), ERR_INVALID, &err, "the backup");
    pair_stop(&p);
}

static void memory_is_reserved(void **state)
{
    (void)state;
    struct pair p;
    struct err err;
    pair_start(&p, "sync", "sgd", 3 * ELEMENTS * sizeof(float));
    ps_rig_expect(open_one(&p, false, &err), ERR_RANGE, &err,
                  "two snapshots, 0 slots and 2 gradients of");
    ps_rig_expect(open_one(&p, true, &err), ERR_RANGE, &err,
                  "three snapshots, 0 slots and 1 gradient of");
    pair_stop(&p);
}

/* shards_max counts jobs: the primary of one shard and the backup of another are one. */
static void a_job_may_have_two_shards(void **state)
{
    (void)state;
    struct pair p;
    struct err err;
    pair_start(&p, "sync", "sgd", 0);
    char other[] = "b-1", third[] = "c-1";
    p.opening.shards = 2;
    ps_rig_expect(open_one(&p, true, &err), 0, &err, "");
    struct ps_rig_opening o = p.opening;
    o.shard = 1;
    ps_rig_expect(ps_rig_open_as(&p.backup, &o, NULL, &err), 0, &err, "");
    o.job = other;
    ps_rig_expect(ps_rig_open_as(&p.backup, &o, NULL, &err), 0, &err, "");
    o.job = third;
    ps_rig_expect(ps_rig_open_as(&p.backup, &o, NULL, &err), ERR_EXHAUSTED, &err,
                  "2 jobs have shards here");
    assert_int_equal(look(&p.backup).count, 3);
    pair_stop(&p);
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
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(memory_is_reserved),
        cmocka_unit_test(a_job_may_have_two_shards),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
