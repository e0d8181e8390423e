/* SPDX-License-Identifier: Apache-2.0 */
#include "standby_rig.h"

#include <stdio.h>

static void copy_id(char *to, const char *id)
{
    (void)snprintf(to, PAIR_PIN_BYTES, "%s", id == NULL ? "" : id);
}

static void note_event(struct said *said, const struct shard_event *e)
{
    said->generation = e->generation;
    said->workers = e->worker_count;
    said->forget_pins = e->forget_pins;
    said->slots = e->slots;
    said->version = e->version;
    copy_id(said->keep_pin, e->keep_pin);
    copy_id(said->pin_id, e->pin_id);
    if (e->kind == SHARD_MEMBERSHIP && e->ledger != NULL) {
        said->changes = true;
        said->consistency = *e->consistency;
        ledger_copy(&said->ledger, e->ledger);
    }
    if (e->kind == SHARD_FILL) {
        said->first = e->first;
        said->elements = e->elements;
        memcpy(said->given, e->given, e->elements * sizeof(float));
    }
}

/* It is read when it leaves: what is kept of it must still be there then. */
static void note_state(const struct rig *r, struct said *said, const struct shard_action *a)
{
    struct shard_info info;
    shard_info(r->shard, &info);
    said->changes = true;
    said->consistency = info.consistency;
    ledger_release(&said->ledger);
    ledger_copy(&said->ledger, a->ledger);
    said->slots_from = a->buffer;
    said->elements = RIG_FLOATS;
    assert_int_equal(a->version, r->version);
    assert_non_null(a->buffer);
    assert_true(r->kept[a->version] > 0);
}

static void emit(struct rig *r, const struct shard_action *a)
{
    struct pair *p = (struct pair *)r;
    assert_true(p->count < PAIR_RECORDS_MAX);
    const bool joins = p->opening > PAIR_OPENING;
    assert_true((a->record.kind == SHARD_RECORD_STATE) == (p->count == 0 && joins));
    struct said *said = &p->said[p->count++];
    said->record = a->record;
    assert_int_equal(a->record.number, p->count);
    assert_int_equal(a->record.version, r->version);
    note_event(said, r->event);
    if (a->record.decision.bytes > 0) {
        assert_true(a->record.decision.bytes <= sizeof said->decision);
        memcpy(said->decision, a->record.decision.replicas, a->record.decision.bytes);
        said->record.decision.replicas = said->decision;
    }
    if (a->record.sent_count > 0) {
        memcpy(said->sent, a->record.sent, a->record.sent_count * sizeof *said->sent);
        said->record.sent = said->sent;
    }
    if (a->record.kind == SHARD_RECORD_STATE) {
        note_state(r, said, a);
    }
    if (a->record.kind != SHARD_RECORD_UPDATE) {
        return;
    }
    assert_true((a->buffer != NULL) == (a->record.examples > 0));
    said->has_gradient = a->buffer != NULL;
    if (a->buffer != NULL) {
        memcpy(said->gradient, a->buffer, sizeof said->gradient);
    }
    memcpy(said->totals, r->sums.totals, sizeof said->totals);
}

static void forget_records(struct pair *p)
{
    for (size_t i = 0; i < p->count; i++) {
        ledger_release(&p->said[i].ledger);
    }
    memset(p->said, 0, p->count * sizeof *p->said);
    p->count = p->heard = 0;
    p->receipt = 0;
}

struct pair *pair_new(uint32_t number, const struct consistency *consistency, uint32_t rounds,
                      bool given)
{
    struct pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->said = calloc(PAIR_RECORDS_MAX, sizeof *p->said);
    assert_non_null(p->said);
    rig_open_rounds(&p->primary, number, consistency, rounds);
    rig_open_rounds(&p->backup, number, consistency, rounds);
    p->primary.options.role = SHARD_PRIMARY;
    p->primary.options.backup = PAIR_OPENING;
    p->primary.options.given = given;
    p->primary.emit = emit;
    rig_reopen(&p->primary);
    p->backup.options.role = SHARD_BACKUP;
    p->backup.options.given = given;
    rig_reopen(&p->backup);
    p->tag = 1000000;
    p->opening = PAIR_OPENING;
    return p;
}

struct pair *pair_alone(uint32_t number, const struct consistency *consistency, uint32_t rounds)
{
    struct pair *p = pair_new(number, consistency, rounds, false);
    p->primary.options.role = SHARD_ALONE;
    rig_reopen(&p->primary);
    return p;
}

void pair_join(struct pair *p, uintptr_t tag, uint64_t generation)
{
    struct rig *r = &p->primary;
    const struct shard_options o = p->backup.options;
    const uint64_t now_ms = p->backup.now_ms;
    forget_records(p);
    rig_release(&p->backup);
    rig_open_rounds(&p->backup, o.shard, &o.consistency, r->era.rounds);
    p->backup.options.role = SHARD_BACKUP;
    p->backup.options.joins = true;
    p->backup.options.generation = generation - 1;
    rig_reopen(&p->backup);
    p->backup.now_ms = now_ms;
    p->opening++;
    p->first = r->version;
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .now_ms = r->now_ms,
                            .generation = generation,
                            .tag = (void *)tag,
                            .workers = RIG_WORKERS,
                            .worker_count = 3,
                            .has_backup = true,
                            .backup = p->opening,
                            .slots_buffer = rig_buffer(r, 0)};
    assert_true(shard_joins(r->shard, &e));
    rig_step(r, &e);
    memset(r->clocks, 0, sizeof r->clocks);
}

bool pair_follows(const struct pair *p)
{
    struct shard_info info;
    shard_info(p->primary.shard, &info);
    return info.follows;
}

void pair_free(struct pair *p)
{
    forget_records(p);
    rig_release(&p->primary);
    rig_release(&p->backup);
    free(p->said);
    free(p);
}

struct shard_event pair_event(struct rig *r, const struct said *said,
                              struct exchange_totals totals[RIG_ROUNDS])
{
    struct shard_event e = {.kind = SHARD_RECORD,
                            .now_ms = r->now_ms,
                            .can_apply = r->can_apply,
                            .generation = said->generation,
                            .record = said->record,
                            .totals = totals,
                            .workers = RIG_WORKERS,
                            .worker_count = said->workers,
                            .version = said->version,
                            .forget_pins = said->forget_pins,
                            .keep_pin = said->keep_pin,
                            .pin_id = said->pin_id,
                            .slots = said->slots,
                            .first = said->first,
                            .elements = said->elements,
                            .given = said->given};
    for (uint32_t i = 0; i < RIG_ROUNDS; i++) {
        totals[i] = (struct exchange_totals){
            {said->record.version, i}, &said->totals[i], sizeof said->totals[i]};
    }
    if (said->changes) {
        e.consistency = &said->consistency;
        e.ledger = &said->ledger;
    }
    if (said->record.kind == SHARD_RECORD_STATE) {
        e.eras = &r->era;
        e.era_count = 1;
    }
    if (said->record.kind == SHARD_RECORD_UPDATE && said->has_gradient) {
        e.gradient = rig_buffer(r, 0);
        e.elements = RIG_FLOATS;
        memcpy(e.gradient, said->gradient, sizeof said->gradient);
    }
    if (said->record.kind == SHARD_RECORD_PIN && said->slots) {
        e.slots_buffer = rig_buffer(r, 0);
    }
    return e;
}

bool pair_hear(struct pair *p)
{
    if (p->heard == p->count) {
        return false;
    }
    struct exchange_totals totals[RIG_ROUNDS];
    const struct said *said = &p->said[p->heard];
    struct shard_event e = pair_event(&p->backup, said, totals);
    if (said->record.kind == SHARD_RECORD_STATE) {
        assert_true(p->primary.kept[said->record.version] > 0);
        p->backup.load = p->primary.values[said->record.version];
        p->backup.load_slots = said->slots_from;
    }
    e.tag = (void *)++p->tag;
    rig_step(&p->backup, &e);
    rig_expect(&p->backup, p->tag, 0, "");
    /* the receipt is sent before the change is made */
    assert_int_equal(p->backup.actions.items[0].kind, SHARD_REPLY);
    p->receipt = rig_replied(&p->backup, p->tag)->received;
    assert_int_equal(p->receipt, ++p->heard);
    assert_false(shard_wants_snapshot(p->backup.shard)); /* it makes what it hears, no more */
    return true;
}

void pair_receive(struct pair *p)
{
    struct shard_event e = {.kind = SHARD_RECEIPT,
                            .now_ms = p->primary.now_ms,
                            .own = true,
                            .backup = p->opening,
                            .received = p->receipt};
    rig_step(&p->primary, &e);
    pair_check(p);
}

void pair_settle(struct pair *p)
{
    do {
        bool more = true;
        while (more) {
            more = pair_hear(p);
        }
        pair_receive(p);
        if (shard_wants_snapshot(p->primary.shard)) {
            p->primary.can_apply = true;
            rig_event(&p->primary, SHARD_SNAPSHOT, 0);
            pair_check(p);
        }
    } while (p->heard < p->count);
}

void pair_check(struct pair *p)
{
    struct rig *r = &p->primary;
    struct shard_info there;
    struct shard_info here;
    shard_info(p->backup.shard, &there);
    shard_info(r->shard, &here);
    for (; p->seen < r->reply_count; p->seen++) {
        const struct rig_reply *reply = &r->replies[p->seen];
        if (reply->code == 0 && here.role == SHARD_PRIMARY && here.follows && !here.closed) {
            assert_true(reply->version <= there.version);
            assert_true(reply->generation <= there.generation);
            assert_true(reply->examples <= there.examples);
        }
    }
    if (here.role == SHARD_PRIMARY) {
        const uint64_t least = there.filled > 0 ? there.version : p->first;
        assert_int_equal(here.records, p->count);
        assert_true(!here.follows || here.version - least <= 1);
    }
}

void standby_membership(struct rig *r, uintptr_t tag, uint64_t generation, bool stays)
{
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .now_ms = r->now_ms,
                            .generation = generation,
                            .tag = (void *)tag,
                            .workers = RIG_WORKERS,
                            .worker_count = 3,
                            .has_backup = stays,
                            .backup = stays ? ((struct pair *)r)->opening : 0};
    rig_step(r, &e);
    memset(r->clocks, 0, sizeof r->clocks);
}

void standby_promote(struct rig *r, uintptr_t tag, uint64_t generation)
{
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .now_ms = r->now_ms,
                            .generation = generation,
                            .tag = (void *)tag,
                            .workers = RIG_WORKERS,
                            .worker_count = 3,
                            .promote = true};
    rig_step(r, &e);
    memset(r->clocks, 0, sizeof r->clocks);
}

void standby_same_values(const struct rig *a, const struct rig *b, uint64_t version)
{
    assert_memory_equal(a->values[version], b->values[version], sizeof a->values[version]);
    assert_memory_equal(a->slot[version], b->slot[version], sizeof a->slot[version]);
}

struct pair *pair_of_mode(enum training_mode mode, uint32_t replicas)
{
    const struct consistency c = rig_consistency(mode, replicas);
    return pair_new(0, &c, 0, false);
}

void pair_push(struct rig *r, uintptr_t tag, uint64_t step, uint32_t replica)
{
    struct shard_event e = gradient_push(r, tag, step, replica, replica + 1);
    e.ask.has_pull = true;
    e.ask.pull = (struct exchange_pull){.kind = PULL_VERSION, .version = step + 1};
    rig_step(r, &e);
}
