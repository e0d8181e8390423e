/* SPDX-License-Identifier: Apache-2.0 */
/* Gives memory to gradients that arrive, or lets their senders wait in a queue until some is free.
 * First come, first served, except that the reserve of a shard is for nobody else. */
#include "ps/data/gate.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/chrono.h"

void gate_init(struct gate *g, uint64_t bytes_max, struct pool *pool, struct meter_registry *r)
{
    *g = (struct gate){.bytes_max = bytes_max == 0 ? UINT64_MAX : bytes_max, .pool = pool};
    pthread_mutex_init(&g->lock, NULL);
    g->end = &g->first;
    g->ready_end = &g->ready;
    g->view_end = &g->views;
    g->bytes = meter_gauge(r, "ps_gradient_bytes",
                           "Memory of gradients that come in or are not applied yet", NULL, 0);
    g->waits = meter_counter(r, "ps_gradient_waits_total",
                             "Gradients whose sender had to wait for memory", NULL, 0);
    g->wait_seconds = meter_total(r, "ps_gradient_wait_seconds_total",
                                  "Time for which senders waited for memory", NULL, 0);
    g->mapped = meter_gauge(r, "ps_mapped_bytes",
                            "Memory of workers that stays mapped to be used again", NULL, 0);
}

void gate_release(struct gate *g)
{
    assert(g->shares == NULL && g->first == NULL && g->views == NULL);
    pthread_mutex_destroy(&g->lock);
}

/* ---- who may ---- */

static uint64_t promised_to(const struct gate_share *s, uint64_t held)
{
    return held > s->reserve ? held : s->reserve;
}

static bool fits(const struct gate_share *s)
{
    const struct gate *g = s->gate;
    uint64_t held = s->held + s->unit;
    if (held <= s->reserve) {
        return true;
    }
    uint64_t promised = g->promised - promised_to(s, s->held) + promised_to(s, held);
    return promised <= g->bytes_max && held <= s->held_max;
}

/* Is somebody before in the queue whom it would take memory from? The reserve is its own. */
static bool must_queue(const struct gate_share *s)
{
    const struct gate_waiter *w = s->gate->first;
    bool own = s->held + s->unit <= s->reserve;
    while (w != NULL && own && w->share != s) {
        w = w->next;
    }
    return w != NULL;
}

static void set_held(struct gate_share *s, uint64_t held)
{
    struct gate *g = s->gate;
    g->promised = g->promised - promised_to(s, s->held) + promised_to(s, held);
    g->held = g->held - s->held + held;
    assert(g->promised <= g->bytes_max);
    meter_change(g->bytes, (double)held - (double)s->held);
    s->held = held;
}

/* ---- who waits ---- */

static void make_ready(struct gate *g, struct gate_waiter **at)
{
    struct gate_waiter *w = *at;
    *at = w->next;
    if (w->next == NULL) {
        g->end = at;
    }
    w->next = NULL;
    w->state = GATE_READY;
    *g->ready_end = w;
    g->ready_end = &w->next;
    meter_change(g->wait_seconds, (double)(chrono_now_ns() - w->since_ns) * 1e-9);
}

/* Give what there is to those who wait. The first whom the common part is too small for keeps it
 * from those behind. */
static void grant(struct gate *g)
{
    bool kept = false;
    struct gate_waiter **at = &g->first;
    while (*at != NULL) {
        struct gate_waiter *w = *at;
        struct gate_share *s = w->share;
        bool own = s->held + s->unit <= s->reserve;
        if (s->closed) {
            make_ready(g, at);
        } else if (fits(s) && (own || !kept)) {
            set_held(s, s->held + s->unit);
            w->granted = true;
            make_ready(g, at);
        } else {
            kept |= s->held + s->unit <= s->held_max; /* it waits for its own memory else */
            at = &w->next;
        }
    }
}

static void tell(void *ctx)
{
    struct gate *g = ctx;
    pthread_mutex_lock(&g->lock);
    g->telling = false;
    while (g->ready != NULL) {
        struct gate_waiter *w = g->ready;
        g->ready = w->next;
        if (g->ready == NULL) {
            g->ready_end = &g->ready;
        }
        w->next = NULL;
        w->state = GATE_TOLD;
        pthread_mutex_unlock(&g->lock);
        w->ready(w);
        pthread_mutex_lock(&g->lock);
    }
    pthread_mutex_unlock(&g->lock);
}

/* Locked; returns unlocked. When the pool takes nothing the server ends, and with it every call. */
static void settle(struct gate *g)
{
    grant(g);
    bool due = g->ready != NULL && !g->telling;
    g->telling |= due;
    pthread_mutex_unlock(&g->lock);
    if (due && pool_post(g->pool, tell, g, NULL) != 0) {
        pthread_mutex_lock(&g->lock);
        g->telling = false;
        pthread_mutex_unlock(&g->lock);
    }
}

void gate_wait(struct gate_share *s, struct gate_waiter *w)
{
    struct gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    assert(w->state == GATE_IDLE || w->state == GATE_TOLD);
    w->share = s;
    w->state = GATE_WAITS;
    w->since_ns = chrono_now_ns();
    w->next = NULL;
    *g->end = w;
    g->end = &w->next;
    meter_add(g->waits, 1);
    settle(g);
}

static bool unlink_from(struct gate_waiter **at, struct gate_waiter ***end,
                        const struct gate_waiter *w)
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

bool gate_cancel(struct gate_waiter *w)
{
    if (w->share == NULL) {
        return false; /* it never waited */
    }
    struct gate *g = w->share->gate;
    pthread_mutex_lock(&g->lock);
    bool due = (w->state == GATE_WAITS && unlink_from(&g->first, &g->end, w)) ||
               (w->state == GATE_READY && unlink_from(&g->ready, &g->ready_end, w));
    w->state = GATE_IDLE;
    if (w->granted) {
        w->granted = false;
        set_held(w->share, w->share->held - w->share->unit);
    }
    settle(g);
    return due;
}

/* ---- buffers ---- */

/* Locked. Buffers of a share that is closed are of no use to anybody. */
static void trim_closed(struct gate_share *s)
{
    size_t freed = s->closed ? buffer_pool_trim(&s->pool, SIZE_MAX, 0) : 0;
    s->buffers -= freed;
    s->gate->allocated -= s->unit * freed;
}

static void given_back(struct buffer_pool *p)
{
    struct gate_share *s = (struct gate_share *)((char *)p - offsetof(struct gate_share, pool));
    struct gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    set_held(s, s->held - s->unit);
    trim_closed(s);
    settle(g);
}

/* Locked. */
static void unlist(struct gate *g, struct gate_view *v)
{
    if (v->link == NULL) {
        return;
    }
    *v->link = v->next;
    if (v->next != NULL) {
        v->next->link = v->link;
    } else {
        g->view_end = v->link;
    }
    v->link = NULL;
    g->allocated -= v->bytes;
    meter_change(g->mapped, -(double)v->bytes);
}

/* Locked. To be used again, or without its pages where there is no room for them. */
static void list(struct gate *g, struct gate_view *v)
{
    if (v->link != NULL) {
        return;
    }
    if (g->allocated > g->bytes_max || v->bytes > g->bytes_max - g->allocated) {
        v->drop(v);
        return;
    }
    v->next = NULL;
    v->link = g->view_end;
    *g->view_end = v;
    g->view_end = &v->next;
    g->allocated += v->bytes;
    meter_change(g->mapped, (double)v->bytes);
}

/* Locked. Before @bytes more are allocated: what lies about goes, if all of it together would be
 * more than the limit. No share gets below its reserve, or what it holds. */
static void make_room(struct gate *g, uint64_t bytes)
{
    g->allocated += bytes;
    while (g->allocated > g->bytes_max && g->views != NULL) {
        struct gate_view *v = g->views;
        unlist(g, v);
        v->drop(v);
    }
    for (struct gate_share *s = g->shares; s != NULL && g->allocated > g->bytes_max; s = s->next) {
        size_t keep = (size_t)(promised_to(s, s->held) / s->unit) - s->viewed;
        size_t surplus = (size_t)((g->allocated - g->bytes_max + s->unit - 1) / s->unit);
        size_t spare = s->buffers > keep ? s->buffers - keep : 0;
        size_t freed = buffer_pool_trim(&s->pool, spare < surplus ? spare : surplus,
                                        (size_t)(s->reserve / s->unit));
        s->buffers -= freed;
        g->allocated -= s->unit * freed;
    }
}

/* There is no memory beyond the reserve: the share makes do with what it has. */
static int refused(struct gate_share *s, struct err *err)
{
    struct gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    g->allocated -= s->unit;
    s->buffers--;
    bool others = s->held > s->unit;
    set_held(s, s->held - s->unit);
    s->held_max = others ? s->held : s->held_max;
    settle(g);
    return others ? 1 : err->code;
}

/* Room for one gradient more: 0, and the gate is locked. */
static int enter(struct gate_share *s, struct gate_waiter *w, struct err *err)
{
    struct gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    bool granted = w->granted;
    w->granted = false;
    if (s->closed) {
        set_held(s, granted ? s->held - s->unit : s->held);
        settle(g);
        return err_set(err, ERR_NOT_FOUND, "closed");
    }
    if (!granted && (!fits(s) || must_queue(s))) {
        pthread_mutex_unlock(&g->lock);
        return 1;
    }
    set_held(s, granted ? s->held : s->held + s->unit);
    return 0;
}

int gate_get(struct gate_share *s, struct gate_waiter *w, struct buffer **out, struct err *err)
{
    struct gate *g = s->gate;
    int rc = enter(s, w, err);
    if (rc != 0) {
        return rc;
    }
    *out = buffer_pool_take(&s->pool);
    if (*out == NULL) {
        s->buffers++;
        make_room(g, s->unit);
    }
    pthread_mutex_unlock(&g->lock);
    if (*out == NULL) {
        *out = buffer_pool_make(&s->pool, err);
    }
    return *out != NULL ? 0 : refused(s, err);
}

int gate_enter(struct gate_share *s, struct gate_waiter *w, struct gate_view *v, struct err *err)
{
    struct gate *g = s->gate;
    int rc = enter(s, w, err);
    if (rc == 0) {
        s->viewed++;
        unlist(g, v);
        make_room(g, v->bytes);
        pthread_mutex_unlock(&g->lock);
    }
    return rc;
}

void gate_exit(struct gate_share *s, struct gate_view *v)
{
    struct gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    s->viewed--;
    set_held(s, s->held - s->unit);
    g->allocated -= v->bytes;
    list(g, v);
    settle(g);
}

/* ---- shares ---- */

void gate_join(struct gate_share *s, struct gate *g, uint64_t floats, struct budget *budget)
{
    *s = (struct gate_share){
        .gate = g, .unit = floats_bytes_max(floats), .held_max = UINT64_MAX, .link = &g->shares};
    s->unit = s->unit > 0 ? s->unit : 1; /* a shard without elements asks for nothing */
    buffer_pool_init(&s->pool, floats, SIZE_MAX, budget);
    s->pool.given_back = given_back;
    pthread_mutex_lock(&g->lock);
    s->next = g->shares;
    if (s->next != NULL) {
        s->next->link = &s->next;
    }
    g->shares = s;
    pthread_mutex_unlock(&g->lock);
}

/* Locked. */
static void set_reserve(struct gate_share *s, uint64_t reserve)
{
    s->gate->promised -= promised_to(s, s->held);
    s->reserve = reserve;
    s->gate->promised += promised_to(s, s->held);
}

int gate_reserve(struct gate_share *s, size_t count, struct err *err)
{
    struct gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    uint64_t before = s->reserve;
    uint64_t others = g->promised - promised_to(s, s->held);
    uint64_t left = others > g->bytes_max ? 0 : g->bytes_max - others;
    bool fit = count <= left / s->unit || count * s->unit <= before;
    if (fit) {
        set_reserve(s, count * s->unit);
    }
    pthread_mutex_unlock(&g->lock);
    if (!fit) {
        int code = count > g->bytes_max / s->unit ? ERR_RANGE : ERR_EXHAUSTED;
        return err_set(err, code,
                       "%zu gradients of %" PRIu64 " bytes, which it may have to hold at a time, "
                       "are too many: %" PRIu64 " bytes are promised to others and "
                       "--gradient-bytes-max is %" PRIu64,
                       count, s->unit, others, g->bytes_max);
    }
    int rc = buffer_pool_reserve(&s->pool, count, "gradients", err);
    pthread_mutex_lock(&g->lock);
    if (rc != 0) {
        set_reserve(s, before);
    }
    s->held_max = UINT64_MAX;
    settle(g);
    return rc;
}

void gate_close(struct gate_share *s)
{
    struct gate *g = s->gate;
    pthread_mutex_lock(&g->lock);
    set_reserve(s, 0);
    (void)buffer_pool_reserve(&s->pool, 0, "gradients", NULL);
    s->closed = true;
    trim_closed(s);
    settle(g);
}

void gate_leave(struct gate_share *s)
{
    struct gate *g = s->gate;
    if (g == NULL) {
        return;
    }
    gate_close(s);
    pthread_mutex_lock(&g->lock);
    assert(s->held == 0);
    g->allocated -= s->unit * s->buffers;
    *s->link = s->next;
    if (s->next != NULL) {
        s->next->link = s->link;
    }
    pthread_mutex_unlock(&g->lock);
    buffer_pool_release(&s->pool);
}

/* ---- others ---- */

void gate_touched(struct gate *g, struct gate_view *v)
{
    pthread_mutex_lock(&g->lock);
    list(g, v);
    pthread_mutex_unlock(&g->lock);
}

void gate_forget(struct gate *g, struct gate_view *v)
{
    pthread_mutex_lock(&g->lock);
    unlist(g, v);
    pthread_mutex_unlock(&g->lock);
}

bool gate_lend(struct gate *g, uint64_t bytes)
{
    pthread_mutex_lock(&g->lock);
    bool fit =
        g->first == NULL && g->promised <= g->bytes_max && bytes <= g->bytes_max - g->promised;
    if (fit) {
        g->promised += bytes;
        make_room(g, bytes);
    }
    pthread_mutex_unlock(&g->lock);
    return fit;
}

void gate_take_back(struct gate *g, uint64_t bytes)
{
    pthread_mutex_lock(&g->lock);
    g->promised -= bytes;
    g->allocated -= bytes;
    settle(g);
}
