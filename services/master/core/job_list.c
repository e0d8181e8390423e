/* SPDX-License-Identifier: Apache-2.0 */
/* All jobs of the master, by name and in the order of submission; and the live ones, at which an
 * event looks. Whatever changes a job makes it live again. */
#include <string.h>

#include "base/mem.h"
#include "master/core/core.h"

struct job *job_find(struct master *m, const char *id)
{
    return name_index_find(&m->job_index, id);
}

size_t jobs_open(const struct master *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->live_count; i++) {
        count += !job_state_is_final(m->live[i]->record.state);
    }
    return count;
}

/* Into the list of the live ones, at its place. */
static void wake(struct job *j)
{
    struct master *m = j->master;
    if (j->live) {
        return;
    }
    m->live = mem_grow(m->live, &m->live_capacity, m->live_count + 1, sizeof(struct job *));
    size_t i = m->live_count++;
    for (; i > 0 && m->live[i - 1]->place > j->place; i--) {
        m->live[i] = m->live[i - 1];
    }
    m->live[i] = j;
    j->live = true;
}

struct job *job_new(struct master *m)
{
    struct job *j = mem_new(1, sizeof *j);
    m->jobs = mem_grow(m->jobs, &m->job_capacity, m->job_count + 1, sizeof(struct job *));
    m->jobs[m->job_count++] = j;
    j->master = m;
    j->place = ++m->job_places;
    wake(j);
    return j;
}

void job_named(struct master *m, struct job *j)
{
    name_index_put(&m->job_index, j->record.id, j);
}

static void take_out(struct job **list, size_t *count, const struct job *j)
{
    size_t i = 0;
    while (list[i] != j) {
        i++;
    }
    memmove(list + i, list + i + 1, (*count - i - 1) * sizeof(struct job *));
    (*count)--;
}

void job_rest(struct master *m, struct job *j)
{
    take_out(m->live, &m->live_count, j);
    j->live = false;
    job_record_set(&j->record.activity, "");
}

void job_take_out(struct master *m, struct job *j)
{
    if (j->live) {
        job_rest(m, j);
    }
    m->swept_count -= j->swept;
    name_index_remove(&m->job_index, j->record.id);
    take_out(m->jobs, &m->job_count, j);
}

void job_changed(struct job *j)
{
    wake(j);
    j->changed = true;
    j->master->changed = true;
}

void job_touch(struct job *j)
{
    wake(j);
    j->touched = true;
    j->master->touched = true;
}
