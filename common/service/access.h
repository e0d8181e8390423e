/* SPDX-License-Identifier: Apache-2.0 */
/* Decides who may do what at this service: looks at each call as it arrives (auth_table.h has the
 * rules), counts refusals, and keeps the audit log. */
#ifndef GRADUS_SERVICE_ACCESS_H
#define GRADUS_SERVICE_ACCESS_H

#include "metrics/meter.h"
#include "rpc/rpc.h"

struct access;
struct bearer;
struct service_context;

struct access_options {
    bool certificates;     /* calls over TCP come with TLS, and may have a certificate */
    struct bearer *bearer; /* takes it; NULL: no tokens are known */
    const char *audit_log;
    struct meter_registry *meters;
    bool may_stand_by; /* access_stand_by() may be called */
};

/* Why a call was refused, for /metrics. */
enum access_lack {
    ACCESS_IDENTITY, /* neither certificate nor token */
    ACCESS_TOKEN,    /* there was a token, and it is not valid */
    ACCESS_ROLE,
    ACCESS_NODE,   /* it spoke as another node than its certificate's */
    ACCESS_OWNER,  /* of the job */
    ACCESS_SECRET, /* of the job */
    ACCESS_LACK_COUNT
};

/* Copies. Returns owned. Errors: the audit log cannot be opened; then the bearer is gone, too. */
struct access *access_new(const struct access_options *options, struct err *err);
void access_free(struct access *a); /* NULL is fine */
/* The guard of the server; NULL: nothing is asked for, since with neither TLS nor tokens every
 * caller is an admin. */
const struct rpc_guard *access_guard(const struct access *a);

bool access_is_open(const struct access *a); /* every caller is an admin */
/* Any thread: refuse calls with @why and the trailer RPC_LEADER_KEY, which is @leader; those of
 * health and reflection are served. @why NULL: all are. */
void access_stand_by(struct access *a, const char *why, const char *leader);
/* ERR_UNAVAILABLE while calls are refused; @leader may be NULL. */
int access_standing_by(struct access *a, char leader[RPC_LEADER_BYTES], struct err *err);

bool access_takes_tokens(const struct access *a);
/* Who sends @authorization, a header's value, beside gRPC? Any thread. Errors: as bearer_check().
 */
int access_token(struct access *a, const char *authorization, struct auth_identity *who,
                 struct err *err);

/* ---- for services; any thread ---- */

/* Who calls, over gRPC or HTTP. Borrows. */
struct service_caller {
    const struct auth_identity *who;
    const char *peer;   /* "ipv4:10.0.0.7:40000" */
    const char *method; /* "gradus.v1.Jobs/Cancel" */
};
struct service_caller service_caller_of(struct rpc_call *call);

/* @caller, whom the guard let in, has done @action ("submit") to @job. */
void service_done(struct service_context *sc, const struct service_caller *caller,
                  const char *action, const char *job);
/* Notes a call that is refused for another reason, @why. */
void service_refused(struct service_context *sc, const struct service_caller *caller,
                     enum access_lack lack, const char *job, const struct err *why);

#endif
