/* SPDX-License-Identifier: Apache-2.0 */
/* Removes rows of jobs that have ended, so that they do not grow for ever. Jobs in memory stay: the
 * core may write their rows again, and clients see them. So does, for an hour, a job that has just
 * ended: its submitter may ask once more, by the id or with the same request. */
#include <inttypes.h>

#include "master/shell/shell.h"
#include "os/chrono.h"
#include "os/log.h"

#define AGAIN_MS 600000
#define MORE_MS 1000 /* pause while there may be more rows to remove */
#define SETTLED_MS 3600000
#define PASSES_MAX 1000 /* at the start */

/* Returns how many went. */
static size_t trim_once(struct shell *s)
{
    int64_t now_ms = chrono_wall_ms(), age_ms = s->settings->finished_rows_age;
    const struct store_trim what = {
        .listed = (size_t)s->settings->finished_max,
        .rows_max = (size_t)s->settings->finished_rows_max,
        .old_ms = age_ms > 0 ? now_ms - age_ms : INT64_MIN,
        .settled_ms = now_ms - SETTLED_MS,
        .now_ms = now_ms,
    };
    struct err err = {0};
    char quoted[1200];
    size_t removed = 0;
    if (s->store->ops->trim(s->store, &what, &removed, &err) < 0) {
        log_warn("jobs_not_forgotten", "reason=%s", log_quote(err.msg, quoted, sizeof quoted));
    } else if (removed > 0) {
        log_info("jobs_forgotten", "jobs=%zu rows_max=%" PRId64 " age_ms=%" PRId64, removed,
                 s->settings->finished_rows_max, age_ms);
    }
    return removed;
}

void shell_trim(struct shell *s)
{
    for (int i = 0; i < PASSES_MAX && trim_once(s) >= STORE_TRIM_MAX; i++) {
    }
}

static void on_time(void *ctx)
{
    struct shell *s = ctx;
    bool more = trim_once(s) >= STORE_TRIM_MAX;
    loop_timer_set(s->loop, &s->trim_timer, chrono_now_ms() + (more ? MORE_MS : AGAIN_MS), on_time,
                   s);
}

void shell_trim_begin(struct shell *s)
{
    loop_timer_set(s->loop, &s->trim_timer, chrono_now_ms() + AGAIN_MS, on_time, s);
}
