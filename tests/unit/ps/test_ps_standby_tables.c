/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a job with tables: the rows of an update, how they go to the backup, and records that
 * are none. */
#include "ps_pair.h"
#include "rows_rig.h"

#include "base/mem.h"
#include "ps/rpc/ps_follow.h"

#define DIM 4096 /* a row has 16 KiB */
#define SMALL 3

static const char TABLES_SPEC[] = "[{name: ads, dim: 4096, init: zeros, memory_bytes: 1 GiB}]";

static void pair_start(struct ps_pair *p)
{
    ps_pair_start(p, "sync", "sgd, learning_rate: 1", 0);
    p->opening.tables = TABLES_SPEC;
    p->opening.secret = (ProtobufCBinaryData){0, NULL};
    p->opening.consistency = ps_rig_consistency("sync", 1);
}

static void open_backup(struct ps_pair *p)
{
    struct err err;
    struct ps_rig_opening o = p->opening;
    o.is_backup = true;
    o.opening = BACKUP;
    ps_rig_expect(ps_rig_open_as(&p->backup, &o, NULL, &err), 0, &err, "");
}

/* Both; each knows whether the other one is on its host. */
static void pair_open(struct ps_pair *p)
{
    struct err err;
    struct ps_rig_opening o = p->opening;
    o.backup = BACKUP;
    o.backup_at = p->at;
    ps_rig_expect(ps_rig_open_as(&p->primary, &o, NULL, &err), 0, &err, "");
    wait_until(ps_pair_look(&p->primary).problem[0] != '\0');
    open_backup(p);
    wait_until(ps_pair_look(&p->primary).problem[0] == '\0');
}

static struct ps_shard *shard_of(struct ps_rig *rig, uint64_t opening)
{
    struct err err;
    Gradus__V1__ShardRef ref = ps_rig_ref(ps_pair_job, 1);
    ref.opening = opening;
    struct ps_shard *s = ps_find(rig->ps, &ref, &err);
    assert_non_null(s);
    return s;
}

/* A push of @rows rows, of step @step. */
static void push_rows(struct ps_pair *p, uint64_t step, size_t rows)
{
    struct client c;
    uint64_t *keys = mem_new(rows, sizeof *keys);
    uint32_t *sightings = mem_new(rows, sizeof *sightings);
    float *values = mem_new(rows * DIM, sizeof *values);
    for (size_t i = 0; i < rows; i++) {
        keys[i] = i;
        sightings[i] = 1;
        values[i * DIM + i % DIM] = (float)(i + 1);
    }
    const struct table_gradient_view g = {
        .dim = DIM, .n = rows, .keys = keys, .sightings = sightings, .values = values};
    const size_t n = table_gradient_bytes(VALUE_FP32, rows, DIM);
    unsigned char *bytes = mem_new(n, 1);
    table_gradient_encode(VALUE_FP32, &g, bytes);
    exchange_open(&c, &p->primary);
    const struct answer *a = rows_push(&c, ps_pair_job, 1, step, 0, bytes, n, (size_t)1 << 20);
    if (a->code != 0) {
        fail_msg("code %d: %s", a->code, a->message);
    }
    exchange_close(&c);
    free(keys);
    free(sightings);
    free(values);
    free(bytes);
}

/* What the strand of a shard sees. */
struct look {
    struct strand_task task; /* the first member */
    struct ps_shard *shard;
    uint64_t rows;
    size_t blocks; /* that the primary has ever used */
    bool near;     /* there are some */
    atomic_bool done;
};

static void run_look(struct strand_task *task)
{
    struct look *l = (struct look *)(void *)task;
    const struct ps_follow *f = l->shard->follow;
    struct table_stats stats;
    table_stats(l->shard->tables->tables[0], &stats);
    l->rows = stats.rows;
    l->near = f != NULL && f->copies.near != NULL;
    l->blocks = l->near ? f->near->paid : 0;
    atomic_store(&l->done, true);
}

static void look(struct ps_rig *rig, uint64_t opening, struct look *l)
{
    *l = (struct look){.shard = shard_of(rig, opening)};
    (void)strand_post(&l->shard->strand, &l->task, run_look);
    wait_until(atomic_load(&l->done));
    ps_shard_unref(l->shard);
}

static uint64_t rows_of(struct ps_rig *rig, uint64_t opening)
{
    struct look l;
    look(rig, opening, &l);
    return l.rows;
}

/* They have as many bytes as they have: more than a stream queues for shards without tables. */
static void an_update_of_many_rows_arrives(void **state)
{
    (void)state;
    struct ps_pair p;
    const size_t rows = 4500;
    pair_start(&p);
    pair_open(&p);
    push_rows(&p, 0, rows);
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    wait_until(rows_of(&p.backup, BACKUP) == rows);
    push_rows(&p, 1, SMALL);
    wait_until(ps_pair_look(&p.primary).held.received == 2);
    ps_pair_stop(&p);
}

/* They follow the gradient, which so takes no block that the backup sees. */
static void rows_take_no_blocks(void **state)
{
    (void)state;
    struct ps_pair p;
    struct look l;
    pair_start(&p);
    p.primary.ps->local_sockets = mem_strdup(p.backup.local);
    pair_open(&p);
    for (uint64_t step = 0; step < 3; step++) {
        push_rows(&p, step, SMALL);
        wait_until(ps_pair_look(&p.primary).held.received == step + 1);
    }
    look(&p.primary, 0, &l);
    assert_true(l.near);
    assert_int_equal(l.blocks, 0);
    assert_int_equal(rows_of(&p.backup, BACKUP), SMALL);
    ps_pair_stop(&p);
}

/* There was no memory for a part of the state, and no other part left that would wake the shard. */
static atomic_uint refused;

int __real_tables_state_next(struct tables_state *st, void **part, size_t *bytes, struct err *err);
int __wrap_tables_state_next(struct tables_state *st, void **part, size_t *bytes, struct err *err);
int __wrap_tables_state_next(struct tables_state *st, void **part, size_t *bytes, struct err *err)
{
    if (atomic_load(&refused) > 0) {
        atomic_fetch_sub(&refused, 1);
        return err_set(err, ERR_EXHAUSTED, "no memory for a part of the tables");
    }
    return __real_tables_state_next(st, part, bytes, err);
}

static void a_state_is_said_again_that_found_no_memory(void **state)
{
    (void)state;
    struct ps_pair p;
    struct err err;
    pair_start(&p);
    ps_rig_expect(ps_rig_open_as(&p.primary, &p.opening, NULL, &err), 0, &err, "");
    push_rows(&p, 0, SMALL);
    struct ps_rig_opening o = p.opening;
    o.is_backup = o.joins = true;
    o.opening = BACKUP;
    ps_rig_expect(ps_rig_open_as(&p.backup, &o, NULL, &err), 0, &err, "");
    atomic_store(&refused, 2);
    Gradus__V1__SetMembershipRequest q = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
    Gradus__V1__ShardLocation backup = GRADUS__V1__SHARD_LOCATION__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(ps_pair_job, 2);
    char *workers[] = {(char[]){"w0"}};
    backup.opening = BACKUP;
    backup.address = p.at;
    q.shard = &ref;
    q.workers = workers;
    q.n_workers = 1;
    q.backup = &backup;
    ps_rig_expect(ps_rig_call(&p.primary, "SetMembership", &q.base, NULL, 0, NULL, &err), 0, &err,
                  "");
    wait_until(ps_pair_look(&p.primary).held.received == 1);
    assert_int_equal(atomic_load(&refused), 0);
    assert_int_equal(rows_of(&p.backup, BACKUP), SMALL);
    ps_pair_stop(&p);
}

/* ---- a primary that says anything ---- */

struct says {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t receipts;
    bool over;
    struct err err;
};

static void on_receipt(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    (void)msg;
    struct says *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->receipts++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void on_over(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct says *s = ctx;
    pthread_mutex_lock(&s->lock);
    s->over = true;
    s->err = status->err;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* An update of examples has the values of all elements, whatever it has of tables. */
static void an_update_without_values_is_refused(void **state)
{
    (void)state;
    static const struct rpc_stream_events events = {.message = on_receipt, .done = on_over};
    struct ps_pair p;
    struct err err;
    struct says s = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    Gradus__V1__ShardRef ref = ps_rig_ref(ps_pair_job, 1);
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    Gradus__V1__UpdateRecord update = GRADUS__V1__UPDATE_RECORD__INIT;
    pair_start(&p);
    open_backup(&p);
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Record",
                                        .request_bulk = VALUES,
                                        .wait_for_ready = true};
    struct rpc_stream *stream = rpc_stream_open(p.backup.channel, &request, &events, &s, &err);
    assert_non_null(stream);
    ref.opening = BACKUP;
    m.shard = &ref;
    assert_int_equal(rpc_stream_send(stream, &m.base, NULL, &err), 0);
    m.shard = NULL;
    m.number = 1;
    m.generation = 1;
    m.what_case = GRADUS__V1__RECORD_REQUEST__WHAT_UPDATE;
    m.update = &update;
    update.examples = 10;
    update.pushes = 1;
    (void)rpc_stream_send(stream, &m.base, NULL, &err);
    pthread_mutex_lock(&s.lock);
    wait_until_signalled(s.over || s.receipts > 1, &s.changed, &s.lock);
    pthread_mutex_unlock(&s.lock);
    assert_true(s.over);
    ps_rig_expect(s.err.code, ERR_CORRUPT, &s.err, "an update with 0 elements");
    rpc_stream_free(stream);
    ps_pair_stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_of_many_rows_arrives),
        cmocka_unit_test(rows_take_no_blocks),
        cmocka_unit_test(a_state_is_said_again_that_found_no_memory),
        cmocka_unit_test(an_update_without_values_is_refused),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
