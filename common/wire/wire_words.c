/* SPDX-License-Identifier: Apache-2.0 */
/* Checks ids, and translates states, roles, modes, policies and secrets between messages and our
 * types. A peer may send any number for an enum, so each is looked up. */
#include <string.h>

#include "base/text.h"
#include "wire/wire.h"

static bool id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

int wire_id_check(const char *id, const char *what, struct err *err)
{
    size_t length = id == NULL ? 0 : strnlen(id, WIRE_ID_BYTES_MAX + 1);
    if (length == 0) {
        return err_set(err, ERR_INVALID, "%s is empty", what);
    }
    char shown[64];
    if (length > WIRE_ID_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "%s %s has more than %d bytes", what,
                       text_shown(id, shown, sizeof shown), WIRE_ID_BYTES_MAX);
    }
    if (id[0] == '.' || id[0] == '-') {
        return err_set(err, ERR_INVALID, "%s %s begins with '%c'", what,
                       text_shown(id, shown, sizeof shown), id[0]);
    }
    for (size_t i = 0; i < length; i++) {
        if (!id_char(id[i])) {
            return err_set(err, ERR_INVALID,
                           "%s %s: byte %zu is not a letter, a digit, '.', '_' or '-'", what,
                           text_shown(id, shown, sizeof shown), i + 1);
        }
    }
    return 0;
}

static const char *enum_name(const ProtobufCEnumDescriptor *e, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(e, value);
    return v == NULL ? "UNKNOWN" : v->name;
}

const char *wire_state_name(Gradus__V1__JobState state)
{
    return enum_name(&gradus__v1__job_state__descriptor, (int)state);
}

const char *wire_role_name(Gradus__V1__NodeRole role)
{
    return enum_name(&gradus__v1__node_role__descriptor, (int)role);
}

Gradus__V1__Mode wire_mode_to_proto(enum training_mode mode)
{
    switch (mode) {
    case TRAINING_SYNC:
        return GRADUS__V1__MODE__SYNC;
    case TRAINING_ASYNC:
        return GRADUS__V1__MODE__ASYNC;
    case TRAINING_BOUNDED:
        break;
    }
    return GRADUS__V1__MODE__BOUNDED;
}

int wire_mode_from_proto(Gradus__V1__Mode in, enum training_mode *out, struct err *err)
{
    switch ((int)in) { /* a peer may send any number */
    case GRADUS__V1__MODE__SYNC:
        *out = TRAINING_SYNC;
        return 0;
    case GRADUS__V1__MODE__ASYNC:
        *out = TRAINING_ASYNC;
        return 0;
    case GRADUS__V1__MODE__BOUNDED:
        *out = TRAINING_BOUNDED;
        return 0;
    default:
        return err_set(err, ERR_INVALID, "mode %d is not one of SYNC (0), ASYNC (1), BOUNDED (2)",
                       (int)in);
    }
}

Gradus__V1__StalenessPolicy wire_policy_to_proto(enum staleness_policy policy)
{
    switch (policy) {
    case POLICY_NONE:
        break;
    case POLICY_MAX_STALENESS:
        return GRADUS__V1__STALENESS_POLICY__MAX_STALENESS;
    case POLICY_SCALE_LR:
        return GRADUS__V1__STALENESS_POLICY__SCALE_LR;
    case POLICY_DELAY_COMPENSATION:
        return GRADUS__V1__STALENESS_POLICY__DELAY_COMPENSATION;
    }
    return GRADUS__V1__STALENESS_POLICY__STALENESS_NONE;
}

int wire_policy_from_proto(Gradus__V1__StalenessPolicy in, enum staleness_policy *out,
                           struct err *err)
{
    switch ((int)in) { /* a peer may send any number */
    case GRADUS__V1__STALENESS_POLICY__STALENESS_NONE:
        *out = POLICY_NONE;
        return 0;
    case GRADUS__V1__STALENESS_POLICY__MAX_STALENESS:
        *out = POLICY_MAX_STALENESS;
        return 0;
    case GRADUS__V1__STALENESS_POLICY__SCALE_LR:
        *out = POLICY_SCALE_LR;
        return 0;
    case GRADUS__V1__STALENESS_POLICY__DELAY_COMPENSATION:
        *out = POLICY_DELAY_COMPENSATION;
        return 0;
    default:
        return err_set(err, ERR_INVALID,
                       "staleness policy %d is not one of STALENESS_NONE (0), MAX_STALENESS (1), "
                       "SCALE_LR (2), DELAY_COMPENSATION (3)",
                       (int)in);
    }
}

struct fence wire_fence_from_proto(uint64_t opening, const ProtobufCBinaryData *secret)
{
    struct fence fence = {.opening = opening};
    if (secret->len == sizeof fence.secret) {
        memcpy(fence.secret, secret->data, sizeof fence.secret);
    }
    return fence;
}

ProtobufCBinaryData wire_secret_to_proto(const struct fence *fence)
{
    union { /* the message has no pointers to const, and nobody writes through it */
        const uint8_t *in;
        uint8_t *out;
    } secret = {.in = fence->secret};
    return (ProtobufCBinaryData){.len = sizeof fence->secret, .data = secret.out};
}
