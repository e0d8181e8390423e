/* SPDX-License-Identifier: Apache-2.0 */
/* Converts step numbers to epochs, batches and examples, and back, in closed form: the first
 * epoch may be partly done, all later ones are alike. What exceeds 64 bits stops at UINT64_MAX. */
#include "job/progress/step_map.h"

#include <assert.h>

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

/* Sums and products stop at UINT64_MAX: "beyond all numbers". */
static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t mul(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

void step_map_init(struct step_map *c, uint64_t step, uint32_t step_batches,
                   const struct ledger *ledger)
{
    assert(step_batches > 0 && ledger_shape_batches(&ledger->shape) > 0);
    *c = (struct step_map){.step = step, .step_batches = step_batches};
    ledger_copy(&c->ledger, ledger);
    c->left = ledger_left(&c->ledger);
    if (c->left == 0) {
        ledger_next_epoch(&c->ledger);
        c->left = ledger_left(&c->ledger);
    }
}

void step_map_release(struct step_map *c)
{
    ledger_release(&c->ledger);
    *c = (struct step_map){0};
}

static uint64_t epoch_batches(const struct step_map *c)
{
    return ledger_shape_batches(&c->ledger.shape);
}

/* Steps of the epoch that the step map begins in, and of each later one. */
static uint64_t first_steps(const struct step_map *c)
{
    return ceil_div(c->left, c->step_batches);
}

static uint64_t later_steps(const struct step_map *c)
{
    return ceil_div(epoch_batches(c), c->step_batches);
}

/* Where a step lies. */
struct place {
    uint64_t epoch;
    uint64_t
        left; /* batches of the epoch that the step map takes, the first epoch or a later one */
    uint64_t done; /* batches of them that are done when the step is reached: less than `left` */
};

static void locate(const struct step_map *c, uint64_t step, struct place *out)
{
    uint64_t n = step > c->step ? step - c->step : 0;
    uint64_t first = first_steps(c);
    if (n < first) {
        /* No overflow here and below: fewer steps than the epoch has, which has less than 2^48
         * batches. */
        *out = (struct place){c->ledger.epoch, c->left, n * c->step_batches};
        return;
    }
    n -= first;
    uint64_t steps = later_steps(c);
    *out = (struct place){add(add(c->ledger.epoch, 1), n / steps), epoch_batches(c),
                          n % steps * c->step_batches};
}

uint64_t step_map_epoch_end(const struct step_map *c, uint64_t epoch)
{
    uint64_t later = epoch > c->ledger.epoch ? epoch - c->ledger.epoch : 0;
    return add(c->step, add(first_steps(c), mul(later, later_steps(c))));
}

uint64_t step_map_epoch(const struct step_map *c, uint64_t step)
{
    struct place at;
    locate(c, step, &at);
    return at.epoch;
}

uint64_t step_map_batches(const struct step_map *c, uint64_t step)
{
    struct place at;
    locate(c, step, &at);
    uint64_t batches = epoch_batches(c);
    return add(mul(at.epoch, batches), batches - at.left + at.done);
}

/* Whether the epoch's last batch, the only one that may be short, was done before the step map. */
static bool last_was_done(const struct step_map *c, uint64_t epoch)
{
    const struct ledger *l = &c->ledger;
    uint32_t last = l->split_count - 1;
    return epoch == l->epoch && l->done[last] >= ledger_shape_split_batches(&l->shape, last);
}

uint64_t step_map_examples(const struct step_map *c, uint64_t step)
{
    struct place at;
    locate(c, step, &at);
    const struct ledger_shape *s = &c->ledger.shape;
    uint64_t batches = epoch_batches(c);
    uint64_t records = (batches - at.left + at.done) * s->batch_records;
    if (last_was_done(c, at.epoch)) {
        records -= batches * s->batch_records - s->records;
    }
    return add(mul(at.epoch, s->records), records);
}

uint64_t step_map_step(const struct step_map *c, uint64_t batches)
{
    uint64_t before = step_map_batches(c, c->step);
    if (batches <= before) {
        return c->step;
    }
    uint64_t n = batches - before;
    if (n < c->left) {
        return add(c->step, n / c->step_batches);
    }
    n -= c->left;
    uint64_t epoch = epoch_batches(c);
    return add(add(c->step, first_steps(c)),
               n / epoch * later_steps(c) + n % epoch / c->step_batches);
}

void step_map_ledger(const struct step_map *c, uint64_t step, struct ledger *out)
{
    struct place at;
    locate(c, step, &at);
    ledger_copy(out, &c->ledger);
    if (at.epoch != c->ledger.epoch) {
        ledger_next_epoch(out);
        out->epoch = at.epoch;
    }
    /* pending batches come in the order of splits */
    uint64_t n = at.done;
    for (uint32_t s = 0; s < out->split_count && n > 0; s++) {
        uint32_t size = ledger_shape_split_batches(&out->shape, s);
        uint32_t left = out->done[s] < size ? size - out->done[s] : 0;
        uint32_t more = n < left ? (uint32_t)n : left;
        out->done[s] += more;
        n -= more;
    }
}

uint64_t step_map_next(const struct step_map *c, uint64_t step, uint64_t count, bool epochs)
{
    if (count == 0) {
        return UINT64_MAX;
    }
    uint64_t done = epochs ? step_map_epoch(c, step) : step;
    uint64_t next = mul(add(done / count, 1), count);
    if (next == UINT64_MAX || !epochs) {
        return next;
    }
    return step_map_epoch_end(c, next - 1);
}
