/* SPDX-License-Identifier: Apache-2.0 */
/* The .proto files of the served services, from serialized FileDescriptorSets: what protobuf-c's
 * descriptors lack (which side streams) and what reflection hands out. */
#ifndef GRADUS_RPC_RPC_FILES_H
#define GRADUS_RPC_RPC_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include <google/protobuf/descriptor.pb-c.h>

#include "base/err.h"

struct rpc_file {
    const unsigned char *raw; /* its FileDescriptorProto, borrowed from the set */
    size_t raw_bytes;
    Google__Protobuf__FileDescriptorProto *proto;
};

struct rpc_files {
    struct rpc_file *files;
    size_t count;
    size_t capacity;
};

/* Add the files of the set (borrows) that are not there yet. Errors: ERR_CORRUPT. */
int rpc_files_add(struct rpc_files *f, const unsigned char *set, size_t bytes, struct err *err);
void rpc_files_release(struct rpc_files *f);

/* NULL when absent. */
const struct rpc_file *rpc_files_find(const struct rpc_files *f, const char *file_name);
/* The file that defines a service, method, message or enum by its full name. */
const struct rpc_file *rpc_files_find_symbol(const struct rpc_files *f, const char *symbol);
const Google__Protobuf__ServiceDescriptorProto *rpc_files_find_service(const struct rpc_files *f,
                                                                       const char *service);

#endif
