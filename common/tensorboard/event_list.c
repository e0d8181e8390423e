/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/event_list.h"

#include <stdlib.h>

#include "base/mem.h"

void event_list_add(struct event_list *l, const struct event_record *r)
{
    l->items = mem_grow(l->items, &l->capacity, l->count + 1, sizeof *l->items);
    l->items[l->count++] = *r;
}

void event_list_release(struct event_list *l)
{
    free(l->items);
    *l = (struct event_list){0};
}

/* Takes one record. False: no file of ours has it. */
static bool take(struct event_list *l, const Tensorboard__Event *event, struct event_record *r)
{
    if (r->at == 0) {
        return event_record_is_version(event);
    }
    if (event->what_case == TENSORBOARD__EVENT__WHAT_SESSION_LOG) {
        while (l->count > 0 && l->items[l->count - 1].step >= event->step) {
            l->count--;
        }
    } else {
        r->step = event->step;
        event_list_add(l, r);
    }
    return true;
}

bool event_list_read(const struct buf *file, struct event_list *l)
{
    struct event_record r;
    Tensorboard__Event *event;
    int read = 0;
    bool ours = true;
    while (ours && l->bytes < file->len &&
           (read = event_record_read(file, l->bytes, &r, &event)) > 0) {
        ours = take(l, event, &r);
        tensorboard__event__free_unpacked(event, NULL);
        l->bytes += r.bytes;
    }
    return ours && read >= 0;
}

void event_list_restart(int64_t step, int64_t time_ms, struct buf *out)
{
    Tensorboard__SessionLog log = TENSORBOARD__SESSION_LOG__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    log.status = TENSORBOARD__SESSION_LOG__SESSION_STATUS__START;
    event.wall_time = (double)time_ms / 1000;
    event.step = step;
    event.what_case = TENSORBOARD__EVENT__WHAT_SESSION_LOG;
    event.session_log = &log;
    (void)event_record_add(&event, out);
}
