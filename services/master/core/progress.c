/* SPDX-License-Identifier: Apache-2.0 */
/* How far a job is: step, epoch, speed, time that is left, and the metrics that its workers report
 * of their training. A report may come after its epoch was evaluated, and then completes that
 * evaluation. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "master/core/core.h"

#define SAMPLE_MS 1000

void progress_init(struct job *j)
{
    for (size_t i = 0; i < EPOCHS_OPEN; i++) {
        metrics_init(&j->epochs[i].sums, metrics_of_training(j->spec.model.metrics));
        j->epochs[i].used = true;
        j->epochs[i].epoch = i;
    }
    metrics_init(&j->test_sums, j->spec.model.metrics);
}

static void sample(struct job *j, uint64_t now_ms)
{
    if (j->sample_count > 0) {
        const struct rate_sample *last = &j->samples[(j->sample_count - 1) % RATE_SAMPLES];
        if (now_ms - last->ms < SAMPLE_MS) {
            return;
        }
    }
    j->samples[j->sample_count++ % RATE_SAMPLES] =
        (struct rate_sample){now_ms, j->record.examples, j->record.step};
}

static void set_step(struct job *j, uint64_t step)
{
    j->record.step = step;
    j->record.examples = step_map_examples(&j->step_map, step);
    j->record.epoch = (double)j->record.examples / (double)j->epoch_records;
    job_changed(j);
}

/* The job goes back to @step: everything after it is done again. */
void progress_go_back(struct job *j, uint64_t step)
{
    struct job_record *r = &j->record;
    while (r->evaluation_count > 0 && r->evaluations[r->evaluation_count - 1].step > step) {
        r->evaluation_count--;
    }
    bool evaluated =
        r->evaluation_count > 0 && r->evaluations[r->evaluation_count - 1].step == step;
    j->evaluated_step = evaluated ? step : NO_STEP;
    j->sample_count = 0;
    r->train = (struct job_metrics){0}; /* what was lost is not shown as if it had been */
    progress_show_train(j);
    set_step(j, step);
}

/* The job has come to @step. */
void progress_step(struct master *m, struct job *j, uint64_t step)
{
    step = step < j->record.steps_total ? step : j->record.steps_total;
    if (step > j->record.step) {
        uint64_t examples = step_map_examples(&j->step_map, step);
        uint64_t before = j->record.examples;
        m->counts.steps += step - j->record.step;
        m->counts.examples += examples > before ? examples - before : 0;
        set_step(j, step);
    }
    sample(j, m->now_ms);
}

/* The oldest sample that is in the ring. */
static const struct rate_sample *window_begin(const struct job *j)
{
    return &j->samples[j->sample_count <= RATE_SAMPLES ? 0 : j->sample_count % RATE_SAMPLES];
}

void progress_refresh(struct job *j, uint64_t now_ms)
{
    struct job_record *r = &j->record;
    uint64_t ms = j->training_ms + (j->running ? now_ms - j->running_since_ms : 0);
    if (ms == 0) {
        return; /* it never ran in this process: what was stored stays */
    }
    r->seconds = (double)ms / 1000;
    r->examples_per_second = (double)r->examples / r->seconds;
    r->eta_seconds = 0;
    if (!j->running || j->sample_count == 0) {
        return;
    }
    const struct rate_sample *begin = window_begin(j);
    uint64_t window_ms = now_ms - begin->ms;
    if (window_ms < SAMPLE_MS) {
        return; /* too short to say more than the average */
    }
    r->examples_per_second = (double)(r->examples - begin->examples) * 1000 / (double)window_ms;
    if (r->step > begin->step) {
        r->eta_seconds = (double)(r->steps_total - r->step) * (double)window_ms / 1000 /
                         (double)(r->step - begin->step);
    }
}

static void set_metrics(const struct job *j, const struct epoch_metrics *e, struct job_metrics *out)
{
    job_metrics_set(out, &e->sums, j->train.label_scale);
    out->part = e->part;
}

void progress_train_metrics(struct job *j, uint64_t epoch, struct job_metrics *out)
{
    const struct epoch_metrics *e = &j->epochs[epoch % EPOCHS_OPEN];
    if (e->used && e->epoch == epoch) {
        set_metrics(j, e, out);
    }
}

double *progress_train_sums(const struct job *j, uint64_t epoch, size_t *count)
{
    const struct epoch_metrics *e = &j->epochs[epoch % EPOCHS_OPEN];
    *count = 0;
    if (!e->used || e->epoch != epoch || e->part || e->sums.examples == 0) {
        return NULL;
    }
    *count = metrics_pack(&e->sums, NULL);
    double *sums = mem_new(*count, sizeof *sums);
    (void)metrics_pack(&e->sums, sums);
    return sums;
}

/* What was measured of the epoch before @at is not known. */
static void begin_part(struct job *j, const struct ledger *at)
{
    if (ledger_records(at) > at->epoch * j->epoch_records) {
        struct epoch_metrics *e = &j->epochs[at->epoch % EPOCHS_OPEN];
        e->epoch = at->epoch;
        e->part = true;
    }
}

/* The epoch that the checkpoint lies in goes on from its sums there. */
void progress_restore(struct job *j, const struct master_found *found)
{
    struct epoch_metrics *e = &j->epochs[found->train_epoch % EPOCHS_OPEN];
    bool known = found->train_sum_count > 0 &&
                 metrics_unpack(&e->sums, found->train_sums, found->train_sum_count, NULL) == 0;
    if (known) {
        e->epoch = found->train_epoch;
    }
    if (!known) {
        begin_part(j, &j->step_map.ledger);
    }
}

void progress_adopted(struct job *j, const struct ledger *at)
{
    begin_part(j, at);
}

/* Completes an evaluation: workers report now and then, so their metrics of an epoch may come after
 * it. */
static void complete_evaluation(struct job *j, const struct epoch_metrics *e)
{
    struct job_record *r = &j->record;
    if (e->epoch < j->step_map.ledger.epoch) {
        return;
    }
    uint64_t step = step_map_epoch_end(&j->step_map, e->epoch);
    for (size_t i = r->evaluation_count; i-- > 0 && r->evaluations[i].step >= step;) {
        if (r->evaluations[i].step == step) {
            set_metrics(j, e, &r->evaluations[i].train);
        }
    }
}

int progress_add_epoch(struct job *j, const struct master_epoch_progress *p, struct err *err)
{
    struct epoch_metrics *e = &j->epochs[p->epoch % EPOCHS_OPEN];
    if (p->epoch < e->epoch) {
        return 0; /* long over; its evaluation has been */
    }
    struct metrics sums;
    metrics_init(&sums, metrics_of_training(j->spec.model.metrics));
    int rc = metrics_unpack(&sums, p->sums, p->sum_count, err);
    if (rc == 0) {
        if (p->epoch > e->epoch) {
            metrics_reset(&e->sums);
            e->epoch = p->epoch;
            e->batches = 0;
            e->part = false;
        }
        e->batches += p->batches;
        metrics_merge(&e->sums, &sums);
        complete_evaluation(j, e);
    }
    metrics_release(&sums);
    return rc;
}

/* Shows the metrics of the newest epoch that has any example. */
void progress_show_train(struct job *j)
{
    const struct epoch_metrics *newest = NULL;
    for (size_t i = 0; i < EPOCHS_OPEN; i++) {
        const struct epoch_metrics *e = &j->epochs[i];
        if (e->used && e->sums.examples > 0 && (newest == NULL || e->epoch > newest->epoch)) {
            newest = e;
        }
    }
    if (newest != NULL) {
        set_metrics(j, newest, &j->record.train);
    }
}
