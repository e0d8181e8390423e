/* SPDX-License-Identifier: Apache-2.0 */
/* Gives buffers to gradients that arrive, as the budget decides, and tells who waited for one. */
#include "ps/data/gradient_memory.h"

#include <assert.h>
#include <stdlib.h>

#include "os/chrono.h"

static struct gradient_wait *wait_of(struct gradient_waiter *w)
{
    return (struct gradient_wait *)w; /* the first member */
}

static struct gradient_pool *pool_of(struct gradient_share *s)
{
    return (struct gradient_pool *)s; /* the first member */
}

void gradient_memory_init(struct gradient_memory *m, uint64_t bytes_max, struct pool *pool,
                          struct meter_registry *r)
{
    *m = (struct gradient_memory){.pool = pool};
    gradient_budget_init(&m->budget, bytes_max);
    pthread_mutex_init(&m->lock, NULL);
    m->view_end = &m->views;
    m->bytes = meter_gauge(r, "ps_gradient_bytes",
                           "Memory of gradients that come in or are not applied yet", NULL, 0);
    m->waits = meter_counter(r, "ps_gradient_waits_total",
                             "Gradients whose sender had to wait for memory", NULL, 0);
    m->wait_seconds = meter_total(r, "ps_gradient_wait_seconds_total",
                                  "Time for which senders waited for memory", NULL, 0);
    m->mapped = meter_gauge(r, "ps_mapped_bytes",
                            "Memory of workers that stays mapped to be used again", NULL, 0);
}

void gradient_memory_release(struct gradient_memory *m)
{
    assert(m->budget.shares == NULL && m->budget.first == NULL && m->views == NULL);
    pthread_mutex_destroy(&m->lock);
}

/* ---- who waits ---- */

static void tell(void *ctx)
{
    struct gradient_memory *m = ctx;
    struct gradient_waiter *w;
    pthread_mutex_lock(&m->lock);
    m->telling = false;
    while ((w = gradient_budget_ready(&m->budget)) != NULL) {
        pthread_mutex_unlock(&m->lock);
        wait_of(w)->ready(wait_of(w));
        pthread_mutex_lock(&m->lock);
    }
    pthread_mutex_unlock(&m->lock);
}

/* Locked. */
static void show(struct gradient_memory *m)
{
    const uint64_t held = m->budget.held;
    if (held != m->bytes_shown) {
        meter_change(m->bytes, (double)held - (double)m->bytes_shown);
        m->bytes_shown = held;
    }
    for (struct gradient_waiter *w = m->budget.ready; w != NULL; w = w->next) {
        struct gradient_wait *wait = wait_of(w);
        if (wait->since_ns != 0) {
            meter_change(m->wait_seconds, (double)(chrono_now_ns() - wait->since_ns) * 1e-9);
            wait->since_ns = 0;
        }
    }
}

/* Locked; returns unlocked. When the pool takes nothing the server ends, and with it every call. */
static void settle(struct gradient_memory *m)
{
    show(m);
    bool due = m->budget.ready != NULL && !m->telling;
    m->telling |= due;
    pthread_mutex_unlock(&m->lock);
    if (due && pool_post(m->pool, tell, m, NULL) != 0) {
        pthread_mutex_lock(&m->lock);
        m->telling = false;
        pthread_mutex_unlock(&m->lock);
    }
}

void gradient_pool_wait(struct gradient_pool *p, struct gradient_wait *w)
{
    struct gradient_memory *m = p->memory;
    pthread_mutex_lock(&m->lock);
    w->since_ns = chrono_now_ns();
    gradient_share_wait(&p->share, &w->waiter);
    meter_add(m->waits, 1);
    settle(m);
}

bool gradient_wait_cancel(struct gradient_wait *w)
{
    if (w->waiter.share == NULL) {
        return false; /* it never waited */
    }
    struct gradient_memory *m = pool_of(w->waiter.share)->memory;
    pthread_mutex_lock(&m->lock);
    bool due = gradient_waiter_cancel(&w->waiter);
    settle(m);
    return due;
}

/* ---- buffers ---- */

/* Locked. */
static void trim(struct gradient_pool *p)
{
    size_t reserved = (size_t)(p->share.reserve / p->share.unit);
    size_t spare = gradient_share_spare(&p->share);
    size_t freed = spare == 0 ? 0 : buffer_pool_trim(&p->buffers, spare, reserved);
    gradient_share_freed(&p->share, freed);
}

static void given_back(struct buffer_pool *buffers)
{
    struct gradient_pool *p =
        (struct gradient_pool *)((char *)buffers - offsetof(struct gradient_pool, buffers));
    pthread_mutex_lock(&p->memory->lock);
    gradient_share_return(&p->share);
    if (p->share.closed) {
        trim(p); /* an unused buffer of a closed pool is freed */
    }
    settle(p->memory);
}

/* Locked. */
static void unlist(struct gradient_memory *m, struct gradient_view *v)
{
    if (v->link == NULL) {
        return;
    }
    *v->link = v->next;
    if (v->next != NULL) {
        v->next->link = v->link;
    } else {
        m->view_end = v->link;
    }
    v->link = NULL;
    m->budget.allocated -= v->bytes;
    meter_change(m->mapped, -(double)v->bytes);
}

/* Locked. To be used again, or without its pages where there is no room for them. */
static void list(struct gradient_memory *m, struct gradient_view *v)
{
    if (v->link != NULL) {
        return;
    }
    if (!gradient_budget_has_room(&m->budget, v->bytes)) {
        v->drop(v);
        return;
    }
    v->next = NULL;
    v->link = m->view_end;
    *m->view_end = v;
    m->view_end = &v->next;
    m->budget.allocated += v->bytes;
    meter_change(m->mapped, (double)v->bytes);
}

/* Locked. Frees unused buffers, if all memory together would be more than the limit. */
static void make_room(struct gradient_memory *m)
{
    while (gradient_budget_surplus(&m->budget) > 0 && m->views != NULL) {
        struct gradient_view *v = m->views;
        unlist(m, v);
        v->drop(v);
    }
    struct gradient_share *s = m->budget.shares;
    for (; s != NULL && gradient_budget_surplus(&m->budget) > 0; s = s->next) {
        trim(pool_of(s));
    }
}

/* There is no memory beyond the reserve: the share makes do with what it has. */
static int refused(struct gradient_pool *p, struct err *err)
{
    pthread_mutex_lock(&p->memory->lock);
    gradient_share_freed(&p->share, 1);
    bool waits = gradient_share_refused(&p->share);
    settle(p->memory);
    return waits ? 1 : err->code;
}

/* Room for one gradient more: 0, and the memory is locked. */
static int take(struct gradient_pool *p, struct gradient_wait *w, struct err *err)
{
    struct gradient_memory *m = p->memory;
    pthread_mutex_lock(&m->lock);
    int rc = gradient_share_take(&p->share, &w->waiter, err);
    if (rc == 1) {
        pthread_mutex_unlock(&m->lock);
    } else if (rc != 0) {
        settle(m);
    }
    return rc;
}

int gradient_pool_get(struct gradient_pool *p, struct gradient_wait *w, struct buffer **out,
                      struct err *err)
{
    int rc = take(p, w, err);
    if (rc != 0) {
        return rc;
    }
    *out = buffer_pool_take(&p->buffers);
    if (*out == NULL) {
        gradient_share_made(&p->share);
        make_room(p->memory);
    }
    show(p->memory);
    pthread_mutex_unlock(&p->memory->lock);
    if (*out == NULL) {
        *out = buffer_pool_make(&p->buffers, err);
    }
    return *out != NULL ? 0 : refused(p, err);
}

int gradient_pool_enter(struct gradient_pool *p, struct gradient_wait *w, struct gradient_view *v,
                        struct err *err)
{
    struct gradient_memory *m = p->memory;
    int rc = take(p, w, err);
    if (rc == 0) {
        p->share.viewed++;
        unlist(m, v);
        m->budget.allocated += v->bytes;
        make_room(m);
        show(m);
        pthread_mutex_unlock(&m->lock);
    }
    return rc;
}

void gradient_pool_exit(struct gradient_pool *p, struct gradient_view *v)
{
    struct gradient_memory *m = p->memory;
    pthread_mutex_lock(&m->lock);
    p->share.viewed--;
    m->budget.allocated -= v->bytes;
    gradient_share_return(&p->share);
    list(m, v);
    settle(m);
}

/* ---- the pool of a shard ---- */

void gradient_pool_join(struct gradient_pool *p, struct gradient_memory *m, uint64_t floats,
                        struct budget *budget)
{
    floats = floats > 0 ? floats : 1; /* a gradient of rows alone counts as something */
    *p = (struct gradient_pool){.memory = m};
    buffer_pool_init(&p->buffers, floats, SIZE_MAX, budget);
    p->buffers.given_back = given_back;
    pthread_mutex_lock(&m->lock);
    gradient_share_join(&p->share, &m->budget, floats_bytes_max(floats));
    pthread_mutex_unlock(&m->lock);
}

int gradient_pool_reserve(struct gradient_pool *p, size_t count, struct err *err)
{
    struct gradient_memory *m = p->memory;
    pthread_mutex_lock(&m->lock);
    uint64_t before = p->share.reserve;
    int rc = gradient_share_reserve(&p->share, count, err);
    pthread_mutex_unlock(&m->lock);
    if (rc != 0) {
        return rc;
    }
    rc = buffer_pool_reserve(&p->buffers, count, "gradients", err);
    pthread_mutex_lock(&m->lock);
    gradient_share_reserved(&p->share, rc == 0, before);
    settle(m);
    return rc;
}

size_t gradient_pool_reserved(const struct gradient_pool *p)
{
    return (size_t)(p->share.reserve / p->share.unit);
}

void gradient_pool_close(struct gradient_pool *p)
{
    struct gradient_memory *m = p->memory;
    pthread_mutex_lock(&m->lock);
    gradient_share_close(&p->share);
    (void)buffer_pool_reserve(&p->buffers, 0, "gradients", NULL);
    trim(p);
    settle(m);
}

void gradient_pool_leave(struct gradient_pool *p)
{
    struct gradient_memory *m = p->memory;
    if (m == NULL) {
        return;
    }
    gradient_pool_close(p);
    pthread_mutex_lock(&m->lock);
    gradient_share_leave(&p->share);
    pthread_mutex_unlock(&m->lock);
    buffer_pool_release(&p->buffers);
}

/* ---- others ---- */

void gradient_view_touched(struct gradient_memory *m, struct gradient_view *v, uint64_t bytes)
{
    pthread_mutex_lock(&m->lock);
    if (bytes > v->bytes) {
        unlist(m, v);
        v->bytes = bytes;
    }
    list(m, v);
    pthread_mutex_unlock(&m->lock);
}

void gradient_view_forget(struct gradient_memory *m, struct gradient_view *v)
{
    pthread_mutex_lock(&m->lock);
    unlist(m, v);
    pthread_mutex_unlock(&m->lock);
}

bool gradient_memory_lend(struct gradient_memory *m, uint64_t bytes)
{
    pthread_mutex_lock(&m->lock);
    bool fit = gradient_budget_lend(&m->budget, bytes);
    if (fit) {
        make_room(m);
    }
    pthread_mutex_unlock(&m->lock);
    return fit;
}

void gradient_memory_take_back(struct gradient_memory *m, uint64_t bytes)
{
    pthread_mutex_lock(&m->lock);
    gradient_budget_take_back(&m->budget, bytes);
    settle(m);
}
