/* SPDX-License-Identifier: Apache-2.0 */
/* The word of a backup on the same host that says it has more than it was told: it has all that it
 * was told. */
#include "ps_pair.h"

#include "base/mem.h"
#include "ps/rpc/ps_standby.h"

/* The strand of the backup is kept until it is told to go on. */
struct gate {
    struct strand_task task; /* the first member */
    struct ps_shard *shard;
    atomic_bool inside, open, left;
};

static void run_gate(struct strand_task *task)
{
    struct gate *g = (struct gate *)(void *)task;
    atomic_store(&g->inside, true);
    wait_until(atomic_load(&g->open));
    atomic_store(&g->left, true);
}

static void post_gate(void *ctx)
{
    struct gate *g = ctx;
    (void)strand_post(&g->shard->strand, &g->task, run_gate);
}

/* Is answered when the backup has it. */
static void *push_second(void *ctx)
{
    struct ps_pair *p = ctx;
    ps_pair_push_well(&p->primary, PRIMARY, 1, 1);
    return NULL;
}

static void pair_open(struct ps_pair *p)
{
    struct err err;
    ps_pair_start(p, "sync", "sgd", 0);
    p->primary.ps->local_sockets = mem_strdup(p->backup.local);
    ps_rig_expect(ps_pair_open_one(p, false, &err), 0, &err, "");
    wait_until(ps_pair_look(&p->primary).problem[0] != '\0');
    ps_rig_expect(ps_pair_open_one(p, true, &err), 0, &err, "");
    wait_until(ps_pair_look(&p->primary).problem[0] == '\0');
}

static void a_word_that_is_ahead_is_cut(void **state)
{
    (void)state;
    struct ps_pair p;
    struct gate gate = {.shard = NULL};
    pthread_t pusher;
    struct err err;
    const Gradus__V1__ShardRef ref = ps_pair_ref(BACKUP, 1);
    pair_open(&p);
    ps_pair_push_well(&p.primary, PRIMARY, 1, 0);
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    gate.shard = ps_find(p.backup.ps, &ref, &err);
    ps_rig_expect(pool_post(p.backup.ps->copies, post_gate, &gate, &err), 0, &err, "");
    wait_until(atomic_load(&gate.inside));
    const struct shared_notes notes = gate.shard->record_streams->hears.notes;
    assert_int_equal(pthread_create(&pusher, NULL, push_second, &p), 0);
    wait_until(ps_pair_look(&p.primary).held.records == 2);
    assert_int_equal(ps_pair_look(&p.primary).held.received, 1);
    shared_notes_say(&notes, 1000);
    wait_until(ps_pair_look(&p.primary).held.received == 2);
    assert_int_equal(pthread_join(pusher, NULL), 0);
    atomic_store(&gate.open, true);
    wait_until(atomic_load(&gate.left));
    ps_pair_push_well(&p.primary, PRIMARY, 1, 2);
    wait_until(ps_pair_look(&p.primary).held.received == 3);
    ps_shard_unref(gate.shard);
    ps_pair_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_that_is_ahead_is_cut),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
