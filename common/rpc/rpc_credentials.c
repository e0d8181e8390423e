/* SPDX-License-Identifier: Apache-2.0 */
/* TLS and tokens of servers and channels. gRPC's core reads the files again each second on a thread
 * of its own: open connections stay, new ones are made with the content that the files have then.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "rpc/rpc_grpc.h"
#include "rpc/rpc_token.h"

#define RELOAD_S 1

struct rpc_credentials {
    grpc_tls_certificate_provider *provider; /* NULL: no TLS */
    grpc_channel_credentials *channel; /* one for all: channels to one target share a connection */
    struct rpc_token *token;           /* NULL: none */
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
    if (c->given.certificate_file) {
        grpc_tls_credentials_options_watch_identity_key_cert_pairs(o);
    }
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

static char *copy(const char *text)
{
    return text && text[0] ? mem_strdup(text) : NULL;
}

static int open_tls(struct rpc_credentials *c, struct err *err)
{
    const struct rpc_credentials_options *o = &c->given;
    c->provider = grpc_tls_certificate_provider_file_watcher_create(
        o->key_file, o->certificate_file, o->ca_file, RELOAD_S);
    if (c->provider) {
        c->channel = make_channel_credentials(c);
    }
    return c->channel ? 0
                      : err_set(err, ERR_INVALID, "%s, %s and %s cannot be used for TLS",
                                o->certificate_file ? o->certificate_file : "no certificate",
                                o->key_file ? o->key_file : "no key", o->ca_file);
}

struct rpc_credentials *rpc_credentials_new(const struct rpc_credentials_options *o,
                                            struct err *err)
{
    struct rpc_credentials *c = mem_new(1, sizeof(*c));
    char *token_file = copy(o->token_file);
    c->given = (struct rpc_credentials_options){.certificate_file = copy(o->certificate_file),
                                                .key_file = copy(o->key_file),
                                                .ca_file = copy(o->ca_file),
                                                .peer_name = copy(o->peer_name),
                                                .clients_without_certificate =
                                                    o->clients_without_certificate,
                                                .token_file = token_file};
    int rc = c->given.ca_file ? open_tls(c, err) : 0;
    if (rc == 0 && (token_file || (o->token && o->token[0]))) {
        c->token = rpc_token_new(token_file, token_file ? NULL : o->token, err);
        rc = c->token ? 0 : ERR_INVALID;
    }
    if (rc != 0) {
        rpc_credentials_free(c);
        return NULL;
    }
    return c;
}

void rpc_credentials_free(struct rpc_credentials *c)
{
    if (!c) {
        return;
    }
    if (c->channel) {
        grpc_channel_credentials_release(c->channel);
    }
    if (c->provider) {
        grpc_tls_certificate_provider_release(c->provider);
    }
    free_text(c->given.certificate_file);
    free_text(c->given.key_file);
    free_text(c->given.ca_file);
    free_text(c->given.peer_name);
    free_text(c->given.token_file);
    rpc_token_free(c->token);
    free(c);
}

const struct rpc_credentials_options *rpc_credentials_given(const struct rpc_credentials *c)
{
    return &c->given;
}

bool rpc_credentials_tls(const struct rpc_credentials *c)
{
    return c && c->provider;
}

/* What passes in a Unix-domain socket stays on this host, with this user. */
static bool is_local(const char *address)
{
    return strncmp(address, "unix:", 5) == 0;
}

static bool is_plain(const struct rpc_credentials *c, const char *address)
{
    return !rpc_credentials_tls(c) || is_local(address);
}

/* ---- tokens ---- */

static bool is_loopback(const char *address)
{
    char host[256];
    unsigned char bytes[16];
    static const unsigned char one[16] = {[15] = 1};
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : strlen(address);
    bool in_brackets = n > 1 && address[0] == '[' && address[n - 1] == ']';
    (void)snprintf(host, sizeof(host), "%.*s", (int)(in_brackets ? n - 2 : n),
                   address + in_brackets);
    if (inet_pton(AF_INET, host, bytes) == 1) {
        return bytes[0] == 127;
    }
    if (inet_pton(AF_INET6, host, bytes) == 1) {
        return memcmp(bytes, one, sizeof(one)) == 0;
    }
    return strcasecmp(host, "localhost") == 0;
}

int rpc_credentials_check(const struct rpc_credentials *c, const char *target, struct err *err)
{
    if (!c || !c->token || !is_plain(c, target) || is_local(target) || is_loopback(target)) {
        return 0;
    }
    return err_set(err, ERR_INVALID,
                   "a token is not sent to %s without TLS, where whoever listens on the way could "
                   "take it: give --tls-ca, or no token",
                   target);
}

bool rpc_credentials_authorize(const struct rpc_credentials *c, const char *target, struct buf *out)
{
    bool has = c && c->token && !is_local(target);
    if (has) {
        rpc_token_add(c->token, out);
    }
    return has;
}

/* ---- channels and servers ---- */

grpc_channel *rpc_credentials_channel(const struct rpc_credentials *c, const char *target,
                                      struct rpc_args *args)
{
    bool plain = is_plain(c, target);
    if (!plain && c->given.peer_name) {
        rpc_args_add_text(args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, c->given.peer_name);
    }
    grpc_channel_credentials *own = plain ? grpc_insecure_credentials_create() : NULL;
    const grpc_channel_args channel_args = {.num_args = args->count, .args = args->arg};
    char *url = rpc_address_url(target);
    grpc_channel *channel = grpc_channel_create(url, plain ? own : c->channel, &channel_args);
    free(url);
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
        o, c->given.clients_without_certificate
               ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    return grpc_tls_server_credentials_create(o);
}
