/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a shard: how much it needs, where it comes from and when it goes back. */
#include "ps/rpc/ps_memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "job/plan/plan_memory.h"
#include "ps/rpc/ps_standby.h"

size_t ps_memory_bases(const struct ps_shard *s, const struct consistency *c, size_t workers)
{
    workers =
        workers < SHARD_WORKERS_MAX ? workers : SHARD_WORKERS_MAX; /* the core takes no more */
    return plan_memory_bases(&s->spec.update, c, workers);
}

int ps_memory_reserve_bases(struct ps_shard *s, size_t bases, struct err *err)
{
    const size_t slots = plan_memory_base_slots(&s->spec.update, bases);
    int rc = snapshots_reserve(&s->snapshots,
                               bases + s->reader_versions + s->pin_reserved + s->version_more, err);
    if (s->base_pool.count > slots) {
        (void)buffer_pool_trim(&s->base_pool, s->base_pool.count - slots, slots);
    }
    return rc != 0 ? rc
                   : buffer_pool_reserve(&s->base_pool, slots, "slots that gradients are based on",
                                         err);
}

int ps_memory_reserve_readers(struct ps_shard *s, size_t readers, struct err *err)
{
    struct shard_info info;
    shard_info(s->core, &info);
    const size_t again = s->reader_versions > 0 ? 1 : 0;
    const size_t versions = readers == 0 ? again : readers + info.pins;
    int rc = snapshots_reserve(&s->snapshots,
                               s->bases + versions + s->pin_reserved + s->version_more, err);
    if (rc == 0) {
        s->reader_versions = versions;
        s->readers = readers;
    }
    return rc == 0 ? 0 : err_wrap(err, "a version for a reader");
}

static uint64_t slot_floats(const struct ps_shard *s)
{
    uint64_t floats = 0;
    for (size_t i = 0; i < update_slot_count(s->update); i++) {
        floats += update_slot_floats(s->update, i);
    }
    return floats;
}

/* Every job makes a checkpoint at its end, if not before. One that is admitted can. */
int ps_memory_reserve_copies(struct ps_shard *s, size_t more, struct err *err)
{
    const size_t copies = s->slot_copies.floats > 0 ? 1 + more : 0;
    if (more == 0) {
        (void)buffer_pool_trim(&s->slot_copies, SIZE_MAX, copies);
    }
    return buffer_pool_reserve(&s->slot_copies, copies, "a copy of the slots", err);
}

void ps_memory_no_join(struct ps_shard *s)
{
    if (s->let_go) {
        (void)buffer_pool_trim(&s->slot_copies, SIZE_MAX, 0);
        return;
    }
    if (s->version_more) {
        s->version_more = false;
        (void)ps_memory_reserve_bases(s, s->bases, NULL);
    }
    if (s->copies_more && ps_memory_reserve_copies(s, 0, NULL) == 0) {
        s->copies_more =
            buffer_pool_bytes(&s->slot_copies) > floats_bytes_max(s->slot_copies.floats);
    }
}

/* As much as the arrays of the shard take at most, wherever they lie. */
static uint64_t bytes_needed(const struct ps_shard *s, size_t gradients)
{
    const uint64_t version =
        plan_memory_version(s->elements, (enum value_type)s->spec.training.wire_parameters);
    const size_t slots = update_slot_count(s->update);
    uint64_t bytes = (2 + s->bases + s->pin_reserved) * floats_bytes_max(version);
    bytes += gradients * floats_bytes_max(s->elements);
    bytes += update_needs_gradient(s->update) ? floats_bytes_max(s->elements) : 0;
    for (size_t i = 0; i < slots; i++) {
        bytes += floats_bytes_max(update_slot_floats(s->update, i));
    }
    bytes += slots == 0 ? 0 : floats_bytes_max(slot_floats(s));
    const size_t base_slots = plan_memory_base_slots(&s->spec.update, s->bases);
    return bytes +
           (base_slots == 0 ? 0 : base_slots * floats_bytes_max(update_slot_floats(s->update, 0)));
}

/* Checks what the shard takes at least, so that a job that cannot fit is told all of it at once. */
static int check_memory(struct ps_shard *s, size_t gradients, bool has_backup, struct err *err)
{
    char what[224];
    char bases[64] = "";
    const uint64_t bytes = bytes_needed(s, gradients + has_backup);
    if (s->bases > 0) {
        (void)snprintf(bases, sizeof bases, "a version%s for each of %zu workers, ",
                       plan_memory_base_slots(&s->spec.update, s->bases) > 0 ? " and a slot" : "",
                       s->bases);
    }
    (void)snprintf(what, sizeof what,
                   "%s snapshots, %s%zu slots%s and %zu gradient%s of %" PRIu64 " elements",
                   s->pin_reserved ? "three" : "two", bases, update_slot_count(s->update),
                   update_slot_count(s->update) == 0 ? "" : ", their copy for checkpoints",
                   gradients + has_backup, gradients + has_backup == 1 ? "" : "s", s->elements);
    int rc = budget_take(&s->ps->budget, bytes, what, err);
    if (rc == 0) {
        budget_give(&s->ps->budget, bytes);
    } else if (s->ps->budget.bytes_max != 0 && bytes > s->ps->budget.bytes_max && err != NULL) {
        err->code = rc = ERR_RANGE; /* it never fits, whatever else is given back */
    }
    return rc;
}

static int allocate_slots(struct ps_shard *s, struct err *err)
{
    int rc = 0;
    for (unsigned i = 0; i < update_slot_count(s->update) && rc == 0; i++) {
        rc = floats_init(&s->slots[i], update_slot_floats(s->update, i), 2 + i, &s->ps->budget,
                         update_slot(s->update, i)->name, err);
        s->slot_data[i] = s->slots[i].data;
    }
    return rc;
}

int ps_memory_take(struct ps_shard *s, const Gradus__V1__OpenShardRequest *r,
                   void (*freed)(void *shard), struct err *err)
{
    struct ps *ps = s->ps;
    enum value_type type = (enum value_type)s->spec.training.wire_parameters;
    s->bases = ps_memory_bases(s, &s->consistency, r->n_workers);
    size_t gradients =
        plan_memory_gradients(&s->consistency, r->n_workers, ps_eras_rounds(&s->eras));
    s->pin_reserved = r->is_backup;
    int rc = check_memory(s, gradients, r->backup != NULL, err);
    rc = rc != 0 ? rc
                 : snapshots_init(&s->snapshots, s->elements, type, r->version, &ps->budget, freed,
                                  s, err);
    rc = rc != 0 ? rc : allocate_slots(s, err);
    if (rc == 0 && update_needs_gradient(s->update)) {
        rc = floats_init(&s->nothing, s->elements, 1, &ps->budget, "an empty gradient", err);
    }
    s->snapshots.lender = &ps->gradient_memory;
    gradient_pool_join(&s->gradients, &ps->gradient_memory, s->elements, &ps->budget);
    s->gradients.buffers.norms = ps_norms_max(s); /* a change may want them */
    rc = rc != 0 ? rc : gradient_pool_reserve(&s->gradients, gradients, err);
    bool slot_base = s->spec.update.rule->base == RULE_BASE_SLOT;
    buffer_pool_init(&s->base_pool, slot_base ? update_slot_floats(s->update, 0) : 0,
                     SHARD_WORKERS_MAX + 1, &ps->budget);
    buffer_pool_init(&s->slot_copies, slot_floats(s), SHARD_PINS_MAX + 2, &ps->budget);
    rc = rc != 0 ? rc : ps_memory_reserve_copies(s, 0, err);
    ps_last_gradient_open(s);
    return rc != 0 ? rc : ps_memory_reserve_bases(s, s->bases, err);
}

void ps_memory_let_go(struct ps_shard *s)
{
    if (s->let_go) {
        return;
    }
    s->let_go = true;
    ps_streams_end(s);
    ps_record_streams_end(s);
    gradient_pool_close(&s->gradients);
    for (size_t i = 0; i < UPDATE_SLOTS_MAX; i++) {
        floats_release(&s->slots[i], &s->ps->budget);
        s->slot_data[i] = NULL;
    }
    floats_release(&s->nothing, &s->ps->budget);
    (void)buffer_pool_reserve(&s->slot_copies, 0, "", NULL);
    (void)buffer_pool_trim(&s->slot_copies, SIZE_MAX, 0);
    ps_last_gradient_let_go(s);
    (void)buffer_pool_reserve(&s->base_pool, 0, "", NULL);
    (void)buffer_pool_trim(&s->base_pool, SIZE_MAX, 0);
    snapshots_close(&s->snapshots);
    if (s->tables != NULL) {
        shard_tables_close(s->tables);
    }
}
