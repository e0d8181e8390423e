/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of a parameter server of which a test serves Exchange alone, or Fill, too. */
#ifndef GRADUS_TESTS_SUPPORT_PS_METHODS_H
#define GRADUS_TESTS_SUPPORT_PS_METHODS_H

#include "rpc/rpc.h"

#define VALUES_FIELD 15 /* of both messages */

static inline void not_served(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)msg;
    (void)service;
    struct err err;
    (void)err_set(&err, ERR_UNSUPPORTED, "not served");
    (void)rpc_fail(call, &err);
}

/* For an array of rpc_method, in the order of the proto; the arguments are what Exchange has. */
#define PS_METHODS(...) PS_METHODS_FILL(not_served, __VA_ARGS__)
#define PS_METHODS_FILL(fill, ...)                                                                 \
    {                                                                                              \
        {.name = "OpenShard", .request = not_served},                                              \
            {.name = "Fill", .request_bulk = VALUES_FIELD, .request = fill},                       \
            {.name = "SetMembership", .request = not_served},                                      \
            {.name = "Pull", .request = not_served}, {.name = "Read", .request = not_served},      \
            {.name = "Exchange",                                                                   \
             .request_bulk = VALUES_FIELD,                                                         \
             .response_bulk = VALUES_FIELD,                                                        \
             __VA_ARGS__},                                                                         \
            {.name = "Pin", .request = not_served}, {.name = "Unpin", .request = not_served},      \
            {.name = "Checkpoint", .request = not_served},                                         \
            {.name = "CloseShard", .request = not_served},                                         \
            {.name = "Stats", .request = not_served}, {.name = "Record", .request = not_served},   \
            {.name = "Trace", .request = not_served},                                              \
    }

#endif
