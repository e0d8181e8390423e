/* SPDX-License-Identifier: Apache-2.0 */
/* A node: its jobs, and what it says that it is at. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "base/text.h"
#include "master/core/core.h"

struct node *node_named(struct master *m, const char *id)
{
    return name_index_find(&m->node_index, id);
}

static void unlink_node(struct master *m, struct node *n)
{
    *(n->heard_before == NULL ? &m->heard_first : &n->heard_before->heard_after) = n->heard_after;
    *(n->heard_after == NULL ? &m->heard_last : &n->heard_after->heard_before) = n->heard_before;
}

static void link_last(struct master *m, struct node *n)
{
    n->heard_before = m->heard_last;
    n->heard_after = NULL;
    *(m->heard_last == NULL ? &m->heard_first : &m->heard_last->heard_after) = n;
    m->heard_last = n;
}

const char *node_role_name(enum master_role role)
{
    static const char *const NAMES[] = {"", "ps", "worker"};
    return NAMES[role];
}

static void name_node(struct master *m, struct node *n, const char *wanted)
{
    if (wanted[0] != '\0') {
        n->id = mem_strdup(wanted);
        return;
    }
    do {
        free(n->id);
        n->id = mem_printf("%s-%" PRIu64, node_role_name(n->role), ++m->next_name[n->role]);
    } while (node_named(m, n->id) != NULL);
}

static void node_lives(struct master *m, struct node *n)
{
    n->alive = true;
    n->heartbeat_ms = m->now_ms;
    m->alive[n->role]++;
    link_last(m, n);
}

struct node *node_add(struct master *m, const struct node_identity *is, const char *wanted)
{
    struct node *n = mem_new(1, sizeof *n);
    *n = (struct node){
        .number = ++m->next_number,
        .role = is->role,
        .incarnation = is->incarnation,
        .pid = is->pid,
        .address = mem_strdup(is->address),
        .http_address = mem_strdup(is->http_address),
        .version = mem_strdup(is->version),
        .host = mem_strdup(is->host),
        .joined_wall_ms = m->wall_ms,
    };
    name_node(m, n, wanted);
    name_index_put(&m->node_index, n->id, n);
    node_lives(m, n);
    m->nodes = mem_grow(m->nodes, &m->node_capacity, m->node_count + 1, sizeof(struct node *));
    m->nodes[m->node_count++] = n;
    return n;
}

void node_heard(struct master *m, struct node *n)
{
    if (node_is_late(m, n, m->now_ms) && !MUTANT(silence_is_deafness)) {
        calls_silent(&m->calls, n, m->now_ms - n->heartbeat_ms, m->now_ms);
    }
    n->heartbeat_ms = m->now_ms;
    n->unheard = false;
    unlink_node(m, n);
    link_last(m, n);
}

void node_dies(struct master *m, struct node *n)
{
    n->alive = false;
    m->alive[n->role]--;
    unlink_node(m, n);
    m->dead_ms =
        m->dead_count++ == 0 || n->heartbeat_ms < m->dead_ms ? n->heartbeat_ms : m->dead_ms;
}

struct node *node_find(struct master *m, const char *id, uint64_t incarnation)
{
    struct node *n = node_named(m, id);
    return n != NULL && n->alive && n->incarnation == incarnation ? n : NULL;
}

bool node_serves(const struct node *n, const struct job *j)
{
    for (size_t i = 0; i < n->job_count; i++) {
        if (n->jobs[i] == j) {
            return true;
        }
    }
    return false;
}

void node_take(struct node *n, struct job *j)
{
    if (!node_serves(n, j)) {
        n->jobs[n->job_count++] = j;
    }
}

void node_drop(struct master *m, struct node *n, struct job *j)
{
    for (size_t i = 0; i < n->job_count; i++) {
        if (n->jobs[i] == j) {
            n->jobs[i] = n->jobs[--n->job_count];
            for (size_t k = 0; k < n->job_count; k++) {
                n->jobs[k]->workers_fit = 0; /* a shard that did not fit beside it may fit now */
            }
            m->reschedule = true;
            return;
        }
    }
}

void node_free(struct node *n)
{
    free(n->id);
    free(n->address);
    free(n->http_address);
    free(n->version);
    free(n->host);
    free(n);
}

static const struct node_work *find_work(const struct node_work *works, size_t count,
                                         const struct master_work *w)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(works[i].job, w->job) == 0 && strcmp(works[i].what, w->what) == 0) {
            return &works[i];
        }
    }
    return NULL;
}

void node_works(struct node *n, const struct master_event *e)
{
    struct node_work old[MASTER_WORKS_MAX];
    size_t count = n->work_count;
    memcpy(old, n->works, count * sizeof *old);
    n->work_count = 0;
    for (size_t i = 0; i < e->node.work_count && i < MASTER_WORKS_MAX; i++) {
        const struct master_work *w = &e->node.works[i];
        const struct node_work *before = find_work(old, count, w);
        struct node_work *now = &n->works[n->work_count++];
        *now = (struct node_work){.done = w->done, .total = w->total, .moved_ms = e->now_ms};
        text_copy(now->job, sizeof now->job, w->job);
        text_copy(now->what, sizeof now->what, w->what);
        text_copy(now->unit, sizeof now->unit, w->unit);
        now->since_ms = e->now_ms > w->age_ms ? e->now_ms - w->age_ms : 0;
        if (before != NULL && w->total > 0 && before->done == w->done) {
            now->moved_ms = before->moved_ms;
        }
    }
}
