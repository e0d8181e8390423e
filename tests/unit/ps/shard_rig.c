/* SPDX-License-Identifier: Apache-2.0 */
/* How a shard's core is driven by its tests, and what they expect of its answers. */
#include "shard_rig.h"

/* Shard @number of a job with @consistency; 0 is the lead. Sync steps take @rounds of sums. */
void rig_open_rounds(struct rig *r, uint32_t number, const struct consistency *consistency,
                     uint32_t rounds)
{
    *r =
        (struct rig){.can_apply = true, .generation = 1, .now_ms = 1000, .era = {.rounds = rounds}};
    r->replies = calloc(RIG_REPLIES, sizeof *r->replies);
    assert_non_null(r->replies);
    struct ledger_shape shape = {.records = 50, .batch_records = 10, .split_batches = 2};
    struct err err;
    assert_int_equal(ledger_init(&r->ledger, &shape, 0, &err), 0); /* splits of 2, 2, 1 batches */
    r->options = (struct shard_options){.shard = number,
                                        .generation = 1,
                                        .elements = RIG_FLOATS,
                                        .consistency = *consistency,
                                        .has_slots = true,
                                        .eras = &r->era,
                                        .era_count = 1,
                                        .ledger = &r->ledger,
                                        .workers = RIG_WORKERS,
                                        .worker_count = 3};
    r->shard = shard_new(&r->options, &err);
    assert_non_null(r->shard);
}

void rig_reopen(struct rig *r)
{
    struct err err;
    shard_free(r->shard);
    r->shard = shard_new(&r->options, &err);
    assert_non_null(r->shard);
}

void rig_reopen_at(struct rig *r, uint64_t version, uint64_t examples, const struct ledger *ledger)
{
    r->options.given = false;
    r->options.version = r->version = version;
    r->options.examples = r->examples = examples;
    r->options.ledger = ledger;
    rig_reopen(r);
    r->options.ledger = &r->ledger;
}

void rig_open(struct rig *r, uint32_t number, const struct consistency *consistency)
{
    rig_open_rounds(r, number, consistency, 0);
}

struct consistency rig_consistency(enum training_mode mode, uint32_t replicas)
{
    return (struct consistency){.mode = mode,
                                .replicas = replicas == 0 ? 1 : replicas,
                                .aggregate = replicas == 0 ? 1 : replicas,
                                .staleness = 1,
                                .push_every = 1,
                                .pull_every = 1};
}

void rig_init(struct rig *r, enum training_mode mode, uint32_t replicas)
{
    struct consistency c = rig_consistency(mode, replicas);
    rig_open(r, 0, &c);
}

void *rig_buffer(struct rig *r, float first)
{
    float *b = malloc(RIG_FLOATS * sizeof *b);
    assert_non_null(b);
    for (size_t i = 0; i < RIG_FLOATS; i++) {
        b[i] = first * (float)(i + 1);
    }
    r->buffers++;
    return b;
}

/* ---- sums over whole variables ---- */

/* Of shard @number: depends on the gradient and on the totals of the round before. */
double rig_partial(uint32_t number, const float *gradient, uint32_t round, double before)
{
    double sum = round == 0 ? 1 : before;
    for (size_t i = 0; gradient != NULL && i < RIG_FLOATS; i++) {
        sum += (double)gradient[i] * (round + 1);
    }
    return sum * (number + 1);
}

void rig_reduce(struct rig *r, const struct shard_action *a)
{
    struct rig_sums *s = &r->sums;
    assert_true(a->round.round < r->era.rounds);
    assert_int_equal(a->round.round, s->settled);
    assert_int_equal(a->version, r->version + 1);
    assert_int_equal(a->round.step, r->version);
    assert_true((a->buffer != NULL) == (a->examples > 0));
    assert_true(s->begun == (a->round.round > 0));
    assert_int_equal(s->reduced, a->round.round);
    s->begun = true;
    s->reduced++;
    double before = a->round.round == 0 ? 0 : s->totals[a->round.round - 1];
    s->partial = rig_partial(r->options.shard, a->buffer, a->round.round, before);
}

void rig_settle(struct rig *r, const struct shard_action *a)
{
    struct rig_sums *s = &r->sums;
    assert_true(s->begun);
    assert_int_equal(a->round.round, s->settled);
    assert_int_equal(s->reduced, s->settled + 1);
    assert_int_equal(a->totals_bytes, sizeof(double));
    memcpy(&s->totals[s->settled++], a->totals, sizeof(double));
}

void rig_use_sums(struct rig *r, uint64_t version)
{
    struct rig_sums *s = &r->sums;
    assert_true(s->begun);
    assert_int_equal(s->settled, r->era.rounds);
    memcpy(s->last, s->totals, sizeof s->last);
    s->last_version = version;
    s->begun = false;
    s->reduced = s->settled = 0;
}

double rig_sums_of(const struct rig *r, const struct exchange_sums *a)
{
    const struct rig_sums *s = &r->sums;
    assert_true(a->of.round < r->era.rounds);
    if (a->over) {
        assert_true(a->known && a->of.step + 1 < r->version);
        return 0;
    }
    if (!a->known) {
        assert_true(s->begun && a->of.step == r->version && a->of.round == s->settled);
        return s->partial;
    }
    if (a->of.step == r->version) {
        assert_true(s->begun && a->of.round < s->settled);
        return s->totals[a->of.round];
    }
    assert_int_equal(a->of.step + 1, r->version);
    assert_int_equal(s->last_version, r->version);
    return s->last[a->of.round];
}

/* ---- actions ---- */

void rig_apply(struct rig *r, const struct shard_action *a)
{
    if (r->era.rounds > 0 && r->options.consistency.mode == TRAINING_SYNC) {
        rig_use_sums(r, a->version);
    }
    assert_int_equal(a->version, r->version + 1);
    assert_true(a->version < RIG_VERSIONS);
    assert_true((a->buffer != NULL) == (a->examples > 0));
    assert_true(a->lr_scale > 0 && a->lr_scale <= 1);
    assert_true(!a->has_base || (r->kept[a->base_version] > 0 && a->base_version < r->version));
    r->applied = *a;
    const float *g = a->buffer;
    for (size_t i = 0; i < RIG_FLOATS; i++) {
        float step = g == NULL ? 0 : g[i] * (1.0F / (float)a->examples) * a->lr_scale;
        r->values[a->version][i] = r->values[r->version][i] - step;
        r->slot[a->version][i] = 0.5F * r->slot[r->version][i] + (g == NULL ? 0 : g[i]);
    }
    r->version = a->version;
    r->examples += a->examples;
}

void rig_reply_add(struct rig *r, const struct shard_action *a)
{
    assert_true(r->reply_count < RIG_REPLIES);
    struct rig_reply *reply = &r->replies[r->reply_count++];
    *reply = (struct rig_reply){
        .tag = (uintptr_t)a->tag,
        .code = a->code,
        .push = a->answer.train.push,
        .values = a->values,
        .rows = a->rows,
        .filled = a->filled,
        .write = a->kind == SHARD_WRITE,
        .version = a->version,
        .staleness = a->answer.train.staleness,
        .examples = a->examples_applied,
        .has_decision = a->answer.decision.bytes > 0,
        .decision_step = a->answer.decision.step,
        .decision_bytes = a->answer.decision.bytes,
        .has_spare = a->answer.kind == EXCHANGE_SPARE,
        .spare_given = a->answer.spare.given,
        .spare_replica = a->answer.spare.replica,
        .spare_wait_ms = a->answer.spare.wait_ms,
        .has_sums = a->answer.kind == EXCHANGE_SUMS,
        .sums_known = a->answer.sums.known,
        .sums_over = a->answer.sums.over,
        .sums_step = a->answer.sums.of.step,
        .sums_round = a->answer.sums.of.round,
        .sums = a->answer.kind == EXCHANGE_SUMS ? rig_sums_of(r, &a->answer.sums) : 0,
        .clock = a->answer.train.clock,
        .progress = a->answer.train.progress,
        .generation = a->generation,
        .received = a->received,
        .done0 = a->ledger == NULL ? UINT32_MAX : a->ledger->done[0]};
    if (reply->has_decision) {
        assert_true(a->answer.decision.bytes <= sizeof reply->decision);
        memcpy(reply->decision, a->answer.decision.replicas, a->answer.decision.bytes);
    }
    if (a->code != 0) {
        assert_int_equal(a->code, r->actions.err.code);
        assert_true(r->actions.err.msg[0] != 0);
        memcpy(reply->text, r->actions.err.msg, sizeof reply->text);
    }
    if (a->values || reply->write) { /* what is sent must still be there */
        assert_true(a->version == r->version || a->version + 1 == r->version ||
                    r->kept[a->version] > 0);
    }
}

void rig_sum(const struct shard_action *a)
{
    for (size_t i = 0; i < RIG_FLOATS; i++) {
        ((float *)a->buffer)[i] += ((float *)a->source)[i];
    }
}

void rig_do(struct rig *r, const struct shard_action *a)
{
    switch (a->kind) {
    case SHARD_ADD:
        rig_sum(a);
        break;
    case SHARD_APPLY:
        if (a->source != NULL) {
            rig_sum(a);
        }
        rig_apply(r, a);
        break;
    case SHARD_REDUCE:
        rig_reduce(r, a);
        break;
    case SHARD_SETTLE:
        rig_settle(r, a);
        break;
    case SHARD_ABANDON:
        assert_true(r->sums.begun);
        r->sums.begun = false;
        r->sums.reduced = r->sums.settled = 0;
        break;
    case SHARD_PUT:
        assert_int_equal(a->version, r->version);
        memcpy(r->values[r->version] + a->first, (const float *)a->given + a->skip,
               a->count * sizeof(float));
        r->whole = a->whole;
        break;
    case SHARD_RELEASE:
        r->buffers--;
        free(a->buffer);
        break;
    case SHARD_KEEP:
        assert_int_equal(a->version, r->version);
        r->kept[a->version]++;
        if (a->buffer != NULL) {
            memcpy(a->buffer, r->slot[a->version], sizeof r->slot[0]);
        }
        break;
    case SHARD_FORGET:
        assert_true(r->kept[a->version] > 0);
        r->kept[a->version]--;
        break;
    case SHARD_WRITE:
    case SHARD_REPLY:
        rig_reply_add(r, a);
        break;
    case SHARD_EMIT:
        assert_non_null(r->emit);
        r->emit(r, a);
        break;
    case SHARD_LOAD:
        r->version = a->version;
        r->examples = r->event->record.examples;
        memcpy(r->values[a->version], r->load, sizeof r->values[0]);
        memcpy(r->slot[a->version], r->load_slots, sizeof r->slot[0]);
        break;
    }
}

void rig_step(struct rig *r, const struct shard_event *e)
{
    r->event = e;
    shard_step(r->shard, e, &r->actions);
    for (size_t i = 0; i < r->actions.count; i++) {
        rig_do(r, &r->actions.items[i]);
    }
    struct shard_info info;
    shard_info(r->shard, &info);
    assert_int_equal(info.version, r->version);
    assert_int_equal(info.examples, r->examples);
}

/* The only reply to @tag so far, or NULL. */
struct rig_reply *rig_find(struct rig *r, uintptr_t tag)
{
    struct rig_reply *found = NULL;
    for (size_t i = 0; i < r->reply_count; i++) {
        if (r->replies[i].tag == tag) {
            assert_null(found);
            found = &r->replies[i];
        }
    }
    return found;
}

struct rig_reply *rig_replied(struct rig *r, uintptr_t tag)
{
    struct rig_reply *reply = rig_find(r, tag);
    assert_non_null(reply);
    return reply;
}

void rig_expect(struct rig *r, uintptr_t tag, int code, const char *says)
{
    struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, code);
    if (code != 0 && strstr(reply->text, says) == NULL) {
        fail_msg("'%s' does not say '%s'", reply->text, says);
    }
}

void rig_expect_push(struct rig *r, uintptr_t tag, enum push_result push)
{
    struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, 0);
    assert_int_equal(reply->push, push);
}

void rig_expect_values(struct rig *r, uintptr_t tag, uint64_t version)
{
    struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, 0);
    assert_true(reply->values);
    assert_int_equal(reply->version, version);
}

struct shard_event rig_exchange(struct rig *r, uintptr_t tag, const char *worker)
{
    return (struct shard_event){.kind = SHARD_EXCHANGE,
                                .now_ms = r->now_ms,
                                .generation = r->generation,
                                .tag = (void *)tag,
                                .can_apply = r->can_apply,
                                .worker = worker,
                                .ask = {.kind = EXCHANGE_TRAIN}};
}

void rig_set_push(struct rig *r, struct shard_event *e, float gradient, uint64_t examples)
{
    e->ask.has_push = true;
    e->ask.push.examples = examples;
    e->elements = examples == 0 ? 0 : RIG_FLOATS;
    e->gradient = examples == 0 ? NULL : rig_buffer(r, gradient);
}

/* ---- sync ---- */

struct shard_event rig_sync(struct rig *r, uintptr_t tag, uint64_t step, uint32_t lo, uint32_t hi,
                            float gradient, uint64_t examples)
{
    struct shard_event e = rig_exchange(r, tag, "w0");
    rig_set_push(r, &e, gradient, examples);
    e.ask.push.step = step;
    e.ask.push.replica_first = lo;
    e.ask.push.replica_end = hi;
    return e;
}

void rig_push_sync(struct rig *r, uintptr_t tag, uint64_t step, uint32_t lo, uint32_t hi,
                   float gradient, uint64_t examples)
{
    struct shard_event e = rig_sync(r, tag, step, lo, hi, gradient, examples);
    rig_step(r, &e);
}

void rig_pull(struct rig *r, uintptr_t tag, enum pull_kind kind, uint64_t version)
{
    struct shard_event e = rig_exchange(r, tag, "w0");
    e.ask.has_pull = true;
    e.ask.pull.kind = kind;
    e.ask.pull.version = version;
    rig_step(r, &e);
}

void rig_ask_sums(struct rig *r, uintptr_t tag, uint64_t step, uint32_t round)
{
    struct shard_event e = rig_exchange(r, tag, "w0");
    e.ask = (struct exchange_request){.kind = EXCHANGE_SUMS, .sums = {step, round}};
    rig_step(r, &e);
}

void rig_totals(struct rig *r, uintptr_t tag, uint64_t step, uint32_t round, double total)
{
    struct shard_event e = rig_exchange(r, tag, "w0");
    e.ask = (struct exchange_request){.kind = EXCHANGE_TOTALS,
                                      .totals = {{step, round}, &total, sizeof total}};
    rig_step(r, &e);
}

/* ---- async, bounded ---- */

/* The clock of @worker, which has done @batches more. */
uint64_t rig_clock(struct rig *r, const char *worker, uint64_t batches)
{
    if (r->options.consistency.mode != TRAINING_BOUNDED || worker == NULL || worker[0] != 'w') {
        return 0;
    }
    uint64_t *clock = &r->clocks[worker[1] - '0'];
    return *clock += *clock == 0 && batches > 0 ? batches + 1 : batches;
}

uint64_t rig_session(const struct rig *r, const char *worker)
{
    return worker != NULL && worker[0] == 'w' ? r->sessions[worker[1] - '0'] + 1 : 0;
}

struct shard_event rig_async(struct rig *r, uintptr_t tag, const char *worker, uint64_t epoch,
                             uint32_t split, uint32_t batch)
{
    struct shard_event e = rig_exchange(r, tag, worker);
    rig_set_push(r, &e, 1, 2);
    e.ask.push.epoch = epoch;
    e.ask.push.split = split;
    e.ask.push.batch = batch;
    e.ask.push.clock = rig_clock(r, worker, 1);
    e.ask.pull.clock = e.ask.push.clock;
    e.ask.session = rig_session(r, worker);
    return e;
}

void rig_push_async(struct rig *r, uintptr_t tag, const char *worker, uint64_t epoch,
                    uint32_t split, uint32_t batch)
{
    struct shard_event e = rig_async(r, tag, worker, epoch, split, batch);
    rig_step(r, &e);
}

void rig_pull_latest(struct rig *r, uintptr_t tag, const char *worker)
{
    struct shard_event e = rig_exchange(r, tag, worker);
    e.ask.has_pull = true;
    e.ask.session = rig_session(r, worker);
    e.ask.pull.clock = rig_clock(r, worker, 0);
    e.ask.pull.joins = e.ask.pull.clock == 0;
    rig_step(r, &e);
    bool is_member = worker != NULL && worker[0] == 'w'; /* strangers have no clock */
    if (is_member && e.ask.pull.joins && rig_find(r, tag) != NULL && rig_find(r, tag)->clock > 0) {
        r->clocks[worker[1] - '0'] = rig_find(r, tag)->clock;
    }
}

void rig_idle(struct rig *r, uintptr_t tag, const char *worker)
{
    struct shard_event e = rig_exchange(r, tag, worker);
    e.ask.idle = true;
    e.ask.session = rig_session(r, worker);
    rig_step(r, &e);
    if (worker[0] == 'w') {
        r->sessions[worker[1] - '0']++;
        r->clocks[worker[1] - '0'] = 0; /* it joins again */
    }
}

/* ---- the rest ---- */

void rig_membership(struct rig *r, uintptr_t tag, uint64_t generation, size_t workers)
{
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .now_ms = r->now_ms,
                            .generation = generation,
                            .tag = (void *)tag,
                            .workers = RIG_WORKERS,
                            .worker_count = workers};
    rig_step(r, &e);
    memset(r->clocks, 0, sizeof r->clocks);
}

/* The same, and consistency and data position change. */
void rig_change(struct rig *r, uintptr_t tag, uint64_t generation, const struct consistency *c,
                uint64_t version, const struct ledger *ledger)
{
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .now_ms = r->now_ms,
                            .generation = generation,
                            .tag = (void *)tag,
                            .workers = RIG_WORKERS,
                            .worker_count = 3,
                            .consistency = c,
                            .ledger = ledger,
                            .version = version};
    rig_step(r, &e);
}

void rig_pin(struct rig *r, enum shard_event_kind kind, uintptr_t tag, const char *id, bool slots)
{
    struct shard_event e = {.kind = kind,
                            .generation = r->generation,
                            .tag = (void *)tag,
                            .pin_id = id,
                            .slots = slots};
    e.slots_buffer = slots && kind == SHARD_PIN ? rig_buffer(r, 0) : NULL;
    rig_step(r, &e);
}

void rig_event(struct rig *r, enum shard_event_kind kind, uintptr_t tag)
{
    struct shard_event e = {.kind = kind,
                            .now_ms = r->now_ms,
                            .generation = r->generation,
                            .tag = (void *)tag,
                            .can_apply = r->can_apply};
    rig_step(r, &e);
}

/* Close, and nothing is left. */
void rig_release(struct rig *r)
{
    r->generation = UINT64_MAX;
    rig_event(r, SHARD_CLOSE, 999999);
    assert_int_equal(r->buffers, 0);
    for (size_t v = 0; v < RIG_VERSIONS; v++) {
        assert_int_equal(r->kept[v], 0);
    }
    shard_free(r->shard);
    shard_actions_release(&r->actions);
    ledger_release(&r->ledger);
    free(r->replies);
}

void rig_expect_sums(struct rig *r, uintptr_t tag, bool known, uint64_t step, uint32_t round)
{
    const struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, 0);
    assert_true(reply->has_sums);
    assert_true(reply->sums_known == known);
    assert_int_equal(reply->sums_step, step);
    assert_int_equal(reply->sums_round, round);
    assert_int_equal(reply->push, PUSH_NONE);
    assert_false(reply->values);
}
