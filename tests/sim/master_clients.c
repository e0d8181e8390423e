/* SPDX-License-Identifier: Apache-2.0 */
/* Clients at the master's door: they submit jobs, and want something of them. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/progress/best.h"
#include "job/spec/job_spec.h"

bool client_parse(const char *text, const char *const *sets, size_t set_count,
                  struct job_spec *spec, struct world *w, bool must)
{
    struct diags diags = {0};
    bool good = job_spec_parse(text, strlen(text), "job", sets, set_count, spec, &diags) == 0;
    if (!good && must) {
        struct buf out = {0};
        diags_format(&diags, &out);
        violated(w, INVARIANT_ORDER, "a job file of the schedule is wrong: %s", buf_str(&out));
    }
    diags_release(&diags);
    return good;
}

static void learn_job(struct sim_job *j, const struct job_spec *spec,
                      const struct sim_job_plan *plan)
{
    j->train_records = plan->records;
    j->records = (uint32_t)job_spec_epoch_records(spec, plan->records);
    j->test_records = plan->test_records;
    j->batch_records = (uint32_t)spec->training.batch_size;
    j->epochs = (uint32_t)spec->training.epochs;
    j->steps = (uint64_t)spec->training.steps;
    j->split_batches = (uint32_t)spec->training.split_batches;
    j->batches = (j->records + j->batch_records - 1) / j->batch_records;
    j->rule_rounds = spec->update.rule->rounds;
    eras_known(j, spec);
    consistency_of(spec, &j->first);
    j->partial = consistency_is_partial(&j->first);
    j->tables = plan->tables;
    j->again.left = plan->again;
    j->again.more = plan->more;
    j->given = plan->given;
    j->from = plan->from;
    j->stop.wanted = best_is_wanted(&spec->training);
    j->stop.keeps = best_is_kept(&spec->training);
    j->stop.restore = spec->training.stop_restore_best;
    j->stop.patience = spec->training.stop_metric == 0 ? 0 : (uint64_t)spec->training.stop_patience;
    j->stop.min_delta = spec->training.stop_min_delta;
    j->stop.every = spec->training.evaluate_every;
}

void master_submit(struct world *w, uint32_t job)
{
    const struct sim_job_plan *plan = &w->schedule->jobs[job];
    struct sim_job *j = &w->jobs[job];
    if (w->master == NULL || w->nodes[0].paused) { /* the client tries again */
        world_at(w, w->now_us + 500 * SIM_MS, EVENT_SUBMIT, 0, job, 0);
        return;
    }
    struct job_spec spec = {0};
    (void)client_parse(plan->text, NULL, 0, &spec, w, true);
    learn_job(j, &spec, plan);
    if (j->tables) {
        tables_plan(w, job);
    }
    snprintf(j->id, sizeof j->id, "%s-1", spec.name);
    j->submitted = true;
    TRACE(w, 0, "is given job %s", j->id);
    struct master_event e = {.kind = MASTER_SUBMIT,
                             .request = CLIENT_REQUEST + ++w->client_request};
    e.submit = (struct master_submit_event){.spec = &spec, .request_id = spec.name};
    char request_id[32];
    snprintf(request_id, sizeof request_id, "r%u", job);
    e.submit.request_id = request_id;
    static const char *const OWNERS[] = {"", "ann", "ben"};
    e.submit.owner = OWNERS[plan->owner];
    master_event(w, &e);
    job_spec_release(&spec);
    if (!j->known) { /* killed before it was stored: the client submits it again */
        world_at(w, w->now_us + 500 * SIM_MS, EVENT_SUBMIT, 0, job, 0);
    }
}

/* A job that never ran waits for all that it wants. */
static bool may_want(const struct world *w, const struct job_record *r, const struct job_spec *spec)
{
    return (uint64_t)spec->cluster.ps <= w->schedule->ps_count || r->servers > 0;
}

static void client_set(struct world *w, struct sim_job *j, const struct sim_fault *f)
{
    const char *sets[SIM_CHANGE_SETS];
    size_t count = 0;
    while (count < SIM_CHANGE_SETS && f->change[count][0] != '\0') {
        sets[count] = f->change[count];
        count++;
    }
    const struct job_record *r = master_job(w->master, j->id, node_ms(w, 0));
    if (r == NULL) {
        return;
    }
    char *base = mem_strdup(r->text);
    struct job_spec spec = {0};
    if (client_parse(base, sets, count, &spec, w, false) && may_want(w, r, &spec)) {
        for (size_t i = 0; i < count; i++) {
            j->changed = j->changed || (strncmp(sets[i], "update.", strlen("update.")) != 0 &&
                                        strncmp(sets[i], "cluster.ps=", 11) != 0);
        }
        struct consistency to;
        consistency_of(&spec, &to);
        j->partial = j->partial || consistency_is_partial(&to);
        struct master_event e = {.kind = MASTER_SET,
                                 .request = CLIENT_REQUEST + ++w->client_request};
        e.set = (struct master_set_event){.job = j->id, .spec = &spec, .base = base};
        char *words[SIM_CHANGE_SETS];
        for (size_t i = 0; i < count; i++) {
            words[i] = (char *)(uintptr_t)sets[i];
        }
        e.set.words = (struct job_set_words){"", words, count};
        eras_asked(w, j, e.request, &spec);
        j->update.asked[j->update.waiting - 1].servers =
            count == 1 && strncmp(sets[0], "cluster.ps=", 11) == 0;
        TRACE(w, 0, "is asked to set %s %s %s of %s", f->change[0], f->change[1], f->change[2],
              j->id);
        master_event(w, &e);
    } else {
        TRACE(w, 0, "a client's change is no job file: %s %s", f->change[0], f->change[1]);
    }
    job_spec_release(&spec);
    free(base);
}

/* A worker reports what nothing helps against. */
static void client_raises(struct world *w, uint32_t job)
{
    for (uint32_t i = 1 + w->schedule->ps_count; i < w->node_count; i++) {
        const struct sim_node *n = &w->nodes[i];
        if (!n->up || !n->job->there || !n->job->started || n->job->job != job || n->name == 0) {
            continue;
        }
        struct master_event e = {.kind = MASTER_REPORT_FAILURE,
                                 .request = CLIENT_REQUEST + ++w->client_request};
        e.worker = (struct master_worker_event){.node = w->names[n->name],
                                                .incarnation = n->incarnation,
                                                .job = w->jobs[job].id,
                                                .generation = n->job->taken,
                                                .code = ERR_UNKNOWN,
                                                .message = "the program raised"};
        TRACE(w, 0, "hears from %s that the program of %s raises", w->names[n->name],
              w->jobs[job].id);
        w->jobs[job].again.raises |= again_life(w, job);
        master_event(w, &e);
        return;
    }
}

void master_client(struct world *w, const struct sim_fault *f)
{
    struct sim_job *j = &w->jobs[f->number];
    if (w->master == NULL || w->nodes[0].paused || !j->known) {
        return; /* nobody answers the door */
    }
    struct master_event e = {.request = CLIENT_REQUEST + ++w->client_request};
    if (f->kind == FAULT_CANCEL) {
        TRACE(w, 0, "is asked to cancel %s", j->id);
        e.kind = MASTER_CANCEL;
        e.cancel = (struct master_cancel_event){j->id, (f->other & 1) != 0};
        j->again.cancels |= again_life(w, f->number);
        master_event(w, &e);
    } else if (f->kind == FAULT_CHECKPOINT) {
        TRACE(w, 0, "is asked for a checkpoint of %s", j->id);
        e.kind = MASTER_CHECKPOINT;
        e.job = j->id;
        master_event(w, &e);
    } else if (f->kind == FAULT_RAISE) {
        client_raises(w, f->number);
    } else if (f->kind == FAULT_SUSPEND) {
        TRACE(w, 0, "is asked to pause %s", j->id);
        e.kind = MASTER_PAUSE;
        e.job = j->id;
        j->pausing = true;
        j->pause_request = e.request;
        master_event(w, &e);
    } else {
        client_set(w, j, f);
    }
}

bool master_resume(struct world *w, uint32_t job)
{
    struct sim_job *j = &w->jobs[job];
    if (w->master == NULL || w->nodes[0].paused) {
        return false;
    }
    if (j->known && j->pausing) {
        struct master_event e = {.kind = MASTER_RESUME,
                                 .request = CLIENT_REQUEST + ++w->client_request};
        TRACE(w, 0, "is asked to resume %s", j->id);
        e.resume.job = j->id;
        j->resume_request = e.request;
        j->pause_request = 0; /* its answer may come later */
        j->paused = false;
        master_event(w, &e);
    }
    return !j->pausing; /* else the client tries again */
}
