/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of exchange as a message and back. */
#include "wire/wire_exchange.h"

#include <inttypes.h>
#include <string.h>

_Static_assert((int)PUSH_NONE == (int)GRADUS__V1__PUSH_RESULT__PUSH_NONE &&
                   (int)PUSH_ACCEPTED == (int)GRADUS__V1__PUSH_RESULT__ACCEPTED &&
                   (int)PUSH_APPLIED == (int)GRADUS__V1__PUSH_RESULT__APPLIED &&
                   (int)PUSH_DUPLICATE == (int)GRADUS__V1__PUSH_RESULT__DUPLICATE &&
                   (int)PUSH_STALE == (int)GRADUS__V1__PUSH_RESULT__STALE &&
                   (int)PUSH_DROPPED == (int)GRADUS__V1__PUSH_RESULT__DROPPED,
               "exchange.h and ps.proto number the results of a push alike");
_Static_assert((int)PULL_LATEST == (int)GRADUS__V1__PULL__KIND__LATEST &&
                   (int)PULL_VERSION == (int)GRADUS__V1__PULL__KIND__VERSION &&
                   (int)PULL_AT_LEAST == (int)GRADUS__V1__PULL__KIND__AT_LEAST,
               "exchange.h and ps.proto number the kinds of pulls alike");

/* Messages have pointers to data that are not const; messages that are sent borrow, and are only
 * read. */
static ProtobufCBinaryData borrow_bytes(const void *bytes, size_t count)
{
    ProtobufCBinaryData out = {.len = count};
    memcpy(&out.data, &bytes, sizeof out.data);
    return out;
}

static char *borrow_text(const char *text)
{
    char *out;
    memcpy(&out, &text, sizeof out);
    return out;
}

/* ---- requests, to the wire ---- */

static void push_to_proto(const struct exchange_push *in, Gradus__V1__Push *out)
{
    gradus__v1__push__init(out);
    out->step = in->step;
    out->replica_first = in->replica_first;
    out->replica_end = in->replica_end;
    out->epoch = in->epoch;
    out->split = in->split;
    out->batch = in->batch;
    out->batch_end = in->batch_end;
    out->examples = in->examples;
    out->base_version = in->base_version;
    out->decided = in->decided;
    out->spare = in->spare;
    out->clock = in->clock;
}

static void pull_to_proto(const struct exchange_pull *in, Gradus__V1__Pull *out)
{
    gradus__v1__pull__init(out);
    out->kind = (Gradus__V1__Pull__Kind)in->kind;
    out->version = in->version;
    out->progress = in->progress;
    out->epoch = in->epoch;
    out->split = in->split;
    out->clock = in->clock;
    out->joins = in->joins;
}

static void decision_to_proto(const struct exchange_decision *in, Gradus__V1__Decision *out)
{
    gradus__v1__decision__init(out);
    out->step = in->step;
    out->replicas = borrow_bytes(in->replicas, in->bytes);
}

static void training_to_proto(const struct exchange_request *in, struct wire_request_room *room)
{
    gradus__v1__training__init(&room->training);
    room->training.idle = in->idle;
    room->training.session = in->session;
    if (in->has_push) {
        push_to_proto(&in->push, &room->push);
        room->training.push = &room->push;
    }
    if (in->has_pull) {
        pull_to_proto(&in->pull, &room->pull);
        room->training.pull = &room->pull;
    }
    if (in->has_decision) {
        decision_to_proto(&in->decision, &room->decision);
        room->training.decision = &room->decision;
    }
}

static void totals_to_proto(const struct exchange_totals *in, Gradus__V1__Totals *out)
{
    gradus__v1__totals__init(out);
    out->step = in->of.step;
    out->round = in->of.round;
    out->data = borrow_bytes(in->data, in->bytes);
}

static void rows_to_proto(const struct exchange_request *in, Gradus__V1__RowsRequest *out)
{
    gradus__v1__rows_request__init(out);
    switch (in->rows.of) {
    case ROWS_OF_LATEST:
        break;
    case ROWS_OF_VERSION:
        out->of_case = GRADUS__V1__ROWS_REQUEST__OF_VERSION;
        out->version = in->rows.version;
        break;
    case ROWS_OF_PIN:
        out->of_case = GRADUS__V1__ROWS_REQUEST__OF_PIN_ID;
        out->pin_id = borrow_text(in->pin_id);
        break;
    }
}

void wire_request_to_proto(const struct exchange_request *in, struct wire_request_room *room,
                           Gradus__V1__ExchangeRequest *out)
{
    switch (in->kind) {
    case EXCHANGE_TRAIN:
        training_to_proto(in, room);
        out->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
        out->training = &room->training;
        break;
    case EXCHANGE_PINNED:
        gradus__v1__pinned_pull__init(&room->pinned);
        room->pinned.pin_id = borrow_text(in->pin_id);
        out->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED;
        out->pinned = &room->pinned;
        break;
    case EXCHANGE_SPARE:
        gradus__v1__spare_request__init(&room->spare);
        room->spare.step = in->spare_step;
        out->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_SPARE;
        out->spare = &room->spare;
        break;
    case EXCHANGE_SUMS:
        gradus__v1__sums_request__init(&room->sums);
        room->sums.step = in->sums.step;
        room->sums.round = in->sums.round;
        out->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_SUMS;
        out->sums = &room->sums;
        break;
    case EXCHANGE_TOTALS:
        totals_to_proto(&in->totals, &room->totals);
        out->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TOTALS;
        out->totals = &room->totals;
        break;
    case EXCHANGE_ROWS:
        rows_to_proto(in, &room->rows);
        out->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS;
        out->rows = &room->rows;
        break;
    case EXCHANGE_NONE:
        out->what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT__NOT_SET;
        break;
    }
}

/* ---- requests, from the wire ---- */

int wire_push_from_proto(const Gradus__V1__Push *in, struct exchange_request *out, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "the request has no push");
    }
    out->kind = EXCHANGE_TRAIN;
    out->has_push = true;
    out->push = (struct exchange_push){
        .step = in->step,
        .replica_first = in->replica_first,
        .replica_end = in->replica_end,
        .epoch = in->epoch,
        .split = in->split,
        .batch = in->batch,
        .batch_end = in->batch_end,
        .examples = in->examples,
        .base_version = in->base_version,
        .decided = in->decided != 0,
        .spare = in->spare != 0,
        .clock = in->clock,
    };
    return 0;
}

int wire_pull_from_proto(const Gradus__V1__Pull *in, struct exchange_request *out, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "the request has no pull");
    }
    int kind = (int)in->kind;
    if (kind < PULL_LATEST || kind > PULL_AT_LEAST) {
        return err_set(err, ERR_INVALID, "unknown kind of pull %d", kind);
    }
    out->kind = EXCHANGE_TRAIN;
    out->has_pull = true;
    out->pull = (struct exchange_pull){
        .kind = (enum pull_kind)kind,
        .version = in->version,
        .progress = in->progress != 0,
        .epoch = in->epoch,
        .split = in->split,
        .clock = in->clock,
        .joins = in->joins != 0,
    };
    return 0;
}

void wire_pinned_from_proto(const Gradus__V1__PinnedPull *in, struct exchange_request *out)
{
    *out = (struct exchange_request){.kind = EXCHANGE_PINNED};
    memcpy(out->pin_id, in->pin_id, strnlen(in->pin_id, sizeof out->pin_id - 1));
}

static int training_from_proto(const Gradus__V1__Training *in, struct exchange_request *out,
                               struct err *err)
{
    const Gradus__V1__Decision *d = in->decision;
    out->kind = EXCHANGE_TRAIN;
    out->idle = in->idle != 0;
    out->session = in->session;
    if (d != NULL && d->replicas.len > EXCHANGE_DECISION_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "a decision on %zu bytes of replicas; at most %d",
                       d->replicas.len, EXCHANGE_DECISION_BYTES_MAX);
    }
    if (d != NULL) {
        out->has_decision = true;
        out->decision = (struct exchange_decision){d->step, d->replicas.data, d->replicas.len};
    }
    int rc = in->push != NULL ? wire_push_from_proto(in->push, out, err) : 0;
    return rc == 0 && in->pull != NULL ? wire_pull_from_proto(in->pull, out, err) : rc;
}

static void rows_from_proto(const Gradus__V1__RowsRequest *in, struct exchange_request *out)
{
    out->kind = EXCHANGE_ROWS;
    out->rows.of = ROWS_OF_LATEST;
    if (in->of_case == GRADUS__V1__ROWS_REQUEST__OF_VERSION) {
        out->rows = (struct exchange_rows){ROWS_OF_VERSION, in->version};
    } else if (in->of_case == GRADUS__V1__ROWS_REQUEST__OF_PIN_ID) {
        out->rows.of = ROWS_OF_PIN;
        memcpy(out->pin_id, in->pin_id, strnlen(in->pin_id, sizeof out->pin_id - 1));
    }
}

int wire_request_from_proto(const Gradus__V1__ExchangeRequest *in, struct exchange_request *out,
                            struct err *err)
{
    struct exchange_request q = {.kind = EXCHANGE_NONE};
    int rc = 0;
    switch (in->what_case) {
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING:
        rc = training_from_proto(in->training, &q, err);
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED:
        wire_pinned_from_proto(in->pinned, &q);
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_SPARE:
        q.kind = EXCHANGE_SPARE;
        q.spare_step = in->spare->step;
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_SUMS:
        q.kind = EXCHANGE_SUMS;
        q.sums = (struct exchange_round){in->sums->step, in->sums->round};
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_TOTALS:
        q.kind = EXCHANGE_TOTALS;
        q.totals = (struct exchange_totals){
            {in->totals->step, in->totals->round}, in->totals->data.data, in->totals->data.len};
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS:
        rows_from_proto(in->rows, &q);
        break;
    default:
        rc = err_set(err, ERR_INVALID,
                     "exchange %" PRIu64 ": its first message does not say what it is",
                     in->exchange);
        break;
    }
    if (rc == 0) {
        *out = q;
    }
    return rc;
}

/* ---- answers, to the wire ---- */

static void trained_to_proto(const struct exchange_trained *in, Gradus__V1__Trained *out)
{
    gradus__v1__trained__init(out);
    out->push = (Gradus__V1__PushResult)in->push;
    out->staleness = in->staleness;
    out->progress = in->progress;
    out->clock = in->clock;
}

static void spare_to_proto(const struct exchange_spare *in, Gradus__V1__SpareResponse *out)
{
    gradus__v1__spare_response__init(out);
    out->given = in->given;
    out->replica = in->replica;
    out->wait_ms = in->wait_ms;
}

static void sums_to_proto(const struct exchange_sums *in, Gradus__V1__Sums *out)
{
    gradus__v1__sums__init(out);
    out->step = in->of.step;
    out->round = in->of.round;
    out->known = in->known;
    out->data = borrow_bytes(in->data, in->bytes);
}

void wire_answer_to_proto(const struct exchange_answer *in, struct wire_answer_room *room,
                          Gradus__V1__ExchangeResponse *out)
{
    if (in->decision.bytes > 0) {
        decision_to_proto(&in->decision, &room->decision);
        out->decision = &room->decision;
    }
    switch (in->kind) {
    case EXCHANGE_TRAIN:
        trained_to_proto(&in->train, &room->trained);
        out->answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
        out->trained = &room->trained;
        break;
    case EXCHANGE_SPARE:
        spare_to_proto(&in->spare, &room->spare);
        out->answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SPARE;
        out->spare = &room->spare;
        break;
    case EXCHANGE_SUMS:
        sums_to_proto(&in->sums, &room->sums);
        out->answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SUMS;
        out->sums = &room->sums;
        break;
    case EXCHANGE_PINNED:
    case EXCHANGE_TOTALS:
    case EXCHANGE_ROWS:
    case EXCHANGE_NONE:
        break; /* values, or nothing but that it is done */
    }
}

/* ---- answers, from the wire ---- */

static int trained_from_proto(const Gradus__V1__ExchangeResponse *in,
                              const struct exchange_request *asked, struct exchange_trained *out,
                              struct err *err)
{
    if (in->answer_case != GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED) {
        return err_set(err, ERR_INTERNAL, "answered something else than was asked");
    }
    const Gradus__V1__Trained *t = in->trained;
    int result = (int)t->push;
    if (asked->has_push && (result <= PUSH_NONE || result > PUSH_DROPPED)) {
        return err_set(err, ERR_INTERNAL, "answered a push with result %d", result);
    }
    *out = (struct exchange_trained){.push = asked->has_push ? (enum push_result)result : PUSH_NONE,
                                     .staleness = t->staleness,
                                     .progress = t->progress,
                                     .clock = t->clock};
    return 0;
}

static int spare_from_proto(const Gradus__V1__ExchangeResponse *in, struct exchange_spare *out,
                            struct err *err)
{
    if (in->answer_case != GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SPARE) {
        return err_set(err, ERR_INTERNAL, "did not say whether there is a replica to spare");
    }
    *out = (struct exchange_spare){.given = in->spare->given != 0,
                                   .replica = in->spare->replica,
                                   .wait_ms = in->spare->wait_ms};
    return 0;
}

static int sums_from_proto(const Gradus__V1__ExchangeResponse *in, const struct exchange_round *of,
                           struct exchange_sums *out, struct err *err)
{
    bool there = in->answer_case == GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SUMS;
    const Gradus__V1__Sums *s = there ? in->sums : NULL;
    if (s == NULL || s->step != of->step || s->round != of->round ||
        (s->data.len == 0 && s->known == 0)) {
        return err_set(err, ERR_INTERNAL,
                       "did not answer sums of round %" PRIu32 " of step %" PRIu64, of->round,
                       of->step);
    }
    *out = (struct exchange_sums){.of = *of,
                                  .known = s->known != 0,
                                  .over = s->data.len == 0,
                                  .data = s->data.data,
                                  .bytes = s->data.len};
    return 0;
}

static int decision_from_proto(const Gradus__V1__Decision *in, struct exchange_decision *out,
                               struct err *err)
{
    size_t n = in->replicas.len;
    if (n == 0 || n > EXCHANGE_DECISION_BYTES_MAX) {
        return err_set(err, ERR_INTERNAL, "answered a decision of %zu bytes", n);
    }
    *out = (struct exchange_decision){in->step, in->replicas.data, n};
    return 0;
}

int wire_answer_from_proto(const Gradus__V1__ExchangeResponse *in,
                           const struct exchange_request *asked, struct exchange_answer *out,
                           struct err *err)
{
    struct exchange_answer a = {.kind = asked->kind};
    int rc = 0;
    switch (asked->kind) {
    case EXCHANGE_TRAIN:
        rc = trained_from_proto(in, asked, &a.train, err);
        break;
    case EXCHANGE_SPARE:
        rc = spare_from_proto(in, &a.spare, err);
        break;
    case EXCHANGE_SUMS:
        rc = sums_from_proto(in, &asked->sums, &a.sums, err);
        break;
    case EXCHANGE_PINNED:
    case EXCHANGE_TOTALS:
    case EXCHANGE_ROWS:
    case EXCHANGE_NONE:
        break;
    }
    bool may_decide = asked->has_push || asked->kind == EXCHANGE_SUMS;
    if (rc == 0 && may_decide && in->decision != NULL) {
        rc = decision_from_proto(in->decision, &a.decision, err);
    }
    if (rc == 0) {
        *out = a;
    }
    return rc;
}
