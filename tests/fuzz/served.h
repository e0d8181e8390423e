/* SPDX-License-Identifier: Apache-2.0 */
/* Services without gRPC and without threads: what a handler does with a call (rpc/rpc.h), posts to
 * a loop or a pool (execution/) and asks of the clock is done here, one thing after the other on
 * one thread, so that an input always runs in the same way. Requests are decoded by the real codec.
 */
#ifndef GRADUS_TESTS_FUZZ_SERVED_H
#define GRADUS_TESTS_FUZZ_SERVED_H

#include "fuzz/fuzz.h"
#include "rpc/rpc.h"

#define SERVED_CALLS_MAX 64

/* A row of a service, as its table has it, with the type of its requests. */
struct served_method {
    const struct rpc_method *row;
    const ProtobufCMessageDescriptor *input;
    void *service;
};

/* The methods of @service by its table, appended to @out at *@count. */
void served_methods(const ProtobufCServiceDescriptor *service, const struct rpc_method *rows,
                    size_t row_count, void *ctx, struct served_method *out, unsigned *count);

/* Make a unary call, or send a message on the one stream of the method; run what it posts. False:
 * these bytes are no request. @pieces: the message comes in slices of so many bytes. */
bool served_call(const struct served_method *m, const uint8_t *data, size_t n, size_t piece);
/* All calls are over: those that wait are cancelled. Run what is posted. */
void served_end(void);
/* Run what was posted, until there is nothing. */
void served_run(void);

/* Who calls from now on: its metadata of every key, and whether through a local socket. */
void served_caller(const char *metadata, bool local);

#endif
