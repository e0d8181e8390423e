#include "ps/snapshot.h"

#include <assert.h>

int snapshots_init(struct snapshots *s, uint64_t elements, uint64_t version, struct budget *budget,
                   void (*freed)(void *ctx), void *ctx, struct err *err)
{
    *s = (struct snapshots){.budget = budget, .elements = elements, .freed = freed, .ctx = ctx};
    for (unsigned i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        s->items[i].owner = s;
    }
    for (unsigned i = 0; i < 2; i++) {
        int rc = floats_init(&s->items[i].values, elements, i, budget, "values", err);
        if (rc != 0) {
            floats_release(&s->items[0].values, budget);
            return rc;
        }
    }
    s->present = &s->items[0];
    s->present->version = version;
    atomic_store(&s->present->refs, 1);
    return 0;
}

void snapshots_release(struct snapshots *s)
{
    for (size_t i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        floats_release(&s->items[i].values, s->budget);
    }
}

struct snapshot *snapshots_find(struct snapshots *s, uint64_t version)
{
    for (size_t i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        struct snapshot *item = &s->items[i];
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

void snapshot_release(struct snapshot *snapshot)
{
    struct snapshots *s = snapshot->owner;
    unsigned before = atomic_fetch_sub(&snapshot->refs, 1);
    assert(before > 0);
    /* Also at the last but one: what is left may be the hold of the previous version, which an
     * update gives up. */
    if (before <= 2 && atomic_exchange(&s->wanted, false)) {
        s->freed(s->ctx);
    }
}

static bool is_free(struct snapshot *item)
{
    return item->values.data != NULL && atomic_load(&item->refs) == 0;
}

static struct snapshot *find_free(struct snapshots *s)
{
    for (size_t i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        if (is_free(&s->items[i])) {
            return &s->items[i];
        }
    }
    return NULL;
}

/* One buffer more; false when that is not possible. */
static bool grow(struct snapshots *s)
{
    for (unsigned i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        struct snapshot *item = &s->items[i];
        if (item->values.data == NULL) {
            return floats_init(&item->values, s->elements, i, s->budget, "values", NULL) == 0;
        }
    }
    return false;
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
    return next;
}

void snapshots_commit(struct snapshots *s, struct snapshot *next)
{
    atomic_store(&next->refs, 1);
    s->previous = s->present;
    s->present = next;
}

void snapshots_usage(const struct snapshots *s, struct snapshots_usage *out)
{
    *out = (struct snapshots_usage){0};
    for (size_t i = 0; i < SNAPSHOT_BUFFERS_MAX; i++) {
        const struct snapshot *item = &s->items[i];
        out->buffers += item->values.data != NULL;
        out->held += atomic_load(&item->refs) > 0;
        out->bytes += item->values.bytes;
    }
}
