/* SPDX-License-Identifier: Apache-2.0 */
/* A job begins a call to a node, or sends one again that waited. */
#include "master/core/core.h"

/* A backup has yet to hear that it is the primary now. */
static bool is_taken_over(const struct job *j)
{
    bool some = false;
    for (size_t i = 0; i < j->shard_count; i++) {
        some = some || j->shards[i].promote;
    }
    return some;
}

/* True if a call has to wait: for a row to be stored, or for the shards to know the generation; or
 * because its job has lost what the call is about, and leaves its phase when this event is over. */
static bool is_blocked(const struct master *m, const struct call *c)
{
    return job_is_ending(c->job) || (call_has_generation(c->kind) && !row_has_generation(c->job)) ||
           (c->kind == MASTER_CALL_UNPIN && !row_has_let_go(c->job)) ||
           (call_follows_generation(c->kind) &&
            calls_open(&m->calls, c->job, MASTER_CALL_MEMBERSHIP) > 0) ||
           ((call_follows_generation(c->kind) || c->kind == MASTER_CALL_EVALUATE) &&
            is_taken_over(c->job));
}

/* What was opened already is closed for a newer generation: it is asked for in its own. */
static uint64_t generation_of(const struct call *c)
{
    const bool again = c->kind == MASTER_CALL_OPEN && c->generation != 0;
    return again ? c->generation : c->job->record.generation;
}

void call_send(struct master *m, struct call *c)
{
    if (is_blocked(m, c)) {
        call_wait(c);
        return;
    }
    call_sent(c, ++m->next_number, generation_of(c), m->now_ms);
    m->counts.calls++;
    struct master_action *action = action_add(m, MASTER_CALL);
    action->call = (struct master_call){
        .number = c->number,
        .kind = c->kind,
        .node = c->node->id,
        .address = c->node->address,
        .incarnation = c->node->incarnation,
        .job = c->job->record.id,
        .fence = fence_of(c->job, c->opening),
        .generation = c->generation,
        .text = c->job->record.text,
    };
    call_build(m, c, &action->call);
}

void call_again(struct master *m, struct call *c)
{
    call_wait(c); /* while it may not be sent its node owes no answer */
    c->due_ms = is_blocked(m, c) ? UINT64_MAX : m->now_ms;
}

static void start(struct master *m, const struct call *c)
{
    call_send(m, calls_add(&m->calls, c));
}

/* The number of the newest StartJob. Numbers rise within the life of a master; the next master
 * takes the job up with a generation that is higher than all stored ones, and calls are sent for
 * stored generations only. */
static uint64_t newest_start(const struct job *j)
{
    uint64_t earlier = j->record.generation << 32;
    return j->start_last > earlier ? j->start_last : earlier;
}

void call_start(struct master *m, struct job *j, struct node *n, enum master_call_kind kind,
                uint32_t index)
{
    struct call c = {.kind = kind, .job = j, .job_id = j->record.id, .node = n, .index = index};
    if (call_is_to_shard(kind)) {
        c.opening = j->shards[index].opening;
    }
    if (kind == MASTER_CALL_START) {
        j->start_last = newest_start(j) + 1;
        job_worker_of(j, n)->start = j->start_last;
    } else if (kind == MASTER_CALL_STOP) {
        c.start = newest_start(j);
    }
    start(m, &c);
}

void call_start_backup(struct master *m, struct job *j, uint32_t shard)
{
    const struct shard_backup *b = &j->shards[shard].backup;
    start(m, &(struct call){.kind = MASTER_CALL_OPEN,
                            .job = j,
                            .job_id = j->record.id,
                            .node = b->node,
                            .index = shard,
                            .backup = true,
                            .opening = b->opening});
}

void call_start_close(struct master *m, struct job *j, struct node *n, uint32_t shard,
                      uint64_t opening)
{
    start(m, &(struct call){.kind = MASTER_CALL_CLOSE,
                            .job = j,
                            .job_id = j->record.id,
                            .node = n,
                            .index = shard,
                            .opening = opening});
}

void call_start_hold(struct master *m, struct job *j, struct node *n)
{
    start(
        m,
        &(struct call){
            .kind = MASTER_CALL_ASSIGN, .job = j, .job_id = j->record.id, .node = n, .hold = true});
}

void calls_unblock(struct master *m, const struct job *j)
{
    for (size_t i = 0; i < m->calls.count; i++) {
        struct call *c = &m->calls.rows[i];
        if (c->job == j && !c->flying && c->due_ms == UINT64_MAX) {
            call_send(m, c);
        }
    }
}
