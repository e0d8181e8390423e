/* SPDX-License-Identifier: Apache-2.0 */
/* The buffers that hold a shard's values at each version that is still read. Readers are counted; a
 * buffer is written again only when nobody reads it and its version need not be kept. */
#include "ps/data/snapshot.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "job/plan/plan_memory.h"

/* ---- buffers ---- */

/* of one version */
static uint64_t snapshots_floats(uint64_t elements, enum value_type type)
{
    return plan_memory_version(elements, type);
}

/* Adds a buffer, out of the reserve when there is one. Errors: ERR_EXHAUSTED. */
static int add_buffer(struct snapshots *s, struct err *err)
{
    struct snapshot *item = mem_new(1, sizeof *item);
    bool paid = s->reserved > 0;
    int rc = floats_init(&item->values, snapshots_floats(s->elements, s->type), (unsigned)s->count,
                         paid ? NULL : s->budget, "values", err);
    if (rc != 0) {
        free(item);
        return rc;
    }
    if (paid) {
        s->reserved--;
        budget_give(s->budget,
                    floats_bytes_max(snapshots_floats(s->elements, s->type)) - item->values.bytes);
    }
    item->owner = s;
    item->bytes = item->values.bytes;
    s->items = mem_grow(s->items, &s->capacity, s->count + 1, sizeof(struct snapshot *));
    s->items[s->count++] = item;
    return 0;
}

static void remove_buffer(struct snapshots *s, size_t i)
{
    if (s->lent > 0) {
        s->lent--;
        gradient_memory_take_back(s->lender,
                                  floats_bytes_max(snapshots_floats(s->elements, s->type)));
    }
    floats_release(&s->items[i]->values, s->budget);
    free(s->items[i]);
    s->items[i] = s->items[--s->count];
}

static void give_back(struct snapshots *s, size_t reserved)
{
    budget_give(s->budget, reserved * floats_bytes_max(snapshots_floats(s->elements, s->type)));
    s->reserved -= reserved;
}

int snapshots_init(struct snapshots *s, uint64_t elements, enum value_type type, uint64_t version,
                   struct budget *budget, void (*freed)(void *ctx), void *ctx, struct err *err)
{
    *s = (struct snapshots){
        .budget = budget, .elements = elements, .type = type, .freed = freed, .ctx = ctx};
    for (unsigned i = 0; i < 2; i++) {
        int rc = add_buffer(s, err);
        if (rc != 0) {
            snapshots_release(s);
            return rc;
        }
    }
    s->present = s->items[0];
    s->present->version = version;
    atomic_store(&s->present->refs, 1);
    return 0;
}

/* Each buffer has one more reference until `closed` is set, so the caller that returns the last one
 * knows it. Two callers may seem to do so when one returned its reference just before; the first of
 * them frees. */
void snapshots_close(struct snapshots *s)
{
    give_back(s, s->reserved);
    for (size_t i = 0; i < s->count; i++) {
        atomic_fetch_add(&s->items[i]->refs, 1);
    }
    atomic_store(&s->closed, true);
    for (size_t i = 0; i < s->count; i++) {
        struct snapshot *item = s->items[i];
        if (item == s->present) {
            snapshot_release(item);
        }
        if (item == s->previous) {
            snapshot_release(item);
        }
        snapshot_release(item);
    }
    s->present = s->previous = NULL;
}

void snapshots_release(struct snapshots *s)
{
    while (s->count > 0) {
        remove_buffer(s, s->count - 1);
    }
    give_back(s, s->reserved);
    free(s->items);
    s->items = NULL;
    s->capacity = 0;
}

int snapshots_reserve(struct snapshots *s, size_t kept, struct err *err)
{
    size_t want = 2 + kept;
    size_t have = s->count - s->lent + s->reserved; /* those for slow readers go again */
    if (want > have) {
        int rc = budget_take(
            s->budget, (want - have) * floats_bytes_max(snapshots_floats(s->elements, s->type)),
            "versions that are kept", err);
        if (rc != 0) {
            return rc;
        }
        s->reserved += want - have;
        return 0;
    }
    size_t surplus = have - want;
    give_back(s, surplus < s->reserved ? surplus : s->reserved);
    for (size_t i = s->count; i-- > 0 && s->count > want;) {
        if (atomic_load(&s->items[i]->refs) == 0) {
            remove_buffer(s, i);
        }
    }
    return 0;
}

/* ---- readers ---- */

struct snapshot *snapshots_find(struct snapshots *s, uint64_t version)
{
    for (size_t i = 0; i < s->count; i++) {
        struct snapshot *item = s->items[i];
        if (item->version == version && atomic_load(&item->refs) > 0) {
            return item;
        }
    }
    return NULL;
}

/* Only the owner takes the first reference of a buffer, and it asks for versions that it knows
 * someone holds, so the count cannot fall to zero in between. */
struct snapshot *snapshot_acquire(struct snapshots *s, uint64_t version)
{
    struct snapshot *item = snapshots_find(s, version);
    if (item != NULL) {
        atomic_fetch_add(&item->refs, 1);
    }
    return item;
}

void snapshot_ref(struct snapshot *snapshot, unsigned n)
{
    atomic_fetch_add(&snapshot->refs, n);
}

const unsigned char *snapshot_coded(struct snapshot *snapshot, uint64_t end)
{
    const struct snapshots *s = snapshot->owner;
    const float *values = snapshot->values.data;
    unsigned char *coded = (unsigned char *)(snapshot->values.data + s->elements);
    if (end > snapshot->coded) {
        values_encode(s->type, values + snapshot->coded, end - snapshot->coded,
                      coded + snapshot->coded * value_type_bytes(s->type));
        snapshot->coded = end;
    }
    return coded;
}

/* The buffer may be another version's, or gone, as soon as its reference is returned. */
void snapshot_release(struct snapshot *snapshot)
{
    struct snapshots *s = snapshot->owner;
    unsigned before = atomic_fetch_sub(&snapshot->refs, 1);
    assert(before > 0);
    if (atomic_load(&s->closed)) {
        if (before == 1 && !atomic_exchange(&snapshot->gone, true)) {
            floats_release(&snapshot->values, s->budget);
        }
        return;
    }
    /* Also at the last but one: what is left may be the hold of the previous version, which an
     * update gives up. */
    if (before <= 2 && atomic_exchange(&s->wanted, false)) {
        s->freed(s->ctx);
    }
}

void snapshot_keep(struct snapshots *s, uint64_t version)
{
    struct snapshot *item = snapshot_acquire(s, version);
    assert(item != NULL);
    s->kept++;
}

void snapshot_forget(struct snapshots *s, uint64_t version)
{
    struct snapshot *item = snapshots_find(s, version);
    assert(item != NULL && s->kept > 0);
    s->kept--;
    snapshot_release(item);
}

/* ---- updates ---- */

static struct snapshot *find_free(struct snapshots *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (atomic_load(&s->items[i]->refs) == 0) {
            return s->items[i];
        }
    }
    return NULL;
}

static bool grow(struct snapshots *s)
{
    if (s->reserved > 0) {
        return add_buffer(s, NULL) == 0;
    }
    uint64_t bytes = floats_bytes_max(snapshots_floats(s->elements, s->type));
    bool borrows = s->lender != NULL && s->count >= 2 + s->kept;
    if (s->count >= SNAPSHOT_BUFFERS_MAX + s->kept ||
        (borrows && !gradient_memory_lend(s->lender, bytes))) {
        return false;
    }
    int rc = add_buffer(s, NULL);
    if (borrows && rc == 0) {
        s->lent++;
    } else if (borrows) {
        gradient_memory_take_back(s->lender, bytes);
    }
    return rc == 0;
}

bool snapshots_can_update(struct snapshots *s)
{
    bool gives_up = s->previous != NULL && atomic_load(&s->previous->refs) == 1;
    return gives_up || find_free(s) != NULL || grow(s);
}

void snapshots_want(struct snapshots *s)
{
    atomic_store(&s->wanted, true);
    if (snapshots_can_update(s) && atomic_exchange(&s->wanted, false)) {
        s->freed(s->ctx);
    }
}

struct snapshot *snapshots_begin(struct snapshots *s)
{
    if (s->previous != NULL) {
        atomic_fetch_sub(&s->previous->refs, 1);
        s->previous = NULL;
    }
    struct snapshot *next = find_free(s);
    assert(next != NULL);
    next->version = s->present->version + 1;
    next->coded = 0;
    /* elements that are written may go to readers before the commit */
    atomic_store(&next->refs, 1);
    return next;
}

void snapshots_commit(struct snapshots *s, struct snapshot *next)
{
    s->previous = s->present;
    s->present = next;
}

void snapshots_usage(const struct snapshots *s, struct snapshots_usage *out)
{
    *out = (struct snapshots_usage){
        .buffers = s->count,
        .bytes = s->reserved * floats_bytes_max(snapshots_floats(s->elements, s->type))};
    for (size_t i = 0; i < s->count; i++) {
        out->held += atomic_load(&s->items[i]->refs) > 0;
        out->bytes += atomic_load(&s->items[i]->gone) ? 0 : s->items[i]->bytes;
    }
}
