/* SPDX-License-Identifier: Apache-2.0 */
/* Mutual TLS of servers and channels. gRPC's core reads the files again each second on a thread of
 * its own: connections that are there stay, new ones are made with what is in the files then. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_grpc.h"

#define RELOAD_S 1

struct rpc_credentials {
    grpc_tls_certificate_provider *provider;
    grpc_channel_credentials *channel; /* one for all: channels to one target share a connection */
    struct rpc_credentials_options given; /* copies; peer_name NULL: the target's host */
};

static void free_text(const char *text)
{
    union { /* ours, though the options are of constant texts */
        const char *in;
        char *out;
    } owned = {.in = text};
    free(owned.out);
}

static grpc_tls_credentials_options *make_options(const struct rpc_credentials *c)
{
    grpc_tls_credentials_options *o = grpc_tls_credentials_options_create();
    grpc_tls_credentials_options_set_certificate_provider(o, c->provider);
    grpc_tls_credentials_options_watch_root_certs(o);
    grpc_tls_credentials_options_watch_identity_key_cert_pairs(o);
    return o;
}

static grpc_channel_credentials *make_channel_credentials(const struct rpc_credentials *c)
{
    grpc_tls_credentials_options *o = make_options(c);
    grpc_tls_certificate_verifier *verifier = grpc_tls_certificate_verifier_host_name_create();
    grpc_tls_credentials_options_set_certificate_verifier(o, verifier);
    grpc_tls_certificate_verifier_release(verifier);
    return grpc_tls_credentials_create(o);
}

struct rpc_credentials *rpc_credentials_new(const struct rpc_credentials_options *o,
                                            struct err *err)
{
    struct rpc_credentials *c = mem_new(1, sizeof(*c));
    c->provider = grpc_tls_certificate_provider_file_watcher_create(
        o->key_file, o->certificate_file, o->ca_file, RELOAD_S);
    if (c->provider) {
        c->channel = make_channel_credentials(c);
    }
    if (!c->channel) {
        err_set(err, ERR_INVALID, "%s, %s and %s cannot be used for TLS", o->certificate_file,
                o->key_file, o->ca_file);
        rpc_credentials_free(c);
        return NULL;
    }
    c->given = (struct rpc_credentials_options){
        .certificate_file = mem_strdup(o->certificate_file),
        .key_file = mem_strdup(o->key_file),
        .ca_file = mem_strdup(o->ca_file),
        .peer_name = o->peer_name && o->peer_name[0] ? mem_strdup(o->peer_name) : NULL};
    return c;
}

void rpc_credentials_free(struct rpc_credentials *c)
{
    if (!c) {
        return;
    }
    grpc_channel_credentials_release(c->channel);
    if (c->provider) {
        grpc_tls_certificate_provider_release(c->provider);
    }
    free_text(c->given.certificate_file);
    free_text(c->given.key_file);
    free_text(c->given.ca_file);
    free_text(c->given.peer_name);
    free(c);
}

const struct rpc_credentials_options *rpc_credentials_given(const struct rpc_credentials *c)
{
    return &c->given;
}

/* What passes in a Unix-domain socket stays on this host, with this user. */
static bool is_plain(const struct rpc_credentials *c, const char *address)
{
    return !c || strncmp(address, "unix:", 5) == 0;
}

grpc_channel *rpc_credentials_channel(const struct rpc_credentials *c, const char *target,
                                      struct rpc_args *args)
{
    bool plain = is_plain(c, target);
    if (!plain && c->given.peer_name) {
        rpc_args_add_text(args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, c->given.peer_name);
    }
    grpc_channel_credentials *own = plain ? grpc_insecure_credentials_create() : NULL;
    const grpc_channel_args channel_args = {.num_args = args->count, .args = args->arg};
    grpc_channel *channel = grpc_channel_create(target, plain ? own : c->channel, &channel_args);
    if (own) {
        grpc_channel_credentials_release(own);
    }
    return channel;
}

grpc_server_credentials *rpc_credentials_server(const struct rpc_credentials *c,
                                                const char *address)
{
    if (is_plain(c, address)) {
        return grpc_insecure_server_credentials_create();
    }
    grpc_tls_credentials_options *o = make_options(c);
    grpc_tls_credentials_options_set_cert_request_type(
        o, GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    return grpc_tls_server_credentials_create(o);
}
