/* SPDX-License-Identifier: Apache-2.0 */
/* The core gets its events here, with the time; shell->act() carries out its actions. Only the
 * thread of one loop gives it events. */
#include "master/shell/shell.h"
#include "os/chrono.h"

static void on_timer(void *ctx)
{
    struct master_event e = {.kind = MASTER_TICK};
    shell_event(ctx, &e);
}

static void step(struct shell *s, struct master_event *e)
{
    e->now_ms = chrono_now_ms();
    e->wall_ms = chrono_wall_ms();
    master_step(s->master, e, &s->actions);
    meter_add(s->meters.events, 1);
    s->act(s);
}

void shell_event(struct shell *s, struct master_event *e)
{
    if (atomic_load(&s->ending)) {
        return;
    }
    step(s, e);
    for (size_t i = 0; i < s->row_count; i++) { /* carrying out one answer may store more rows */
        struct shell_row row = s->rows[i];
        struct master_event stored = {.kind = MASTER_STORED};
        stored.stored =
            (struct master_stored){row.job, row.row, row.err.code == 0 ? NULL : &row.err};
        step(s, &stored);
    }
    s->row_count = 0;
    shell_meters_changed(s);
    if (s->actions.timer_ms == UINT64_MAX) {
        loop_timer_clear(s->loop, &s->timer);
    } else {
        loop_timer_set(s->loop, &s->timer, s->actions.timer_ms, on_timer, s);
    }
}
