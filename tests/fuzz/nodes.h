/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to other processes (the client's half of rpc/rpc.h) without gRPC: each is answered, when
 * served_run() comes to it, with the next message of its type that the input has, or refused. */
#ifndef GRADUS_TESTS_FUZZ_NODES_H
#define GRADUS_TESTS_FUZZ_NODES_H

#include "fuzz/message.h"
#include "rpc/rpc.h"

/* Forget what there was, and add an answer; @bytes are borrowed. */
void nodes_begin(void);
void nodes_answer(const ProtobufCMessageDescriptor *type, const struct fuzz_call_bytes *bytes);
/* Where there is no more of a type, this one (packed, borrowed) is the answer, each time. */
void nodes_default(const ProtobufCMessageDescriptor *type, const void *data, size_t n);

#endif
