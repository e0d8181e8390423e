/* SPDX-License-Identifier: Apache-2.0 */
#include "ps_pair.h"

char ps_pair_job[] = "a-1";
static uint8_t secret[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 9, 8, 7, 6, 5, 4, 3};
static float gradient[ELEMENTS];
static char key_of[SHARD_KEY_BYTES];

Gradus__V1__ShardRef ps_pair_ref(uint64_t opening, uint64_t generation)
{
    Gradus__V1__ShardRef ref = ps_rig_ref(ps_pair_job, generation);
    ref.opening = opening;
    ref.secret = (ProtobufCBinaryData){sizeof secret, secret};
    return ref;
}

void ps_pair_show_key(struct ps_rig *rig, uint64_t opening)
{
    uint8_t of_worker[SHARD_KEY_SECRET_BYTES];
    char key[SHARD_KEY_BYTES];
    shard_worker_secret(secret, "w0", of_worker);
    shard_key(of_worker, ps_pair_job, 0, opening, key);
    if (rig->key != key_of || memcmp(key, key_of, sizeof key) != 0) { /* others may show it */
        memcpy(key_of, key, sizeof key);
        rig->key = key_of;
    }
}

int ps_pair_open_one(struct ps_pair *p, bool backup, struct err *err)
{
    struct ps_rig_opening o = p->opening;
    o.is_backup = backup;
    o.opening = backup ? BACKUP : PRIMARY;
    o.backup = BACKUP;
    o.backup_at = backup || p->joins ? NULL : p->at;
    o.joins = backup && p->joins;
    return ps_rig_open_as(backup ? &p->backup : &p->primary, &o, NULL, err);
}

void ps_pair_start(struct ps_pair *p, const char *mode, const char *rule, uint64_t memory_bytes_max)
{
    *p = (struct ps_pair){0};
    ps_rig_start(&p->primary, memory_bytes_max);
    ps_rig_start(&p->backup, memory_bytes_max);
    (void)snprintf(p->at, sizeof p->at, "%s", rpc_server_address(p->backup.server, 0));
    p->opening = (struct ps_rig_opening){.job = ps_pair_job,
                                         .rule = rule,
                                         .generation = 1,
                                         .secret = {sizeof secret, secret},
                                         .consistency = ps_rig_consistency(mode, 1)};
}

/* The primary first: it tries again until the backup is there. */
void ps_pair_open(struct ps_pair *p)
{
    struct err err;
    ps_rig_expect(ps_pair_open_one(p, false, &err), 0, &err, "");
    ps_rig_expect(ps_pair_open_one(p, true, &err), 0, &err, "");
}

void ps_pair_stop(struct ps_pair *p)
{
    ps_rig_stop(&p->primary);
    ps_rig_stop(&p->backup);
}

int ps_pair_push(struct ps_rig *rig, uint64_t opening, uint64_t generation, uint64_t step,
                 struct err *err)
{
    Gradus__V1__ShardRef ref = ps_pair_ref(opening, generation);
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
    ps_pair_show_key(rig, opening);
    const int rc = ps_rig_push_to(rig, &ref, &q, gradient, ELEMENTS, &result, err);
    assert_true(rc != 0 || (result >= GRADUS__V1__PUSH_RESULT__ACCEPTED &&
                            result <= GRADUS__V1__PUSH_RESULT__DUPLICATE));
    return rc;
}

void ps_pair_push_well(struct ps_rig *rig, uint64_t opening, uint64_t generation, uint64_t step)
{
    struct err err;
    ps_rig_expect(ps_pair_push(rig, opening, generation, step, &err), 0, &err, "");
}

void ps_pair_pull(struct ps_rig *rig, uint64_t opening, uint64_t generation, char *pin_id,
                  uint64_t version, float *out)
{
    Gradus__V1__PullRequest q = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__Pull latest = GRADUS__V1__PULL__INIT;
    Gradus__V1__PinnedPull pinned = GRADUS__V1__PINNED_PULL__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(opening, generation);
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
    ps_pair_show_key(rig, opening);
    ps_rig_expect(ps_rig_call(rig, "Pull", &q.base, NULL, 0, &reply, &err), 0, &err, "");
    assert_int_equal(((const Gradus__V1__PullResponse *)reply->body)->version, version);
    assert_true(rpc_spans_read_floats(reply->bulk, out, ELEMENTS));
    rpc_msg_unref(reply);
}

static int membership(struct ps_rig *rig, uint64_t opening, uint64_t generation, bool promote,
                      Gradus__V1__ShardLocation *backup, struct err *err)
{
    char *workers[] = {(char[]){"w0"}, (char[]){"w1"}};
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_pair_ref(opening, generation);
    q.shard = &ref;
    q.workers = workers;
    q.n_workers = 2;
    q.promote = promote;
    q.backup = backup->address != NULL ? backup : NULL;
    return ps_rig_call(rig, "SetMembership", &q.base, NULL, 0, NULL, err);
}

int ps_pair_membership(struct ps_rig *rig, uint64_t opening, uint64_t generation, bool promote,
                       char *backup_at, struct err *err)
{
    Gradus__V1__ShardLocation backup = GRADUS__V1__SHARD_LOCATION__INIT;
    backup.opening = BACKUP;
    backup.address = backup_at;
    return membership(rig, opening, generation, promote, &backup, err);
}

void ps_pair_membership_as(struct ps_rig *rig, uint64_t generation, char *backup_at,
                           uint64_t backup)
{
    struct err err;
    Gradus__V1__ShardLocation location = GRADUS__V1__SHARD_LOCATION__INIT;
    location.opening = backup;
    location.address = backup_at;
    ps_rig_expect(membership(rig, PRIMARY, generation, false, &location, &err), 0, &err, "");
}

void ps_pair_membership_well(struct ps_rig *rig, uint64_t opening, uint64_t generation,
                             bool promote, char *backup_at)
{
    struct err err;
    ps_rig_expect(ps_pair_membership(rig, opening, generation, promote, backup_at, &err), 0, &err,
                  "");
}

static void note_held(void *ctx, const char *of, const struct membership_shard *held)
{
    struct ps_pair_seen *seen = ctx;
    (void)of;
    seen->held = *held;
    (void)snprintf(seen->problem, sizeof seen->problem, "%s", held->problem);
    seen->count++;
}

struct ps_pair_seen ps_pair_look(struct ps_rig *rig)
{
    struct ps_pair_seen seen = {0};
    ps_held(rig->ps, note_held, &seen);
    return seen;
}
