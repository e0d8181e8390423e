#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/model.h"
#include "master/core.h"

/* Splits of an epoch when the job leaves it to us: so many that the slowest worker is never far
 * behind at the end of an epoch, so few that leasing costs nothing beside computing. */
#define SPLITS_PER_WORKER 32
#define SPLITS_MAX 512
#define SPLITS_PER_WORKER_MIN 8

uint32_t start_split_batches(uint64_t batches, uint64_t workers)
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
    j->regroup_needed = false;
    job_enter(m, j, JOB_STARTING, "reads the data");
    j->phase = PHASE_INSPECT;
    call_start(m, j, j->workers[0].node, MASTER_CALL_INSPECT, 0);
}

static uint64_t interval_steps(const struct field_interval *i, uint64_t steps_per_epoch)
{
    uint64_t count = i->count > 0 ? (uint64_t)i->count : 0;
    if (!i->epochs) {
        return count;
    }
    return count > UINT64_MAX / steps_per_epoch ? UINT64_MAX : count * steps_per_epoch;
}

static uint64_t steps_total(const struct job *j)
{
    const struct training_spec *t = &j->spec.training;
    uint64_t epochs = t->epochs > 0 ? (uint64_t)t->epochs : UINT64_MAX;
    uint64_t by_epochs =
        epochs > UINT64_MAX / j->steps_per_epoch ? UINT64_MAX : epochs * j->steps_per_epoch;
    uint64_t by_steps = t->steps > 0 ? (uint64_t)t->steps : UINT64_MAX;
    return by_steps < by_epochs ? by_steps : by_epochs;
}

/* What the numbers of the job file mean with this data. */
static int set_counts(struct job *j, struct err *err)
{
    const struct training_spec *t = &j->spec.training;
    struct ledger_shape shape = {.records = j->train.records,
                                 .batch_records = (uint32_t)t->batch_size,
                                 .split_batches = (uint32_t)t->split_batches};
    uint64_t batches = ledger_shape_batches(&shape);
    if (shape.split_batches == 0) {
        shape.split_batches = start_split_batches(batches, (uint64_t)j->spec.cluster.workers);
    }
    j->replicas = (uint32_t)job_spec_replicas(&j->spec);
    if (job_is_sync(j) && j->replicas > j->train.records) {
        return err_set(err, ERR_INVALID,
                       "training.replicas: %u replicas are more than the %" PRIu64
                       " training records",
                       j->replicas, j->train.records);
    }
    j->steps_per_epoch = job_is_sync(j) ? (batches + j->replicas - 1) / j->replicas : batches;
    uint64_t total = steps_total(j);
    if (total == UINT64_MAX || total == 0) {
        return err_set(err, ERR_INVALID, "training: neither epochs nor steps say when it ends");
    }
    int rc = job_is_sync(j) ? ledger_init(&j->ledger, &shape, 0, err)
                            : leases_init(&j->leases, &shape, total, err);
    if (rc < 0) {
        return err_wrap(err, "data");
    }
    j->record.steps_total = total;
    j->record.epochs_total = (double)total / (double)j->steps_per_epoch;
    j->evaluate_steps =
        j->test.records == 0 ? 0 : interval_steps(&t->evaluate_every, j->steps_per_epoch);
    j->checkpoint_steps = interval_steps(&t->checkpoint_every, j->steps_per_epoch);
    j->next_evaluate = j->evaluate_steps == 0 ? NO_STEP : j->evaluate_steps;
    j->next_checkpoint = j->checkpoint_steps == 0 ? NO_STEP : j->checkpoint_steps;
    j->evaluated_step = NO_STEP;
    j->checkpointed_step = NO_STEP;
    return 0;
}

static int make_plan(struct job *j, struct err *err)
{
    struct model *model = NULL;
    int rc = model_new(&j->spec.model, &j->train.features,
                       j->train.label_is_class ? j->train.classes : 0, &model, err);
    if (rc < 0) {
        return err_wrap(err, "model");
    }
    size_t count = model_variable_count(model);
    struct variable_spec *variables = mem_new(count == 0 ? 1 : count, sizeof *variables);
    for (size_t i = 0; i < count; i++) {
        variables[i] = *model_variable(model, i);
    }
    rc = plan_make(variables, count, &j->spec.cluster, &j->plan, err);
    free(variables);
    model_free(model);
    if (rc < 0) {
        return err_wrap(err, "plan");
    }
    j->has_plan = true;
    return 0;
}

/* Does the job fit its data? Everything that the job file alone could not tell. */
int start_check_data(struct job *j, struct err *err)
{
    if (j->train.records == 0) {
        return err_set(err, ERR_INVALID, "data.train: no records");
    }
    enum data_label_kind kind = job_spec_label_kind(&j->spec);
    if ((kind == DATA_LABEL_CLASS) != j->train.label_is_class) {
        return err_set(err, ERR_INVALID, "data: the labels are %s, but the loss needs %s",
                       j->train.label_is_class ? "classes" : "real numbers",
                       kind == DATA_LABEL_CLASS ? "classes" : "real numbers");
    }
    if (j->train.label_is_class && j->train.classes == 0) {
        return err_set(err, ERR_INVALID, "data: no classes among the labels");
    }
    int rc = make_plan(j, err);
    return rc < 0 ? rc : set_counts(j, err);
}

void start_inspect_done(struct master *m, struct job *j, const struct master_call_done *done)
{
    j->train = done->train;
    j->test = done->test;
    struct err err = {0};
    if (start_check_data(j, &err) < 0) {
        job_end(m, j, JOB_FAILED, "%s", err.msg);
        return;
    }
    action_log(m, LOG_LEVEL_INFO, "job_data",
               "job=%s train_records=%" PRIu64 " test_records=%" PRIu64 " steps=%" PRIu64
               " steps_per_epoch=%" PRIu64 "%s",
               j->record.id, j->train.records, j->test.records, j->record.steps_total,
               j->steps_per_epoch,
               j->test.records == 0 ? " evaluation=\"skipped: no test source\"" : "");
    progress_init(j);
    j->phase = PHASE_OPEN;
    job_say(m, j, "opens the shards");
    for (size_t i = 0; i < j->shard_count; i++) {
        j->shards[i].opened = true;
        call_start(m, j, j->shards[i].node, MASTER_CALL_OPEN, (uint32_t)i);
    }
}

void start_open_done(struct master *m, struct job *j)
{
    if (calls_open(m, j, MASTER_CALL_OPEN) > 0) {
        return;
    }
    j->phase = PHASE_START;
    job_say(m, j, "the workers load the data");
    for (size_t i = 0; i < j->worker_count; i++) {
        call_start(m, j, j->workers[i].node, MASTER_CALL_START, 0);
    }
}

static void all_started(struct master *m, struct job *j)
{
    job_enter(m, j, JOB_RUNNING, "");
    progress_step(m, j, 0);
    j->step_limit = job_is_sync(j) ? milestone_next(j, 0) : 0;
    if (j->regroup_needed) {
        train_regroup(m, j);
    } else {
        train_assign(m, j);
    }
}

void start_worker_done(struct master *m, struct job *j, struct node *n)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w == NULL) {
        return;
    }
    w->started = true;
    if (j->record.state == JOB_STARTING) {
        if (job_workers_started(j) == j->worker_count) {
            all_started(m, j);
        }
        return;
    }
    if (j->record.state == JOB_RECOVERING) {
        job_enter(m, j, JOB_RUNNING, "");
        j->phase = j->over ? PHASE_FINISH : PHASE_NONE;
    }
    evaluate_pump(m, j);
    if (!j->over) {
        train_regroup(m, j);
    }
}

void start_worker_gone(struct master *m, struct job *j)
{
    j->regroup_needed = true;
    if (j->worker_count == 0) {
        job_restart(m, j, "all its workers were lost while it started");
    } else if (j->phase == PHASE_INSPECT && calls_open(m, j, MASTER_CALL_INSPECT) == 0) {
        call_start(m, j, j->workers[0].node, MASTER_CALL_INSPECT, 0);
    } else if (j->phase == PHASE_START && job_workers_started(j) == j->worker_count) {
        all_started(m, j);
    }
}
