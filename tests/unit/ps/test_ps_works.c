/* SPDX-License-Identifier: Apache-2.0 */
/* What a parameter server says that it is at while something takes long, by which its master knows
 * that it has not got stuck: the threads that do it are held up here until it was seen. */
#define ROWS 8800 /* two slots that are copied by another thread */
#include "ps_rig.h"

#include "execution/pool.h"
#include "ps/rpc/ps_shell.h"
#include "support/wait_until.h"

#define COPY_THREADS 4 /* of a server */
#define LONG_MS 1000   /* nobody reads of work that is younger than half a second */

static char job[] = "a-1";

/* ---- the list of a heartbeat ---- */

struct membership_works {
    size_t count;
    char text[256]; /* "a-1 Pin;" for each */
    uint64_t total; /* of the last one */
};

/* In the place of that of the membership, which is not linked. */
void membership_works_add(struct membership_works *works, const struct membership_work *work)
{
    size_t n = strlen(works->text);
    (void)snprintf(works->text + n, sizeof works->text - n, "%s %s;", work->job, work->what);
    works->total = work->total;
    works->count++;
}

/* As if it had begun some time ago. */
static void make_old(struct work *w)
{
    atomic_fetch_sub(&w->since_ms, LONG_MS);
}

static void tell(struct ps_rig *rig, struct membership_works *out)
{
    *out = (struct membership_works){.count = 0};
    ps_works(rig->ps, out);
}

static void expect_works(struct ps_rig *rig, const char *text)
{
    struct membership_works works;
    tell(rig, &works);
    assert_string_equal(works.text, text);
}

/* ---- threads that are held up ---- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    unsigned inside; /* threads that came */
};

static void gate_init(struct gate *g)
{
    *g = (struct gate){.open = false};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

static void gate_release(struct gate *g)
{
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

static void pass(void *ctx)
{
    struct gate *g = ctx;
    pthread_mutex_lock(&g->lock);
    g->inside++;
    pthread_cond_broadcast(&g->changed);
    wait_until_signalled(g->open, &g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

/* Keep @threads threads of @pool busy until gate_open(). */
static void gate_close(struct gate *g, struct pool *pool, unsigned threads)
{
    struct err err;
    gate_init(g);
    for (unsigned i = 0; i < threads; i++) {
        assert_int_equal(pool_post(pool, pass, g, &err), 0);
    }
    pthread_mutex_lock(&g->lock);
    wait_until_signalled(g->inside >= threads, &g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* Wait until somebody came. */
static void wait_inside(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    wait_until_signalled(g->inside != 0, &g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

/* All that was posted to @pool, which has one thread, is done. */
static void wait_done(struct gate *g, struct pool *pool)
{
    struct err err;
    gate_init(g);
    g->open = true;
    assert_int_equal(pool_post(pool, pass, g, &err), 0);
    wait_inside(g);
}

/* ---- calls that wait ---- */

struct asking {
    struct ps_rig *rig;
    pthread_t thread;
    int rc;
    struct err err;
};

static void ask(struct asking *a, struct ps_rig *rig, void *(*run)(void *ctx))
{
    *a = (struct asking){.rig = rig};
    assert_int_equal(pthread_create(&a->thread, NULL, run, a), 0);
}

static void answered(struct asking *a)
{
    pthread_join(a->thread, NULL);
    ps_rig_expect(a->rc, 0, &a->err, "");
}

static int pin(struct ps_rig *rig, char *id, struct err *err)
{
    Gradus__V1__PinRequest r = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    r.pin_id = id;
    r.slots = true;
    return ps_rig_call(rig, "Pin", &r.base, NULL, 0, NULL, err);
}

static void *write_checkpoint(void *ctx)
{
    struct asking *a = ctx;
    char id[] = "pin", directory[] = "a-1/step-000000000";
    Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    r.pin_id = id;
    r.directory = directory;
    a->rc = ps_rig_call(a->rig, "Checkpoint", &r.base, NULL, 0, NULL, &a->err);
    return NULL;
}

static void *open_another(void *ctx)
{
    struct asking *a = ctx;
    char other[] = "b-2";
    a->rc = ps_rig_open(a->rig, other, "sync", "sgd", 1, 1, &a->err);
    return NULL;
}

/* ---- tests ---- */

static struct ps_shard *the_shard(struct ps_rig *rig)
{
    struct ps_shard *list[PS_SHARDS_MAX];
    assert_int_equal(ps_list(rig->ps, job, list), 1);
    return list[0];
}

static void open_shard(struct ps_rig *rig, const char *rule)
{
    static struct gate opened; /* used until the server ends */
    struct err err;
    ps_rig_expect(ps_rig_open(rig, job, "sync", rule, 1, 1, &err), 0, &err, "");
    wait_done(&opened, rig->ps->opens);
}

struct turn {
    struct strand_task task;
    struct gate came;
};

static void take_turn(struct strand_task *task)
{
    pass(&((struct turn *)((char *)task - offsetof(struct turn, task)))->came);
}

/* Slots are copied by a thread of their own. The pin is answered before, the threads of calls stay
 * free, and what comes for the shard waits for the copy. */
static void test_a_pin_with_slots(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct gate copying;
    struct membership_works works;
    char id[] = "pin";
    struct turn turn;
    ps_rig_start(&rig, 0);
    open_shard(&rig, "adam");
    struct ps_shard *s = the_shard(&rig);
    expect_works(&rig, "");
    gate_close(&copying, rig.ps->copies, COPY_THREADS);
    ps_rig_expect(pin(&rig, id, &err), 0, &err, "");
    gate_init(&turn.came);
    turn.came.open = true;
    /* This comes behind the pin; if the strand were free, it would run here. */
    assert_false(strand_post(&s->strand, &turn.task, take_turn));
    assert_int_equal(turn.came.inside, 0);
    make_old(&s->work);
    tell(&rig, &works);
    assert_string_equal(works.text, "a-1 Pin;");
    assert_true(works.total >= 2 * ELEMENTS * sizeof(float));
    gate_open(&copying);
    wait_inside(&turn.came);
    expect_works(&rig, "");
    ps_shard_unref(s);
    ps_rig_stop(&rig);
    gate_release(&turn.came);
    gate_release(&copying);
}

static bool at_work(struct ps_rig *rig)
{
    struct membership_works works;
    tell(rig, &works);
    return works.count > 0;
}

/* Wait until it says that it is at something. */
static void wait_for_work(struct ps_rig *rig, const struct work *w)
{
    wait_until(w == NULL ? at_work(rig) : atomic_load(&w->what) != NULL);
}

static void test_a_checkpoint(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct gate writing, done;
    struct asking asking;
    char id[] = "pin";
    ps_rig_start(&rig, 0);
    open_shard(&rig, "sgd");
    ps_rig_expect(pin(&rig, id, &err), 0, &err, "");
    struct ps_shard *s = the_shard(&rig);
    gate_close(&writing, rig.ps->files, 1);
    ask(&asking, &rig, write_checkpoint);
    wait_for_work(&rig, &s->file_work);
    make_old(&s->file_work);
    expect_works(&rig, "a-1 Checkpoint;");
    gate_open(&writing);
    answered(&asking);
    wait_done(&done, rig.ps->files); /* the answer leaves before the thread is through */
    expect_works(&rig, "");
    ps_shard_unref(s);
    ps_rig_stop(&rig);
    gate_release(&done);
    gate_release(&writing);
}

static void test_an_opening(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct gate opening, done;
    struct asking asking;
    ps_rig_start(&rig, 0);
    gate_close(&opening, rig.ps->opens, 1);
    ask(&asking, &rig, open_another);
    wait_for_work(&rig, NULL);
    expect_works(&rig, "b-2 OpenShard;");
    gate_open(&opening);
    answered(&asking);
    wait_done(&done, rig.ps->opens);
    expect_works(&rig, "");
    ps_rig_stop(&rig);
    gate_release(&done);
    gate_release(&opening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pin_with_slots),
        cmocka_unit_test(test_a_checkpoint),
        cmocka_unit_test(test_an_opening),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
