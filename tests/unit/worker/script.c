/* SPDX-License-Identifier: Apache-2.0 */
/* How a test plays the other side of a worker's core. */
#include "script.h"

void script_open(struct script *t, const struct worker_action *a)
{
    assert_true(t->open_count < SCRIPT_OPEN_MAX);
    t->open[t->open_count++] = *a;
}

void script_feed(struct script *t, struct worker_event e)
{
    e.now_ms = t->now_ms;
    t->timer_ms = 0;
    worker_step(t->worker, &e, &t->actions);
    for (size_t i = 0; i < t->actions.count; i++) {
        const struct worker_action *a = &t->actions.items[i];
        switch (a->kind) {
        case WORKER_DO_TIMER:
            t->timer_ms = a->timer_ms;
            break;
        case WORKER_DO_ADD:
            t->adds++;
            t->add = a->add;
            break;
        case WORKER_DO_REPLY_ASSIGN:
            t->reply = a->reply;
            break;
        case WORKER_DO_FAIL_JOB:
            t->failures++;
            memcpy(t->failure, a->fail_job.message, sizeof t->failure);
            break;
        case WORKER_DO_PREFETCH:
            break;
        default:
            script_open(t, a);
            for (size_t k = 0; a->kind == WORKER_DO_COMPUTE && k < a->compute.push_count; k++) {
                const struct worker_action push = {.kind = WORKER_DO_EXCHANGE,
                                                   .exchange = a->compute.pushes[k]};
                script_open(t, &push);
            }
            break;
        }
    }
    t->actions.count = 0;
}

static void begin(struct script *t, const struct worker_config *config)
{
    *t = (struct script){.worker = worker_new(config), .now_ms = 1};
    assert_int_equal(ledger_init(&t->ledger, &config->shape, 0, NULL), 0);
}

void script_begin_rounds_from(struct script *t, uint32_t split_batches, uint32_t rounds,
                              uint64_t version)
{
    const struct era eras[] = {{.rounds = version == 0 ? rounds : 0},
                               {.version = version, .rounds = rounds}};
    const struct worker_config config = {
        .shard_count = SCRIPT_SHARDS,
        .eras = eras,
        .era_count = version == 0 ? 1 : 2,
        .shape = {.records = 100, .batch_records = 10, .split_batches = split_batches},
    };
    begin(t, &config);
}

void script_begin_rounds(struct script *t, uint32_t split_batches, uint32_t rounds)
{
    script_begin_rounds_from(t, split_batches, rounds, 0);
}

void script_begin_tables(struct script *t, uint32_t split_batches)
{
    const struct worker_config config = {
        .shard_count = SCRIPT_SHARDS,
        .tables = true,
        .shape = {.records = 100, .batch_records = 10, .split_batches = split_batches},
    };
    begin(t, &config);
}

void script_begin(struct script *t, uint32_t split_batches)
{
    script_begin_rounds(t, split_batches, 0);
}

void script_end(struct script *t)
{
    worker_free(t->worker);
    worker_actions_release(&t->actions);
    ledger_release(&t->ledger);
}

void script_assign(struct script *t, const struct worker_assignment *a)
{
    struct worker_event e = {.kind = WORKER_ASSIGN, .assign = {.tag = 1, .assignment = *a}};
    e.assign.assignment.ledger = &t->ledger;
    script_feed(t, e);
    assert_int_equal(t->reply.code, 0);
}

void script_timer(struct script *t)
{
    assert_true(t->timer_ms > t->now_ms);
    t->now_ms = t->timer_ms;
    script_feed(t, (struct worker_event){.kind = WORKER_TIMER});
}

/* The oldest open action of @kind is taken out of the list; the test fails if there is none. */
struct worker_action script_take(struct script *t, enum worker_action_kind kind)
{
    for (size_t i = 0; i < t->open_count; i++) {
        if (t->open[i].kind == kind) {
            struct worker_action a = t->open[i];
            t->open_count--;
            memmove(t->open + i, t->open + i + 1, (t->open_count - i) * sizeof a);
            return a;
        }
    }
    fail_msg("no action of kind %d", (int)kind);
    return (struct worker_action){0};
}

/* The oldest exchange with @shard. */
struct asked script_exchange(struct script *t, uint32_t shard)
{
    for (size_t i = 0; i < t->open_count; i++) {
        if (t->open[i].kind == WORKER_DO_EXCHANGE && t->open[i].exchange.shard == shard) {
            struct worker_action a = t->open[i];
            t->open_count--;
            memmove(t->open + i, t->open + i + 1, (t->open_count - i) * sizeof a);
            return asked_of(&a.exchange);
        }
    }
    fail_msg("no exchange with shard %u", shard);
    return (struct asked){0};
}

struct asked script_take_exchange(struct script *t)
{
    const struct worker_action a = script_take(t, WORKER_DO_EXCHANGE);
    return asked_of(&a.exchange);
}

/* What the @i-th open action, an exchange, asks for. */
struct asked script_asked(const struct script *t, size_t i)
{
    assert_int_equal(t->open[i].kind, WORKER_DO_EXCHANGE);
    return asked_of(&t->open[i].exchange);
}

size_t script_count(const struct script *t, enum worker_action_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < t->open_count; i++) {
        count += t->open[i].kind == kind ? 1 : 0;
    }
    return count;
}

struct worker_event script_answer_of(const struct asked *a, uint64_t version, enum push_result push)
{
    return (struct worker_event){.kind = WORKER_EXCHANGED,
                                 .exchanged = {.exchange = a->exchange,
                                               .version = version,
                                               .answer = {.train = {.push = push}}}};
}

void script_answer(struct script *t, const struct asked *a, uint64_t version, enum push_result push)
{
    script_feed(t, script_answer_of(a, version, push));
}

void script_refuse(struct script *t, const struct asked *a, int code)
{
    script_feed(t, (struct worker_event){
                       .kind = WORKER_EXCHANGED,
                       .exchanged = {.exchange = a->exchange, .code = code, .message = "refused"}});
}

/* Both shards answer their oldest exchange. */
void script_answer_both(struct script *t, uint64_t version, enum push_result push)
{
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked a = script_exchange(t, s);
        script_answer(t, &a, version, push);
    }
}

struct worker_do_compute script_compute(struct script *t)
{
    struct worker_do_compute a = script_take(t, WORKER_DO_COMPUTE).compute;
    script_feed(t, (struct worker_event){.kind = WORKER_COMPUTED});
    return a;
}

/* The next report of progress, made now and heard. */
struct worker_do_report_progress script_report(struct script *t)
{
    if (script_count(t, WORKER_DO_REPORT_PROGRESS) == 0) {
        t->now_ms += WORKER_REPORT_MS;
        script_feed(t, (struct worker_event){.kind = WORKER_TIMER});
    }
    struct worker_do_report_progress a = script_take(t, WORKER_DO_REPORT_PROGRESS).report_progress;
    script_feed(t, (struct worker_event){.kind = WORKER_PROGRESS_REPORTED});
    return a;
}
