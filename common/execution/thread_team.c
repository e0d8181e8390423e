/* SPDX-License-Identifier: Apache-2.0 */
/* A parallel for. Threads take rounds by one atomic counter and mark each finished round in an
 * array; the thread that brought the loop reports the unbroken run of finished rounds. */
#include "execution/thread_team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/thread.h"

/* The loop that is running. */
struct loop_work {
    void (*one)(void *ctx, size_t i);
    void *ctx;
    size_t count;
    atomic_size_t next; /* to be begun */
    atomic_uchar *over; /* [count] */
    size_t capacity;
};

struct thread_team {
    pthread_mutex_t loop; /* held by the thread that uses the team */
    pthread_mutex_t lock; /* guards what has no other owner */
    pthread_cond_t wake;  /* for helpers: there is a loop */
    pthread_cond_t ended; /* the bringer: a round is over, a helper is out */
    struct loop_work work;
    bool open;           /* helpers may join the loop */
    unsigned inside;     /* helpers that have */
    atomic_bool waiting; /* the bringer, for rounds that helpers have begun */
    bool ending;
    pthread_t *threads;
    unsigned thread_count;
};

/* Does one round, if one is left to begin. */
static bool do_one(struct loop_work *w)
{
    size_t i = atomic_fetch_add(&w->next, 1);
    if (i >= w->count) {
        return false;
    }
    w->one(w->ctx, i);
    atomic_store(&w->over[i], 1);
    return true;
}

static void tell_bringer(struct thread_team *c)
{
    if (atomic_load(&c->waiting)) {
        pthread_mutex_lock(&c->lock);
        pthread_cond_signal(&c->ended);
        pthread_mutex_unlock(&c->lock);
    }
}

static void *help(void *arg)
{
    struct thread_team *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->ending) {
        if (!c->open || atomic_load(&c->work.next) >= c->work.count) {
            pthread_cond_wait(&c->wake, &c->lock);
            continue;
        }
        c->inside++;
        pthread_mutex_unlock(&c->lock);
        while (do_one(&c->work)) {
            tell_bringer(c);
        }
        pthread_mutex_lock(&c->lock);
        c->inside--;
        pthread_cond_signal(&c->ended);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct thread_team *thread_team_new(unsigned helpers, const char *name, struct err *err)
{
    if (helpers > THREAD_TEAM_HELPERS_MAX) {
        (void)err_set(err, ERR_RANGE, "thread team %s: %u helpers; at most %d", name, helpers,
                      THREAD_TEAM_HELPERS_MAX);
        return NULL;
    }
    struct thread_team *c = mem_new(1, sizeof *c);
    c->threads = mem_new(helpers + 1, sizeof c->threads[0]);
    pthread_mutex_init(&c->loop, NULL);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    pthread_cond_init(&c->ended, NULL);
    while (c->thread_count < helpers) {
        int rc = thread_start(&c->threads[c->thread_count], name, help, c);
        if (rc != 0) {
            (void)err_errno(err, rc, "start thread %u of thread team %s", c->thread_count, name);
            thread_team_free(c);
            return NULL;
        }
        c->thread_count++;
    }
    return c;
}

void thread_team_free(struct thread_team *c)
{
    if (c == NULL) {
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->thread_count; i++) {
        (void)pthread_join(c->threads[i], NULL);
    }
    pthread_cond_destroy(&c->ended);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->loop);
    free(c->work.over);
    free(c->threads);
    free(c);
}

unsigned thread_team_size(const struct thread_team *c)
{
    return c->thread_count + 1;
}

/* ---- a loop ---- */

static void run_alone(size_t count, void (*one)(void *ctx, size_t i),
                      void (*done)(void *ctx, size_t n), void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        one(ctx, i);
        if (done != NULL) {
            done(ctx, i + 1);
        }
    }
}

static void begin(struct thread_team *c, size_t count, void (*one)(void *ctx, size_t i), void *ctx)
{
    struct loop_work *w = &c->work;
    w->over = mem_grow(w->over, &w->capacity, count, sizeof *w->over);
    memset(w->over, 0, count * sizeof *w->over); /* no other thread sees it yet */
    pthread_mutex_lock(&c->lock);
    w->one = one;
    w->ctx = ctx;
    w->count = count;
    atomic_store(&w->next, 0);
    c->open = true;
    for (size_t i = 0; i < c->thread_count && i + 1 < count; i++) {
        pthread_cond_signal(&c->wake);
    }
    pthread_mutex_unlock(&c->lock);
}

/* The end of the rounds that are over without a gap, from @from on. */
static size_t over_up_to(const struct loop_work *w, size_t from)
{
    while (from < w->count && atomic_load(&w->over[from])) {
        from++;
    }
    return from;
}

/* Until round @from is over, too; returns how far the loop is then. */
static size_t wait_past(struct thread_team *c, size_t from)
{
    size_t n = over_up_to(&c->work, from);
    if (n > from) {
        return n;
    }
    atomic_store(&c->waiting, true);
    pthread_mutex_lock(&c->lock);
    while ((n = over_up_to(&c->work, from)) == from) {
        pthread_cond_wait(&c->ended, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->waiting, false);
    return n;
}

static void end(struct thread_team *c)
{
    pthread_mutex_lock(&c->lock);
    c->open = false;
    while (c->inside > 0) {
        pthread_cond_wait(&c->ended, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

void parallel_for(struct thread_team *c, size_t count, void (*one)(void *ctx, size_t i),
                  void (*done)(void *ctx, size_t n), void *ctx)
{
    if (count < 2 || c->thread_count == 0 || pthread_mutex_trylock(&c->loop) != 0) {
        run_alone(count, one, done, ctx);
        return;
    }
    begin(c, count, one, ctx);
    size_t told = 0;
    for (bool more = true; told < count;) {
        more = more && do_one(&c->work);
        size_t n = more ? over_up_to(&c->work, told) : wait_past(c, told);
        if (n > told && done != NULL) {
            done(ctx, n);
        }
        told = n;
    }
    end(c);
    pthread_mutex_unlock(&c->loop);
}
