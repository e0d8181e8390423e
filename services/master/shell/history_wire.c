/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the history of a job into messages, which nodes, clients and the store get, and back. */
#include "master/shell/history_wire.h"

#include <stdlib.h>

#include "base/mem.h"

void era_wire_init(struct era_wire *w, const struct job_era *eras, size_t count)
{
    w->items = mem_new(count + 1, sizeof *w->items);
    w->list = mem_new(count + 1, sizeof *w->list);
    for (size_t i = 0; i < count; i++) {
        gradus__v1__era__init(&w->items[i]);
        w->items[i].version = eras[i].version;
        w->items[i].update = eras[i].update;
        w->list[i] = &w->items[i];
    }
}

void era_wire_release(struct era_wire *w)
{
    free(w->items);
    free(w->list);
    *w = (struct era_wire){0};
}

void change_wire_init(struct change_wire *w, const struct job_history *h)
{
    w->items = mem_new(h->change_count + 1, sizeof *w->items);
    w->list = mem_new(h->change_count + 1, sizeof *w->list);
    for (size_t i = 0; i < h->change_count; i++) {
        const struct job_revision *from = &h->changes[i];
        Gradus__V1__JobChange *to = &w->items[i];
        gradus__v1__job_change__init(to);
        to->time_ms = from->time_ms;
        to->by = from->by;
        to->step = from->step;
        to->version = from->version;
        to->n_sets = from->sets.count;
        to->sets = from->sets.items;
        w->list[i] = to;
    }
}

void change_wire_release(struct change_wire *w)
{
    free(w->items);
    free(w->list);
    *w = (struct change_wire){0};
}

void history_from_proto(const Gradus__V1__Job *j, struct job_history *h)
{
    for (size_t i = 0; i < j->n_eras; i++) {
        job_history_add_era(h, j->eras[i]->version, j->eras[i]->update);
    }
    for (size_t i = 0; i < j->n_changes; i++) {
        const Gradus__V1__JobChange *from = j->changes[i];
        job_history_add(
            h, &(struct job_revision){.time_ms = from->time_ms,
                                      .by = from->by,
                                      .step = from->step,
                                      .version = from->version,
                                      .sets = {.items = from->sets, .count = from->n_sets}});
    }
}
