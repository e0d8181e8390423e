/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf-c packs into a buffer of the caller's, which is a file here. */
#include "onnx/onnx_message.h"

#include "onnx/onnx.pb-c.h"
#include "storage/storage.h"

struct sink {
    ProtobufCBuffer base;
    struct storage_writer file;
    int rc;
    struct err *err;
};

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data)
{
    struct sink *s = (struct sink *)buffer;
    if (s->rc == 0) {
        s->rc = storage_add(&s->file, data, n, s->err);
    }
}

int onnx_message_write(const Onnx__ModelProto *m, const char *location, struct err *err)
{
    struct sink s = {.base = {.append = append}, .err = err};
    s.rc = storage_create(&s.file, location, err);
    if (s.rc != 0) {
        return s.rc;
    }
    (void)onnx__model_proto__pack_to_buffer(m, &s.base);
    if (s.rc != 0) {
        storage_abort(&s.file);
        return s.rc;
    }
    return storage_commit(&s.file, err);
}
