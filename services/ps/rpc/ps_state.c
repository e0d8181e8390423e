/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a shard, which is the first record to a backup that joins: kept until the backup has
 * received it, written, and read into the event of the backup. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ps/rpc/ps_standby.h"
#include "wire/wire.h"

/* The eras as they are after the event of @r. */
static const struct ps_eras *eras_of(const struct ps_shard *s, const struct ps_request *r)
{
    const bool changes = r->event.ledger != NULL && r->event.consistency != NULL;
    return changes && r->change->eras.count > 0 ? &r->change->eras : &s->eras;
}

static void keep_eras(struct ps_state *st, const struct ps_eras *eras)
{
    st->eras = mem_new(eras->count, sizeof *st->eras);
    st->era_list = mem_new(eras->count, sizeof *st->era_list);
    for (size_t i = 0; i < eras->count; i++) {
        gradus__v1__era__init(&st->eras[i]);
        st->eras[i].version = eras->eras[i].version;
        st->eras[i].update = mem_strdup(eras->items[i].text);
        st->era_list[i] = &st->eras[i];
    }
    st->present.eras = st->era_list;
    st->present.n_eras = eras->count;
}

struct ps_state *ps_state_new(struct ps_shard *s, const struct shard_action *a,
                              const struct ps_request *r)
{
    const Gradus__V1__SetMembershipRequest *m =
        (const Gradus__V1__SetMembershipRequest *)r->msg->body;
    struct ps_state *st = mem_new(1, sizeof *st);
    struct shard_info info;
    *st = (struct ps_state){.values = ps_values_acquire(s, a->version, 1),
                            .slots = a->buffer == NULL ? NULL : buffer_ref(a->buffer)};
    st->tables = s->tables == NULL ? NULL : ps_said_tables_new(s, a->version);
    gradus__v1__state_record__init(&st->message);
    gradus__v1__set_membership_request__init(&st->present);
    shard_info(s->core, &info);
    wire_consistency_to_proto(&info.consistency, &st->consistency);
    ledger_copy(&st->ledger, a->ledger);
    wire_ledger_to_proto(&st->ledger, &st->position);
    keep_eras(st, eras_of(s, r));
    st->present.workers = m->workers;
    st->present.n_workers = m->n_workers;
    st->present.consistency = &st->consistency;
    st->present.ledger = &st->position;
    st->present.version = a->version;
    st->message.present = &st->present;
    st->message.examples = a->record.examples;
    st->message.pushes = a->record.pushes_applied;
    st->message.skipped = s->updates_skipped;
    return st;
}

void ps_state_free(struct ps_state *st)
{
    if (st == NULL) {
        return;
    }
    for (size_t i = 0; i < st->present.n_eras; i++) {
        free(st->eras[i].update);
    }
    free(st->eras);
    free(st->era_list);
    ledger_release(&st->ledger);
    buffer_put(st->slots);
    ps_said_tables_free(st->tables);
    ps_values_release(st->values);
    free(st);
}

uint64_t ps_state_floats(const struct ps_state *st)
{
    return st->values->owner->elements + (st->slots == NULL ? 0 : st->slots->pool->floats);
}

uint64_t ps_state_bytes(const struct ps_state *st)
{
    return ps_state_floats(st) * sizeof(float) +
           (st->tables == NULL ? 0 : ps_said_tables_bytes(st->tables));
}

struct ps_part ps_state_part(struct ps_shard *s, const struct ps_state *st, uint64_t at)
{
    const uint64_t elements = st->values->owner->elements;
    if (at < elements) {
        ps_values_ref(s, st->values, 1);
        return (struct ps_part){.data = st->values->values.data + at,
                                .count = elements - at,
                                .release = ps_values_release,
                                .ctx = st->values};
    }
    const uint64_t behind = at - elements;
    (void)ps_shard_ref(s);
    return (struct ps_part){.data = st->slots->floats.data + behind,
                            .count = st->slots->pool->floats - behind,
                            .release = ps_values_release_slots,
                            .ctx = buffer_ref(st->slots)};
}

int ps_state_read(struct ps_request *r, const Gradus__V1__StateRecord *m, struct err *err)
{
    const Gradus__V1__SetMembershipRequest *present = m->present;
    if (present == NULL || present->consistency == NULL || present->ledger == NULL ||
        present->n_eras == 0) {
        return err_set(err, ERR_INVALID, "a state without %s",
                       present == NULL                ? "its generation"
                       : present->consistency == NULL ? "a consistency"
                       : present->ledger == NULL      ? "a data position"
                                                      : "an update section");
    }
    int rc = ps_read_change(r, present, err);
    if (rc != 0) {
        return rc;
    }
    if (r->change->ledger.shape.records != r->shard->records) {
        return err_set(err, ERR_INVALID,
                       "a state of %" PRIu64 " records; this shard was opened with %" PRIu64,
                       r->change->ledger.shape.records, r->shard->records);
    }
    r->event.promote = r->event.has_backup = false;
    r->event.record.examples = m->examples;
    r->event.record.pushes_applied = m->pushes;
    r->change->skipped = m->skipped;
    return 0;
}
