/* SPDX-License-Identifier: Apache-2.0 */
/* The records of an event file that count, by their steps. */
#ifndef GRADUS_TENSORBOARD_EVENT_LIST_H
#define GRADUS_TENSORBOARD_EVENT_LIST_H

#include "tensorboard/event_record.h"

struct event_list { /* zeroed: empty */
    struct event_record *items;
    size_t count, capacity;
    size_t bytes; /* of all whole records that were read */
};

void event_list_add(struct event_list *l, const struct event_record *r);
void event_list_release(struct event_list *l);
/* Reads @file into @l, which is empty. False: it is none of our files. A record that is cut off at
 * the end is left out. */
bool event_list_read(const struct buf *file, struct event_list *l);
/* Appends that what came before with @step or a later one counts no more. @time_ms: Unix time. */
void event_list_restart(int64_t step, int64_t time_ms, struct buf *out);

#endif
