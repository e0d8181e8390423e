/* SPDX-License-Identifier: Apache-2.0 */
/* What the row of a running job says to a later master (adopt.c): it is written anew with each row,
 * and rows are written before anything of a new generation is said. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "base/release.h"
#include "master/core/core.h"

static void note_node(struct job_handover_node *to, const struct node *n, uint64_t start)
{
    job_record_set(&to->id, n->id);
    job_record_set(&to->address, n->address);
    job_record_set(&to->http_address, n->http_address);
    job_record_set(&to->host, n->host);
    job_record_set(&to->version, n->version);
    to->pid = n->pid;
    to->incarnation = n->incarnation;
    to->start = start;
}

/* The place of a server that has a backup: of one that has a shard, too, if there is. */
static uint32_t place_of(struct job_handover *h, const struct node *n)
{
    const size_t count = h->server_count + h->other_count;
    for (uint32_t place = 1; place <= count; place++) {
        if (strcmp(job_handover_place(h, place)->id, n->id) == 0) {
            return place;
        }
    }
    h->others = mem_resize(h->others, h->other_count + 1, sizeof *h->others);
    h->others[h->other_count] = (struct job_handover_node){0};
    note_node(&h->others[h->other_count++], n, 0);
    return (uint32_t)count + 1;
}

/* One that its primary does not know is none. */
static void note_backups(struct job_handover *h, const struct job *j)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_backup *b = &j->shards[i].backup;
        if (b->node != NULL && b->stage >= BACKUP_NAMED) {
            h->servers[i].backup = place_of(h, b->node);
            h->servers[i].backup_opening = b->opening;
            h->servers[i].backup_follows = b->stage == BACKUP_FOLLOWS;
        }
    }
}

/* Its shards are there. */
static bool stands(const struct job *j)
{
    bool waits = j->record.state == JOB_RECOVERING && !j->resume; /* for a worker */
    bool whole =
        (j->record.state == JOB_RUNNING || waits) && j->has_plan && j->verdict == VERDICT_NONE;
    for (size_t i = 0; i < j->shard_count; i++) {
        whole = whole && j->shards[i].node != NULL && j->shards[i].node->alive;
    }
    return whole && j->shard_count > 0;
}

static size_t count_started(const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        count += j->workers[i].started;
    }
    return count;
}

/* A sync point for which nobody stands still any more. What others do is done anew. */
static void note_pin(struct job_handover_pin *to, const struct job *j)
{
    const struct sync_point *s = &j->sync_point;
    const bool pins = j->work == WORK_PIN && !s->known; /* else the shards have pinned it before */
    if (j->work == WORK_NONE || pins || j->work == WORK_UNPIN || s->last || s->cancel || s->yield ||
        s->decides || s->ledger.done == NULL || MUTANT(pin_not_noted)) {
        return;
    }
    *to = (struct job_handover_pin){.id = mem_strdup(s->pin_id),
                                    .step = s->step,
                                    .examples = s->examples,
                                    .data_epoch = s->data_epoch,
                                    .epoch = s->epoch,
                                    .evaluate = s->evaluate,
                                    .checkpoint = s->checkpoint};
    ledger_copy(&to->ledger, &s->ledger);
}

void handover_note(struct job *j)
{
    struct job_handover *h = &j->record.handover;
    if (j->adopts) {
        return; /* nothing is known yet that the row does not say */
    }
    if (h->opening == j->opening && MUTANT(handover_of_start)) {
        return;
    }
    job_handover_release(h);
    if (!stands(j)) {
        return;
    }
    h->opening = j->opening;
    h->format = RELEASE_HANDOVER;
    h->protocol = RELEASE_PROTOCOL;
    h->servers = job_handover_nodes(j->shard_count);
    h->server_count = j->shard_count;
    for (size_t i = 0; i < j->shard_count; i++) {
        note_node(&h->servers[i], j->shards[i].node, 0);
        h->servers[i].opening = j->shards[i].opening;
    }
    note_backups(h, j);
    h->worker_count = count_started(j);
    h->workers = job_handover_nodes(h->worker_count);
    for (size_t i = 0, k = 0; i < j->worker_count; i++) {
        if (j->workers[i].started) {
            note_node(&h->workers[k++], j->workers[i].node, j->workers[i].start);
        }
    }
    h->step = j->step_map.step;
    ledger_copy(&h->ledger, &j->step_map.ledger);
    h->version_shift = j->version_shift;
    h->checkpointed_step = j->checkpointed_step;
    h->changing = j->changing;
    note_pin(&h->pin, j);
}
