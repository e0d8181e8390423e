/* SPDX-License-Identifier: Apache-2.0 */
/* Takes control characters out of texts that came from the network, so that no other process can
 * send escape sequences to the user's terminal. It works on any message, by its descriptor. */
#include "client/plain.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

static void plain_lines(char *s)
{
    while (*s != '\0') {
        size_t n = strcspn(s, "\n\t"); /* who shows them says where lines begin */
        text_plain(s, n);
        s += n + (s[n] != '\0');
    }
}

static void plain_value(const ProtobufCFieldDescriptor *field, void *value)
{
    void *p = *(void **)value;
    if (p == NULL || p == field->default_value) {
        return;
    }
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        plain_message(p);
    } else if (strcmp(field->name, "text") == 0 || strcmp(field->name, "reason") == 0) {
        plain_lines(p);
    } else if (*(char *)p != '\0') { /* an absent one is a constant of the library */
        text_plain(p, strlen(p));
    }
}

void plain_message(ProtobufCMessage *msg)
{
    const ProtobufCMessageDescriptor *type = msg->descriptor;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        unsigned char *at = (unsigned char *)msg + field->offset;
        size_t count =
            *(const size_t *)(const void *)((unsigned char *)msg + field->quantifier_offset);
        bool chosen = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 ||
                      *(const uint32_t *)(const void *)((unsigned char *)msg +
                                                        field->quantifier_offset) == field->id;
        if ((field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE) ||
            !chosen) {
            continue;
        }
        if (field->label != PROTOBUF_C_LABEL_REPEATED) {
            plain_value(field, at);
            continue;
        }
        void **items = *(void ***)(void *)at;
        for (size_t k = 0; k < count; k++) {
            plain_value(field, &items[k]);
        }
    }
}

void plain_reply(struct rpc_msg *reply)
{
    if (reply == NULL) {
        return;
    }
    union { /* the message came from the wire and is memory of its own */
        const ProtobufCMessage *in;
        ProtobufCMessage *out;
    } body = {.in = reply->body};
    plain_message(body.out);
}

void plain_err(struct err *err)
{
    plain_lines(err->msg);
}
