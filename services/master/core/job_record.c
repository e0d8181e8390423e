/* SPDX-License-Identifier: Apache-2.0 */
/* Fills, copies and frees the record of a job, which clients see and the store keeps. A copy shares
 * no memory with its original. Nothing is decided here. */
#include "master/core/job_record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define LATELY_NS UINT64_C(3000000000) /* sums over a longer time are halved */

/* A program need not measure what its job names: it says NaN then. */
static bool is_untold(const struct metrics *sums, int kind, double value)
{
    const bool can_be = kind == METRIC_ACCURACY || kind == METRIC_RMSE || kind == METRIC_MAE;
    return isnan(value) && (sums->examples == 0 || (can_be && !isnan(sums->loss_sum)));
}

void job_metrics_set(struct job_metrics *m, const struct metrics *sums, double label_scale)
{
    memset(m, 0, sizeof *m);
    for (int kind = 0; kind < METRIC_KIND_COUNT; kind++) {
        if ((sums->kinds >> kind & 1u) == 0)
            continue;
        double value = metrics_value(sums, (enum metric_kind)kind, label_scale);
        if (kind == METRIC_CONFUSION_MATRIX || is_untold(sums, kind, value))
            continue;
        m->kinds |= 1u << kind;
        m->values[kind] = value;
    }
}

bool job_name_is_good(const char *name)
{
    return name[0] != '\0' && text_is_name(name, JOB_NAME_BYTES_MAX);
}

void job_record_init(struct job_record *r)
{
    memset(r, 0, sizeof *r);
    char **strings[] = {
        &r->id,       &r->name,  &r->request_id,      &r->reason,       &r->checkpoint,  &r->text,
        &r->activity, &r->owner, &r->best_checkpoint, &r->started_from, &r->ended_before};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        *strings[i] = mem_strdup("");
}

void job_record_release(struct job_record *r)
{
    free(r->id);
    free(r->name);
    free(r->request_id);
    free(r->reason);
    free(r->activity);
    free(r->checkpoint);
    free(r->best_checkpoint);
    free(r->started_from);
    free(r->text);
    free(r->owner);
    free(r->ended_before);
    job_history_release(&r->history);
    free(r->evaluations);
    free(r->confusion);
    job_handover_release(&r->handover);
    job_record_set_shards(r, 0);
    while (r->worker_times_count > 0) {
        free(r->worker_times[--r->worker_times_count].worker);
    }
    free(r->worker_times);
    job_names_clear(&r->workers);
    job_names_clear(&r->ps);
    free(r->workers.items);
    free(r->ps.items);
    memset(r, 0, sizeof *r);
}

static struct job_worker_times *times_of(struct job_record *r, const char *worker)
{
    for (size_t i = 0; i < r->worker_times_count; i++) {
        if (strcmp(r->worker_times[i].worker, worker) == 0) {
            return &r->worker_times[i];
        }
    }
    r->worker_times = mem_grow(r->worker_times, &r->worker_times_capacity,
                               r->worker_times_count + 1, sizeof *r->worker_times);
    struct job_worker_times *t = &r->worker_times[r->worker_times_count++];
    *t = (struct job_worker_times){.worker = mem_strdup(worker)};
    return t;
}

void job_record_add_times(struct job_record *r, const char *worker, const struct step_times *times)
{
    step_times_add(&r->times, times);
    if (times->steps == 0) {
        return;
    }
    struct step_times *lately = &times_of(r, worker)->times;
    if (step_times_ns(lately) > LATELY_NS) {
        lately->steps /= 2;
        for (int part = 0; part < STEP_PART_COUNT; part++) {
            lately->ns[part] /= 2;
        }
    }
    step_times_add(lately, times);
}

void job_record_drop_times(struct job_record *r, const char *worker)
{
    for (size_t i = 0; i < r->worker_times_count; i++) {
        if (strcmp(r->worker_times[i].worker, worker) == 0) {
            free(r->worker_times[i].worker);
            memmove(&r->worker_times[i], &r->worker_times[i + 1],
                    (--r->worker_times_count - i) * sizeof *r->worker_times);
            return;
        }
    }
}

static void names_copy(struct job_names *to, const struct job_names *from)
{
    memset(to, 0, sizeof *to);
    for (size_t i = 0; i < from->count; i++)
        job_names_add(to, from->items[i]);
}

static void times_copy(struct job_record *to, const struct job_record *from)
{
    to->worker_times = NULL;
    to->worker_times_count = 0;
    to->worker_times_capacity = 0;
    for (size_t i = 0; i < from->worker_times_count; i++) {
        times_of(to, from->worker_times[i].worker)->times = from->worker_times[i].times;
    }
}

void job_record_copy(struct job_record *to, const struct job_record *from)
{
    *to = *from;
    to->id = mem_strdup(from->id);
    to->name = mem_strdup(from->name);
    to->request_id = mem_strdup(from->request_id);
    to->reason = mem_strdup(from->reason);
    to->activity = mem_strdup(from->activity);
    to->checkpoint = mem_strdup(from->checkpoint);
    to->best_checkpoint = mem_strdup(from->best_checkpoint);
    to->started_from = mem_strdup(from->started_from);
    to->text = mem_strdup(from->text);
    to->owner = mem_strdup(from->owner);
    to->ended_before = mem_strdup(from->ended_before);
    job_history_copy(&to->history, &from->history);
    job_handover_copy(&to->handover, &from->handover);
    to->evaluations = NULL;
    to->evaluation_capacity = from->evaluation_count;
    if (from->evaluation_count > 0) {
        to->evaluations = mem_new(from->evaluation_count, sizeof *to->evaluations);
        memcpy(to->evaluations, from->evaluations,
               from->evaluation_count * sizeof *to->evaluations);
    }
    to->confusion = NULL;
    if (from->confusion_count > 0) {
        to->confusion = mem_new(from->confusion_count, sizeof *to->confusion);
        memcpy(to->confusion, from->confusion, from->confusion_count * sizeof *to->confusion);
    }
    names_copy(&to->workers, &from->workers);
    names_copy(&to->ps, &from->ps);
    times_copy(to, from);
    to->shards = NULL;
    to->shard_count = 0;
    job_record_set_shards(to, from->shard_count);
    for (size_t i = 0; i < from->shard_count; i++) {
        const struct job_shard *shard = &from->shards[i];
        free(to->shards[i].ps);
        free(to->shards[i].backup);
        free(to->shards[i].backup_problem);
        to->shards[i] = *shard;
        to->shards[i].ps = mem_strdup(shard->ps);
        to->shards[i].backup = mem_strdup(shard->backup);
        to->shards[i].backup_problem = mem_strdup(shard->backup_problem);
        if (shard->ledger.split_count > 0) {
            ledger_copy(&to->shards[i].ledger, &shard->ledger);
        }
    }
}

void job_record_set_shards(struct job_record *r, size_t count)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        free(r->shards[i].ps);
        free(r->shards[i].backup);
        free(r->shards[i].backup_problem);
        ledger_release(&r->shards[i].ledger);
    }
    free(r->shards);
    r->shards = count == 0 ? NULL : mem_new(count, sizeof *r->shards);
    r->shard_count = count;
    for (size_t i = 0; i < count; i++) {
        r->shards[i].ps = mem_strdup("");
        r->shards[i].backup = mem_strdup("");
        r->shards[i].backup_problem = mem_strdup("");
    }
}

void job_record_set(char **field, const char *value)
{
    char *copy = mem_strdup(value); /* first: @value may be the old one */
    free(*field);
    *field = copy;
}

void job_record_set_confusion(struct job_record *r, const struct metric_tally *m)
{
    r->confusion = mem_resize(r->confusion, m->count, sizeof *r->confusion);
    r->confusion_count = m->count;
    for (size_t i = 0; i < m->count; i++) {
        r->confusion[i] = m->cells[i];
    }
}

void job_record_add_evaluation(struct job_record *r, const struct job_evaluation *e)
{
    if (r->evaluation_count == JOB_EVALUATIONS_MAX) {
        memmove(r->evaluations, r->evaluations + 1,
                (JOB_EVALUATIONS_MAX - 1) * sizeof *r->evaluations);
        r->evaluation_count--;
    }
    r->evaluations = mem_grow(r->evaluations, &r->evaluation_capacity, r->evaluation_count + 1,
                              sizeof *r->evaluations);
    r->evaluations[r->evaluation_count++] = *e;
}
