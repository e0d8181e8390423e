/* SPDX-License-Identifier: Apache-2.0 */
/* Values out of snapshots, and requests out of messages. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "ps/rpc/ps_shell.h"

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

struct rpc_piece ps_values_piece(const struct ps_request *r, const struct ps_source *source,
                                 uint64_t at, uint64_t n)
{
    const unsigned char *values = r->pulled == VALUE_FP32 ? (const unsigned char *)source->data
                                                          : snapshot_coded(source->ctx, at + n);
    size_t each = value_type_bytes(r->pulled);
    meter_add(r->shard->ps->meters.values_sent, n * each);
    return (struct rpc_piece){values + at * each, n * each};
}

/* ---- from messages ---- */

/* @own: what the job says. */
static int read_type(Gradus__V1__WireType in, int own, const char *what, enum value_type *out,
                     struct err *err)
{
    int rc = wire_type_from_proto(in, out, err);
    if (rc == 0 && *out != VALUE_FP32 && (int)*out != own) {
        rc = err_set(err, ERR_INVALID, "%s as %s; those of this job travel as %s", what,
                     value_type_names[*out], value_type_names[own]);
    }
    return rc;
}

/* Sums have more bits than a type of 16 has. A single gradient that did not go through the type of
 * the job would make the update depend on who computed it. */
int ps_check_type(const struct ps_request *r, struct err *err)
{
    const struct ps_shard *s = r->shard;
    const struct exchange_push *p = &r->event.ask.push;
    bool sum = s->consistency.mode == TRAINING_SYNC && p->replica_end - p->replica_first > 1;
    enum value_type right = sum ? VALUE_FP32 : (enum value_type)s->spec.training.wire_gradients;
    if (r->event.gradient == NULL || r->pushed == right) {
        return 0;
    }
    return err_set(err, ERR_INVALID, "gradients as %s; those of %s travel as %s",
                   value_type_names[r->pushed], sum ? "several replicas in one push" : "this job",
                   value_type_names[right]);
}

int ps_read_push(const Gradus__V1__Push *in, struct ps_request *r, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "the request has no push");
    }
    int rc =
        read_type(in->type, r->shard->spec.training.wire_gradients, "gradients", &r->pushed, err);
    if (rc != 0) {
        return rc;
    }
    r->event.ask.has_push = true;
    r->event.ask.push = (struct exchange_push){
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

static int read_kind(const Gradus__V1__Pull *in, struct ps_request *r, struct err *err)
{
    struct exchange_request *ask = &r->event.ask;
    switch (in->kind) {
    case GRADUS__V1__PULL__KIND__LATEST:
        ask->pull.kind = PULL_LATEST;
        return 0;
    case GRADUS__V1__PULL__KIND__VERSION:
        ask->pull.kind = PULL_VERSION;
        return 0;
    case GRADUS__V1__PULL__KIND__AT_LEAST:
        ask->pull.kind = PULL_AT_LEAST;
        return 0;
    case GRADUS__V1__PULL__KIND__PINNED:
        if (ask->has_push) {
            return err_set(err, ERR_INVALID, "a pull of a pinned version comes alone");
        }
        *ask = (struct exchange_request){.kind = EXCHANGE_PINNED};
        memcpy(ask->pin_id, in->pin_id, strnlen(in->pin_id, sizeof ask->pin_id - 1));
        return 0;
    default:
        return err_set(err, ERR_INVALID, "unknown kind of pull %d", (int)in->kind);
    }
}

int ps_read_pull(const Gradus__V1__Pull *in, struct ps_request *r, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "the request has no pull");
    }
    int rc =
        read_type(in->type, r->shard->spec.training.wire_parameters, "parameters", &r->pulled, err);
    if (rc == 0 && in->kind == GRADUS__V1__PULL__KIND__PINNED && r->pulled != VALUE_FP32) {
        rc = err_set(err, ERR_INVALID, "a pinned version as %s; those travel as fp32",
                     value_type_names[r->pulled]);
    }
    if (rc != 0) {
        return rc;
    }
    r->event.ask.kind = EXCHANGE_TRAIN;
    r->event.ask.has_pull = true;
    r->event.ask.pull = (struct exchange_pull){
        .version = in->version,
        .progress = in->progress != 0,
        .clock = in->clock,
        .joins = in->joins != 0,
        .epoch = in->epoch,
        .split = in->split,
    };
    return read_kind(in, r, err);
}
