/* SPDX-License-Identifier: Apache-2.0 */
/* A record of a standby shard as messages: written out of what the primary keeps of it, and read
 * into the event of its backup. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_standby.h"

/* ---- to messages ---- */

/* What the first message says points here. */
struct room {
    Gradus__V1__ShardRef ref;
    Gradus__V1__UpdateRecord update;
    Gradus__V1__Decision decision;
    Gradus__V1__Push push;
    ProtobufCBinaryData totals[SHARD_ROUNDS_MAX];
    Gradus__V1__FillRecord fill;
    Gradus__V1__PinRequest pin;
    Gradus__V1__SetMembershipRequest membership;
    Gradus__V1__StateRecord state;
};

static uint8_t *borrow(const void *bytes)
{
    uint8_t *out; /* messages that are sent are only read */
    memcpy(&out, &bytes, sizeof out);
    return out;
}

static void write_decision(const struct exchange_decision *d, Gradus__V1__Decision *out)
{
    gradus__v1__decision__init(out);
    out->step = d->step;
    out->replicas = (ProtobufCBinaryData){d->bytes, borrow(d->replicas)};
}

static void write_update(const struct ps_record *r, struct room *room, Gradus__V1__RecordRequest *m)
{
    const struct shard_record *w = &r->what;
    gradus__v1__update_record__init(&room->update);
    m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_UPDATE;
    m->update = &room->update;
    m->update->examples = w->examples;
    m->update->pushes = w->pushes;
    m->update->rows_bytes = r->rows == NULL ? 0 : r->rows->bytes;
    if (w->decision.bytes > 0) {
        write_decision(&w->decision, &room->decision);
        m->update->decision = &room->decision;
    }
    for (uint32_t i = 0; i < w->rounds; i++) {
        room->totals[i] = (ProtobufCBinaryData){r->totals[i].len, borrow(r->totals[i].data)};
    }
    m->update->totals = room->totals;
    m->update->n_totals = w->rounds;
    if (w->batch_end == 0) { /* of sync: the version says which */
        return;
    }
    gradus__v1__push__init(&room->push);
    room->push.epoch = w->epoch;
    room->push.split = w->split;
    room->push.batch = w->batch;
    room->push.batch_end = w->batch_end;
    room->push.base_version = w->base_version;
    if (r->gradient != NULL && r->gradient->has_norms) {
        room->push.norms = r->gradient->norms;
        room->push.n_norms = r->gradient->norm_count;
    }
    m->update->push = &room->push;
    m->update->worker = w->worker;
    m->update->sent = r->sent;
    m->update->n_sent = w->sent_count;
}

static void write_pin(const struct ps_request *r, Gradus__V1__PinRequest *out)
{
    *out = *(const Gradus__V1__PinRequest *)r->msg->body;
    out->shard = NULL;
}

static void write_membership(const struct ps_request *r, struct room *room,
                             Gradus__V1__RecordRequest *m)
{
    room->membership = *(const Gradus__V1__SetMembershipRequest *)r->msg->body;
    room->membership.shard = NULL;
    room->membership.backup = NULL;
    room->membership.promote = 0;
    m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_MEMBERSHIP;
    m->membership = &room->membership;
    m->generation_next = r->event.generation;
}

static void write_state(const struct ps_record *r, struct room *room, Gradus__V1__RecordRequest *m)
{
    room->state = r->state->message;
    if (r->what.decision.bytes > 0) {
        write_decision(&r->what.decision, &room->decision);
        room->state.decision = &room->decision;
    }
    m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_STATE;
    m->state = &room->state;
}

static void write_what(const struct ps_record *r, struct room *room, Gradus__V1__RecordRequest *m)
{
    m->generation = r->what.generation;
    m->version = r->what.version;
    switch (r->what.kind) {
    case SHARD_RECORD_UPDATE:
        write_update(r, room, m);
        break;
    case SHARD_RECORD_DECISION:
        write_decision(&r->what.decision, &room->decision);
        m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_DECISION;
        m->decision = &room->decision;
        break;
    case SHARD_RECORD_FILL:
        gradus__v1__fill_record__init(&room->fill);
        room->fill.first = r->request->event.first;
        m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_FILL;
        m->fill = &room->fill;
        break;
    case SHARD_RECORD_PIN:
        write_pin(r->request, &room->pin);
        m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_PIN;
        m->pin = &room->pin;
        break;
    case SHARD_RECORD_UNPIN:
        write_pin(r->request, &room->pin);
        m->what_case = GRADUS__V1__RECORD_REQUEST__WHAT_UNPIN;
        m->unpin = &room->pin;
        break;
    case SHARD_RECORD_MEMBERSHIP:
        write_membership(r->request, room, m);
        break;
    case SHARD_RECORD_STATE:
        write_state(r, room, m);
        break;
    }
}

static uint64_t rows_floats(const struct ps_record *r)
{
    return r->rows == NULL ? 0 : r->rows->bytes / sizeof(float);
}

uint64_t ps_record_floats(const struct ps_record *r)
{
    if (r->state != NULL) {
        return ps_state_floats(r->state);
    }
    return r->gradient != NULL                 ? r->gradient->shard->elements + rows_floats(r)
           : r->what.kind == SHARD_RECORD_FILL ? r->request->event.elements
                                               : 0;
}

void ps_record_show(const struct ps_shard *s, const struct ps_record *r, double sign)
{
    const uint64_t floats = ps_record_floats(r);
    meter_change(s->ps->meters.unreceived, sign);
    meter_change(s->ps->meters.unreceived_bytes, sign * (double)(floats * sizeof(float)));
}

void ps_record_free(const struct ps_shard *s, struct ps_record *r)
{
    ps_record_show(s, r, -1);
    if (r->gradient != NULL) {
        ps_copy_unref(r->gradient);
    }
    ps_said_rows_unref(r->rows);
    ps_state_free(r->state);
    if (r->request != NULL) {
        ps_request_unref(r->request);
    }
    for (size_t i = 0; i < SHARD_ROUNDS_MAX; i++) {
        buf_release(&r->totals[i]);
    }
    free(r->decision);
    free(r->sent);
    free(r);
}

/* What of the values of @r lies in one piece from element @at on. Initial values are copied by
 * gRPC: they come once. */
static struct ps_part part_at(struct ps_shard *s, const struct ps_record *r, uint64_t at)
{
    if (r->state != NULL) {
        return ps_state_part(s, r->state, at);
    }
    struct ps_part part = {.count = ps_record_floats(r) - at};
    if (r->gradient != NULL && at >= r->gradient->shard->elements) {
        at -= r->gradient->shard->elements;
        part.data = (const float *)(const void *)r->rows->data + at;
        part.release = ps_said_rows_unref;
        part.ctx = ps_said_rows_ref(r->rows);
    } else if (r->gradient != NULL) {
        part.count -= rows_floats(r);
        part.data = r->gradient->floats.data + at;
        part.release = ps_copy_unref;
        part.ctx = ps_copy_ref(r->gradient);
    } else {
        part.data = (const float *)r->request->event.given + at;
    }
    return part;
}

/* Where the values of a state end, and its tables begin; the first message is sent by then. */
static uint64_t values_end(const struct ps_record *r)
{
    const uint64_t floats = ps_record_floats(r);
    return floats > 0 ? floats : 1;
}

/* That gRPC has; its reference keeps the shard. */
struct leaving {
    struct ps_shard *shard;
    struct ps_part part;
    uint64_t stream, number, end;
};

static void part_left(void *ctx)
{
    struct leaving *l = ctx;
    ps_standby_sent(l->shard, l->stream, l->number, l->end);
    l->part.release(l->part.ctx);
    free(l);
}

/* Rows of tables lie behind the values, or may do so. */
static bool has_rows(const struct ps_record *r)
{
    return r->gradient != NULL && r->gradient->shard->tables != NULL;
}

/* The block in which the backup sees the values on stream @number, from 1; 0: it does not. */
static uint32_t block_of(const struct ps_record *r, uint64_t number)
{
    const struct ps_copy *c = r->gradient;
    const bool seen = c != NULL && c->near != NULL && c->near->stream == number;
    return seen ? c->block + 1 : 0;
}

void ps_record_named(const struct ps_shard *s, const struct ps_record *r)
{
    if (r->gradient != NULL) {
        r->gradient->named = true;
        meter_add(s->ps->meters.record_bytes, ps_record_floats(r) * sizeof(float));
    }
}

bool ps_record_note(const struct ps_record *r, uint64_t number, struct ps_note *out)
{
    struct room room;
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    m.number = r->what.number;
    m.total = ps_record_floats(r);
    m.gradient_block = block_of(r, number);
    if (r->state != NULL || has_rows(r) || (m.total > 0 && m.gradient_block == 0)) {
        return false;
    }
    write_what(r, &room, &m);
    if (gradus__v1__record_request__get_packed_size(&m) > sizeof out->message) {
        return false;
    }
    out->bytes = (uint32_t)gradus__v1__record_request__pack(&m, out->message);
    return true;
}

/* Sends @n floats of @part as what @m says. */
static int send_part(struct ps_shard *s, struct rpc_stream *stream, uint64_t number,
                     Gradus__V1__RecordRequest *m, const struct ps_part *part, uint64_t n,
                     uint64_t *at, struct err *err)
{
    const struct rpc_piece piece = {part->data, n * sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    if (part->release != NULL) {
        struct leaving *l = mem_new(1, sizeof *l);
        *l = (struct leaving){s, *part, number, m->number, *at + n};
        blob.release = part_left;
        blob.ctx = l;
    }
    const int rc = rpc_stream_send(stream, &m->base, &blob, err);
    if (rc == 0) {
        *at += n;
        meter_add(s->ps->meters.record_bytes, n * sizeof(float));
    }
    return rc;
}

/* Sends the next part of the tables of a state, whose values are sent, or says that all are. */
static int send_tables(struct ps_shard *s, struct rpc_stream *stream, uint64_t number,
                       const struct ps_record *r, uint64_t *at, struct err *err)
{
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    struct ps_part part;
    m.number = r->what.number;
    m.of_tables = 1;
    int rc = ps_said_tables_next(r->state->tables, *at == values_end(r), &part, err);
    if (rc != 0) {
        return rc;
    }
    if (part.data == NULL) {
        rc = rpc_stream_send(stream, &m.base, NULL, err);
        return rc != 0 ? rc : 1;
    }
    return send_part(s, stream, number, &m, &part, part.count, at, err);
}

int ps_record_send(struct ps_shard *s, struct rpc_stream *stream, uint64_t number,
                   const struct ps_record *r, uint64_t *at, struct err *err)
{
    struct room room;
    Gradus__V1__RecordRequest m = GRADUS__V1__RECORD_REQUEST__INIT;
    m.total = ps_record_floats(r);
    m.number = r->what.number;
    const bool tables = r->state != NULL && r->state->tables != NULL;
    if (tables && *at >= values_end(r)) {
        return send_tables(s, stream, number, r, at, err);
    }
    if (*at == 0) {
        write_what(r, &room, &m);
    }
    m.gradient_block = block_of(r, number);
    if (m.gradient_block != 0 || *at == m.total) {
        const int rc = rpc_stream_send(stream, &m.base, NULL, err);
        if (rc == 0 && m.gradient_block != 0) {
            ps_record_named(s, r);
        }
        *at += rc == 0 && tables;
        return rc != 0 ? rc : !tables;
    }
    m.offset = *at;
    const struct ps_part part = part_at(s, r, *at);
    const uint64_t n = part.count < PS_RECORD_FLOATS_MAX ? part.count : PS_RECORD_FLOATS_MAX;
    const int rc = send_part(s, stream, number, &m, &part, n, at, err);
    return rc == 0 && *at == m.total && !tables ? 1 : rc;
}

/* ---- from messages ---- */

static int read_decision(const Gradus__V1__Decision *m, struct shard_record *out, struct err *err)
{
    if (m == NULL) {
        return 0;
    }
    if (m->replicas.len > EXCHANGE_DECISION_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "a decision on %zu bytes of replicas; at most %d",
                       m->replicas.len, EXCHANGE_DECISION_BYTES_MAX);
    }
    out->decision = (struct exchange_decision){m->step, m->replicas.data, m->replicas.len};
    return 0;
}

static int read_update(struct ps_request *r, const Gradus__V1__UpdateRecord *m, struct err *err)
{
    struct shard_record *out = &r->event.record;
    out->kind = SHARD_RECORD_UPDATE;
    out->examples = m->examples;
    out->pushes = m->pushes;
    if (m->push != NULL) {
        out->epoch = m->push->epoch;
        out->split = m->push->split;
        out->batch = m->push->batch;
        out->batch_end = m->push->batch_end;
        out->base_version = m->push->base_version;
    }
    out->worker = m->worker;
    out->sent = m->sent;
    out->sent_count = m->n_sent;
    if (m->n_totals > SHARD_ROUNDS_MAX) {
        return err_set(err, ERR_INVALID, "the totals of %zu rounds; at most %d", m->n_totals,
                       SHARD_ROUNDS_MAX);
    }
    out->rounds = (uint32_t)m->n_totals;
    if (m->n_totals > 0) {
        struct exchange_totals *totals = mem_new(m->n_totals, sizeof *totals);
        for (size_t i = 0; i < m->n_totals; i++) {
            totals[i] = (struct exchange_totals){
                {out->version, (uint32_t)i}, m->totals[i].data, m->totals[i].len};
        }
        r->kept = totals;
        r->event.totals = totals;
    }
    return read_decision(m->decision, out, err);
}

static void read_pin(struct ps_request *r, enum shard_record_kind kind,
                     const Gradus__V1__PinRequest *m)
{
    r->event.record.kind = kind;
    r->event.pin_id = m->pin_id;
    r->event.slots = m->slots != 0;
}

int ps_record_read(struct ps_request *r, const Gradus__V1__RecordRequest *m, struct err *err)
{
    struct shard_record *out = &r->event.record;
    out->number = m->number;
    out->generation = m->generation;
    out->version = m->version;
    r->event.generation = m->generation;
    if (m->number == 0) {
        return 0;
    }
    int rc = 0;
    switch (m->what_case) {
    case GRADUS__V1__RECORD_REQUEST__WHAT_UPDATE:
        return read_update(r, m->update, err);
    case GRADUS__V1__RECORD_REQUEST__WHAT_DECISION:
        out->kind = SHARD_RECORD_DECISION;
        return read_decision(m->decision, out, err);
    case GRADUS__V1__RECORD_REQUEST__WHAT_FILL:
        out->kind = SHARD_RECORD_FILL;
        r->event.first = m->fill->first;
        return 0;
    case GRADUS__V1__RECORD_REQUEST__WHAT_PIN:
        read_pin(r, SHARD_RECORD_PIN, m->pin);
        return 0;
    case GRADUS__V1__RECORD_REQUEST__WHAT_UNPIN:
        read_pin(r, SHARD_RECORD_UNPIN, m->unpin);
        return 0;
    case GRADUS__V1__RECORD_REQUEST__WHAT_MEMBERSHIP:
        out->kind = SHARD_RECORD_MEMBERSHIP;
        r->event.generation = m->generation_next;
        return ps_read_change(r, m->membership, err);
    case GRADUS__V1__RECORD_REQUEST__WHAT_STATE:
        out->kind = SHARD_RECORD_STATE;
        rc = ps_state_read(r, m->state, err);
        return rc != 0 ? rc : read_decision(m->state->decision, out, err);
    default:
        return err_set(err, ERR_INVALID, "record %" PRIu64 " says nothing that this server knows",
                       m->number);
    }
}
