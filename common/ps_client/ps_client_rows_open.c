/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests for rows are open, when a part of one came last, and which of them failed. */
#include "os/chrono.h"
#include "ps_client/ps_client_state.h"

void ps_client_rows_init(struct ps_client *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* as chrono_now_ns() */
    pthread_cond_init(&c->rows_cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&c->rows_mutex, NULL);
}

void ps_client_rows_release(struct ps_client *c)
{
    pthread_cond_destroy(&c->rows_cond);
    pthread_mutex_destroy(&c->rows_mutex);
}

void ps_client_rows_came(struct ps_client *c)
{
    pthread_mutex_lock(&c->rows_mutex);
    c->rows_last_ns = chrono_now_ns();
    pthread_mutex_unlock(&c->rows_mutex);
}

/* True if @code counts more than @than: a version that is gone counts more than a failure that
 * passes. */
static bool is_worse(int code, const struct err *than)
{
    return code != 0 && (than->code == 0 || (code == ERR_RANGE && than->code != ERR_RANGE));
}

void ps_client_rows_over(struct ps_client *c, int code, const char *message)
{
    pthread_mutex_lock(&c->rows_mutex);
    if (c->rows_open > 0) { /* otherwise nobody waits any more */
        c->rows_open--;
        if (is_worse(code, &c->rows_err)) {
            (void)err_set(&c->rows_err, code, "%s", message);
        }
    }
    c->rows_last_ns = chrono_now_ns();
    pthread_cond_broadcast(&c->rows_cond);
    pthread_mutex_unlock(&c->rows_mutex);
}
