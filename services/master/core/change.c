/* SPDX-License-Identifier: Apache-2.0 */
/* A job's file changes while the job exists: at once when nothing runs, else where all stand. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "job/plan/plan_update.h"
#include "job/progress/era.h"
#include "job/spec/job_era.h"
#include "master/core/core.h"

static void answer(struct master *m, struct job *j, int code, const char *why)
{
    if (!j->set_waits) {
        return;
    }
    j->set_waits = false;
    if (code == ERR_OK) {
        row_reply(m, j, j->set_request, false);
    } else {
        reply_error(m, j->set_request, code, "%s", why);
    }
}

void change_words_release(struct job_revision *note)
{
    free(note->by);
    job_names_clear(&note->sets);
    free(note->sets.items);
    *note = (struct job_revision){0};
}

void change_words(struct job_revision *note, const struct job_set_words *words)
{
    *note = (struct job_revision){.by = mem_strdup(words->by == NULL ? "" : words->by)};
    for (size_t i = 0; i < words->set_count; i++) {
        job_names_add(&note->sets, words->sets[i]);
    }
}

void change_settle(struct job *j)
{
    j->changing = false;
    change_words_release(&j->change_note);
    job_history_release(&j->undo_history);
    if (j->undo != NULL) {
        job_spec_release(j->undo);
        free(j->undo);
        j->undo = NULL;
    }
}

void change_forget(struct master *m, struct job *j, int code, const char *why)
{
    answer(m, j, code, why);
    if (j->change != NULL) {
        job_spec_release(j->change);
        free(j->change);
        j->change = NULL;
    }
    change_settle(j);
}

void change_done(struct master *m, struct job *j)
{
    change_settle(j);
    answer(m, j, ERR_OK, NULL);
}

void change_record(struct master *m, struct job *j, const char *text, struct job_revision *note)
{
    char *from = job_update_section(j->record.text), *to = job_update_section(text);
    const uint64_t version = note->version;
    note->time_ms = m->wall_ms;
    if (!MUTANT(era_not_recorded)) {
        job_history_update(&j->record.history, version, from, to);
    }
    job_history_add(&j->record.history, note);
    free(from);
    free(to);
}

int change_check_eras(const struct job *j, const char *text, struct err *err)
{
    char *from = job_update_section(j->record.text), *to = job_update_section(text);
    const bool full = j->record.history.era_count + 2 > ERAS_MAX && strcmp(from, to) != 0;
    free(from);
    free(to);
    return full ? err_set(err, ERR_STATE,
                          "job %s: its update section was changed %d times, and no more changes of "
                          "it are kept; its other keys can be changed",
                          j->record.id, ERAS_MAX - 2)
                : 0;
}

/* The pending change is the job's file, where the shards are at @version, or from the next start
 * on. */
static void change_take(struct master *m, struct job *j, uint64_t step, uint64_t version)
{
    job_history_release(&j->undo_history);
    job_history_copy(&j->undo_history, &j->record.history);
    j->change_note.step = step;
    j->change_note.version = version;
    change_record(m, j, j->change->text, &j->change_note);
    if (j->undo != NULL) {
        job_spec_release(j->undo);
        free(j->undo);
    }
    j->undo = mem_new(1, sizeof *j->undo);
    *j->undo = j->spec;
    j->spec = *j->change;
    j->has_spec = true;
    free(j->change);
    j->change = NULL;
    action_own(m, j->record.text); /* a call of this step may send it */
    j->record.text = mem_strdup(j->spec.text);
    j->record.priority = (int32_t)j->spec.priority;
    consistency_of(&j->spec, &j->record.consistency);
}

void change_at_once(struct master *m, struct job *j)
{
    if (j->change != NULL) {
        change_take(m, j, j->record.step, ERA_NEXT_START);
        job_store(m, j);
    }
    change_done(m, j);
}

/* Workers beyond what the file allows now; the last to come are the first to go. */
static void release_extra(struct master *m, struct job *j)
{
    while (j->worker_count > (size_t)j->spec.cluster.workers.max) {
        struct job_worker *w = &j->workers[j->worker_count - 1];
        struct node *n = w->node;
        job_worker_remove(m, j, w);
        call_start(m, j, n, MASTER_CALL_STOP, 0);
    }
}

static bool same_versions(const struct job *j)
{
    for (size_t i = 1; i < j->shard_count; i++) {
        if (j->shards[i].version != j->shards[0].version) {
            return false;
        }
    }
    return true;
}

/* Nothing of it runs: it is to be started, for the first time or again. */
static bool waits(const struct job *j)
{
    return j->record.state == JOB_PENDING || j->record.state == JOB_PAUSED ||
           (j->resume && !job_is_starting(j));
}

/* With so many servers it runs, or is to run. */
static size_t servers_of(const struct job *j, const struct job_spec *spec)
{
    return waits(j) || j->shard_count == 0 ? (size_t)spec->cluster.ps : j->shard_count;
}

/* It can move to other servers. */
static int check_servers(const struct job *j, const struct job_spec *spec, struct err *err)
{
    if (spec->cluster.ps == j->spec.cluster.ps || j->train.records == 0) {
        return 0;
    }
    if (j->cannot_save && !waits(j) && (size_t)spec->cluster.ps != j->shard_count) {
        return err_set(err, ERR_STATE,
                       "job %s: it moves to other parameter servers by way of a checkpoint, and %s",
                       j->record.id, j->warning == NULL ? "none can be written" : j->warning);
    }
    struct plan plan = {0};
    int rc = start_plan(j, spec, (size_t)spec->cluster.ps, &plan, err);
    plan_release(&plan);
    return rc < 0 ? err_wrap(err, "cluster.ps") : rc;
}

/* Outside of sync some rules need each variable on one server. The variables of a job that runs
 * stay where they are; one that starts again gets another plan. */
static int check_whole(const struct job *j, const struct job_spec *spec, struct err *err)
{
    if (!spec->cluster.whole_variables || j->train.records == 0) {
        return 0;
    }
    if (j->has_plan && !waits(j) && plan_cuts(&j->plan)) {
        return err_set(err, ERR_STATE,
                       "job %s: %s needs sums over whole variables, which only 'mode: sync' takes "
                       "from several parameter servers, and the variables of this job are cut; a "
                       "job that is to leave sync needs 'cluster.partitioner: fixed'",
                       j->record.id, spec->update.rule->name);
    }
    struct plan plan = {0};
    int rc = start_plan(j, spec, servers_of(j, spec), &plan, err);
    plan_release(&plan);
    return rc;
}

/* The changed file counts for a job that stands at @step, of which the shards have @version. */
static void change_at(struct master *m, struct job *j, uint64_t step, uint64_t version,
                      const struct ledger *ledger)
{
    struct err err = {0};
    if (start_step_map(j, step, ledger, &err) < 0) {
        job_must_end(j, JOB_FAILED, "its changed file does not fit its data: %s", err.msg);
        return;
    }
    j->version_shift = version - step;
    j->quiesced = false;
    j->changing = true;
    j->workers_fit = 0;
    action_log(m, LOG_LEVEL_INFO, "job_changed", "job=%s step=%" PRIu64 " mode=%d replicas=%u",
               j->record.id, step, (int)j->record.consistency.mode, j->record.consistency.replicas);
    release_extra(m, j);
    quota_measure(j);
    if (j->spec.cluster.standby == STANDBY_NONE) {
        standby_none(m, j);
    }
    j->refill = true;
    m->reschedule = true; /* the job may take more workers now */
    j->regroup_needed = true;
}

bool change_begin(struct master *m, struct job *j)
{
    struct err unfit = {0};
    if (check_whole(j, j->change, &unfit) != 0) { /* the change came before there was a plan */
        change_forget(m, j, unfit.code, unfit.msg);
        return false;
    }
    uint64_t step = train_step(j);
    bool was_sync = job_is_sync(j);
    uint64_t version = was_sync ? step + j->version_shift : j->shards[0].version;
    if (!was_sync && !same_versions(j)) {
        job_must_end(j, JOB_FAILED, "its shards have the same batches, but different versions");
        return false;
    }
    struct ledger ledger;
    train_ledger(j, step, &ledger);
    m->counts.changes++;
    change_take(m, j, step, MUTANT(era_begins_late) ? version + 1 : version);
    change_at(m, j, step, version, &ledger);
    ledger_release(&ledger);
    return !job_is_ending(j);
}

/* Undoes a change. All nodes stand where it began, those that took it and those that did not: the
 * file is changed back there, like any other change. */
bool change_undo(struct master *m, struct job *j, const char *why)
{
    if (!j->changing || j->undo == NULL) {
        return false;
    }
    uint64_t step = j->step_map.step;
    struct ledger ledger;
    ledger_copy(&ledger, &j->step_map.ledger);
    j->change = j->undo;
    j->undo = NULL;
    struct job_history before;
    job_history_copy(&before, MUTANT(era_kept_undone) ? &j->record.history : &j->undo_history);
    change_take(m, j, step, step + j->version_shift);
    job_history_release(&j->record.history);
    j->record.history = before;
    if (j->set_waits) {
        j->set_waits = false;
        row_refuse(m, j, j->set_request,
                   action_printf(m, "%s; job %s goes on as before", why, j->record.id));
    }
    change_at(m, j, step, step + j->version_shift, &ledger);
    ledger_release(&ledger);
    bool goes_on = j->changing && !MUTANT(change_half_undone);
    change_settle(j); /* from here the change cannot be undone */
    j->changing = goes_on;
    return true;
}

/* A shard and its backup are on two servers. */
static int check_standby(const struct master *m, const struct job *j, const struct job_spec *spec,
                         struct err *err)
{
    const bool begins =
        spec->cluster.standby != STANDBY_NONE && j->spec.cluster.standby == STANDBY_NONE;
    if (!begins || waits(j) || m->alive[MASTER_PS] > 1) {
        return 0;
    }
    return err_set(err, ERR_STATE,
                   "job %s: a shard and its backup are on two parameter servers, and %zu is alive",
                   j->record.id, m->alive[MASTER_PS]);
}

static int check(const struct master *m, const struct job *j, const struct master_set_event *set,
                 struct err *err)
{
    if (job_state_is_final(j->record.state) && row_has_end(j)) {
        return err_set(err, ERR_STATE, "job %s has ended: %s", j->record.id,
                       job_state_name(j->record.state));
    }
    if (j->over || j->hold_cancel || job_state_is_final(j->record.state)) {
        return err_set(err, ERR_STATE, "job %s is ending", j->record.id);
    }
    if (j->change != NULL || j->changing) {
        return err_set(err, ERR_STATE,
                       "job %s: another change waits for its step boundary; try again later",
                       j->record.id);
    }
    if (strcmp(set->base, j->record.text) != 0) {
        return err_set(err, ERR_ABORTED, "job %s was changed meanwhile; try again", j->record.id);
    }
    if (change_check_eras(j, set->spec->text, err) != 0) {
        return err->code;
    }
    struct consistency wanted;
    consistency_of(set->spec, &wanted);
    int rc = check_standby(m, j, set->spec, err);
    rc = rc != 0 ? rc : check_servers(j, set->spec, err);
    rc = rc != 0 ? rc : check_whole(j, set->spec, err);
    if (rc == 0 && j->has_plan) {
        rc = plan_update_check(&j->plan, &set->spec->update, err);
    }
    if (rc != 0 || j->train.records == 0) {
        return rc;
    }
    return start_check_replicas(&wanted, j->epoch_records, err);
}

/* The number of servers is all that is to change. */
static bool servers_alone(const struct master_set_event *set)
{
    static const char key[] = "cluster.ps=";
    bool alone = set->words.set_count > 0;
    for (size_t i = 0; i < set->words.set_count; i++) {
        alone = alone && strncmp(set->words.sets[i], key, sizeof key - 1) == 0;
    }
    return alone;
}

/* Nothing that runs need know: the job moves when it can (resize_due.c), and the client that has
 * asked for that waits, unless the servers are not there. */
static void change_servers(struct master *m, struct job *j)
{
    const uint64_t version = job_is_sync(j) || j->shard_count == 0
                                 ? j->record.step + j->version_shift
                                 : j->shards[0].version;
    change_take(m, j, j->record.step, version);
    change_settle(j);
    job_store(m, j);
    m->reschedule = true;
}

/* The file says so already: no worker has to stop. Who has asked for servers waits for them all the
 * same. */
static void ask_again(struct master *m, struct job *j, uint64_t request, bool servers)
{
    if (!servers || waits(j) || j->set_waits) {
        row_reply(m, j, request, false);
        return;
    }
    j->set_request = request;
    j->set_waits = true;
    m->reschedule = true;
}

void on_set(struct master *m, const struct master_event *e)
{
    const struct master_set_event *set = &e->set;
    struct job *j = job_find(m, set->job);
    struct err err = {0};
    if (j == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", set->job);
        return;
    }
    if (check(m, j, set, &err) < 0) {
        reply_error(m, e->request, err.code, "%s", err.msg);
        return;
    }
    const bool servers = servers_alone(set);
    if (strcmp(set->spec->text, j->record.text) == 0) {
        ask_again(m, j, e->request, servers);
        return;
    }
    resize_answer(m, j); /* another client, whose change is in the file already */
    j->change = mem_new(1, sizeof *j->change);
    *j->change = *set->spec;
    memset(set->spec, 0, sizeof *set->spec);
    change_words_release(&j->change_note);
    change_words(&j->change_note, &set->words);
    j->set_request = e->request;
    j->set_waits = true;
    if (waits(j)) {
        change_at_once(m, j);
        m->reschedule = true;
    } else if (servers && j->change->cluster.ps != j->spec.cluster.ps) {
        change_servers(m, j);
    } else {
        job_touch(j);
    }
}
