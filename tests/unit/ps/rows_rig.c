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

struct answer *rows_push(struct client *c, char *job, uint64_t exchange, uint64_t step,
                         uint32_t replica, const unsigned char *bytes, size_t n, size_t each)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    Gradus__V1__Push p = GRADUS__V1__PUSH__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
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
    struct rpc_piece piece = {gradient, ps_rig_elements() * sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    assert_int_equal(rpc_stream_send(c->stream, &m.base, &blob, &err), 0);
    for (size_t at = 0; at < n; at += each) {
        Gradus__V1__ExchangeRequest more = GRADUS__V1__EXCHANGE_REQUEST__INIT;
        more.exchange = exchange;
        more.of_tables = true;
        more.offset = at;
        piece = (struct rpc_piece){bytes + at, n - at < each ? n - at : each};
        assert_int_equal(rpc_stream_send(c->stream, &more.base, &blob, &err), 0);
    }
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
