/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that resume jobs which have ended, until they are told that it is done; and what must
 * hold of these: what was told is not lost, nothing goes on that nobody resumed, none begins before
 * what its newest checkpoint has, and how a job ended before does not end it again. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define LATER_US (4 * SIM_S)
#define ASK_US (500 * SIM_MS)
#define STEP_AT "/step-"

uint32_t again_life(struct world *w, uint32_t job)
{
    const struct job_record *r = master_job(w->master, w->jobs[job].id, node_ms(w, 0));
    return r == NULL ? 1 : UINT32_C(1) << (r->resumes & 31);
}

bool again_passed(const struct sim_job *j, uint64_t step)
{
    bool passed = false;
    for (uint32_t i = 0; i < j->again.stop_count; i++) {
        passed = passed || step <= j->again.stops[i];
    }
    return passed;
}

bool again_cut(const struct sim_job *j, uint64_t step)
{
    bool cut = false;
    for (uint32_t i = 0; i < j->again.cut_count; i++) {
        cut = cut || step == j->again.cuts[i];
    }
    return cut;
}

/* ---- what must hold ---- */

static void check_why(struct world *w, const struct sim_job *j, const struct job_record *r)
{
    uint32_t life = UINT32_C(1) << (r->resumes & 31);
    if (r->state == JOB_FAILED && (j->again.raises & life) == 0) {
        violated(w, INVARIANT_FAILED, "%s failed: %s", r->id, r->reason);
    }
    if (r->state == JOB_CANCELLED && (j->again.cancels & life) == 0) {
        violated(w, INVARIANT_STATE, "%s is CANCELLED, but nobody asked for it: %s", r->id,
                 r->reason);
    }
    if (r->state == JOB_SUCCEEDED && j->again.trains && r->step <= j->again.from &&
        r->steps_total > j->again.from) {
        violated(w, INVARIANT_RESUMED, "%s was resumed at step %llu, and ends there again", r->id,
                 (unsigned long long)r->step);
    }
}

void check_resumed(struct world *w, uint32_t job, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job];
    if (r->resumes > j->again.seen) {
        if (!j->again.due || r->resumes > j->again.seen + 1) {
            violated(w, INVARIANT_RESUMED, "%s goes on, and nobody asked for it", r->id);
        }
        w->counts.resumed++;
        w->again_us = w->now_us;
    } else if (job_state_is_final(j->state) && r->state != j->state &&
               r->resumes == j->again.seen) {
        violated(w, INVARIANT_STATE, "%s was %s and is %s", r->id, job_state_name(j->state),
                 job_state_name(r->state));
    }
    if (r->resumes < j->again.told) {
        violated(w, INVARIANT_RESUMED, "a client was told that %s goes on; it is %s", r->id,
                 job_state_name(r->state));
    }
    j->again.seen = r->resumes;
    check_why(w, j, r);
}

static bool has_damage(const struct sim_schedule *s)
{
    bool has = false;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        has = has || (s->faults[i].kind == FAULT_DAMAGE && !s->faults[i].off);
    }
    return has;
}

void check_resumed_open(struct world *w, uint32_t job, const struct master_call *c)
{
    struct sim_job *j = &w->jobs[job];
    const struct job_record *row = disk_row(w, job);
    if (row != NULL && job_state_is_final(row->state)) {
        violated(w, INVARIANT_RESUMED, "%s is %s by its row, and begins", j->id,
                 job_state_name(row->state));
    }
    if (!j->again.begins || c->generation <= j->again.opened) {
        return;
    }
    j->again.begins = false;
    const char *at = strstr(c->restore, STEP_AT);
    uint64_t step = at == NULL ? 0 : strtoull(at + sizeof STEP_AT - 1, NULL, 10);
    /* Of one that its row does not name, which could not be stored, the master may know nothing. */
    if (j->named && step < j->again.newest && !has_damage(w->schedule)) {
        violated(w, INVARIANT_RESUMED, "%s begins at step %llu; it had a checkpoint of %llu", j->id,
                 (unsigned long long)step, (unsigned long long)j->again.newest);
    }
}

/* ---- the client ---- */

void again_ended(struct world *w, uint32_t job, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job];
    bool succeeded = r->state == JOB_SUCCEEDED;
    bool more = succeeded && !r->best.stops && j->again.more > 0 && j->steps == 0 &&
                j->epochs < SIM_EPOCHS_MAX;
    if (j->again.due || (!more && (j->again.left == 0 || (succeeded && !r->best.stops)))) {
        return;
    }
    j->again.due = true;
    j->again.more_now = more;
    j->again.extended = j->again.extended || more;
    j->epochs += more;
    if (succeeded && j->again.stop_count < 8) {
        j->again.stops[j->again.stop_count++] = r->step;
    }
    bool evaluated =
        r->evaluation_count > 0 && r->evaluations[r->evaluation_count - 1].step == r->step;
    if (!succeeded && evaluated && j->again.cut_count < 8) {
        j->again.cuts[j->again.cut_count++] = r->step;
    }
    uint64_t later_us = world_draw(w, "again", w->client_request, LATER_US);
    world_at(w, w->now_us + 1 + later_us / (1 + world_draw(w, "soon", w->client_request, 100)),
             EVENT_AGAIN, 0, job, 0);
}

/* It goes on, or has: the client is content. */
static void content(struct sim_job *j, uint64_t resumes)
{
    j->again.due = false;
    j->again.told = resumes;
    j->again.left -= !j->again.more_now && j->again.left > 0;
    j->again.more -= j->again.more_now && j->again.more > 0;
}

static void ask_ended(struct world *w, struct sim_job *j, const struct job_record *r,
                      struct master_event *e)
{
    char more[SIM_SET_BYTES];
    const char *sets[2];
    size_t set_count = 0;
    snprintf(more, sizeof more, "training.epochs=%u", j->epochs);
    if (j->again.more_now) {
        sets[set_count++] = more;
    }
    if (w->schedule->updates && world_draw(w, "again", w->client_request, 2) == 0) {
        sets[set_count++] = "update.learning_rate=0.1875";
    }
    struct job_spec spec = {0};
    char *base = mem_strdup(r->text), directory[80];
    uint64_t newest = 0;
    (void)client_parse(base, sets, set_count, &spec, w, true);
    e->resume.spec = &spec;
    e->resume.base = base;
    eras_asked(w, j, e->request, &spec);
    j->again.begins = true;
    j->again.opened = j->opened;
    j->again.newest = disk_newest(w, (uint32_t)(j - w->jobs), directory, &newest) ? newest : 0;
    j->again.trains = r->state == JOB_SUCCEEDED;
    j->again.from = r->step;
    j->paused = j->pausing = false;
    j->pause_request = 0;
    TRACE(w, 0, "is asked to resume %s, which is %s%s", j->id, job_state_name(r->state),
          j->again.more_now ? ", with one epoch more" : "");
    master_event(w, e);
    job_spec_release(&spec);
    free(base);
}

void again_ask(struct world *w, uint32_t job)
{
    struct sim_job *j = &w->jobs[job];
    const struct job_record *r = w->master == NULL || w->nodes[0].paused
                                     ? NULL
                                     : master_job(w->master, j->id, node_ms(w, 0));
    if (!j->again.due) {
        return;
    }
    if (r != NULL && job_state_is_final(r->state) && r->resumes > j->again.told) {
        content(j, r->resumes); /* it went on, nobody heard of it, and it is over again */
        again_ended(w, job, r);
        return;
    }
    if (r != NULL) {
        struct master_event e = {.kind = MASTER_RESUME,
                                 .request = CLIENT_REQUEST + ++w->client_request};
        e.resume = (struct master_resume_event){.job = j->id};
        j->again.request = e.request;
        if (job_state_is_final(r->state)) {
            ask_ended(w, j, r, &e);
        } else {
            j->paused = j->pausing = false; /* by somebody else, meanwhile */
            j->pause_request = 0;
            TRACE(w, 0, "is asked again to resume %s", j->id);
            master_event(w, &e);
        }
    }
    if (j->again.due) {
        world_at(w, w->now_us + ASK_US, EVENT_AGAIN, 0, job, 0);
    }
}

void again_answered(struct world *w, const struct master_reply *r)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        struct sim_job *j = &w->jobs[i];
        if (!j->again.due || j->again.request != r->request) {
            continue;
        }
        bool passes = r->err.code == ERR_UNAVAILABLE || r->err.code == ERR_ABORTED ||
                      strstr(r->err.msg, "is ending") != NULL;
        if (r->err.code != 0 && !passes) {
            violated(w, INVARIANT_RESUMED, "%s cannot be resumed: %s", j->id, r->err.msg);
        }
        if (r->err.code != 0) {
            continue;
        }
        const struct job_record *row = disk_row(w, i);
        if (row == NULL || row->resumes < r->job->resumes) {
            violated(w, INVARIANT_RESUMED, "a client is told that %s goes on; its row is %s", j->id,
                     row == NULL ? "not there" : job_state_name(row->state));
        }
        content(j, r->job->resumes);
    }
}
