/* SPDX-License-Identifier: Apache-2.0 */
/* What a primary says to its backup: a record before each change of what survives a generation.
 * What a generation forgets is in no record: gradients that are not applied, requests that wait,
 * clocks, readers' pins. */
#include "base/mem.h"
#include "ps/core/shard_internal.h"

/* The next record, if there is a backup. */
static struct shard_action *emit(struct shard *s, enum shard_record_kind kind,
                                 struct shard_actions *out)
{
    struct shard_standby *b = &s->standby;
    if (!shard_has_backup(s)) {
        return NULL;
    }
    if (b->received == b->records) {
        b->unreceived_ms = b->now_ms;
        b->shown = s->version;
    }
    struct shard_action *a = shard_act(out, SHARD_EMIT);
    a->record = (struct shard_record){
        .kind = kind, .number = ++b->records, .generation = s->generation, .version = s->version};
    return a;
}

/* Those who were sent the present version. */
static void list_sent(struct shard *s, struct shard_record *r)
{
    struct shard_standby *b = &s->standby;
    b->sent = mem_grow(b->sent, &b->sent_capacity, s->worker_count, sizeof *b->sent);
    r->sent = b->sent;
    for (uint32_t i = 0; i < s->worker_count && !MUTANT(sent_not_said); i++) {
        if (s->workers[i].has_base && s->workers[i].base == s->version) {
            b->sent[r->sent_count++] = i + 1;
        }
    }
}

void shard_record_update(struct shard *s, const struct shard_queued *q, struct shard_actions *out)
{
    struct shard_action *a = emit(s, SHARD_RECORD_UPDATE, out);
    if (a == NULL) {
        return;
    }
    struct shard_record *r = &a->record;
    const struct shard_node *root = &s->nodes[0];
    a->buffer = q == NULL ? root->buffer : q->buffer;
    r->examples = q == NULL ? root->examples : q->examples;
    r->pushes = q == NULL ? root->pushes : 1;
    if (r->examples == 0) {
        a->buffer = NULL;
    }
    if (q != NULL) {
        r->epoch = q->epoch;
        r->split = q->split;
        r->batch = q->batch;
        r->batch_end = q->batch_end;
        r->base_version = q->base_version;
        r->worker = MUTANT(record_without_worker) ? 0 : q->worker + 1; /* none is the last one */
        list_sent(s, r);
        return;
    }
    r->rounds = shard_rounds(s, s->version);
    if (consistency_is_partial(&s->consistency)) {
        shard_decide_get(s, s->version, &r->decision);
    }
}

void shard_record_decision(struct shard *s, struct shard_actions *out)
{
    struct shard_action *a = emit(s, SHARD_RECORD_DECISION, out);
    if (a != NULL) {
        shard_decide_get(s, s->version, &a->record.decision);
    }
}

void shard_record_state(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    struct shard_standby *b = &s->standby;
    b->role = SHARD_PRIMARY;
    b->backup = e->backup;
    b->records = MUTANT(records_go_on) ? b->records : 0;
    b->received = 0;
    b->joining = b->state_kept = true;
    b->follows = false;
    b->state_version = s->version;
    b->state_slots = e->slots_buffer;
    shard_policy_forget_all(s, out); /* the backup has no older version, and nobody pushes of one */
    for (size_t i = 0; i < SHARD_PINS_MAX; i++) {
        s->pins[i].unsaid = s->pins[i].id[0] != 0;
    }
    if (!MUTANT(state_not_kept)) {
        struct shard_action *keep = shard_act(out, SHARD_KEEP);
        keep->version = s->version;
        keep->state = true;
        keep->buffer = b->state_slots;
    }
    struct shard_action *a = emit(s, SHARD_RECORD_STATE, out);
    if (a == NULL) {
        return;
    }
    a->version = s->version;
    a->buffer = MUTANT(state_with_present_slots) ? NULL : b->state_slots;
    a->ledger = &s->ledger;
    a->record.examples = s->examples;
    a->record.generation -= MUTANT(state_of_generation_before);
    a->record.pushes_applied = s->pushes_applied;
    if (consistency_is_partial(&s->consistency)) {
        shard_decide_get(s, s->version, &a->record.decision);
    }
}

void shard_record_state_end(struct shard *s, struct shard_actions *out)
{
    struct shard_standby *b = &s->standby;
    if (!b->state_kept) {
        return;
    }
    b->state_kept = false;
    if (!MUTANT(state_not_kept)) {
        struct shard_action *forget = shard_act(out, SHARD_FORGET);
        forget->version = b->state_version;
        forget->state = true;
    }
    shard_release_buffer(out, b->state_slots);
    b->state_slots = NULL;
}

void shard_record_event(struct shard *s, enum shard_record_kind kind, struct shard_actions *out)
{
    (void)emit(s, kind, out);
}
