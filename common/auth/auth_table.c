/* SPDX-License-Identifier: Apache-2.0 */
/* Who may call what, a row for each rpc of each service, and the decision by it. test_access.py
 * asks running services for their methods and compares. */
#include "auth/auth_table.h"

#include <string.h>

#define JOBS "gradus.v1.Jobs/"
#define CLUSTER "gradus.v1.Cluster/"
#define PS "gradus.v1.ParameterServer/"
#define WORKER "gradus.v1.Worker/"
#define INFERENCE "inference.GRPCInferenceService/"
/* Nodes, too: they are told of jobs anyway, and people look from where nodes run. */
#define READERS (AUTH_NODE | AUTH_VIEWER | AUTH_SUBMITTER)

const struct auth_row auth_rows[] = {
    /* What people and programs ask a master. */
    {.method = JOBS "Submit", .roles = AUTH_SUBMITTER},
    {.method = JOBS "Get", .roles = READERS},
    {.method = JOBS "List", .roles = READERS},
    {.method = JOBS "Watch", .roles = READERS},
    {.method = JOBS "Nodes", .roles = READERS},
    {.method = JOBS "Tables", .roles = READERS},
    {.method = JOBS "Follow", .roles = READERS},
    {.method = JOBS "Logs", .roles = READERS},
    {.method = JOBS "Cancel", .roles = AUTH_SUBMITTER, .own = true},
    {.method = JOBS "Checkpoint", .roles = AUTH_SUBMITTER, .own = true},
    {.method = JOBS "Set", .roles = AUTH_SUBMITTER, .own = true},
    {.method = JOBS "Pause", .roles = AUTH_SUBMITTER, .own = true},
    {.method = JOBS "Resume", .roles = AUTH_SUBMITTER, .own = true},
    {.method = JOBS "Remove", .roles = AUTH_SUBMITTER, .own = true},
    {.method = JOBS "Trace", .roles = AUTH_SUBMITTER, .own = true},
    {.method = JOBS "DrainNode"}, /* of a node of anybody's jobs */
    {.method = JOBS "DropNode"},  /* it may cost any job what it has done since its checkpoint */
    /* What nodes tell their master. */
    {.method = CLUSTER "Join", .roles = AUTH_NODE},
    {.method = CLUSTER "Heartbeat", .roles = AUTH_NODE},
    {.method = CLUSTER "Leave", .roles = AUTH_NODE},
    {.method = CLUSTER "LeaseSplit", .roles = AUTH_NODE},
    {.method = CLUSTER "ReportSplit", .roles = AUTH_NODE},
    {.method = CLUSTER "ReportProgress", .roles = AUTH_NODE},
    {.method = CLUSTER "ReportFailure", .roles = AUTH_NODE},
    /* What masters and workers ask a parameter server; a job's secrets say which of them. */
    {.method = PS "OpenShard", .roles = AUTH_NODE},
    {.method = PS "Fill", .roles = AUTH_NODE},
    {.method = PS "SetMembership", .roles = AUTH_NODE},
    {.method = PS "Record", .roles = AUTH_NODE}, /* other servers: a primary to its backup */
    {.method = PS "Pull", .roles = AUTH_NODE},
    {.method = PS "Read", .roles = READERS}, /* with the key of Jobs.Follow */
    {.method = PS "Exchange", .roles = AUTH_NODE},
    {.method = PS "Pin", .roles = AUTH_NODE},
    {.method = PS "Unpin", .roles = AUTH_NODE},
    {.method = PS "Checkpoint", .roles = AUTH_NODE},
    {.method = PS "CloseShard", .roles = AUTH_NODE},
    {.method = PS "Stats", .roles = AUTH_NODE},
    {.method = PS "Trace", .roles = AUTH_NODE},
    /* What a master asks a worker. */
    {.method = WORKER "InspectData", .roles = AUTH_NODE},
    {.method = WORKER "StartJob", .roles = AUTH_NODE},
    {.method = WORKER "Assign", .roles = AUTH_NODE},
    {.method = WORKER "Evaluate", .roles = AUTH_NODE},
    {.method = WORKER "StopJob", .roles = AUTH_NODE},
    {.method = WORKER "Trace", .roles = AUTH_NODE},
    /* What clients ask gradus-serve: answers of a model, which readers may evaluate anyway. */
    {.method = INFERENCE "ModelInfer", .roles = READERS},
    {.method = INFERENCE "ModelMetadata", .roles = READERS},
    {.method = INFERENCE "ModelConfig", .roles = READERS},
    {.method = INFERENCE "ModelReady", .anybody = true},
    {.method = INFERENCE "ServerLive", .anybody = true},
    {.method = INFERENCE "ServerReady", .anybody = true},
    {.method = INFERENCE "ServerMetadata", .anybody = true},
    /* Names of jobs and nodes, and numbers: what a reader may see anyway. */
    {.method = AUTH_METRICS, .roles = READERS},
    {.method = AUTH_PAGE, .anybody = true},
    /* Whether it is well, and what it serves: no more than its HTTP port and its sources say. */
    {.method = "grpc.health.v1.Health/Check", .anybody = true},
    {.method = "grpc.health.v1.Health/Watch", .anybody = true},
    {.method = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", .anybody = true},
    {.method = "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", .anybody = true},
};
const size_t auth_row_count = sizeof auth_rows / sizeof auth_rows[0];

const struct auth_row *auth_row_find(const char *method)
{
    for (size_t i = 0; i < auth_row_count; i++) {
        if (strcmp(auth_rows[i].method, method) == 0) {
            return &auth_rows[i];
        }
    }
    return NULL;
}

int auth_decide(const struct auth_identity *who, const char *method, struct err *err)
{
    char text[AUTH_WHO_BYTES];
    char roles[AUTH_ROLES_BYTES];
    const struct auth_row *row = auth_row_find(method);
    if (row == NULL) {
        return err_set(err, ERR_PERMISSION, "%s: no row of the table says who may call it", method);
    }
    if (row->anybody || (who->roles & (row->roles | AUTH_ADMIN)) != 0) {
        return 0;
    }
    (void)auth_roles_text(row->roles | AUTH_ADMIN, roles);
    if (who->proof == AUTH_NOBODY) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "%s takes %s, and this call shows neither a certificate nor a token "
                       "(--tls-cert, --token-file)",
                       method, roles);
    }
    return err_set(err, ERR_PERMISSION, "%s may not call %s, which takes %s",
                   auth_identity_text(who, text), method, roles);
}
