/* SPDX-License-Identifier: Apache-2.0 */
/* One job and its nodes, and a client that asks for them. */
#include "job_call_rig.h"

#include <stdio.h>
#include <string.h>

struct job_call_rig job_rig = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .changed = PTHREAD_COND_INITIALIZER};
char job_rig_job[] = "demo-1";

static struct store store;
static struct err failure;

/* ---- the core and the store ---- */

const struct job_record *master_job(struct master *m, const char *id, uint64_t now_ms)
{
    (void)m;
    (void)now_ms;
    const bool other = job_rig.other.id != NULL && strcmp(id, job_rig.other.id) == 0;
    return strcmp(id, job_rig.record.id) == 0 ? &job_rig.record : other ? &job_rig.other : NULL;
}

const struct job_record *master_job_at(struct master *m, size_t i, uint64_t now_ms)
{
    (void)m;
    (void)now_ms;
    return i == 0 ? &job_rig.record : NULL;
}

bool master_node_at(struct master *m, size_t i, uint64_t now_ms, struct master_node_info *out)
{
    (void)m;
    (void)now_ms;
    if (i < job_rig.node_count) {
        *out = job_rig.nodes[i];
    }
    return i < job_rig.node_count;
}

void shell_event(struct shell *s, struct master_event *e)
{
    (void)s;
    fail_msg("no event was expected, but %d", (int)e->kind);
}

static int get(struct store *s, const char *id, struct buf *job, struct err *err)
{
    (void)s;
    if (strcmp(id, "old-1") == 0) {
        buf_add_str(job, "a row");
        return 0;
    }
    return strcmp(id, "bad-1") == 0 ? err_set(err, ERR_CORRUPT, "a torn page")
                                    : err_set(err, ERR_NOT_FOUND, "no row");
}

/* ---- servers ---- */

static void on_other(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct err err;
    (void)msg;
    (void)service;
    (void)err_set(&err, ERR_UNSUPPORTED, "another method is tested");
    (void)rpc_fail(call, &err);
}

struct rpc_server *job_rig_server(void)
{
    struct err err;
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .grace_ms = 200};
    rpc_init();
    struct rpc_server *server = rpc_server_new(&options, &err);
    assert_non_null(server);
    return server;
}

void job_rig_serve(struct rpc_server *server, const ProtobufCServiceDescriptor *d,
                   struct rpc_method tested, void *service)
{
    static struct rpc_method methods[4][32];
    static size_t used;
    struct err err = {0};
    struct rpc_method *rows = methods[used++];
    assert_in_range(d->n_methods, 1, 32);
    for (size_t i = 0; i < d->n_methods; i++) {
        const char *name = d->methods[i].name;
        rows[i] = strcmp(name, tested.name) == 0
                      ? tested
                      : (struct rpc_method){.name = name, .request = on_other};
    }
    if (rpc_server_add(server, d, rows, d->n_methods, service, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

void job_rig_start(struct rpc_server *const *servers, size_t count)
{
    struct err err;
    static const struct store_ops ops = {.get = get};
    store.ops = &ops;
    job_rig.shell.store = &store;
    job_rig.shell.loop = loop_new(64);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rpc_server_start(servers[i], &err), 0);
    }
    assert_int_equal(loop_start(job_rig.shell.loop, "test", &err), 0);
    const struct rpc_channel_options to = {.target = rpc_server_address(servers[0], 0)};
    job_rig.channel = rpc_channel_new(&to, &err);
    assert_non_null(job_rig.channel);
}

void job_rig_stop(struct rpc_server *const *servers, size_t count)
{
    rpc_channel_free(job_rig.channel);
    loop_stop(job_rig.shell.loop);
    loop_join(job_rig.shell.loop);
    peers_free(&job_rig.shell);
    for (size_t i = 0; i < count; i++) {
        rpc_server_free(servers[i]);
    }
    loop_free(job_rig.shell.loop);
    rpc_shutdown();
}

/* ---- clients ---- */

static struct rpc_request request_of(const char *method, const ProtobufCMessage *body)
{
    return (struct rpc_request){.service = &gradus__v1__jobs__descriptor,
                                .method = method,
                                .body = body,
                                .timeout_ms = 60000,
                                .wait_for_ready = true};
}

const void *job_rig_ask(const char *method, const ProtobufCMessage *body, struct rpc_msg **reply)
{
    const struct rpc_request request = request_of(method, body);
    *reply = NULL;
    failure = (struct err){0};
    (void)rpc_call_blocking(job_rig.channel, &request, reply, &failure);
    return *reply == NULL ? NULL : (*reply)->body;
}

const struct err *job_rig_failed(void)
{
    return &failure;
}

void job_rig_assert_refused(const void *answer, int code, const char *says)
{
    assert_null(answer);
    assert_int_equal(failure.code, code);
    if (strstr(failure.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", failure.msg, says);
    }
}

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)ctx;
    (void)reply;
    pthread_mutex_lock(&job_rig.lock);
    job_rig.ended = true;
    job_rig.ends++;
    job_rig.end = status->err;
    pthread_cond_broadcast(&job_rig.changed);
    pthread_mutex_unlock(&job_rig.lock);
}

void job_rig_ask_nobody(struct rpc_channel *from, const char *method, const ProtobufCMessage *body)
{
    struct err err;
    const struct rpc_request request = request_of(method, body);
    job_rig.ended = false;
    assert_int_equal(rpc_call_start(from, &request, on_done, NULL, &err), 0);
}

struct rpc_channel *job_rig_client(const struct rpc_server *server)
{
    struct err err;
    const struct rpc_channel_options to = {.target = rpc_server_address(server, 0),
                                           .own_connection = true};
    struct rpc_channel *from = rpc_channel_new(&to, &err);
    assert_non_null(from);
    return from;
}
