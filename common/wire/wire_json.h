/* SPDX-License-Identifier: Apache-2.0 */
/* Any message as JSON, by protobuf's own mapping (protobuf.dev, "ProtoJSON format"): names in
 * lowerCamelCase, 64-bit numbers as strings, enums by name, bytes in base64, NaN and Infinity as
 * strings. It walks protobuf-c's descriptors.
 *
 * Scripts read it (the master's /api/v1, `gradus --json`), so a name that exists is there: fields
 * without presence are written with their default value, too: 0, "", false, [], an enum's first
 * name. Left out are messages that are missing, what a oneof does not have, and fields numbered
 * from WIRE_JSON_PRIVATE on, which the process that keeps the message shows to nobody. */
#ifndef GRADUS_WIRE_WIRE_JSON_H
#define GRADUS_WIRE_WIRE_JSON_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

#define WIRE_JSON_PRIVATE 100

/* Appends @message as one object. Strings that are no UTF-8 are shown as text_utf8() does. */
void wire_json(const ProtobufCMessage *message, struct buf *out);
/* Appends @v, which is finite, in the fewest digits that read back to the same bits: of a double,
 * or with @single of a float. */
void wire_json_digits(double v, bool single, struct buf *out);

#endif
