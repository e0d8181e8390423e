/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes to gRPC and back, and details of an error as a message of their own: packed as
 * google.rpc.Status, as gRPC's richer error model has it, into one trailer. */
#include "rpc/rpc_status.h"

#include <stdlib.h>
#include <string.h>

#include <google/rpc/status.pb-c.h>

#include "base/mem.h"
#include "base/text.h"
#include "rpc/rpc_codec.h"

int rpc_code_of_err(int code)
{
    return code <= 0 && code >= ERR_UNAUTHENTICATED ? -code : -ERR_INTERNAL;
}

int rpc_code_to_err(int code)
{
    return code >= 0 && code <= -ERR_UNAUTHENTICATED ? -code : ERR_UNKNOWN;
}

unsigned char *rpc_details_pack(const struct err *err, const ProtobufCMessage *detail,
                                size_t *bytes)
{
    size_t value_bytes = protobuf_c_message_get_packed_size(detail);
    if (value_bytes > RPC_DETAILS_BYTES_MAX) {
        return NULL;
    }
    char *url = mem_printf(RPC_TYPE_URL "%s", detail->descriptor->name);
    struct err copy = *err;
    text_utf8(err->msg, copy.msg, sizeof copy.msg);
    unsigned char *value = mem_new(1, value_bytes + 1);
    protobuf_c_message_pack(detail, value);

    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT;
    any.type_url = url;
    any.value = (ProtobufCBinaryData){.len = value_bytes, .data = value};
    Google__Protobuf__Any *details[] = {&any};
    Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
    status.code = rpc_code_of_err(err->code);
    status.message = copy.msg;
    status.n_details = 1;
    status.details = details;

    unsigned char *out = NULL;
    size_t n = google__rpc__status__get_packed_size(&status);
    if (n <= RPC_DETAILS_BYTES_MAX) {
        out = mem_new(1, n);
        *bytes = google__rpc__status__pack(&status, out);
    }
    free(value);
    free(url);
    return out;
}

void rpc_status_release(struct rpc_status *status)
{
    free(status->details);
    *status = (struct rpc_status){0};
}

ProtobufCMessage *rpc_status_detail(const struct rpc_status *status,
                                    const ProtobufCMessageDescriptor *type)
{
    if (!status->details) {
        return NULL;
    }
    struct rpc_arena arena;
    rpc_arena_init(&arena, (size_t)1 << 20, NULL);
    ProtobufCAllocator limited = rpc_arena_allocator(&arena);
    const Google__Rpc__Status *packed =
        google__rpc__status__unpack(&limited, status->details_bytes, status->details);
    ProtobufCMessage *found = NULL;
    for (size_t i = 0; packed && !found && i < packed->n_details; i++) {
        const Google__Protobuf__Any *any = packed->details[i];
        const char *name = strrchr(any->type_url, '/');
        if (name && strcmp(name + 1, type->name) == 0 && any->value.len <= RPC_DETAILS_BYTES_MAX) {
            found = protobuf_c_message_unpack(type, NULL, any->value.len, any->value.data);
        }
    }
    rpc_arena_release(&arena);
    return found;
}
