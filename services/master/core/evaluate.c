/* SPDX-License-Identifier: Apache-2.0 */
/* Spreads an evaluation over the workers: each free one gets a chunk of the test records. Results
 * are added in the order of the chunks, so the sums do not depend on who computed what, or when. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/core/core.h"

/* Results that may wait for an earlier chunk, so that their memory is bounded. */
#define CHUNKS_AHEAD_MAX 256

void evaluate_release(struct job *j)
{
    for (size_t i = 0; i < j->chunk_count; i++) {
        free(j->chunks[i].sums);
    }
    free(j->chunks);
    j->chunks = NULL;
    j->chunk_count = 0;
    if (j->has_plan) {
        metrics_release(&j->test_sums);
        memset(&j->test_sums, 0, sizeof j->test_sums);
    }
}

void evaluate_begin(struct job *j)
{
    evaluate_release(j);
    metrics_init(&j->test_sums, j->spec.model.metrics);
    j->chunk_count =
        (size_t)((j->test.records + MASTER_EVALUATION_CHUNK - 1) / MASTER_EVALUATION_CHUNK);
    j->chunks = mem_new(j->chunk_count, sizeof *j->chunks);
    j->chunk_next = 0;
    j->chunk_merged = 0;
}

/* The first chunk that is to be done; a chunk that just failed on @n only when there is no other
 * worker. */
static struct chunk *pick(struct job *j, const struct node *n)
{
    bool alone = job_workers_started(j) == 1;
    size_t end = j->chunk_merged + CHUNKS_AHEAD_MAX;
    end = end < j->chunk_count ? end : j->chunk_count;
    while (j->chunk_next < end && j->chunks[j->chunk_next].state != CHUNK_TODO) {
        j->chunk_next++;
    }
    for (size_t i = j->chunk_next; i < end; i++) {
        struct chunk *c = &j->chunks[i];
        if (c->state == CHUNK_TODO && (alone || c->failed_node != n->number)) {
            return c;
        }
    }
    return NULL;
}

bool evaluate_is_done(const struct job *j)
{
    return j->chunk_merged == j->chunk_count;
}

/* Give chunks to all workers that have none. */
void evaluate_pump(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        if (!w->started || w->evaluating) {
            continue;
        }
        struct chunk *c = pick(j, w->node);
        if (c == NULL) {
            continue;
        }
        c->state = CHUNK_OUT;
        w->evaluating = true;
        w->chunk = (uint32_t)(c - j->chunks);
        call_start(m, j, w->node, MASTER_CALL_EVALUATE, w->chunk);
    }
}

static void give_again(struct job *j, uint32_t chunk)
{
    j->chunks[chunk].state = CHUNK_TODO;
    j->chunk_next = chunk < j->chunk_next ? chunk : j->chunk_next;
}

void evaluate_returned(struct job *j, const struct job_worker *w)
{
    if (w->evaluating && j->work == WORK_EVALUATE) {
        give_again(j, w->chunk);
    }
}

/* Add the results to the sum in the order of chunks, whoever was first. */
static int merge(struct job *j, struct err *err)
{
    while (j->chunk_merged < j->chunk_count && j->chunks[j->chunk_merged].state == CHUNK_DONE) {
        struct chunk *c = &j->chunks[j->chunk_merged];
        struct metrics part;
        metrics_init(&part, j->spec.model.metrics);
        int rc = metrics_unpack(&part, c->sums, c->sum_count, err);
        if (rc == 0) {
            metrics_merge(&j->test_sums, &part);
        }
        metrics_release(&part);
        free(c->sums);
        c->sums = NULL;
        if (rc < 0) {
            return rc;
        }
        j->chunk_merged++;
    }
    return 0;
}

static void chunk_failed(struct master *m, struct job *j, struct node *n, uint32_t chunk,
                         const struct err *err)
{
    struct chunk *c = &j->chunks[chunk];
    c->failed_node = n->number;
    give_again(j, chunk);
    if (++c->failures < EVALUATE_FAILURES_MAX) {
        return;
    }
    if (err->code == ERR_NOT_FOUND) {
        /* The pinned version is not there any more: a server came back without its shard. */
        job_must_recover(j, action_printf(m, "evaluation on %s: %s", n->id, err->msg));
        return;
    }
    sync_point_evaluation_failed(
        m, j,
        action_printf(m, "test records from %" PRIu64 " failed %d times, last on %s: %s",
                      (uint64_t)chunk * MASTER_EVALUATION_CHUNK, EVALUATE_FAILURES_MAX, n->id,
                      err->msg));
}

void evaluate_done(struct master *m, struct job *j, struct node *n, uint32_t chunk,
                   const struct master_call_done *done)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w != NULL) {
        w->evaluating = false;
    }
    if (j->work != WORK_EVALUATE || chunk >= j->chunk_count) {
        return;
    }
    if (done->err != NULL) {
        chunk_failed(m, j, n, chunk, done->err);
        return;
    }
    struct chunk *c = &j->chunks[chunk];
    c->state = CHUNK_DONE;
    c->sum_count = done->sum_count;
    c->sums = mem_new(done->sum_count == 0 ? 1 : done->sum_count, sizeof *c->sums);
    if (done->sum_count > 0) {
        memcpy(c->sums, done->sums, done->sum_count * sizeof *c->sums);
    }
    struct err err = {0};
    if (merge(j, &err) < 0) {
        sync_point_evaluation_failed(m, j, action_printf(m, "result of %s: %s", n->id, err.msg));
    }
}
