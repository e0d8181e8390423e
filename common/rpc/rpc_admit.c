/* SPDX-License-Identifier: Apache-2.0 */
/* Who calls: reads what gRPC knows of a call's connection and puts it to the server's guard. */
#include <stdlib.h>
#include <string.h>

#include "rpc/rpc_call.h"

#define URIS_MAX 16 /* of a certificate; ours have two at most */

/* The first value of a property; NULL: it has none. Values end with a NUL that they do not count.
 */
static const char *property(const grpc_auth_context *context, const char *name)
{
    grpc_auth_property_iterator i = grpc_auth_context_find_properties_by_name(context, name);
    const grpc_auth_property *p = grpc_auth_property_iterator_next(&i);
    return p && strlen(p->value) == p->value_length ? p->value : NULL;
}

static size_t read_uris(const grpc_auth_context *context, const char *uris[URIS_MAX])
{
    size_t count = 0;
    grpc_auth_property_iterator i =
        grpc_auth_context_find_properties_by_name(context, GRPC_PEER_URI_PROPERTY_NAME);
    for (const grpc_auth_property *p; (p = grpc_auth_property_iterator_next(&i)) != NULL;) {
        if (count < URIS_MAX && strlen(p->value) == p->value_length) {
            uris[count++] = p->value;
        }
    }
    return count;
}

static void read_certificate(const grpc_auth_context *context, struct rpc_arriving *out,
                             const char *uris[URIS_MAX])
{
    out->certified = property(context, GRPC_X509_PEM_CERT_PROPERTY_NAME) != NULL;
    if (!out->certified) {
        return;
    }
    out->certificate = (struct auth_certificate){
        .common_name = property(context, GRPC_X509_CN_PROPERTY_NAME),
        .subject = property(context, GRPC_X509_SUBJECT_PROPERTY_NAME),
        .uris = uris,
        .uri_count = read_uris(context, uris),
    };
}

/* The value of the header `authorization`; returns owned, NULL: there is none, or it is no text. */
static char *read_authorization(const struct rpc_call *call)
{
    const grpc_metadata *header = rpc_header_find(&call->metadata, RPC_AUTHORIZATION_KEY);
    if (!header) {
        return NULL;
    }
    char *text = rpc_slice_to_str(grpc_slice_ref(header->value));
    if (strlen(text) != GRPC_SLICE_LENGTH(header->value)) {
        free(text);
        return NULL;
    }
    return text;
}

int rpc_call_admit(struct rpc_call *call, const struct rpc_method_entry *entry, struct err *err)
{
    const struct rpc_guard *guard = call->server->guard;
    if (!guard) {
        auth_identity_open(&call->caller);
        return 0;
    }
    const char *uris[URIS_MAX];
    char *authorization = read_authorization(call);
    struct rpc_arriving arriving = {.call = call,
                                    .method = entry->path + 1, /* without the '/' */
                                    .authorization = authorization};
    grpc_auth_context *context = grpc_call_auth_context(call->grpc);
    if (context) {
        read_certificate(context, &arriving, uris);
    }
    arriving.local = strncmp(rpc_peer(call), "unix:", 5) == 0; /* rpc_peer() keeps it for later */
    int rc = guard->admit(guard->ctx, &arriving, &call->caller, err);
    if (context) {
        grpc_auth_context_release(context);
    }
    free(authorization);
    return rc;
}
