/* SPDX-License-Identifier: Apache-2.0 */
/* The guard of a service's calls. Refusals are counted all, and written down up to a rate: whoever
 * is refused in a loop must not fill a disk. */
#include "service/access.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth_table.h"
#include "auth/bearer.h"
#include "base/mem.h"
#include "os/chrono.h"
#include "os/log.h"
#include "service/audit.h"
#include "service/service_context.h"

#define WRITTEN_PER_SECOND_MAX 20

struct access {
    struct rpc_guard guard;
    bool open; /* no caller is asked who it is */
    bool may_stand_by;
    struct audit *audit;
    struct bearer *bearer; /* NULL: no tokens are known */
    struct meter *refusals[ACCESS_LACK_COUNT];

    pthread_mutex_t lock;                /* guards what follows */
    uint64_t second_ms;                  /* when the present second began */
    unsigned written;                    /* refusals, in it */
    uint64_t unwritten;                  /* since the last one that was */
    char standing_by[ERR_MESSAGE_BYTES]; /* why calls are refused; empty: they are not */
    char leader[RPC_LEADER_BYTES];
};

/* ---- refusals ---- */

static bool may_write(struct access *a, uint64_t *unwritten)
{
    uint64_t now_ms = chrono_now_ms();
    pthread_mutex_lock(&a->lock);
    if (now_ms - a->second_ms >= 1000) {
        a->second_ms = now_ms;
        a->written = 0;
    }
    bool may = a->written < WRITTEN_PER_SECOND_MAX;
    if (may) {
        a->written++;
        *unwritten = a->unwritten;
        a->unwritten = 0;
    } else {
        a->unwritten++;
    }
    pthread_mutex_unlock(&a->lock);
    return may;
}

static void refuse(struct access *a, enum access_lack lack, struct audit_record *r)
{
    meter_add(a->refusals[lack], 1);
    if (may_write(a, &r->unwritten)) {
        audit_write(a->audit, r);
    }
}

/* ---- who calls ---- */

/* Takes the content of the files; while a file cannot be used, its content of before stays. */
static void refresh_tokens(struct access *a)
{
    char quoted[ERR_MESSAGE_BYTES + 64];
    struct err err = {0};
    if (bearer_refresh(a->bearer, chrono_now_ms(), &err) != 0) {
        log_warn("tokens_not_taken", "reason=%s consequence=\"those of before stay\"",
                 log_quote(err.msg, quoted, sizeof quoted));
    }
}

/* Identifies a caller. A caller that shows a token wants to be known by it, whatever else the
 * connection proves. A service that knows no tokens passes it over, so that nodes may send theirs
 * before all services know them. */
static int identify(const struct access *a, const struct rpc_arriving *call,
                    struct auth_identity *who, struct err *err)
{
    if (call->authorization != NULL && a->bearer != NULL) {
        return bearer_check(a->bearer, call->authorization, chrono_wall_ms() / 1000, who, err);
    }
    if (call->certified) {
        auth_identity_certificate(&call->certificate, who);
    } else if (call->local) { /* a process that can connect there can read our memory */
        auth_identity_same_user(who);
    } else if (call->authorization != NULL) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "this service knows no tokens (--tokens, --jwt-keys), and nothing else says "
                       "who calls");
    }
    return 0;
}

/* ---- standing by ---- */

void access_stand_by(struct access *a, const char *why, const char *leader)
{
    pthread_mutex_lock(&a->lock);
    (void)snprintf(a->standing_by, sizeof a->standing_by, "%s", why == NULL ? "" : why);
    (void)snprintf(a->leader, sizeof a->leader, "%s", leader == NULL ? "" : leader);
    pthread_mutex_unlock(&a->lock);
}

int access_standing_by(struct access *a, char leader[RPC_LEADER_BYTES], struct err *err)
{
    pthread_mutex_lock(&a->lock);
    int rc = a->standing_by[0] == '\0' ? 0 : err_set(err, ERR_UNAVAILABLE, "%s", a->standing_by);
    if (leader != NULL) {
        memcpy(leader, a->leader, sizeof a->leader);
    }
    pthread_mutex_unlock(&a->lock);
    return rc;
}

static int refuse_standing_by(struct access *a, const struct rpc_arriving *call,
                              const struct auth_row *row, struct err *err)
{
    char leader[RPC_LEADER_BYTES];
    if (!a->may_stand_by || (row != NULL && row->anybody) ||
        access_standing_by(a, leader, err) == 0) {
        return 0;
    }
    (void)rpc_set_trailer(call->call, RPC_LEADER_KEY, leader[0] == '\0' ? RPC_LEADER_NONE : leader,
                          NULL);
    return err->code;
}

/* ---- the guard ---- */

static int admit(void *ctx, const struct rpc_arriving *call, struct auth_identity *who,
                 struct err *err)
{
    struct access *a = ctx;
    struct err why;
    if (a->open) {
        auth_identity_open(who);
        return refuse_standing_by(a, call, auth_row_find(call->method), err);
    }
    enum access_lack lack = ACCESS_TOKEN;
    const struct auth_row *row = auth_row_find(call->method);
    if (a->bearer != NULL) {
        refresh_tokens(a);
    }
    int rc = identify(a, call, who, &why);
    if (rc != 0 && row != NULL && row->anybody) { /* a probe with a token of yesterday */
        *who = (struct auth_identity){0};
        rc = 0;
    }
    if (rc == 0) {
        rc = auth_decide(who, call->method, &why);
        lack = rc == ERR_UNAUTHENTICATED ? ACCESS_IDENTITY : ACCESS_ROLE;
    }
    if (rc == 0) {
        return refuse_standing_by(a, call, row, err);
    }
    struct audit_record r = {
        .action = call->method, .who = who, .peer = rpc_peer(call->call), .refusal = &why};
    refuse(a, lack, &r);
    *err = why;
    return why.code;
}

/* ---- life ---- */

static void register_meters(struct access *a, struct meter_registry *meters)
{
    static const char *const names[] = {"identity", "token", "role", "node", "owner", "secret"};
    for (int i = 0; i < ACCESS_LACK_COUNT; i++) {
        const struct meter_label label = {"lack", names[i]};
        a->refusals[i] =
            meter_counter(meters, "access_refusals_total",
                          "Calls that were refused, by what their caller lacked", &label, 1);
    }
}

struct access *access_new(const struct access_options *o, struct err *err)
{
    struct audit *audit = audit_open(o->audit_log, err);
    if (audit == NULL) {
        bearer_free(o->bearer);
        return NULL;
    }
    struct access *a = mem_new(1, sizeof *a);
    a->audit = audit;
    a->guard = (struct rpc_guard){.admit = admit, .ctx = a};
    a->bearer = o->bearer;
    a->open = !o->certificates && o->bearer == NULL;
    a->may_stand_by = o->may_stand_by;
    pthread_mutex_init(&a->lock, NULL);
    register_meters(a, o->meters);
    if (a->open) {
        log_info("access_open", "reason=\"without --tls-cert and --tokens whoever reaches this "
                                "service is taken for an admin\"");
    }
    return a;
}

void access_free(struct access *a)
{
    if (a != NULL) {
        audit_free(a->audit);
        bearer_free(a->bearer);
        pthread_mutex_destroy(&a->lock);
        free(a);
    }
}

const struct rpc_guard *access_guard(const struct access *a)
{
    return a->open && !a->may_stand_by ? NULL : &a->guard;
}

bool access_is_open(const struct access *a)
{
    return a->open;
}

bool access_takes_tokens(const struct access *a)
{
    return a->bearer != NULL;
}

int access_token(struct access *a, const char *authorization, struct auth_identity *who,
                 struct err *err)
{
    refresh_tokens(a);
    return bearer_check(a->bearer, authorization, chrono_wall_ms() / 1000, who, err);
}

/* ---- for services ---- */

struct service_caller service_caller_of(struct rpc_call *call)
{
    return (struct service_caller){
        .who = rpc_caller(call), .peer = rpc_peer(call), .method = rpc_method_name(call)};
}

void service_done(struct service_context *sc, const struct service_caller *caller,
                  const char *action, const char *job)
{
    const struct audit_record r = {
        .action = action, .job = job, .who = caller->who, .peer = caller->peer};
    audit_write(sc->access->audit, &r);
}

void service_refused(struct service_context *sc, const struct service_caller *caller,
                     enum access_lack lack, const char *job, const struct err *why)
{
    struct audit_record r = {.action = caller->method,
                             .job = job,
                             .who = caller->who,
                             .peer = caller->peer,
                             .refusal = why};
    refuse(sc->access, lack, &r);
}
