/* SPDX-License-Identifier: Apache-2.0 */
/* Early stopping, held against a model that is nothing but a walk over evaluations: where a job
 * ends, which version it calls the best, and that the one it keeps is there. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "job/progress/step_map.h"

#define LEVELS 16 /* of accuracy */

uint32_t stop_level(const struct world *w, uint32_t job, uint64_t batches)
{
    uint64_t key = rng_key_mix(rng_key(w->schedule->seed, "accuracy"), job);
    uint64_t most = batches < LEVELS - 6 ? batches + 6 : LEVELS;
    return (uint32_t)rng_below(key, batches, most);
}

double stop_accuracy(const struct world *w, uint32_t job, const struct ids *ids)
{
    uint64_t batches = 0;
    for (uint32_t e = 0; e < SIM_EPOCHS_MAX; e++) {
        batches += (uint64_t)__builtin_popcountll(ids->epoch[e]);
    }
    return (double)stop_level(w, job, batches) / LEVELS;
}

struct walk {
    bool known;
    double best;
    uint64_t step, count, without;
};

/* True: training ends with it. */
static bool walk_on(struct walk *k, const struct sim_job *j, uint64_t step, double value)
{
    k->count++;
    k->without++;
    if (!k->known || value > k->best + j->stop.min_delta) {
        k->known = true;
        k->best = value;
        k->step = step;
        k->without = 0;
    }
    return j->stop.patience > 0 && k->without >= j->stop.patience;
}

static void compare(struct world *w, const struct sim_job *j, const struct walk *k,
                    const struct job_record *r, const char *by)
{
    const struct best *b = &r->best;
    if (b->known != k->known || b->value != k->best || b->step != k->step ||
        b->without != k->without || b->count != k->count) {
        violated(
            w, INVARIANT_STOP,
            "%s: the best of %llu evaluations is %g of step %llu, %llu before the end; by %s it "
            "is %g of step %llu, %llu of %llu before it",
            j->id, (unsigned long long)b->count, b->value, (unsigned long long)b->step,
            (unsigned long long)b->without, by, k->best, (unsigned long long)k->step,
            (unsigned long long)k->without, (unsigned long long)k->count);
    }
}

/* What it says that it has seen. A row may have been lost with what it said; never the manifest. */
static void check_list(struct world *w, const struct sim_job *j, const struct job_record *r)
{
    struct walk k = {0};
    bool ends = false;
    if (r->best.count < r->evaluation_count) {
        violated(w, INVARIANT_STOP, "%s compared %llu of %zu evaluations", j->id,
                 (unsigned long long)r->best.count, r->evaluation_count);
    }
    if (r->best.count != r->evaluation_count) {
        return;
    }
    for (size_t i = 0; i < r->evaluation_count; i++) {
        const struct job_evaluation *e = &r->evaluations[i];
        if (ends && e->step < r->steps_total) {
            violated(w, INVARIANT_STOP, "%s trains on after step %llu, where it was to stop", j->id,
                     (unsigned long long)r->evaluations[i - 1].step);
        }
        ends = walk_on(&k, j, e->step, e->test.values[METRIC_ACCURACY]) && !again_cut(j, e->step);
        if (again_passed(j, e->step)) { /* a client took back an end that came later */
            k.without = 0;
            ends = false;
        }
    }
    compare(w, j, &k, r, "its own list");
}

/* In sync mode where it ends follows from the job file alone. */
static void check_reference(struct world *w, uint32_t job, const struct job_record *r)
{
    const struct sim_job *j = &w->jobs[job];
    struct ledger ledger = {0};
    struct ledger_shape shape = {j->records, j->batch_records, j->split_batches};
    struct step_map map;
    struct walk k = {0};
    uint64_t step = 0, total = numbers_steps(j, j->first.replicas);
    (void)ledger_init(&ledger, &shape, 0, NULL);
    step_map_init(&map, 0, j->first.replicas, &ledger);
    bool ends = false;
    while (!ends && step < total) {
        step = step_map_next(&map, step, (uint64_t)j->stop.every.count, j->stop.every.epochs);
        step = step < total ? step : total;
        uint32_t level = stop_level(w, job, step_map_batches(&map, step));
        ends =
            walk_on(&k, j, step, (double)level / LEVELS) &&
            (!again_cut(j, step) || r->step == step); /* from an older checkpoint it ends there */
    }
    step_map_release(&map);
    ledger_release(&ledger);
    compare(w, j, &k, r, "its job file");
    if (r->step != step || r->best.stops != (ends && step < total)) {
        violated(w, INVARIANT_STOP, "%s ended at step %llu%s; by its job file it does at %llu",
                 j->id, (unsigned long long)r->step, r->best.stops ? ", early" : "",
                 (unsigned long long)step);
    }
}

static void check_kept(struct world *w, const struct sim_job *j, const struct job_record *r)
{
    struct tensor values, slot;
    struct disk_cut cut;
    bool kept = r->best_checkpoint[0] != '\0';
    if (r->best.known && !j->unsteady && r->recoveries == 0 && r->resumes == 0 &&
        (!kept || r->best.kept_step != r->best.step)) {
        violated(w, INVARIANT_STOP, "%s did not keep its best version, that of step %llu", j->id,
                 (unsigned long long)r->best.step);
    }
    if (kept && !disk_read(w, r->best_checkpoint + sizeof "/c/" - 1, &values, &slot, &cut)) {
        violated(w, INVARIANT_STOP, "%s: its best version, %s, is not there", j->id,
                 r->best_checkpoint);
    }
    if (j->stop.restore && kept && strcmp(r->checkpoint, r->best_checkpoint) != 0) {
        violated(w, INVARIANT_STOP, "%s: its result is %s and not its best version, %s", j->id,
                 r->checkpoint, r->best_checkpoint);
    }
}

void check_stop(struct world *w, uint32_t job, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job];
    if (!j->stop.wanted || j->test_records == 0 || r->state != JOB_SUCCEEDED) {
        return;
    }
    w->counts.stopped += r->best.stops;
    if (!j->changed) {
        check_list(w, j, r);
    }
    bool as_given = !j->changed && !j->again.extended && j->again.stop_count == 0;
    if (as_given && j->first.mode == TRAINING_SYNC && !j->partial && !j->unsteady) {
        check_reference(w, job, r);
    }
    if (!j->changed && j->stop.keeps) {
        check_kept(w, j, r);
    }
    j->stopped = r->best.stops ? r->step : 0; /* its last step, from now on */
}

void check_stop_log(struct world *w, const char *event, const char *text)
{
    bool lost = strcmp(event, "row_not_stored") == 0; /* what it said may go with its master */
    if (!lost && strcmp(event, "evaluation_failed") != 0 &&
        strcmp(event, "checkpoint_failed") != 0) {
        return;
    }
    for (uint32_t i = 0; i < w->schedule->job_count; i++) {
        char id[64];
        snprintf(id, sizeof id, "job=%s ", w->jobs[i].id);
        w->jobs[i].unsteady |= strncmp(text, id, strlen(id)) == 0;
    }
}
