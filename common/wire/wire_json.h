/* SPDX-License-Identifier: Apache-2.0 */
/* Any message as JSON, by protobuf's own mapping (protobuf.dev, "ProtoJSON format"): names in
 * lowerCamelCase, 64-bit numbers as strings, enums by name, bytes in base64; fields that have their
 * default value are left out. It walks protobuf-c's descriptors. */
#ifndef GRADUS_WIRE_WIRE_JSON_H
#define GRADUS_WIRE_WIRE_JSON_H

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

/* Appends @message as one object. Strings that are no UTF-8 are shown as text_utf8() does. */
void wire_json(const ProtobufCMessage *message, struct buf *out);

#endif
