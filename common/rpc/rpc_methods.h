/* SPDX-License-Identifier: Apache-2.0 */
/* A served service: its method table, checked against the proto. */
#ifndef GRADUS_RPC_RPC_METHODS_H
#define GRADUS_RPC_RPC_METHODS_H

#include "rpc/rpc.h"
#include "rpc/rpc_files.h"

struct rpc_method_entry {
    const struct rpc_method *row;
    const ProtobufCMessageDescriptor *input;
    const ProtobufCMessageDescriptor *output;
    bool client_streams;
    bool server_streams;
    char *path;    /* "/package.Service/Method"; owned */
    void *service; /* for the callbacks */
};

/* Fill @entries (one per method of @service, zeroed) in the order of the proto. On failure nothing
 * is owned. Errors: ERR_INVALID naming the method. */
int rpc_methods_check(const struct rpc_files *files, const ProtobufCServiceDescriptor *service,
                      const struct rpc_method *rows, size_t row_count, void *ctx,
                      struct rpc_method_entry *entries, struct err *err);

#endif
