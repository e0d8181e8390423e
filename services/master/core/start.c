/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a job that was given nodes to its first step: inspect the data, open the shards, start the
 * workers. A job that recovers takes the same way, from its newest checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "graph/model.h"
#include "job/plan/plan_update.h"
#include "master/core/core.h"

/* Splits of an epoch when the job leaves it to us: so many that the slowest worker is never far
 * behind at the end of an epoch, so few that leasing costs nothing beside computing. */
#define SPLITS_PER_WORKER 32
#define SPLITS_MAX 512
#define SPLITS_PER_WORKER_MIN 8

static uint32_t start_split_batches(uint64_t batches, uint64_t workers)
{
    uint64_t splits = workers * SPLITS_PER_WORKER;
    splits = splits > SPLITS_MAX ? SPLITS_MAX : splits;
    if (splits < workers * SPLITS_PER_WORKER_MIN) {
        splits = workers * SPLITS_PER_WORKER_MIN;
    }
    uint64_t size = splits == 0 ? batches : batches / splits;
    return size == 0 ? 1 : size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

void start_begin(struct master *m, struct job *j)
{
    j->record.generation++;
    fence_draw_openings(m, j);
    base_forget(j); /* the shards will know none */
    j->regroup_needed = false;
    const char *reads =
        j->resume ? action_printf(m, "%s; reads the data", j->resume_reason) : "reads the data";
    if (j->record.state == JOB_RECOVERING) {
        job_say(j, reads);
        job_store(m, j); /* a generation is stored before it is used */
    } else {
        job_enter(m, j, JOB_STARTING, reads);
    }
    j->row_generation = j->row;
}

void start_inspect(struct master *m, struct job *j)
{
    j->saved_ms = m->now_ms;
    for (size_t i = 0; i < j->worker_count; i++) {
        call_start(m, j, j->workers[i].node, MASTER_CALL_INSPECT, 0); /* all load at once */
    }
}

/* The step at which training ends; never before @step, the present one. */
static uint64_t steps_total(const struct job *j, uint64_t step)
{
    const struct training_spec *t = &j->spec.training;
    if (j->record.best.stops) { /* and no more */
        return j->record.best.last > step ? j->record.best.last : step;
    }
    uint64_t epochs = t->epochs > 0 ? (uint64_t)t->epochs : 0;
    uint64_t by_epochs = epochs == 0 ? UINT64_MAX
                         : epochs <= j->step_map.ledger.epoch
                             ? step
                             : step_map_epoch_end(&j->step_map, epochs - 1);
    uint64_t by_steps = t->steps > 0 ? (uint64_t)t->steps : UINT64_MAX;
    uint64_t total = by_steps < by_epochs ? by_steps : by_epochs;
    return total > step ? total : step;
}

int start_check_replicas(const struct consistency *c, uint64_t records, struct err *err)
{
    if (c->mode == TRAINING_SYNC && c->replicas > records) {
        return err_set(err, ERR_INVALID,
                       "training.replicas: %u replicas are more than the %" PRIu64
                       " training records",
                       c->replicas, records);
    }
    return 0;
}

int start_step_map(struct job *j, uint64_t step, const struct ledger *ledger, struct err *err)
{
    uint32_t replicas = j->record.consistency.replicas;
    int rc = start_check_replicas(&j->record.consistency, j->epoch_records, err);
    if (rc < 0) {
        return rc;
    }
    step_map_release(&j->step_map);
    step_map_init(&j->step_map, step, job_is_sync(j) ? replicas : 1, ledger);
    uint64_t total = steps_total(j, step);
    if (total == UINT64_MAX || total == 0) {
        return err_set(err, ERR_INVALID, "training: neither epochs nor steps say when it ends");
    }
    leases_release(&j->leases);
    if (!job_is_sync(j)) {
        leases_init(&j->leases, &j->step_map.ledger, step_map_batches(&j->step_map, total));
    }
    j->record.steps_total = total;
    j->record.epochs_total =
        (double)step_map_examples(&j->step_map, total) / (double)j->epoch_records;
    checkpoint_due_plan(j, step);
    j->step_limit = job_is_sync(j) ? checkpoint_due_next(j, step) : 0;
    return 0;
}

/* Turns numbers of the job file into counts for this data. */
static int set_counts(struct job *j, struct err *err)
{
    const struct training_spec *t = &j->spec.training;
    struct ledger_shape shape = {.records = j->epoch_records,
                                 .batch_records = (uint32_t)t->batch_size,
                                 .split_batches = (uint32_t)t->split_batches};
    uint64_t batches = ledger_shape_batches(&shape);
    if (shape.split_batches == 0) {
        shape.split_batches = start_split_batches(batches, (uint64_t)j->spec.cluster.workers.max);
    }
    struct ledger ledger;
    j->record.best = (struct best){0}; /* a checkpoint to which it goes back has its own */
    if (ledger_init(&ledger, &shape, 0, err) < 0) {
        return err_wrap(err, "data");
    }
    int rc = start_step_map(j, 0, &ledger, err);
    ledger_release(&ledger);
    j->version_shift = MUTANT(slots_from_zero) ? 0 : j->slots_version;
    j->evaluated_step = NO_STEP;
    j->checkpointed_step = NO_STEP;
    return rc;
}

/* Makes the plan of these variables. */
static int make_plan(const struct job_spec *spec, const struct variable_spec *variables,
                     size_t count, struct plan *out, struct err *err)
{
    int rc = plan_make_job(variables, count, spec, out, err);
    rc = rc != 0 ? rc : plan_update_check(out, &spec->update, err);
    if (rc < 0) {
        plan_release(out);
        return err_wrap(err, "plan");
    }
    return 0;
}

/* Its file says how many servers it wants; it may run with others still (resize.c). */
int start_plan(const struct job *j, const struct job_spec *of, size_t servers, struct plan *out,
               struct err *err)
{
    struct job_spec with = *of; /* all of it is borrowed */
    const struct job_spec *spec = &with;
    with.cluster.ps = (int64_t)(MUTANT(resize_plan_of_file) ? (size_t)of->cluster.ps : servers);
    if (job_spec_is_given(spec) || job_spec_has_from(spec)) {
        return make_plan(spec, j->given.variables, j->given.count, out, err);
    }
    struct model *model = NULL;
    int rc = model_new(&spec->model, &j->train.features, &j->train.fields,
                       j->train.label_is_class ? j->train.classes : 0, &model, err);
    if (rc < 0) {
        return err_wrap(err, "model");
    }
    rc = model_check_batch(model, (size_t)spec->training.batch_size, err);
    if (rc < 0) {
        model_free(model);
        return err_wrap(err, "model");
    }
    size_t count = model_variable_count(model);
    struct variable_spec *variables = model_variables(model);
    rc = make_plan(spec, variables, count, out, err);
    free(variables);
    model_free(model);
    return rc;
}

bool start_fits(const struct job *j, size_t servers, struct err *err)
{
    struct plan plan = {0};
    const int rc = start_plan(j, &j->spec, servers, &plan, err);
    plan_release(&plan);
    return rc == 0;
}

static int check_labels(const struct job *j, struct err *err)
{
    enum data_label_kind kind = job_spec_label_kind(&j->spec);
    if ((kind == DATA_LABEL_CLASS) != j->train.label_is_class) {
        return err_set(err, ERR_INVALID, "data: the labels are %s, but the %s needs %s",
                       j->train.label_is_class ? "classes" : "real numbers",
                       job_spec_is_program(&j->spec) ? "job" : "loss",
                       kind == DATA_LABEL_CLASS ? "classes" : "real numbers");
    }
    if (j->train.label_is_class && j->train.classes == 0) {
        return err_set(err, ERR_INVALID, "data: no classes among the labels");
    }
    return 0;
}

/* Does the job fit its data? Everything that the job file alone could not tell. */
int start_check_data(struct job *j, struct err *err)
{
    if (j->train.records == 0) {
        return err_set(err, ERR_INVALID, "data.train: no records");
    }
    j->epoch_records = job_spec_epoch_records(&j->spec, j->train.records);
    j->record.left_out = j->train.records - j->epoch_records;
    if (j->epoch_records == 0) {
        return err_set(err, ERR_INVALID,
                       "training.drop_last: %" PRIu64 " train records make no batch of %" PRId64,
                       j->train.records, j->spec.training.batch_size);
    }
    if ((job_spec_is_given(&j->spec) || job_spec_has_from(&j->spec)) && j->given.count == 0) {
        return err_set(err, ERR_INVALID, "%s: the worker told no variables",
                       job_spec_is_program(&j->spec) ? "model.program"
                       : job_spec_is_given(&j->spec) ? "model.onnx"
                                                     : "from");
    }
    int rc = job_spec_has_data(&j->spec) ? check_labels(j, err) : 0;
    rc = rc != 0 ? rc : stop_check_data(j, err);
    rc = rc != 0 ? rc : start_plan(j, &j->spec, j->shard_count, &j->plan, err);
    j->has_plan = rc == 0;
    return rc < 0 ? rc : set_counts(j, err);
}

static void warn(struct job *j, const char *text)
{
    char *both = j->warning == NULL ? mem_strdup(text) : mem_printf("%s; %s", j->warning, text);
    free(j->warning);
    j->warning = both;
}

void start_warn(struct master *m, struct job *j, const struct node *n, const char *problem)
{
    char quoted[1200];
    action_log(m, LOG_LEVEL_WARN, "no_checkpoints_there", "job=%s node=%s reason=%s", j->record.id,
               n->id, log_quote(problem, quoted, sizeof quoted));
    j->cannot_save = true;
    warn(j, action_printf(m, "%s could not write a checkpoint: %s", n->id, problem));
}

void start_open(struct master *m, struct job *j)
{
    job_say(j, j->resume ? action_printf(m, "%s; goes back to step %" PRIu64, j->resume_reason,
                                         j->step_map.step)
                         : "opens the shards");
    data_note(j);
    shards_ask(m, j);
}

/* @from is NULL or "": the tables begin empty. */
static void take_rows(struct job *j, const char *from, uint64_t manifest)
{
    free(j->rows_from);
    j->rows_from = from == NULL || from[0] == '\0' ? NULL : mem_strdup(from);
    j->rows_manifest = manifest;
}

static void take_encoding(struct job *j, const char *encoding)
{
    free(j->encoding);
    j->encoding = encoding == NULL || encoding[0] == '\0' ? NULL : mem_strdup(encoding);
}

void start_forget_fields(struct job *j)
{
    for (size_t i = 0; j->field_names != NULL && i < j->train.fields.count; i++) {
        free(j->field_names[i]);
    }
    free(j->field_names);
    j->field_names = NULL;
    j->train.fields = j->test.fields = (struct sparse_names){0};
    free(j->given_own);
    take_encoding(j, NULL);
    take_rows(j, NULL, 0);
    j->slots_version = 0;
    j->given_own = NULL;
    j->given = (struct given_variables){0};
}

/* The first answer counts. */
void start_inspect_done(struct master *m, struct job *j, const struct master_call_done *done)
{
    calls_forget(&m->calls, j, MASTER_CALL_INSPECT);
    start_forget_fields(j);
    const struct sparse_names *fields = &done->train.fields;
    j->field_names = mem_new(fields->count + 1, sizeof *j->field_names);
    for (size_t i = 0; i < fields->count; i++) {
        j->field_names[i] = mem_strdup(fields->names[i]);
    }
    j->train = done->train;
    j->test = done->test;
    j->train.fields.names = j->test.fields.names = (const char *const *)j->field_names;
    if (done->given.count > 0) {
        j->given_own = mem_new(done->given.count, sizeof *j->given_own);
        memcpy(j->given_own, done->given.variables, done->given.count * sizeof *j->given_own);
        j->given = done->given;
        j->given.variables = j->given_own;
    }
    if (done->from != NULL && done->from[0] != '\0') {
        char quoted[1200];
        job_record_set(&j->record.started_from, done->from);
        j->from_fingerprint = done->from_fingerprint;
        take_rows(j, done->rows_from, done->rows_manifest);
        j->slots_version = done->slots_version;
        action_log(m, LOG_LEVEL_INFO, "job_from", "job=%s took=%s", j->record.id,
                   log_quote(done->from, quoted, sizeof quoted));
    }
    take_encoding(j, done->encoding);
    j->inspected = true;
}

/* The number of servers that it was to move to came before its data were known, and there is no
 * plan for so many. */
static bool is_cut_too_fine(const struct job *j)
{
    const size_t had = j->record.servers;
    return had != 0 && had != j->shard_count && !start_fits(j, j->shard_count, NULL) &&
           start_fits(j, had, NULL);
}

int start_data_known(struct master *m, struct job *j)
{
    struct err err = {0};
    if (start_check_data(j, &err) < 0) {
        if (is_cut_too_fine(j)) {
            resize_take_back(m, j, err.msg);
            job_must_restart(j, err.msg);
        } else {
            job_must_end(j, JOB_FAILED, "%s", err.msg);
        }
        return err.code;
    }
    action_log(m, LOG_LEVEL_INFO, "job_data",
               "job=%s train_records=%" PRIu64 " test_records=%" PRIu64 " steps=%" PRIu64 "%s",
               j->record.id, j->train.records, j->test.records, j->record.steps_total,
               j->test.records == 0 ? " evaluation=\"skipped: no test source\"" : "");
    quota_measure(j);
    progress_init(j);
    free(j->warning);
    j->warning = NULL;
    j->cannot_save = false;
    return 0;
}

void start_find(struct master *m, struct job *j)
{
    j->find_number = ++m->next_number;
    struct master_action *action = action_add(m, MASTER_FIND);
    const char **avoid = action_memory(m, j->avoid_count, sizeof *avoid);
    for (size_t i = 0; i < j->avoid_count; i++) {
        avoid[i] = action_printf(m, "%s", j->avoid[i]);
    }
    action->find = (struct master_find){
        .number = j->find_number, .job = &j->record, .avoid = avoid, .avoid_count = j->avoid_count};
}

/* The newest checkpoint, or the beginning: what came after it never was. */
static int go_back(struct master *m, struct job *j, const struct master_found *found,
                   struct err *err)
{
    uint64_t step = found->found ? found->step : 0;
    stop_go_back(j, found);
    if (found->found) {
        const struct ledger_shape *there = &found->ledger->shape;
        const struct ledger_shape *here = &j->step_map.ledger.shape;
        if (there->records != here->records || there->batch_records != here->batch_records) {
            return err_set(err, ERR_INVALID,
                           "it is of %" PRIu64 " records in batches of %u; the data has %" PRIu64
                           " in batches of %u",
                           there->records, there->batch_records, here->records,
                           here->batch_records);
        }
        if (data_check_same(j, err) < 0) {
            return err->code;
        }
        int rc = MUTANT(restore_from_the_start) ? 0 : start_step_map(j, step, found->ledger, err);
        if (rc < 0) {
            return rc;
        }
        progress_restore(j, found);
        j->version_shift = found->version - step;
        j->checkpointed_step = step;
        job_record_set(&j->restore, found->directory);
        job_record_set(&j->record.checkpoint, found->path);
    } else {
        free(j->restore);
        j->restore = NULL;
    }
    progress_go_back(j, step);
    j->history_starts = job_history_start(&j->record.history, step + j->version_shift, step);
    checkpoint_due_make_up(j);
    action_log(m, LOG_LEVEL_WARN, "job_resumes", "job=%s step=%" PRIu64 " checkpoint=%s",
               j->record.id, step, j->restore == NULL ? "-" : j->restore);
    return 0;
}

bool start_recalls(const struct job *j)
{
    return job_spec_takes_encoding(&j->spec) && j->record.checkpoint[0] != '\0' &&
           j->encoding == NULL && !MUTANT(encoding_forgotten);
}

void on_found(struct master *m, const struct master_found *found)
{
    struct job *j = NULL;
    for (size_t i = 0; i < m->job_count; i++) {
        const enum phase phase = m->jobs[i]->phase;
        if ((phase == PHASE_FIND || phase == PHASE_RECALL) &&
            m->jobs[i]->find_number == found->number) {
            j = m->jobs[i];
        }
    }
    if (j == NULL) {
        return; /* cancelled, or recovering from something else meanwhile */
    }
    job_touch(j);
    struct err err = {0};
    const char *skipped = found->skipped == NULL ? "" : found->skipped;
    bool named = j->record.checkpoint[0] != '\0' && !MUTANT(begins_anew);
    if (found->err != NULL) {
        job_must_restart(
            j, action_printf(m, "cannot look for its newest checkpoint: %s", found->err->msg));
    } else if (!found->found && named) {
        const char *why =
            action_printf(m, "none of its checkpoints can be read, and it had %s: %s",
                          j->record.checkpoint, j->avoid_count > 0 ? j->avoid_why : skipped);
        start_avoid_clear(j); /* all of them are tried again */
        job_must_restart(j, why);
    } else if (j->phase == PHASE_RECALL) { /* where it goes on is found when the data are known */
        take_encoding(j, found->encoding);
        j->found = true;
    } else if (go_back(m, j, found, &err) < 0) {
        job_must_end(j, JOB_FAILED, "cannot go back to its checkpoint %s: %s", found->path,
                     err.msg);
    } else {
        if (found->found && skipped[0] != '\0') {
            warn(j, action_printf(m, "went back to step %" PRIu64 ", not to a newer checkpoint: %s",
                                  found->step, skipped));
        }
        j->found = true;
    }
}

void start_workers(struct master *m, struct job *j)
{
    j->go_ms = 0;
    if (!j->resume) {
        job_say(j, "the workers load the data");
    }
    for (size_t i = 0; i < j->worker_count; i++) {
        call_start(m, j, j->workers[i].node, MASTER_CALL_START, 0);
    }
}

void start_end(struct master *m, struct job *j)
{
    j->resume = false;
    j->start_failures = 0;
    j->go_ms = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        j->workers[i].member = j->workers[i].started; /* OpenShard named them */
    }
    start_avoid_clear(j);
    job_enter(m, j, JOB_RUNNING,
              j->move_refused != NULL ? j->move_refused
              : j->warning != NULL    ? j->warning
                                      : "");
    resize_done(m, j);
    progress_step(m, j, j->step_map.step);
}

void start_worker_done(struct master *m, struct job *j, struct node *n)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w == NULL) {
        return;
    }
    if (j->phase != PHASE_START && j->workers_fit > 0 && job_workers_started(j) >= j->workers_fit) {
        job_drop_worker(m, j, n, "there is no memory for one more worker");
        return;
    }
    w->started = true;
    j->regroup_needed = j->regroup_needed || j->phase != PHASE_START;
}
