/* SPDX-License-Identifier: Apache-2.0 */
/* The job's thread on rows of tables: asked for of several shards at once, and waited for by the
 * job's thread. What comes lands in the caller's arrays, on the threads of the streams. */

#include "os/chrono.h"
#include "ps_client/ps_client_state.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S (1000 * NS_PER_MS)

void ps_client_rows_begin(struct ps_client *c, const struct ps_client_request *request)
{
    pthread_mutex_lock(&c->rows_mutex);
    c->rows_open++;
    c->rows_last_ns = chrono_now_ns();
    pthread_mutex_unlock(&c->rows_mutex);
    ps_client_exchange(c, request);
}

/* Gives up open exchanges: their rows land nowhere, and nobody hears of them. */
static void give_up(struct shard_link *link)
{
    pthread_mutex_lock(&link->mutex);
    while (link->landing) {
        pthread_cond_wait(&link->landed, &link->mutex);
    }
    for (struct pending *p = link->open; p != NULL; p = p->next) {
        p->detached = p->detached || p->rows;
    }
    pthread_mutex_unlock(&link->mutex);
}

/* Waits a while; false: nothing came for too long. Under the mutex. */
static bool wait_some(struct ps_client *c)
{
    const uint64_t until_ns = c->rows_last_ns + PS_CLIENT_STALL_MS_MAX * NS_PER_MS;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                   .tv_nsec = (long)(until_ns % NS_PER_S)};
    (void)pthread_cond_timedwait(&c->rows_cond, &c->rows_mutex, &until);
    return c->rows_open == 0 ||
           chrono_now_ns() < c->rows_last_ns + PS_CLIENT_STALL_MS_MAX * NS_PER_MS;
}

int ps_client_rows_wait(struct ps_client *c, struct err *err)
{
    ps_client_stop_polling(c);
    pthread_mutex_lock(&c->rows_mutex);
    bool comes = true;
    while (c->rows_open > 0 && comes) {
        comes = wait_some(c);
    }
    if (!comes) {
        if (c->rows_err.code == 0) {
            (void)err_set(&c->rows_err, ERR_UNAVAILABLE, "%zu shards sent no rows for %d s",
                          c->rows_open, PS_CLIENT_STALL_MS_MAX / 1000);
        }
        c->rows_open = 0;
    }
    int rc = c->rows_err.code;
    if (rc != 0) {
        (void)err_set(err, rc, "%s", c->rows_err.msg);
    }
    c->rows_err.code = 0; /* only here: one may be refused before the next is begun */
    pthread_mutex_unlock(&c->rows_mutex);
    for (uint32_t s = 0; s < c->link_count && !comes; s++) {
        give_up(&c->links[s]);
    }
    return rc;
}
