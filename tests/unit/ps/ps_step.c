/* SPDX-License-Identifier: Apache-2.0 */
/* How the job of rule sgd is opened, pushed to and checked. */
#include "ps_step.h"

#include "support/wait_until.h"

char job[] = "a-1";
float initial[ELEMENTS];

void step_start(struct ps_rig *rig, const char *mode, uint32_t replicas, uint64_t room)
{
    struct err err;
    uint64_t version;
    assert_int_equal(ps_rig_elements(), ELEMENTS); /* as this file knows them */
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = (float)(i % 31);
    }
    ps_rig_start_full(rig, 0, room * GRADIENT_BYTES, 0);
    ps_rig_expect(ps_rig_open(rig, job, mode, "sgd", 1, replicas, &err), 0, &err, "");
    (void)ps_rig_pull(rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, initial, &version, &err);
}

void check_step(const float *values, float sum, float examples)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        float want = initial[i] - 0.01F * (sum * (float)(i % 31) * (1.0F / examples));
        assert_memory_equal(&values[i], &want, sizeof want);
    }
}

uint64_t step_parked(struct ps_rig *rig)
{
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    struct rpc_msg *reply;
    struct err err;
    assert_int_equal(ps_rig_call(rig, "Stats", &r.base, NULL, 0, &reply, &err), 0);
    uint64_t n = ((const Gradus__V1__StatsResponse *)reply->body)->shards[0]->requests_parked;
    rpc_msg_unref(reply);
    return n;
}

/* ---- memory for gradients ---- */

void wait_for_waits(struct ps_rig *rig, double count)
{
    wait_until(meter_value(rig->ps->gradient_memory.waits) >= count);
}

void wait_for_bytes(struct ps_rig *rig, uint64_t gradients)
{
    const double bytes = (double)(gradients * GRADIENT_BYTES);
    wait_until(meter_value(rig->ps->gradient_memory.bytes) >= bytes);
}

void expect_all_given_back(struct ps_rig *rig)
{
    /* answers leave before memory comes back */
    wait_until(meter_value(rig->ps->gradient_memory.bytes) == 0);
}

struct chunk async_part(uint64_t exchange, uint32_t split, uint32_t batch, uint64_t offset,
                        uint64_t floats)
{
    return (struct chunk){.exchange = exchange,
                          .job = job,
                          .first = offset == 0,
                          .push = true,
                          .split = split,
                          .batch = batch,
                          .examples = 10,
                          .offset = offset,
                          .total = ELEMENTS,
                          .floats = floats};
}

void begin_gradient(struct ps_rig *rig, struct client *c, uint64_t exchange)
{
    struct chunk k = async_part(exchange, 0, 0, 0, ELEMENTS / 2);
    send_chunk(c, &k);
    wait_for_bytes(rig, 1);
}

void end_gradient(struct client *c, uint64_t exchange)
{
    struct chunk k = async_part(exchange, 0, 0, ELEMENTS / 2, ELEMENTS / 2);
    send_chunk(c, &k);
}
