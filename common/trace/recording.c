/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine of one node's part in a trace. Worker and server share it; what only one of
 * them does (counting steps, waiting for exchanges) starts from the number of steps that was asked
 * for. */
#include "trace/recording.h"

#include "base/mutant.h"

static bool was_here(const struct recording *r, uint64_t id)
{
    for (size_t i = 0; i < RECORDING_OVER_MAX; i++) {
        if (r->over[i] == id && id != 0) {
            return true;
        }
    }
    return false;
}

static void remember(struct recording *r, uint64_t id)
{
    if (id != 0 && !was_here(r, id)) {
        r->over[r->over_next] = id;
        r->over_next = (r->over_next + 1) % RECORDING_OVER_MAX;
    }
}

enum recording_asked recording_ask(struct recording *r, uint64_t id, uint32_t steps,
                                   uint64_t now_ns, uint64_t deadline_ns)
{
    bool busy = r->state != RECORDING_IDLE;
    if (busy && r->id == id) {
        return RECORDING_AGAIN;
    }
    if (busy && (now_ns < r->deadline_ns || MUTANT(record_for_ever)) && !MUTANT(record_replaced)) {
        return RECORDING_OTHER;
    }
    if (was_here(r, id) && !MUTANT(record_after_take)) {
        return RECORDING_OVER;
    }
    recording_end(r); /* its time was up */
    r->state = steps == 0 ? RECORDING_ON : RECORDING_WAITING;
    r->id = id;
    r->deadline_ns = deadline_ns;
    r->steps_wanted = steps;
    r->steps = 0;
    r->exchange_first = UINT64_MAX;
    r->exchange_last = 0;
    r->open = 0;
    return RECORDING_BEGUN;
}

void recording_end(struct recording *r)
{
    if (r->state != RECORDING_IDLE) {
        r->state = RECORDING_IDLE;
        remember(r, r->id);
    }
}

bool recording_take(struct recording *r, uint64_t id)
{
    bool is_it = r->state != RECORDING_IDLE && r->id == id;
    if (is_it) {
        r->state = RECORDING_IDLE;
    }
    remember(r, id);
    return is_it;
}

bool recording_is_on(const struct recording *r)
{
    return r->state == RECORDING_ON || r->state == RECORDING_CLOSING;
}

/* ---- of a worker ---- */

static bool is_complete(const struct recording *r)
{
    return r->state == RECORDING_CLOSING && (r->open == 0 || MUTANT(record_ends_early));
}

struct recording_step recording_step(struct recording *r, uint64_t step)
{
    struct recording_step out = {0};
    /* the step goes on with another of its replicas */
    bool goes_on = r->seen && r->seen_step == step;
    r->seen = true;
    r->seen_step = step;
    if (goes_on) {
        return out;
    }
    if (r->state == RECORDING_WAITING) {
        r->state = RECORDING_ON;
        out.begins = true;
    } else if (r->state == RECORDING_ON) {
        out.completes = true;
        if (++r->steps == r->steps_wanted) {
            r->state = RECORDING_CLOSING;
            out.ends = is_complete(r);
        }
    }
    return out;
}

static bool is_recorded(const struct recording *r, uint64_t exchange)
{
    return recording_is_on(r) && exchange >= r->exchange_first && exchange <= r->exchange_last;
}

void recording_sending(struct recording *r, uint64_t exchange)
{
    if (r->state == RECORDING_ON) {
        r->exchange_first = exchange < r->exchange_first ? exchange : r->exchange_first;
        r->exchange_last = exchange > r->exchange_last ? exchange : r->exchange_last;
    }
    if (is_recorded(r, exchange)) {
        r->open++;
    }
}

bool recording_answered(struct recording *r, uint64_t exchange)
{
    if (is_recorded(r, exchange) && r->open > 0) {
        r->open--;
    }
    return is_complete(r);
}
