/* SPDX-License-Identifier: Apache-2.0 */
/* The job of the tests of what is printed. */
#include "output_rig.h"

void sample_init(struct sample *s)
{
    *s = (struct sample){.id = "digits-1",
                         .loss_name = "loss",
                         .accuracy_name = "accuracy",
                         .worker = "worker-1",
                         .server = "ps-1"};
    gradus__v1__metric_value__init(&s->loss);
    gradus__v1__metric_value__init(&s->accuracy);
    s->loss.name = s->loss_name;
    s->loss.value = 0.25;
    s->accuracy.name = s->accuracy_name;
    s->accuracy.value = 0.5;
    s->metrics[0] = &s->loss;
    s->metrics[1] = &s->accuracy;
    gradus__v1__job__init(&s->job);
    s->job.id = s->id;
    s->job.state = GRADUS__V1__JOB_STATE__RUNNING;
    s->job.mode = GRADUS__V1__MODE__SYNC;
    s->job.step = 500;
    s->job.steps_total = 1000;
    s->job.epoch = 2.5;
    s->job.epochs_total = 5;
    s->job.examples_per_second = 61234.4;
    s->job.seconds = 12.34;
    s->job.eta_seconds = 75;
    s->job.train = s->metrics;
    s->job.n_train = 2;
    s->workers[0] = s->worker;
    s->workers[1] = s->worker;
    s->job.workers = s->workers;
    s->job.n_workers = 2;
    s->ps[0] = s->server;
    s->job.ps = s->ps;
    s->job.n_ps = 1;
    for (size_t i = 0; i < 14; i++) {
        gradus__v1__evaluation__init(&s->evaluations[i]);
        s->evaluations[i].step = 100 * (i + 1);
        s->evaluations[i].epoch = (double)(i + 1);
        s->evaluations[i].test = s->metrics;
        s->evaluations[i].n_test = 2;
        s->list[i] = &s->evaluations[i];
    }
    s->job.evaluations = s->list;
    s->job.n_evaluations = 14;
}

json_t *output_parse(struct buf *out)
{
    json_error_t error;
    json_t *json = json_loads(buf_str(out), 0, &error);
    buf_release(out);
    assert_non_null(json);
    return json;
}

void output_assert_text(struct buf *out, const char *expected)
{
    assert_string_equal(buf_str(out), expected);
    buf_release(out);
}

void shards_init(struct shards_sample *x)
{
    sample_init(&x->s);
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__shard_progress__init(&x->shards[i]);
        x->shards[i].shard = (uint32_t)i;
        x->list[i] = &x->shards[i];
    }
    gradus__v1__ledger__init(&x->ledger);
    x->ledger.records = 53; /* 6 batches, the last one of 3; splits of 2 */
    x->ledger.batch_records = 10;
    x->ledger.split_batches = 2;
    x->ledger.epoch = 2;
    x->done[0] = 2;
    x->done[1] = 1;
    x->done[2] = 2;
    x->ledger.done = x->done;
    x->ledger.n_done = 3;
    x->shards[0].ps = x->s.server;
    x->shards[0].version = 120;
    x->shards[0].examples = 61234;
    x->shards[0].duplicates = 1;
    x->shards[0].dropped = 2;
    x->shards[0].ledger = &x->ledger;
    x->s.job.shards = x->list;
    x->s.job.n_shards = 2;
}

json_int_t output_number_at(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}
