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

void ps_values_release_slots(void *ctx)
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
    for (size_t i = 0; i < (size_t)update_spec_average(ps_newest_update(s)); i++) {
        at += update_slot_floats(s->update, i);
    }
    atomic_fetch_add(&slots->refs, count);
    atomic_fetch_add(&s->refs, count);
    return (struct ps_source){slots->floats.data + at, ps_values_release_slots, slots};
}

struct ps_source ps_values_answer(struct ps_shard *s, const struct shard_action *a, unsigned count)
{
    if (a->buffer != NULL && ps_newest_update(s)->evaluate_average) {
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

int ps_read_types(const Gradus__V1__Push *push, const Gradus__V1__Pull *pull, struct ps_request *r,
                  struct err *err)
{
    const struct job_spec *spec = &r->shard->spec;
    int rc = 0;
    if (push != NULL) {
        rc = read_type(push->type, spec->training.wire_gradients, "gradients", &r->pushed, err);
    }
    if (pull != NULL && rc == 0) {
        rc = read_type(pull->type, spec->training.wire_parameters, "parameters", &r->pulled, err);
    }
    return rc;
}

int ps_read_rows_type(const Gradus__V1__RowsRequest *m, struct ps_request *r, struct err *err)
{
    const int own = r->shard->spec.training.wire_parameters;
    int rc = read_type(m->type, own, "rows", &r->pulled, err);
    if (rc == 0 && r->pulled != VALUE_FP32 && r->event.ask.rows.of == ROWS_OF_PIN) {
        rc = err_set(err, ERR_INVALID, "rows of a pinned version as %s; they are exact",
                     value_type_names[r->pulled]);
    }
    return rc;
}

size_t ps_norms_max(const struct ps_shard *s)
{
    return s->plan.shard_count == 1 ? 0 : s->plan.variable_count + s->spec.model.table_count;
}

int ps_read_norms(const struct ps_shard *s, const Gradus__V1__Push *in, struct buffer *gradient,
                  struct err *err)
{
    if (in->n_norms == 0 || gradient->norms == NULL) {
        return 0; /* nobody needs them, or the reader refuses */
    }
    const size_t variables = s->plan.variable_count, tables = s->spec.model.table_count;
    if (in->n_norms != variables && in->n_norms != variables + tables) {
        return err_set(err, ERR_INVALID, "norms of %zu variables; there are %zu and %zu tables",
                       in->n_norms, variables, tables);
    }
    memcpy(gradient->norms, in->norms, in->n_norms * sizeof in->norms[0]);
    gradient->norm_count = in->n_norms;
    gradient->has_norms = true;
    return 0;
}
