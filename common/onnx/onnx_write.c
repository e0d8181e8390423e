/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a graph: the message goes to the storage piece by piece as it is packed, so that large
 * parts are never copied. Of two files, the one with the elements is complete before the one that
 * names it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx_graph_impl.h"
#include "onnx/onnx_message.h"
#include "storage/storage.h"

/* Smaller constants stay in the message: readers want the sizes of reshapes there. */
#define EXTERNAL_BYTES_MIN 1024
/* Places in the other file are multiples of a page, so that it can be mapped. */
#define EXTERNAL_ALIGN 4096U

/* ---- elements in the other file ---- */

static bool is_external(const struct onnx_constant *c)
{
    return c->bytes >= EXTERNAL_BYTES_MIN;
}

static int pad(struct storage_writer *w, struct err *err)
{
    static const char zeros[EXTERNAL_ALIGN];
    const size_t over = w->bytes % EXTERNAL_ALIGN;
    return over == 0 ? 0 : storage_add(w, zeros, EXTERNAL_ALIGN - over, err);
}

/* @file: its name as the message has it. */
static int write_elements(struct onnx_graph *g, const char *location, const char *file,
                          struct err *err)
{
    struct storage_writer w = {0};
    int rc = storage_create(&w, location, err);
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < g->constant_count && rc == 0; i++) {
        const struct onnx_constant *c = &g->constants[i];
        if (!is_external(c)) {
            continue;
        }
        rc = pad(&w, err);
        if (rc == 0) {
            onnx_tensor_set_external(g->graph->initializer[i], file, w.bytes, c->bytes);
            rc = storage_add(&w, c->values, c->bytes, err);
        }
    }
    if (rc != 0) {
        storage_abort(&w);
        return rc;
    }
    return storage_commit(&w, err);
}

/* ---- the message ---- */

/* Lend the message the elements that belong in it, or take them back. */
static void lend(struct onnx_graph *g, bool external, bool there)
{
    for (size_t i = 0; i < g->constant_count; i++) {
        const struct onnx_constant *c = &g->constants[i];
        Onnx__TensorProto *t = g->graph->initializer[i];
        if (external && is_external(c)) {
            continue;
        }
        t->has_raw_data = there;
        t->raw_data.len = there ? c->bytes : 0;
        t->raw_data.data = there ? (uint8_t *)(uintptr_t)c->values : NULL;
    }
}

/* Of the message, with all constants, or with those that are never in the other file. */
static uint64_t message_bytes(const struct onnx_graph *g, bool external)
{
    uint64_t bytes = onnx__model_proto__get_packed_size(&g->model);
    for (size_t i = 0; i < g->constant_count; i++) {
        bytes += external && is_external(&g->constants[i]) ? 0 : g->constants[i].bytes;
    }
    return bytes;
}

int onnx_graph_write(struct onnx_graph *g, const char *location, bool external,
                     bool *wrote_external, struct err *err)
{
    const char *slash = strrchr(location, '/'), *name = slash == NULL ? location : slash + 1;
    if (name[0] == '\0') {
        return err_set(err, ERR_INVALID, "%s names no file", location);
    }
    external = external || message_bytes(g, false) > g->message_bytes_max;
    const uint64_t bytes = message_bytes(g, external);
    int rc = 0;
    if (bytes > g->message_bytes_max) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: without its constants the message would still have %" PRIu64
                       " MiB, keys of tables and categories above all; a file of ONNX may have "
                       "%" PRIu64 " MiB beside the constants",
                       location, bytes >> 20, g->message_bytes_max >> 20);
    }
    if (external) {
        char *other = mem_printf("%s" ONNX_EXTERNAL_SUFFIX, location);
        char *file = mem_printf("%s" ONNX_EXTERNAL_SUFFIX, name);
        rc = write_elements(g, other, file, err);
        free(other);
        free(file);
    }
    if (rc == 0) {
        lend(g, external, true);
        rc = onnx_message_write(&g->model, location, err);
        lend(g, external, false);
    }
    if (rc == 0 && wrote_external != NULL) {
        *wrote_external = external;
    }
    return rc;
}
