/* SPDX-License-Identifier: Apache-2.0 */
/* Opens jobs with tables, pushes rows and pins versions. */
#define ROWS 4
#include "rows_rig.h"

void rows_open(struct ps_rig *rig, char *name, uint32_t replicas, const char *tables)
{
    struct err err;
    struct ps_rig_opening o = {.job = name,
                               .rule = "sgd, learning_rate: 1",
                               .tables = tables,
                               .generation = 1,
                               .consistency = ps_rig_consistency("sync", replicas)};
    ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
}

/* Its first message, which announces @n bytes of tables; @floats of them come with it. */
static void begin(struct client *c, char *job, uint64_t exchange, uint64_t step, uint32_t replica,
                  uint64_t n, bool floats)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    Gradus__V1__Push p = GRADUS__V1__PUSH__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    const struct rpc_piece piece = {gradient, ps_rig_elements() * sizeof(float)};
    const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct err err;
    char worker[] = "w0";
    forget_answer(c, exchange);
    p.step = step;
    p.replica_first = replica;
    p.replica_end = replica + 1;
    p.examples = 2;
    training.push = &p;
    m.exchange = exchange;
    m.shard = &ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    m.training = &training;
    m.total = ps_rig_elements();
    m.tables_bytes = n;
    assert_int_equal(rpc_stream_send(c->stream, &m.base, floats ? &blob : NULL, &err), 0);
}

struct answer *rows_push(struct client *c, char *job, uint64_t exchange, uint64_t step,
                         uint32_t replica, const unsigned char *bytes, size_t n, size_t each)
{
    struct err err;
    begin(c, job, exchange, step, replica, n, true);
    for (size_t at = 0; at < n; at += each) {
        const struct rpc_piece piece = {bytes + at, n - at < each ? n - at : each};
        const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        Gradus__V1__ExchangeRequest more = GRADUS__V1__EXCHANGE_REQUEST__INIT;
        more.exchange = exchange;
        more.of_tables = true;
        more.offset = at;
        assert_int_equal(rpc_stream_send(c->stream, &more.base, &blob, &err), 0);
    }
    return wait_answer(c, exchange);
}

struct answer *rows_announce(struct client *c, char *job, uint64_t exchange, uint64_t n)
{
    begin(c, job, exchange, 0, 0, n, false);
    return wait_answer(c, exchange);
}

void rows_pin(struct ps_rig *rig, char *job, const char *method, char *id)
{
    Gradus__V1__PinRequest r = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    struct err err;
    r.shard = &ref;
    r.pin_id = id;
    ps_rig_expect(ps_rig_call(rig, method, &r.base, NULL, 0, NULL, &err), 0, &err, "");
}
