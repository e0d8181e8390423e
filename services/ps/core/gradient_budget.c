/* SPDX-License-Identifier: Apache-2.0 */
/* Decides who gets memory for a gradient that arrives, and who waits until some is free. First
 * come, first served, except that the reserve of a shard is for nobody else. */
#include "ps/core/gradient_budget.h"

#include <assert.h>
#include <inttypes.h>

#include "base/mutant.h"

void gradient_budget_init(struct gradient_budget *b, uint64_t bytes_max)
{
    *b = (struct gradient_budget){.bytes_max = bytes_max == 0 ? UINT64_MAX : bytes_max};
    b->end = &b->first;
    b->ready_end = &b->ready;
}

/* ---- who may ---- */

static uint64_t promised_to(const struct gradient_share *s, uint64_t held)
{
    return held > s->reserve ? held : s->reserve;
}

/* True if the next gradient of @s fits into its reserve, and so takes memory from no other share.
 */
static bool is_own(const struct gradient_share *s)
{
    return s->held + s->unit <= s->reserve;
}

static bool fits(const struct gradient_share *s)
{
    const struct gradient_budget *b = s->budget;
    uint64_t held = s->held + s->unit;
    if (is_own(s)) {
        return true;
    }
    uint64_t promised = b->promised - promised_to(s, s->held) + promised_to(s, held);
    if (MUTANT(budget_lends_reserves)) {
        return b->held + s->unit <= b->bytes_max && held <= s->held_max;
    }
    return promised <= b->bytes_max && held <= s->held_max;
}

/* True if a waiter stands in the queue from whom this gradient would take memory. A gradient within
 * its share's reserve competes with waiters of the same share alone. */
static bool must_queue(const struct gradient_share *s)
{
    const struct gradient_waiter *w = s->budget->first;
    bool own = is_own(s) && !MUTANT(budget_head_blocks);
    while (w != NULL && own && w->share != s) {
        w = w->next;
    }
    return w != NULL;
}

static void set_held(struct gradient_share *s, uint64_t held)
{
    struct gradient_budget *b = s->budget;
    b->promised = b->promised - promised_to(s, s->held) + promised_to(s, held);
    b->held = b->held - s->held + held;
    assert(b->promised <= b->bytes_max || MUTANT(budget_lends_reserves));
    s->held = held;
}

static void set_reserve(struct gradient_share *s, uint64_t reserve)
{
    s->budget->promised -= promised_to(s, s->held);
    s->reserve = reserve;
    s->budget->promised += promised_to(s, s->held);
}

/* ---- who waits ---- */

static void make_ready(struct gradient_budget *b, struct gradient_waiter **at)
{
    struct gradient_waiter *w = *at;
    *at = w->next;
    if (w->next == NULL) {
        b->end = at;
    }
    w->next = NULL;
    w->state = GRADIENT_WAITER_READY;
    *b->ready_end = w;
    b->ready_end = &w->next;
}

/* Gives free memory to waiters, in order. The first waiter for whom the common part is too small
 * keeps that part from those behind it. */
static void grant(struct gradient_budget *b)
{
    bool kept = false;
    struct gradient_waiter **at = &b->first;
    while (*at != NULL) {
        struct gradient_waiter *w = *at;
        struct gradient_share *s = w->share;
        bool own = is_own(s) && !MUTANT(budget_head_blocks);
        if (s->closed && !MUTANT(budget_closed_sleeps)) {
            make_ready(b, at);
        } else if (fits(s) && (own || !kept)) {
            set_held(s, s->held + s->unit);
            w->granted = true;
            make_ready(b, at);
        } else {
            /* it waits for memory of its own share otherwise */
            kept |= s->held + s->unit <= s->held_max;
            at = &w->next;
        }
    }
}

struct gradient_waiter *gradient_budget_ready(struct gradient_budget *b)
{
    struct gradient_waiter *w = b->ready;
    if (w == NULL) {
        return NULL;
    }
    b->ready = w->next;
    if (b->ready == NULL) {
        b->ready_end = &b->ready;
    }
    w->next = NULL;
    w->state = GRADIENT_WAITER_TOLD;
    return w;
}

void gradient_share_wait(struct gradient_share *s, struct gradient_waiter *w)
{
    struct gradient_budget *b = s->budget;
    assert(w->state == GRADIENT_WAITER_IDLE || w->state == GRADIENT_WAITER_TOLD);
    w->share = s;
    w->state = GRADIENT_WAITER_WAITS;
    w->next = NULL;
    *b->end = w;
    b->end = &w->next;
    grant(b);
}

static bool unlink_from(struct gradient_waiter **at, struct gradient_waiter ***end,
                        const struct gradient_waiter *w)
{
    while (*at != NULL && *at != w) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return false;
    }
    *at = w->next;
    if (*at == NULL) {
        *end = at;
    }
    return true;
}

bool gradient_waiter_cancel(struct gradient_waiter *w)
{
    if (w->share == NULL) {
        return false; /* it never waited */
    }
    struct gradient_budget *b = w->share->budget;
    bool due = (w->state == GRADIENT_WAITER_WAITS && unlink_from(&b->first, &b->end, w)) ||
               (w->state == GRADIENT_WAITER_READY && unlink_from(&b->ready, &b->ready_end, w));
    w->state = GRADIENT_WAITER_IDLE;
    if (w->granted && !MUTANT(budget_cancel_keeps)) {
        set_held(w->share, w->share->held - w->share->unit);
    }
    w->granted = false;
    grant(b);
    return due;
}

/* ---- gradients ---- */

int gradient_share_take(struct gradient_share *s, struct gradient_waiter *w, struct err *err)
{
    bool granted = w->granted;
    w->granted = false;
    if (s->closed) {
        set_held(s, granted ? s->held - s->unit : s->held);
        grant(s->budget);
        return err_set(err, ERR_NOT_FOUND, "closed");
    }
    if (!granted && (!fits(s) || must_queue(s))) {
        return 1;
    }
    set_held(s, granted ? s->held : s->held + s->unit);
    return 0;
}

void gradient_share_return(struct gradient_share *s)
{
    set_held(s, s->held - s->unit);
    if (!MUTANT(budget_return_unseen)) {
        grant(s->budget);
    }
}

bool gradient_share_refused(struct gradient_share *s)
{
    bool others = s->held > s->unit;
    set_held(s, s->held - s->unit);
    s->held_max = others ? s->held : s->held_max;
    grant(s->budget);
    return others;
}

/* ---- shares ---- */

void gradient_share_join(struct gradient_share *s, struct gradient_budget *b, uint64_t unit)
{
    *s = (struct gradient_share){
        .budget = b,
        .next = b->shares,
        .link = &b->shares,
        .unit = unit > 0 ? unit : 1, /* a shard without elements asks for nothing */
        .held_max = UINT64_MAX,
    };
    if (s->next != NULL) {
        s->next->link = &s->next;
    }
    b->shares = s;
}

int gradient_share_reserve(struct gradient_share *s, size_t count, struct err *err)
{
    struct gradient_budget *b = s->budget;
    uint64_t others = b->promised - promised_to(s, s->held);
    uint64_t left = others > b->bytes_max ? 0 : b->bytes_max - others;
    if (count <= left / s->unit || count * s->unit <= s->reserve) {
        set_reserve(s, count * s->unit);
        return 0;
    }
    int code = count > b->bytes_max / s->unit ? ERR_RANGE : ERR_EXHAUSTED;
    return err_set(err, code,
                   "%zu gradients of %" PRIu64 " bytes, which it may have to hold at a time, "
                   "are too many: %" PRIu64 " bytes are promised to others and "
                   "--gradient-bytes-max is %" PRIu64,
                   count, s->unit, others, b->bytes_max);
}

void gradient_share_reserved(struct gradient_share *s, bool fits, uint64_t before)
{
    if (!fits) {
        set_reserve(s, before);
    }
    s->held_max = UINT64_MAX;
    grant(s->budget);
}

void gradient_share_close(struct gradient_share *s)
{
    set_reserve(s, MUTANT(budget_keeps_reserve) ? s->reserve : 0);
    s->closed = true;
    grant(s->budget);
}

void gradient_share_leave(struct gradient_share *s)
{
    assert(s->closed && s->held == 0);
    s->budget->allocated -= s->unit * s->buffers;
    *s->link = s->next;
    if (s->next != NULL) {
        s->next->link = s->link;
    }
}

/* ---- others ---- */

bool gradient_budget_lend(struct gradient_budget *b, uint64_t bytes)
{
    bool fit =
        b->first == NULL && b->promised <= b->bytes_max && bytes <= b->bytes_max - b->promised;
    b->promised += fit ? bytes : 0;
    b->allocated += fit ? bytes : 0;
    return fit;
}

void gradient_budget_take_back(struct gradient_budget *b, uint64_t bytes)
{
    b->promised -= bytes;
    b->allocated -= bytes;
    grant(b);
}

/* ---- what is allocated ---- */

uint64_t gradient_budget_surplus(const struct gradient_budget *b)
{
    return b->allocated > b->bytes_max ? b->allocated - b->bytes_max : 0;
}

bool gradient_budget_has_room(const struct gradient_budget *b, uint64_t bytes)
{
    return b->allocated <= b->bytes_max && bytes <= b->bytes_max - b->allocated;
}

size_t gradient_share_spare(const struct gradient_share *s)
{
    if (s->closed) {
        return SIZE_MAX;
    }
    size_t keep = (size_t)(promised_to(s, s->held) / s->unit) - s->viewed;
    size_t surplus = (size_t)((gradient_budget_surplus(s->budget) + s->unit - 1) / s->unit);
    size_t spare = s->buffers > keep ? s->buffers - keep : 0;
    return spare < surplus ? spare : surplus;
}

void gradient_share_made(struct gradient_share *s)
{
    s->buffers++;
    s->budget->allocated += s->unit;
}

void gradient_share_freed(struct gradient_share *s, size_t buffers)
{
    s->buffers -= buffers;
    s->budget->allocated -= s->unit * buffers;
}
