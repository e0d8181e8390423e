/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges: job/progress/exchange.h ↔ ExchangeRequest and ExchangeResponse. What travels beside
 * the structs (numbers, shards, values and their types, norms, blocks) is the business of whoever
 * sends and reads the messages.
 *
 * To the wire: the message borrows from the struct and from @room. From the wire: the struct
 * borrows the bytes of decisions, sums and totals from the message. */
#ifndef GRADUS_WIRE_WIRE_EXCHANGE_H
#define GRADUS_WIRE_WIRE_EXCHANGE_H

#include "base/err.h"
#include "gradus/v1/ps.pb-c.h"
#include "job/progress/exchange.h"

/* Memory that the message of a request points to. */
struct wire_request_room {
    Gradus__V1__Training training;
    Gradus__V1__Push push;
    Gradus__V1__Pull pull;
    Gradus__V1__Decision decision;
    union {
        Gradus__V1__PinnedPull pinned;
        Gradus__V1__SpareRequest spare;
        Gradus__V1__SumsRequest sums;
        Gradus__V1__Totals totals;
        Gradus__V1__RowsRequest rows;
    };
};
/* Fills in the oneof of @out, and nothing else of it. */
void wire_request_to_proto(const struct exchange_request *in, struct wire_request_room *room,
                           Gradus__V1__ExchangeRequest *out);
/* @out is overwritten on success. Errors: ERR_INVALID nothing is set, or something that this build
 * does not know; an unknown kind of pull; a decision that is longer than any can be. */
int wire_request_from_proto(const Gradus__V1__ExchangeRequest *in, struct exchange_request *out,
                            struct err *err);

/* Parts of it, which unary calls have, too. @in may be NULL (a missing field). Errors:
 * ERR_INVALID. */
int wire_push_from_proto(const Gradus__V1__Push *in, struct exchange_request *out, struct err *err);
int wire_pull_from_proto(const Gradus__V1__Pull *in, struct exchange_request *out, struct err *err);
void wire_pinned_from_proto(const Gradus__V1__PinnedPull *in, struct exchange_request *out);

/* Memory that the message of an answer points to. */
struct wire_answer_room {
    Gradus__V1__Decision decision;
    union {
        Gradus__V1__Trained trained;
        Gradus__V1__SpareResponse spare;
        Gradus__V1__Sums sums;
    };
};
/* The oneof of @out, and the decision. */
void wire_answer_to_proto(const struct exchange_answer *in, struct wire_answer_room *room,
                          Gradus__V1__ExchangeResponse *out);
/* The answer to @asked; @out is overwritten on success. What was not asked for is not looked at.
 * Errors: ERR_INTERNAL it is no answer to that. */
int wire_answer_from_proto(const Gradus__V1__ExchangeResponse *in,
                           const struct exchange_request *asked, struct exchange_answer *out,
                           struct err *err);

#endif
