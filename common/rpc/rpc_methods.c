/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, before a service is served, that its table of methods and its proto agree: a row for
 * each rpc, and bulk fields that are single bytes fields. */
#include "rpc/rpc_methods.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const Google__Protobuf__MethodDescriptorProto *
find_proto(const Google__Protobuf__ServiceDescriptorProto *service, const char *name)
{
    for (size_t i = 0; i < service->n_method; i++) {
        if (service->method[i]->name && strcmp(service->method[i]->name, name) == 0) {
            return service->method[i];
        }
    }
    return NULL;
}

static const struct rpc_method *find_row(const struct rpc_method *rows, size_t count,
                                         const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].name && strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Every row is an rpc of the proto, once. */
static int check_rows(const ProtobufCServiceDescriptor *service, const struct rpc_method *rows,
                      size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].name) {
            return err_set(err, ERR_INVALID, "row %zu of service %s has no name", i, service->name);
        }
        if (!protobuf_c_service_descriptor_get_method_by_name(service, rows[i].name)) {
            return err_set(err, ERR_INVALID, "service %s has no rpc %s in the proto", service->name,
                           rows[i].name);
        }
        if (find_row(rows, count, rows[i].name) != &rows[i]) {
            return err_set(err, ERR_INVALID, "service %s: two rows for %s", service->name,
                           rows[i].name);
        }
    }
    return 0;
}

static int check_bulk(const ProtobufCMessageDescriptor *type, uint32_t field, struct err *err)
{
    if (field == 0) {
        return 0;
    }
    const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(type, field);
    if (!d || d->type != PROTOBUF_C_TYPE_BYTES || d->label == PROTOBUF_C_LABEL_REPEATED) {
        return err_set(err, ERR_INVALID, "field %u of %s is not a single bytes field", field,
                       type->name);
    }
    return 0;
}

static int check_row(const struct rpc_method_entry *e, struct err *err)
{
    if (!e->row->request) {
        return err_set(err, ERR_INVALID, "the row has no request callback");
    }
    if (!e->client_streams && (e->row->open || e->row->half_close)) {
        return err_set(err, ERR_INVALID,
                       "the client does not stream, so open and half_close are never called");
    }
    int rc = check_bulk(e->input, e->row->request_bulk, err);
    return rc != 0 ? rc : check_bulk(e->output, e->row->response_bulk, err);
}

int rpc_methods_check(const struct rpc_files *files, const ProtobufCServiceDescriptor *service,
                      const struct rpc_method *rows, size_t row_count, void *ctx,
                      struct rpc_method_entry *entries, struct err *err)
{
    const Google__Protobuf__ServiceDescriptorProto *proto =
        rpc_files_find_service(files, service->name);
    if (!proto) {
        return err_set(err, ERR_INVALID, "service %s is not in the descriptor set", service->name);
    }
    int rc = check_rows(service, rows, row_count, err);
    unsigned done = 0;
    for (; rc == 0 && done < service->n_methods; done++) {
        const ProtobufCMethodDescriptor *method = &service->methods[done];
        const Google__Protobuf__MethodDescriptorProto *p = find_proto(proto, method->name);
        const struct rpc_method *row = find_row(rows, row_count, method->name);
        if (!p || !row) {
            rc = err_set(err, ERR_INVALID, "service %s: no %s for %s", service->name,
                         p ? "row" : "rpc in the descriptor set", method->name);
            break;
        }
        entries[done] = (struct rpc_method_entry){
            .row = row,
            .input = method->input,
            .output = method->output,
            .client_streams = p->has_client_streaming && p->client_streaming,
            .server_streams = p->has_server_streaming && p->server_streaming,
            .path = mem_printf("/%s/%s", service->name, method->name),
            .service = ctx,
        };
        rc = check_row(&entries[done], err);
        if (rc != 0) {
            err_wrap(err, "%s.%s", service->name, method->name);
        }
    }
    for (unsigned i = 0; rc != 0 && i < service->n_methods; i++) {
        free(entries[i].path);
        entries[i] = (struct rpc_method_entry){0};
    }
    return rc;
}
