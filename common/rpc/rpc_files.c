/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the descriptors of our .proto files, which are linked into the program, by file,
 * symbol or service. Keeps each file's original bytes, which reflection sends to clients. */
#include "rpc/rpc_files.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SET_FILE_TAG 0x0a /* FileDescriptorSet.file: field 1, length-delimited */

static bool length_read(const unsigned char *set, size_t bytes, size_t *pos, size_t *length)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && *pos < bytes; shift += 7) {
        unsigned char byte = set[(*pos)++];
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *length = (size_t)v;
            return v <= bytes - *pos;
        }
    }
    return false;
}

static int add_file(struct rpc_files *f, const unsigned char *raw, size_t bytes, struct err *err)
{
    Google__Protobuf__FileDescriptorProto *proto =
        google__protobuf__file_descriptor_proto__unpack(NULL, bytes, raw);
    if (!proto || !proto->name) {
        if (proto) {
            google__protobuf__file_descriptor_proto__free_unpacked(proto, NULL);
        }
        return err_set(err, ERR_CORRUPT, "descriptor set: file %zu cannot be read", f->count);
    }
    if (rpc_files_find(f, proto->name)) {
        google__protobuf__file_descriptor_proto__free_unpacked(proto, NULL);
        return 0;
    }
    f->files = mem_grow(f->files, &f->capacity, f->count + 1, sizeof(*f->files));
    f->files[f->count++] = (struct rpc_file){.raw = raw, .raw_bytes = bytes, .proto = proto};
    return 0;
}

int rpc_files_add(struct rpc_files *f, const unsigned char *set, size_t bytes, struct err *err)
{
    for (size_t pos = 0; pos < bytes;) {
        size_t length = 0;
        if (set[pos++] != SET_FILE_TAG || !length_read(set, bytes, &pos, &length)) {
            return err_set(err, ERR_CORRUPT, "descriptor set: broken at byte %zu of %zu", pos,
                           bytes);
        }
        int rc = add_file(f, set + pos, length, err);
        if (rc != 0) {
            return rc;
        }
        pos += length;
    }
    return 0;
}

void rpc_files_release(struct rpc_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        google__protobuf__file_descriptor_proto__free_unpacked(f->files[i].proto, NULL);
    }
    free(f->files);
    *f = (struct rpc_files){0};
}

const struct rpc_file *rpc_files_find(const struct rpc_files *f, const char *file_name)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->files[i].proto->name, file_name) == 0) {
            return &f->files[i];
        }
    }
    return NULL;
}

/* The part of @symbol behind "<scope>.", or NULL. */
static const char *inside(const char *scope, const char *symbol)
{
    if (!scope || !*scope) {
        return symbol;
    }
    size_t n = strlen(scope);
    return strncmp(scope, symbol, n) == 0 && symbol[n] == '.' ? symbol + n + 1 : NULL;
}

static bool same(const char *name, const char *symbol)
{
    return name && strcmp(name, symbol) == 0;
}

static bool enums_have(Google__Protobuf__EnumDescriptorProto *const *enums, size_t count,
                       const char *symbol)
{
    for (size_t i = 0; i < count; i++) {
        if (same(enums[i]->name, symbol)) {
            return true;
        }
    }
    return false;
}

/* The depth is that of our own protos, which the compiler limits. */
static bool messages_have(Google__Protobuf__DescriptorProto *const *messages, size_t count,
                          const char *symbol)
{
    for (size_t i = 0; i < count; i++) {
        const Google__Protobuf__DescriptorProto *m = messages[i];
        if (same(m->name, symbol)) {
            return true;
        }
        const char *rest = inside(m->name, symbol);
        if (rest && rest != symbol &&
            (messages_have(m->nested_type, m->n_nested_type, rest) ||
             enums_have(m->enum_type, m->n_enum_type, rest))) {
            return true;
        }
    }
    return false;
}

static bool services_have(Google__Protobuf__ServiceDescriptorProto *const *services, size_t count,
                          const char *symbol)
{
    for (size_t i = 0; i < count; i++) {
        if (same(services[i]->name, symbol)) {
            return true;
        }
        const char *rest = services[i]->name ? inside(services[i]->name, symbol) : NULL;
        for (size_t k = 0; rest && k < services[i]->n_method; k++) {
            if (same(services[i]->method[k]->name, rest)) {
                return true;
            }
        }
    }
    return false;
}

const struct rpc_file *rpc_files_find_symbol(const struct rpc_files *f, const char *symbol)
{
    for (size_t i = 0; i < f->count; i++) {
        const Google__Protobuf__FileDescriptorProto *p = f->files[i].proto;
        const char *rest = inside(p->package, symbol);
        if (rest && (services_have(p->service, p->n_service, rest) ||
                     messages_have(p->message_type, p->n_message_type, rest) ||
                     enums_have(p->enum_type, p->n_enum_type, rest))) {
            return &f->files[i];
        }
    }
    return NULL;
}

const Google__Protobuf__ServiceDescriptorProto *rpc_files_find_service(const struct rpc_files *f,
                                                                       const char *service)
{
    for (size_t i = 0; i < f->count; i++) {
        const Google__Protobuf__FileDescriptorProto *p = f->files[i].proto;
        const char *rest = inside(p->package, service);
        for (size_t k = 0; rest && k < p->n_service; k++) {
            if (same(p->service[k]->name, rest)) {
                return p->service[k];
            }
        }
    }
    return NULL;
}
