/* SPDX-License-Identifier: Apache-2.0 */
/* The services of a server, each with the handlers of its methods. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_server.h"

int rpc_server_add(struct rpc_server *s, const ProtobufCServiceDescriptor *service,
                   const struct rpc_method *methods, size_t method_count, void *ctx,
                   struct err *err)
{
    if (s->grpc) {
        return err_set(err, ERR_STATE, "service %s is added to a running server", service->name);
    }
    for (size_t i = 0; i < s->service_count; i++) {
        if (strcmp(s->services[i].descriptor->name, service->name) == 0) {
            return err_set(err, ERR_INVALID, "service %s is added twice", service->name);
        }
    }
    struct rpc_method_entry *entries = mem_new(service->n_methods + 1, sizeof(*entries));
    int rc = rpc_methods_check(&s->files, service, methods, method_count, ctx, entries, err);
    if (rc != 0) {
        free(entries);
        return rc;
    }
    s->services =
        mem_grow(s->services, &s->service_capacity, s->service_count + 1, sizeof(*s->services));
    s->services[s->service_count++] =
        (struct rpc_served){.descriptor = service, .entries = entries};
    return 0;
}
