/* SPDX-License-Identifier: Apache-2.0 */
/* A primary dies at any moment, with any of its records on their way. From then on its backup
 * cannot be told from a shard that never had one: that was given the same pushes itself, one by
 * one. And all that the primary has acknowledged is there. So it is with a backup that has joined
 * while the primary trained; as long as that does not follow, it is a shard of some moment before,
 * if it is one at all. */
#include "standby_rig.h"

#include <stdio.h>

#define LIVES 50
#define REPLICAS 5
#define SPLITS 3
#define PUSHES_MAX 4096
#define BATCH_KEY 1000 /* gradients of async pushes: as of this step and on, by batch */

struct mode {
    const char *name;
    enum training_mode mode;
    uint32_t replicas, aggregate, number, rounds, push_every;
    enum staleness_policy policy;
    bool given;
};

static const struct mode MODES[] = {
    {.name = "sync", .mode = TRAINING_SYNC, .replicas = REPLICAS, .aggregate = REPLICAS},
    {.name = "sync, given", .mode = TRAINING_SYNC, .replicas = 2, .aggregate = 2, .given = true},
    {.name = "sums", .mode = TRAINING_SYNC, .replicas = 4, .aggregate = 4, .rounds = 2},
    {.name = "lead of fewer", .mode = TRAINING_SYNC, .replicas = REPLICAS, .aggregate = 3},
    {.name = "fewer", .mode = TRAINING_SYNC, .replicas = REPLICAS, .aggregate = 3, .number = 1},
    {.name = "sums of the lead of fewer",
     .mode = TRAINING_SYNC,
     .replicas = REPLICAS,
     .aggregate = 2,
     .rounds = 2},
    {.name = "sums of fewer",
     .mode = TRAINING_SYNC,
     .replicas = REPLICAS,
     .aggregate = 2,
     .rounds = 1,
     .number = 2},
    {.name = "async", .mode = TRAINING_ASYNC},
    {.name = "async, two batches a push", .mode = TRAINING_ASYNC, .push_every = 2},
    {.name = "async, scaled", .mode = TRAINING_ASYNC, .policy = POLICY_SCALE_LR},
    {.name = "async, some dropped", .mode = TRAINING_ASYNC, .policy = POLICY_MAX_STALENESS},
    {.name = "async, decided elsewhere",
     .mode = TRAINING_ASYNC,
     .policy = POLICY_MAX_STALENESS,
     .number = 1},
    {.name = "bounded", .mode = TRAINING_BOUNDED},
};

struct pushed { /* by tag */
    bool is_push;
    struct exchange_push push;
};

struct run {
    const struct mode *mode;
    struct pair *pair;
    struct rig quiet; /* what never had a backup */
    uint32_t seed;
    struct consistency consistency; /* as of now */
    uintptr_t tag;
    struct pushed pushed[PUSHES_MAX];
    uint64_t generation;
    uint32_t turn; /* of replicas */
    unsigned pins; /* ids that were drawn */
    bool joins;    /* backups are lost, and others join */
    uint64_t acknowledged, updates;
};

struct lives {
    uint64_t records, updates, acknowledged;
    uint64_t joined, followed; /* backups that had joined when the primary died */
};

static uint32_t draw(struct run *t, uint32_t n)
{
    return random_below(&t->seed, n);
}

static struct consistency consistency_of_mode(const struct mode *m)
{
    struct consistency c = rig_consistency(m->mode, m->replicas);
    c.aggregate = m->mode == TRAINING_SYNC ? m->aggregate : c.aggregate;
    c.push_every = m->push_every > 0 ? m->push_every : 1;
    c.policy = m->policy;
    c.max_staleness = 2;
    return c;
}

static struct shard_info info_of(const struct rig *r)
{
    struct shard_info info;
    shard_info(r->shard, &info);
    return info;
}

/* ---- requests, of any shard ---- */

static void set_values(struct shard_event *e, uint64_t step, uint32_t replica)
{
    const struct gradient g = gradient_of(step, replica);
    e->ask.push.examples = g.examples;
    if (g.examples > 0) {
        memcpy(e->gradient, g.values, sizeof g.values);
    }
}

static uint64_t key_of(const struct exchange_push *p)
{
    return BATCH_KEY + p->epoch * 64 + p->split * 8 + p->batch;
}

static struct shard_event async_push(struct rig *r, uintptr_t tag, const struct exchange_push *p)
{
    const struct gradient g = gradient_of(key_of(p), 0);
    struct shard_event e = rig_exchange(r, tag, "w1");
    rig_set_push(r, &e, 1, g.examples);
    const uint64_t examples = e.ask.push.examples;
    e.ask.push = *p;
    e.ask.push.examples = examples;
    set_values(&e, key_of(p), 0);
    return e;
}

static struct shard_event push_event(struct rig *r, uintptr_t tag, const struct exchange_push *p)
{
    if (r->options.consistency.mode != TRAINING_SYNC) {
        return async_push(r, tag, p);
    }
    return gradient_push(r, tag, p->step, p->replica_first, p->replica_end);
}

static void step_push(struct rig *r, uintptr_t tag, const struct exchange_push *p)
{
    struct shard_event e = push_event(r, tag, p);
    e.ask.push.spare = p->spare;
    rig_step(r, &e);
}

static void step_decision(struct rig *r, uintptr_t tag, uint64_t step, uint8_t bits)
{
    decide(r, tag, step, &bits, 1);
}

/* Whoever joins the sums of all shards makes the same of them. */
static double total_of(uint64_t step, uint32_t round)
{
    return (double)(step * 10 + round) + 0.25;
}

static void step_totals(struct rig *r, uintptr_t tag, uint64_t step, uint32_t round)
{
    rig_totals(r, tag, step, round, total_of(step, round));
}

/* ---- what workers and master do, at random ---- */

static struct exchange_push some_push(struct run *t, const struct rig *r)
{
    const struct shard_info info = info_of(r);
    struct exchange_push p = {0};
    if (t->mode->mode == TRAINING_SYNC) {
        const uint64_t back = draw(t, 6) == 0 ? draw(t, 3) : 0;
        p.step = back < info.version ? info.version - back : info.version;
        p.replica_first =
            (uint32_t)((draw(t, 3) == 0 ? draw(t, 64) : t->turn++) % t->mode->replicas);
        p.replica_end = p.replica_first + 1;
        p.spare = draw(t, 8) == 0;
        return p;
    }
    const struct ledger *l = info.ledger;
    const bool over = ledger_left(l) == 0;
    p.epoch = over ? l->epoch + 1 : l->epoch;
    p.split = draw(t, SPLITS);
    const uint32_t batches = ledger_shape_split_batches(&l->shape, p.split);
    const uint32_t done = over ? 0 : l->done[p.split];
    p.batch = done < batches ? done : 0;
    p.batch -= draw(t, 8) == 0 && p.batch > 0 ? 1 : 0;
    p.batch_end = consistency_push_end(&t->consistency, p.batch, batches);
    const uint64_t age = draw(t, 5);
    p.base_version = age < info.version ? info.version - age : 0;
    p.decided = t->mode->number > 0;
    return p;
}

/* One of the things that may come to a shard. The same seed does the same to two that are alike. */
static void one_request(struct run *t, struct rig *r, uintptr_t tag)
{
    const uint64_t version = info_of(r).version;
    const uint32_t dice = draw(t, 100);
    if (dice < 60) {
        t->pushed[tag] = (struct pushed){true, some_push(t, r)};
        step_push(r, tag, &t->pushed[tag].push);
    } else if (dice < 70) {
        rig_pull(r, tag, t->mode->mode == TRAINING_SYNC ? PULL_AT_LEAST : PULL_LATEST, version);
    } else if (dice < 85 && t->mode->rounds > 0) {
        if (draw(t, 2) == 0) {
            rig_ask_sums(r, tag, version, draw(t, t->mode->rounds));
        } else {
            step_totals(r, tag, version, draw(t, t->mode->rounds));
        }
    } else if (dice < 90 && t->mode->aggregate < t->mode->replicas && t->mode->number > 0) {
        static const uint8_t sets[] = {7, 14, 21, 28, 19};
        step_decision(r, tag, version, sets[version % 5]);
    } else if (dice < 92) {
        char id[PAIR_PIN_BYTES];
        (void)snprintf(id, sizeof id, "p%u", t->pins - (t->pins > 0 ? draw(t, 2) : 0));
        t->pins += draw(t, 3) == 0;
        rig_pin(r, draw(t, 2) == 0 ? SHARD_PIN : SHARD_UNPIN, tag, id, draw(t, 2) == 0);
    } else {
        rig_event(r, SHARD_SNAPSHOT, 0);
    }
}

static void bring_values(struct run *t, struct rig *r, uintptr_t tag)
{
    float given[RIG_FLOATS];
    for (size_t i = 0; i < RIG_FLOATS; i++) {
        given[i] = 0.5F * (float)(i + 1);
    }
    const uint64_t first = draw(t, 4);
    const uint64_t count = draw(t, RIG_FLOATS);
    struct shard_event e = {.kind = SHARD_FILL,
                            .generation = r->generation,
                            .tag = (void *)tag,
                            .first = first,
                            .elements = first + count <= RIG_FLOATS ? count : RIG_FLOATS - first,
                            .given = given + first};
    rig_step(r, &e);
}

static bool has_backup(const struct run *t)
{
    return info_of(&t->pair->primary).role == SHARD_PRIMARY;
}

/* What is pinned keeps a backup from following. */
static void unpin_all(struct run *t)
{
    const struct shard_info info = info_of(&t->pair->primary);
    for (size_t i = 0; i < info.pins; i++) {
        char id[PAIR_PIN_BYTES];
        (void)snprintf(id, sizeof id, "%s", info.pinned[i].id);
        rig_pin(&t->pair->primary, SHARD_UNPIN, ++t->tag, id, false);
    }
}

static void new_generation(struct run *t)
{
    struct pair *p = t->pair;
    if (t->joins && info_of(&p->primary).filled == RIG_FLOATS &&
        (!has_backup(t) || draw(t, 10) == 0)) {
        if (draw(t, 6) > 0) {
            unpin_all(t);
        }
        pair_join(p, ++t->tag, ++t->generation);
    } else {
        standby_membership(&p->primary, ++t->tag, ++t->generation,
                           has_backup(t) && !(t->joins && draw(t, 6) == 0));
    }
    p->primary.generation = t->generation;
}

static void one_event(struct run *t)
{
    struct pair *p = t->pair;
    struct rig *r = &p->primary;
    const uint32_t dice = draw(t, 100);
    r->now_ms += draw(t, 3);
    r->can_apply = draw(t, 4) > 0;
    if (dice < 25) {
        (void)(has_backup(t) && pair_hear(p));
    } else if (dice < 45) {
        pair_receive(p);
    } else if (dice < 46 || (t->joins && dice < 54 && !has_backup(t))) {
        new_generation(t);
    } else if (dice < 55 && t->mode->given) {
        bring_values(t, r, ++t->tag);
    } else {
        one_request(t, r, ++t->tag);
    }
    pair_check(p);
    if (draw(t, 2) == 0 && shard_wants_snapshot(r->shard)) {
        rig_event(r, SHARD_SNAPSHOT, 0);
        pair_check(p);
    }
}

/* ---- the shard without a backup ---- */

static bool is_in(const struct said *said, uint32_t replica)
{
    return said->record.decision.bytes == 0 || in_set(said->decision, replica);
}

/* The step of @said, of single replicas. */
static void bring_step(struct run *t, const struct said *said)
{
    struct rig *q = &t->quiet;
    const bool partial = t->mode->aggregate < t->mode->replicas;
    q->can_apply = false;
    if (partial && t->mode->number > 0) {
        step_decision(q, ++t->tag, q->version, said->decision[0]);
    }
    for (uint32_t r = 0; r < t->mode->replicas; r++) {
        const struct exchange_push p = {
            .step = q->version, .replica_first = r, .replica_end = r + 1};
        if (is_in(said, r)) {
            step_push(q, ++t->tag, &p);
        }
    }
    q->can_apply = true;
    rig_event(q, SHARD_SNAPSHOT, 0);
}

static void bring_update(struct run *t, const struct said *said)
{
    struct rig *q = &t->quiet;
    const uint64_t version = q->version;
    if (t->mode->mode == TRAINING_SYNC) {
        bring_step(t, said);
        for (uint32_t i = 0; i < t->mode->rounds; i++) {
            step_totals(q, ++t->tag, version, i);
        }
        if (t->mode->rounds > 0) {
            rig_event(q, SHARD_SNAPSHOT, 0);
        }
    } else {
        const struct shard_record *r = &said->record;
        const struct exchange_push p = {.epoch = r->epoch,
                                        .split = r->split,
                                        .batch = r->batch,
                                        .batch_end = r->batch_end,
                                        .base_version = r->base_version,
                                        .decided = t->mode->number > 0};
        q->can_apply = true;
        step_push(q, ++t->tag, &p);
    }
    assert_int_equal(q->version, version + 1);
}

/* A shard that is opened at the version of a state. */
static void begin_at(struct run *t, const struct said *said)
{
    struct rig *q = &t->quiet;
    const struct rig *r = &t->pair->primary;
    const uint64_t version = said->record.version;
    rig_reopen_at(q, version, said->record.examples, &said->ledger);
    memcpy(q->values[version], r->values[version], sizeof q->values[0]);
    memcpy(q->slot[version], r->slot[version], sizeof q->slot[0]);
    if (said->record.decision.bytes > 0 && t->mode->number == 0) {
        bring_step(t, said);
    } else if (said->record.decision.bytes > 0) {
        step_decision(q, ++t->tag, version, said->decision[0]);
    }
    rig_membership(q, ++t->tag, said->generation, said->workers);
    q->generation = said->generation;
}

static void bring(struct run *t, const struct said *said)
{
    struct rig *q = &t->quiet;
    struct shard_event e = {.kind = SHARD_FILL,
                            .generation = said->generation,
                            .tag = (void *)++t->tag,
                            .first = said->first,
                            .elements = said->elements,
                            .given = said->given};
    switch (said->record.kind) {
    case SHARD_RECORD_STATE:
        begin_at(t, said);
        break;
    case SHARD_RECORD_UPDATE:
        bring_update(t, said);
        break;
    case SHARD_RECORD_DECISION:
        bring_step(t, said);
        break;
    case SHARD_RECORD_FILL:
        rig_step(q, &e);
        break;
    case SHARD_RECORD_PIN:
        rig_pin(q, SHARD_PIN, ++t->tag, said->pin_id, said->slots);
        break;
    case SHARD_RECORD_UNPIN:
        rig_pin(q, SHARD_UNPIN, ++t->tag, said->pin_id, false);
        break;
    case SHARD_RECORD_MEMBERSHIP:
        rig_membership(q, ++t->tag, said->generation, said->workers);
        q->generation = said->generation;
        break;
    }
}

/* ---- comparisons ---- */

/* From version @first on; @pins: and they have the same. */
static void same_shards(const struct rig *a, const struct rig *b, uint64_t first, bool pins)
{
    const struct shard_info x = info_of(a);
    const struct shard_info y = info_of(b);
    assert_int_equal(x.version, y.version);
    assert_int_equal(x.generation, y.generation);
    assert_int_equal(x.filled, y.filled);
    assert_int_equal(x.examples, y.examples);
    assert_true(x.pins == y.pins || !pins);
    assert_int_equal(x.consistency.mode, y.consistency.mode);
    assert_true((x.ledger == NULL) == (y.ledger == NULL));
    assert_true(x.ledger == NULL || ledger_equal(x.ledger, y.ledger));
    for (size_t i = 0; pins && i < x.pins; i++) {
        assert_string_equal(x.pinned[i].id, y.pinned[i].id);
        assert_int_equal(x.pinned[i].version, y.pinned[i].version);
        assert_int_equal(x.pinned[i].slots, y.pinned[i].slots);
    }
    for (uint64_t v = first; v <= x.version; v++) {
        standby_same_values(a, b, v);
        assert_true(a->kept[v] == b->kept[v] || !pins);
    }
}

/* Everything but words, and how often a worker was told what it knew. */
static void same_replies(const struct rig *a, size_t from_a, const struct rig *b, size_t from_b)
{
    assert_int_equal(a->reply_count - from_a, b->reply_count - from_b);
    for (; from_a < a->reply_count; from_a++, from_b++) {
        struct rig_reply x = a->replies[from_a];
        struct rig_reply y = b->replies[from_b];
        memset(x.text, 0, sizeof x.text);
        memset(y.text, 0, sizeof y.text);
        assert_memory_equal(&x, &y, sizeof x);
    }
}

/* What the primary said to workers is so on the backup. */
static void check_acknowledged(struct run *t)
{
    struct rig *r = &t->pair->primary;
    struct rig *b = &t->pair->backup;
    for (size_t i = 0; i < r->reply_count; i++) {
        const struct rig_reply *reply = &r->replies[i];
        const struct pushed *p = &t->pushed[reply->tag < PUSHES_MAX ? reply->tag : 0];
        if (reply->code != 0 || !p->is_push ||
            (reply->push != PUSH_APPLIED && reply->push != PUSH_DUPLICATE)) {
            continue;
        }
        if (t->mode->mode == TRAINING_SYNC) {
            /* (a replica that is in, and pushed again, is a duplicate, too) */
            assert_true(reply->push == PUSH_DUPLICATE || p->push.step < b->version);
            t->acknowledged += reply->push == PUSH_APPLIED;
            continue;
        }
        b->can_apply = true;
        step_push(b, ++t->tag, &p->push);
        rig_expect_push(b, t->tag, PUSH_DUPLICATE);
        t->acknowledged++;
    }
}

/* ---- one life ---- */

/* False: there is nothing that could take over. */
static bool die(struct run *t, struct lives *lives)
{
    struct pair *p = t->pair;
    const bool follows = pair_follows(p);
    if (!has_backup(t)) {
        return false;
    }
    lives->joined += p->opening > PAIR_OPENING;
    lives->followed += p->opening > PAIR_OPENING && follows;
    for (uint32_t n = draw(t, 3); n > 0 && pair_hear(p); n--) { /* what was on its way */
    }
    if (p->heard == p->count) { /* then nothing is missing */
        const struct shard_info here = info_of(&p->primary);
        const struct shard_info there = info_of(&p->backup);
        same_shards(&p->primary, &p->backup, p->first, follows);
        assert_int_equal(here.pushes_applied, there.pushes_applied);
    }
    for (size_t i = 0; i < p->heard; i++) {
        bring(t, &p->said[i]);
    }
    const uint64_t generation = t->generation + 1 + draw(t, 2);
    standby_promote(&p->backup, ++t->tag, generation);
    if (p->heard == 0 && p->opening > PAIR_OPENING) {
        rig_expect(&p->backup, t->tag, ERR_CORRUPT, "has not received the shard's state");
        assert_false(follows);
        return false;
    }
    rig_expect(&p->backup, t->tag, 0, "");
    rig_membership(&t->quiet, t->tag, generation, 3);
    p->backup.generation = t->quiet.generation = generation;
    same_shards(&p->backup, &t->quiet, p->first, true);
    const uint64_t first = t->mode->given ? 1 : 0; /* it is being filled */
    for (uint64_t v = first > p->first ? first : p->first; v <= p->backup.version; v++) {
        standby_same_values(&p->primary, &p->backup, v);
    }
    if (follows) {
        check_acknowledged(t);
    }
    t->updates = p->backup.version;
    return true;
}

/* Both go on, with the same requests. */
static void go_on(struct run *t, unsigned events)
{
    struct rig *b = &t->pair->backup;
    struct rig *q = &t->quiet;
    const size_t from_b = b->reply_count;
    const size_t from_q = q->reply_count;
    for (unsigned i = 0; i < events; i++) {
        b->now_ms = q->now_ms = 900000 + i;
        b->can_apply = q->can_apply = draw(t, 3) > 0;
        const uint32_t seed = t->seed;
        const unsigned pins = t->pins;
        const uint32_t turn = t->turn;
        void (*const does)(struct run *, struct rig *, uintptr_t) =
            t->mode->given && i % 8 == 0 ? bring_values : one_request;
        does(t, b, ++t->tag);
        t->seed = seed;
        t->pins = pins;
        t->turn = turn;
        does(t, q, t->tag);
    }
    same_replies(b, from_b, q, from_q);
    same_shards(b, q, t->pair->first, true);
}

/* Adds what happened until the death to @lives. */
static void live(const struct mode *mode, uint32_t seed, bool joins, struct lives *lives)
{
    struct run *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->mode = mode;
    t->seed = seed;
    t->joins = joins;
    t->generation = 1;
    t->consistency = consistency_of_mode(mode);
    t->pair = pair_new(mode->number, &t->consistency, mode->rounds, mode->given);
    rig_open_rounds(&t->quiet, mode->number, &t->consistency, mode->rounds);
    t->quiet.options.given = mode->given;
    rig_reopen(&t->quiet);
    for (uint32_t n = draw(t, 1200); n > 0; n--) {
        one_event(t);
    }
    if (die(t, lives)) {
        go_on(t, 150);
    }
    lives->acknowledged += t->acknowledged;
    lives->updates += t->updates;
    lives->records += t->pair->count;
    rig_release(&t->quiet);
    pair_free(t->pair);
    free(t);
}

static struct lives lives_of(size_t mode, bool joins)
{
    struct lives all = {0};
    for (uint32_t seed = 1; seed <= LIVES; seed++) {
        live(&MODES[mode], seed * 7919 + (uint32_t)mode, joins, &all);
    }
    print_message("%s: %llu records, %llu updates, %llu pushes acknowledged; of %llu backups that "
                  "had joined %llu followed\n",
                  MODES[mode].name, (unsigned long long)all.records,
                  (unsigned long long)all.updates, (unsigned long long)all.acknowledged,
                  (unsigned long long)all.joined, (unsigned long long)all.followed);
    return all;
}

static void test_a_primary_dies_at_any_moment(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof MODES / sizeof MODES[0]; m++) {
        const struct lives all = lives_of(m, false);
        assert_true(all.updates > LIVES && (all.acknowledged > LIVES || MODES[m].rounds > 0));
    }
}

static void test_a_primary_dies_while_a_backup_joins_or_has_joined(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof MODES / sizeof MODES[0]; m++) {
        const struct lives all = lives_of(m, true);
        assert_true(all.followed > LIVES / 4 && all.joined > all.followed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_primary_dies_at_any_moment),
        cmocka_unit_test(test_a_primary_dies_while_a_backup_joins_or_has_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
