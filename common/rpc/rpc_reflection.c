/* SPDX-License-Identifier: Apache-2.0 */
/* Server reflection: generic clients ask which services there are and for their .proto files. */
#include <stdlib.h>
#include <string.h>

#include <grpc/reflection/v1/reflection.pb-c.h>

#include "base/mem.h"
#include "rpc/rpc_server.h"
#include "rpc/rpc_status.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

/* The response names the question already, so the message need not repeat it. */
static void respond_error(struct rpc_call *call, reflection_response response, int code,
                          const char *text)
{
    char *message = mem_strdup(text);
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    error.error_code = rpc_code_of_err(code);
    error.error_message = message;
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    response.error_response = &error;
    rpc_send(call, &response.base, NULL);
    free(message);
}

static ProtobufCBinaryData raw_of(const struct rpc_file *file)
{
    union { /* packing only reads, but the struct has no const */
        const unsigned char *in;
        unsigned char *out;
    } data = {.in = file->raw};
    return (ProtobufCBinaryData){.len = file->raw_bytes, .data = data.out};
}

/* The file and what it imports directly; a client asks for the rest by name. */
static void respond_file(struct rpc_call *call, reflection_response response,
                         const struct rpc_files *files, const struct rpc_file *file)
{
    size_t imports = file->proto->n_dependency;
    ProtobufCBinaryData *data = mem_new(imports + 1, sizeof(*data));
    size_t n = 0;
    data[n++] = raw_of(file);
    for (size_t i = 0; i < imports; i++) {
        const struct rpc_file *import = rpc_files_find(files, file->proto->dependency[i]);
        if (import) {
            data[n++] = raw_of(import);
        }
    }
    Grpc__Reflection__V1__FileDescriptorResponse list =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    list.n_file_descriptor_proto = n;
    list.file_descriptor_proto = data;
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    response.file_descriptor_response = &list;
    rpc_send(call, &response.base, NULL);
    free(data);
}

static void respond_services(struct rpc_call *call, reflection_response response,
                             const struct rpc_server *s)
{
    size_t n = s->service_count;
    Grpc__Reflection__V1__ServiceResponse *services = mem_new(n, sizeof(*services));
    Grpc__Reflection__V1__ServiceResponse **pointers =
        mem_new(n, sizeof(Grpc__Reflection__V1__ServiceResponse *));
    char **names = mem_new(n, sizeof(char *));
    for (size_t i = 0; i < n; i++) {
        names[i] = mem_strdup(s->services[i].descriptor->name);
        grpc__reflection__v1__service_response__init(&services[i]);
        services[i].name = names[i];
        pointers[i] = &services[i];
    }
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    list.n_service = n;
    list.service = pointers;
    response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    response.list_services_response = &list;
    rpc_send(call, &response.base, NULL);
    for (size_t i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    free(pointers);
    free(services);
}

static void on_info(struct rpc_call *call, struct rpc_msg *msg, void *ctx)
{
    const struct rpc_server *s = ctx;
    reflection_request request = *(const reflection_request *)msg->body;
    reflection_response response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    response.valid_host = request.host;
    response.original_request = &request;
    const struct rpc_file *file = NULL;
    switch (request.message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        respond_services(call, response, s);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        file = rpc_files_find(&s->files, request.file_by_filename);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        file = rpc_files_find_symbol(&s->files, request.file_containing_symbol);
        break;
    default: /* proto3 has no extensions */
        respond_error(call, response, ERR_UNSUPPORTED, "this kind of request is not served");
        return;
    }
    if (file) {
        respond_file(call, response, &s->files, file);
    } else {
        respond_error(call, response, ERR_NOT_FOUND, "not found");
    }
}

static const struct rpc_method methods[] = {
    {.name = "ServerReflectionInfo", .request = on_info, .flags = RPC_END_ON_STOP},
};

/* v1alpha is the same on the wire, so it is served with the messages of v1. */
static const ProtobufCMethodDescriptor v1alpha_methods[] = {
    {"ServerReflectionInfo", &grpc__reflection__v1__server_reflection_request__descriptor,
     &grpc__reflection__v1__server_reflection_response__descriptor},
};
static const unsigned v1alpha_order[] = {0};
static const ProtobufCServiceDescriptor v1alpha = {
    .magic = PROTOBUF_C__SERVICE_DESCRIPTOR_MAGIC,
    .name = "grpc.reflection.v1alpha.ServerReflection",
    .short_name = "ServerReflection",
    .c_name = "Grpc__Reflection__V1alpha__ServerReflection",
    .package = "grpc.reflection.v1alpha",
    .n_methods = 1,
    .methods = v1alpha_methods,
    .method_indices_by_name = v1alpha_order,
};

int rpc_reflection_add(struct rpc_server *s, struct err *err)
{
    int rc =
        rpc_server_add(s, &grpc__reflection__v1__server_reflection__descriptor, methods, 1, s, err);
    return rc != 0 ? rc : rpc_server_add(s, &v1alpha, methods, 1, s, err);
}
