/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <string.h>

#include "base/mem.h"
#include "master/shell/job_wire.h"

/* What clients see of that record, field by field. */
static void check_message(const struct job_record *a)
{
    struct job_wire w;
    job_wire_init(&w, a, JOB_WIRE_ALL);
    const Gradus__V1__Job *j = &w.job;
    assert_string_equal(j->id, "x-1");
    assert_string_equal(j->name, "x");
    assert_int_equal(j->state, GRADUS__V1__JOB_STATE__FAILED);
    assert_string_equal(j->reason, "why");
    assert_string_equal(j->activity, "is busy");
    assert_string_equal(j->text, "name: x\n");
    assert_string_equal(j->checkpoint, "/c");
    assert_int_equal(j->submitted_ms, 5);
    assert_int_equal(j->started_ms, 41);
    assert_int_equal(j->finished_ms, 42);
    assert_int_equal(j->step, 7);
    assert_int_equal(j->steps_total, 9);
    assert_true(j->epoch == 4.5 && j->epochs_total == 6);
    assert_true(j->examples_per_second == 2.5 && j->seconds == 1.5 && j->eta_seconds == 43);
    assert_int_equal(j->generation, 3);
    assert_int_equal(j->examples, 11);
    assert_int_equal(j->dropped, 21);
    assert_int_equal(j->speculated, 22);
    assert_int_equal(j->recoveries, 23);
    assert_string_equal(j->owner, "ann");
    assert_int_equal(j->priority, -7);
    assert_int_equal(j->queue_position, 2);
    assert_int_equal(j->waiting, GRADUS__V1__WAITING__FOR_QUOTA);
    assert_true(j->paused);
    assert_int_equal(j->preemptions, 25);
    assert_int_equal(j->ps_memory, 4096);
    assert_int_equal(j->times->steps, 24);
    assert_int_equal(j->consistency->staleness, 4);
    assert_int_equal(j->n_workers, 1);
    assert_string_equal(j->workers[0], "w-1");
    assert_int_equal(j->n_ps, 1);
    assert_string_equal(j->ps[0], "p-1");
    assert_int_equal(j->n_staleness, 4);
    assert_int_equal(j->staleness[3], 4);
    assert_int_equal(j->n_train, 1);
    assert_string_equal(j->train[0]->name, "loss");
    assert_true(j->train[0]->value == 0.25);
    assert_int_equal(j->n_test, 0);
    assert_int_equal(j->n_evaluations, 3);
    assert_int_equal(j->evaluations[2]->step, 2);
    assert_true(j->evaluations[2]->epoch == 1.5 && j->evaluations[2]->time_ms == 8);
    assert_true(j->evaluations[2]->train_part);
    assert_int_equal(j->evaluations[2]->n_test, 2);
    assert_string_equal(j->evaluations[2]->test[1]->name, "rmse");
    assert_true(j->evaluations[2]->test[1]->value == 2);
    assert_int_equal(j->n_shards, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(j->shards[i]->shard, i);
    }
    assert_string_equal(j->shards[0]->ps, "p-1");
    assert_int_equal(j->shards[0]->version, 31);
    assert_int_equal(j->shards[0]->examples, 32);
    assert_int_equal(j->shards[0]->duplicates, 33);
    assert_string_equal(j->shards[0]->backup, "ps-2");
    assert_int_equal(j->shards[0]->backup_behind, 4);
    assert_int_equal(j->shards[0]->value_bytes, 5);
    assert_int_equal(j->shards[0]->dropped, 34);
    assert_int_equal(j->shards[0]->ledger->records, 53);
    assert_null(j->shards[1]->ledger);
    assert_int_equal(j->n_changes, 1);
    assert_int_equal(j->changes[0]->time_ms, 61);
    assert_string_equal(j->changes[0]->by, "ben");
    assert_int_equal(j->changes[0]->step, 62);
    assert_int_equal(j->changes[0]->version, 63);
    assert_int_equal(j->changes[0]->n_sets, 1);
    assert_string_equal(j->changes[0]->sets[0], "update.l1=1");
    assert_int_equal(j->n_eras, 0); /* in rows alone */
    job_wire_release(&w);
}

static void set_handover(struct job_handover *h)
{
    const struct ledger_shape shape = {.records = 9, .batch_records = 2, .split_batches = 2};
    *h = (struct job_handover){.opening = 77,
                               .format = 3,
                               .protocol = 4,
                               .servers = job_handover_nodes(1),
                               .server_count = 1,
                               .workers = job_handover_nodes(2),
                               .worker_count = 2,
                               .others = job_handover_nodes(1),
                               .other_count = 1,
                               .step = 12,
                               .version_shift = UINT64_MAX,
                               .checkpointed_step = 11,
                               .changing = true};
    assert_int_equal(ledger_init(&h->ledger, &shape, 3, NULL), 0);
    h->ledger.done[1] = 1;
    h->pin = (struct job_handover_pin){.id = mem_strdup("step-000000010-1-2"),
                                       .step = 10,
                                       .examples = 20,
                                       .data_epoch = 1,
                                       .epoch = 1.5,
                                       .checkpoint = true};
    assert_int_equal(ledger_init(&h->pin.ledger, &shape, 1, NULL), 0);
    h->pin.ledger.done[0] = 2;
    job_record_set(&h->servers[0].id, "ps-1");
    job_record_set(&h->servers[0].address, "h:1");
    h->servers[0].backup = 2;
    h->servers[0].backup_opening = 78;
    h->servers[0].backup_follows = true;
    job_record_set(&h->others[0].id, "ps-9");
    job_record_set(&h->workers[1].http_address, "h:2");
    job_record_set(&h->workers[1].host, "h");
    job_record_set(&h->workers[1].version, "0.1.0");
    h->workers[1].pid = 5;
    h->workers[1].incarnation = 6;
    h->workers[1].start = 7;
}

static void check_handover(const struct job_handover *h)
{
    assert_true(h->opening == 77 && h->step == 12 && h->changing);
    assert_true(h->version_shift == UINT64_MAX && h->checkpointed_step == 11);
    assert_true(h->server_count == 1 && h->worker_count == 2);
    assert_true(h->format == 3 && h->protocol == 4);
    assert_string_equal(h->workers[1].version, "0.1.0");
    assert_string_equal(h->servers[0].id, "ps-1");
    assert_string_equal(h->servers[0].address, "h:1");
    assert_true(h->servers[0].backup_opening == 78 && h->servers[0].backup_follows);
    assert_string_equal(job_handover_place(h, h->servers[0].backup)->id, "ps-9");
    assert_string_equal(job_handover_place(h, 1)->id, "ps-1");
    assert_int_equal(h->other_count, 1);
    assert_string_equal(h->workers[0].id, "");
    assert_string_equal(h->workers[1].http_address, "h:2");
    assert_string_equal(h->workers[1].host, "h");
    assert_true(h->workers[1].pid == 5 && h->workers[1].incarnation == 6);
    assert_int_equal(h->workers[1].start, 7);
    const struct job_handover_pin *p = &h->pin;
    assert_string_equal(p->id, "step-000000010-1-2");
    assert_true(p->step == 10 && p->examples == 20 && p->data_epoch == 1);
    assert_true(p->epoch == 1.5 && p->checkpoint && !p->evaluate);
    assert_true(p->ledger.epoch == 1 && p->ledger.done[0] == 2);
    assert_true(h->ledger.epoch == 3 && h->ledger.done[1] == 1 && h->ledger.done[0] == 0);
}

static void a_record_survives_the_wire(void **state)
{
    (void)state;
    struct job_record a, b;
    job_record_init(&a);
    job_record_set(&a.id, "x-1");
    job_record_set(&a.name, "x");
    job_record_set(&a.reason, "why");
    job_record_set(&a.text, "name: x\n");
    job_record_set(&a.checkpoint, "/c");
    a.state = JOB_FAILED;
    a.consistency = (struct consistency){.mode = TRAINING_BOUNDED,
                                         .replicas = 8,
                                         .aggregate = 8,
                                         .staleness = 4,
                                         .policy = POLICY_DELAY_COMPENSATION,
                                         .lambda = 0.5,
                                         .push_every = 2,
                                         .pull_every = 3};
    a.left_out = 20;
    a.dropped = 21;
    a.speculated = 22;
    a.recoveries = 23;
    job_record_set(&a.owner, "ann");
    a.priority = -7;
    a.queue_position = 2;
    a.waiting = JOB_WAITS_QUOTA;
    a.paused = true;
    a.preemptions = 25;
    a.ps_memory = 4096;
    const struct step_times times = {.steps = 24, .ns = {1000, 2000, 3000, 4000, 5000}};
    job_record_add_times(&a, "w-1", &times);
    job_record_set_shards(&a, 2);
    job_record_set(&a.shards[0].ps, "p-1");
    job_record_set(&a.shards[1].backup_problem, "no room");
    a.shards[0].follows = true;
    a.shards[0].state_sent = 35;
    a.shards[0].state_bytes = 36;
    a.shards[0].version = 31;
    a.shards[0].examples = 32;
    a.shards[0].duplicates = 33;
    job_record_set(&a.shards[0].backup, "ps-2");
    a.shards[0].backup_behind = 4;
    a.shards[0].value_bytes = 5;
    a.shards[0].dropped = 34;
    const struct ledger_shape shape = {.records = 53, .batch_records = 10, .split_batches = 2};
    assert_int_equal(ledger_init(&a.shards[0].ledger, &shape, 3, NULL), 0);
    a.shards[0].ledger.done[2] = 1;
    a.submitted_ms = 5;
    a.started_ms = 41;
    a.finished_ms = 42;
    a.epoch = 4.5;
    a.epochs_total = 6;
    a.eta_seconds = 43;
    job_record_set(&a.activity, "is busy");
    a.train.part = true;
    a.step = 7;
    a.steps_total = 9;
    a.examples = 11;
    a.seconds = 1.5;
    a.examples_per_second = 2.5;
    a.generation = 3;
    a.train.kinds = 1u << METRIC_LOSS;
    a.train.values[METRIC_LOSS] = 0.25;
    a.staleness[3] = 4;
    double counts[4] = {5, 1.25, 0, 7};
    job_record_set_confusion(&a, &(struct metric_tally){counts, 4});
    job_names_add(&a.workers, "w-1");
    job_names_add(&a.ps, "p-1");
    for (uint64_t i = 0; i < 3; i++) {
        struct job_evaluation e = {.step = i, .time_ms = 8, .epoch = 1.5, .train = a.train};
        e.test.kinds = 1u << METRIC_ACCURACY | 1u << METRIC_RMSE;
        e.test.values[METRIC_RMSE] = (double)i;
        job_record_add_evaluation(&a, &e);
    }
    char by[] = "ben", set[] = "update.l1=1";
    job_history_update(&a.history, 63, "before", "after");
    job_history_add(&a.history,
                    &(struct job_revision){.time_ms = 61,
                                           .by = by,
                                           .step = 62,
                                           .version = 63,
                                           .sets = {.items = (char *[]){set}, .count = 1}});
    set_handover(&a.handover);
    struct job_wire shown;
    memset(a.secret, 7, sizeof a.secret);
    job_wire_init(&shown, &a, JOB_WIRE_ALL);
    assert_int_equal(shown.job.secret.len, 0); /* clients do not see it */
    assert_null(shown.job.handover);
    job_wire_release(&shown);
    job_wire_init(&shown, &a, JOB_WIRE_BRIEF);
    assert_int_equal(shown.job.n_worker_times, 1);
    assert_string_equal(shown.job.worker_times[0]->worker, "w-1");
    assert_int_equal(shown.job.worker_times[0]->times->wire_us, 3);
    job_wire_release(&shown);
    job_record_drop_times(&a, "w-1"); /* what is stored is only how all of it was */
    check_message(&a);
    job_record_set(&a.activity, ""); /* what is only of the moment is not stored */
    a.eta_seconds = 0;
    struct buf packed = {0};
    job_wire_pack(&a, &packed);
    assert_int_equal(job_wire_unpack(packed.data, packed.len, &b, NULL), 0);
    struct buf again = {0};
    assert_memory_equal(b.secret, a.secret, sizeof a.secret);
    job_wire_pack(&b, &again);
    assert_int_equal(packed.len, again.len);
    assert_memory_equal(packed.data, again.data, packed.len);
    check_handover(&b.handover);
    assert_string_equal(b.shards[0].backup, "ps-2");
    assert_string_equal(b.shards[1].backup_problem, "no room");
    assert_true(b.shards[0].follows && !b.shards[1].follows);
    assert_true(b.shards[0].state_sent == 35 && b.shards[0].state_bytes == 36);
    assert_string_equal(b.text, "name: x\n");
    assert_int_equal(b.state, JOB_FAILED);
    assert_true(consistency_equal(&b.consistency, &a.consistency));
    assert_string_equal(b.id, "x-1");
    assert_string_equal(b.name, "x");
    assert_string_equal(b.reason, "why");
    assert_string_equal(b.checkpoint, "/c");
    assert_int_equal(b.submitted_ms, 5);
    assert_int_equal(b.started_ms, 41);
    assert_int_equal(b.finished_ms, 42);
    assert_int_equal(b.step, 7);
    assert_int_equal(b.steps_total, 9);
    assert_true(b.epoch == 4.5 && b.epochs_total == 6);
    assert_int_equal(b.examples, 11);
    assert_true(b.seconds == 1.5 && b.examples_per_second == 2.5);
    assert_int_equal(b.generation, 3);
    assert_int_equal(b.train.kinds, 1u << METRIC_LOSS);
    assert_true(b.train.values[METRIC_LOSS] == 0.25);
    assert_int_equal(b.staleness[3], 4);
    assert_int_equal(b.confusion_count, 4);
    assert_true(b.confusion[0] == 5 && b.confusion[1] == 1.25 && b.confusion[3] == 7);
    assert_true(b.workers.count == 1 && strcmp(b.workers.items[0], "w-1") == 0);
    assert_true(b.ps.count == 1 && strcmp(b.ps.items[0], "p-1") == 0);
    assert_int_equal(b.evaluations[2].step, 2);
    assert_int_equal(b.evaluations[2].time_ms, 8);
    assert_true(b.evaluations[2].epoch == 1.5);
    assert_true(b.evaluations[2].train.part);
    assert_int_equal(b.evaluations[2].train.kinds, 1u << METRIC_LOSS);
    assert_int_equal(b.left_out, 20);
    assert_int_equal(b.dropped, 21);
    assert_int_equal(b.speculated, 22);
    assert_int_equal(b.recoveries, 23);
    assert_string_equal(b.owner, "ann");
    assert_int_equal(b.priority, -7);
    assert_int_equal(b.queue_position, 0); /* of the moment */
    assert_int_equal(b.waiting, JOB_WAITS_NOT);
    assert_true(b.paused);
    assert_int_equal(b.preemptions, 25);
    assert_int_equal(b.ps_memory, 4096);
    assert_memory_equal(&b.times, &times, sizeof times);
    assert_int_equal(b.shard_count, 2);
    assert_string_equal(b.shards[0].ps, "p-1");
    assert_int_equal(b.shards[0].version, 31);
    assert_int_equal(b.shards[0].examples, 32);
    assert_int_equal(b.shards[0].duplicates, 33);
    assert_int_equal(b.shards[0].dropped, 34);
    assert_true(ledger_equal(&b.shards[0].ledger, &a.shards[0].ledger));
    assert_string_equal(b.shards[1].ps, "");
    assert_int_equal(b.shards[1].ledger.split_count, 0);
    assert_int_equal(b.evaluation_count, 3);
    assert_true(b.evaluations[2].test.values[METRIC_RMSE] == 2);
    assert_int_equal(b.evaluations[2].test.kinds, 1u << METRIC_ACCURACY | 1u << METRIC_RMSE);
    struct job_wire w;
    job_wire_init(&w, &a, JOB_WIRE_BRIEF);
    assert_int_equal(w.job.n_evaluations, 0);
    assert_int_equal(w.job.n_test_confusion, 0);
    assert_string_equal(w.job.text, "");
    assert_int_equal(w.job.n_staleness, 4);
    assert_int_equal(w.job.mode, GRADUS__V1__MODE__BOUNDED);
    assert_int_equal(w.job.n_shards, 2);
    assert_null(w.job.shards[0]->ledger); /* large; only for who asks for it */
    job_wire_release(&w);
    struct err err = {0};
    struct job_record c;
    for (size_t n = 1; n < packed.len; n++) { /* cut anywhere: refused or read, never a crash */
        if (job_wire_unpack(packed.data, n, &c, &err) == 0) {
            job_record_release(&c);
        }
    }
    assert_int_equal(job_wire_unpack("", 0, &c, &err), ERR_CORRUPT); /* no state */
    assert_int_equal(job_wire_unpack("\xff\xff", 2, &c, &err), ERR_CORRUPT);
    buf_release(&packed);
    buf_release(&again);
    job_record_release(&a);
    job_record_release(&b);
}

/* A row as the version before consistency wrote it. */
static void rows_of_before_are_read(void **state)
{
    (void)state;
    Gradus__V1__Job j = GRADUS__V1__JOB__INIT;
    char id[] = "x-1";
    j.id = id;
    j.state = GRADUS__V1__JOB_STATE__RUNNING;
    j.mode = GRADUS__V1__MODE__ASYNC;
    uint8_t packed[256];
    size_t n = gradus__v1__job__pack(&j, packed);
    struct job_record r;
    assert_int_equal(job_wire_unpack(packed, n, &r, NULL), 0);
    assert_string_equal(r.id, "x-1");
    assert_int_equal(r.consistency.mode, TRAINING_ASYNC);
    assert_int_equal(r.consistency.replicas, 0); /* not known */
    assert_int_equal(r.shard_count, 0);
    assert_int_equal(r.recoveries, 0);
    struct buf again = {0};
    job_wire_pack(&r, &again); /* and is written as it was */
    assert_int_equal(again.len, n);
    assert_memory_equal(again.data, packed, n);
    buf_release(&again);
    job_record_release(&r);
}

/* A store may take no larger values than a MiB or so. */
static void a_large_row_has_no_ledgers_of_shards(void **state)
{
    (void)state;
    const struct ledger_shape shape = {.records = 300000, .batch_records = 1, .split_batches = 1};
    struct job_record r = {.state = JOB_FAILED, .consistency = {.mode = TRAINING_ASYNC}}, read;
    struct buf packed = {0};
    job_record_set(&r.id, "x-1");
    job_record_set(&r.text, "name: x\n");
    job_record_set_shards(&r, 2);
    for (size_t i = 0; i < 2; i++) {
        r.shards[i].version = 31 + i;
        assert_int_equal(ledger_init(&r.shards[i].ledger, &shape, 3, NULL), 0);
    }
    job_wire_pack(&r, &packed);
    assert_true(packed.len < JOB_WIRE_ROW_BYTES_MAX);
    struct err err = {0};
    if (job_wire_unpack(packed.data, packed.len, &read, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    assert_string_equal(read.text, "name: x\n");
    assert_int_equal(read.shard_count, 2);
    assert_int_equal(read.shards[1].version, 32);
    assert_int_equal(read.shards[1].ledger.split_count, 0);
    job_record_release(&read);
    job_record_release(&r);
    buf_release(&packed);
}

static void corrupt(Gradus__V1__Job *j, const char *word)
{
    uint8_t packed[512];
    size_t n = gradus__v1__job__pack(j, packed);
    struct job_record r;
    struct err err = {0};
    assert_int_equal(job_wire_unpack(packed, n, &r, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, word));
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    Gradus__V1__Job j = GRADUS__V1__JOB__INIT;
    j.state = GRADUS__V1__JOB_STATE__RUNNING;
    j.mode = (Gradus__V1__Mode)9;
    corrupt(&j, "mode");
    j.mode = GRADUS__V1__MODE__SYNC;
    Gradus__V1__Consistency c = GRADUS__V1__CONSISTENCY__INIT;
    j.consistency = &c; /* without a replica */
    corrupt(&j, "replicas");
    j.consistency = NULL;
    Gradus__V1__ShardProgress shard = GRADUS__V1__SHARD_PROGRESS__INIT;
    Gradus__V1__ShardProgress *shards[] = {&shard};
    Gradus__V1__Ledger ledger = GRADUS__V1__LEDGER__INIT; /* without records */
    ledger.batch_records = 1;
    shard.ledger = &ledger;
    j.shards = shards;
    j.n_shards = 1;
    corrupt(&j, "shard 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_record_survives_the_wire),
                                       cmocka_unit_test(rows_of_before_are_read),
                                       cmocka_unit_test(a_large_row_has_no_ledgers_of_shards),
                                       cmocka_unit_test(what_cannot_be_is_refused)};
    return cmocka_run_group_tests_name("job_wire", tests, NULL, NULL);
}
