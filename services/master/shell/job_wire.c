/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the record of a job into the protobuf message Job and back. Clients get that message, and
 * the store keeps it; the job's secret is only in what is stored. */
#include "master/shell/job_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "master/shell/history_wire.h"
#include "wire/wire.h"

struct evaluation_room {
    Gradus__V1__Evaluation message;
    Gradus__V1__MetricValue values[2][METRIC_KIND_COUNT];
    Gradus__V1__MetricValue *pointers[2][METRIC_KIND_COUNT];
};
struct shard_room {
    Gradus__V1__ShardProgress message;
    Gradus__V1__Ledger ledger;
};
struct times_room {
    Gradus__V1__WorkerTimes message;
    Gradus__V1__StepTimes times;
};
struct room { /* everything that the message points to, but for the record's own strings */
    struct evaluation_room now;
    Gradus__V1__BestVersion best;
    Gradus__V1__Consistency consistency;
    struct shard_room *shards;
    Gradus__V1__ShardProgress **shard_list;
    struct change_wire changes;
    Gradus__V1__StepTimes times;
    struct times_room *worker_times;
    Gradus__V1__WorkerTimes **worker_times_list;
    Gradus__V1__Evaluation *evaluations[JOB_EVALUATIONS_MAX];
    struct evaluation_room items[];
};

/* The names are constants; the message has no pointers to const, and nobody writes through it. */
static char *name_of(int kind)
{
    union {
        const char *in;
        char *out;
    } name = {.in = metric_kind_names[kind]};
    return name.out;
}

static size_t fill_metrics(const struct job_metrics *m, Gradus__V1__MetricValue *values,
                           Gradus__V1__MetricValue **pointers)
{
    size_t count = 0;
    for (int kind = 0; kind < METRIC_KIND_COUNT; kind++) {
        if ((m->kinds >> kind & 1u) != 0) {
            gradus__v1__metric_value__init(&values[count]);
            values[count].name = name_of(kind);
            values[count].value = m->values[kind];
            pointers[count] = &values[count];
            count++;
        }
    }
    return count;
}

static void fill_evaluation(const struct job_evaluation *e, struct evaluation_room *room)
{
    Gradus__V1__Evaluation *message = &room->message;
    gradus__v1__evaluation__init(message);
    message->step = e->step;
    message->epoch = e->epoch;
    message->time_ms = e->time_ms;
    message->train_part = e->train.part;
    message->train = room->pointers[0];
    message->n_train = fill_metrics(&e->train, room->values[0], room->pointers[0]);
    message->test = room->pointers[1];
    message->n_test = fill_metrics(&e->test, room->values[1], room->pointers[1]);
}

static void fill_arrays(Gradus__V1__Job *j, const struct job_record *r, struct room *room,
                        size_t evaluations)
{
    const struct job_evaluation now = {.train = r->train, .test = r->test};
    fill_evaluation(&now, &room->now);
    j->n_train = room->now.message.n_train;
    j->train = room->now.message.train;
    j->n_test = room->now.message.n_test;
    j->test = room->now.message.test;
    for (size_t i = 0; i < evaluations; i++) {
        fill_evaluation(&r->evaluations[i], &room->items[i]);
        room->evaluations[i] = &room->items[i].message;
    }
    j->n_evaluations = evaluations;
    j->evaluations = room->evaluations;
    j->n_test_confusion = evaluations > 0 ? r->confusion_count : 0;
    j->test_confusion = r->confusion;
    j->n_workers = r->workers.count;
    j->workers = r->workers.items;
    j->n_ps = r->ps.count;
    j->ps = r->ps.items;
    size_t buckets = JOB_STALENESS_BUCKETS;
    while (buckets > 0 && r->staleness[buckets - 1] == 0) {
        buckets--;
    }
    union {
        const uint64_t *in;
        uint64_t *out;
    } staleness = {.in = r->staleness};
    j->n_staleness = buckets;
    j->staleness = staleness.out;
}

static void fill_shards(Gradus__V1__Job *j, const struct job_record *r, struct room *room,
                        bool ledgers)
{
    room->shards = mem_new(r->shard_count + 1, sizeof *room->shards);
    room->shard_list = mem_new(r->shard_count + 1, sizeof *room->shard_list);
    for (size_t i = 0; i < r->shard_count; i++) {
        const struct job_shard *from = &r->shards[i];
        Gradus__V1__ShardProgress *to = &room->shards[i].message;
        gradus__v1__shard_progress__init(to);
        to->shard = (uint32_t)i;
        if (from->ps != NULL) {
            to->ps = from->ps;
        }
        if (from->backup != NULL) {
            to->backup = from->backup;
        }
        if (from->backup_problem != NULL) {
            to->backup_problem = from->backup_problem;
        }
        to->backup_follows = from->follows;
        to->state_sent = from->state_sent;
        to->state_bytes = from->state_bytes;
        to->backup_behind = from->backup_behind;
        to->value_bytes = from->value_bytes;
        to->version = from->version;
        to->examples = from->examples;
        to->duplicates = from->duplicates;
        to->dropped = from->dropped;
        if (ledgers && from->ledger.split_count > 0) {
            wire_ledger_to_proto(&from->ledger, &room->shards[i].ledger);
            to->ledger = &room->shards[i].ledger;
        }
        room->shard_list[i] = to;
    }
    j->n_shards = r->shard_count;
    j->shards = room->shard_list;
}

static void fill_times(Gradus__V1__Job *j, const struct job_record *r, struct room *room)
{
    size_t count = r->worker_times_count;
    if (r->times.steps > 0) {
        wire_step_times_to_proto(&r->times, &room->times);
        j->times = &room->times;
    }
    room->worker_times = mem_new(count + 1, sizeof *room->worker_times);
    room->worker_times_list = mem_new(count + 1, sizeof *room->worker_times_list);
    for (size_t i = 0; i < count; i++) {
        struct times_room *to = &room->worker_times[i];
        gradus__v1__worker_times__init(&to->message);
        wire_step_times_to_proto(&r->worker_times[i].times, &to->times);
        to->message.worker = r->worker_times[i].worker;
        to->message.times = &to->times;
        room->worker_times_list[i] = &to->message;
    }
    j->n_worker_times = count;
    j->worker_times = room->worker_times_list;
}

static void fill_best(Gradus__V1__Job *j, const struct job_record *r, struct room *room)
{
    const struct best *b = &r->best;
    Gradus__V1__BestVersion *to = &room->best;
    if (b->count == 0) {
        return;
    }
    gradus__v1__best_version__init(to);
    to->metric = name_of((int)b->metric);
    to->value = b->value;
    to->step = b->step;
    to->known = b->known;
    to->count = b->count;
    to->last = b->last;
    to->without = b->without;
    to->stops = b->stops;
    to->checkpoint = r->best_checkpoint;
    to->kept_step = b->kept ? b->kept_step : 0;
    j->best = to;
}

void job_wire_init(struct job_wire *out, const struct job_record *r, unsigned parts)
{
    Gradus__V1__Job *j = &out->job;
    gradus__v1__job__init(j);
    j->id = r->id;
    j->name = r->name;
    j->state = (Gradus__V1__JobState)r->state;
    j->reason = r->reason;
    j->activity = r->activity;
    j->submitted_ms = r->submitted_ms;
    j->started_ms = r->started_ms;
    j->finished_ms = r->finished_ms;
    j->step = r->step;
    j->steps_total = r->steps_total;
    j->epoch = r->epoch;
    j->epochs_total = r->epochs_total;
    j->examples_per_second = r->examples_per_second;
    j->seconds = r->seconds;
    j->eta_seconds = r->eta_seconds;
    j->checkpoint = r->checkpoint;
    j->started_from = r->started_from;
    j->generation = r->generation;
    j->mode = wire_mode_to_proto(r->consistency.mode);
    j->examples = r->examples;
    j->left_out = r->left_out;
    j->dropped = r->dropped;
    j->speculated = r->speculated;
    j->recoveries = r->recoveries;
    j->adoptions = r->adoptions;
    j->takeovers = r->takeovers;
    j->resumes = r->resumes;
    j->ended_before = r->ended_before;
    j->stop_passed = r->stop_passed;
    j->owner = r->owner;
    j->priority = r->priority;
    j->queue_position = r->queue_position;
    j->waiting = (Gradus__V1__Waiting)r->waiting;
    j->paused = r->paused;
    j->preemptions = r->preemptions;
    j->ps_memory = r->ps_memory;
    j->servers = r->servers;
    if ((parts & JOB_WIRE_TEXT) != 0) {
        j->text = r->text;
    }
    size_t evaluations = (parts & JOB_WIRE_EVALUATIONS) != 0 ? r->evaluation_count : 0;
    struct room *room = mem_new(1, sizeof *room + evaluations * sizeof(struct evaluation_room));
    out->memory = room;
    fill_arrays(j, r, room, evaluations);
    fill_shards(j, r, room, (parts & JOB_WIRE_LEDGERS) != 0);
    fill_times(j, r, room);
    fill_best(j, r, room);
    if ((parts & JOB_WIRE_TEXT) != 0) {
        change_wire_init(&room->changes, &r->history);
        j->changes = room->changes.list;
        j->n_changes = r->history.change_count;
    }
    if (r->consistency.replicas > 0) {
        wire_consistency_to_proto(&r->consistency, &room->consistency);
        j->consistency = &room->consistency;
    }
}

void job_wire_release(struct job_wire *w)
{
    struct room *room = w->memory;
    if (room != NULL) {
        free(room->shards);
        free(room->shard_list);
        change_wire_release(&room->changes);
        free(room->worker_times);
        free(room->worker_times_list);
        free(room);
    }
    memset(w, 0, sizeof *w);
}

void job_wire_pack(const struct job_record *record, struct buf *out)
{
    struct job_wire w;
    job_wire_init(&w, record, JOB_WIRE_ALL);
    if (gradus__v1__job__get_packed_size(&w.job) > JOB_WIRE_ROW_BYTES_MAX) {
        job_wire_release(&w);
        job_wire_init(&w, record, JOB_WIRE_ALL & ~JOB_WIRE_LEDGERS);
    }
    w.job.queue_position = 0; /* of the moment */
    w.job.waiting = GRADUS__V1__WAITING__NOT_WAITING;
    uint8_t secret[FENCE_SECRET_BYTES]; /* in rows alone */
    memcpy(secret, record->secret, sizeof secret);
    for (size_t i = 0; i < sizeof secret; i++) { /* zeros: it has none yet */
        if (secret[i] != 0) {
            w.job.secret = (ProtobufCBinaryData){.len = sizeof secret, .data = secret};
        }
    }
    w.job.train_fingerprint = record->data.train;
    w.job.test_fingerprint = record->data.test;
    w.job.given_fingerprint = record->data.given;
    struct era_wire eras;
    era_wire_init(&eras, record->history.eras, record->history.era_count);
    w.job.eras = eras.list;
    w.job.n_eras = record->history.era_count;
    struct handover_wire handover;
    handover_wire_init(&handover, &record->handover);
    w.job.handover = record->handover.opening == 0 ? NULL : &handover.message;
    size_t n = gradus__v1__job__get_packed_size(&w.job);
    uint8_t *bytes = mem_new(n == 0 ? 1 : n, 1);
    gradus__v1__job__pack(&w.job, bytes);
    buf_add(out, bytes, n);
    free(bytes);
    era_wire_release(&eras);
    handover_wire_release(&handover);
    job_wire_release(&w);
}

static void take_metrics(struct job_metrics *m, Gradus__V1__MetricValue *const *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (int kind = 0; kind < METRIC_KIND_COUNT; kind++) {
            if (strcmp(values[i]->name, metric_kind_names[kind]) == 0) {
                m->kinds |= 1u << kind;
                m->values[kind] = values[i]->value;
            }
        }
    }
}

static void take_best(struct job_record *r, const Gradus__V1__BestVersion *from)
{
    for (int kind = 0; from != NULL && kind < METRIC_KIND_COUNT; kind++) {
        if (strcmp(from->metric, metric_kind_names[kind]) == 0) {
            r->best = (struct best){.metric = (enum metric_kind)kind,
                                    .count = from->count,
                                    .last = from->last,
                                    .known = from->known != 0,
                                    .value = from->value,
                                    .step = from->step,
                                    .without = from->without,
                                    .stops = from->stops != 0,
                                    .kept = from->checkpoint[0] != '\0',
                                    .kept_step = from->kept_step};
            job_record_set(&r->best_checkpoint, from->checkpoint);
        }
    }
}

static void take_arrays(struct job_record *r, const Gradus__V1__Job *j)
{
    take_metrics(&r->train, j->train, j->n_train);
    take_metrics(&r->test, j->test, j->n_test);
    for (size_t i = 0; i < j->n_evaluations; i++) {
        const Gradus__V1__Evaluation *from = j->evaluations[i];
        struct job_evaluation e = {
            .step = from->step, .epoch = from->epoch, .time_ms = from->time_ms};
        take_metrics(&e.train, from->train, from->n_train);
        e.train.part = from->train_part != 0;
        take_metrics(&e.test, from->test, from->n_test);
        job_record_add_evaluation(r, &e);
    }
    r->confusion = mem_resize(r->confusion, j->n_test_confusion, sizeof *r->confusion);
    r->confusion_count = j->n_test_confusion;
    for (size_t i = 0; i < j->n_test_confusion; i++) {
        r->confusion[i] = j->test_confusion[i];
    }
    for (size_t i = 0; i < j->n_workers; i++) {
        job_names_add(&r->workers, j->workers[i]);
    }
    for (size_t i = 0; i < j->n_ps; i++) {
        job_names_add(&r->ps, j->ps[i]);
    }
    for (size_t i = 0; i < j->n_staleness && i < JOB_STALENESS_BUCKETS; i++) {
        r->staleness[i] = j->staleness[i];
    }
}

static int take_shards(struct job_record *r, const Gradus__V1__Job *j, struct err *err)
{
    job_record_set_shards(r, j->n_shards);
    for (size_t i = 0; i < j->n_shards; i++) {
        const Gradus__V1__ShardProgress *from = j->shards[i];
        struct job_shard *to = &r->shards[i];
        job_record_set(&to->ps, from->ps);
        job_record_set(&to->backup, from->backup);
        job_record_set(&to->backup_problem, from->backup_problem);
        to->follows = from->backup_follows != 0;
        to->state_sent = from->state_sent;
        to->state_bytes = from->state_bytes;
        to->backup_behind = from->backup_behind;
        to->value_bytes = from->value_bytes;
        to->version = from->version;
        to->examples = from->examples;
        to->duplicates = from->duplicates;
        to->dropped = from->dropped;
        int rc = from->ledger == NULL ? 0 : wire_ledger_from_proto(from->ledger, &to->ledger, err);
        if (rc < 0) {
            return err_wrap(err, "shard %zu", i);
        }
    }
    return 0;
}

/* Rows of earlier versions have only the mode. */
static int take_consistency(struct job_record *r, const Gradus__V1__Job *j, struct err *err)
{
    if (j->consistency != NULL) {
        return wire_consistency_from_proto(j->consistency, &r->consistency, err);
    }
    return wire_mode_from_proto(j->mode, &r->consistency.mode, err);
}

int job_wire_unpack(const void *data, size_t n, struct job_record *r, struct err *err)
{
    Gradus__V1__Job *j = gradus__v1__job__unpack(NULL, n, data);
    if (j == NULL || (int)j->state < JOB_PENDING || (int)j->state >= JOB_STATE_END) {
        if (j != NULL) {
            gradus__v1__job__free_unpacked(j, NULL);
        }
        return err_set(err, ERR_CORRUPT, "the row of a job cannot be read");
    }
    job_record_init(r);
    job_record_set(&r->id, j->id);
    job_record_set(&r->name, j->name);
    job_record_set(&r->reason, j->reason);
    job_record_set(&r->checkpoint, j->checkpoint);
    job_record_set(&r->started_from, j->started_from);
    job_record_set(&r->text, j->text);
    r->state = (enum job_state)j->state;
    r->submitted_ms = j->submitted_ms;
    r->started_ms = j->started_ms;
    r->finished_ms = j->finished_ms;
    r->step = j->step;
    r->steps_total = j->steps_total;
    r->epoch = j->epoch;
    r->epochs_total = j->epochs_total;
    r->examples = j->examples;
    r->examples_per_second = j->examples_per_second;
    r->seconds = j->seconds;
    r->generation = j->generation;
    if (j->secret.len == sizeof r->secret) { /* rows of earlier versions have none */
        memcpy(r->secret, j->secret.data, sizeof r->secret);
    }
    r->left_out = j->left_out;
    r->dropped = j->dropped;
    r->speculated = j->speculated;
    r->recoveries = j->recoveries;
    r->adoptions = j->adoptions;
    r->takeovers = j->takeovers;
    r->resumes = j->resumes;
    job_record_set(&r->ended_before, j->ended_before);
    r->stop_passed = j->stop_passed;
    r->data = (struct job_data){j->train_fingerprint, j->test_fingerprint, j->given_fingerprint};
    job_record_set(&r->owner, j->owner);
    r->priority = j->priority;
    r->paused = j->paused != 0;
    r->preemptions = j->preemptions;
    r->ps_memory = j->ps_memory;
    r->servers = j->servers;
    wire_step_times_from_proto(j->times, &r->times);
    take_arrays(r, j);
    take_best(r, j->best);
    history_from_proto(j, &r->history);
    struct err local = {0};
    int rc = take_consistency(r, j, &local);
    rc = rc < 0 ? rc : take_shards(r, j, &local);
    rc = rc < 0 ? rc : handover_from_proto(j->handover, &r->handover, &local);
    gradus__v1__job__free_unpacked(j, NULL);
    if (rc < 0) {
        job_record_release(r);
        return err_set(err, ERR_CORRUPT, "the row of a job cannot be read: %s", local.msg);
    }
    return 0;
}
