/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are delivered with the first of their values, while the rest is still on its way: a
 * computation may begin with the first layers.
 *
 * What is left of such an answer, its tail, is checked as the whole would be. It belongs to the
 * stream's callbacks like any open exchange; the job's thread only reads the array that it lands
 * in, below what it was told has landed. */
#include <errno.h>
#include <inttypes.h>

#include "base/text.h"
#include "os/chrono.h"
#include "ps_client/ps_client_state.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S (1000 * NS_PER_MS)

void ps_client_tail_init(struct shard_link *link)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* as chrono_now_ns() */
    pthread_cond_init(&link->landed, &attr);
    pthread_condattr_destroy(&attr);
}

void ps_client_tail_release(struct shard_link *link)
{
    pthread_cond_destroy(&link->landed);
}

/* ---- called in the stream's callbacks ---- */

void ps_client_tail_landed(struct shard_link *link, const struct pending *p)
{
    if (link->tail.pending == p) {
        link->tail.landed = p->received;
    }
    pthread_cond_broadcast(&link->landed);
}

void ps_client_tail_end(struct shard_link *link, struct pending *p)
{
    struct tail *t = &link->tail;
    if (t->pending == p && p->answer.code == 0) {
        *t = (struct tail){0};
    } else if (t->pending == p) {
        t->pending = NULL;
        text_copy(t->message, sizeof t->message, p->answer.message);
    }
    p->next = link->spare;
    link->spare = p;
    pthread_cond_broadcast(&link->landed);
}

/* ---- the job's thread ---- */

void ps_client_tail_detach(struct shard_link *link, const float *values)
{
    struct tail *t = &link->tail;
    if (values == NULL || t->values != values) {
        return;
    }
    while (link->landing) { /* another thread is at it, and goes on */
        pthread_cond_wait(&link->landed, &link->mutex);
    }
    if (t->pending != NULL) {
        t->pending->detached = true;
    }
    *t = (struct tail){0};
}

/* Under the mutex, as all here. */
static bool is_there(const struct shard_link *link, const float *values, size_t variable)
{
    return link->tail.values != values || link->tail.landed >= link->variable_ends[variable];
}

uint64_t ps_client_patience_ns(uint64_t gap_ns)
{
    uint64_t ns = 4 * gap_ns;
    uint64_t least = PS_CLIENT_STALL_MS_MIN * NS_PER_MS;
    uint64_t most = PS_CLIENT_STALL_MS_MAX * NS_PER_MS;
    return ns < least ? least : ns > most ? most : ns;
}

static bool came(const struct shard_link *link, uint64_t landed)
{
    return link->tail.pending == NULL || link->tail.landed != landed || link->cancelled;
}

/* Waits for a message; false: nothing came for too long. It looks several times: when this process
 * stood still itself, with the message already there, that counts as one look. */
static bool wait_for_message(struct shard_link *link)
{
    const uint64_t landed = link->tail.landed;
    const uint64_t look_ns = ps_client_patience_ns(link->gap_ns) / PS_CLIENT_STALL_LOOKS;
    for (int look = 0; look < PS_CLIENT_STALL_LOOKS && !came(link, landed); look++) {
        const uint64_t until_ns = chrono_now_ns() + look_ns;
        const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                       .tv_nsec = (long)(until_ns % NS_PER_S)};
        int rc = 0;
        while (rc != ETIMEDOUT && !came(link, landed)) {
            rc = pthread_cond_timedwait(&link->landed, &link->mutex, &until);
        }
    }
    return came(link, landed);
}

static int link_wait(struct shard_link *link, const float *values, size_t variable, struct err *err)
{
    while (!is_there(link, values, variable)) {
        ps_client_stop_polling(link->client);
        if (link->cancelled) {
            return err_set(err, ERR_UNAVAILABLE, "shard %" PRIu32 ": cancelled", link->shard);
        }
        if (link->tail.pending == NULL) {
            return err_set(err, ERR_UNAVAILABLE, "shard %" PRIu32 " sent a part of its values: %s",
                           link->shard, link->tail.message);
        }
        if (!wait_for_message(link)) {
            return err_set(err, ERR_UNAVAILABLE,
                           "shard %" PRIu32 " sent %" PRIu64 " of %" PRIu64
                           " values and then nothing",
                           link->shard, link->tail.landed, link->elements);
        }
    }
    return 0;
}

bool ps_client_has_values(struct ps_client *c, const float *values, size_t variable)
{
    bool all = true;
    for (uint32_t s = 0; s < c->link_count && all; s++) {
        pthread_mutex_lock(&c->links[s].mutex);
        all = is_there(&c->links[s], values, variable);
        pthread_mutex_unlock(&c->links[s].mutex);
    }
    return all;
}

int ps_client_wait_values(struct ps_client *c, const float *values, size_t variable,
                          struct err *err)
{
    int rc = 0;
    for (uint32_t s = 0; s < c->link_count && rc == 0; s++) {
        pthread_mutex_lock(&c->links[s].mutex);
        rc = link_wait(&c->links[s], values, variable, err);
        pthread_mutex_unlock(&c->links[s].mutex);
    }
    return rc;
}
