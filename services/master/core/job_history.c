/* SPDX-License-Identifier: Apache-2.0 */
/* What was changed of a job since it was submitted: its eras, which shards and workers are told,
 * and the list that clients see. Nothing here is sent or stored. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/job_record.h"

static void forget_eras(struct job_history *h, size_t from)
{
    while (h->era_count > from) {
        free(h->eras[--h->era_count].update);
    }
}

static void forget_change(struct job_revision *c)
{
    free(c->by);
    job_names_clear(&c->sets);
    free(c->sets.items);
}

void job_history_release(struct job_history *h)
{
    forget_eras(h, 0);
    free(h->eras);
    for (size_t i = 0; i < h->change_count; i++) {
        forget_change(&h->changes[i]);
    }
    free(h->changes);
    *h = (struct job_history){0};
}

void job_history_add_era(struct job_history *h, uint64_t version, const char *update)
{
    h->eras = mem_grow(h->eras, &h->era_capacity, h->era_count + 1, sizeof *h->eras);
    h->eras[h->era_count++] = (struct job_era){version, mem_strdup(update)};
}

void job_history_add(struct job_history *h, const struct job_revision *change)
{
    if (h->change_count == JOB_CHANGES_MAX) {
        forget_change(&h->changes[0]);
        memmove(h->changes, h->changes + 1, --h->change_count * sizeof *h->changes);
    }
    h->changes = mem_grow(h->changes, &h->change_capacity, h->change_count + 1, sizeof *h->changes);
    struct job_revision *c = &h->changes[h->change_count++];
    *c = *change;
    c->by = mem_strdup(change->by);
    c->sets = (struct job_names){0};
    for (size_t i = 0; i < change->sets.count; i++) {
        job_names_add(&c->sets, change->sets.items[i]);
    }
}

void job_history_copy(struct job_history *to, const struct job_history *from)
{
    *to = (struct job_history){0};
    for (size_t i = 0; i < from->era_count; i++) {
        job_history_add_era(to, from->eras[i].version, from->eras[i].update);
    }
    for (size_t i = 0; i < from->change_count; i++) {
        job_history_add(to, &from->changes[i]);
    }
}

/* One era is none: the job's file says all of it. */
static void settle(struct job_history *h)
{
    if (h->era_count == 1) {
        forget_eras(h, 0);
    }
}

void job_history_update(struct job_history *h, uint64_t version, const char *from, const char *to)
{
    if (strcmp(from, to) == 0) {
        return;
    }
    if (h->era_count == 0) {
        job_history_add_era(h, 0, from);
    }
    while (h->era_count > 0 && h->eras[h->era_count - 1].version >= version &&
           !MUTANT(eras_pile_up)) {
        forget_eras(h, h->era_count - 1);
    }
    if (h->era_count == 0 || strcmp(h->eras[h->era_count - 1].update, to) != 0) {
        job_history_add_era(h, h->era_count == 0 ? 0 : version, to);
    }
    settle(h);
}

bool job_history_start(struct job_history *h, uint64_t version, uint64_t step)
{
    bool some = false;
    for (size_t i = 0; i < h->change_count; i++) {
        struct job_revision *c = &h->changes[i];
        if (c->version == ERA_NEXT_START) {
            c->version = version;
            c->step = step;
            some = true;
        }
    }
    if (h->era_count == 0 || h->eras[h->era_count - 1].version != ERA_NEXT_START) {
        return some;
    }
    struct job_era *last = &h->eras[--h->era_count];
    char *update = last->update;
    last->update = NULL;
    job_history_update(h, version, "", update);
    free(update);
    return true;
}
