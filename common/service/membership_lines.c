/* SPDX-License-Identifier: Apache-2.0 */
#include "service/membership_lines.h"

#include <stdlib.h>

#include "base/mem.h"
#include "os/log_tail.h"

struct membership_lines *membership_lines_new(void)
{
    static char levels[][6] = {"DEBUG", "INFO", "WARN", "ERROR"};
    struct membership_lines *l = mem_new(1, sizeof *l);
    l->read = mem_new(LOG_TAIL_LINES, sizeof *l->read);
    l->count = log_tail_read(l->read, LOG_TAIL_LINES, MEMBERSHIP_LINES_BYTES_MAX);
    l->items = mem_new(l->count + 1, sizeof *l->items);
    l->list = mem_new(l->count + 1, sizeof *l->list);
    for (size_t i = 0; i < l->count; i++) {
        const struct log_tail_line *from = &l->read[i];
        Gradus__V1__NodeLine *to = l->list[i] = &l->items[i];
        gradus__v1__node_line__init(to);
        to->number = l->last = from->number;
        to->time_ms = from->time_ms;
        to->level = levels[from->level];
        to->job = from->job;
        to->event = from->event;
        to->text = from->text;
        to->lost = from->lost;
    }
    return l;
}

void membership_lines_free(struct membership_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        log_tail_release(&lines->read[i]);
    }
    free(lines->read);
    free(lines->items);
    free(lines->list);
    free(lines);
}
