/* SPDX-License-Identifier: Apache-2.0 */
/* Records of TensorBoard's event files: one event each, with check sums. */
#ifndef GRADUS_TENSORBOARD_EVENT_RECORD_H
#define GRADUS_TENSORBOARD_EVENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tensorboard/event.pb-c.h"

struct event_record {
    int64_t step;
    uint32_t sum;     /* of the packed event */
    size_t at, bytes; /* of the whole record, in its buffer */
};

struct event_record event_record_add(const Tensorboard__Event *event, struct buf *out);
/* The first record of each file. @time_ms: Unix time. */
void event_record_add_version(int64_t time_ms, struct buf *out);

/* Reads the record that begins at @at. Returns 1 with *@event, the caller's to free with
 * tensorboard__event__free_unpacked(), and all of *@record but the step; 0 when the file ends
 * before the record does; -1 when the bytes are no record. */
int event_record_read(const struct buf *file, size_t at, struct event_record *record,
                      Tensorboard__Event **event);
/* Is it what event_record_add_version() writes? */
bool event_record_is_version(const Tensorboard__Event *event);

#endif
