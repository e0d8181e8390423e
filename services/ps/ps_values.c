/* Values out of snapshots, and requests out of messages. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "ps/ps_shell.h"

struct snapshot *ps_values_acquire(struct ps_shard *s, uint64_t version, unsigned count)
{
    struct snapshot *snapshot = snapshot_acquire(&s->snapshots, version);
    assert(snapshot != NULL); /* the core says which are readable */
    snapshot_ref(snapshot, count - 1);
    atomic_fetch_add(&s->refs, count);
    return snapshot;
}

void ps_values_ref(struct ps_shard *s, struct snapshot *snapshot, unsigned count)
{
    snapshot_ref(snapshot, count);
    atomic_fetch_add(&s->refs, count);
}

void ps_values_release(void *ctx)
{
    struct snapshot *snapshot = ctx;
    struct ps_shard *s =
        (struct ps_shard *)((char *)snapshot->owner - offsetof(struct ps_shard, snapshots));
    snapshot_release(snapshot);
    ps_shard_unref(s);
}

/* ---- the average in the place of the values ---- */

static void release_slots(void *ctx)
{
    struct buffer *slots = ctx;
    struct ps_shard *s =
        (struct ps_shard *)((char *)slots->pool - offsetof(struct ps_shard, slot_copies));
    buffer_put(slots);
    ps_shard_unref(s);
}

static struct ps_source average_in(struct ps_shard *s, struct buffer *slots, unsigned count)
{
    uint64_t at = 0;
    for (size_t i = 0; i < (size_t)update_spec_average(&s->spec.update); i++) {
        at += update_slot_floats(s->update, i);
    }
    atomic_fetch_add(&slots->refs, count);
    atomic_fetch_add(&s->refs, count);
    return (struct ps_source){slots->floats.data + at, release_slots, slots};
}

struct ps_source ps_values_answer(struct ps_shard *s, const struct shard_action *a, unsigned count)
{
    if (a->buffer != NULL && s->spec.update.evaluate_average) {
        return average_in(s, a->buffer, count);
    }
    struct snapshot *snapshot = ps_values_acquire(s, a->version, count);
    return (struct ps_source){snapshot->values.data, ps_values_release, snapshot};
}

/* ---- from messages ---- */

int ps_read_push(const Gradus__V1__Push *in, struct shard_push *out, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "the request has no push");
    }
    *out = (struct shard_push){
        .step = in->step,
        .replica_first = in->replica_first,
        .replica_end = in->replica_end,
        .epoch = in->epoch,
        .split = in->split,
        .batch = in->batch,
        .examples = in->examples,
        .base_version = in->base_version,
        .batch_end = in->batch_end,
        .decided = in->decided != 0,
        .spare = in->spare != 0,
        .clock = in->clock,
    };
    return 0;
}

int ps_read_norms(const struct ps_shard *s, const Gradus__V1__Push *in, struct buffer *gradient,
                  struct err *err)
{
    if (in->n_norms == 0 || gradient->norms == NULL) {
        return 0; /* nobody needs them, or whoever does refuses */
    }
    if (in->n_norms != s->plan.variable_count) {
        return err_set(err, ERR_INVALID, "norms of %zu variables; there are %zu", in->n_norms,
                       s->plan.variable_count);
    }
    memcpy(gradient->norms, in->norms, in->n_norms * sizeof in->norms[0]);
    gradient->has_norms = true;
    return 0;
}

int ps_read_pull(const Gradus__V1__Pull *in, struct shard_pull *out, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "the request has no pull");
    }
    *out = (struct shard_pull){
        .kind = (enum shard_pull_kind)in->kind, /* the core refuses what it does not know */
        .version = in->version,
        .pin_id = in->pin_id,
        .progress = in->progress != 0,
        .clock = in->clock,
        .joins = in->joins != 0,
        .epoch = in->epoch,
        .split = in->split,
    };
    return 0;
}
