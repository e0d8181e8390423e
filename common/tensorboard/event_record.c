/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/event_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"

#define VERSION "brain.Event:2"
#define HEAD_BYTES 12 /* length and its check sum */
#define TAIL_BYTES 4  /* check sum of the data */

static uint64_t little(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = n; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

static void add_little(uint64_t v, unsigned n, struct buf *out)
{
    for (unsigned i = 0; i < n; i++) {
        buf_add_char(out, (char)(uint8_t)(v >> (8 * i)));
    }
}

/* Numbers are little-endian. */
struct event_record event_record_add(const Tensorboard__Event *event, struct buf *out)
{
    const size_t n = tensorboard__event__get_packed_size(event);
    uint8_t *data = mem_new(n + 1, 1);
    struct event_record r = {
        .step = event->step, .at = out->len, .bytes = HEAD_BYTES + n + TAIL_BYTES};
    (void)tensorboard__event__pack(event, data);
    r.sum = crc32c_masked(data, n);
    add_little(n, 8, out);
    add_little(crc32c_masked(out->data + r.at, 8), 4, out);
    buf_add(out, data, n);
    add_little(r.sum, 4, out);
    free(data);
    return r;
}

void event_record_add_version(int64_t time_ms, struct buf *out)
{
    char version[] = VERSION;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = (double)time_ms / 1000;
    event.what_case = TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    (void)event_record_add(&event, out);
}

int event_record_read(const struct buf *file, size_t at, struct event_record *record,
                      Tensorboard__Event **event)
{
    const uint8_t *head = (const uint8_t *)file->data + at;
    const size_t there = file->len - at;
    if (there < HEAD_BYTES + TAIL_BYTES) {
        return 0;
    }
    const uint64_t n = little(head, 8);
    if (little(head + 8, 4) != crc32c_masked(head, 8)) {
        return -1;
    }
    if (n > there - HEAD_BYTES - TAIL_BYTES) {
        return 0;
    }
    const uint8_t *data = head + HEAD_BYTES;
    *record = (struct event_record){.sum = crc32c_masked(data, (size_t)n),
                                    .at = at,
                                    .bytes = HEAD_BYTES + (size_t)n + TAIL_BYTES};
    if (little(data + n, 4) != record->sum) {
        return -1;
    }
    *event = tensorboard__event__unpack(NULL, (size_t)n, data);
    return *event == NULL ? -1 : 1;
}

bool event_record_is_version(const Tensorboard__Event *event)
{
    return event->what_case == TENSORBOARD__EVENT__WHAT_FILE_VERSION &&
           strcmp(event->file_version, VERSION) == 0;
}
