/* SPDX-License-Identifier: Apache-2.0 */
/* Fill: initial values that workers bring, before anybody reads the shard. */
#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "ps/rpc/ps_shell.h"

static void answer_fill(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__FillResponse m = GRADUS__V1__FILL_RESPONSE__INIT;
    m.filled = a->filled;
    (void)rpc_reply(r->call, &m.base, NULL);
}

/* Refuses values that are not finite, and names the variable. */
static int check_finite(const struct ps_shard *s, const float *values, uint64_t first,
                        uint64_t count, struct err *err)
{
    uint64_t i = 0;
    while (i < count && isfinite(values[i])) {
        i++;
    }
    if (i == count) {
        return 0;
    }
    const struct partition *p = plan_at(&s->plan, s->number, first + i);
    return err_set(err, ERR_INVALID,
                   "the initial value of element %" PRIu64 " of variable %s is %g, which is not "
                   "finite",
                   p->first + first + i - p->offset, s->plan.variables[p->variable].name,
                   (double)values[i]);
}

/* The values into memory of their own: who brings them may be gone before they are taken. */
static int read_values(struct ps_request *r, uint64_t first, struct rpc_spans *spans,
                       struct err *err)
{
    const size_t bytes = rpc_spans_bytes(spans);
    const uint64_t count = bytes / sizeof(float);
    const uint64_t elements = r->shard->elements;
    r->event.first = first;
    r->event.elements = count;
    if (bytes % sizeof(float) != 0) {
        return err_set(err, ERR_INVALID, "%zu bytes of values are no whole number of floats",
                       bytes);
    }
    if (count == 0 || first > elements || count > elements - first) {
        return 0; /* the core says what is wrong */
    }
    float *values = mem_try_aligned(count, sizeof(float), "initial values", err);
    if (values == NULL) {
        return ERR_EXHAUSTED;
    }
    r->kept = values;
    r->event.given = values;
    (void)wire_values_read(spans, VALUE_FP32, values, count);
    meter_add(r->shard->ps->meters.values_received, bytes);
    return check_finite(r->shard, values, first, count, err);
}

void ps_on_fill(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__FillRequest *m = (const Gradus__V1__FillRequest *)msg->body;
    struct ps_request *r =
        ps_unary_exchange(service, m->shard, m->worker, false, call, answer_fill);
    struct err err;
    if (r == NULL) {
        return;
    }
    r->event.kind = SHARD_FILL;
    if (read_values(r, m->first, msg->bulk, &err) == 0) {
        ps_request_post_unary(r);
        return;
    }
    (void)ps_shard_wrap(r->shard, &err);
    (void)rpc_fail(call, &err);
    ps_request_unref(r);
}
